//! Packets that wait for a core of the machine, where hosts cost something.

use datapath::Driver as _;
use machine::Time;
use topology::NetPort;

use super::Engine;
use crate::medium::{Event, HOST, Packet, SENDS};

impl Engine<'_> {
    /// A host's packet leaves when a core has sent it.
    #[cold]
    pub(super) fn send_later(&mut self, now: Time, direction: u32, port: NetPort, packet: Packet) {
        let bytes = self.medium.bytes(&packet);
        let Some(cores) = &mut self.cores else { return };
        let done = cores.send(now, direction, bytes);
        let event = Event { packet: packet.id, header: packet.header, at: HOST | SENDS | port.0 };
        self.medium.calendar.push(done, event);
    }

    /// A packet that has come to a host gets to its flow when a core has handled it.
    #[cold]
    pub(super) fn receive_later(&mut self, now: Time, port: NetPort, packet: Packet) {
        let bytes = self.medium.bytes(&packet);
        let direction = self.medium.headers.get(packet.header).direction;
        let Some(cores) = &mut self.cores else { return };
        let Some(done) = cores.receive(now, direction, bytes) else { return self.medium.free(packet) };
        self.medium.calendar.push(done, Event { packet: packet.id, header: packet.header, at: HOST | port.0 });
    }

    /// A core has done with a packet.
    #[cold]
    pub(super) fn core_done(&mut self, now: Time, event: Event) {
        let port = NetPort(event.at & !(HOST | SENDS));
        let packet = Packet { id: event.packet, header: event.header };
        if event.at & SENDS != 0 {
            return self.leave(now, port, packet);
        }
        let direction = self.medium.headers.get(packet.header).direction;
        if let Some(cores) = &mut self.cores {
            cores.received(direction);
        }
        self.take_in(now, port, packet);
    }

    /// Until when a flow waits that would send now, since a core has yet to send what it sent before.
    #[inline]
    pub(super) fn held_until(&self, now: Time, direction: u32) -> Option<Time> {
        self.cores.as_ref()?.held_until(now, direction)
    }

    /// Packets that came to hosts which had too many to handle.
    pub(crate) fn host_drops(&self) -> Option<u64> {
        Some(self.cores.as_ref()?.dropped)
    }
}
