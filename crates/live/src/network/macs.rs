//! The addresses that a live network's switches know.

use std::collections::BTreeMap;

use fabric::{Fabric, find_switch};
use topology::{NodeId, PortId};

use super::Network;
use crate::Error;
use crate::control::{MacEntry, SwitchMacs};
use crate::dataplane::Plan;

impl Network {
    /// The addresses that a switch knows at its ports to hosts, or all switches do.
    pub fn macs(&self, switch: Option<&str>) -> Result<Vec<SwitchMacs>, Error> {
        let Some(plane) = &self.plane else { return Err(Error::NothingRuns) };
        let (plan, now) = (plane.plan(), self.clock.uptime());
        let topology = &plan.fabric().topology;
        let wanted = switch.map(|name| find_switch(topology, name)).transpose()?;
        let mut all: BTreeMap<NodeId, SwitchMacs> = BTreeMap::new();
        let switches = topology.switches().filter(|(id, _)| wanted.is_none_or(|wanted| wanted == *id));
        for (number, (id, node)) in switches.map(|(id, node)| (plan.map().switch(id), (id, node))) {
            let learned_max = number.map_or(0, |number| plan.macs().addresses_max(number));
            all.insert(id, SwitchMacs { switch: node.name.clone(), learned_max, entries: Vec::new() });
        }
        let static_ones =
            topology.addressed_hosts().filter_map(|(host, _)| Some((host, topology.address(host)?.mac, None)));
        let known = plan.macs().addresses(now);
        let learned = known.iter().map(|known| {
            let age = now.as_ns().saturating_sub(known.seen.as_ns()) / 1_000_000_000;
            (known.host, known.mac, Some((known.vlan, age)))
        });
        for (host, mac, learned) in static_ones.chain(learned) {
            let Some((switch, port)) = edge_port(plan, host) else { continue };
            let Some(of) = all.get_mut(&switch) else { continue };
            of.entries.push(MacEntry {
                port: port.0,
                host: topology.nodes[host].name.clone(),
                vlan: learned.map_or_else(|| own_vlan(plan.fabric(), switch, port), |(vlan, _)| vlan),
                mac: mac.map(|byte| format!("{byte:02x}")).join(":"),
                age_s: learned.map(|(_, age)| age),
            });
        }
        let mut all: Vec<SwitchMacs> = all.into_values().collect();
        for of in &mut all {
            of.entries.sort_by(|a, b| {
                (a.port, a.age_s.is_some(), a.vlan, &a.mac).cmp(&(b.port, b.age_s.is_some(), b.vlan, &b.mac))
            });
        }
        Ok(all)
    }

    /// Has a switch forget what it has learned, or all switches. How many addresses that were.
    pub fn flush_macs(&self, switch: Option<&str>) -> Result<usize, Error> {
        let Some(plane) = &self.plane else { return Err(Error::NothingRuns) };
        let plan = plane.plan();
        let switch = switch.map(|name| find_switch(&plan.fabric().topology, name)).transpose()?;
        Ok(plan.macs().flush(switch.and_then(|switch| plan.map().switch(switch))))
    }
}

/// The first port of a switch that leads to a host.
fn edge_port(plan: &Plan, host: NodeId) -> Option<(NodeId, PortId)> {
    let far = plan.map().far(plan.map().port_of(host, PortId(0))?);
    let switch = plan.map().node(far);
    plan.map().switch(switch).map(|_| (switch, plan.map().number(far)))
}

/// The VLAN of a port that has one of its own.
fn own_vlan(fabric: &Fabric, switch: NodeId, port: PortId) -> u16 {
    let settings = fabric.switches.get(&switch).and_then(|switch| switch.ports.get(&port));
    settings.and_then(|settings| settings.vlans.as_ref()?.tag()).unwrap_or(0)
}
