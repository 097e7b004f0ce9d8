//! Egresses and switches: the path of every packet.

use std::collections::VecDeque;
use std::sync::Arc;

use balance::names::Names;
use bond::Transmit;
use link::{Impaired, Link, LinkSpec, Verdict};
use machine::{Rebase, Rng, Span, Time};
use topology::{BondEndId, NetPort, NodeId, Rerouting, Routes, TiVec, Topology};
use vswitch::neighbour::ANSWER_BYTES;
use vswitch::{Action, FLOOD, HostTable, Ingress, Pipelines, Seeds, Spread, Switch, classify, without_answer};

use crate::bridges::{BridgeState, bridges};
use crate::bursts::Bursts;
use crate::chains::{ChainState, Steering};
use crate::direct::DirectFlows;
use crate::driver::{Driver, Loss, Tag};
use crate::ends::{EndSpec, EndState};
use crate::flood::{Passed, StormControl};
use crate::map::Map;
use crate::paths::Paths;
use crate::pipeline::Installed;
use crate::port_table::PortTable;
use crate::services::{Balancers, ServiceState, ServiceView, Services};

/// Links' randomness among what starts from a graph's seed: switches fork it by their numbers, which have 32 bits.
const LINKS: u64 = 1 << 32;

/// What every packet is looked up in, and does not change while packets are under way.
#[derive(Debug)]
pub struct Tables {
    /// Where each port is, and where it leads.
    pub map: Map,
    /// The owner of each address.
    pub host_table: HostTable,
    /// What is at each end of each bond.
    pub bonds: TiVec<BondEndId, EndSpec>,
    /// Whether switches leave out links that have no carrier.
    pub rerouting: Rerouting,
    /// What switches do besides forwarding along the routes.
    pub pipelines: Pipelines,
    /// Which packets pass functions on their way.
    pub steering: Steering,
    /// Which packets are for whichever server of a service.
    pub services: Services,
    /// What is said about ports of switches.
    pub ports: PortTable,
}

impl Tables {
    /// The network, when something happens in it.
    #[inline]
    pub const fn at(&self, now: Time) -> Moment<'_> {
        Moment { tables: self, now }
    }

    /// Decides about a frame that the host `from` sends by a port, as [`classify`] does. In networks with VLANs only those are answered who are in one with whom they ask about.
    #[inline]
    pub fn classify(&self, (from, port): (NodeId, NetPort), frame: &[u8], answer: &mut [u8; ANSWER_BYTES]) -> Ingress {
        match classify(frame, from, &self.host_table, answer) {
            Ingress::Answer(len) if self.ports.has_vlans() && !self.hears(port, frame, &answer[..len]) => {
                without_answer(frame, from, &self.host_table)
            }
            ingress => ingress,
        }
    }
}

/// When something happens, and in which network.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// What is looked up.
    pub tables: &'a Tables,
    /// The time at which it happens.
    pub now: Time,
}

/// The egress of a port: the direction of a link that leaves from it. What each packet asks stands first, in two lines of the processor's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Egress {
    pub(crate) far: NetPort,
    pub(crate) kind: EgressKind,
    /// Whether the driver is shown what leaves by it ([`Graph::observe`]). One that is `Single` otherwise is `Observed` then, so that other packets need not
    /// ask.
    pub(crate) is_observed: bool,
    /// The link to the port at the other end.
    pub(crate) link: Link,
}

/// What an egress is to a packet that is to leave by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EgressKind {
    /// It leads to the port at the other end.
    Single,
    /// The same, and the driver is shown what leaves by it.
    Observed,
    /// A member of a bond, which chooses among its members.
    InBond,
    /// One of several of a host, which chooses among them by its routes.
    OfMultiHomed,
    /// It belongs to another part of the graph. Its link knows whether it has a carrier, and nothing else.
    Elsewhere,
}

