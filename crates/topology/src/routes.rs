//! All equal-cost shortest paths, as next-hop sets.
//!
//! Hosts that hang on the same switch are reached alike, so tables are kept per *edge switch* (that switch), not per
//! host: a fat-tree of k = 48 has 27,648 hosts but 1,152 edge switches. A table entry is a 16-bit number of a next-hop
//! set, and equal sets of a switch are stored once.
//!
//! Paths lead through switches, and through hosts that forward. A multi-homed host, one with several ports that are no bond, has next-hop sets as a
//! switch has, whether it forwards or not, and is an edge switch of its own: all of its ports lead to it.
//!
//! A bond counts as one next hop: of its members only the first one's port stands in a set. Further members come last at
//! their nodes, so tables stay right when a case has another number of them. A bond carries as long as one member does.

mod search;
mod sets;
#[cfg(test)]
mod tests;
mod tree;

use serde::{Deserialize, Serialize};

use crate::{LinkEnd, LinkId, NodeId, PortId, TiSlice, TiVec, Topology};
use search::{Network, Search};
use sets::Builder;
use tree::Trees;

/// Marks a pair without a path, in distances; and what is not there, among edge switches and rows.
const NONE: u32 = u32::MAX;

/// The node at which a multi-homed host hangs.
const NOWHERE: NodeId = NodeId(u32::MAX);

/// The next-hop set of every host with one port towards all others.
static ONLY_PORT: [PortId; 1] = [PortId(0)];

/// What becomes of next-hop sets when a link loses its carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rerouting {
    /// Next-hop sets leave out what has no carrier, and routes are computed anew around it.
    #[default]
    Follow,
    /// Routes are those of the whole network, whatever fails: for studies of what failures cost.
    Fixed,
}

impl Rerouting {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Follow, Self::Fixed];

    /// Its name in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Fixed => "fixed",
        }
    }
}

/// Next-hop sets of every switch and every multi-homed host towards every host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Of each host, where it hangs.
    hosts: TiVec<NodeId, Attached>,
    /// Of each switch, and then of each multi-homed host, where its part of `ranges` lies.
    rows: Vec<Sets>,
    /// How many edge switches there are, and one more if a host is cut off: the length of a row of `table`.
    edge_switches: u32,
    /// Set number of each switch or multi-homed host (row) and edge switch (column).
    table: Vec<u16>,
    /// Where the ports of each set lie in `ports`.
    ranges: Vec<(u32, u32)>,
    /// The ports of all sets, ascending in each set.
    ports: Vec<PortId>,
    /// The ways of what is for everybody.
    trees: Trees,
}

/// Where a host hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attached {
    /// Of a host with one port: the node at the other end. Of a multi-homed host: [`NOWHERE`].
    at: NodeId,
    /// The column of that node, or its own; that of no node, if the host is cut off.
    edge_switch: u32,
    /// Its place among the hosts of that node.
    rank: u32,
    /// The port of that node.
    port: PortId,
    /// Whether its link or bond carries. If not, the host is cut off.
    carries: bool,
    /// Whether packets go on from that node: it forwards.
    leads_on: bool,
    /// Of a multi-homed host: its row. Else [`NONE`].
    row: u32,
}

/// The next-hop sets of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sets {
    /// Where they start in `ranges`.
    first: u32,
    /// How many there are towards other edge switches.
    count: u32,
    /// How many hosts hang here; each is a set of its own.
    hosts: u32,
}

impl Routes {
    /// Computes all equal-cost shortest paths of the whole network. Every link, and every bond, costs the same.
    ///
    /// One breadth-first search per edge switch. A fat-tree of k = 48 (27,648 hosts, 2,880 switches, 1,152 edge switches)
    /// takes 0.4 s and 8 MB, k = 64 takes 2 s and 24 MB (2 cores, both busy otherwise, 2026-11-21;
    /// `cargo run --release -p heddle-fabric --example routes -- 48`).
    pub fn compute(topology: &Topology) -> Self {
        Self::around(topology, |_| true)
    }

