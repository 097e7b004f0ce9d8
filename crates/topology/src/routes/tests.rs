//! What routes do where links are down, and at hosts with several ports.

use super::*;
use crate::testing::{bond, network, square};

const H1: NodeId = NodeId(0);
const H2: NodeId = NodeId(1);
const S1: NodeId = NodeId(2);
const S2: NodeId = NodeId(3);

fn without(topology: &Topology, down: &[u32]) -> Routes {
    Routes::without(topology, &down.iter().copied().map(LinkId).collect::<Vec<_>>())
}

#[test]
fn a_link_that_is_down_leaves_the_sets_of_both_ends() {
    let topology = square();
    let routes = without(&topology, &[2]);
    assert_eq!((routes.next_hops(S1, H2), routes.next_hops(S2, H1)), (&[PortId(2)][..], &[PortId(2)][..]));
    let routes = without(&topology, &[3]);
    assert_eq!((routes.next_hops(S1, H2), routes.next_hops(S2, H1)), (&[PortId(1)][..], &[PortId(1)][..]));
    assert_eq!((routes.next_hops(H1, H2), routes.next_hops(S2, H2)), (&[PortId(0)][..], &[PortId(0)][..]));
}

#[test]
fn there_is_no_next_hop_where_there_is_no_way() {
    let routes = without(&square(), &[2, 3]);
    for (at, to) in [(S1, H2), (S2, H1), (H1, H2), (H2, H1)] {
        assert!(routes.next_hops(at, to).is_empty(), "{at:?} to {to:?}");
    }
    assert_eq!((routes.next_hops(S1, H1), routes.next_hops(S2, H2)), (&[PortId(0)][..], &[PortId(0)][..]));
}

#[test]
fn a_host_whose_own_link_is_down_is_reached_from_nowhere() {
    let routes = without(&square(), &[1]);
    for at in [H1, S1, S2] {
        assert!(routes.next_hops(at, H2).is_empty(), "{at:?}");
        assert!(routes.group(at, H2) < routes.groups(at), "{at:?}");
    }
    assert!(routes.next_hops(H2, H1).is_empty());
    assert_eq!(routes.next_hops(S2, H1), [PortId(1), PortId(2)]);
}

#[test]
fn a_host_beside_one_that_is_cut_off_is_reached_as_before() {
    // h1 at the switch 3, h2 and h3 at the switch 4; h2 is cut off.
    let topology = network(3, 2, &[(0, 3), (1, 4), (2, 4), (3, 4)]);
    let (routes, whole) = (without(&topology, &[1]), Routes::compute(&topology));
    let (h2, h3) = (NodeId(1), NodeId(2));
    for at in [NodeId(3), NodeId(4)] {
        assert!(routes.next_hops(at, h2).is_empty(), "{at:?}");
        assert_eq!(routes.next_hops(at, h3), whole.next_hops(at, h3), "{at:?}");
        assert_ne!(routes.group(at, h2), routes.group(at, h3), "{at:?}: unequal sets have unequal numbers");
    }
}

#[test]
fn hosts_beyond_one_that_does_not_forward_are_reached_from_no_switch() {
    // h1 at the switch 3; h2 and h3 are linked to each other alone.
    let topology = network(3, 1, &[(0, 3), (1, 2)]);
    let routes = Routes::compute(&topology);
    for to in [NodeId(1), NodeId(2)] {
        for at in [NodeId(0), NodeId(3)] {
            assert!(routes.next_hops(at, to).is_empty(), "{at:?} to {to:?}");
            assert!(routes.group(at, to) < routes.groups(at), "{at:?} to {to:?}");
        }
    }
    assert_eq!(routes.next_hops(NodeId(1), NodeId(2)), [PortId(0)]);
    assert_eq!(routes.next_hops(NodeId(3), NodeId(0)), [PortId(0)]);
}

#[test]
fn two_hosts_without_a_switch_reach_each_other_while_their_link_carries() {
    let topology = network(2, 0, &[(0, 1)]);
    assert_eq!(Routes::compute(&topology).next_hops(H1, H2), [PortId(0)]);
    assert!(without(&topology, &[0]).next_hops(H1, H2).is_empty());
}

