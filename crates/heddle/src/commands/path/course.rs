//! What becomes of a packet, in parts: from where another destination was written on it to where it came, with the functions that it passed before.

use std::net::IpAddr;

use datapath::{Loss, TraceEnd, TraceStep, TracedPacket, Tracer, VirtualAddress};
use fabric::Fabric;
use miette::{Report, miette};
use topology::{LinkId, NetPort, NodeId, PortId, Routes, Topology};
use vswitch::chain::Function;
use vswitch::spread::FlowHash;
use vswitch::{Action, FlowKey, Hop, Trace, UNKNOWN};
use wire::{EthernetPacket, ethertype, protocol};

use super::members;
use super::network::Network;
use super::packet::{HOP_LIMIT, answer, answered, opening};

/// A part of a packet's path.
pub struct Leg<'a> {
    pub ends: (NodeId, NodeId),
    /// Functions that the packet passes where it begins, each with where: one with ports, from whose other port it begins, and built-in ones.
    pub passed: Vec<(NodeId, &'a Function)>,
    pub trace: Trace,
}

/// What became of a packet.
pub struct Course<'a> {
    /// What it was when it was sent.
    pub sent: FlowKey,
    /// What it was when it ended.
    pub ended: FlowKey,
    pub legs: Vec<Leg<'a>>,
    /// The host that got it.
    pub delivered: Option<NodeId>,
    /// Where it was lost, and why, in words.
    pub lost: Option<(NodeId, String)>,
    /// Who answers it where it leaves its host, so that no other host hears of it.
    pub answered: Option<Answerer<'a>>,
    /// What tables of flows did with it, where they did more than to leave it to the routes.
    pub by_flows: Vec<(NodeId, Vec<Action>)>,
    /// Where the first packet of a connection is lost, and why, if this one answers such a one that came the other way.
    pub refused: Option<(NodeId, String)>,
}

/// Who answers in the place of hosts.
#[derive(Clone, Copy)]
pub enum Answerer<'a> {
    /// A service.
    Service(&'a datapath::Service),
    /// A name server of the network.
    NameServer,
}

impl<'a> Answerer<'a> {
    /// What it is called.
    pub fn name(self) -> &'a str {
        match self {
            Self::Service(service) => &service.name,
            Self::NameServer => "name server",
        }
    }
}

impl Course<'_> {
    /// Whether all of what is sent arrives, if it begins a connection.
    pub fn arrives(&self) -> bool {
        self.lost.is_none() && self.refused.is_none() && self.legs.iter().all(|leg| leg.trace.arrives > 1.0 - 1e-6)
    }
}

/// Where packets go: to a host, if they are for one and not for a service.
pub type Target = Option<NodeId>;

/// Follows the first packet of a connection; if functions or flows let none begin, an answer to one that came the other way. `is_known`: all of its flow is, not only its
/// addresses.
pub fn follow<'a>(
    network: &'a Network,
    (from, to): (NodeId, Target),
    (key, hop_limit): (&FlowKey, u8),
    is_known: bool,
) -> Result<Course<'a>, Report> {
    let follower = Follower { network, routes: network.routes(), is_known, entered: None };
    let mut tracer = network.tracer();
    let first = send(&mut tracer, (from, to), &opening(key, hop_limit))?;
    let TraceEnd::Lost(Some(Loss::Function | Loss::Pipeline)) = first.end else {
        return Ok(follower.course(&tracer, (from, key), &first));
    };
    if let Some(to) = to
        && let Some((tracer, answer, packet)) = answer_of(network, (from, to), key)?
    {
        let refused = follower.course(&tracer, (from, key), &first).lost;
        let course = follower.course(&tracer, (from, &answer), &packet);
        return Ok(Course { refused, ..course });
    }
    Ok(follower.course(&tracer, (from, key), &first))
}

/// Follows a packet from where it comes in by a port of a switch. `learned`: the host that is known to have its destination address, if the file does not say so.
pub fn follow_from<'a>(
    network: &'a Network,
    (switch, in_port): (NodeId, PortId),
    (key, hop_limit): (&FlowKey, u8),
    learned: Target,
) -> Result<Course<'a>, Report> {
    let mut tracer = network.tracer();
    let Some(port) = tracer.tables().map.port_of(switch, in_port) else {
        return Err(miette!("the switch has no port {}", in_port.0));
    };
    let packets = tracer.arrive(port, &opening(key, hop_limit), learned).map_err(|error| miette!("{error}"))?;
    let packet = meant(&tracer, packets, learned)?;
    let follower = Follower { network, routes: network.routes(), is_known: true, entered: Some((port, learned)) };
    Ok(follower.course(&tracer, (switch, key), &packet))
}

