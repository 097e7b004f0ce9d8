//! Where captures look at a worker's packets.

use std::sync::Arc;

use machine::{Rebase, Span, Time};
use topology::NetPort;

use super::edge::Edge;
use super::pool::Packet;
use super::worker::Worker;
use crate::sniffer::{Direction, Interface, Observer};

/// One direction of a link that a capture looks at.
#[derive(Clone, Debug)]
pub struct TapPoint {
    /// The port that packets leave by.
    pub port: NetPort,
    /// The capture's port, and which way packets go there.
    pub interface: Arc<Interface>,
    pub direction: Direction,
    /// Nanoseconds from 1970 until the worker's clock showed zero.
    pub zero_ns: u64,
    /// Who looks.
    pub observer: Arc<Observer>,
}

impl Rebase for TapPoint {
    fn rebase(&mut self, by: Span) {
        let Self { port: _, interface: _, direction: _, zero_ns, observer: _ } = self;
        *zero_ns += by.as_ns();
    }
}

impl Worker {
    /// Captures look at these directions from now on, and at no others.
    pub(super) fn observe(&mut self, points: Vec<TapPoint>) {
        self.graph.add_up_paths(self.plan.tables(), &mut self.edge);
        self.graph.observe(points.iter().map(|point| point.port));
        self.withdraw_offloads(self.now());
        self.edge.tap_points = points;
    }
}

impl Edge {
    /// A packet leaves by a port, and comes to the other end of its link: captures see it there and here.
    #[cold]
    pub(super) fn show(&self, port: NetPort, left: Time, arrives: Time, packet: &Packet) {
        for point in self.tap_points.iter().filter(|point| point.port == port) {
            let at = match point.direction {
                Direction::Outbound => left,
                Direction::Inbound => arrives,
            };
            point.observer.see(point.zero_ns + at.as_ns(), &point.interface, point.direction, packet.bytes());
        }
    }

    /// Where a host's own link ends, its worker answers questions and refuses frames: captures of the link see them all the same.
    #[cold]
    pub(super) fn show_at_edge(&self, port: NetPort, now: Time, packet: &Packet) {
        if !self.tap_points.is_empty() {
            self.show(port, now, now, packet);
        }
    }
}
