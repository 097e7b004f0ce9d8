//! One switch: next-hop sets towards every host, and the state of its spreading.

use machine::{Rng, mix};
use topology::{NodeId, PortId, Routes};

use crate::spread::{self, FlowHash, Spread};

/// What a packet needs to be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The host it goes to.
    pub to: NodeId,
    /// Its flow.
    pub hash: FlowHash,
}

/// A switch's forwarding state.
#[derive(Clone, Debug)]
pub struct Switch {
    id: NodeId,
    policy: Spread,
    salt: u64,
    rng: Rng,
    /// Whose turn it is, a next-hop set.
    turns: Box<[u32]>,
}

impl Switch {
    /// The switch `id`. `seed` salts its hash and starts its random source; two switches of one seed differ.
    pub fn new(id: NodeId, policy: Spread, routes: &Routes, seed: u64) -> Self {
        Self {
            id,
            policy,
            salt: mix(seed ^ mix(u64::from(id.0) + 1)),
            rng: Rng::new(seed).fork(u64::from(id.0)),
            turns: vec![0; routes.groups(id) as usize].into(),
        }
    }

    /// The port that the packet leaves by; `None` when there is no way.
    #[inline]
    pub fn forward(&mut self, routes: &Routes, packet: Forwarding) -> Option<PortId> {
        let ports = routes.next_hops(self.id, packet.to);
        let n = ports.len() as u32;
        let pick = match (n, self.policy) {
            (0, _) => return None,
            (1, _) | (_, Spread::Single) => 0,
            (_, Spread::Ecmp) => spread::ecmp(packet.hash, self.salt, n),
            (_, Spread::PacketScatter) => {
                spread::round_robin(&mut self.turns[routes.group(self.id, packet.to) as usize], n)
            }
            (_, Spread::PacketScatterRandom) => spread::random(&mut self.rng, n),
        };
        Some(ports[pick as usize])
    }
}
