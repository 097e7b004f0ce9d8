//! Uplinks of hosts to what is outside of their network.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::process::Command;

use fabric::Overrides;
use live::{Error, Phase};

use crate::bed::{self, Bed, output, source};

const NETWORK: &str = "
name: uplinks
nodes:
  h1: { kind: host, uplink: nat }
  h2: host
links: [ { between: [h1, h2] } ]
";

fn has_pasta() -> bool {
    Command::new("pasta").arg("--version").output().is_ok()
}

/// An address of this machine that is none of its loopback, if it has one.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel chooses the address that it would send from.
    socket.connect("198.51.100.1:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(own) if !own.is_loopback() && !own.is_unspecified() => Some(own),
        _ => None,
    }
}

/// The same of IPv6.
fn own_ipv6_address() -> Option<Ipv6Addr> {
    let socket = UdpSocket::bind("[::]:0").ok()?;
    socket.connect("[2001:db8::1]:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V6(own) if !own.is_loopback() && !own.is_unspecified() => Some(own),
        _ => None,
    }
}

#[test]
fn a_host_with_an_uplink_reaches_what_the_machine_reaches() {
    let Some(bed) = Bed::new() else { return };
    let Some(own) = own_address().filter(|_| has_pasta()) else {
        eprintln!("SKIPPED: it needs pasta (Debian's package passt), and an address of this machine");
        return;
    };
    let network = bed.up("uplinks", NETWORK);
    let state = || network.programs().unwrap().into_iter().find(|state| state.program == "uplink").unwrap();
    let has_route = |host: &str| !output(network.command(host, "ip", ["-4", "route", "show", "default"])).is_empty();
    bed::wait_until("it has a default route", || has_route("h1"));
    assert_eq!((state().host.as_str(), state().phase), ("h1", Phase::Running));
    assert!(!has_route("h2"));
    assert!(output(network.command("h1", "cat", ["/etc/resolv.conf"])).starts_with("nameserver 192.0.0."));
    // A server on this machine, outside of the network.
    let listener = TcpListener::bind((own, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || listener.accept().map(|(stream, _)| drop(stream)));
    let script = format!("exec 3<>/dev/tcp/{own}/{port}");
    output(network.command("h1", "bash", ["-c", script.as_str()]));
    server.join().unwrap().unwrap();
    // The same by IPv6, where the machine has a way out by it.
    if let Some(own) = own_ipv6_address() {
        let listener = TcpListener::bind((own, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || listener.accept().map(|(stream, _)| drop(stream)));
        let script = format!("exec 3<>/dev/tcp/{own}/{port}");
        bed::wait_until("it reaches the machine by IPv6", || {
            network.command("h1", "bash", ["-c", script.as_str()]).unwrap().output().unwrap().status.success()
        });
        server.join().unwrap().unwrap();
    }
    // The machine's loopback is not what it reaches, and the network's other hosts are as near as before.
    let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = loopback.local_addr().unwrap().port();
    let _loopback_v6 = TcpListener::bind(("::1", port));
    for address in ["127.0.0.1", "192.0.0.1", "::1", "fd68:6564:646c:ffff::1"] {
        let script = format!("exec 3<>/dev/tcp/{address}/{port}");
        let status = network.command("h1", "timeout", ["1", "bash", "-c", script.as_str()]).unwrap().output().unwrap();
        assert!(!status.status.success(), "{address}");
    }
    bed::ping(&network, "h1", &["-4"], 1, "h2");
    let pid = state().pid.unwrap();
    // Without it in the file, it has ended, and so has the way out.
    network.apply(&source(&NETWORK.replace(", uplink: nat", "")), &Overrides::default()).unwrap();
    assert!(!bed::alive(pid));
    bed::wait_until("it has no route any more", || !has_route("h1"));
    network.apply(&source(NETWORK), &Overrides::default()).unwrap();
    bed::wait_until("it has one again", || has_route("h1"));
    let pid = state().pid.unwrap();
    network.down().unwrap();
    assert!(!bed::alive(pid) && bed.is_empty());
}

#[test]
fn without_pasta_it_is_said_what_to_install() {
    if has_pasta() {
        eprintln!("SKIPPED: pasta is there");
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("uplinks", &NETWORK.replace(", uplink: nat", ""));
    let error = network.apply(&source(NETWORK), &Overrides::default()).unwrap_err();
    let Error::Refused { message, hint, at } = error else { panic!("{error}") };
    assert!(message.contains("needs the program pasta") && hint.unwrap().contains("apt install passt"), "{message}");
    assert_eq!(at, ["nodes", "h1", "uplink"]);
    network.down().unwrap();
}