#[test]
fn a_bond_carries_as_long_as_one_member_does() {
    let mut topology = square();
    let links = bond(&mut topology, [S1, S2], vec![LinkId(2), LinkId(3)], 3);
    assert_eq!(links, [LinkId(2), LinkId(3), LinkId(4)]);
    let whole = Routes::compute(&topology);
    for down in [&[2][..], &[3], &[2, 3], &[2, 4], &[3, 4]] {
        assert_eq!(without(&topology, down), whole, "{down:?}");
    }
    let routes = without(&topology, &[2, 3, 4]);
    assert!(routes.next_hops(S1, H2).is_empty() && routes.next_hops(S2, H1).is_empty());

    // A host's bond, too.
    let mut topology = square();
    assert_eq!(bond(&mut topology, [H1, S1], vec![LinkId(0)], 2), [LinkId(0), LinkId(4)]);
    assert_eq!(without(&topology, &[0]), Routes::compute(&topology));
    assert_eq!(without(&topology, &[4]), Routes::compute(&topology));
    assert!(without(&topology, &[0, 4]).next_hops(S1, H1).is_empty());
}

#[test]
fn routes_are_the_old_ones_when_all_links_carry_again() {
    let topology = square();
    let whole = Routes::compute(&topology);
    let mut down = TiVec::from(vec![false; topology.links.len()]);
    for link in topology.links.keys() {
        down[link] = true;
        assert_ne!(Routes::around(&topology, |link| !down[link]), whole, "{link:?}");
        down[link] = false;
        assert_eq!(Routes::around(&topology, |link| !down[link]), whole, "{link:?}");
    }
}

/// `h1` at both `s1` and `s2`, `h2` at `s3`, `h3` at `s1`; `s1` and `s2` at `s3`: links 0 to 5.
fn dual_homed() -> Topology {
    network(3, 3, &[(0, 3), (0, 4), (1, 5), (3, 5), (4, 5), (2, 3)])
}

const H3: NodeId = NodeId(2);
/// The switches of [`dual_homed`].
const LEFT: NodeId = NodeId(3);
const RIGHT: NodeId = NodeId(4);
const TOP: NodeId = NodeId(5);

#[test]
fn all_ports_of_a_dual_homed_host_lead_from_it_and_to_it() {
    let routes = Routes::compute(&dual_homed());
    assert_eq!(routes.next_hops(H1, H2), [PortId(0), PortId(1)]);
    assert_eq!(routes.next_hops(H1, H3), [PortId(0)], "the shortest path only");
    assert_eq!(routes.next_hops(TOP, H1), [PortId(1), PortId(2)]);
    assert_eq!((routes.next_hops(LEFT, H1), routes.next_hops(RIGHT, H1)), (&[PortId(0)][..], &[PortId(0)][..]));
    assert_eq!((routes.next_hops(H2, H1), routes.next_hops(H3, H1)), (&[PortId(0)][..], &[PortId(0)][..]));
    assert!(routes.next_hops(H1, H1).is_empty());
    for (at, to) in [(H1, H2), (H1, H3), (TOP, H1), (LEFT, H1)] {
        assert!(routes.group(at, to) < routes.groups(at), "{at:?} to {to:?}");
    }
    assert_ne!(routes.group(H1, H2), routes.group(H1, H3), "unequal sets have unequal numbers");
}

#[test]
fn a_dual_homed_host_is_reached_by_the_link_that_is_left() {
    let topology = dual_homed();
    let routes = without(&topology, &[0]);
    assert_eq!((routes.next_hops(H1, H2), routes.next_hops(H1, H3)), (&[PortId(1)][..], &[PortId(1)][..]));
    assert_eq!((routes.next_hops(TOP, H1), routes.next_hops(LEFT, H1)), (&[PortId(2)][..], &[PortId(1)][..]));
    let routes = without(&topology, &[0, 1]);
    assert!([H2, H3, LEFT, RIGHT, TOP].iter().all(|at| routes.next_hops(*at, H1).is_empty()));
    assert!(routes.next_hops(H1, H2).is_empty());
    assert_eq!(routes.next_hops(H2, H3), [PortId(0)]);
}