/// An answer from one host to another that comes there, if a connection may begin from there.
fn answer_of(
    network: &Network,
    (from, to): (NodeId, NodeId),
    key: &FlowKey,
) -> Result<Option<(Tracer, FlowKey, TracedPacket)>, Report> {
    let mut tracer = network.tracer();
    let begun = send(&mut tracer, (to, Some(from)), &opening(&answered(key), HOP_LIMIT))?;
    let is_delivered = |packet: &TracedPacket, host: NodeId| match packet.end {
        TraceEnd::Delivered(port) => tracer_host(&tracer, port) == host,
        TraceEnd::Lost(_) => false,
    };
    if !is_delivered(&begun, from) {
        return Ok(None);
    }
    let Some(frame) = answer(&begun.frame) else { return Ok(None) };
    let key = FlowKey::parse(&frame).map_err(|error| miette!("{error}"))?;
    let packet = send(&mut tracer, (from, Some(to)), &frame)?;
    let arrives = matches!(packet.end, TraceEnd::Delivered(port) if tracer_host(&tracer, port) == to);
    Ok(arrives.then_some((tracer, key, packet)))
}

fn tracer_host(tracer: &Tracer, port: NetPort) -> NodeId {
    tracer.tables().map.node(port)
}

/// What becomes of a frame, and not of copies; but of that copy which comes where it is to come, if the frame itself does not.
fn send(tracer: &mut Tracer, (from, to): (NodeId, Target), frame: &[u8]) -> Result<TracedPacket, Report> {
    let packets = tracer.send(from, frame).map_err(|error| miette!("{error}"))?;
    meant(tracer, packets, to)
}

fn meant(tracer: &Tracer, mut packets: Vec<TracedPacket>, to: Target) -> Result<TracedPacket, Report> {
    let comes = |packet: &TracedPacket| {
        let TraceEnd::Delivered(port) = packet.end else { return false };
        to.is_some_and(|to| tracer_host(tracer, port) == to)
    };
    let meant = packets.iter().position(comes).or_else(|| packets.iter().position(|packet| !packet.is_copy));
    match meant {
        Some(at) => Ok(packets.swap_remove(at)),
        None => Err(miette!("nothing is known of a packet: a bond, or a switch, keeps it")),
    }
}

/// What is looked up while steps become a course.
struct Follower<'a> {
    network: &'a Network,
    routes: Routes,
    is_known: bool,
    /// The port by which the packet came in, if no host sent it, and who has learned its address.
    entered: Option<(NetPort, Target)>,
}

/// A part of a path while its steps come.
struct Begun<'a> {
    from: NodeId,
    /// Where it goes, by which hash; `None`: it does not go anywhere.
    towards: Option<(NodeId, FlowHash)>,
    passed: Vec<(NodeId, &'a Function)>,
    /// By port that was come to.
    links: Vec<NetPort>,
}

