//! Forwarding ports make a tree, at each moment no circle, and after a loss soon a tree again.

use machine::Span;
use proptest::prelude::*;
use rstp::PRIORITY;

use crate::network::Network;

const DELAY: Span = Span::from_us(50);

#[test]
fn a_ring_opens_itself_at_once_and_closes_where_it_must() {
    let mut ring = Network::ring(3, DELAY);
    ring.run_for(Span::from_ms(10));
    ring.assert_converged();
    assert_eq!(ring.open_links().count(), 2);
    // The link that does not lead to the root is the one that is not used.
    ring.run_for(Span::from_secs(30));
    assert!(ring.changed < machine::Time::ZERO + Span::from_ms(10), "nothing changes any more");
    ring.set_link(0, false);
    ring.run_for(Span::from_ms(100));
    ring.assert_converged();
    ring.set_link(0, true);
    ring.run_for(Span::from_ms(10));
    ring.assert_converged();
}

#[test]
fn ports_are_added_and_others_go_on() {
    let mut ring = Network::ring(4, DELAY);
    ring.run_for(Span::from_secs(10));
    ring.assert_converged();
    let changed = ring.changed;
    for bridge in 0..4 {
        ring.run_for(Span::from_secs(1));
        ring.add_link(bridge, (bridge + 2) % 4, DELAY);
        ring.run_for(Span::from_secs(5));
        ring.assert_converged();
    }
    assert!(ring.changed > changed, "what is nearer to the root is used");
    // It is another bridge with another priority or another port at an old one's place.
    let mut other = crate::network::config(1, PRIORITY, 3);
    let mut bridge = rstp::Bridge::new(other.clone());
    other.ports[1].cost += 1;
    assert!(!bridge.follow(&other));
    assert!(!bridge.follow(&crate::network::config(1, PRIORITY - 4_096, 4)));
    assert!(!bridge.follow(&crate::network::config(1, PRIORITY, 2)));
    assert_eq!(bridge.status().ports.len(), 3);
}

#[test]
fn the_root_dies() {
    for bridges in 3..8 {
        let mut ring = Network::ring(bridges, DELAY);
        ring.run_for(Span::from_secs(10));
        ring.assert_converged();
        ring.set_link(0, false);
        ring.set_link(bridges - 1, false);
        ring.run_for(Span::from_ms(500));
        ring.assert_converged();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Links that forward never make a circle, whatever happens when; and when nothing happens any more, they reach everybody.
    #[test]
    fn nothing_ever_goes_round(
        bridges in 2_usize..9,
        links in proptest::collection::vec((0_usize..9, 1_usize..9, 1_u64..3_000), 1..16),
        priorities in proptest::collection::vec(0_u16..3, 9),
        events in proptest::collection::vec((0_usize..16, any::<bool>(), 0_u64..4_000_000), 0..12),
        last in (0_usize..16, any::<bool>()),
    ) {
        let links: Vec<_> = links
            .iter()
            .map(|(a, step, us)| (a % bridges, (a + 1 + step % (bridges - 1).max(1)) % bridges, Span::from_us(*us)))
            .filter(|(a, b, _)| a != b)
            .collect();
        let priorities: Vec<u16> = priorities[..bridges].iter().map(|step| PRIORITY - 4_096 * step).collect();
        let mut network = Network::new(&priorities, &links);
        for (link, up, after_us) in events {
            network.run_for(Span::from_us(after_us));
            if !links.is_empty() {
                network.set_link(link % links.len(), up);
            }
        }
        network.run_for(Span::from_secs(60));
        network.assert_converged();
        // One more loss, or the death of a bridge. Nearly always it takes well under a second; who has said too much waits for a second or two.
        let (lost, is_bridge) = last;
        for link in 0..links.len() {
            let ends = network.links[link].ends;
            if if is_bridge { ends.iter().any(|end| end.0 == lost % bridges) } else { link == lost % links.len() } {
                network.set_link(link, false);
            }
        }
        network.run_for(Span::from_secs(5));
        network.assert_converged();
    }
}