    /// [`Routes::around`] these links, ascending.
    pub fn without(topology: &Topology, down: &[LinkId]) -> Self {
        Self::around(topology, |link| down.binary_search(&link).is_err())
    }

    /// Computes all equal-cost shortest paths over links that carry: those for which `carries` is true. A bond carries as
    /// long as one of its members does, and the first member's port stands for it even if that member is down.
    ///
    /// A node that has no path to a host has an empty set towards it. The groups of two tables have nothing to do with
    /// each other: who keeps something a group starts anew ([`Routes::groups`]).
    pub fn around(topology: &Topology, carries: impl Fn(LinkId) -> bool) -> Self {
        let usable = usable(topology, carries);
        let network = Network::of(topology, &usable);
        let (hosts, columns) = attach(topology, &usable, &network);
        let edge_switches = columns.len() as u32;
        let mut builder = Builder::new(network.rows(), edge_switches as usize);
        let mut search = Search::new(network.rows());
        for (column, &to) in columns.iter().enumerate() {
            search.run(&network, to);
            builder.column(column, &network, &search);
        }
        let mut on_row = vec![0; network.rows()];
        for row in hosts.iter().filter(|host| host.row == NONE).filter_map(|host| network.row(host.at)) {
            on_row[row as usize] += 1;
        }
        Self { trees: Trees::new(topology, &usable, &network), ..builder.finish(hosts, &on_row, edge_switches) }
    }

    /// The ports by which a switch passes on what is for everybody: those of a tree that spans all nodes that forward, so that nothing goes round in a
    /// loop, and those of its hosts; ascending. Of parts of a network that have no link between them each has a tree. A multi-homed host sends by such
    /// ports, and passes on by them if it forwards.
    ///
    /// # Panics
    /// If `at` is neither a switch of the topology nor a multi-homed host.
    pub fn tree(&self, at: NodeId) -> &[PortId] {
        let (row, _) = self.row(at).expect("a host with one port is no part of the tree");
        &self.trees.ports[row]
    }

    /// Whether a multi-homed host is to take what another host has sent to everybody and has come by this port. In a network in several parts that no
    /// node joins which forwards, hosts that are in the same two hear each other by both, and take what comes by the first.
    pub fn takes_flooded(&self, host: NodeId, port: PortId, from: NodeId) -> bool {
        let Some(own) = self.trees.in_several.get(&host) else { return true };
        let row = self.row(from).or_else(|| self.row(self.hosts.get(from)?.at)).map(|(row, _)| row);
        let first = own.iter().find(|(root, _)| self.trees.has(*root, from, row));
        first.is_none_or(|(_, by)| *by == port)
    }

    /// The ports of `at` on shortest paths to the host `to`, ascending. Empty if `at` is `to`, and if there is no path.
    ///
    /// # Panics
    /// If `to` is not a host or `at` is not a node of the topology.
    #[inline]
    pub fn next_hops(&self, at: NodeId, to: NodeId) -> &[PortId] {
        let Some(host) = self.hosts.get(to) else { return &[] };
        if host.at == at {
            return &std::slice::from_ref(&host.port)[..usize::from(host.carries)];
        }
        let Some((row, sets)) = self.row(at) else { return self.next_hops_of_host(at, to) };
        let set = self.table[row * self.edge_switches as usize + host.edge_switch as usize];
        let (from, to) = self.ranges[sets.first as usize + usize::from(set)];
        &self.ports[from as usize..to as usize]
    }

    /// A host with one port has no table: it has a way if its link carries and leads to the other host, or to a node that forwards and has one.
    fn next_hops_of_host(&self, at: NodeId, to: NodeId) -> &[PortId] {
        let own = &self.hosts[at];
        let leads_on = || own.leads_on && !self.next_hops(own.at, to).is_empty();
        if at != to && own.carries && (own.at == to || leads_on()) { &ONLY_PORT } else { &[] }
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
        u32::from(self.table[row * self.edge_switches as usize + host.edge_switch as usize])
    }

