//! Frames through every hash policy, and through bonds that read them: ARP, neighbour discovery, probes.
#![no_main]

use bond::{Bond, Carrier, Config, HashPolicy, MemberId, Mode, hash};
use libfuzzer_sys::fuzz_target;
use machine::{Rng, Step, Time};

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    for &policy in HashPolicy::ALL {
        hash::hash(policy, bytes);
    }
    let options =
        ["mode=6", "mode=1 arp_interval=100 arp_ip_target=10.0.0.1 ns_ip6_target=fd00::1 arp_validate=all", "mode=4"];
    let config: Config = options[usize::from(which) % options.len()].parse().expect("the options are right");
    let mode = config.mode;
    let mut bond = Bond::new(Time::ZERO, config, None, Rng::new(1));
    for n in 0..2 {
        bond.add_member(Time::ZERO, &format!("eth{n}"), [2, 0, 0, 0, 0, n], Carrier::up(1_000)).expect("it is new");
    }
    let mut frame = bytes.to_vec();
    if let Some(source) = frame.get_mut(6..12).filter(|_| which & 0x80 != 0) {
        source.copy_from_slice(&[2, 0, 0, 0, 0, 0]);
    }
    bond.receive_frame(Time::ZERO, MemberId::new(usize::from(which >> 2) % 3), &frame);
    bond.transmit_frame(Time::ZERO, &mut frame);
    assert_eq!(frame.len(), bytes.len());
    assert!(mode == Mode::BalanceAlb || which & 0x80 != 0 || frame == bytes, "only balance-alb rewrites");
    let now = Time::from_ns(200_000_000);
    while let Step::Do(_) = bond.poll(now) {}
    bond.carrier(now, MemberId::new(0), Carrier::DOWN);
    while let Step::Do(_) = bond.poll(now) {}
});
