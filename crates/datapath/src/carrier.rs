//! Links that lose their carrier and get it back: what becomes of their packets, and who hears of it.

use bond::{Carrier, MemberId};
use machine::Time;
use topology::{BondEndId, LinkId, NetPort};

use crate::driver::{Driver, Loss};
use crate::ends::Role;
use crate::graph::{Graph, Tables, Wire};

impl<P> Graph<P> {
    /// A link has lost its carrier, or has it back: what is under way on it is lost, and the ends of its bond hear of it at once. Of a graph in
    /// parts, each part is to be told.
    pub fn set_carrier<D: Driver<Packet = P>>(
        &mut self,
        tables: &Tables,
        driver: &mut D,
        now: Time,
        link: LinkId,
        up: bool,
    ) {
        let ends = tables.map.ends(link);
        for port in ends {
            match &mut self.wires[port] {
                Some(Wire { link, .. }) if up => link.heal(),
                Some(Wire { link, .. }) => link.cut(),
                None => {}
            }
        }
        if !up {
            self.lose_what_is_under_way(driver, ends);
        }
        for port in ends {
            // The end that a wire leads to has the link as a member.
            let Some((end, member)) = tables.map.member(tables.map.far(port)) else { continue };
            if self.tell_carrier(now, end, member, up) {
                self.poll_end(tables, driver, now, end);
            }
        }
    }

    /// What is on its way from one end comes to the other.
    fn lose_what_is_under_way<D: Driver<Packet = P>>(&mut self, driver: &mut D, ends: [NetPort; 2]) {
        let lost = driver.throw_away([ends[1], ends[0]]);
        for (from, lost) in ends.into_iter().zip(lost) {
            match &mut self.wires[from] {
                Some(wire) => wire.link.lose(lost),
                None => (0..lost).for_each(|_| driver.count(Loss::Cut)),
            }
        }
    }

    /// Tells an end of a bond, if it is here, of a member's link; whether it is to be polled then.
    fn tell_carrier(&mut self, now: Time, end: BondEndId, member: MemberId, up: bool) -> bool {
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

    /// Tells bonds that have just been made which of their members' links have no carrier.
    pub fn tell_new_ends(&mut self, tables: &Tables, now: Time) {
        let down = self.wires.iter_enumerated().filter_map(|(port, wire)| Some((port, wire.as_ref()?)));
        let down: Vec<NetPort> = down.filter(|(_, wire)| !wire.link.is_up()).map(|(port, _)| port).collect();
        for port in down {
            if let Some((end, member)) = tables.map.member(port) {
                self.tell_carrier(now, end, member, false);
            }
        }
    }
}