impl<'a> Follower<'a> {
    fn course(&self, tracer: &Tracer, (from, sent): (NodeId, &FlowKey), packet: &TracedPacket) -> Course<'a> {
        let fabric = &self.network.fabric;
        let map = &tracer.tables().map;
        let built_in = built_in_functions(fabric);
        let mut legs = Vec::new();
        let mut by_flows = Vec::new();
        let mut at = from;
        let begin = |from| Begun { from, towards: None, passed: Vec::new(), links: Vec::new() };
        let mut leg = begin(from);
        for step in &packet.steps {
            match step {
                TraceStep::Link(port, forwarding) => {
                    let towards = (forwarding.to, forwarding.hash);
                    if leg.towards.is_some_and(|before| before != towards) {
                        legs.push(std::mem::replace(&mut leg, begin(at)));
                    }
                    leg.towards = Some(towards);
                    leg.links.push(*port);
                    at = map.node(*port);
                }
                TraceStep::Function(number) => leg.passed.extend(built_in.get(*number).map(|it| (at, *it))),
                TraceStep::Ports(came, left) => {
                    legs.push(std::mem::replace(&mut leg, begin(*left)));
                    let has_it = |function: &&Function| function.instances().iter().flatten().any(|port| port == came);
                    let function = fabric.chains.functions.iter().find(has_it);
                    leg.passed.extend(function.map(|it| (*came, it)));
                    at = *left;
                }
                TraceStep::Pipeline(switch, actions) => {
                    let node = map.node_of_switch(*switch);
                    if self.network.has_flows_at(node) && actions[..] != [Action::Normal] {
                        by_flows.push((node, actions.clone()));
                    }
                }
            }
        }
        legs.push(leg);
        let (delivered, lost) = match packet.end {
            TraceEnd::Delivered(port) => {
                let host = map.node(port);
                let unheard = self.unheard(host, &packet.frame);
                (unheard.is_none().then_some(host), unheard.map(|why| (host, why)))
            }
            TraceEnd::Lost(loss) => (None, Some((at, self.why(tracer, (at, loss), packet)))),
        };
        let service = self.service(sent).filter(|_| matches!(packet.end, TraceEnd::Lost(None | Some(Loss::Service))));
        let says = service.map(|(number, service)| (service, self.refusal(tracer, number, sent)));
        let has_left = packet.steps.iter().any(|step| matches!(step, TraceStep::Link(..)));
        let (lost, answered) = match says {
            Some((_, Some(why))) => (Some((from, why)), None),
            // At the switch next to its sender, or at a host that balances.
            Some((service, None)) if (!has_left || service.at.contains(&at)) && packet.end == TraceEnd::Lost(None) => {
                (None, Some(Answerer::Service(service)))
            }
            None if !has_left && packet.end == TraceEnd::Lost(None) && self.is_for_name_server(sent) => {
                (None, Some(Answerer::NameServer))
            }
            _ => (lost, None),
        };
        // What the routes themselves lose is said of them, with its share.
        let is_of_routes = matches!(
            packet.end,
            TraceEnd::Lost(None | Some(Loss::NoRoute | Loss::NoMember)) if legs.last().is_some_and(|leg| leg.towards.is_some())
        );
        let count = legs.len();
        let legs: Vec<Leg<'a>> = legs
            .into_iter()
            .enumerate()
            .map(|(number, leg)| self.leg(tracer, leg, number + 1 == count && is_of_routes))
            .collect();
        let is_said = is_of_routes && legs.last().is_some_and(|leg| leg.trace.arrives < 1.0 - 1e-6);
        let lost = lost.filter(|_| !is_said);
        let ended = FlowKey::parse(&packet.frame).unwrap_or(*sent);
        Course { sent: *sent, ended, legs, delivered, lost, answered, by_flows, refused: None }
    }

    /// Why a host does not take what comes to it: with a tag, for the address that it has without one. Of hosts that Heddle doesn't make it is not known which they have.
    fn unheard(&self, host: NodeId, frame: &[u8]) -> Option<String> {
        let topology = &self.network.fabric.topology;
        let vid = EthernetPacket::new_checked(frame).ok()?.vlan()? & vswitch::port::VID_MASK;
        let key = FlowKey::parse(frame).ok()?;
        let own = topology.address(host)?;
        let is_own = is_destination(&key, own.ipv4.into()) || is_destination(&key, own.ipv6.into());
        (vid != 0 && is_own && !topology.nodes[host].is_external())
            .then(|| format!("it comes with the tag of VLAN {vid}, and has that address without one"))
    }

    /// The service, by its number, that has the destination address of what a host sends.
    fn service(&self, sent: &FlowKey) -> Option<(usize, &'a datapath::Service)> {
        let is_it = |service: &datapath::Service| service_has(service, sent);
        self.network.fabric.services.iter().enumerate().find(|(_, it)| self.entered.is_none() && is_it(it))
    }

    /// Whether what a host sends is for a name server of the network.
    fn is_for_name_server(&self, sent: &FlowKey) -> bool {
        let mut asked_at = self.network.fabric.names.iter().flat_map(|name| &name.spec.asked_at);
        self.entered.is_none() && asked_at.any(|address| is_destination(sent, *address))
    }

    /// Why a service lets nobody have what was sent to it; `None`: it does not say so.
    fn refusal(&self, tracer: &Tracer, number: usize, sent: &FlowKey) -> Option<String> {
        let service = &self.network.fabric.services[number];
        let counters = tracer.services().get(number)?.counters;
        let name = &service.name;
        let protocol = if sent.protocol == protocol::UDP { "udp" } else { "tcp" };
        if counters.denied > 0 {
            return Some(format!("the firewall of `{name}` (`allow:`, `deny:`) does not let this client's address in"));
        }
        if counters.denied_country > 0 {
            return Some(format!("the firewall of `{name}` (`countries:`) does not let this client's country in"));
        }
        if counters.unserved > 0 {
            let ports = service.addresses.iter().filter(|it| has_address(it, sent));
            let ports: Vec<String> = ports.map(|it| format!("{} {}", it.protocol_name(), it.port)).collect();
            return Some(format!(
                "`{name}` refuses it: it has {}, and not {protocol} {}",
                ports.join(", "),
                sent.dst_port
            ));
        }
        if counters.refused > 0 {
            let servers = self.network.servers(service);
            let out = servers.iter().filter_map(|server| Some(format!("{} is {}", server.name, server.out.as_ref()?)));
            let out = out.collect::<Vec<_>>().join(", ");
            let why = if out.is_empty() { String::new() } else { format!(" ({out})") };
            return Some(format!("`{name}` refuses it: no server of it may have a connection of this client{why}"));
        }
        (counters.invalid > 0).then(|| format!("`{name}` refuses it: it begins no connection"))
    }

    /// All paths that the routes offer for a part, if the packet took one of them; else the one that it took.
    fn leg(&self, tracer: &Tracer, leg: Begun<'a>, may_end_early: bool) -> Leg<'a> {
        let topology = &self.network.fabric.topology;
        let map = &tracer.tables().map;
        let Begun { from, towards, passed, links } = leg;
        let last = links.last().map_or(from, |port| map.node(*port));
        let crossed: Vec<(NodeId, NodeId)> =
            links.iter().map(|port| (map.node(map.far(*port)), map.node(*port))).collect();
        if let Some((to, hash)) = towards.filter(|(to, _)| usize::from(*to) < topology.nodes.len())
            && to != from
        {
            let mut trace = self.network.along_routes(&self.routes, (from, to), self.is_known.then_some(hash));
            let is_of_it = |(a, b): &(NodeId, NodeId)| trace.hops.iter().any(|hop| (hop.from, hop.to) == (*a, *b));
            if crossed.iter().all(is_of_it) && (last == to || may_end_early) {
                members::choose(self.network, &mut trace, &self.taken(tracer, &links), self.is_known);
                return Leg { ends: (from, to), passed, trace };
            }
        }
        let hop = |(number, port): (usize, &NetPort)| {
            let leaves = map.far(*port);
            let (from, number_there) = (map.node(leaves), map.number(leaves));
            let (link, _) = topology.nodes[from].ports[number_there];
            let to = map.node(*port);
            Hop {
                number: number as u32 + 1,
                from,
                port: number_there,
                links: vec![link],
                to,
                share: 1.0,
                carries: true,
            }
        };
        let hops: Vec<Hop> = links.iter().enumerate().map(hop).collect();
        let trace = Trace { paths: 1, arrives: 1.0, hops, stuck: Vec::new() };
        Leg { ends: (from, last), passed, trace }
    }

    /// By which links a packet has gone, and between which nodes, if it has come to these ports.
    fn taken(&self, tracer: &Tracer, links: &[NetPort]) -> Vec<(NodeId, NodeId, LinkId)> {
        let map = &tracer.tables().map;
        let taken = |port: &NetPort| {
            let (from, to) = (map.far(*port), map.node(*port));
            let (link, _) = self.network.fabric.topology.nodes[map.node(from)].ports[map.number(from)];
            (map.node(from), to, link)
        };
        links.iter().map(taken).collect()
    }

    /// Why a packet that has come to a node goes no further.
    fn why(&self, tracer: &Tracer, (at, loss): (NodeId, Option<Loss>), packet: &TracedPacket) -> String {
        let Some(loss) = loss else {
            return "the link that it should leave by is down".to_owned();
        };
        match loss {
            Loss::Function => {
                let functions = built_in_functions(&self.network.fabric);
                let last = packet.steps.iter().rev().find_map(|step| match step {
                    TraceStep::Function(number) => Some((functions.get(*number)?, tracer.why_dropped(*number))),
                    _ => None,
                });
                last.map_or_else(String::new, |(function, why)| {
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    format!("{} drops it{why}", function_in_words(function))
                })
            }
            Loss::FunctionDown => "a function of its chain is down, which blocks".to_owned(),
            Loss::Stray => "a chain has no use for what is for nobody".to_owned(),
            Loss::Pipeline => "a flow drops it, or none is for it (`heddle trace` shows which)".to_owned(),
            Loss::Meter => "a meter drops it".to_owned(),
            Loss::Vlan => self.vlan(tracer, at, packet),
            Loss::Discarding => "a port on its way does not forward (`heddle show rstp` says why)".to_owned(),
            Loss::NoRoute if is_unknown(packet) => "no host has its destination address".to_owned(),
            Loss::NoRoute => "no link leads on from there".to_owned(),
            Loss::NoMember => "the bond that it should leave by has no member that may send".to_owned(),
            Loss::Loop => "flows send it in a circle".to_owned(),
            Loss::Service => "the service has no server for it".to_owned(),
            Loss::NoPort => "none of the balancer's own ports is left".to_owned(),
            Loss::Checksum => "it has a wrong checksum".to_owned(),
            Loss::Martian => "no station sends from its source address".to_owned(),
            Loss::HopLimit => "its TTL is 0".to_owned(),
            Loss::Malformed => "a switch cannot read what it looks for in it".to_owned(),
            Loss::Storm | Loss::Cut => "too much is sent to everybody".to_owned(),
        }
    }

    /// Which port of a switch a packet's VLAN does not pass.
    fn vlan(&self, tracer: &Tracer, at: NodeId, packet: &TracedPacket) -> String {
        let topology = &self.network.fabric.topology;
        let tables = tracer.tables();
        let ethernet = EthernetPacket::new_checked(&packet.frame).ok();
        let tci = ethernet.as_ref().and_then(EthernetPacket::vlan);
        let crossed = packet.steps.iter().rev().find_map(|step| match step {
            TraceStep::Link(port, forwarding) => Some((*port, Some(forwarding.to))),
            _ => None,
        });
        let by_address = || tables.host_table.by_mac(ethernet.as_ref()?.dst());
        let entered = self.entered.map(|(port, learned)| (port, by_address().or(learned)));
        let Some((came, to)) = crossed.or(entered) else { return "a port does not carry its VLAN".to_owned() };
        let name = |node: NodeId| &topology.nodes[node].name;
        let Some(vid) = tables.ports.vlans(came).and_then(|vlans| vlans.admit(tci)) else {
            let from = name(tables.map.far_node(came));
            return match tci {
                Some(tci) => format!("its port to {from} admits no frames of VLAN {}", tci & vswitch::port::VID_MASK),
                None => format!("its port to {from} admits no frames without a tag"),
            };
        };
        let to = to.filter(|to| usize::from(*to) < topology.hosts as usize);
        match to.and_then(|to| self.routes.next_hops(at, to).first()) {
            Some(out) => {
                let to = name(tables.map.far_node(tables.map.port(at, *out)));
                format!("its port to {to} does not carry VLAN {vid}")
            }
            None => format!("a port does not carry VLAN {vid}"),
        }
    }
}

