//! Links that lose their carrier and get it back, at times of the scenario.
//!
//! A fault is no event of the calendar: the run stops before its time, changes the link, and goes on. So a network without faults
//! pays nothing for them. What is under way on a link can only be found where its events name the wire, as they do in bonds: the
//! wires of links with faults do so, too.

use bond::MemberId;
use fabric::LinkFault;
use machine::{Span, Time};
use topology::Side;

use crate::bonded::{Bonds, OVER};
use crate::engine::{Engine, Wire};
use crate::run::Scenario;

/// Lets the events of wires with faults name the wire, not the node that it leads to.
pub(crate) fn name_wires(scenario: &Scenario<'_>, first_wire: &[u32], bonds: &mut Bonds, wires: &mut [Wire]) {
    for link in scenario.faults.iter().flat_map(|fault| fault.links(scenario.fabric)) {
        let link = &scenario.fabric.topology.links[link];
        for side in [Side::A, Side::B] {
            let (near, far) = (link.end(side), link.end(side.other()));
            let wire = first_wire[near.node.0 as usize] + u32::from(near.port.0);
            bonds.watch(wire, far.node.0, wires);
        }
    }
}

impl<const PLAIN: bool> Engine<'_, PLAIN> {
    /// Lets everything happen that lies before `end`, the faults among it. `begin`: when measuring began.
    pub(crate) fn run_through_faults(&mut self, begin: Time, duration: Span, faults: &[LinkFault]) {
        for fault in faults.iter().filter(|fault| fault.at < duration) {
            let now = begin + fault.at;
            self.run_before(now);
            self.inject(now, fault);
        }
        self.run_before(begin + duration);
    }

    fn inject(&mut self, now: Time, fault: &LinkFault) {
        let links = fault.links(self.fabric());
        for link in &links {
            for side in [Side::A, Side::B] {
                let link = &mut self.wire(*link, side).link;
                if fault.up { link.heal() } else { link.cut() }
            }
        }
        for link in links {
            let wires = [Side::A, Side::B].map(|side| self.wire_of(link, side));
            if !fault.up {
                self.lose_what_is_on(wires);
            }
            // The end that a wire leads to has the link as a member.
            for wire in wires {
                let Some((index, member)) = self.bonds.far_end(wire) else { continue };
                self.change_carrier(now, index, MemberId::new(member), fault.up);
            }
        }
    }

    /// Takes out of the calendar what is under way on these wires. Looks at every event: cables are pulled rarely.
    fn lose_what_is_on(&mut self, wires: [u32; 2]) {
        let mut events = std::mem::take(&mut self.calendar);
        while let Some((at, event)) = events.pop() {
            match wires.iter().find(|wire| event.at == OVER | **wire) {
                None => self.calendar.push(at, event),
                Some(wire) => {
                    self.wires[*wire as usize].link.lose(1);
                    self.throw_away(event);
                }
            }
        }
    }
}
