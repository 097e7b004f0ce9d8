//! Links that lose their carrier and get it back: what becomes of their packets, and who hears of it.
//!
//! Every worker carries out the order: a link's two directions, the packets under way on them and the ends of a bond can be at
//! two workers. Each does what concerns it. A packet that one of them hands over while the other has done so already is not lost:
//! it was through the cable in time.

use bond::MemberId;
use link::Link;
use machine::Time;
use topology::{Direction, LinkId};

use super::parts::Parts;
use super::plan::Plan;
use super::poller::PortKey;
use super::worker::Worker;
use crate::device::Replacement;

impl Worker {
    /// A link has lost its carrier, or has it back. The ends of its bond hear of it at once.
    pub(super) fn set_link(&mut self, now: Time, link: LinkId, up: bool) {
        let directions = Direction::both(link);
        if self.parts.links.len() <= usize::from(directions[1]) {
            return;
        }
        for direction in directions {
            let link = &mut self.parts.links[direction];
            match link {
                Some(link) if up => link.heal(),
                Some(link) => link.cut(),
                None => {}
            }
        }
        if !up {
            self.lose_what_is_under_way(directions);
        }
        for direction in directions {
            let Some((end, member)) = self.plan.far_bond(direction) else { continue };
            if let Some(place) = &mut self.parts.bonds[end] {
                place.carrier(now, MemberId::new(member), up);
                self.poll_bond(now, end);
            }
        }
    }

    /// A device of a host was made again, and its port opened anew.
    pub(super) fn replace_port(&mut self, key: PortKey, Replacement { old, socket, port }: Replacement) {
        let poller = &self.pollers[self.id];
        poller.ignore(&*old);
        if let Err(error) = poller.watch(&*socket, key) {
            tracing::error!("a device that was made again is not read: {error}");
        }
        if let Some(host) = &mut self.parts.ports[key.host] {
            host.replace_port(key.device, port);
        }
    }

    fn lose_what_is_under_way(&mut self, directions: [Direction; 2]) {
        for (over, packet) in self.parts.flight.take_over(directions) {
            match &mut self.parts.links[over] {
                Some(link) => link.lose(1),
                // It left from another worker's node.
                None => self.parts.refused.removed += 1,
            }
            self.pool.put(packet.frame);
        }
    }
}

impl Parts {
    /// Which links have no carrier, by their number: what a new network is told after it was made.
    pub(super) fn links_down(&self) -> impl Iterator<Item = LinkId> + '_ {
        let is_down = |link: &Option<Link>| link.as_ref().is_some_and(|link| !link.is_up());
        self.links.iter_enumerated().filter(move |(_, link)| is_down(link)).map(|(direction, _)| direction.link())
    }

    /// Tells the bonds that have just been made which of their members' links have no carrier.
    pub(super) fn tell_new_bonds(&mut self, plan: &Plan, now: Time) {
        let down: Vec<LinkId> = self.links_down().collect();
        for link in down {
            for direction in Direction::both(link) {
                if let Some((end, member)) = plan.far_bond(direction)
                    && let Some(place) = &mut self.bonds[end]
                {
                    place.carrier(now, MemberId::new(member), false);
                }
            }
        }
    }
}
