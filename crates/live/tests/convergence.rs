//! Waiting until bonds carry all that they can: our own ends, and partners behind devices of the machine that LACP does not agree with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bed::{self, Bed};
use crate::far_ends::with_far_ends;
use bond::lacp::{Lacp, Output, Settings};
use bond::{Carrier, MemberId};
use live::packet::PacketPort;
use live::port::Port;
use live::{CONVERGENCE_MAX, Instance, UnconvergedBond, VNET_HEADER};
use machine::{Span, Step, Time};

/// Two switches with a bond of two links between them. At the slow rate, which is the default.
const SWITCHES: &str = "
name: switches
nodes: { h1: host, h2: host, s1: switch, s2: switch }
link-defaults: { rate: 100Mbit, delay: 50us, queue: 100 }
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [s1, s2]
  - between: [s1, s2]
bonds: [{ between: [s1, s2], mode: 802.3ad }]
";

/// A bond with a guest that this test is.
const GUEST: &str = "
name: guest
nodes: { h1: host, guest: { kind: host, devices: [dev0, dev1] }, s1: switch }
links:
  - between: [h1, s1]
  - between: [guest, s1]
  - between: [guest, s1]
bonds: [{ host: guest, mode: 802.3ad, lacp_rate: fast }]
";

/// Waits; what is left, how long it took, and how often somebody was shown what is waited for.
fn wait(network: &Instance) -> (Vec<UnconvergedBond>, Duration, usize) {
    let (started, mut shown) = (Instant::now(), 0);
    let left = network
        .wait_converged(|waiting| shown += usize::from(waiting.iter().any(UnconvergedBond::is_pending)))
        .unwrap();
    (left, started.elapsed(), shown)
}

/// The same for bonds that do converge, however busy the machine is.
fn wait_until_converged(network: &Instance) -> (Vec<UnconvergedBond>, Duration, usize) {
    wait_until(network, <[UnconvergedBond]>::is_empty)
}

/// The same for bonds of which it is known at last that they do not converge by themselves.
fn wait_until_decided(network: &Instance) -> (Vec<UnconvergedBond>, Duration, usize) {
    wait_until(network, |left| !left.iter().any(UnconvergedBond::is_pending))
}

fn wait_until(
    network: &Instance,
    done: impl Fn(&[UnconvergedBond]) -> bool,
) -> (Vec<UnconvergedBond>, Duration, usize) {
    let (mut outcome, mut shown) = (wait(network), 0);
    let started = Instant::now();
    while !done(&outcome.0) && started.elapsed() < bed::PATIENCE {
        shown += outcome.2;
        outcome = wait(network);
    }
    (outcome.0, outcome.1, shown + outcome.2)
}

/// LACP takes half a second at least: on a busy machine that may have passed before the first look, and another network is brought up.
fn up_before_lacp_agrees(bed: &Bed) -> Instance {
    let started = Instant::now();
    loop {
        let network = bed.up("switches", SWITCHES);
        let before: Vec<String> = network.unconverged().unwrap().iter().map(UnconvergedBond::name).collect();
        if before == ["bond0 of s1", "bond0 of s2"] {
            return network;
        }
        assert!(started.elapsed() < bed::PATIENCE, "{before:?}");
        network.down().unwrap();
    }
}

#[test]
fn the_first_packet_passes_when_bonds_have_converged() {
    let Some(bed) = Bed::new() else { return };
    for workers in [1, 2] {
        bed.with_workers(workers);
        let network = up_before_lacp_agrees(&bed);
        let (left, took, _) = wait_until_converged(&network);
        assert!(left.is_empty(), "{left:?} after {took:?}");
        bed::ping(&network, "h1", &[], 3, "h2");
        let (_, took, shown) = wait(&network);
        assert!(shown == 0, "what has converged is not waited for: {took:?}");
        network.down().unwrap();
    }
}

#[test]
fn a_link_without_carrier_is_not_waited_for_and_one_that_comes_back_is() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("switches", SWITCHES);
    network.set_link("s1", "s2", Some(2), false).unwrap();
    let (left, took, _) = wait_until_converged(&network);
    assert!(left.is_empty(), "{left:?} after {took:?}");
    network.set_link("s1", "s2", Some(2), true).unwrap();
    let (left, _, _) = wait_until_converged(&network);
    assert!(left.is_empty(), "{left:?}");
    let counters = network.counters().unwrap();
    assert!(counters.bonds.iter().all(|bond| bond.members.iter().all(|member| member.sends)), "{:?}", counters.bonds);
    network.set_link("s1", "s2", None, false).unwrap();
    let (left, _, shown) = wait(&network);
    assert!(left.is_empty() && shown == 0, "without any link there is nothing to wait for: {left:?}");
}

