//! Sends frames of 64 bytes by a device as fast as it takes them: the source of `benches/xdp.sh`.
//!
//! `flood DEVICE FROM_MAC FROM_IP TO_MAC TO_IP SECONDS`, as root: UDP to the port 9 (discard). Prints how many frames the device took.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use live::VNET_HEADER;
use live::packet::PacketPort;
use live::port::Port;
use wire::{EthernetRepr, Ipv4Repr, UdpRepr, ethertype, protocol};

/// Frames between two flushes, as after a worker's burst.
const BURST: u64 = 64;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((device, frame, seconds)) = parse(&args) else {
        eprintln!("usage: flood DEVICE FROM_MAC FROM_IP TO_MAC TO_IP SECONDS");
        return ExitCode::from(2);
    };
    let mut port = match PacketPort::open(device) {
        Ok(port) => port,
        Err(error) => {
            eprintln!("{device}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < seconds {
        let refused = (0..BURST).filter(|_| port.write(&frame).is_err()).count() as u64;
        sent += BURST - refused - port.flush().frames;
    }
    println!("{sent}");
    ExitCode::SUCCESS
}

/// The device, a frame behind its virtio-net header, and for how long.
fn parse(args: &[String]) -> Option<(&str, Vec<u8>, Duration)> {
    let [device, from_mac, from_ip, to_mac, to_ip, seconds] = args else { return None };
    let (src, dst) = (from_ip.parse::<Ipv4Addr>().ok()?, to_ip.parse::<Ipv4Addr>().ok()?);
    let (at_ip, at_udp) = (VNET_HEADER + 14, VNET_HEADER + 34);
    let mut frame = vec![0; VNET_HEADER + 64];
    EthernetRepr { dst: mac(to_mac)?, src: mac(from_mac)?, vlan: None, ethertype: ethertype::IPV4 }
        .emit(&mut frame[VNET_HEADER..]);
    let header = Ipv4Repr {
        src,
        dst,
        protocol: protocol::UDP,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: 64 - 34,
    };
    header.emit(&mut frame[at_ip..]);
    UdpRepr { src_port: 9, dst_port: 9, payload_len: 64 - 42 }.emit(&mut frame[at_udp..]);
    Some((device, frame, Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?))
}

/// `02:00:00:00:00:01`.
fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<_>>()?;
    bytes.try_into().ok()
}