/// The state of a network, or of a part of it: what belongs to another part only is not there.
#[derive(Debug)]
pub struct Graph<P> {
    /// Next hops, as links are now or were a moment ago.
    pub routes: Arc<Routes>,
    /// By the port that packets leave from.
    pub egress: TiVec<NetPort, Egress>,
    /// By the switch's number among the switches; behind them, those in multi-homed hosts.
    pub switches: Vec<Switch>,
    /// By the switch's number among the switches. Empty where none has any.
    pub pipelines: Vec<Option<Installed>>,
    /// By the switch's number among the switches: those that speak RSTP. Empty where none does.
    pub bridges: Vec<Option<BridgeState>>,
    /// Ends of bonds. Empty where there are none.
    pub ends: TiVec<BondEndId, Option<EndState<P>>>,
    /// What service chains have counted, and how their functions do.
    pub chains: ChainState,
    /// Connections to services, and how their servers do.
    pub services: ServiceState,
    /// Those that are balanced at hosts.
    pub(crate) balancers: Balancers,
    /// What name servers know of the names that lead to services.
    pub(crate) names: Names,
    /// What an end has just handed on.
    pub(crate) released: Vec<P>,
    /// Packets that have come in by a port in no time, besides the one that is followed: of copies, and of what bonds send. They wait their turn here, so
    /// that a long path is no deep recursion.
    pub(crate) pending: VecDeque<(NetPort, P)>,
    /// First segments of connections that leave a balancer by a port, as soon as its peers have been told of them.
    pub(crate) first_segments: Vec<(NetPort, P)>,
    /// How often routes have changed: what is for everybody goes by one tree, from its beginning to its end.
    pub(crate) generation: u64,
    /// What pipelines want, while it is carried out: one for each that a packet is at, of those that send it to one another.
    pub(crate) actions: Vec<Vec<Action>>,
    /// What has passed pipelines at this instant.
    pub(crate) passed: Passed,
    /// How much has been flooded that is for addresses which nobody knows.
    pub(crate) unknown: StormControl,
    /// How switches spread packets.
    pub(crate) spread: Spread,
    /// Where packets have gone that came in a burst.
    pub(crate) paths: Paths,
    /// What hosts say to each other that a driver carries.
    pub(crate) direct: DirectFlows,
    /// Buffers of bursts.
    pub(crate) bursts: Bursts<P>,
}

impl Egress {
    fn new(map: &Map, port: NetPort, link: Link) -> Self {
        let kind = match map.taker(port) {
            taker if taker.is_in_bond() => EgressKind::InBond,
            taker if taker.is_of_multi_homed() => EgressKind::OfMultiHomed,
            _ => EgressKind::Single,
        };
        Self { far: map.far(port), kind, is_observed: false, link }
    }

    /// In the place of one that belongs to another part of the graph.
    pub(crate) fn elsewhere(&self) -> Self {
        let link = Link::new(LinkSpec::default(), 0);
        let mut egress = Self { far: self.far, kind: EgressKind::Elsewhere, is_observed: false, link };
        egress.set_carrier(Time::ZERO, self.is_up());
        egress
    }

    /// The same for another part of the graph, which has counted nothing yet.
    pub(crate) fn twin(&self) -> Self {
        Self { far: self.far, kind: self.kind, is_observed: self.is_observed, link: self.link.twin() }
    }

    /// Offers a packet to the link. It is returned with the time at which it comes to the other end, if it does.
    #[expect(clippy::inline_always, reason = "it is a part of what each packet passes at each hop")]
    #[inline(always)]
    pub(crate) fn offer<D: Driver>(
        &mut self,
        now: Time,
        driver: &mut D,
        mut packet: D::Packet,
    ) -> Option<(Time, D::Packet)> {
        match self.link.offer(now, driver.bytes(&packet)) {
            Verdict::Arrives(at) => Some((at, packet)),
            Verdict::Marks(at) => {
                if driver.mark(&mut packet) {
                    self.link.count_mark();
                }
                Some((at, packet))
            }
            Verdict::Impaired(impaired) => Some(self.impair(now, driver, packet, impaired)),
            Verdict::Dropped => {
                driver.free(packet);
                None
            }
        }
    }

    /// Does to a packet what its link does at random.
    #[cold]
    #[inline(never)]
    fn impair<D: Driver>(
        &mut self,
        now: Time,
        driver: &mut D,
        mut packet: D::Packet,
        impaired: Impaired,
    ) -> (Time, D::Packet) {
        if impaired.is_duplicated
            && let Some(second) = driver.copy(&packet)
        {
            self.link.count_duplicate();
            self.offer_second(now, driver, second);
        }
        self.do_to(driver, &mut packet, impaired);
        (impaired.at, packet)
    }

    /// Offers the link the second one of a packet that comes twice. It comes later than now, be it by a nanosecond: so it need not be followed.
    fn offer_second<D: Driver>(&mut self, now: Time, driver: &mut D, mut packet: D::Packet) {
        let verdict = self.link.offer(now, driver.bytes(&packet));
        let Some(impaired) = verdict.impaired() else { return driver.free(packet) };
        self.do_to(driver, &mut packet, impaired);
        let later = impaired.at.max(now + Span::from_ns(1));
        if let Some(packet) = driver.carry(now, later, self.far, packet) {
            driver.free(packet);
        }
    }

