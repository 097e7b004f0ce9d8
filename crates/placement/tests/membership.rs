//! Every configuration of a few servers towards every other: it gets there, and never through a dangerous one.

use std::collections::BTreeSet;

use machine::ServerId;
use placement::{Configuration, DesiredReplicas, Next, membership};

type Servers = BTreeSet<ServerId>;

/// More steps than any way takes.
const STEPS_MAX: usize = 24;

/// The servers whose digit of `code` in base 3 is `digit`.
fn with_digit(servers: u32, code: u32, digit: u32) -> Servers {
    (0..servers).filter(|at| code / 3_u32.pow(*at) % 3 == digit).map(|at| ServerId(u64::from(at) + 1)).collect()
}

fn of_bits(servers: u32, bits: u32) -> Servers {
    (0..servers).filter(|at| bits >> at & 1 == 1).map(|at| ServerId(u64::from(at) + 1)).collect()
}

fn live_majority(voters: &Servers, live: &Servers) -> bool {
    voters.intersection(live).count() * 2 > voters.len()
}

/// Carries out what raft would: the new configuration.
fn carry_out(present: &Configuration, next: &Next) -> Configuration {
    let mut config = present.clone();
    match next {
        Next::AddLearners(servers) => {
            assert!(servers.is_disjoint(&config.voters) && servers.is_disjoint(&config.learners));
            config.learners.extend(servers);
        }
        Next::RemoveLearners(servers) => {
            assert!(servers.is_subset(&config.learners));
            config.learners.retain(|id| !servers.contains(id));
        }
        Next::ChangeVoters { promote, demote, remove } => {
            assert!(promote.is_subset(&config.learners), "only learners are promoted");
            assert!(demote.is_subset(&config.voters) && remove.is_subset(&config.voters));
            assert!(demote.is_disjoint(remove));
            config.outgoing.clone_from(&config.voters);
            config.learners.retain(|id| !promote.contains(id));
            config.voters.extend(promote);
            config.voters.retain(|id| !demote.contains(id) && !remove.contains(id));
            config.learners_next.clone_from(demote);
        }
        Next::LeaveJoint => {
            config.outgoing.clear();
            config.learners.append(&mut config.learners_next);
        }
        Next::Nothing | Next::WaitFor(_) | Next::TransferLeaderFirst { .. } => {}
    }
    config
}

/// Walks from `present` to where it ends, and checks every step. `slow` learners catch up one at a time, and only when the
/// policy waits.
fn walk(
    desired: &DesiredReplicas,
    mut present: Configuration,
    live: &Servers,
    mut leader: ServerId,
    slow: bool,
) -> bool {
    let mut caught_up: Servers = if slow { present.voters.intersection(live).copied().collect() } else { live.clone() };
    for _ in 0..STEPS_MAX {
        let next = membership::next(desired, &present, &caught_up, leader);
        match &next {
            Next::Nothing => return true,
            Next::WaitFor(servers) => {
                let Some(id) = servers.iter().find(|id| live.contains(id) && !caught_up.contains(id)) else {
                    assert!(servers.iter().any(|id| !live.contains(id)), "it waits for the dead only: {servers:?}");
                    return false;
                };
                caught_up.insert(*id);
            }
            Next::TransferLeaderFirst { to } => {
                assert!(present.voters.contains(to) && caught_up.contains(to) && desired.voters.contains(to));
                assert!(!desired.voters.contains(&leader));
                leader = *to;
            }
            Next::ChangeVoters { promote, .. } => {
                assert!(promote.is_subset(&caught_up), "a learner is promoted when it has caught up");
                let before = present.voters.intersection(live).count();
                let after = carry_out(&present, &next).voters;
                let all_come = desired.voters.is_subset(&after);
                let left = after.intersection(live).count();
                assert!(left >= before || all_come, "{before} live voters become {left} before all have come");
                assert!(after.contains(&leader), "the leader stays until it has handed over");
            }
            _ => {}
        }
        present = carry_out(&present, &next);
        assert!(!present.voters.is_empty(), "no configuration without a voter");
        assert!(live_majority(&present.voters, live), "{present:?} can commit with {live:?}");
        assert!(present.voters.is_disjoint(&present.learners));
    }
    panic!("no end in sight from {present:?} to {desired:?}");
}

/// Calls `f` for every desired and present configuration of so many servers.
fn every_pair(servers: u32, mut f: impl FnMut(&DesiredReplicas, &Configuration)) {
    let codes = 3_u32.pow(servers);
    for present in 0..codes {
        let voters = with_digit(servers, present, 1);
        let learners = with_digit(servers, present, 2);
        let present = Configuration { voters, learners, ..Configuration::default() };
        for desired in 0..codes {
            let voters = with_digit(servers, desired, 1);
            let desired = DesiredReplicas { voters, learners: with_digit(servers, desired, 2) };
            if !present.voters.is_empty() && !desired.voters.is_empty() {
                f(&desired, &present);
            }
        }
    }
}

#[test]
fn five_live_servers_get_from_everywhere_to_everywhere() {
    let live = of_bits(5, 0b11111);
    let mut pairs = 0;
    every_pair(5, |desired, present| {
        pairs += 1;
        let leaders = [present.voters.first(), present.voters.last()];
        for (leader, slow) in leaders.into_iter().flatten().zip([true, false]) {
            assert!(walk(desired, present.clone(), &live, *leader, slow), "{present:?} to {desired:?}");
        }
    });
    assert_eq!(pairs, 211 * 211, "all with a voter: 3^5 - 2^5 of each");
}

#[test]
fn with_dead_servers_it_arrives_or_waits_for_them_and_can_commit_throughout() {
    let (mut arrived, mut waits) = (0_u32, 0_u32);
    every_pair(4, |desired, present| {
        for live in 1..16 {
            let live = of_bits(4, live);
            let Some(leader) = present.voters.intersection(&live).next() else { continue };
            if live_majority(&present.voters, &live) {
                let done = walk(desired, present.clone(), &live, *leader, true);
                *(if done { &mut arrived } else { &mut waits }) += 1;
                let reachable = desired.voters.is_subset(&live);
                assert!(done || !reachable, "{present:?} to {desired:?} with {live:?}");
            }
        }
    });
    assert!(arrived > 10_000 && waits > 10_000, "{arrived} arrived, {waits} wait");
}

#[test]
fn a_dead_voter_is_replaced_in_one_change() {
    let set = |ids: &[u64]| ids.iter().copied().map(ServerId).collect::<Servers>();
    let desired = DesiredReplicas { voters: set(&[1, 2, 4]), learners: Servers::new() };
    let mut present = Configuration { voters: set(&[1, 2, 3]), ..Configuration::default() };
    let next =
        |present: &Configuration, caught_up: &[u64]| membership::next(&desired, present, &set(caught_up), ServerId(1));
    assert_eq!(next(&present, &[1, 2]), Next::AddLearners(set(&[4])));
    present.learners = set(&[4]);
    assert_eq!(next(&present, &[1, 2]), Next::WaitFor(set(&[4])));
    let change = Next::ChangeVoters { promote: set(&[4]), demote: Servers::new(), remove: set(&[3]) };
    assert_eq!(next(&present, &[1, 2, 4]), change);
    present = carry_out(&present, &change);
    assert_eq!(next(&present, &[1, 2, 4]), Next::LeaveJoint);
    present = carry_out(&present, &Next::LeaveJoint);
    assert_eq!(next(&present, &[1, 2, 4]), Next::Nothing);
}
