//! Questions about neighbours: they are answered at the port of the host that asks, and come to no table.

use std::net::IpAddr;

use serde::Serialize;
use topology::{NodeId, Topology};
use vswitch::flow_table::Match;
use vswitch::neighbour::ANSWER_BYTES;
use vswitch::{DropReason, Ingress};
use wire::EthernetPacket;

use crate::commands::path::{Network, mac_words};

/// What becomes of a question at the port of the host that asks.
pub enum AtPort {
    Answered(Answered),
    /// Why it goes nowhere.
    Dropped(String),
}

/// A question that is answered in the stead of who is asked for.
#[derive(Debug, Serialize)]
pub struct Answered {
    /// The host that asks.
    at: String,
    /// `arp` or `ndp`.
    by: &'static str,
    /// Who is asked for.
    host: String,
    address: IpAddr,
    /// What the answer says.
    mac: String,
}

impl Answered {
    /// What stands in the place of the tables that it meets.
    pub fn step(&self) -> String {
        format!("none: it is answered at the port of {}", self.at)
    }

    /// What becomes of it, in words.
    pub fn words(&self) -> String {
        let Self { at, by, host, address, mac } = self;
        let answer = if *by == "arp" { "an ARP reply" } else { "a neighbour advertisement" };
        format!(
            "{address} is the address of {host}, in whose stead Heddle answers before the tables: {answer} ({mac}) to {at}\n"
        )
    }
}

/// The host that has an address.
pub fn host_of(topology: &Topology, address: IpAddr) -> Option<NodeId> {
    let mut hosts = topology.addressed_hosts();
    let has_it = |host: NodeId| {
        topology.address(host).is_some_and(|own| match address {
            IpAddr::V4(address) => own.ipv4 == address,
            IpAddr::V6(address) => own.ipv6 == address,
        })
    };
    hosts.find(|(host, _)| has_it(*host)).map(|(host, _)| host)
}

/// What becomes of a question about a neighbour where it leaves the host that asks; `None`: it goes on from there as other packets do, or is no question.
pub fn at_port(network: &Network, asker: NodeId, fields: &Match) -> Option<AtPort> {
    let topology = &network.fabric.topology;
    let target = fields.asked_for()?;
    let question = fields.question(topology.address(asker)?)?;
    let ports = &topology.nodes[asker].ports;
    let port = ports.keys().find(|port| network.carries(ports[*port].0))?;
    if topology.is_function_port(asker) {
        return None;
    }
    let tracer = network.tracer();
    let tables = tracer.tables();
    let mut answer = [0; ANSWER_BYTES];
    let name = |host: NodeId| topology.nodes[host].name.clone();
    match tables.classify((asker, tables.map.port(asker, port)), &question, &mut answer) {
        Ingress::Answer(len) => {
            let mac = EthernetPacket::new_checked(&answer[..len]).ok()?.src();
            let owner = match target {
                IpAddr::V4(address) => tables.host_table.by_ipv4(address),
                IpAddr::V6(address) => tables.host_table.by_ipv6(address),
            };
            let by = if target.is_ipv4() { "arp" } else { "ndp" };
            let host = owner.map(name)?;
            Some(AtPort::Answered(Answered { at: name(asker), by, host, address: target, mac: mac_words(mac) }))
        }
        // What is for an address that nobody has may come to the switch's flows.
        Ingress::Forward(_) | Ingress::Drop(DropReason::UnknownDestination { .. }) => None,
        Ingress::Drop(reason) => {
            Some(AtPort::Dropped(format!("it goes no further than the port of {}: {reason}", name(asker))))
        }
    }
}
