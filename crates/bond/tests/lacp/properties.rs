//! Whatever happens to cables, settings and members: the promises hold at any time, and when nothing happens any more, the two
//! ends of each cable agree.

use bond::config::{AdSelect, LacpRate};
use bond::lacp::Settings;
use machine::Span;
use proptest::prelude::*;

use crate::lacp::world::{World, fast, member};

const MEMBERS: u8 = 4;

#[derive(Clone, Debug)]
enum Happening {
    Pull(usize),
    Replug(usize, bool),
    Loss(usize, u32),
    Mute(usize, bool),
    Remove(usize, u8),
    Add(usize, u8),
    Configure(usize, Settings),
    Carrier(usize, u8, bool),
    Pass,
}

fn settings(bond: usize) -> impl Strategy<Value = Settings> {
    let select = prop_oneof![Just(AdSelect::Stable), Just(AdSelect::Bandwidth), Just(AdSelect::Count)];
    (any::<bool>(), select, 0..3_u16, any::<bool>(), 0..3_u8).prop_map(
        move |(quick, ad_select, user_key, active, min_links)| {
            let rate = if quick { LacpRate::Fast } else { LacpRate::Slow };
            // One end at least is active, else they do not find each other.
            Settings { rate, ad_select, user_key, min_links, active: active || bond == 0, ..fast(bond as u8 + 1) }
        },
    )
}

fn happening() -> impl Strategy<Value = Happening> {
    let cable = 0..usize::from(MEMBERS);
    prop_oneof![
        cable.clone().prop_map(Happening::Pull),
        (cable.clone(), any::<bool>()).prop_map(|(cable, quick)| Happening::Replug(cable, quick)),
        (cable, 0..101_u32).prop_map(|(cable, loss)| Happening::Loss(cable, loss)),
        (0..2_usize, any::<bool>()).prop_map(|(bond, mute)| Happening::Mute(bond, mute)),
        (0..2_usize, 0..MEMBERS).prop_map(|(bond, id)| Happening::Remove(bond, id)),
        (0..2_usize, 0..MEMBERS).prop_map(|(bond, id)| Happening::Add(bond, id)),
        settings(0).prop_map(|settings| Happening::Configure(0, settings)),
        settings(1).prop_map(|settings| Happening::Configure(1, settings)),
        (0..2_usize, 0..MEMBERS, any::<bool>()).prop_map(|(bond, id, up)| Happening::Carrier(bond, id, up)),
        Just(Happening::Pass),
    ]
}

fn speed(quick: bool) -> u32 {
    if quick { 10_000 } else { 1_000 }
}

fn carry_out(world: &mut World, happening: &Happening) {
    match *happening {
        Happening::Pull(cable) => world.pull(cable),
        Happening::Replug(cable, quick) => world.replug(cable, speed(quick)),
        Happening::Loss(cable, loss) => world.cables[cable].loss_percent = loss,
        Happening::Mute(bond, mute) => world.mute[bond] = mute,
        Happening::Remove(bond, id) => {
            world.bonds[bond].remove_port(member(id));
            world.drain(bond);
        }
        Happening::Add(bond, id) => {
            // It is refused if the member is there; then nothing changes.
            world.bonds[bond].add_port(world.now, member(id), [2, 1, 0, 0, bond as u8, id], 0xff);
            world.drain(bond);
        }
        Happening::Configure(bond, settings) => {
            world.bonds[bond].configure(settings);
            world.drain(bond);
        }
        Happening::Carrier(bond, id, up) => world.link((bond, id), up, 1_000),
        Happening::Pass => {}
    }
}

/// All faults end; what a slow end believed for 90 s has to pass, and the 30 s of the other's next LACPDU.
fn heal(world: &mut World, speeds: &[bool]) {
    world.mute = vec![false, false];
    for (cable, &quick) in speeds.iter().enumerate() {
        for (bond, id) in world.cables[cable].ends {
            world.bonds[bond].add_port(world.now, member(id), [2, 1, 0, 0, bond as u8, id], 0xff);
        }
        world.cables[cable].loss_percent = 0;
        world.replug(cable, speed(quick));
    }
    world.run(Span::from_secs(150));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 3, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ends_agree_when_nothing_happens_any_more(
        seed: u64,
        a in settings(0),
        b in settings(1),
        crossed: bool,
        happenings in proptest::collection::vec((happening(), 0..5_000_u64), 0..40),
        speeds in proptest::collection::vec(any::<bool>(), usize::from(MEMBERS)),
    ) {
        let mut world = World::new(seed, &[(a, MEMBERS), (b, MEMBERS)]);
        for id in 0..MEMBERS {
            let other = if crossed { MEMBERS - 1 - id } else { id };
            world.plug((0, id), (1, other), 1_000);
        }
        for (happening, pause_ms) in &happenings {
            carry_out(&mut world, happening);
            world.run(Span::from_ms(*pause_ms));
        }
        heal(&mut world, &speeds);
        let [local, remote] = world.distributing()[..] else { panic!("two bonds") };
        prop_assert_ne!(local, 0, "{}", world.reasons());
        for cable in &world.cables {
            let [(_, here), (_, there)] = cable.ends;
            prop_assert_eq!(local >> here & 1, remote >> there & 1, "{}", world.reasons());
        }
        // All links of one speed are used: the cables of the aggregate are all that could be in it.
        let in_use = |quick: bool| speeds.iter().zip(&world.cables).filter(|(it, _)| **it == quick).fold(0, |set, (_, cable)| set | 1 << cable.ends[0].1);
        prop_assert!(local == in_use(true) || local == in_use(false), "{:b} distribute\n{}", local, world.reasons());
        let since = world.changed_at.clone();
        world.run(Span::from_secs(300));
        prop_assert_eq!(&world.changed_at, &since, "nothing flaps:\n{}", world.reasons());
    }
}
