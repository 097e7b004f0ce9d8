//! Which cases cannot be simulated: those in which a flow's way there and back takes no time.
//!
//! Links without rate and delay carry packets at once. A window of segments that crosses only such links is sent,
//! acknowledged and sent again at one instant, for ever.

use std::cell::OnceCell;

use fabric::{Fabric, Overrides};
use link::LinkSpec;
use topology::{Link, LinkId, NodeId, Routes};
use vswitch::Spread;

/// Finds ways that take no time.
pub(crate) struct Standstill<'a> {
    fabric: &'a Fabric,
    /// Most fabrics have no link without rate and delay, hence no need of them.
    routes: OnceCell<Routes>,
}

impl<'a> Standstill<'a> {
    pub const fn new(fabric: &'a Fabric) -> Self {
        Self { fabric, routes: OnceCell::new() }
    }

    /// Whether there is a link without rate and delay at all.
    pub fn is_possible(&self, overrides: &Overrides) -> bool {
        self.fabric.topology.links.iter().any(|link| self.takes_no_time(link, overrides))
    }

    /// The first of `pairs` between which packets and ACKs can take no time, with the fabric changed by `overrides`. `by_any_way`: links
    /// fail, and routes follow them.
    pub fn find(
        &self,
        overrides: &Overrides,
        pairs: &[(NodeId, NodeId)],
        by_any_way: bool,
    ) -> Option<(NodeId, NodeId)> {
        if !self.is_possible(overrides) {
            return None;
        }
        if by_any_way {
            let topology = &self.fabric.topology;
            let takes_none = |link: LinkId| self.takes_no_time(&topology.links[link], overrides);
            return pairs.iter().find(|(a, b)| topology.reached(*a, takes_none)[*b]).copied();
        }
        let stands = |&&(a, b): &&(NodeId, NodeId)| self.is_free(overrides, a, b) && self.is_free(overrides, b, a);
        pairs.iter().find(stands).copied()
    }

    /// Whether some way that packets may take from `from` to `to` has only links without rate and delay.
    fn is_free(&self, overrides: &Overrides, from: NodeId, to: NodeId) -> bool {
        let routes = self.routes.get_or_init(|| Routes::compute(&self.fabric.topology));
        let is_single = overrides.spread(self.fabric) == Spread::Single;
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(&at) = seen.get(next) {
            if at == to {
                return true;
            }
            next += 1;
            let ports = routes.next_hops(at, to);
            for &port in &ports[..if is_single { ports.len().min(1) } else { ports.len() }] {
                let (link, side) = self.fabric.topology.nodes[at].ports[port];
                let link = &self.fabric.topology.links[link];
                let peer = link.end(side.other()).node;
                if self.takes_no_time(link, overrides) && !seen.contains(&peer) {
                    seen.push(peer);
                }
            }
        }
        false
    }

    /// Whether a link carries packets at once, both ways. Of one that a host's card waits at, one way takes time, and so does each way there and back.
    fn takes_no_time(&self, link: &Link, overrides: &Overrides) -> bool {
        let is_at_host = [link.a, link.b].iter().any(|end| self.fabric.topology.is_host(end.node));
        let takes_time = |spec: &LinkSpec| {
            let spec = overrides.link(&self.fabric.topology, link, *spec);
            (if is_at_host { spec } else { spec.towards_switch() }).is_shaped()
        };
        !link.specs().any(takes_time)
    }
}

#[cfg(test)]
mod tests {
    use fabric::LinkSetting;
    use link::LinkSpec;
    use machine::Span;

    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_flow_stands_still_if_all_its_links_take_no_time() {
        let mut fabric = tree(1, 2, 2, true);
        let none = Overrides::default();
        let (near, far) = ((NodeId(0), NodeId(1)), (NodeId(1), NodeId(2)));
        assert_eq!(Standstill::new(&fabric).find(&none, &[near, far], false), None);
        for link in &mut fabric.topology.links[..topology::LinkId(4)] {
            link.spec = LinkSpec::default();
        }
        // Hosts of one edge switch have nothing but such links between them; the others cross the aggregation.
        assert_eq!(Standstill::new(&fabric).find(&none, &[far, near], false), Some(near));
        assert_eq!(Standstill::new(&fabric).find(&none, &[far], false), None);
        assert_eq!(Standstill::new(&fabric).find(&none, &[far, near], true), Some(near));
        let delayed = Overrides::from([LinkSetting::Delay(Span::from_us(1))]);
        assert_eq!(Standstill::new(&fabric).find(&delayed, &[near, far], true), None);
        let collected = Overrides::from([LinkSetting::Coalesce(Span::from_us(1))]);
        assert_eq!(Standstill::new(&fabric).find(&collected, &[near], true), None);
        let at_once = Overrides::from([LinkSetting::Delay(Span::ZERO), LinkSetting::Rate(1_000)]);
        assert_eq!(
            Standstill::new(&fabric).find(&at_once, &[near], false),
            Some(near),
            "a rate only where there is one"
        );
    }
}
