//! `trace`: which entries of a switch's tables a packet meets and why, what the switch does without any, and what becomes of the packet from there on.

mod at_port;
mod comes_by;
pub mod host_names;
mod translated;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use datapath::{BalancerRole, ForwardingMethod};
use fabric::{Fabric, find_switch, packet};
use live::control::TracedPacket;
use live::{Error, Instance};
use miette::Report;
use serde::Serialize;
use serde_json::{Value, json};
use topology::{NodeId, PortId, Topology};
use vswitch::flow_table::Match;
use vswitch::{FlowKey, Spread};
use wire::{ethertype, is_group, protocol};

use self::at_port::{Answered, AtPort, at_port, host_of};
use self::comes_by::{asker, comes_by, member};
use self::host_names::with_addresses;
use self::translated::{Outcome, Translated, translated, with_other_source};
use super::explain;
use super::instance::{connect, definition, running};
use super::path::{
    HOP_LIMIT, Hop, Network, RoutedPath, Routing, data, follow, follow_from, functions_in_words, mac_words,
    service_has, summary,
};
use crate::cli::{Format, Trace};
use crate::output::{Rows, print_json, put, with_hyphens};

/// Types of messages of neighbour discovery that are sent with a hop limit of 255 (RFC 4861, section 4).
const NDP: RangeInclusive<u16> = 133..=137;

