//! All equal-cost shortest paths, as next-hop sets.
//!
//! Hosts that hang on the same switch are reached alike, so tables are kept per *attachment* (that switch), not per
//! host: a fat-tree of k = 48 has 27,648 hosts but 1,152 attachments. A table entry is a 16-bit number of a next-hop
//! set, and equal sets of a switch are stored once.
//!
//! Hosts don't forward: paths lead through switches only.
//!
//! A bond counts as one next hop: of its members only the first one's port stands in a set. Further members come last at
//! their nodes, so tables stay right when a case has another number of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{NodeId, PortId, TiVec, Topology};

/// Marks a pair without a path, in distances and among attachments.
const NONE: u32 = u32::MAX;

/// The next-hop set of every host towards all others.
static ONLY_PORT: [PortId; 1] = [PortId(0)];

/// Next-hop sets of every switch towards every host.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Of each host, where it hangs.
    hosts: TiVec<NodeId, Attached>,
    /// Of each switch, where its part of `ranges` lies.
    switches: Vec<Sets>,
    /// How many attachments there are: the length of a row of `table`.
    attachments: u32,
    /// Set number of each switch (row) and attachment (column).
    table: Vec<u16>,
    /// Where the ports of each set lie in `ports`.
    ranges: Vec<(u32, u32)>,
    /// The ports of all sets, ascending in each set.
    ports: Vec<PortId>,
}

/// Where a host hangs.
#[derive(Clone, Copy, Debug)]
struct Attached {
    /// The switch; or the other host, in a fabric of two hosts and nothing else.
    at: NodeId,
    /// The column of that switch.
    attachment: u32,
    /// Its place among the hosts of that switch.
    rank: u32,
    /// The port of that switch.
    port: PortId,
}

/// A switch's next-hop sets.
#[derive(Clone, Copy, Debug)]
struct Sets {
    /// Where they start in `ranges`.
    first: u32,
    /// How many there are towards other switches.
    count: u32,
    /// How many hosts hang here; each is a set of its own.
    hosts: u32,
}

impl Routes {
    /// Computes all equal-cost shortest paths. Every link, and every bond, costs the same.
    ///
    /// One breadth-first search per attachment. A fat-tree of k = 48 (27,648 hosts, 2,880 switches, 1,152 attachments)
    /// takes 0.4 s and 8 MB, k = 64 takes 2 s and 24 MB (2 cores, both busy otherwise, 2026-11-21;
    /// `cargo run --release -p heddle-fabric --example routes -- 48`).
    pub fn compute(topology: &Topology) -> Self {
        let network = Network::of(topology);
        let (hosts, columns) = attach(topology);
        let attachments = columns.len() as u32;
        let mut builder = Builder::new(network.switches(), attachments as usize);
        let mut search = Search::new(network.switches());
        for (column, &switch) in columns.iter().enumerate() {
            search.run(&network, switch);
            builder.column(column, &network, &search);
        }
        let mut on_switch = vec![0; network.switches()];
        for host in hosts.iter().filter(|host| host.attachment != NONE) {
            on_switch[(host.at.0 - topology.hosts) as usize] += 1;
        }
        builder.finish(hosts, &on_switch, attachments)
    }

    /// The ports of `at` on shortest paths to the host `to`, ascending. Empty only if `at` is `to`.
    ///
    /// # Panics
    /// If `to` is not a host or `at` is not a node of the topology.
    #[inline]
    pub fn next_hops(&self, at: NodeId, to: NodeId) -> &[PortId] {
        let host = &self.hosts[to];
        if host.at == at {
            return std::slice::from_ref(&host.port);
        }
        let Some((row, sets)) = self.row(at) else { return if at == to { &[] } else { &ONLY_PORT } };
        let set = self.table[row * self.attachments as usize + host.attachment as usize];
        let (from, to) = self.ranges[sets.first as usize + usize::from(set)];
        &self.ports[from as usize..to as usize]
    }

    /// A small number that says which next-hop set of `at` leads to `to`: equal numbers at one node mean equal sets.
    /// Below [`Routes::groups`] of that node. Per-set state (a round-robin turn) is indexed by it.
    #[inline]
    pub fn group(&self, at: NodeId, to: NodeId) -> u32 {
        let host = &self.hosts[to];
        let Some((row, sets)) = self.row(at) else { return 0 };
        if host.at == at {
            return sets.count + host.rank;
        }
        u32::from(self.table[row * self.attachments as usize + host.attachment as usize])
    }

    /// How many next-hop sets `at` has: one for a host.
    pub fn groups(&self, at: NodeId) -> u32 {
        self.row(at).map_or(1, |(_, sets)| sets.count + sets.hosts)
    }

    /// Bytes of memory that the tables take.
    pub fn bytes(&self) -> usize {
        size_of_val(self.hosts.raw.as_slice())
            + size_of_val(&*self.switches)
            + size_of_val(&*self.table)
            + size_of_val(&*self.ranges)
            + size_of_val(&*self.ports)
    }

    #[inline]
    fn row(&self, at: NodeId) -> Option<(usize, Sets)> {
        let row = usize::from(at).checked_sub(self.hosts.len())?;
        Some((row, self.switches[row]))
    }
}

