//! A server that answers with the name of its host, by TCP and UDP, and a client that asks it: for tests of services.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

/// Bytes of a long answer.
const MUCH: usize = 8_000_000;

/// Bytes of a long datagram: more than a frame has.
const MUCH_BY_UDP: usize = 9_000;

/// Answers each line of each connection, and each datagram, at a port of all addresses: `from` with the client's address, `much` with eight million bytes, all else with its name. Says when it listens, and
/// ends with its starter.
pub fn serve(port: u16) -> Result<(), Box<dyn Error>> {
    let name = nix::unistd::gethostname()?.to_string_lossy().into_owned();
    let listener = TcpListener::bind(("::", port))?;
    // An answer is to come from the address that was asked: one socket each, since this one knows no other way.
    for address in own_addresses()? {
        let (socket, name) = (UdpSocket::bind((address, port))?, name.clone());
        thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, client)) = socket.recv_from(&mut bytes) {
                // A long question has an answer of its length.
                let mut said = name.clone().into_bytes();
                said.resize(said.len().max(if length < MUCH_BY_UDP { 0 } else { length }), b' ');
                let _ = socket.send_to(&said, client);
            }
        });
    }
    println!("ready");
    for stream in listener.incoming() {
        let (stream, name) = (stream?, name.clone());
        thread::spawn(move || answer(&stream, &name));
    }
    Ok(())
}

/// Answers one line of each connection, and resets it.
pub fn serve_and_reset(port: u16) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(("::", port))?;
    println!("ready");
    for stream in listener.incoming() {
        let mut stream = stream?;
        BufReader::new(&stream).read_line(&mut String::new())?;
        stream.write_all(b"once\n")?;
        // Without time to linger, a close is a reset (socket(7)).
        setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    }
    Ok(())
}

/// Says this to whoever connects.
pub fn say(port: u16, text: &str) -> Result<(), Box<dyn Error>> {
    for stream in TcpListener::bind(("::", port))?.incoming() {
        let _ = stream?.write_all(text.as_bytes());
    }
    Ok(())
}

fn own_addresses() -> Result<Vec<IpAddr>, Box<dyn Error>> {
    let addresses = nix::ifaddrs::getifaddrs()?.filter_map(|interface| interface.address);
    let ip = addresses.filter_map(|address| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(ipv4), _) => Some(ipv4.ip().into()),
        // Nobody asks at link-local addresses.
        (_, Some(ipv6)) => (!ipv6.ip().is_unicast_link_local()).then(|| ipv6.ip().into()),
        _ => None,
    });
    Ok(ip.collect())
}

fn answer(stream: &TcpStream, name: &str) {
    let mut writer = stream;
    let client = stream.peer_addr().map_or_else(|error| error.to_string(), |peer| peer.ip().to_canonical().to_string());
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let answered = match &*line {
            "from" => writer.write_all(format!("{client}\n").as_bytes()),
            "much" => writer.write_all(&vec![b'x'; MUCH]).and_then(|()| writer.write_all(b"\n")),
            // By one write: Nagle's algorithm has a second one wait for an acknowledgement, which comes late.
            _ => writer.write_all(format!("{name}\n").as_bytes()),
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Asks so many times by TCP, each time by another connection; prints what is answered, or how it failed.
pub fn ask(address: &str, times: u32, question: &str) {
    for _ in 0..times {
        match TcpStream::connect(address).and_then(|stream| ask_by(&stream, question)) {
            Ok(much) if much.len() == MUCH => println!("{}", much.len()),
            Ok(name) => println!("{name}"),
            Err(error) => println!("{}", error.kind()),
        }
    }
}

/// Asks once for each line of the standard input, by one connection.
pub fn hold(address: &str) -> Result<(), Box<dyn Error>> {
    let stream = TcpStream::connect(address)?;
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", ask_by(&stream, "who")?);
    }
    Ok(())
}

fn udp_socket(address: &str, port: u16) -> Result<UdpSocket, Box<dyn Error>> {
    let address: SocketAddr = address.parse()?;
    let any = if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { IpAddr::from([0, 0, 0, 0]) };
    let socket = UdpSocket::bind((any, port))?;
    socket.connect(address)?;
    Ok(socket)
}

/// Asks so many times from a port, and waits for no answer.
pub fn send_udp(address: &str, port: u16, times: u32) -> Result<(), Box<dyn Error>> {
    let socket = udp_socket(address, port)?;
    for _ in 0..times {
        socket.send(b"who")?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// As [`hold`], by UDP, from one port (0: any); what is not answered is asked again, for half a minute.
pub fn hold_udp(address: &str, port: u16) -> Result<(), Box<dyn Error>> {
    let socket = udp_socket(address, port)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut bytes = [0; 64];
    for line in std::io::stdin().lines() {
        line?;
        // An answer that is late is one to the next question.
        let asked_at = Instant::now();
        let length = loop {
            if socket.send(b"who").is_ok()
                && let Ok(length) = socket.recv(&mut bytes)
            {
                break length;
            }
            if asked_at.elapsed() > Duration::from_secs(30) {
                return Err("nobody answers".into());
            }
        };
        println!("{}", String::from_utf8_lossy(&bytes[..length]));
    }
    Ok(())
}

fn ask_by(stream: &TcpStream, question: &str) -> std::io::Result<String> {
    let mut writer = stream;
    writer.write_all(format!("{question}\n").as_bytes())?;
    let mut name = String::new();
    BufReader::new(stream).read_line(&mut name)?;
    Ok(name.trim().to_owned())
}

/// Asks by long datagrams from so many ports, which are answered by others as long.
pub fn ask_much_by_udp(address: &str, times: u32) -> Result<(), Box<dyn Error>> {
    for _ in 0..times {
        let socket = udp_socket(address, 0)?;
        socket.send(&[b'?'; MUCH_BY_UDP])?;
        let mut bytes = vec![0; 2 * MUCH_BY_UDP];
        let length = socket.recv(&mut bytes)?;
        let said = String::from_utf8_lossy(&bytes[..length]);
        println!("{} {length}", said.trim());
    }
    Ok(())
}

/// Asks by UDP from so many ports.
pub fn ask_by_udp(address: &str, times: u32) -> Result<(), Box<dyn Error>> {
    for _ in 0..times {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(address)?;
        socket.send(b"who")?;
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes)?;
        println!("{}", String::from_utf8_lossy(&bytes[..length]));
    }
    Ok(())
}