    fn do_to<D: Driver>(&mut self, driver: &mut D, packet: &mut D::Packet, impaired: Impaired) {
        if impaired.marks && driver.mark(packet) {
            self.link.count_mark();
        }
        if let Some(bits) = impaired.flips {
            driver.corrupt(packet, bits);
        }
    }

    /// Whether it has a carrier; also known of one that belongs to another part of the graph.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// It loses its carrier, or has it back.
    pub(crate) fn set_carrier(&mut self, now: Time, up: bool) {
        if up {
            self.link.heal();
        } else {
            self.link.cut(now);
        }
    }

    /// The link, if it belongs to this part of the graph.
    pub fn link(&self) -> Option<&Link> {
        (self.kind != EgressKind::Elsewhere).then_some(&self.link)
    }

    /// The same, to be changed.
    pub fn link_mut(&mut self) -> Option<&mut Link> {
        (self.kind != EgressKind::Elsewhere).then_some(&mut self.link)
    }
}

impl Rebase for Egress {
    fn rebase(&mut self, by: Span) {
        let Self { far: _, kind: _, is_observed: _, link } = self;
        link.rebase(by);
    }
}

impl<P> Default for Graph<P> {
    /// Nothing of any network.
    fn default() -> Self {
        Self {
            routes: Arc::default(),
            egress: TiVec::new(),
            switches: Vec::new(),
            pipelines: Vec::new(),
            bridges: Vec::new(),
            ends: TiVec::new(),
            chains: ChainState::default(),
            services: ServiceState::default(),
            balancers: Balancers::default(),
            names: Names::default(),
            released: Vec::new(),
            pending: VecDeque::new(),
            first_segments: Vec::new(),
            generation: 0,
            actions: Vec::new(),
            passed: Passed::default(),
            unknown: StormControl::default(),
            spread: Spread::default(),
            paths: Paths::default(),
            direct: DirectFlows::default(),
            bursts: Bursts::default(),
        }
    }
}

impl<P> Graph<P> {
    /// The whole network, as it comes up at `now`. `seeds` are where the randomness of switches, links and services and their hashes start.
    ///
    /// # Panics
    /// If the tables are of another topology.
    pub fn new(
        now: Time,
        topology: &Topology,
        tables: &Tables,
        routes: Arc<Routes>,
        (spread, seeds): (Spread, Seeds),
    ) -> Self {
        let map = &tables.map;
        let links = Rng::new(seeds.choices).fork(LINKS);
        let egress = |(port, node): (NetPort, NodeId)| {
            let (link, _) = topology.nodes[node].ports[map.number(port)];
            let seed = links.fork(usize::from(port) as u64).bits();
            Egress::new(map, port, Link::new(topology.spec_towards(link, map.far_node(port)), seed))
        };
        let switch = |number| Switch::new(map.node_of_switch(number), spread, &routes, seeds.choices);
        Self {
            egress: map.ports().map(egress).collect(),
            switches: (0..map.switches()).map(switch).collect(),
            pipelines: pipelines(now, topology, tables),
            bridges: bridges(tables),
            ends: tables.bonds.iter().map(|spec| Some(EndState::new(now, spec))).collect(),
            chains: ChainState::new(&tables.steering, seeds.tables),
            services: ServiceState::new(now, &tables.services, seeds.tables),
            balancers: Balancers::new(now, &tables.services, seeds.tables),
            names: Names::new(tables.services.names().iter().map(|name| name.spec.clone()).collect(), seeds.tables),
            routes,
            spread,
            ..Self::default()
        }
    }

    /// How services stand, in the order of the file: those that are balanced at hosts as the active balancer has them, with what all of them have counted.
    pub fn service_views<'a>(&'a self, services: &'a Services) -> Vec<ServiceView<'a>> {
        let mut views: Vec<ServiceView<'a>> = self.services.views().collect();
        self.balancers.show(services, &mut views);
        views
    }

    /// The machines of the service with this name: that of each of its balancers.
    pub fn service_machines(&mut self, name: &str) -> impl Iterator<Item = &mut balance::Service> {
        std::iter::once(&mut self.services).chain(self.balancers.states()).filter_map(|state| state.machine(name))
    }

    /// Forgets connections whose time has come.
    pub fn clear_expired(&mut self, now: Time) {
        self.services.clear_expired(now);
        self.balancers.states().for_each(|state| state.clear_expired(now));
    }