/// Shows which entries a packet would meet at a switch, and why.
pub fn trace(args: &Trace, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.name.as_deref(), "`heddle trace --name NETWORK ..`")?)?;
    let now = definition(&instance)?;
    let node = find_switch(&now.topology, &args.switch).map_err(|error| explain(Error::from(error)))?;
    let mut written = with_addresses(&now, &args.packet)?;
    let words = || written.split(',').map(str::trim);
    if words().any(|word| word == "arp") && !words().any(|word| word.starts_with("arp_op=")) {
        eprintln!("No arp_op is named: arp_op=1, a request.");
        written += ",arp_op=1";
    }
    let mut fields = packet((&now.topology, node), &written)?;
    if let Some((source, host)) = source_at_port(&now.topology, node, &fields) {
        eprintln!("No source is named: {source} is that of {host}, which is at that port.");
        let _ = write!(written, ",{source}");
        fields = packet((&now.topology, node), &written)?;
    }
    let network = Network::running(&instance, now)?;
    let now = &network.fabric;
    let routing = Routing::new(&network, Some(&instance));
    let known = Known::of(&instance, (&network, &routing), node, &fields)?;
    let comes_by = comes_by(&network, node, (&fields, &known));
    if fields.in_port().is_none() {
        if let Some(note) = comes_by.note(now, node) {
            eprintln!("{note}");
        }
        let _ = write!(written, ",in_port={}", comes_by.port.0);
    }
    let asker = asker(&now.topology, (node, comes_by.port), (&fields, &known));
    let (answered, dropped) = match asker.and_then(|asker| at_port(&network, asker, &fields)) {
        Some(AtPort::Answered(answered)) => (Some(answered), None),
        Some(AtPort::Dropped(why)) => (None, Some(why)),
        None => (None, None),
    };
    let traced = match &answered {
        Some(_) => TracedPacket { actions: "answered".to_owned(), ..TracedPacket::default() },
        None => instance.trace(&args.switch, &known.packet(&written, &fields)).map_err(explain)?,
    };
    let is_normal = traced.actions.split(',').any(|action| action == "NORMAL");
    let balanced = balanced(&network, &fields, &known);
    let chain = chain_of(now, node, (&fields, &known));
    let member = member(&network, node, comes_by.port);
    let before = match dropped {
        Some(why) => Some(why),
        None => before(&network, node, (&fields, &known))?,
    };
    let goes_on = before.is_none() && answered.is_none();
    let way = if goes_on { rest(&routing, (node, member), &known)? } else { None };
    // What is lost here is led nowhere.
    let is_lost = way
        .as_ref()
        .and_then(RoutedPath::last)
        .and_then(|course| course.lost.as_ref())
        .is_some_and(|(at, _)| *at == node);
    let normal = if traced.actions == "NORMAL" && !is_lost {
        let to = known.to.or(balanced.as_ref().and_then(Balanced::only));
        normal(&network, node, (to, known.learned_s))
    } else {
        None
    };
    let mut steps: Vec<(Option<u8>, &str)> =
        traced.entries.iter().map(|entry| (entry.table, entry.flow.as_str())).collect();
    steps.extend(traced.missed.map(|table| (Some(table), "no flow is for it: it is dropped")));
    let at_port = answered.as_ref().map(Answered::step);
    if steps.is_empty() {
        steps.push((None, at_port.as_deref().unwrap_or("the switch has no tables of flows: NORMAL")));
    }
    match format {
        Format::Json => {
            let mut value = with_hyphens(json!(traced));
            value["normal"] = json!(normal);
            value["chain"] = json!(chain);
            value["lost-before"] = json!(before);
            value["answered"] = json!(answered);
            value["routed"] = json!(known.routed);
            value["translated"] = with_hyphens(json!(known.translated));
            value["balanced"] = json!(balanced);
            value["path"] = way.map_or(Value::Null, |way| data(&now.topology, &way));
            print_json(&value)
        }
        Format::Csv => {
            let mut rows = Rows::new(&["step", "table", "flow", "actions", "because-of", "normal-to"]);
            let to = normal.as_ref().map(Normal::words);
            for (step, (table, flow)) in steps.into_iter().enumerate() {
                let of_all = [json!(traced.actions), json!(traced.because_of), json!(to)];
                let [actions, because_of, to] = of_all;
                rows.push([json!(step + 1), json!(table), json!(flow), actions, because_of, to]);
            }
            put(&rows.render(format))
        }
        Format::Table => {
            let mut rows = Rows::new(&["step", "table", "flow"]);
            for (step, (table, flow)) in steps.into_iter().enumerate() {
                rows.push([json!(step + 1), json!(table), json!(flow)]);
            }
            let to = normal.map_or_else(String::new, |normal| format!(", {}", normal.words()));
            let TracedPacket { actions, because_of, .. } = &traced;
            let table = rows.render(format);
            let done = if before.is_some() { "If it came here" } else { "Done" };
            let why = match &answered {
                Some(answered) => answered.words(),
                None => same(now, because_of, is_normal),
            };
            let mut text = format!("{table}{done}: {actions}{to}\n{why}");
            if let Some(routed) = &known.routed {
                text.push_str(&routed.words());
            }
            if let Some(translated) = &known.translated {
                text.push_str(&translated.words());
            }
            if let Some(balanced) = &balanced {
                text.push_str(&balanced.words());
            }
            if let Some(chain) = &chain {
                text.push_str(&chain.words());
            }
            if let Some(way) = way {
                let from_here = if chain.is_some() { "Once it has passed the chain, from here" } else { "From here" };
                // What is shown here is what shows it.
                let way = summary(&network, &way, None).replace(" (`heddle trace` shows which)", "");
                let _ = write!(text, "{from_here}:\n{way}");
            }
            if let Some(why) = &before {
                let _ = writeln!(text, "It does not come here: {why}");
            }
            put(&text)
        }
    }
}

/// Which packets the same is done with.
fn same(now: &Fabric, because_of: &str, is_normal: bool) -> String {
    if !is_normal {
        return format!("The same for all packets that agree in: {because_of}\n");
    }
    let mut looked_at = vec!["which host has their destination MAC address (by the file, or as learned)"];
    if now.has_vlans() {
        looked_at.push("their VLAN");
    }
    if now.spread == Spread::Ecmp {
        looked_at.push("the hash of their addresses, protocol and ports, where several ports lead to that host");
    }
    let tables = if because_of.is_empty() { "nothing of them" } else { because_of };
    let normal = looked_at.iter().fold(String::new(), |lines, it| lines + "  - " + it + "\n");
    format!(
        "Packets fare alike that agree in what was looked at.\nThe tables look at {tables}, and NORMAL at\n{normal}"
    )
}

