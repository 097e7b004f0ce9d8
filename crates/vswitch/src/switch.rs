//! One switch: next-hop sets towards every host, and the state of its spreading.

use machine::{Rng, mix};
use topology::{NodeId, PortId, Routes};

use crate::spread::{self, FlowHash, Spread};

/// [`Forwarding::to`] of what is flooded to every host: broadcast and multicast.
pub const FLOOD: NodeId = NodeId(u32::MAX);

/// [`Forwarding::to`] of what is for an address that no host has: there is no route to it, but flows may be for it.
pub const UNKNOWN: NodeId = NodeId(u32::MAX - 1);

/// What a packet needs to be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The host it goes to, or [`FLOOD`] or [`UNKNOWN`].
    pub to: NodeId,
    /// The hash of its flow.
    pub hash: FlowHash,
}

/// A switch's forwarding state. What a packet needs stands first, in one line of the processor's cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Switch {
    id: NodeId,
    policy: Spread,
    /// Whether no port is in `down`.
    is_whole: bool,
    salt: u64,
    /// Whose turn it is, for each next-hop set or each destination, as the policy says.
    turns: Box<[u32]>,
    rng: Rng,
    /// Ports that lead nowhere any more, until new routes say so. Empty nearly always.
    down: Vec<PortId>,
}

impl Switch {
    /// The switch `id`. `seed` salts its hash and starts its random source; two switches of one seed differ.
    pub fn new(id: NodeId, policy: Spread, routes: &Routes, seed: u64) -> Self {
        Self {
            id,
            policy,
            salt: mix(seed ^ mix(u64::from(id.0) + 1)),
            rng: Rng::new(seed).fork(u64::from(id.0)),
            turns: turns(id, policy, routes),
            down: Vec::new(),
            is_whole: true,
        }
    }

    /// A port leads nowhere any more: it is in no next-hop set until [`Switch::reroute`].
    pub fn lose(&mut self, port: PortId) {
        if !self.down.contains(&port) {
            self.down.push(port);
            self.is_whole = false;
        }
    }

    /// All ports lead where the routes say again.
    pub fn restore(&mut self) {
        self.down.clear();
        self.is_whole = true;
    }

    /// Chooses as `old` has chosen: the salt of its hash and its random source are that one's. For the same switch in a network that has changed, in which it may
    /// have another number; flows keep their paths then, where those are still there.
    pub fn keep_choices(&mut self, old: &Self) {
        self.salt = old.salt;
        self.rng = old.rng.clone();
    }

    /// What it adds to the hash of a flow.
    pub const fn salt(&self) -> u64 {
        self.salt
    }

    /// Chooses as another switch with this salt does.
    #[must_use]
    pub const fn with_salt(mut self, salt: u64) -> Self {
        self.salt = salt;
        self
    }

    /// Goes over to new routes, which [`Switch::forward`] is given from then on. The salt of its hash and its random source
    /// stay as they are; turns start anew, since the next-hop sets of two tables have nothing to do with each other.
    pub fn reroute(&mut self, routes: &Routes) {
        self.turns = turns(self.id, self.policy, routes);
        self.restore();
    }

    /// The port that the packet leaves by; `None` when there is no path.
    #[expect(clippy::inline_always, reason = "a call costs the simulator a twentieth of its speed")]
    #[inline(always)]
    pub fn forward(&mut self, routes: &Routes, packet: Forwarding) -> Option<PortId> {
        if !self.is_whole {
            return self.forward_around(routes, packet);
        }
        let ports = routes.next_hops(self.id, packet.to);
        let pick = self.pick(routes, packet, ports.len() as u32)?;
        Some(ports[pick as usize])
    }

    /// The port that all packets like this one leave by, as long as nothing changes; `None` if there is no such port: no way, or one in turns.
    pub fn forward_always(&self, routes: &Routes, packet: Forwarding) -> Option<PortId> {
        let ports = routes.next_hops(self.id, packet.to).iter().copied();
        let left: Vec<PortId> = ports.filter(|port| !self.down.contains(port)).collect();
        match (&*left, self.policy) {
            ([], _) => None,
            ([only], _) | ([only, ..], Spread::Single) => Some(*only),
            (several, Spread::Ecmp) => {
                Some(several[spread::ecmp(packet.hash, self.salt, several.len() as u32) as usize])
            }
            (_, Spread::PacketScatter | Spread::PacketScatterPerDestination | Spread::PacketScatterRandom) => None,
        }
    }

