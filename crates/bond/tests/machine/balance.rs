//! Balance that follows load.

use bond::{Carrier, Event, Remapped, Transmit};
use machine::{Span, Time};

use super::{bond, drain, events, flow, id, ms};

const OPTIONS: &str = "mode=2 rebalance_interval=100 rebalance_gap_us=500";

/// Sends `packets` of each flow in turn from `start`, one in 10 us. Returns the member that had each flow at last.
fn send(bond: &mut bond::Bond, start: Time, flows: &[u32], packets: u64) -> Vec<usize> {
    let mut last = vec![0; flows.len()];
    for n in 0..packets {
        for (at, &hash) in flows.iter().enumerate() {
            let Transmit::One(member) = bond.transmit(start + Span::from_us(n * 10), &flow(hash)) else { panic!() };
            last[at] = member.index();
        }
    }
    last
}

#[test]
fn a_bucket_goes_from_the_busiest_to_the_idlest_at_a_gap() {
    let mut bond = bond(OPTIONS, 2);
    // Two flows collide on member 0, and nobody is on member 1.
    assert_eq!(send(&mut bond, ms(0), &[0, 2], 1_000), [0, 0]);
    assert!(events(&drain(&mut bond, ms(100))).is_empty());
    // Without a gap they stay.
    assert_eq!(send(&mut bond, ms(10), &[0, 2], 100), [0, 0]);
    // The gap came: one of them moves, the other does not.
    let after = send(&mut bond, ms(150), &[0, 2], 100);
    assert_eq!(after.iter().sum::<usize>(), 1, "{after:?}");
    let moved = events(&drain(&mut bond, ms(160)));
    let bucket = if after[0] == 1 { 0 } else { 2 };
    assert_eq!(moved, [Event::Remapped(Remapped { bucket, from: id(0), to: id(1) })]);
    assert_eq!(bond.buckets().unwrap()[usize::from(bucket)], id(1));
    // What is balanced stays.
    drain(&mut bond, ms(200));
    for interval in 2..20 {
        assert_eq!(send(&mut bond, ms(interval * 100 + 50), &[0, 2], 100), after);
        assert!(events(&drain(&mut bond, ms(interval * 100 + 100))).is_empty());
    }
}

#[test]
fn one_flow_does_not_wander() {
    let mut bond = bond(OPTIONS, 2);
    for interval in 0..20 {
        assert_eq!(send(&mut bond, ms(interval * 100), &[0], 10), [0]);
        drain(&mut bond, ms(interval * 100 + 100));
    }
}

#[test]
fn a_loaded_slow_member_is_the_busiest() {
    let mut bond = bond(OPTIONS, 2);
    bond.carrier(ms(0), id(1), Carrier::up(100));
    // Two flows each: member 1 has a tenth of the rate.
    let flows = [0, 2, 1, 3];
    assert_eq!(send(&mut bond, ms(0), &flows, 100), [0, 0, 1, 1]);
    drain(&mut bond, ms(100));
    let after = send(&mut bond, ms(150), &flows, 100);
    assert_eq!(after.iter().sum::<usize>(), 1, "{after:?}");
}

#[test]
fn only_the_buckets_of_a_lost_member_move() {
    let mut bond = bond(OPTIONS, 4);
    let hashes: Vec<u32> = (0..256).collect();
    let before = send(&mut bond, ms(0), &hashes, 1);
    bond.carrier(ms(1), id(2), Carrier::DOWN);
    let after = send(&mut bond, ms(1), &hashes, 1);
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(*after, 2);
        assert!(before == after || *before == 2);
    }
    assert!([0, 1, 3].iter().all(|member| after.iter().filter(|to| *to == member).count() >= 85));
}