/// Whether an address of a service is the destination of packets, whatever port they are for.
const fn has_address(it: &VirtualAddress, sent: &FlowKey) -> bool {
    let is_ipv6 = sent.ethertype == ethertype::IPV6;
    it.is_ipv6 == is_ipv6 && it.address == sent.dst
}

/// Whether packets are for this address.
fn is_destination(sent: &FlowKey, address: IpAddr) -> bool {
    let wanted = if address.is_ipv6() { ethertype::IPV6 } else { ethertype::IPV4 };
    sent.ethertype == wanted && sent.dst == balance::config::address_bits(address)
}

/// Whether packets are for a service.
pub fn service_has(service: &datapath::Service, sent: &FlowKey) -> bool {
    matches!(sent.ethertype, ethertype::IPV4 | ethertype::IPV6)
        && service.addresses.iter().any(|it| has_address(it, sent))
}

/// Whether a packet was on its way to nobody.
fn is_unknown(packet: &TracedPacket) -> bool {
    packet.steps.iter().rev().find_map(|step| match step {
        TraceStep::Link(_, forwarding) => Some(forwarding.to == UNKNOWN),
        _ => None,
    }) == Some(true)
}

/// The built-in functions of all chains, in the order in which the graph has them.
fn built_in_functions(fabric: &Fabric) -> Vec<&Function> {
    let chains = &fabric.chains;
    let functions = chains.chains.iter().flat_map(|chain| &chain.functions).map(|at| &chains.functions[*at]);
    functions.filter(|function| function.built_in().is_some()).collect()
}

/// A function by its name, and what it is.
pub fn function_in_words(function: &Function) -> String {
    match (function.built_in(), function.instances().len()) {
        (Some(built_in), _) => format!("{} ({})", function.name, built_in.kind()),
        (None, 1) => function.name.clone(),
        (None, several) => format!("{} (one of {several})", function.name),
    }
}

/// The name of a node.
pub fn name(topology: &Topology, node: NodeId) -> &str {
    &topology.nodes[node].name
}
