//! A bond of another program that announces its members' addresses to its peers: balance-alb as Linux has it, and active-backup with
//! `fail_over_mac=active`. What it announces is let through, and what is sent to those addresses comes to it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::bed::{self, output, source};
use crate::far_ends::{ip, with_far_ends};
use fabric::Overrides;
use live::packet::PacketPort;
use live::port::Port;
use live::{Instance, VNET_HEADER};
use wire::{ArpOperation, ArpPacket, ArpRepr, BROADCAST, EthernetPacket, EthernetRepr, ethertype};

const FILE: &str = "
name: announced
nodes: { h1: host, h2: host, guest: { kind: host, devices: [dev0, dev1] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [guest, s1]
  - between: [guest, s1]
bonds:
  - { host: guest, mode: MODE }
";

/// The guest's IPv4 address, as the fabric has it.
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
/// What the second device has; the first one has the address that the fabric gives the guest.
const SECOND: [u8; 6] = [2, 0xaa, 0, 0, 0, 1];

/// What is at the far ends: it answers ARP and pings, as a host does whose bond has two members.
struct Partner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    macs: [[u8; 6]; 2],
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// The member that takes what is for all.
    active: AtomicUsize,
    /// Frames to send, and by which device.
    outbox: Mutex<Vec<(usize, Vec<u8>)>>,
    /// The pings that came: by which device, and from which address.
    pings: Mutex<Vec<(usize, Ipv4Addr)>>,
}

impl Partner {
    /// `member_of` says by which member a peer is answered.
    fn start(ports: [PacketPort; 2], member_of: fn(&Shared, Ipv4Addr) -> usize) -> Self {
        let fabric = fabric::parse(&source(&FILE.replace("MODE", "balance-alb"))).unwrap();
        let macs = [fabric.topology.address(fabric.topology.node("guest").unwrap()).unwrap().mac, SECOND];
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(ports, &macs, &served, member_of));
        Self { shared, thread: Some(thread), macs }
    }

    /// Announces its address by ARP, by a device.
    fn announces(&self, device: usize, to: ([u8; 6], Ipv4Addr), operation: ArpOperation) {
        let message = ArpRepr {
            operation,
            sender_mac: self.macs[device],
            sender_ipv4: GUEST,
            target_mac: to.0,
            target_ipv4: to.1,
        };
        self.shared.outbox.lock().unwrap().push((device, arp(&message, to.0)));
    }

    /// By which devices each peer has pinged since this was asked last.
    fn pinged(&self) -> Vec<(usize, Ipv4Addr)> {
        let mut pings = std::mem::take(&mut *self.shared.pings.lock().unwrap());
        pings.sort();
        pings.dedup();
        pings
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there shows by what the test waits for in vain.
            let _ = thread.join();
        }
    }
}

fn arp(message: &ArpRepr, dst: [u8; 6]) -> Vec<u8> {
    let header = EthernetRepr { dst, src: message.sender_mac, vlan: None, ethertype: ethertype::ARP };
    let mut frame = vec![0; header.buffer_len() + message.buffer_len()];
    header.emit(&mut frame);
    message.emit(&mut frame[header.buffer_len()..]);
    frame
}

