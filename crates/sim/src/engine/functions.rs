//! Packets that pass functions of service chains.

use std::collections::BTreeMap;

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
    pub(super) fn come_to_function(&mut self, now: Time, port: NetPort, packet: Packet) {
        let (verdict, out) = self.offer_to_function(now, port, packet);
        let Some(impaired) = verdict.impaired() else { return self.medium.free(packet) };
        if impaired.is_duplicated
            && let Some(second) = self.medium.copy(&packet)
        {
            let (verdict, out) = self.offer_to_function(now, port, second);
            match verdict.impaired() {
                Some(impaired) => self.pass_function((now, impaired), out, second),
                None => self.medium.free(second),
            }
        }
        self.pass_function((now, impaired), out, packet);
    }

    fn offer_to_function(&mut self, now: Time, port: NetPort, packet: Packet) -> (Verdict, NetPort) {
        let network = (&self.scenario.fabric.topology, &self.tables.map);
        self.functions.offer(now, network, port, self.medium.bytes(&packet))
    }

    /// A function passes a packet on. Whoever forwards frames marks none.
    fn pass_function(&mut self, (now, impaired): (Time, Impaired), out: NetPort, mut packet: Packet) {
        if let Some(bits) = impaired.flips {
            self.medium.corrupt(&mut packet, bits);
        }
        if impaired.at <= now {
            return self.leave_function(now, out, packet);
        }
        let event = Event { packet: packet.id, header: packet.header, at: HOST | FUNCTION | out.0 };
        self.medium.calendar.push(impaired.at, event);
    }

    /// A packet leaves a function.
    #[cold]
    pub(super) fn leave_function(&mut self, now: Time, out: NetPort, packet: Packet) {
        self.graph.depart(self.tables.at(now), &mut self.medium, out, packet);
        self.receive_delivered(now);
    }

    /// What each instance of each chain's functions has got and given back, on both courses.
    pub(crate) fn functions(&self) -> Vec<[FunctionOutcome; 2]> {
        self.graph.chains.instances.iter().map(|instance| instance.hops.map(outcome)).collect()
    }

    /// What went nowhere since the start and no link has counted, by reason.
    pub(crate) const fn lost(&self) -> &BTreeMap<&'static str, u64> {
        &self.medium.lost
    }

    /// The same of built-in functions.
    pub(crate) fn built_in_functions(&self) -> Vec<[FunctionOutcome; 2]> {
        self.graph.chains.built_in.iter().map(|function| function.hops.map(outcome)).collect()
    }
}

fn outcome(hop: HopCounters) -> FunctionOutcome {
    FunctionOutcome {
        in_packets: hop.in_packets,
        out_packets: hop.out_packets,
        delay_mean: hop.delay_total.as_ps().checked_div(hop.timed).map(Span::from_ps),
    }
}