    /// How many next-hop sets `at` has: one for a host with one port.
    pub fn groups(&self, at: NodeId) -> u32 {
        self.row(at).map_or(1, |(_, sets)| sets.count + sets.hosts)
    }

    /// How many hosts there are to be reached, numbered from zero.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Bytes of memory that the tables take.
    pub fn bytes(&self) -> usize {
        size_of_val(self.hosts.raw.as_slice())
            + size_of_val(&*self.rows)
            + size_of_val(&*self.table)
            + size_of_val(&*self.ranges)
            + size_of_val(&*self.ports)
            + self.trees.bytes()
    }

    #[inline]
    fn row(&self, at: NodeId) -> Option<(usize, Sets)> {
        let Some(row) = usize::from(at).checked_sub(self.hosts.len()) else { return self.row_of_host(at) };
        Some((row, self.rows[row]))
    }

    #[inline(never)]
    fn row_of_host(&self, at: NodeId) -> Option<(usize, Sets)> {
        let row = self.hosts[at].row as usize;
        Some((row, *self.rows.get(row)?))
    }
}

/// Of each link, whether a next-hop set may have a port of it. A bond's first member stands for the bond.
fn usable(topology: &Topology, carries: impl Fn(LinkId) -> bool) -> TiVec<LinkId, bool> {
    let carrying: TiVec<LinkId, bool> = topology.links.keys().map(carries).collect();
    let mut usable = carrying.clone();
    for end in topology.bonds.keys() {
        let any = topology.bond_links(end).any(|link| carrying[link]);
        for (member, link) in topology.bond_links(end).enumerate() {
            usable[link] = member == 0 && any;
        }
    }
    usable
}

/// Where every host hangs, and whose column each is: rows in the order of the first host that is reached there, and no row at the end if a host is cut
/// off.
fn attach(
    topology: &Topology,
    usable: &TiSlice<LinkId, bool>,
    network: &Network,
) -> (TiVec<NodeId, Attached>, Vec<Option<u32>>) {
    let mut columns = Vec::new();
    let mut column_of = vec![NONE; network.rows()];
    let mut column = |row: u32| {
        let column = &mut column_of[row as usize];
        if *column == NONE {
            *column = columns.len() as u32;
            columns.push(Some(row));
        }
        *column
    };
    let mut ranks = vec![0; network.rows()];
    let hosts = topology.hosts().map(|(id, host)| {
        if let Some(row) = network.row(id) {
            let (edge_switch, port) = (column(row), PortId(0));
            return Attached { at: NOWHERE, edge_switch, rank: 0, port, carries: true, leads_on: false, row };
        }
        let (link, side) = host.ports[PortId(0)];
        let LinkEnd { node: at, port } = topology.links[link].end(side.other());
        let (carries, leads_on) = (usable[link], topology.forwards(at));
        let mut attached = Attached { at, edge_switch: NONE, rank: 0, port, carries, leads_on, row: NONE };
        if let Some(row) = network.row(at) {
            attached.edge_switch = column(row);
            let rank = &mut ranks[row as usize];
            attached.rank = *rank;
            *rank += 1;
        }
        attached
    });
    let mut hosts: TiVec<NodeId, Attached> = hosts.collect();
    // All hosts that are cut off are reached alike, from wherever: not at all. So are those behind a host that does not forward.
    let nowhere = columns.len() as u32;
    let is_reached = |host: &Attached| host.row != NONE || host.carries && host.leads_on && host.edge_switch != NONE;
    for host in hosts.iter_mut().filter(|host| !is_reached(host)) {
        host.edge_switch = nowhere;
    }
    if hosts.iter().any(|host| host.edge_switch == nowhere) {
        columns.push(None);
    }
    (hosts, columns)
}
