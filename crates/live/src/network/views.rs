//! What a new file changes in a network.

use std::collections::{BTreeMap, BTreeSet};

use balance::ServiceSpec;
use balance::health::HealthSpec;
use balance::names::NameSpec;
use datapath::{AgentSpec, ForwardingMethod, KernelUse, ServedName, Service, VirtualAddress, VrrpSettings};
use fabric::{Fabric, HostSetup, SwitchSettings, SwitchTables};
use link::LinkSpec;
use topology::{BondEnd, LinkId, Node, NodeId, Rerouting, Side};
use vswitch::Spread;
use vswitch::chain::{Chain, OnFailure};
use vswitch::conntrack::NatRange;
use vswitch::flow_table::Match;
use vswitch::functions::BuiltIn;

use crate::control::Applied;

/// Whether nothing has to be done. Experiments are not the live network's business; the order of nodes and links is, since counters
/// come in it.
pub(super) fn is_same(old: &Fabric, new: &Fabric) -> bool {
    old.name == new.name
        && old.topology == new.topology
        && old.bonds == new.bonds
        && old.flow_tables == new.flow_tables
        && old.switches == new.switches
        && old.setups == new.setups
        && old.services == new.services
        && old.names == new.names
        && (&old.chains, &old.simulated_functions) == (&new.chains, &new.simulated_functions)
        && (old.spread, old.rerouting, old.kernel) == (new.spread, new.rerouting, new.kernel)
        && (old.mtu, old.seed) == (new.mtu, new.seed)
}

/// What distinguishes a node for [`Applied`]: its kind, its devices, where its ports lead, what a switch or a host has besides.
type NodeView<'a> = (&'a topology::NodeKind, &'a [String], Vec<&'a str>, Option<SwitchView<'a>>, HostView<'a>);

/// What distinguishes a switch besides: how it spreads and routes, whether it forwards, its flows, and what is said about it and its ports.
type SwitchView<'a> = (Spread, Rerouting, bool, Option<&'a SwitchTables>, Option<&'a SwitchSettings>);

/// What distinguishes a host besides: its MTU, whether the kernel carries what it says, its programs, files and sysctls.
type HostView<'a> = (u32, KernelUse, Option<&'a HostSetup>);

/// What applying `new` to a network that is `old` would do (`None`: to one that has nothing yet).
pub fn difference(old: Option<&Fabric>, new: &Fabric) -> Applied {
    let mut applied = Applied::default();
    compare(old.map_or_else(BTreeMap::new, node_views), node_views(new), &mut applied);
    compare_links(old, new, &mut applied);
    compare(old.map_or_else(BTreeMap::new, bond_views), bond_views(new), &mut applied);
    compare(old.map_or_else(BTreeMap::new, chain_views), chain_views(new), &mut applied);
    compare(old.map_or_else(BTreeMap::new, service_views), service_views(new), &mut applied);
    compare(old.map_or_else(BTreeMap::new, name_views), name_views(new), &mut applied);
    applied
}

/// Each name: what it is, and the services of its sites.
fn name_views(fabric: &Fabric) -> BTreeMap<String, (&NameSpec, Vec<&str>)> {
    let services = |name: &ServedName| name.services.iter().map(|at| fabric.services[*at].name.as_str()).collect();
    let views = fabric.names.iter().map(|name| (format!("name {}", name.spec.name), (&name.spec, services(name))));
    views.collect()
}

/// Each service: its servers by their names, and all else that is said of it.
fn service_views(fabric: &Fabric) -> BTreeMap<String, ServiceView<'_>> {
    let mut views = BTreeMap::new();
    for Service {
        name,
        addresses,
        forwarding,
        sources,
        at,
        vrrp,
        half_open_max,
        servers,
        spec,
        health,
        agent,
        countries: _,
        kernel,
    } in &fabric.services
    {
        let servers = servers.iter().map(|server| (fabric.topology.nodes[server.host].name.as_str(), server.port));
        let name_of = |host: &NodeId| fabric.topology.nodes[*host].name.as_str();
        let partners = |settings: &VrrpSettings| settings.partners.iter().map(name_of).collect();
        let vrrp = vrrp.as_ref().map(|settings| (settings.router, settings.interval_cs, partners(settings)));
        let balancers = (at.iter().map(name_of).collect(), vrrp);
        views.insert(
            format!("service {name}"),
            (
                (addresses.as_slice(), *forwarding, sources.as_slice()),
                balancers,
                servers.collect(),
                ((spec, *half_open_max, *kernel), health.as_ref(), *agent),
            ),
        );
    }
    views
}

/// What distinguishes a service: where it is, how it forwards, its servers by name and port, and what schedulers know.
type ServiceView<'a> = (AddressesView<'a>, BalancersView<'a>, Vec<(&'a str, Option<u16>)>, ServersView<'a>);

/// Its addresses, how it forwards, and the balancer's own addresses.
type AddressesView<'a> = (&'a [VirtualAddress], ForwardingMethod, &'a [NatRange]);

/// Where it is balanced; by VRRP: the virtual router, how often it advertises, and who else may.
type BalancersView<'a> = (Vec<&'a str>, Option<(u8, u16, Vec<&'a str>)>);

/// What is known of its servers, and how: by schedulers, by health checks, by agents; and who carries its connections.
type ServersView<'a> = ((&'a ServiceSpec, u32, KernelUse), Option<&'a HealthSpec>, Option<AgentSpec>);