/// Where every host hangs, and the switches with hosts in the order of their first host.
fn attach(topology: &Topology) -> (TiVec<NodeId, Attached>, Vec<u32>) {
    let mut columns = Vec::new();
    let mut column_of: TiVec<NodeId, u32> = vec![NONE; topology.nodes.len()].into();
    let mut ranks: TiVec<NodeId, u32> = vec![0; topology.nodes.len()].into();
    let hosts = topology.hosts().map(|(_, host)| {
        let (link, side) = host.ports[PortId(0)];
        let end = topology.links[link].end(side.other());
        if topology.is_host(end.node) {
            return Attached { at: end.node, attachment: NONE, rank: 0, port: end.port };
        }
        if column_of[end.node] == NONE {
            column_of[end.node] = columns.len() as u32;
            columns.push(end.node.0 - topology.hosts);
        }
        ranks[end.node] += 1;
        Attached { at: end.node, attachment: column_of[end.node], rank: ranks[end.node] - 1, port: end.port }
    });
    (hosts.collect(), columns)
}

/// The switches and the links between them, as rows of (neighbour, port).
struct Network {
    starts: Vec<usize>,
    edges: Vec<(u32, PortId)>,
}

impl Network {
    fn of(topology: &Topology) -> Self {
        let mut network = Self { starts: vec![0], edges: Vec::new() };
        let further: BTreeSet<(NodeId, PortId)> =
            topology.bonds.iter().flat_map(|end| end.ports.iter().skip(1).map(|&port| (end.node, port))).collect();
        for (id, node) in topology.switches() {
            for (port, &(link, side)) in node.ports.iter_enumerated() {
                let peer = topology.links[link].end(side.other()).node;
                if !topology.is_host(peer) && !further.contains(&(id, port)) {
                    network.edges.push((peer.0 - topology.hosts, port));
                }
            }
            network.starts.push(network.edges.len());
        }
        network
    }

    fn switches(&self) -> usize {
        self.starts.len() - 1
    }

    fn edges(&self, switch: usize) -> &[(u32, PortId)] {
        &self.edges[self.starts[switch]..self.starts[switch + 1]]
    }
}

/// A breadth-first search; keeps its memory from one to the next.
struct Search {
    distance: Vec<u32>,
    queue: Vec<u32>,
}

impl Search {
    fn new(switches: usize) -> Self {
        Self { distance: vec![NONE; switches], queue: Vec::with_capacity(switches) }
    }

    fn run(&mut self, network: &Network, from: u32) {
        self.distance.fill(NONE);
        self.distance[from as usize] = 0;
        self.queue.clear();
        self.queue.push(from);
        let mut next = 0;
        while let Some(&at) = self.queue.get(next) {
            next += 1;
            let far = self.distance[at as usize] + 1;
            for &(peer, _) in network.edges(at as usize) {
                if self.distance[peer as usize] == NONE {
                    self.distance[peer as usize] = far;
                    self.queue.push(peer);
                }
            }
        }
    }
}

/// Collects the sets of every switch, each once.
struct Builder {
    columns: usize,
    table: Vec<u16>,
    known: Vec<BTreeMap<Box<[PortId]>, u16>>,
    /// The sets of every switch in the order of their numbers.
    sets: Vec<Vec<Box<[PortId]>>>,
}

impl Builder {
    fn new(switches: usize, columns: usize) -> Self {
        assert!(u16::try_from(columns).is_ok(), "more attachments than a set number can tell apart");
        Self {
            columns,
            table: vec![0; switches * columns],
            known: vec![BTreeMap::new(); switches],
            sets: vec![Vec::new(); switches],
        }
    }

    /// Takes over the distances to the attachment `column`.
    fn column(&mut self, column: usize, network: &Network, search: &Search) {
        let mut ports = Vec::new();
        for (switch, &far) in search.distance.iter().enumerate() {
            ports.clear();
            // A distance of zero has no port; nor has a switch without a way.
            if far != 0 && far != NONE {
                let closer = network.edges(switch).iter().filter(|(peer, _)| search.distance[*peer as usize] < far);
                ports.extend(closer.map(|&(_, port)| port));
            }
            self.table[switch * self.columns + column] = self.number(switch, &ports);
        }
    }

    fn number(&mut self, switch: usize, ports: &[PortId]) -> u16 {
        if let Some(&number) = self.known[switch].get(ports) {
            return number;
        }
        let number = self.sets[switch].len() as u16;
        self.known[switch].insert(ports.into(), number);
        self.sets[switch].push(ports.into());
        number
    }

    fn finish(self, hosts: TiVec<NodeId, Attached>, on_switch: &[u32], attachments: u32) -> Routes {
        let mut routes = Routes { hosts, attachments, table: self.table, ..Routes::default() };
        for (sets, &hosts) in self.sets.iter().zip(on_switch) {
            routes.switches.push(Sets { first: routes.ranges.len() as u32, count: sets.len() as u32, hosts });
            for set in sets {
                let from = routes.ports.len() as u32;
                routes.ports.extend_from_slice(set);
                routes.ranges.push((from, routes.ports.len() as u32));
            }
        }
        routes
    }
}
