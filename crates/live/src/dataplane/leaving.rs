//! Frames that go to hosts at the end of a burst, by their ports.

use super::burst::TxFrames;
use super::poller::PortKey;
use super::pool::Packet;

/// Frames that go to hosts at the end of a burst, each with its port.
#[derive(Debug, Default)]
pub struct Leaving {
    packets: Vec<Packet>,
    by: Vec<PortKey>,
    /// While they are sorted, the ones for one port, and the others.
    together: Vec<Packet>,
    apart: Vec<Packet>,
    apart_by: Vec<PortKey>,
}

impl Leaving {
    /// Adds a frame.
    #[inline]
    pub fn push(&mut self, by: PortKey, packet: Packet) {
        self.packets.push(packet);
        self.by.push(by);
    }

    /// The frames that are to be handed to one port together, in their order, when so many have been handed over before; `None` when none is left.
    #[inline]
    pub fn run(&mut self, before: usize) -> Option<(PortKey, TxFrames<'_>)> {
        let by = *self.by.get(before)?;
        let mut run = self.by[before..].iter().take_while(|other| **other == by).count();
        if self.by.get(before + run + 1) == Some(&by) {
            run = self.bring_together(before);
        }
        Some((by, TxFrames(&self.packets[before..before + run])))
    }

    /// Frames go to and fro between two ports, as between members of a bond: brings those for one of them together, from one of them on. How many there are.
    #[inline(never)]
    fn bring_together(&mut self, from: usize) -> usize {
        let by = self.by[from];
        for (other, packet) in self.by.drain(from..).zip(self.packets.drain(from..)) {
            if other == by {
                self.together.push(packet);
            } else {
                self.apart.push(packet);
                self.apart_by.push(other);
            }
        }
        let run = self.together.len();
        self.packets.append(&mut self.together);
        self.by.resize(self.packets.len(), by);
        self.packets.append(&mut self.apart);
        self.by.append(&mut self.apart_by);
        run
    }

    /// Takes all of them out.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.by.clear();
        self.packets.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::{Depot, Pool};
    use super::*;

    #[test]
    fn what_goes_to_and_fro_between_ports_is_handed_over_together() {
        let mut pool = Pool::new(100, 10_000, Depot::default());
        let mut leaving = Leaving::default();
        let key = |device| PortKey { host: 3, device };
        for (number, device) in [7, 7, 0, 1, 0, 0, 1, 0, 2, 1].into_iter().enumerate() {
            let mut packet = pool.take().unwrap();
            packet.buffer()[0] = number as u8;
            packet.set_len(1);
            leaving.push(key(device), packet);
        }
        let (mut runs, mut before) = (Vec::new(), 0);
        while let Some((by, frames)) = leaving.run(before) {
            before += frames.iter().len();
            runs.push((by.device, frames.iter().map(|frame| frame[0]).collect::<Vec<_>>()));
        }
        let expected = [(7, vec![0, 1]), (0, vec![2, 4, 5, 7]), (1, vec![3, 6, 9]), (2, vec![8])];
        assert_eq!(runs, expected);
        assert_eq!(leaving.drain().count(), 10);
        assert!(leaving.run(0).is_none());
    }
}
