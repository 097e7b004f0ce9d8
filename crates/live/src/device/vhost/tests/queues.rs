//! A guest with several pairs of queues.

use std::collections::{BTreeMap, BTreeSet};

use machine::Rng;

use super::guest::*;
use super::*;
use crate::dataplane::burst_of;

/// What a guest with several pairs of queues uses.
const SEVERAL: u64 = MODERN | MQ | CTRL_VQ;

impl Rig {
    /// A guest with so many pairs of queues, all of which run.
    fn attach_pairs(&self, pairs: usize) -> Guest {
        let mut guest = Guest::connect(&self.path);
        guest.set_up(SEVERAL);
        (1..pairs).for_each(|pair| guest.start_pair(pair));
        until("all its pairs run", || self.attachment.queues().0 == pairs);
        guest
    }

    /// Sends a frame of each of so many flows, all of this number; by which pair each of them came to the guest.
    fn pairs_of_flows(&mut self, guest: &mut Guest, flows: u8, number: u8) -> BTreeMap<u8, usize> {
        let pairs = self.attachment.queues().1;
        let mut found = BTreeMap::new();
        for flow in 0..flows {
            // The thread that hears the guest may still look at the rings after what it has said.
            until("the port takes it", || self.write(&[], &of_flow(flow, number)));
            let mut receive = || (0..pairs).find_map(|pair| Some((pair, guest.receive_by(pair)?.1)));
            let mut received = None;
            until("it is there", || {
                received = receive();
                received.is_some()
            });
            let (pair, frame) = received.expect("it is there");
            assert_eq!((frame, receive()), (of_flow(flow, number), None));
            found.insert(flow, pair);
        }
        found
    }
}

/// A datagram of a flow: from a port of its own.
fn of_flow(flow: u8, number: u8) -> Vec<u8> {
    let mut frame = frame(number, 60);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0x40, flow, 0, 9]);
    frame
}

#[test]
fn several_queues_are_offered_where_there_are_several() {
    for queues in [1, 3] {
        let rig = Rig::with_queues(queues);
        let mut guest = Guest::connect(&rig.path);
        let number = |reply: Vec<u8>| u64::from_le_bytes(reply.try_into().unwrap());
        let (features, protocol) = (number(guest.ask(GET_FEATURES, &[])), number(guest.ask(15, &[])));
        assert_eq!(number(guest.ask(GET_QUEUE_NUM, &[])), u64::from(queues));
        let several = queues > 1;
        assert_eq!((features & MQ != 0, features & CTRL_VQ != 0), (several, several));
        assert_eq!((protocol & 1 != 0, protocol & 1 << 9 != 0), (several, several));
        let ask = [[6, 6, 0].map(u32::to_le_bytes).concat(), vec![0; 6]].concat();
        if several {
            let reply = guest.ask(GET_CONFIG, &ask);
            assert_eq!((&reply[..12], &reply[12..]), (&ask[..12], &[0, 0, queues, 0, 0, 0][..]));
        } else {
            guest.request(GET_CONFIG, &ask, &[]);
            until("it was not offered", || guest.is_cut_off());
        }
    }
}

#[test]
fn frames_are_taken_from_each_pair_in_turn() {
    let mut rig = Rig::with_queues(3);
    let mut guest = rig.attach_pairs(3);
    for number in 0..60 {
        for pair in [0, 2] {
            guest.send_by(pair, &[], &frame(100 * (pair as u8 / 2) + number, 60));
        }
    }
    guest.send_by(1, &[], &frame(200, 60));
    let numbers = |burst: Vec<Vec<u8>>| burst.iter().map(|frame| frame[VNET_HEADER + 20]).collect::<Vec<u8>>();
    let expected = |parts: &[std::ops::Range<u8>]| parts.iter().cloned().flatten().collect::<Vec<u8>>();
    let burst = numbers(burst_of(&mut rig.port));
    assert_eq!(burst, expected(&[0..16, 200..201, 100..116, 16..32, 116..131]));
    // It begins with the pair behind the one at which the last burst was full.
    let burst = numbers(burst_of(&mut rig.port));
    assert_eq!(burst, expected(&[32..48, 131..147, 48..60, 147..160]));
    assert!(burst_of(&mut rig.port).is_empty());
    // One by one as well.
    for number in 0..3 {
        (0..3).for_each(|pair| guest.send_by(pair, &[], &frame(10 * pair as u8 + number, 60)));
    }
    let mut pairs = BTreeSet::new();
    for _ in 0..3 {
        pairs.insert(rig.read()[VNET_HEADER + 20] / 10);
    }
    assert_eq!(pairs.len(), 3);
    drop(guest);
    rig.works_again();
}