fn serve(mut ports: [PacketPort; 2], macs: &[[u8; 6]; 2], shared: &Shared, member_of: fn(&Shared, Ipv4Addr) -> usize) {
    let mut buffer = vec![0; 70_000];
    while !shared.ends.load(Ordering::Relaxed) {
        let mut out = std::mem::take(&mut *shared.outbox.lock().unwrap());
        for device in 0..2 {
            // A device without carrier reports an error.
            while let Ok(Some(len)) = ports[device].read(&mut buffer) {
                let frame = &mut buffer[VNET_HEADER..len];
                let is_active = shared.active.load(Ordering::Relaxed) == device;
                // As a card does, and a bond that drops copies.
                if frame[..6] != macs[device] && !(is_active && frame[0] & 1 == 1) {
                    continue;
                }
                out.extend(answer(device, frame, macs, shared, member_of));
            }
        }
        for (device, frame) in out {
            let _ = ports[device].write(&[&[0; VNET_HEADER][..], &frame].concat());
        }
        for port in &mut ports {
            let _ = port.flush();
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}

/// What is said to a frame, and by which device.
fn answer(
    device: usize,
    frame: &mut [u8],
    macs: &[[u8; 6]; 2],
    shared: &Shared,
    member_of: fn(&Shared, Ipv4Addr) -> usize,
) -> Option<(usize, Vec<u8>)> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    if ethernet.ethertype() == ethertype::ARP {
        let question = ArpRepr::parse(&ArpPacket::new_checked(ethernet.payload()).ok()?);
        if question.operation != ArpOperation::Request || question.target_ipv4 != GUEST {
            return None;
        }
        let member = member_of(shared, question.sender_ipv4);
        let message = ArpRepr {
            operation: ArpOperation::Reply,
            sender_mac: macs[member],
            sender_ipv4: GUEST,
            target_mac: question.sender_mac,
            target_ipv4: question.sender_ipv4,
        };
        return Some((member, arp(&message, question.sender_mac)));
    }
    // An echo request (RFC 792) in IPv4 without options.
    if ethernet.ethertype() != ethertype::IPV4 || frame.get(23) != Some(&1) || frame.get(34) != Some(&8) {
        return None;
    }
    let peer: [u8; 4] = frame[26..30].try_into().unwrap();
    shared.pings.lock().unwrap().push((device, peer.into()));
    frame.copy_within(6..12, 0);
    frame[6..12].copy_from_slice(&macs[device]);
    frame.copy_within(30..34, 26);
    frame[30..34].copy_from_slice(&peer);
    frame[34] = 0;
    // The type was 8 in the upper byte of a word of the sum.
    let (sum, carry) = u16::from_be_bytes([frame[36], frame[37]]).overflowing_add(0x0800);
    frame[36..38].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    Some((device, frame.to_vec()))
}

fn ping(network: &Instance, from: &str) {
    bed::ping(network, from, &["-4"], 5, "guest");
}

/// By which address a peer knows the guest.
fn known(network: &Instance, peer: &str) -> String {
    let text = output(network.command(peer, "ip", ["-4", "neighbour", "show", "10.0.0.3"]));
    let mut words = text.split_whitespace().skip_while(|word| *word != "lladdr");
    words.nth(1).unwrap_or_default().to_owned()
}

fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

const H1: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const H2: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Another member's address is announced to each of two peers, which is received by that member; also when another one is announced later, and when the
/// network around them changes.
#[test]
fn a_external_bond_in_balance_alb_receives_by_all_its_members() {
    with_far_ends(|bed, ports| {
        let partner = Partner::start(ports, |_, peer| usize::from(peer == H2));
        let text = FILE.replace("MODE", "balance-alb");
        let network = bed.up("announced", &text);
        let both = || ["h1", "h2"].iter().for_each(|peer| ping(&network, peer));
        both();
        assert_eq!(["h1", "h2"].map(|peer| known(&network, peer)), partner.macs.map(written));
        assert_eq!(partner.pinged(), [(0, H1), (1, H2)]);
        // The partner balances its peers anew (Linux: `rlb_update_client`).
        let fabric = fabric::parse(&source(&text)).unwrap();
        let mac_of = |peer: &str| fabric.topology.address(fabric.topology.node(peer).unwrap()).unwrap().mac;
        let swapped = [partner.macs[1], partner.macs[0]].map(written);
        // Linux does not believe a second answer within a second of the first (`locktime`).
        assert!(bed::soon(|| {
            partner.announces(1, (mac_of("h1"), H1), ArpOperation::Reply);
            partner.announces(0, (mac_of("h2"), H2), ArpOperation::Reply);
            ["h1", "h2"].map(|peer| known(&network, peer)) == swapped
        }));
        both();
        assert_eq!(partner.pinged(), [(0, H2), (1, H1)]);
        // What was learned outlives a change: nobody asks again.
        let changed =
            text.replace("s1: switch", "s1: switch, h3: host").replace("links:", "links:\n  - between: [h3, s1]");
        network.apply(&source(&changed), &Overrides::default()).unwrap();
        assert_eq!(["h1", "h2"].map(|peer| known(&network, peer)), swapped);
        both();
        assert_eq!(partner.pinged(), [(0, H2), (1, H1)]);
    });
}

/// When the first device loses its carrier, the partner announces the second one's address: all peers hear it, whether the switch has plain
/// ports there or a bond of its own.
#[test]
fn a_external_bond_announces_the_address_of_the_member_that_takes_over() {
    for mode in [
        "active-backup, fail-over-mac: active",
        "active-backup, fail-over-mac: active, ends: { s1: { mode: active-backup } }",
    ] {
        with_far_ends(move |bed, ports| {
            let partner = Partner::start(ports, |shared, _| shared.active.load(Ordering::Relaxed));
            let network = bed.up("announced", &FILE.replace("MODE", mode));
            let peers = ["h1", "h2"];
            for peer in peers {
                ping(&network, peer);
            }
            assert_eq!(peers.map(|peer| known(&network, peer)), [(); 2].map(|()| written(partner.macs[0])), "{mode}");
            partner.pinged();
            ip("link set far0 down");
            partner.shared.active.store(1, Ordering::Relaxed);
            let second = [(); 2].map(|()| written(partner.macs[1]));
            let heard = bed::soon(|| {
                partner.announces(1, (BROADCAST, GUEST), ArpOperation::Request);
                peers.map(|peer| known(&network, peer)) == second
            });
            assert!(heard, "{mode}");
            for peer in peers {
                ping(&network, peer);
            }
            assert_eq!(partner.pinged(), [(1, H1), (1, H2)], "{mode}");
        });
    }
}