    /// The ports that packets to `to` may leave by, as long as no port is lost: of one flow, if its hash is known, else of any. Those are several where packets
    /// take turns or are drawn at random, and where the hash is not known.
    pub fn choices<'a>(&self, routes: &'a Routes, to: NodeId, hash: Option<FlowHash>) -> &'a [PortId] {
        let ports = routes.next_hops(self.id, to);
        match (self.policy, hash) {
            (Spread::Single, _) => &ports[..ports.len().min(1)],
            (Spread::Ecmp, Some(hash)) if !ports.is_empty() => {
                let pick = spread::ecmp(hash, self.salt, ports.len() as u32) as usize;
                &ports[pick..=pick]
            }
            (
                Spread::Ecmp
                | Spread::PacketScatter
                | Spread::PacketScatterPerDestination
                | Spread::PacketScatterRandom,
                _,
            ) => ports,
        }
    }

    /// [`Switch::forward`] where some port leads nowhere.
    #[cold]
    #[inline(never)]
    fn forward_around(&mut self, routes: &Routes, packet: Forwarding) -> Option<PortId> {
        let ports = routes.next_hops(self.id, packet.to).iter().copied();
        let left: Vec<PortId> = ports.filter(|port| !self.down.contains(port)).collect();
        let pick = self.pick(routes, packet, left.len() as u32)?;
        Some(left[pick as usize])
    }

    /// Picks one of `n` ports.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn pick(&mut self, routes: &Routes, packet: Forwarding, n: u32) -> Option<u32> {
        Some(match (n, self.policy) {
            (0, _) => return None,
            (1, _) | (_, Spread::Single) => 0,
            (_, Spread::Ecmp) => spread::ecmp(packet.hash, self.salt, n),
            (_, Spread::PacketScatter) => {
                spread::round_robin(&mut self.turns[routes.group(self.id, packet.to) as usize], n)
            }
            (_, Spread::PacketScatterPerDestination) => spread::round_robin(&mut self.turns[usize::from(packet.to)], n),
            (_, Spread::PacketScatterRandom) => spread::random(&mut self.rng, n),
        })
    }
}

/// The first turns of the switch `id`: none where nothing is sent in turn.
fn turns(id: NodeId, policy: Spread, routes: &Routes) -> Box<[u32]> {
    let turns = match policy {
        Spread::PacketScatter => routes.groups(id) as usize,
        Spread::PacketScatterPerDestination => routes.hosts(),
        Spread::Single | Spread::Ecmp | Spread::PacketScatterRandom => 0,
    };
    vec![0; turns].into()
}

#[cfg(test)]
mod tests {
    use topology::Topology;

    use super::*;
    use crate::testing::topology_of;

    /// The switch in the middle of the star.
    const CENTRE: NodeId = NodeId(4);

    /// Host 0 at the switch 4, hosts 1, 2 and 3 at the switches 5, 6 and 7, and three links from the switch 4 to each of those: links
    /// 4 to 6 by its ports 1 to 3, and so on.
    #[allow(clippy::default_trait_access, reason = "no machine knows another: what a link does has no name here")]
    fn star() -> Topology {
        let mut topology = topology_of(4);
        for name in ["s1", "s2", "s3", "s4"] {
            topology.add_switch(name.into(), 1, None);
        }
        for host in 0..4 {
            topology.connect(NodeId(host), NodeId(4 + host), Default::default());
        }
        for leaf in [5, 5, 5, 6, 6, 6, 7, 7, 7] {
            topology.connect(CENTRE, NodeId(leaf), Default::default());
        }
        topology
    }

    fn without(topology: &Topology, down: &[u32]) -> Routes {
        Routes::around(topology, |link| !down.contains(&link.0))
    }

    fn packet(to: u32, flow: u64) -> Forwarding {
        Forwarding { to: NodeId(to), hash: FlowHash(mix(flow)) }
    }