#[test]
fn flows_are_spread_over_the_pairs_that_the_guest_has_enabled() {
    let mut rig = Rig::with_queues(3);
    let mut guest = rig.attach_pairs(3);
    let all = rig.pairs_of_flows(&mut guest, 60, 1);
    assert_eq!(all.values().collect::<BTreeSet<_>>().len(), 3, "{all:?}");
    assert_eq!(rig.pairs_of_flows(&mut guest, 60, 2), all, "each flow stays with its pair");
    let enable = |guest: &Guest, pair: u32, is: u32| {
        // The ring by which it sends comes first, so that both are as they shall be when the port says so.
        for ring in [2 * pair + 1, 2 * pair] {
            guest.request(SET_VRING_ENABLE, &super::guest::pair(ring, is), &[]);
        }
    };
    enable(&guest, 1, 0);
    until("it is disabled", || rig.attachment.queues() == (2, 3));
    let fewer = rig.pairs_of_flows(&mut guest, 60, 3);
    assert_eq!(fewer.values().copied().collect::<BTreeSet<_>>(), BTreeSet::from([0, 2]));
    // What it sends by that pair is not looked at.
    guest.send_by(1, &[], &frame(9, 60));
    guest.send_by(2, &[], &frame(10, 60));
    assert_eq!(rig.read()[VNET_HEADER + 20], 10);
    assert_eq!(rig.port.read(&mut [0; 2_000]).unwrap(), None);
    enable(&guest, 1, 1);
    until("it is enabled", || rig.attachment.queues() == (3, 3));
    assert_eq!(rig.read()[VNET_HEADER + 20], 9);
    assert_eq!(rig.pairs_of_flows(&mut guest, 60, 4), all);
    (0..3).for_each(|pair| enable(&guest, pair, 0));
    until("all are", || rig.attachment.queues() == (0, 3));
    // The last ring by which it receives is disabled behind the one by which it sends, and that one alone takes the carrier.
    until("its last ring is", || !rig.write(&[], &frame(1, 60)));
    assert!(!rig.attachment.has_carrier());
}

#[test]
fn the_guest_says_in_its_controlq_how_many_pairs_it_uses() {
    let mut rig = Rig::with_queues(2);
    let mut guest = rig.attach_pairs(2);
    // Behind the rings of the pairs; until a command comes, it uses one.
    guest.start(4);
    until("it runs", || rig.attachment.queues() == (1, 2));
    assert!(guest.command_pairs(4, 2) && rig.attachment.queues() == (2, 2));
    let spread = rig.pairs_of_flows(&mut guest, 40, 1);
    assert_eq!(spread.values().collect::<BTreeSet<_>>().len(), 2, "{spread:?}");
    for refused in [0, 3, 512] {
        assert!(!guest.command_pairs(4, refused) && rig.attachment.queues() == (2, 2), "{refused}");
    }
    for _ in 0..200 {
        assert!(guest.command_pairs(4, 1) && rig.attachment.queues() == (1, 2));
        assert!(rig.pairs_of_flows(&mut guest, 4, 2).values().all(|pair| *pair == 0));
        assert!(guest.command_pairs(4, 2));
    }
    // What is no command is refused; a chain without room for an answer is used all the same.
    let at = GUEST + buffer(4, 5);
    guest.write(buffer(4, 5), &[4, 0, 1, 0, 0, 9]);
    for (index, (offset, len, flags)) in [(0, 5, 1), (5, 1, 2)].into_iter().enumerate() {
        guest.describe(4, index as u16, (at + offset, len), flags, index as u16 + 1);
    }
    guest.make_available(4, 0);
    until("it is answered", || guest.read(buffer(4, 5) + 5, 1) == [1]);
    guest.describe(4, 0, (at, 4), 0, 0);
    let used = guest.used_index(4);
    guest.make_available(4, 0);
    guest.await_used(4, used + 1);
    assert_eq!(rig.attachment.queues(), (2, 2));
    // A guest without several pairs has its commands behind the first one.
    drop(guest);
    let mut guest = rig.attach(MODERN | CTRL_VQ);
    guest.start(2);
    assert!(!guest.command_pairs(2, 1) && rig.attachment.queues() == (1, 2));
    guest.make_available(2, 999);
    assert!(rig.until_cut_off(guest).contains("controlq has descriptor 999 in a table of 64"));
    rig.works_again();
}

