//! Packets that pass functions of service chains.

use datapath::{Driver as _, HopCounters};
use link::{Impaired, Verdict};
use machine::{Span, Time};
use topology::NetPort;

use super::Engine;
use crate::FunctionOutcome;
use crate::medium::{Event, FUNCTION, HOST, Packet};

impl Engine<'_> {
    /// A packet has come to a function, by either of its ports.
    #[cold]
    pub(super) fn come_to_function(&mut self, now: Time, port: NetPort, mut packet: Packet) {
        let network = (&self.scenario.fabric.topology, &self.tables.map);
        let (verdict, out) = self.functions.offer(now, network, port, self.medium.bytes(&packet));
        match verdict {
            // Whoever forwards frames marks none.
            Verdict::Arrives(at) | Verdict::Marks(at) => self.leave_function_at(now, at, out, packet),
            Verdict::Impaired(Impaired { at, marks: _, is_duplicated, flips }) => {
                if is_duplicated && let Some(second) = self.medium.copy(&packet) {
                    self.leave_function_at(now, at, out, second);
                }
                if let Some(bits) = flips {
                    self.medium.corrupt(&mut packet, bits);
                }
                self.leave_function_at(now, at, out, packet);
            }
            Verdict::Dropped => self.medium.free(packet),
        }
    }

    fn leave_function_at(&mut self, now: Time, at: Time, out: NetPort, packet: Packet) {
        if at <= now {
            return self.leave_function(now, out, packet);
        }
        let event = Event { packet: packet.id, header: packet.header, at: HOST | FUNCTION | out.0 };
        self.medium.calendar.push(at, event);
    }

    /// A packet leaves a function.
    #[cold]
    pub(super) fn leave_function(&mut self, now: Time, out: NetPort, packet: Packet) {
        self.graph.depart(self.tables.at(now), &mut self.medium, out, packet);
        self.receive_delivered(now);
    }

    /// What each instance of each chain's functions has got and given back, on both courses.
    pub(crate) fn functions(&self) -> Vec<[FunctionOutcome; 2]> {
        let outcome = |hop: HopCounters| FunctionOutcome {
            in_packets: hop.in_packets,
            out_packets: hop.out_packets,
            delay_mean: hop.delay_total.as_ps().checked_div(hop.timed).map(Span::from_ps),
        };
        self.graph.chains.instances.iter().map(|instance| instance.hops.map(outcome)).collect()
    }
}