/// LACP agrees at once on a link that comes back; the bond uses it later.
#[test]
fn updelay_is_waited_for() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("switches", &SWITCHES.replace("mode: 802.3ad", "mode: 802.3ad, updelay: 2s"));
    network.set_link("s1", "s2", Some(2), false).unwrap();
    assert_eq!(wait_until_converged(&network).0, []);
    // From before the link comes back: the answer to that may be late.
    let (mut whys, started) = (Vec::new(), Instant::now());
    network.set_link("s1", "s2", Some(2), true).unwrap();
    let mut note = |bonds: &[UnconvergedBond]| whys.extend(bonds.iter().map(|bond| bond.members[0].why.clone()));
    assert!(
        bed::soon(|| network.wait_converged(&mut note).unwrap().is_empty()),
        "{:?}",
        network.unconverged().unwrap()
    );
    assert!(started.elapsed() > Duration::from_millis(1_900), "{:?}", started.elapsed());
    assert!(whys.last().expect("it was waited for").contains("updelay"), "{whys:?}");
}

/// A bond of another program at the far ends. It may send LACPDUs and ignore those that it gets.
struct Partner {
    lacp: Lacp,
    ports: Vec<PacketPort>,
    ignores_lacp: bool,
}

impl Partner {
    fn new(system: u8, ports: Vec<PacketPort>) -> Self {
        let rate = bond::config::LacpRate::Fast;
        let mut lacp = Lacp::new(Settings { rate, ..Settings::new([2, 0, 0, 0, system, 0]) });
        for index in 0..ports.len() {
            lacp.add_port(Time::ZERO, MemberId::new(index), [2, 0, 0, 0, system, index as u8], 255);
            lacp.link(MemberId::new(index), Carrier::up(1_000));
        }
        Self { lacp, ports, ignores_lacp: false }
    }

    fn step(&mut self, now: Time) {
        let mut buffer = [0; 2_048];
        for (index, port) in self.ports.iter_mut().enumerate() {
            while let Some(len) = port.read(&mut buffer).unwrap() {
                let frame = &buffer[VNET_HEADER..len];
                if !self.ignores_lacp && frame.get(12..14) == Some(&[0x88, 0x09]) {
                    self.lacp.receive(now, MemberId::new(index), &frame[14..]);
                }
            }
        }
        while let Step::Do(output) = self.lacp.poll(now) {
            if let Output::Send { port, frame } = output {
                let port = &mut self.ports[port.index()];
                port.write(&[&[0; VNET_HEADER][..], &frame].concat()).unwrap();
                port.flush();
            }
        }
    }
}

/// Waits by `wait` while these are at the far ends.
fn wait_with<T>(network: &Instance, mut partners: Vec<Partner>, wait: impl FnOnce(&Instance) -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let far = scope.spawn(|| {
            let started = Instant::now();
            while !done.load(Ordering::Relaxed) {
                let now = Time::ZERO + Span::from_us(started.elapsed().as_micros() as u64);
                for partner in &mut partners {
                    partner.step(now);
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let outcome = wait(network);
        done.store(true, Ordering::Relaxed);
        far.join().expect("the far ends run");
        outcome
    })
}

#[test]
fn a_partner_that_never_speaks_is_given_up() {
    with_far_ends(|bed, _far| {
        let network = bed.up("guest", GUEST);
        let (left, took, shown) = wait_until_decided(&network);
        assert!(shown > 0, "{took:?}");
        assert_eq!(left.len(), 1, "{left:?}");
        let text = left[0].to_string();
        assert!(text.starts_with("bond0 of s1 (to guest)") && text.contains("no LACPDU arrives"), "{text}");
        // It was decided, so that one member is used and nobody waits again.
        assert!(!left[0].is_pending() && network.counters().unwrap().bonds[0].members[0].sends, "{text}");
        let (again, took, shown) = wait(&network);
        assert!(again == left && shown == 0, "{again:?} after {took:?}");
    });
}

#[test]
fn a_partner_that_never_comes_in_sync_holds_for_the_bound_and_is_named() {
    with_far_ends(|bed, [far0, far1]| {
        let network = bed.up("guest", GUEST);
        let ignores_lacp = Partner { ignores_lacp: true, ..Partner::new(1, vec![far0, far1]) };
        let (left, took, _) = wait_with(&network, vec![ignores_lacp], wait);
        assert!(took >= CONVERGENCE_MAX, "{took:?}");
        let text = left.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(left.len() == 1 && left[0].is_pending(), "{text}");
        assert!(text.contains("has not converged") && text.contains("does not hear it"), "{text}");
    });
}

#[test]
fn two_partners_are_one_too_many() {
    with_far_ends(|bed, [far0, far1]| {
        let network = bed.up("guest", GUEST);
        let partners = vec![Partner::new(1, vec![far0]), Partner::new(2, vec![far1])];
        let (left, ..) = wait_with(&network, partners, wait_until_decided);
        let text = left.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        // Decided, not given up.
        assert!(left.len() == 1 && left[0].members.len() == 1 && !left[0].is_pending(), "{text}");
        assert!(
            text.contains("carries less than it should") && text.contains("is not the aggregate's partner"),
            "{text}"
        );
    });
}

#[test]
fn partners_that_agree_are_waited_for_and_leave_no_warning() {
    with_far_ends(|bed, [far0, far1]| {
        let network = bed.up("guest", GUEST);
        let (left, took, _) = wait_with(&network, vec![Partner::new(1, vec![far0, far1])], wait_until_converged);
        assert!(left.is_empty(), "{left:?} after {took:?}");
        let members = &network.counters().unwrap().bonds[0].members;
        assert!(members.iter().all(|member| member.sends), "{members:?}");
    });
}
