//! A graph goes on where that of the network before ends, although all its switches and ports have other numbers.

use std::sync::Arc;

use datapath::{Graph, Map, PortTable, Renumbering, Services, Steering, Tables};
use link::LinkSpec;
use machine::Time;
use topology::{HostAddress, NetPort, NodeId, PortId, Rerouting, Routes, TiVec, Topology};
use vswitch::spread::FlowHash;
use vswitch::{Forwarding, HostTable, Pipelines, Spread};

use super::{Division, Packet, Part, left};

/// Two hosts, and two equal paths between their switches; one more host if `has_third`, with the first link of all.
fn racks(has_third: bool, spec: LinkSpec) -> Topology {
    let mut topology = Topology::default();
    let host = |topology: &mut Topology, id: u8| {
        let (ipv4, ipv6) = ([10, 0, 0, id].into(), [0xfd00, 0, 0, 0, 0, 0, 0, id.into()].into());
        let mac = [2, 0, 0, 0, 0, id];
        let address = HostAddress { mac, ipv4, ipv4_prefix: 8, ipv6, ipv6_prefix: 64, pod: None };
        topology.add_host(format!("h{id}"), address)
    };
    let (h0, h1) = (host(&mut topology, 0), host(&mut topology, 1));
    let h2 = has_third.then(|| host(&mut topology, 2));
    let [near, far, a, b] = ["near", "far", "a", "b"].map(|name| topology.add_switch(name.into(), 0, None));
    if let Some(h2) = h2 {
        topology.connect(h2, near, LinkSpec::default());
    }
    topology.connect(h0, near, spec);
    for (from, to) in [(h1, far), (near, a), (near, b), (far, a), (far, b)] {
        topology.connect(from, to, LinkSpec::default());
    }
    topology
}

struct Network {
    tables: Arc<Tables>,
    graph: Graph<Packet>,
    part: Part,
}

impl Network {
    fn new(topology: &Topology) -> Self {
        let tables = Arc::new(Tables {
            map: Map::new(topology),
            host_table: HostTable::new(topology, &[]),
            bonds: TiVec::new(),
            rerouting: Rerouting::Follow,
            pipelines: Pipelines::default(),
            steering: Steering::default(),
            services: Services::default(),
            ports: PortTable::default(),
        });
        let routes = Arc::new(Routes::compute(topology));
        let graph = Graph::new(Time::ZERO, topology, &tables, routes, (Spread::Ecmp, 1.into()));
        let part = Part::new(0, Division::Hosts, &tables);
        Self { tables, graph, part }
    }

    /// By hash, whether h0's packets to h1 go by switch `a`.
    fn choices(&mut self, a: NodeId) -> Vec<bool> {
        let by_a = |graph: &Graph<Packet>, map: &Map| left(graph)[usize::from(map.port(a, PortId(1)))];
        let choose = |hash| {
            let before = by_a(&self.graph, &self.tables.map);
            let packet = Packet { from: NodeId(0), forwarding: Forwarding { to: NodeId(1), hash: FlowHash(hash) } };
            self.graph.depart(self.tables.at(Time::ZERO), &mut self.part, NetPort(0), packet);
            by_a(&self.graph, &self.tables.map) > before
        };
        (0..64).map(choose).collect()
    }
}

#[test]
fn what_is_kept_goes_on_in_the_next_network() {
    let (before, after) = (racks(false, LinkSpec::default()), racks(true, LinkSpec::default()));
    let (mut was, mut is) = (Network::new(&before), Network::new(&after));
    let choices = was.choices(NodeId(4));
    let counts = left(&was.graph);
    let node = |node: NodeId| if node.0 < 2 { node } else { NodeId(node.0 + 1) };
    let port = |(port, at): (NetPort, NodeId)| {
        // The new link has the first port of the first switch.
        let number = was.tables.map.number(port).0 + u16::from(at == NodeId(2));
        Some(is.tables.map.port(node(at), PortId(number)))
    };
    let renumbering = Renumbering {
        nodes: before.nodes.keys().map(|id| Some(node(id))).collect(),
        ports: was.tables.map.ports().map(port).collect(),
        ends: TiVec::new(),
        keeps_choices: true,
        keeps_pipelines: Vec::new(),
    };
    let tables = (&*was.tables, &*is.tables);
    let retimings = is.graph.take_over(&mut was.graph, tables, &renumbering, Time::ZERO);
    assert!(retimings.is_empty());
    for (from, to) in renumbering.ports.iter_enumerated() {
        assert_eq!(left(&is.graph)[usize::from(to.unwrap())], counts[usize::from(from)], "{from:?}");
    }
    assert_eq!(left(&was.graph).iter().sum::<u64>(), 0, "what was made is left");
    assert_eq!(is.choices(NodeId(5)), choices, "flows keep their paths");
    assert_ne!(Network::new(&after).choices(NodeId(5)), choices, "by its number, each switch would choose anew");
    assert_eq!(is.part.heard.len(), 64);
}

#[test]
fn a_link_with_another_rate_says_what_becomes_of_what_is_under_way() {
    let fast = LinkSpec { rate_bps: Some(1_000_000_000), ..LinkSpec::default() };
    let slow = LinkSpec { rate_bps: Some(1_000), ..LinkSpec::default() };
    let (before, after) = (racks(false, slow), racks(false, fast));
    let (mut was, mut is) = (Network::new(&before), Network::new(&after));
    let arrival = {
        let link = was.graph.egress[NetPort(0)].link_mut().unwrap();
        let link::Verdict::Arrives(at) = link.offer(Time::ZERO, 60) else { panic!("it has room") };
        at
    };
    let renumbering = Renumbering {
        nodes: before.nodes.keys().map(Some).collect(),
        ports: was.tables.map.ports().map(|(port, _)| Some(port)).collect(),
        ends: TiVec::new(),
        keeps_choices: true,
        keeps_pipelines: vec![true; was.tables.map.switches()],
    };
    let tables = (&*was.tables, &*is.tables);
    let retimings = is.graph.take_over(&mut was.graph, tables, &renumbering, Time::ZERO);
    let ports: Vec<NetPort> = retimings.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [NetPort(0), is.tables.map.far(NetPort(0))]);
    assert!(retimings[0].1.arrival(arrival) < arrival);
    assert_eq!(is.graph.egress[NetPort(0)].link().unwrap().spec(), fast);
}