/// What is known of the ends of a packet: from host to host, or to the router that passes it on.
struct Known {
    from: Option<NodeId>,
    to: Option<NodeId>,
    /// How long ago it was learned that its destination is there, in seconds, if the file does not say so.
    learned_s: Option<u64>,
    /// Its fields, with the MAC addresses of those whose IP addresses it has.
    key: FlowKey,
    /// What routers have to do with it, if its IP addresses are in two subnets.
    routed: Option<Routed>,
    /// What a function of a chain has written into it before any switch sees it.
    translated: Option<Translated>,
    hop_limit: u8,
    /// Why nobody sends it to there.
    unsent: Option<String>,
}

/// Between which hosts a packet is, on its way from subnet to subnet.
#[derive(Debug, Serialize)]
struct Routed {
    /// The interface that sends it.
    from: String,
    /// Who gets it, a router or the host that it is for.
    to: String,
    /// The MAC addresses that it has between those.
    dl_src: String,
    dl_dst: String,
    nw_ttl: u8,
}

impl Routed {
    fn words(&self) -> String {
        let Self { from, to, dl_src, dl_dst, nw_ttl } = self;
        format!(
            "Between subnets, this is the packet on its way from {from} to {to}: dl_src={dl_src}, dl_dst={dl_dst}, nw_ttl={nw_ttl}\n"
        )
    }
}

