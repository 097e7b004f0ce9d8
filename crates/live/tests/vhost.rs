//! Guests at vhost-user sockets of a network.

use std::path::PathBuf;

use crate::bed::guest::{EVENT_IDX, Guest, MRG_RXBUF, TRANSMITQ, VERSION_1};
use crate::bed::{self, Bed, source};
use fabric::Overrides;
use live::Instance;

/// Two guests, one of them at a socket that is named, and two hosts.
const NETWORK: &str = "
name: guests
nodes:
  h1: { kind: host, ipv4: 10.0.0.1 }
  h2: { kind: host, ipv4: 10.0.0.2 }
  vm1: { kind: host, mac: '02:00:00:00:00:11', devices: ['vhost-user:'] }
  vm2: { kind: host, mac: '02:00:00:00:00:12', devices: ['vhost-user:SOCKET'] }
  s1: switch
links:
  - { between: [h1, s1] }
  - { between: [h2, s1] }
  - { between: [vm1, s1] }
  - { between: [vm2, s1] }
";

const FEATURES: u64 = VERSION_1 | EVENT_IDX | MRG_RXBUF;

struct Guests {
    bed: Bed,
    text: String,
}

impl Guests {
    fn new() -> Option<Self> {
        let bed = Bed::new()?;
        let text = NETWORK.replace("SOCKET", &bed.folder.path().join("vm2.sock").display().to_string());
        Some(Self { bed, text })
    }

    fn socket(&self, number: u8) -> PathBuf {
        let folder = self.bed.folder.path();
        if number == 1 { folder.join("heddle/guests/vhost-user/vm1.sock") } else { folder.join("vm2.sock") }
    }

    fn attach(&self, number: u8) -> Guest {
        Guest::attach(&self.socket(number), FEATURES)
    }
}

/// A frame from one guest to the other.
fn frame(from: u8, to: u8, number: u8) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, 0x10 + to], [2, 0, 0, 0, 0, 0x10 + from]].concat();
    frame.extend([0x88, 0xb5]);
    frame.resize(60, number);
    frame
}

/// Sends frames from one guest to the other until one has come: until both have a carrier, they are lost.
fn exchange((from, sender): (u8, &mut Guest), (to, receiver): (u8, &mut Guest), number: u8) {
    bed::wait_until("a frame has come", || {
        sender.send(&frame(from, to, number));
        std::iter::from_fn(|| receiver.receive()).any(|(_, received)| received == frame(from, to, number))
    });
}

fn fault(network: &Instance, host: &str) -> Option<String> {
    network.counters().unwrap().ports.into_iter().find(|port| port.host == host).unwrap().fault
}

#[test]
fn guests_exchange_frames_go_and_come_back_and_nobody_else_notices() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &guests.text);
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    for number in 0..3 {
        exchange((1, &mut one), (2, &mut two), number);
        exchange((2, &mut two), (1, &mut one), number);
        // Another one attaches at once.
        drop(two);
        bed::ping(&network, "h1", &[], 1, "h2");
        two = guests.attach(2);
    }
    exchange((1, &mut one), (2, &mut two), 9);
    assert_eq!(network.counters().unwrap().refused.malformed, 0);
}

#[test]
fn a_guest_that_talks_nonsense_is_cut_off_with_a_reason_until_the_next_one_comes() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &guests.text);
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    exchange((1, &mut one), (2, &mut two), 1);
    two.make_available(TRANSMITQ, 999);
    bed::wait_until("there is a reason", || fault(&network, "vm2").is_some());
    let reason = fault(&network, "vm2").unwrap();
    assert!(reason.contains("descriptor 999 in a table of 64"), "{reason}");
    assert_eq!(fault(&network, "vm1"), None);
    bed::ping(&network, "h1", &[], 1, "h2");
    drop(two);
    let mut two = guests.attach(2);
    exchange((1, &mut one), (2, &mut two), 2);
    bed::wait_until("nothing is wrong any more", || fault(&network, "vm2").is_none());
}

#[test]
fn guests_stay_attached_while_the_network_changes_and_links_may_have_rates() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &guests.text);
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    exchange((1, &mut one), (2, &mut two), 1);
    let shaped = guests.text.replace("[vm1, s1]", "[vm1, s1], rate: 1Gbit, delay: 1ms");
    network.apply(&source(&shaped), &Overrides::default()).unwrap();
    exchange((1, &mut one), (2, &mut two), 2);
    exchange((2, &mut two), (1, &mut one), 3);
    // A host of another name gets another socket, and the old one goes.
    let renamed = guests.text.replace("vm1", "vm3");
    network.apply(&source(&renamed), &Overrides::default()).unwrap();
    bed::wait_until("it is cut off", || one.is_cut_off());
    assert!(!guests.socket(1).exists() && guests.socket(1).with_file_name("vm3.sock").exists());
    drop(network);
    bed::wait_until("the network has gone", || guests.bed.is_empty());
    assert!(!guests.socket(2).exists());
}
