//! Next-hop sets, and their numbers.

use std::collections::BTreeMap;

use super::search::{Network, Search};
use super::{Attached, NONE, Routes, Sets};
use crate::{NodeId, PortId, TiVec};

/// Collects the sets of every row, each once.
pub(super) struct Builder {
    columns: usize,
    table: Vec<u16>,
    known: Vec<BTreeMap<Box<[PortId]>, u16>>,
    /// The sets of every row in the order of their numbers.
    sets: Vec<Vec<Box<[PortId]>>>,
}

impl Builder {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        assert!(u16::try_from(columns).is_ok(), "more edge switches than a set number can distinguish");
        Self {
            columns,
            table: vec![0; rows * columns],
            known: vec![BTreeMap::new(); rows],
            sets: vec![Vec::new(); rows],
        }
    }

    /// Takes over the distances to the edge switch `column`.
    pub(super) fn column(&mut self, column: usize, network: &Network, search: &Search) {
        let mut ports = Vec::new();
        for (row, &far) in search.distance.iter().enumerate() {
            ports.clear();
            // A distance of zero has no port; nor has a row without a way.
            if far != 0 && far != NONE {
                let leads_on = |peer: u32| search.distance[peer as usize] == 0 || network.forwards(peer);
                let is_closer = |peer: u32| search.distance[peer as usize] < far && leads_on(peer);
                let closer = network.edges(row).iter().filter(|(peer, _)| is_closer(*peer));
                ports.extend(closer.map(|&(_, port)| port));
            }
            self.table[row * self.columns + column] = self.number(row, &ports);
        }
    }

    fn number(&mut self, row: usize, ports: &[PortId]) -> u16 {
        if let Some(&number) = self.known[row].get(ports) {
            return number;
        }
        let number = self.sets[row].len() as u16;
        self.known[row].insert(ports.into(), number);
        self.sets[row].push(ports.into());
        number
    }

    pub(super) fn finish(self, hosts: TiVec<NodeId, Attached>, on_row: &[u32], edge_switches: u32) -> Routes {
        let mut routes = Routes { hosts, edge_switches, table: self.table, ..Routes::default() };
        for (sets, &hosts) in self.sets.iter().zip(on_row) {
            routes.rows.push(Sets { first: routes.ranges.len() as u32, count: sets.len() as u32, hosts });
            for set in sets {
                let from = routes.ports.len() as u32;
                routes.ports.extend_from_slice(set);
                routes.ranges.push((from, routes.ports.len() as u32));
            }
        }
        routes
    }
}
