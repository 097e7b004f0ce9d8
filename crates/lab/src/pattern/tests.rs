use proptest::prelude::*;

use machine::Rng;

use super::*;
use crate::testing::tree;

fn draw(fabric: &Fabric, pattern: &Pattern, seed: u64) -> Vec<(u32, u32)> {
    let pairs = pairs(fabric, pattern, &mut Rng::new(seed)).unwrap();
    pairs.into_iter().map(|(from, to)| (from.0, to.0)).collect()
}

#[test]
fn stride_counts_round() {
    let fabric = tree(1, 2, 2, true);
    assert_eq!(draw(&fabric, &Pattern::Stride(1), 1), [(0, 1), (1, 2), (2, 3), (3, 0)]);
    assert_eq!(draw(&fabric, &Pattern::Stride(u32::MAX), 1), [(0, 3), (1, 0), (2, 1), (3, 2)]);
    let error = pairs(&fabric, &Pattern::Stride(8), &mut Rng::new(1)).unwrap_err();
    assert_eq!(error, NoPairs::StrideToSelf { stride: 8, hosts: 4 });
}

#[test]
fn incast_ends_at_the_first_host() {
    let fabric = tree(1, 2, 2, true);
    assert_eq!(draw(&fabric, &Pattern::Incast(2), 1), [(1, 0), (2, 0)]);
    assert_eq!(draw(&fabric, &Pattern::Incast(99), 1).len(), 3);
    assert_eq!(pairs(&fabric, &Pattern::Incast(0), &mut Rng::new(1)), Err(NoPairs::Empty));
}

#[test]
fn all_to_all_is_every_pair_once_and_bounded() {
    let fabric = tree(2, 2, 2, true);
    let mut all = draw(&fabric, &Pattern::AllToAll, 1);
    assert_eq!(all.len(), 8 * 7);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8 * 7);
    let mut large = fabric;
    large.topology.hosts = 27_648;
    let error = pairs(&large, &Pattern::AllToAll, &mut Rng::new(1)).unwrap_err();
    assert_eq!(error, NoPairs::TooMany { flows: 27_648 * 27_647 });
}

#[test]
fn named_pairs_must_be_two_hosts() {
    let fabric = tree(1, 1, 2, true);
    let with = |from, to| pairs(&fabric, &Pattern::Pairs(vec![(NodeId(from), NodeId(to))]), &mut Rng::new(1));
    assert!(with(1, 0).is_ok());
    assert_eq!(with(0, 0), Err(NoPairs::NotHosts { from: 0, to: 0 }));
    assert_eq!(with(0, 2), Err(NoPairs::NotHosts { from: 0, to: 2 }));
    assert_eq!(pairs(&fabric, &Pattern::Pairs(Vec::new()), &mut Rng::new(1)), Err(NoPairs::Empty));
}

#[test]
fn one_host_has_nobody_to_talk_to() {
    let fabric = tree(1, 1, 1, true);
    for pattern in [Pattern::Random, Pattern::Permutation, Pattern::Staggered(0.5, 0.3), Pattern::Stride(1)] {
        assert_eq!(pairs(&fabric, &pattern, &mut Rng::new(1)), Err(NoPairs::TooFewHosts { hosts: 1 }));
    }
}

/// How many of `pairs` stay under the edge switch, in the pod, and leave it, when each has `hosts` and `edges`.
fn split(pairs: &[(u32, u32)], hosts: u32, edges: u32) -> [usize; 3] {
    let mut counts = [0; 3];
    for (from, to) in pairs {
        let group = match () {
            () if from / hosts == to / hosts => 0,
            () if from / (hosts * edges) == to / (hosts * edges) => 1,
            () => 2,
        };
        counts[group] += 1;
    }
    counts
}

#[test]
fn staggered_keeps_its_shares() {
    let fabric = tree(4, 2, 4, true);
    let mut counts = [0; 3];
    for seed in 0..200 {
        let part = split(&draw(&fabric, &Pattern::Staggered(0.5, 0.3), seed), 4, 2);
        counts.iter_mut().zip(part).for_each(|(sum, n)| *sum += n);
    }
    // 6,400 draws: four standard deviations are 160, 147 and 128.
    for (count, wanted, by) in [(counts[0], 3_200, 160), (counts[1], 1_920, 147), (counts[2], 1_280, 128)] {
        assert!(usize::abs_diff(count, wanted) < by, "{counts:?}");
    }
}

#[test]
fn staggered_falls_back_where_a_group_is_empty() {
    // One host an edge switch: those that should stay there go to the pod.
    let lonely = tree(2, 2, 1, true);
    assert_eq!(split(&draw(&lonely, &Pattern::Staggered(1.0, 0.0), 3), 1, 2), [0, 4, 0]);
    // One pod: nobody is elsewhere, so the rest of the pod takes them.
    let one_pod = tree(1, 2, 2, true);
    assert_eq!(split(&draw(&one_pod, &Pattern::Staggered(0.0, 0.0), 3), 2, 2), [0, 4, 0]);
    // No pods: the whole fabric is one.
    let no_pods = tree(2, 2, 2, false);
    assert_eq!(split(&draw(&no_pods, &Pattern::Staggered(0.0, 0.0), 3), 2, 4), [0, 8, 0]);
    // One edge switch in all.
    let one_edge = tree(1, 1, 3, true);
    assert_eq!(split(&draw(&one_edge, &Pattern::Staggered(0.0, 0.0), 3), 3, 1), [3, 0, 0]);
}

#[test]
fn derangements_of_three_are_drawn_evenly() {
    let fabric = tree(1, 1, 3, true);
    let first = (0..2_000).filter(|&seed| draw(&fabric, &Pattern::Permutation, seed)[0] == (0, 1)).count();
    assert!((900..1_100).contains(&first), "{first} of 2000 are the one of the two derangements");
}

proptest! {
    #[test]
    fn pairs_join_different_hosts(
        pods in 1_u32..4, edges in 1_u32..4, hosts in 1_u32..5, with_pods: bool, seed: u64,
        edge_share in 0.0..1.0_f64, pod_share in 0.0..1.0_f64, n in 1_u32..40, which in 0_usize..6,
    ) {
        let fabric = tree(pods, edges, hosts, with_pods);
        let all = fabric.topology.hosts;
        let pattern = [
            Pattern::Random,
            Pattern::Stride(n),
            Pattern::Staggered(edge_share, pod_share * (1.0 - edge_share)),
            Pattern::Permutation,
            Pattern::Incast(n),
            Pattern::AllToAll,
        ][which].clone();
        match pairs(&fabric, &pattern, &mut Rng::new(seed)) {
            Err(NoPairs::TooFewHosts { .. }) => prop_assert_eq!(all, 1),
            Err(NoPairs::StrideToSelf { .. }) => prop_assert_eq!(n % all, 0),
            Err(other) => prop_assert!(false, "{}", other),
            Ok(pairs) => {
                prop_assert!(!pairs.is_empty());
                prop_assert!(pairs.iter().all(|(from, to)| from != to && from.0 < all && to.0 < all));
                if which < 4 {
                    prop_assert!(pairs.iter().map(|(from, _)| from.0).eq(0..all), "each host sends once");
                }
                if matches!(pattern, Pattern::Permutation | Pattern::Stride(_)) {
                    let mut to: Vec<u32> = pairs.iter().map(|(_, to)| to.0).collect();
                    to.sort_unstable();
                    prop_assert!(to.into_iter().eq(0..all), "each host receives once");
                }
                prop_assert_eq!(&pairs, &super::pairs(&fabric, &pattern, &mut Rng::new(seed)).unwrap());
            }
        }
    }
}