#[test]
fn paths_lead_through_hosts_that_forward_and_through_no_others() {
    // The way between the switches at the sides is through h1 alone.
    let mut topology = dual_homed();
    let down = [3, 4];
    let routes = without(&topology, &down);
    for (at, to) in [(H3, H2), (LEFT, H2), (H2, H3), (TOP, H3)] {
        assert!(routes.next_hops(at, to).is_empty(), "{at:?} to {to:?}");
    }
    let mut apart = topology.clone();
    apart.nodes[H1].forwards = true;
    assert!(without(&apart, &down).next_hops(H3, H2).is_empty(), "h2's switch has no other link");

    // h3 at s1, h2 at s2, h1 at both.
    topology = network(3, 2, &[(0, 3), (0, 4), (1, 4), (2, 3)]);
    assert!(Routes::compute(&topology).next_hops(H3, H2).is_empty());
    assert!(Routes::compute(&topology).next_hops(LEFT, H2).is_empty());
    topology.nodes[H1].forwards = true;
    let routes = Routes::compute(&topology);
    assert_eq!((routes.next_hops(H3, H2), routes.next_hops(LEFT, H2)), (&[PortId(0)][..], &[PortId(0)][..]));
    assert_eq!((routes.next_hops(H1, H2), routes.next_hops(H1, H3)), (&[PortId(1)][..], &[PortId(0)][..]));
    // A host that forwards is no detour: longer paths are not taken.
    let mut square = dual_homed();
    square.nodes[H1].forwards = true;
    assert_eq!(Routes::compute(&square).next_hops(LEFT, H2), Routes::compute(&dual_homed()).next_hops(LEFT, H2));
}

#[test]
fn a_host_behind_another_host_is_reached_if_that_forwards() {
    // h2 at h1, which is at s1 too, as is h3.
    let mut topology = network(3, 1, &[(0, 1), (0, 3), (2, 3)]);
    let routes = Routes::compute(&topology);
    assert_eq!((routes.next_hops(H1, H2), routes.next_hops(H2, H1)), (&[PortId(0)][..], &[PortId(0)][..]));
    assert!(routes.next_hops(H3, H2).is_empty() && routes.next_hops(H2, H3).is_empty());
    topology.nodes[H1].forwards = true;
    let routes = Routes::compute(&topology);
    assert_eq!((routes.next_hops(H3, H2), routes.next_hops(H2, H3)), (&[PortId(0)][..], &[PortId(0)][..]));
    assert_eq!((routes.next_hops(LEFT, H2), routes.next_hops(H1, H3)), (&[PortId(0)][..], &[PortId(1)][..]));
}

#[test]
fn the_tree_goes_through_hosts_that_forward_and_ends_at_others() {
    let mut topology = dual_homed();
    let routes = Routes::compute(&topology);
    // From s1: h1, s3 and h3; from there s2, which has h1 already.
    assert_eq!((routes.tree(LEFT), routes.tree(H1)), (&[PortId(0), PortId(1), PortId(2)][..], &[PortId(0)][..]));
    assert_eq!((routes.tree(TOP), routes.tree(RIGHT)), (&[PortId(0), PortId(1), PortId(2)][..], &[PortId(1)][..]));
    topology.nodes[H1].forwards = true;
    let routes = Routes::compute(&topology);
    assert_eq!((routes.tree(H1), routes.tree(RIGHT)), (&[PortId(0), PortId(1)][..], &[PortId(0)][..]));
}

#[test]
fn a_host_at_two_parts_is_in_the_trees_of_both() {
    // h2 at s1, h3 at s2, h1 at both.
    let topology = network(3, 2, &[(0, 3), (0, 4), (1, 3), (2, 4)]);
    let routes = Routes::compute(&topology);
    assert_eq!(routes.tree(H1), [PortId(0), PortId(1)]);
    assert_eq!((routes.tree(LEFT), routes.tree(RIGHT)), (&[PortId(0), PortId(1)][..], &[PortId(0), PortId(1)][..]));
}