    #[test]
    fn turns_go_over_the_sets_of_the_new_routes() {
        let topology = star();
        let whole = without(&topology, &[]);
        let mut switch = Switch::new(CENTRE, Spread::PacketScatter, &whole, 1);
        let ports = |switch: &mut Switch, routes: &Routes| -> Vec<Option<u16>> {
            (0..4).map(|flow| switch.forward(routes, packet(2, flow)).map(|port| port.0)).collect()
        };
        assert_eq!(ports(&mut switch, &whole), [Some(4), Some(5), Some(6), Some(4)]);
        let fewer = without(&topology, &[8]);
        switch.reroute(&fewer);
        assert_eq!(ports(&mut switch, &fewer), [Some(4), Some(6), Some(4), Some(6)]);
        let none = without(&topology, &[7, 8, 9]);
        switch.reroute(&none);
        assert_eq!(ports(&mut switch, &none), [None; 4]);
        switch.reroute(&whole);
        assert_eq!(ports(&mut switch, &whole), [Some(4), Some(5), Some(6), Some(4)]);
    }

    #[test]
    #[allow(clippy::default_trait_access, reason = "as above")]
    fn a_turn_is_a_next_hop_sets_or_a_destinations() {
        // Hosts 0 and 1 at the switch 2, which is the other's neighbour by two links.
        let (near, far) = (NodeId(3), NodeId(2));
        let mut topology = topology_of(2);
        for (at, name) in ["far", "near"].into_iter().enumerate() {
            topology.add_switch(name.into(), 1, None);
            topology.connect(NodeId(at as u32), far, Default::default());
        }
        for _ in 0..2 {
            topology.connect(near, far, Default::default());
        }
        let routes = without(&topology, &[]);
        let ports = |policy| {
            let mut switch = Switch::new(near, policy, &routes, 1);
            [0, 1, 0, 1, 0, 1].map(|to| switch.forward(&routes, packet(to, 0)).unwrap().0)
        };
        // Two flows that send by turns keep to one port each where they share a turn.
        assert_eq!(ports(Spread::PacketScatter), [0, 1, 0, 1, 0, 1]);
        assert_eq!(ports(Spread::PacketScatterPerDestination), [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn a_switch_forwards_by_smaller_and_larger_tables() {
        let topology = star();
        let isolated: Vec<u32> = (4..13).collect();
        let downs: [&[u32]; 6] = [&isolated, &[], &[7, 8, 9], &[0, 5, 8], &isolated, &[2]];
        let groups = downs.map(|down| without(&topology, down).groups(CENTRE));
        assert!(groups[0] < groups[2] && groups[2] < groups[1], "the tables have several sizes: {groups:?}");
        for &policy in Spread::ALL {
            let mut switch = Switch::new(CENTRE, policy, &without(&topology, &isolated), 1);
            for down in downs {
                let routes = without(&topology, down);
                switch.reroute(&routes);
                for (to, flow) in (0..4).flat_map(|to| (0..9).map(move |flow| (to, flow))) {
                    let port = switch.forward(&routes, packet(to, flow));
                    let hops = routes.next_hops(CENTRE, NodeId(to));
                    assert_eq!(port.is_none(), hops.is_empty(), "{policy:?} without {down:?} to {to}");
                    assert!(port.is_none_or(|port| hops.contains(&port)), "{policy:?} without {down:?} to {to}");
                }
            }
        }
    }

    #[test]
    fn flows_hash_and_randomness_goes_on_as_if_routes_had_stayed() {
        let topology = star();
        let whole = without(&topology, &[]);
        for policy in [Spread::Ecmp, Spread::PacketScatterRandom] {
            let mut stays = Switch::new(CENTRE, policy, &whole, 1);
            let mut moves = stays.clone();
            for flow in 0..32 {
                moves.reroute(&without(&topology, &[5]));
                moves.reroute(&whole);
                let packet = packet(3, flow);
                assert_eq!(moves.forward(&whole, packet), stays.forward(&whole, packet), "{policy:?}, flow {flow}");
            }
        }
    }
}
