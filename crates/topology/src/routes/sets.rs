//! Next-hop sets, and their numbers.

use std::collections::BTreeMap;

use super::search::{Network, Search};
use super::{Attached, NONE, Routes, Sets};
use crate::{NodeId, PortId, TiVec};

/// Collects the sets of every switch, each once.
pub(super) struct Builder {
    columns: usize,
    table: Vec<u16>,
    known: Vec<BTreeMap<Box<[PortId]>, u16>>,
    /// The sets of every switch in the order of their numbers.
    sets: Vec<Vec<Box<[PortId]>>>,
}

impl Builder {
    pub(super) fn new(switches: usize, columns: usize) -> Self {
        assert!(u16::try_from(columns).is_ok(), "more attachments than a set number can tell apart");
        Self {
            columns,
            table: vec![0; switches * columns],
            known: vec![BTreeMap::new(); switches],
            sets: vec![Vec::new(); switches],
        }
    }

    /// Takes over the distances to the attachment `column`.
    pub(super) fn column(&mut self, column: usize, network: &Network, search: &Search) {
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

    pub(super) fn finish(self, hosts: TiVec<NodeId, Attached>, on_switch: &[u32], attachments: u32) -> Routes {
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
