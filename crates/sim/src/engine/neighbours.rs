//! By which addresses hosts of flows reach each other, in the engine.

use machine::Time;
use topology::NetPort;

use super::Engine;
use crate::medium::Packet;
use crate::neighbours::AddressLearned;
use datapath::Driver as _;

impl Engine<'_> {
    /// A frame has come to a host, which may announce by which address it reaches another one.
    #[cold]
    pub(super) fn hear(&mut self, port: NetPort, packet: Packet) {
        let asker = self.tables.map.node(port);
        let frame = self.medium.frame(&packet).unwrap_or_default();
        let learned = self.neighbours.hear(&self.tables, asker, frame);
        self.medium.free(packet);
        if let Some(learned) = learned {
            self.write_to(learned);
        }
    }

    /// A host writes to another one by this address from here on.
    fn write_to(&mut self, AddressLearned { asker, host, mac }: AddressLearned) {
        for direction in self.directions.iter_mut().filter(|direction| (direction.from, direction.to) == (asker, host))
        {
            direction.header = self.medium.headers.with_destination(direction.header, mac);
            direction.is_unresolved = false;
        }
    }

    #[cold]
    pub(super) fn resolve(&mut self, now: Time, direction: u32) {
        let (asker, host) = (self.directions[direction as usize].from, self.directions[direction as usize].to);
        let network = (&self.tables, &mut self.graph, &mut self.medium);
        let address = self.neighbours.address(now, self.scenario.fabric, network, (asker, host));
        if let Some(mac) = address {
            self.write_to(AddressLearned { asker, host, mac });
        }
    }
}
