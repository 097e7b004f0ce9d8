//! A bond from outside: what goes in, what comes out.

mod alb;
mod balance;
mod links;
mod memberships;
mod modes;
mod probes;
mod properties;

use bond::{Action, Bond, Carrier, Config, Event, Kind, MemberId, Summary, Transmit};
use machine::{Rng, Span, Step, Time};

/// The address of the device `n`.
fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn id(n: usize) -> MemberId {
    MemberId::new(n)
}

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_ms(n)
}

/// A bond with members that have carrier at 1 Gbit/s, all events drained.
fn bond(options: &str, members: u8) -> Bond {
    let config: Config = options.parse().unwrap();
    let mut bond = Bond::new(Time::ZERO, config, None, Rng::new(1));
    for n in 0..members {
        bond.add_member(Time::ZERO, &format!("eth{n}"), mac(n), Carrier::up(1_000)).unwrap();
    }
    drain(&mut bond, Time::ZERO);
    bond
}

/// Polls until there is nothing to do, as a driver must.
fn drain(bond: &mut Bond, now: Time) -> Vec<Action> {
    let mut actions = Vec::new();
    loop {
        match bond.poll(now) {
            Step::Do(action) => actions.push(action),
            Step::Wait(at) => {
                assert!(at > now, "{at:?} is not later than {now:?}");
                return actions;
            }
        }
    }
}

fn events(actions: &[Action]) -> Vec<Event> {
    actions
        .iter()
        .filter_map(|action| if let Action::Event(event) = action { Some(event.clone()) } else { None })
        .collect()
}

fn sent(actions: &[Action]) -> Vec<(usize, Vec<u8>)> {
    let frame = |action: &Action| match action {
        Action::Send { member, frame } => Some((member.index(), frame.as_bytes().to_vec())),
        Action::Event(_) => None,
    };
    actions.iter().filter_map(frame).collect()
}

fn flow(hash: u32) -> Summary {
    Summary { dst_mac: mac(100), src_mac: mac(0), hash, bytes: 1_000, peer: hash as u8, kind: Kind::Ip }
}

fn chosen(bond: &mut Bond, frame: &Summary) -> Option<usize> {
    match bond.transmit(Time::ZERO, frame) {
        Transmit::One(member) => Some(member.index()),
        Transmit::None(_) => None,
        Transmit::All(_) => panic!("this mode does not copy"),
    }
}
