//! A client of name servers that writes its messages itself, for tests of names.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

/// Asks a name server so many times, and prints each answer in a line: its code, and its addresses. `subnet` is the client's, as `10.1.0.0/16`, if any is to be passed on.
pub fn query(server: &str, name: &str, record: &str, times: u16, subnet: Option<&str>) -> Result<(), Box<dyn Error>> {
    let record: u16 = match record {
        "a" => 1,
        "aaaa" => 28,
        other => other.parse()?,
    };
    let any = if server.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    for id in 0..times {
        socket.send(&message(id, name, record, subnet)?)?;
        let mut answer = [0; 1_500];
        let length = socket.recv(&mut answer)?;
        println!("{}", shown(id, &answer[..length]).ok_or("the answer is malformed")?);
    }
    Ok(())
}

/// Looks a name up as programs do, and prints the addresses.
pub fn resolve(name: &str) -> Result<(), Box<dyn Error>> {
    let mut addresses: Vec<String> = (name, 0).to_socket_addrs()?.map(|address| address.ip().to_string()).collect();
    addresses.sort();
    addresses.dedup();
    println!("{}", addresses.join(" "));
    Ok(())
}

fn message(id: u16, name: &str, record: u16, subnet: Option<&str>) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(subnet.is_some())]);
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len())?);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes.extend(record.to_be_bytes());
    bytes.extend([0, 1]);
    if let Some((address, prefix)) = subnet.and_then(|subnet| subnet.split_once('/')) {
        let (address, prefix): (Ipv4Addr, u8) = (address.parse()?, prefix.parse()?);
        let given = &address.octets()[..usize::from(prefix.div_ceil(8))];
        let option = 4 + u16::try_from(given.len())?;
        bytes.extend([0, 0, 41, 4, 208, 0, 0, 0, 0]);
        bytes.extend((4 + option).to_be_bytes());
        bytes.extend([0, 8]);
        bytes.extend(option.to_be_bytes());
        bytes.extend([0, 1, prefix, 0]);
        bytes.extend(given);
    }
    Ok(bytes)
}

/// The code and the addresses of an answer to the question with this number.
fn shown(id: u16, answer: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u16::from_be_bytes([*answer.get(at)?, *answer.get(at + 1)?]));
    if word(0)? != id {
        return None;
    }
    let mut shown = vec![format!("rcode {}", answer.get(3)? & 0xf)];
    let mut at = 12;
    while *answer.get(at)? != 0 {
        at += 1 + usize::from(answer[at]);
    }
    at += 5;
    // Names of records are pointers to the question's.
    for _ in 0..word(6)? {
        let data = answer.get(at + 12..at + 12 + usize::from(word(at + 10)?))?;
        match (word(at + 2)?, data.first_chunk::<4>(), data.first_chunk::<16>()) {
            (1, Some(bytes), _) => shown.push(Ipv4Addr::from(*bytes).to_string()),
            (28, _, Some(bytes)) => shown.push(Ipv6Addr::from(*bytes).to_string()),
            _ => return None,
        }
        at += 12 + data.len();
    }
    Some(shown.join(" "))
}