impl Known {
    fn of(
        instance: &Instance,
        (network, routing): (&Network, &Routing<'_>),
        switch: NodeId,
        fields: &Match,
    ) -> Result<Self, Report> {
        let topology = &network.fabric.topology;
        let find = |(mac, ip): (Option<[u8; 6]>, Option<IpAddr>)| host_at(topology, routing, (mac, ip));
        let (sent_from, sent_to) = (fields.reversed().destination(), fields.destination());
        let mut known = Self {
            from: find(sent_from),
            to: find(sent_to),
            learned_s: None,
            key: fields.flow_key(),
            routed: None,
            translated: None,
            hop_limit: HOP_LIMIT,
            unsent: None,
        };
        // Whoever names a MAC address says himself who is to get it.
        if let (None, Some(ip)) = sent_to {
            known.route((network, routing), switch, (fields, ip));
            let sender = known.sender(topology, switch, fields);
            if known.to.is_none() && known.unsent.is_none() {
                known.translate((network, routing), (sender, ip))?;
            } else if known.to.is_some() && known.routed.is_none() && known.unsent.is_none() {
                known.translate_source((network, routing), (sender, ip))?;
            }
        }
        let mac = |host: Option<NodeId>| host.and_then(|host| topology.address(host)).map(|address| address.mac);
        if known.key.eth_src == [0; 6] {
            known.key.eth_src = mac(known.from).unwrap_or_default();
        }
        if known.key.eth_dst == [0; 6] {
            known.key.eth_dst = mac(known.to).unwrap_or_default();
        }
        if known.to.is_none() && known.key.eth_dst != [0; 6] && !is_group(known.key.eth_dst) {
            let wanted = mac_words(known.key.eth_dst);
            let macs = instance.macs(None).map_err(explain)?;
            let found = macs.iter().flat_map(|of| &of.entries).find(|entry| entry.mac == wanted);
            known.to = found.and_then(|entry| topology.node(&entry.host));
            known.learned_s = found.and_then(|entry| entry.age_s);
        }
        Ok(known)
    }

    /// The host behind the port by which it comes in, or the one that has its source address.
    fn sender(&self, topology: &Topology, switch: NodeId, fields: &Match) -> Option<NodeId> {
        fields.in_port().and_then(|port| peer_host(topology, switch, port)).or(self.from)
    }

    /// The host that has its source address, be it one of ARP.
    fn source(&self, topology: &Topology, fields: &Match) -> Option<NodeId> {
        self.from.or_else(|| host_of(topology, fields.arp_sender()?))
    }

    /// Has a function of a chain translate it where it leaves its host, if it is for an address of that function.
    fn translate(
        &mut self,
        (network, routing): (&Network, &Routing<'_>),
        (sender, to): (Option<NodeId>, IpAddr),
    ) -> Result<(), Report> {
        match translated((network, routing), (sender, to), &self.key)? {
            Some(Outcome::To(host, key, written)) => {
                (self.to, self.key, self.translated) = (Some(host), key, Some(written));
            }
            Some(Outcome::Lost(why) | Outcome::Unclear(why)) => self.unsent = Some(why),
            None => {}
        }
        Ok(())
    }

    /// Has a function of a chain write another source where it leaves its host, if it does that with what goes there.
    fn translate_source(
        &mut self,
        (network, routing): (&Network, &Routing<'_>),
        (sender, to): (Option<NodeId>, IpAddr),
    ) -> Result<(), Report> {
        let is_ip = matches!(self.key.ethertype, ethertype::IPV4 | ethertype::IPV6);
        let Some(sender) = sender.filter(|_| is_ip) else { return Ok(()) };
        if let Some((key, written)) = with_other_source((network, routing), (sender, to), &self.key)? {
            (self.from, self.key, self.translated) = (Some(sender), key, Some(written));
        }
        Ok(())
    }

    /// Finds between which routers a packet is that crosses a switch, if its sender and the address that it is for are in two subnets.
    fn route(&mut self, (network, routing): (&Network, &Routing<'_>), switch: NodeId, (fields, to): (&Match, IpAddr)) {
        let topology = &network.fabric.topology;
        let peer = fields.in_port().and_then(|port| peer_host(topology, switch, port));
        let name = |node: NodeId| &topology.nodes[node].name;
        let Some(sender) = self.from.or(peer) else {
            let is_apart =
                |to: &NodeId| !topology.interfaces.is_empty() && network.routes().next_hops(switch, *to).is_empty();
            if let Some(to) = self.to.filter(is_apart) {
                let to = name(to);
                self.unsent =
                    Some(format!("routers are between here and {to}: `nw_src=` says from which subnet it comes"));
                self.to = None;
            }
            return;
        };
        let owner = |node: NodeId| topology.owner(node);
        let hops = routing.hops(sender, to);
        let routes = network.routes();
        let crosses = |hop: &Hop| {
            let Some(to) = hop.to else { return false };
            let trace = network.along_routes(&routes, (hop.from, to), None);
            trace.hops.iter().any(|hop| hop.from == switch || hop.to == switch)
        };
        let comes_by = |hop: &Hop| peer.is_none_or(|peer| peer == hop.from);
        let found = hops.iter().position(|hop| comes_by(hop) && crosses(hop));
        let at = found.or_else(|| hops.iter().position(crosses));
        let is_routed = hops.len() > 1 || hops.first().is_some_and(|hop| hop.to.is_some() && self.to != hop.to);
        let Some(hop) = at.map(|at| hops[at]) else {
            if hops.is_empty() && self.to.is_some_and(|to| owner(to) != owner(sender)) {
                let why = routing.next(sender, to, None).err();
                self.unsent = why.map(|why| format!("{}: {why}", name(sender)));
                self.to = None;
            }
            return;
        };
        if !is_routed {
            return;
        }
        (self.from, self.to) = (Some(hop.from), hop.to);
        self.hop_limit = HOP_LIMIT - at.map_or(0, |at| at as u8);
        if let (Some(sender), Some(receiver)) = (topology.address(hop.from), hop.to) {
            if self.key.eth_src == [0; 6] {
                self.key.eth_src = sender.mac;
            }
            self.key.eth_dst = hop.mac;
            self.routed = Some(Routed {
                from: name(hop.from).clone(),
                to: name(receiver).clone(),
                dl_src: mac_words(sender.mac),
                dl_dst: mac_words(hop.mac),
                nw_ttl: self.hop_limit,
            });
        }
    }

    /// The packet as tables of flows are asked about it: with what a router has written into it.
    fn packet(&self, written: &str, fields: &Match) -> String {
        let is_ip = matches!(self.key.ethertype, ethertype::IPV4 | ethertype::IPV6);
        let with_translation = self.translated.as_ref().map(|it| it.packet(written));
        let written = with_translation.as_deref().unwrap_or(written);
        let Some(Routed { dl_src, dl_dst, nw_ttl, .. }) = &self.routed else {
            // As its way from here has it, and as hosts send it.
            let is_ndp = self.key.protocol == protocol::ICMPV6 && NDP.contains(&self.key.src_port);
            let hop_limit = if is_ndp { u8::MAX } else { HOP_LIMIT };
            let ttl = if is_ip && !written.contains("ttl") { format!(",nw_ttl={hop_limit}") } else { String::new() };
            return format!("{written}{ttl}");
        };
        let mut packet = format!("{written},dl_dst={dl_dst}");
        if fields.reversed().destination().0.is_none() {
            let _ = write!(packet, ",dl_src={dl_src}");
        }
        if !written.contains("ttl") {
            let _ = write!(packet, ",nw_ttl={nw_ttl}");
        }
        packet
    }
}

/// Why the packet does not come to the switch, if a host sends it to another one and it is lost before.
fn before(network: &Network, switch: NodeId, (fields, known): (&Match, &Known)) -> Result<Option<String>, Report> {
    let topology = &network.fabric.topology;
    if known.unsent.is_some() {
        return Ok(known.unsent.clone());
    }
    if let Some(why) = unsent(&network.fabric, fields, known) {
        return Ok(Some(why));
    }
    if known.translated.is_some() {
        return Ok(None);
    }
    let sender = known.sender(topology, switch, fields);
    let Some(from) = sender.filter(|_| is_whole(&known.key)) else { return Ok(None) };
    let course = follow(network, (from, known.to), (&known.key, known.hop_limit), true)?;
    let is_before = |at: NodeId| at == from || topology.is_function_port(at);
    Ok(course.refused.or(course.lost).filter(|(at, _)| is_before(*at)).map(|(_, why)| why))
}

/// Why no host sends a packet with this destination address, if it is no host's.
fn unsent(fabric: &Fabric, fields: &Match, known: &Known) -> Option<String> {
    let (None, Some(ip)) = fields.destination() else { return None };
    let is_for_many = match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    if known.to.is_some() || known.key.eth_dst != [0; 6] || is_for_many || ip.is_unspecified() {
        return None;
    }
    if fabric.names.iter().any(|name| name.spec.asked_at.contains(&ip)) {
        return Some(format!("{ip} is a name server's of the network, which answers where a packet leaves its host"));
    }
    let Some(service) = fabric.services.iter().find(|service| service_has(service, &known.key)) else {
        return Some(format!("nobody has the address {ip}, so no host finds anybody to send it to"));
    };
    // A host that balances takes packets for it.
    if !service.at.is_empty() {
        return None;
    }
    let topology = &fabric.topology;
    let of_server = |server: &datapath::Server| {
        let address = topology.address(server.host)?;
        let name = &topology.nodes[server.host].name;
        Some(match service.forwarding {
            ForwardingMethod::Nat | ForwardingMethod::FullNat | ForwardingMethod::Tunnel => match ip {
                IpAddr::V4(_) => format!("nw_dst={} ({name})", address.ipv4),
                IpAddr::V6(_) => format!("ipv6_dst={} ({name})", address.ipv6),
            },
            ForwardingMethod::DirectRouting => {
                format!("dl_dst={} ({name})", mac_words(address.mac))
            }
        })
    };
    let servers = service.servers.iter().filter_map(of_server).collect::<Vec<_>>().join(", ");
    let becomes = match service.forwarding {
        ForwardingMethod::Nat | ForwardingMethod::FullNat => "address and port",
        ForwardingMethod::DirectRouting => "MAC address",
        ForwardingMethod::Tunnel => "address, in an IP header before their own,",
    };
    Some(format!(
        "{ip} is the service `{}`: a server's {becomes} stands in packets for it from where they leave their hosts. Switches see one of {servers}; `heddle path` follows it from its host",
        service.name
    ))
}

/// The hosts that balance the service which a packet is for.
#[derive(Debug, Serialize)]
struct Balanced {
    service: String,
    /// Those that take packets for it now.
    balancers: Vec<String>,
    #[serde(skip)]
    hosts: Vec<NodeId>,
    /// Why nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    nobody: Option<String>,
}

impl Balanced {
    /// The host to which all of them go, if that is one.
    fn only(&self) -> Option<NodeId> {
        if let [only] = self.hosts[..] { Some(only) } else { None }
    }

    fn words(&self) -> String {
        let Self { service, balancers, nobody, .. } = self;
        if let Some(nobody) = nobody {
            return format!("{nobody}\n");
        }
        let to = match &balancers[..] {
            [only] => format!("to its balancer {only}"),
            several => format!("to one of its balancers {}, by the hash of its connection", several.join(", ")),
        };
        format!(
            "It is for the service `{service}`: from its host it goes {to}, and on from there to a server; `heddle path` follows it all the way\n"
        )
    }
}

/// Where a packet for a service goes that is balanced at hosts; `None`: it is for none of those.
fn balanced(network: &Network, fields: &Match, known: &Known) -> Option<Balanced> {
    let (None, Some(_)) = fields.destination() else { return None };
    let has_it = |service: &&datapath::Service| !service.at.is_empty() && service_has(service, &known.key);
    let service = network.fabric.services.iter().find(has_it)?;
    let takes = |host: &NodeId| {
        let name = &network.fabric.topology.nodes[*host].name;
        let mut known = network.balancers(&service.name).iter();
        known.any(|it| it.balancer == *name && it.role == BalancerRole::Active)
    };
    let hosts: Vec<NodeId> = service.at.iter().filter(|host| takes(host)).copied().collect();
    let nobody = hosts.is_empty().then(|| {
        let why = network.unbalanced(&service.name);
        why.unwrap_or_else(|| format!("Nobody takes packets for `{}` now: no balancer of it is active", service.name))
    });
    let balancers = hosts.iter().map(|host| network.fabric.topology.nodes[*host].name.clone()).collect();
    Some(Balanced { service: service.name.clone(), balancers, hosts, nobody })
}

/// What becomes of the packet from the switch on.
fn rest<'a>(routing: &Routing<'a>, at: (NodeId, PortId), known: &Known) -> Result<Option<RoutedPath<'a>>, Report> {
    if !is_whole(&known.key) {
        return Ok(None);
    }
    let learned = known.to.filter(|_| known.learned_s.is_some());
    let course = follow_from(routing.network(), at, (&known.key, known.hop_limit), learned)?;
    routing.go_on(RoutedPath::of((at.0, known.to), course), known.hop_limit, true).map(Some)
}

/// Whether enough is known of a packet to make one.
fn is_whole(key: &FlowKey) -> bool {
    matches!(key.ethertype, ethertype::IPV4 | ethertype::IPV6) && key.eth_dst != [0; 6]
}

/// The chain that takes a packet where it leaves its host.
#[derive(Debug, Serialize)]
struct TakingChain {
    name: String,
    course: &'static str,
    /// The functions in the order in which it passes them.
    functions: String,
    /// The host that it comes from.
    from: String,
}

impl TakingChain {
    fn words(&self) -> String {
        let Self { name, course, functions, from } = self;
        format!(
            "The chain `{name}` ({course}) takes it where it leaves {from}: {functions}. NORMAL leads to the next function that has ports, and then to where it goes.\n"
        )
    }
}

/// The chain that takes a packet whose fields say which host it is from and which it is for: by the port that it comes in by, or by its addresses.
fn chain_of(now: &Fabric, switch: NodeId, (fields, known): (&Match, &Known)) -> Option<TakingChain> {
    let topology = &now.topology;
    let from = fields.in_port().and_then(|port| peer_host(topology, switch, port));
    let (from, to) = (from.or(known.from)?, known.to.filter(|_| known.learned_s.is_none())?);
    let (chain, course) = now.chains.find(from, to, |matching| matching.has(&fields.key))?;
    Some(TakingChain {
        name: chain.name.clone(),
        course: course.name(),
        functions: functions_in_words(now, chain, course),
        from: topology.nodes[from].name.clone(),
    })
}

/// The host that a port of a switch leads to.
fn peer_host(topology: &Topology, switch: NodeId, port: PortId) -> Option<NodeId> {
    let (link, side) = *topology.nodes[switch].ports.get(port)?;
    Some(topology.links[link].end(side.other()).node).filter(|node| topology.is_host(*node))
}

/// The field with the IP address of the host at the port by which a packet comes in, and its name, if none is named, and that host passes on nothing of others.
fn source_at_port<'a>(topology: &'a Topology, switch: NodeId, fields: &Match) -> Option<(String, &'a str)> {
    let host = peer_host(topology, switch, fields.in_port()?)?;
    let node = &topology.nodes[host];
    let address = topology.address(host).filter(|_| !node.forwards && fields.reversed().destination().1.is_none())?;
    let source = match fields.flow_key().ethertype {
        ethertype::IPV4 if !fields.has_source() => format!("nw_src={}", address.ipv4),
        ethertype::IPV6 if !fields.has_source() => format!("ipv6_src={}", address.ipv6),
        _ => return None,
    };
    Some((source, &node.name))
}

/// The host that has these addresses.
fn host_at(topology: &Topology, routing: &Routing<'_>, (mac, ip): (Option<[u8; 6]>, Option<IpAddr>)) -> Option<NodeId> {
    match (mac, ip) {
        (Some(mac), _) => {
            topology.nodes.keys().find(|id| topology.address(*id).is_some_and(|address| address.mac == mac))
        }
        (None, Some(ip)) => routing.resolve(ip).and_then(|(host, _)| host),
        (None, None) => None,
    }
}

/// Where the routes lead a packet whose destination is known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Normal {
    /// The host that it is for.
    to: String,
    /// How long ago its address was learned to be there, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned_s: Option<u64>,
    /// The ports of shortest paths that carry: which one of several it takes depends on all of its flow.
    ports: Vec<NormalPort>,
}

