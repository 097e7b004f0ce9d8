//! Carrier, delays, and which member becomes active.

use bond::{Carrier, Event, JoinError, LinkState, MEMBERS_MAX};
use machine::Time;

use super::{bond, chosen, drain, events, flow, id, mac, ms};

#[test]
fn a_lost_carrier_counts_at_once() {
    let mut bond = bond("mode=0 miimon=100", 2);
    bond.carrier(ms(5), id(1), Carrier::DOWN);
    assert_eq!(events(&drain(&mut bond, ms(5))), [Event::Link { member: id(1), state: LinkState::Down }]);
    assert_eq!([0; 3].map(|_| chosen(&mut bond, &flow(0))), [Some(0); 3]);
    assert_eq!(bond.member(id(1)).unwrap().failures(), 1);
    // Polling says the same again, and nothing comes of it.
    bond.carrier(ms(6), id(1), Carrier::DOWN);
    assert!(drain(&mut bond, ms(6)).is_empty());
}

#[test]
fn updelay_and_downdelay_are_waited_for() {
    let mut bond = bond("mode=2 updelay=200 downdelay=100", 2);
    let link = |bond: &bond::Bond| bond.member(id(1)).unwrap().link();
    // The first member is in use at once, since nobody else is; the second one waits.
    assert_eq!((link(&bond), bond.next_deadline()), (LinkState::Back, ms(200)));
    drain(&mut bond, ms(200));
    bond.carrier(ms(1_000), id(1), Carrier::DOWN);
    assert_eq!((link(&bond), bond.next_deadline()), (LinkState::Fail, Time::ZERO));
    drain(&mut bond, ms(1_000));
    assert_eq!((bond.next_deadline(), bond.usable().len()), (ms(1_100), 2));
    // Back in time: nothing was lost.
    bond.carrier(ms(1_050), id(1), Carrier::up(1_000));
    assert_eq!((link(&bond), bond.member(id(1)).unwrap().failures()), (LinkState::Up, 0));
    bond.carrier(ms(1_060), id(1), Carrier::DOWN);
    drain(&mut bond, ms(1_159));
    assert_eq!(link(&bond), LinkState::Fail);
    drain(&mut bond, ms(1_160));
    assert_eq!((link(&bond), bond.usable().len()), (LinkState::Down, 1));
    bond.carrier(ms(1_200), id(1), Carrier::up(1_000));
    drain(&mut bond, ms(1_399));
    assert_eq!((link(&bond), bond.usable().len()), (LinkState::Back, 1));
    drain(&mut bond, ms(1_400));
    assert_eq!((link(&bond), bond.usable().len()), (LinkState::Up, 2));
}

#[test]
fn updelay_is_not_waited_for_if_nobody_is_usable() {
    let mut bond = bond("mode=1 updelay=60000", 2);
    for n in [0, 1] {
        bond.carrier(ms(1), id(n), Carrier::DOWN);
    }
    assert!(!bond.has_carrier());
    assert_eq!(chosen(&mut bond, &flow(0)), None);
    bond.carrier(ms(2), id(1), Carrier::up(1_000));
    assert!(bond.has_carrier());
    assert_eq!(chosen(&mut bond, &flow(0)), Some(1));
    // The other one waits, and comes at once when the first is lost.
    bond.carrier(ms(3), id(0), Carrier::up(1_000));
    assert_eq!(bond.member(id(0)).unwrap().link(), LinkState::Back);
    bond.carrier(ms(4), id(1), Carrier::DOWN);
    assert_eq!(chosen(&mut bond, &flow(0)), Some(0));
}

#[test]
fn in_turn_a_member_without_carrier_is_left_out_even_in_downdelay() {
    let mut bond = bond("mode=0 downdelay=1000", 2);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    assert_eq!([0; 4].map(|_| chosen(&mut bond, &flow(0))), [Some(1); 4]);
    assert_eq!(bond.member(id(0)).unwrap().link(), LinkState::Fail);
}

#[test]
fn the_primary_returns_as_primary_reselect_says() {
    let after_return = |options: &str, speed: u32| {
        let mut bond = bond(&format!("mode=1 primary=eth1 {options}"), 2);
        assert_eq!(bond.active(), Some(id(1)), "it was named");
        bond.carrier(ms(1), id(1), Carrier::DOWN);
        assert_eq!(bond.active(), Some(id(0)));
        bond.carrier(ms(2), id(1), Carrier::up(speed));
        bond.active().map(bond::MemberId::index)
    };
    assert_eq!(after_return("", 10), Some(1));
    assert_eq!(after_return("primary_reselect=better", 1_000), Some(0));
    assert_eq!(after_return("primary_reselect=better", 10_000), Some(1));
    assert_eq!(after_return("primary_reselect=failure", 10_000), Some(0));
}

#[test]
fn members_that_cannot_join_change_nothing() {
    let mut bond = bond("mode=0", 1);
    assert_eq!(bond.add_member(Time::ZERO, "eth0", mac(3), Carrier::DOWN), Err(JoinError::Name));
    assert_eq!(bond.add_member(Time::ZERO, "x", [1, 0, 0, 0, 0, 0], Carrier::DOWN), Err(JoinError::Mac));
    for n in 1..MEMBERS_MAX {
        bond.add_member(Time::ZERO, &format!("more{n}"), mac(n as u8), Carrier::DOWN).unwrap();
    }
    assert_eq!(bond.add_member(Time::ZERO, "one more", mac(99), Carrier::DOWN), Err(JoinError::Full));
    assert_eq!(bond.members().count(), MEMBERS_MAX);
}

#[test]
fn a_removed_member_gets_its_address_back() {
    let mut bond = bond("mode=2", 2);
    bond.remove_member(Time::ZERO, id(1));
    assert_eq!(events(&drain(&mut bond, Time::ZERO)), [Event::MemberMac { member: id(1), mac: mac(1) }]);
    assert_eq!([0, 1].map(|hash| chosen(&mut bond, &flow(hash))), [Some(0); 2]);
    bond.remove_member(Time::ZERO, id(0));
    assert_eq!(chosen(&mut bond, &flow(0)), None);
    assert_eq!(bond.mac(), Some(mac(0)), "the bond keeps its address");
}

#[test]
fn nobody_polls_and_nothing_grows() {
    let mut bond = bond("mode=0", 2);
    for n in 0..5_000 {
        bond.carrier(ms(n), id(0), if n % 2 == 0 { Carrier::DOWN } else { Carrier::up(1_000) });
    }
    assert_eq!(drain(&mut bond, ms(5_000)).len(), bond::ACTIONS_MAX);
    assert_eq!(bond.actions_dropped(), 5_000 - bond::ACTIONS_MAX as u64);
}
