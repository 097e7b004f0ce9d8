//! What is behind devices of the machine may be broken or hostile: LACPDUs that lie, that are no LACPDUs, that are this bond's own, and
//! more of them than anybody needs.

use std::time::{Duration, Instant};

use crate::bed::{self, Bed};
use crate::far_ends::with_far_ends;
use live::port::{Port, Unsent};
use live::{Instance, VNET_HEADER};
use machine::Rng;
use wire::{LacpInfo, LacpRepr, LacpState, SLOW_PAYLOAD, SLOW_PROTOCOLS};

const FILE: &str = "
name: hostile
nodes: { h1: host, h2: host, guest: { kind: host, devices: [dev0, dev1] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [guest, s1]
  - between: [guest, s1]
bonds:
  - { host: guest, mode: 802.3ad, lacp_rate: fast }
";

/// What the daemon may grow by, in KiB: buffers that are used for the first time, no table that a stranger fills.
const GROWTH_KIB_MAX: u64 = 16 * 1_024;

/// A frame of the slow protocols behind an empty virtio-net header.
fn slow_frame(payload: &[u8]) -> Vec<u8> {
    [&[0; VNET_HEADER][..], &SLOW_PROTOCOLS, &[2, 0, 0, 0, 0, 0x66], &[0x88, 0x09], payload].concat()
}

/// A well-formed LACPDU of some system.
fn lacpdu(rng: &mut Rng) -> Vec<u8> {
    let mut info = || LacpInfo {
        system_priority: rng.bits() as u16,
        system: [2, rng.bits() as u8, rng.bits() as u8, rng.bits() as u8, 0, 1],
        key: rng.bits() as u16,
        port_priority: rng.bits() as u16,
        port: rng.bits() as u16,
        state: LacpState(rng.bits() as u8),
    };
    let mut payload = [0; SLOW_PAYLOAD];
    LacpRepr { actor: info(), partner: info(), collector_max_delay: 0 }.emit(&mut payload);
    payload.to_vec()
}

/// What a hostile partner sends: lies, noise, and half of either.
fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut payload = if rng.below(2) == 0 { lacpdu(rng) } else { (0..110).map(|_| rng.bits() as u8).collect() };
    if rng.below(4) == 0 {
        payload[0] = 1 + rng.below(3) as u8;
    }
    if rng.below(4) == 0 {
        payload.truncate(rng.below(110) as usize);
    }
    slow_frame(&payload)
}

/// What is said of the bond's members at the switch.
fn whys(network: &Instance) -> Vec<String> {
    let counters = network.counters().unwrap();
    let end = counters.bonds.iter().find(|bond| bond.node == "s1").expect("the switch has an end of the bond");
    end.members.iter().map(|member| member.why.clone()).collect()
}

fn resident_kib(bed: &Bed) -> u64 {
    let state = std::fs::read_to_string(bed.folder.path().join("heddle/hostile/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", state["pid"])).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn pings(network: &Instance) {
    bed::ping(network, "h1", &[], 3, "h2");
}

#[test]
fn a_bond_that_hears_itself_says_so() {
    with_far_ends(|bed, [mut far, _]| {
        let network = bed.up("hostile", FILE);
        let (started, mut buffer) = (Instant::now(), vec![0; 70_000]);
        while !whys(&network)[0].contains("hears this bond's own LACPDUs") {
            assert!(started.elapsed() < bed::PATIENCE, "{:?}", whys(&network));
            while let Some(len) = far.read(&mut buffer).unwrap() {
                far.write(&buffer[..len]).unwrap();
            }
            assert_eq!(far.flush(), Unsent::default());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(whys(&network)[0].starts_with("port 1 does not distribute"), "{:?}", whys(&network));
        pings(&network);
    });
}

#[test]
fn lies_and_noise_and_floods_are_borne() {
    with_far_ends(|bed, mut far| {
        let network = bed.up("hostile", FILE);
        let mut rng = Rng::new(1);
        let mut flood = |frames: u32| {
            for n in 0..frames {
                // The device's queue may be full: then this one is lost, as on a wire.
                let _ = far[(n % 2) as usize].write(&noise(&mut rng));
            }
            for far in &mut far {
                let _ = far.flush();
            }
        };
        flood(2_000);
        let before = resident_kib(bed);
        for _ in 0..10 {
            flood(5_000);
            let whys = whys(&network);
            assert!(whys.iter().zip(1..).all(|(why, n)| why.starts_with(&format!("port {n} d"))), "{whys:?}");
        }
        pings(&network);
        let after = resident_kib(bed);
        assert!(after < before + GROWTH_KIB_MAX, "{before} KiB became {after} KiB");
    });
}

/// A partner that is another one with each LACPDU fills no disk: the log has a bounded number of lines a minute, and says what it lacks.
#[test]
fn a_partner_that_lies_does_not_fill_the_log() {
    with_far_ends(|bed, mut far| {
        let begun = Instant::now();
        let network = bed.up("hostile", FILE);
        let mut rng = Rng::new(2);
        let lines = || {
            let log = std::fs::read_to_string(bed.folder.path().join("heddle/hostile/log")).unwrap();
            log.lines().filter(|line| line.contains("bond0 of s1")).count() as u64
        };
        let mut lies = 0;
        // As many again when the first thirty lines have come.
        while lines() < 30 || lies < 100 {
            assert!(
                begun.elapsed() < 2 * bed::PATIENCE,
                "{lies} lies on each of two members brought {} lines",
                lines()
            );
            lies += 1;
            for far in &mut far {
                far.write(&slow_frame(&lacpdu(&mut rng))).unwrap();
                assert_eq!(far.flush(), Unsent::default());
            }
            // As often as a bond listens to each of its members.
            std::thread::sleep(Duration::from_millis(65));
            assert!(lies > 1 || whys(&network)[0].starts_with("port 1"));
        }
        let (lines, minutes) = (lines(), begun.elapsed().as_secs() / 60 + 1);
        assert!(lines <= 61 * minutes, "{lies} lies on each of two members brought {lines} lines in {minutes} minutes");
    });
}