/// Each chain: from whom to whom, by which functions, what those are that are built in, and what it takes.
fn chain_views(fabric: &Fabric) -> BTreeMap<String, ChainView<'_>> {
    let names = |hosts: &[NodeId]| hosts.iter().map(|host| fabric.topology.nodes[*host].name.as_str()).collect();
    let functions =
        |chain: &Chain| chain.functions.iter().map(|at| fabric.chains.functions[*at].name.as_str()).collect();
    let built_in = |chain: &Chain| chain.functions.iter().map(|at| fabric.chains.functions[*at].built_in()).collect();
    let view = |chain: &Chain| ([names(&chain.from), names(&chain.to), functions(chain)], built_in(chain));
    let chains = fabric.chains.chains.iter();
    chains
        .map(|chain| {
            let own = (chain.matching, chain.is_both_ways, chain.on_failure);
            (format!("chain {}", chain.name), (view(chain), own))
        })
        .collect()
}

/// What distinguishes a chain.
type ChainView<'a> = (([Vec<&'a str>; 3], Vec<Option<&'a BuiltIn>>), (Match, bool, OnFailure));

/// Each end of each bond.
fn bond_views(fabric: &Fabric) -> BTreeMap<String, BondView<'_>> {
    let ends = fabric.topology.bonds.iter().zip(&fabric.bonds);
    let name = |end: &BondEnd| format!("{} of {}", end.name, fabric.topology.nodes[end.node].name);
    ends.map(|(end, bond)| (name(end), ((bond.end, end.members(), bond.reorder), &bond.config))).collect()
}

/// What distinguishes an end of a bond: what is there, how many members, how arrivals are put in order; and mode and options.
type BondView<'a> = ((fabric::EndKind, usize, Option<fabric::ReorderSpec>), &'a bond::Config);

fn compare<V: PartialEq>(mut old: BTreeMap<String, V>, new: BTreeMap<String, V>, applied: &mut Applied) {
    for (name, view) in new {
        match old.remove(&name) {
            None => applied.created.push(name),
            Some(was) if was == view => applied.kept += 1,
            Some(_) => applied.changed.push(name),
        }
    }
    applied.removed.extend(old.into_keys());
}

/// Each node by the name that people know it by: what is made of further interfaces, and of both ports of a function, counts as one.
fn node_views(fabric: &Fabric) -> BTreeMap<String, Vec<NodeView<'_>>> {
    let peer = |&(link, side): &(LinkId, Side)| {
        fabric.topology.nodes[fabric.topology.links[link].end(side.other()).node].name.as_str()
    };
    let multi_homed: BTreeSet<NodeId> = fabric.topology.multi_homed().collect();
    let mut views: BTreeMap<String, Vec<NodeView<'_>>> = BTreeMap::new();
    for (id, Node { name, kind, devices, ports, .. }) in fabric.topology.nodes.iter_enumerated() {
        let is_switch = !fabric.topology.is_host(id);
        let (mtu, kernel) = if is_switch { (0, KernelUse::No) } else { (fabric.mtu, fabric.kernel) };
        let has_switch = is_switch || multi_homed.contains(&id);
        let own = || (fabric.flow_tables.get(&id), fabric.switches.get(&id));
        let policy =
            has_switch.then(|| (fabric.spread, fabric.rerouting, fabric.topology.forwards(id), own().0, own().1));
        let own = (mtu, kernel, fabric.setups.get(name));
        let view = (kind, devices.as_slice(), ports.iter().map(peer).collect(), policy, own);
        views.entry(fabric.topology.nodes[fabric.topology.known_as(id)].name.clone()).or_default().push(view);
    }
    views
}

/// A link by its ends, and which of parallel ones it is. It keeps that when another one is laid beside it, which its name does not.
type LinkPlace<'a> = (&'a str, &'a str, u32);

/// What distinguishes a link, and its name.
fn link_views(fabric: &Fabric) -> BTreeMap<LinkPlace<'_>, ((LinkSpec, Option<LinkSpec>), String)> {
    let name = |id: NodeId| fabric.topology.nodes[id].name.as_str();
    let mut parallel = BTreeMap::new();
    let links = fabric.topology.links.iter_enumerated().map(|(id, link)| {
        let ends = (name(link.a.node), name(link.b.node));
        let number = parallel.entry(ends).or_insert(0_u32);
        *number += 1;
        (
            (ends.0, ends.1, *number),
            ((link.spec, link.back), format!("link {}", fabric.topology.numbered_link_name(id))),
        )
    });
    links.collect()
}

fn compare_links(old: Option<&Fabric>, new: &Fabric, applied: &mut Applied) {
    let mut old = old.map_or_else(BTreeMap::new, link_views);
    for (place, (view, name)) in link_views(new) {
        match old.remove(&place) {
            None => applied.created.push(name),
            Some((was, _)) if was == view => applied.kept += 1,
            Some(_) => applied.changed.push(name),
        }
    }
    applied.removed.extend(old.into_values().map(|(_, name)| name));
}
