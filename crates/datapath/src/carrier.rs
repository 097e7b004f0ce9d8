//! Links that lose their carrier and get it back: what becomes of their packets, and who hears of it.

use std::sync::Arc;

use bond::{Carrier, MemberId};
use machine::Time;
use topology::{BondEndId, LinkId, NetPort, Rerouting, Routes, Topology};

use crate::driver::{Driver, Loss};
use crate::ends::Role;
use crate::graph::{Graph, Moment, Tables};
use crate::map::Map;

impl<P> Graph<P> {
    /// A link has lost its carrier, or has it back: what is under way on it is lost, and the ends of its bond hear of it at once. Of a graph in
    /// parts, each part is to be told.
    pub fn set_carrier<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, link: LinkId, up: bool) {
        let Moment { tables, now } = moment;
        let ends = tables.map.ends(link);
        self.paths.forget();
        for port in ends {
            self.egress[port].set_carrier(now, up);
        }
        for port in ends {
            self.report_carrier_to_pipeline(tables, port);
        }
        for port in ends {
            self.report_carrier_to_bridge(moment, driver, port);
        }
        self.report_carrier_to_functions(moment, driver, link, up);
        self.report_carrier_to_balancers(moment, driver, link, up);
        if !up {
            self.lose_what_is_under_way(driver, ends);
            if tables.rerouting == Rerouting::Follow {
                for port in ends {
                    self.leave_out(tables, port);
                }
            }
        }
        for port in ends {
            // The end that a port leads to has the link as a member.
            let Some((end, member)) = tables.map.member(tables.map.far(port)) else { continue };
            if self.report_carrier(now, end, member, up) {
                self.poll_end(moment, driver, end);
            }
        }
        self.follow_pending(moment, driver);
    }

    /// A switch, also one in a multi-homed host, sends nothing to a port without carrier any more, nor to a bond of which no member has one.
    fn leave_out(&mut self, tables: &Tables, port: NetPort) {
        let map = &tables.map;
        // A bond is known to switches by its first member's port.
        let members = map.bond(port).map_or(std::slice::from_ref(&port), |end| map.members(end));
        let node = map.node(port);
        if !members.iter().any(|port| self.egress[*port].is_up())
            && let Some(at) = map.switch(node).or_else(|| map.host_switch(node))
        {
            self.switches[at].lose(map.number(members[0]));
        }
    }

    /// Goes over to other routes: those of the network as its links are now.
    pub fn reroute(&mut self, routes: Arc<Routes>) {
        let is_same = *self.routes == *routes;
        self.paths.forget();
        for switch in &mut self.switches {
            if is_same {
                switch.restore();
            } else {
                switch.reroute(&routes);
            }
        }
        self.routes = routes;
        self.generation += 1;
    }

    /// The links that have no carrier, as far as they leave from here, in order.
    pub fn links_down<'a>(&'a self, map: &'a Map, topology: &'a Topology) -> impl Iterator<Item = LinkId> + 'a {
        let is_down = |port: NetPort| self.egress[port].link().is_some_and(|link| !link.is_up());
        topology.links.keys().filter(move |link| map.ends(*link).into_iter().any(is_down))
    }

    /// The links that have no carrier, or at an end of which a port does not forward, as far as that is known here, in order.
    pub fn links_unused<'a>(&'a self, tables: &'a Tables, topology: &'a Topology) -> impl Iterator<Item = LinkId> + 'a {
        let map = &tables.map;
        let is_unused =
            |port: NetPort| self.egress[port].link().is_some_and(|link| !link.is_up()) || self.is_closed(tables, port);
        topology.links.keys().filter(move |link| map.ends(*link).into_iter().any(is_unused))
    }

    /// What is on its way from one end comes to the other.
    fn lose_what_is_under_way<D: Driver<Packet = P>>(&mut self, driver: &mut D, ends: [NetPort; 2]) {
        let lost = driver.throw_away([ends[1], ends[0]]);
        for (from, lost) in ends.into_iter().zip(lost) {
            match self.egress[from].link_mut() {
                Some(link) => link.lose(lost),
                None => (0..lost).for_each(|_| driver.count(Loss::Cut)),
            }
        }
    }

    /// Reports a member's link to an end of a bond, if it is here; whether the end is to be polled then.
    fn report_carrier(&mut self, now: Time, end: BondEndId, member: MemberId, up: bool) -> bool {
        match self.ends[end].as_mut().map(|state| &mut state.role) {
            Some(Role::Bonded(end)) => {
                let Some(carrier) = end.bond().member(member).map(bond::Member::carrier) else { return false };
                end.carrier(now, member, Carrier { up, ..carrier });
                true
            }
            Some(Role::Learning(learning)) => {
                if !up {
                    learning.forget(member);
                }
                false
            }
            Some(Role::External) | None => false,
        }
    }

    /// These links have no carrier from the beginning, and the ends of bonds have heard of it. For a graph that takes the place of another one.
    pub fn start_without(&mut self, tables: &Tables, now: Time, down: &[LinkId]) {
        for port in down.iter().flat_map(|link| tables.map.ends(*link)) {
            self.egress[port].set_carrier(now, false);
            if let Some((end, member)) = tables.map.member(port) {
                self.report_carrier(now, end, member, false);
            }
            self.report_carrier_to_pipeline(tables, port);
            self.start_functions_without(tables, now, port);
            self.start_balancers_without(tables, now, port);
        }
    }
}