#[test]
fn a_pair_stops_grows_and_goes_on_and_rings_that_are_not_there_end_the_guest() {
    type Wrong = fn(&Guest);
    let mut rig = Rig::with_queues(2);
    let mut guest = rig.attach_pairs(2);
    guest.send_by(1, &[], &frame(1, 60));
    assert_eq!(rig.read()[VNET_HEADER + 20], 1);
    let base = guest.ask(GET_VRING_BASE, &pair(3, 0));
    assert_eq!(base, pair(3, 1));
    // The other pair goes on meanwhile.
    guest.send_by(0, &[], &frame(2, 60));
    assert_eq!(rig.read()[VNET_HEADER + 20], 2);
    // Another size, and another place.
    guest.request(SET_VRING_NUM, &pair(3, 32), &[]);
    guest.set_addresses(3, [descriptors(5), used(5), available(5)].map(|at| USER + at));
    guest.write(used(5) + 2, &1_u16.to_le_bytes());
    guest.describe(5, 7, (GUEST + buffer(3, 40), 72), 0, 0);
    guest.write(buffer(3, 40) + 12, &frame(3, 60));
    guest.write(available(5) + 4 + 2, &7_u16.to_le_bytes());
    guest.write(available(5) + 2, &2_u16.to_le_bytes());
    guest.restart(3);
    assert_eq!(rig.read()[VNET_HEADER + 20], 3);
    let cases: [(&str, Wrong); 4] = [
        ("ring 5, of 5", |guest| guest.request(SET_VRING_ENABLE, &pair(5, 1), &[])),
        ("ring 5, of 5", |guest| guest.request(SET_VRING_NUM, &pair(5, 64), &[])),
        ("ring 255, of 5", |guest| guest.request(SET_VRING_KICK, &0x1ff_u64.to_le_bytes(), &[])),
        ("ring 3 of 128", |guest| guest.request(SET_VRING_NUM, &pair(3, 128), &[])),
    ];
    for (why, wrong) in cases {
        wrong(&guest);
        let fault = rig.until_cut_off(guest);
        assert!(fault.contains(why), "{why}: {fault}");
        guest = rig.attach_pairs(2);
    }
    guest.make_available(3, 999);
    assert!(rig.until_cut_off(guest).contains("its transmitq2 has descriptor 999"));
    rig.works_again();
}

#[test]
fn a_port_sleeps_until_any_of_its_pairs_is_kicked() {
    let mut rig = Rig::with_queues(3);
    let mut guest = rig.attach_pairs(3);
    let mut buffer = [0; 2_000];
    for number in 0..9 {
        until("it rests", || {
            assert_eq!(rig.port.read(&mut buffer).unwrap(), None);
            !rig.is_readable()
        });
        guest.send_by(usize::from(number) % 3, &[], &frame(number, 60));
        until("it is woken", || rig.is_readable());
        assert_eq!(rig.read()[VNET_HEADER + 20], number);
    }
}

/// Whatever the front end does with its pairs while frames pass, the port goes on, and every frame that arrives is whole.
#[test]
fn pairs_come_and_go_in_any_order_while_frames_pass() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let mut rig = Rig::with_queues(3);
        let mut guest = rig.attach_pairs(3);
        let mut buffer = [0; 2_000];
        for step in 0..300_u32 {
            let ring = rng.below(6);
            match rng.below(6) {
                0 => guest.request(SET_VRING_ENABLE, &pair(ring, rng.below(2)), &[]),
                1 => {
                    guest.ask(GET_VRING_BASE, &pair(ring, 0));
                }
                2 => guest.restart(ring as usize),
                3 => guest.share_memory(&[(GUEST, MEMORY, USER, 0)]),
                4 => {
                    // One that does not run takes no more than its size.
                    let at = ring as usize / 2;
                    let made = guest.made(2 * at + 1);
                    if made.wrapping_sub(guest.used_index(2 * at + 1)) < SIZE {
                        guest.send_by(at, &[], &frame(step as u8, 60));
                    }
                }
                _ => {
                    rig.write(&[], &of_flow(step as u8, 7));
                }
            }
            if let Some(len) = rig.port.read(&mut buffer).unwrap() {
                let number = buffer[VNET_HEADER + 20];
                assert_eq!(buffer[VNET_HEADER..len], frame(number, 60), "seed {seed}, step {step}");
            }
            (0..3).for_each(|pair| while guest.receive_by(pair).is_some() {});
        }
        assert_eq!(rig.attachment.fault().get(), None, "seed {seed}");
        drop(guest);
        until("it has gone", || !rig.attachment.has_carrier());
        rig.works_again();
    }
}