    /// A packet has come to a host in a network that has chains or services. It is returned if it is the host's own.
    #[inline]
    pub(crate) fn receive<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (host, port): (NodeId, NetPort),
        packet: P,
    ) -> Option<P> {
        self.count_arrival(&moment.tables.steering, host);
        self.balance(moment, driver, (host, port), packet)
    }

    /// Sends a packet off by a port, or by the bond that has it, or by whichever port of a multi-homed host its routes say, and follows it as long as no
    /// time passes.
    #[inline]
    pub fn depart<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, port: NetPort, mut packet: P) {
        if !moment.tables.steering.is_empty() {
            let Some(steered) = self.steer(moment, driver, port, packet) else {
                return self.follow_pending(moment, driver);
            };
            packet = steered;
        }
        self.depart_steered(moment, driver, port, packet);
    }

    /// The same of a packet that goes where it says, be it to a function of a chain or not.
    #[inline]
    pub(crate) fn depart_steered<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) {
        self.follow(moment, driver, port, packet);
        self.follow_pending(moment, driver);
    }

    /// Sends a packet off by this very port, be it in a bond or not, and follows it as long as no time passes.
    #[inline]
    pub fn depart_by<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        mut packet: P,
    ) {
        // What a bond says by itself is for its other end.
        if !moment.tables.steering.is_empty() && driver.tag(&packet) != Tag::Control {
            let Some(steered) = self.steer(moment, driver, port, packet) else {
                return self.follow_pending(moment, driver);
            };
            packet = steered;
        }
        if let Some(arrived) = self.cross_or_show(moment, driver, port, packet)
            && let Some((port, packet)) = self.come_in(moment, driver, arrived)
        {
            self.follow(moment, driver, port, packet);
        }
        self.follow_pending(moment, driver);
    }

    /// A packet has come in by a port. It is followed as long as no time passes.
    #[inline]
    pub fn arrive<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, port: NetPort, packet: P) {
        if let Some((port, packet)) = self.come_in(moment, driver, (port, packet)) {
            self.follow(moment, driver, port, packet);
        }
        self.follow_pending(moment, driver);
    }

    #[expect(clippy::inline_always, reason = "calls between these four cost the simulator a fifth of its speed")]
    #[inline(always)]
    fn follow<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, mut port: NetPort, mut packet: P) {
        loop {
            if self.egress[port].kind != EgressKind::Single {
                return self.put(moment, driver, port, packet);
            }
            let Some(arrived) = self.cross(moment, driver, port, packet) else { return };
            let Some(next) = self.come_in(moment, driver, arrived) else { return };
            (port, packet) = next;
        }
    }

    /// Follows what else has come in by a port in no time.
    #[inline]
    pub(crate) fn follow_pending<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        if !self.pending.is_empty() {
            self.follow_all(moment, driver);
        }
    }

    #[cold]
    fn follow_all<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        while let Some(arrived) = self.pending.pop_front() {
            if let Some((port, packet)) = self.come_in(moment, driver, arrived) {
                self.follow(moment, driver, port, packet);
            }
        }
    }

    /// Sends a packet off as [`Graph::depart`] does, or has another part of the graph do so; it is followed later.
    #[inline(never)]
    pub(crate) fn put<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, port: NetPort, packet: P) {
        match self.egress[port].kind {
            EgressKind::Single | EgressKind::Observed => self.put_on(moment, driver, port, packet),
            EgressKind::InBond => self.put_on_bond(moment, driver, port, packet),
            EgressKind::OfMultiHomed => self.send_from_multi_homed(moment, driver, port, packet),
            EgressKind::Elsewhere => driver.hand_over(moment.now, port, packet),
        }
    }

    /// Sends a packet off by this very port; it is followed later.
    #[inline]
    pub(crate) fn put_on<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) {
        if let Some(arrived) = self.cross_or_show(moment, driver, port, packet) {
            self.pending.push_back(arrived);
        }
    }

    /// Sends a copy of a packet off by each of these ports, and the packet itself by the last one.
    pub(crate) fn put_each<D: Driver<Packet = P>>(
        &mut self,
        driver: &mut D,
        ports: impl Iterator<Item = NetPort>,
        packet: P,
        put: impl Fn(&mut Self, &mut D, NetPort, P),
    ) {
        let mut ports = ports.peekable();
        while let Some(port) = ports.next() {
            if ports.peek().is_none() {
                return put(self, driver, port, packet);
            }
            if let Some(copy) = driver.copy(&packet) {
                put(self, driver, port, copy);
            }
        }
        driver.free(packet);
    }

    /// Offers a packet to the link of a port whose packets may be observed: [`Graph::cross`].
    #[inline]
    fn cross_or_show<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<(NetPort, P)> {
        if self.egress[port].is_observed {
            self.cross_and_show(moment, driver, port, packet)
        } else {
            self.cross(moment, driver, port, packet)
        }
    }

    /// Offers a packet to the link of a port. It is returned with the port that it has come to if it takes no time.
    #[expect(clippy::inline_always, reason = "calls between these four cost the simulator a fifth of its speed")]
    #[inline(always)]
    fn cross<D: Driver<Packet = P>>(
        &mut self,
        Moment { now, .. }: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<(NetPort, P)> {
        let egress = &mut self.egress[port];
        debug_assert!(egress.kind != EgressKind::Elsewhere, "a part of a graph has the egresses of its nodes");
        let (at, packet) = egress.offer(now, driver, packet)?;
        let far = egress.far;
        driver.carry(now, at, far, packet).map(|packet| (far, packet))
    }

    /// A packet has come in by a port. It is returned with the port that it leaves by, if it does.
    #[expect(clippy::inline_always, reason = "calls between these four cost the simulator a fifth of its speed")]
    #[inline(always)]
    fn come_in<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (port, packet): (NetPort, P),
    ) -> Option<(NetPort, P)> {
        let tables = moment.tables;
        let taker = tables.map.taker(port);
        if !taker.is_direct() {
            if taker.is_in_bond() {
                self.come_to_bond(moment, driver, port, packet);
            } else {
                self.come_to_multi_homed(moment, driver, (taker.node(), port), packet);
            }
            return None;
        }
        self.come_to(moment, driver, (taker.node(), port), packet)
    }

    /// A packet has come to a node. It is returned with the port that it leaves by, if it does.
    #[expect(clippy::inline_always, reason = "calls between these four cost the simulator a fifth of its speed")]
    #[inline(always)]
    pub(crate) fn come_to<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (node, port): (NodeId, NetPort),
        packet: P,
    ) -> Option<(NetPort, P)> {
        let Moment { tables, now } = moment;
        let Some(at) = tables.map.switch(node) else {
            if tables.steering.is_empty() {
                driver.deliver(now, port, packet);
            } else if let Some(packet) = self.receive(moment, driver, (node, port), packet) {
                driver.deliver(now, port, packet);
            }
            return None;
        };
        if !self.pipelines.is_empty() && self.pipelines[at].is_some() {
            return self.process(moment, driver, (at, node, port), packet);
        }
        self.forward(moment, driver, (at, node, port), packet)
    }

    /// Forwards what has come to a switch along the routes. It is returned with the port that it leaves by, if it does.
    #[expect(clippy::inline_always, reason = "calls between these four cost the simulator a fifth of its speed")]
    #[inline(always)]
    pub(crate) fn forward<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, node, port): (usize, NodeId, NetPort),
        packet: P,
    ) -> Option<(NetPort, P)> {
        let tables = moment.tables;
        let forwarding = driver.forwarding(&packet);
        if forwarding.to == FLOOD {
            self.flood(moment, driver, (node, port), packet);
            return None;
        }
        let Some(out) = self.switches[at].forward(&self.routes, forwarding) else {
            self.without_route(moment, driver, (node, port), packet);
            return None;
        };
        driver.forwarded(at, forwarding.to, 1);
        Some((tables.map.port(node, out), packet))
    }

    /// A packet is to leave by the bond that has this port.
    fn put_on_bond<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, port: NetPort, mut packet: P) {
        let tables = moment.tables;
        let end = tables.map.bond(port).expect("its egress says so");
        let members = tables.map.members(end);
        match self.choose(moment, driver, end, &mut packet) {
            Transmit::One(member) => self.put_on(moment, driver, members[member.index()], packet),
            Transmit::All(chosen) => {
                let ports = chosen.iter().map(|member| members[member.index()]);
                self.put_each(driver, ports, packet, |graph, driver, port, packet| {
                    graph.put_on(moment, driver, port, packet);
                });
            }
            Transmit::None(_) => {
                driver.count(Loss::NoMember);
                driver.free(packet);
            }
        }
    }
}

/// The pipelines of all switches as they start; empty where none has any.
fn pipelines(now: Time, topology: &Topology, tables: &Tables) -> Vec<Option<Installed>> {
    let made = |(id, _)| tables.pipelines.make(now, topology, id).map(Installed::new);
    let all: Vec<Option<Installed>> =
        if tables.pipelines.is_empty() { Vec::new() } else { topology.switches().map(made).collect() };
    if all.iter().any(Option::is_some) { all } else { Vec::new() }
}