#[derive(Debug, Serialize)]
struct NormalPort {
    port: u16,
    /// The node behind it.
    node: String,
}

impl Normal {
    fn words(&self) -> String {
        let port = |NormalPort { port, node }: &NormalPort| {
            if *node == self.to { port.to_string() } else { format!("{port} (to {node})") }
        };
        let ports: Vec<String> = self.ports.iter().map(port).collect();
        let to = match self.learned_s {
            Some(age) => format!("to {}, behind which its address was learned {age} s ago,", self.to),
            None => format!("to {}", self.to),
        };
        match &ports[..] {
            [] => format!("{to}: no link leads there"),
            [one] => format!("{to} by port {one}"),
            several => format!("{to} by one of the ports {}", several.join(", ")),
        }
    }
}

/// Where NORMAL leads, if it is known which host the packet is for.
fn normal(network: &Network, switch: NodeId, (to, learned_s): (Option<NodeId>, Option<u64>)) -> Option<Normal> {
    let topology = &network.fabric.topology;
    let host = to?;
    let routes = network.routes();
    let port = |port: &PortId| {
        let (link, side) = topology.nodes[switch].ports[*port];
        let peer = topology.links[link].end(side.other()).node;
        NormalPort { port: port.0, node: topology.nodes[peer].name.clone() }
    };
    let ports = routes.next_hops(switch, host).iter().map(port).collect();
    Some(Normal { to: topology.nodes[host].name.clone(), learned_s, ports })
}
