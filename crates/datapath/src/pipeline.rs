//! Switches that do more than to forward: what their pipelines say is carried out here.

use std::sync::Arc;

use link::Link;
use machine::{Rebase, Span, Step, Time};
use topology::{NetPort, NodeId, PortId};
use vswitch::{Action, FLOOD, Field, FlowKey, Forwarding, PacketIn, Pipeline};
use wire::is_group;

use crate::driver::{Driver, Loss, Tag, Timer};
use crate::graph::{Egress, EgressKind, Graph, Moment, Tables};

/// The shortest time that there is.
const INSTANT: Span = Span::from_ps(1);

/// The pipeline of a switch.
#[derive(Debug)]
pub struct Installed {
    pipeline: Box<dyn Pipeline>,
    /// When it is to be woken.
    armed: Time,
}

impl Installed {
    pub(crate) fn new(pipeline: Box<dyn Pipeline>) -> Self {
        Self { pipeline, armed: Time::NEVER }
    }

    /// Goes on at a switch that has the ports for which `made` was made.
    pub(crate) fn take_ports_of(&mut self, made: &mut Self) {
        if let (Some(kept), Some(made)) = (self.pipeline.flow_tables(), made.pipeline.flow_tables()) {
            kept.set_ports(made.ports().clone());
        }
    }
}

impl Rebase for Installed {
    fn rebase(&mut self, by: Span) {
        let Self { pipeline, armed } = self;
        pipeline.rebase(by);
        armed.rebase(by);
    }
}

/// The switch that a packet has come to, and how.
#[derive(Clone, Copy)]
struct Visit {
    /// Its number among the switches.
    switch: usize,
    node: NodeId,
    /// The port that the packet came in by.
    port: NetPort,
}

impl<P> Graph<P> {
    /// A packet has come to a switch that has a pipeline. It is returned with the port that it leaves by, if it does; copies of it are followed
    /// later.
    #[inline(never)]
    pub(crate) fn process<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (switch, node, port): (usize, NodeId, NetPort),
        packet: P,
    ) -> Option<(NetPort, P)> {
        let packet = self.pass_bridge(moment, driver, (switch, node, port), packet)?;
        let visit = Visit { switch, node, port };
        let mut actions = self.actions.pop().unwrap_or_default();
        let decided = self.decide(moment, driver, visit, packet, &mut actions);
        let left = decided.and_then(|packet| self.carry_out(moment, driver, visit, packet, &actions));
        actions.clear();
        self.actions.push(actions);
        self.leave_bridge(moment.tables, driver, left?)
    }

    /// Packets that leave one after the other by a port come to a switch that has a pipeline, in their order. Those leave together that it sends by the same port as they are.
    pub(crate) fn process_burst<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packets: &mut Vec<P>,
    ) {
        let Moment { tables, now } = moment;
        let Egress { far, link, .. } = &self.egress[port];
        let (far, is_at_once) = (*far, link.takes_no_time(now));
        let taker = tables.map.taker(far);
        let at = tables.map.switch(taker.node()).filter(|_| taker.is_direct());
        let is_plain = self.bridges.is_empty() && tables.steering.is_empty() && is_at_once && driver.is_here(far);
        let Some(switch) = at.filter(|_| is_plain) else {
            return packets.drain(..).for_each(|packet| self.depart_steered(moment, driver, port, packet));
        };
        count_passed(&mut self.egress[port].link, driver, packets);
        let visit = Visit { switch, node: taker.node(), port: far };
        let (mut run, mut leaves) = (self.bursts.take_spare(), None);
        let mut actions = self.actions.pop().unwrap_or_default();
        for packet in packets.drain(..) {
            actions.clear();
            let Some(packet) = self.decide(moment, driver, visit, packet, &mut actions) else { continue };
            let out = match actions[..] {
                [Action::Output(out)] => tables.map.port_of(visit.node, out),
                _ => None,
            };
            if leaves.is_some() && out != leaves {
                self.leave_together(moment, driver, leaves, &mut run);
            }
            leaves = out;
            if out.is_some() {
                run.push(packet);
                continue;
            }
            match self.carry_out(moment, driver, visit, packet, &actions) {
                Some((port, packet)) => self.depart_steered(moment, driver, port, packet),
                None => self.follow_pending(moment, driver),
            }
        }
        actions.clear();
        self.actions.push(actions);
        self.leave_together(moment, driver, leaves, &mut run);
        self.bursts.keep_spare(run);
    }

    /// Packets leave a switch by one port, in their order.
    fn leave_together<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: Option<NetPort>,
        run: &mut Vec<P>,
    ) {
        let (Moment { tables, now }, Some(port)) = (moment, port) else { return };
        let Egress { far, kind, link, .. } = &mut self.egress[port];
        let (far, taker) = (*far, tables.map.taker(*far));
        let is_end = taker.is_direct() && tables.map.is_host(taker.node()) && driver.is_here(far);
        if !is_end || *kind != EgressKind::Single || !link.takes_no_time(now) {
            return run.drain(..).for_each(|packet| self.depart_steered(moment, driver, port, packet));
        }
        count_passed(link, driver, run);
        run.drain(..).for_each(|packet| driver.deliver(now, far, packet));
    }

    /// Has the pipeline of a switch say what is to be done with a packet; it is returned if anybody can.
    #[expect(clippy::inline_always, reason = "each packet passes it, in a burst or alone")]
    #[inline(always)]
    fn decide<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        Visit { switch, port, .. }: Visit,
        mut packet: P,
        actions: &mut Vec<Action>,
    ) -> Option<P> {
        if !self.passed.take(moment.now, INSTANT, D::AT_ONCE_MAX) {
            return lose(driver, Loss::Loop, packet);
        }
        self.stamp_flood(moment.tables, driver, port, &mut packet);
        // What another switch has written there is none of the tunnels of this one.
        if driver.tunnel(&packet) != 0 && !moment.tables.map.is_host(moment.tables.map.far_node(port)) {
            let _ = driver.rewrite(&mut packet, Field::TunnelId(0));
        }
        let headers = driver.headers(&packet);
        let Some(installed) = &mut self.pipelines[switch] else { return lose(driver, Loss::NoRoute, packet) };
        let (in_port, bytes) = (moment.tables.map.number(port), driver.bytes(&packet));
        let packet_in = PacketIn { in_port, tunnel: driver.tunnel(&packet), headers, bytes };
        if installed.pipeline.process(moment.now, &packet_in, actions).is_err() {
            return lose(driver, Loss::Malformed, packet);
        }
        driver.met_pipeline(&mut packet, switch, actions);
        Some(packet)
    }

    /// Does with a packet what is wanted, in order.
    fn carry_out<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        visit: Visit,
        mut packet: P,
        actions: &[Action],
    ) -> Option<(NetPort, P)> {
        // The last one that sends it takes the packet itself; what comes behind that has no effect.
        let Some(last) = last_that_sends(actions) else { return self.lose_at(driver, visit, packet) };
        let mut has_destination = true;
        let mut number = 0;
        while let Some(action) = actions.get(number).filter(|_| number <= last) {
            match *action {
                Action::Set(field) => {
                    if driver.rewrite(&mut packet, field).is_err() {
                        return lose(driver, Loss::Malformed, packet);
                    }
                    self.follow_field(moment.tables, driver, &mut packet, field, &mut has_destination);
                }
                Action::PushVlan(_) | Action::PopVlan | Action::PushMpls { .. } | Action::PopMpls(_) => {
                    let done = match *action {
                        Action::PushVlan(tci) => driver.push_vlan(&mut packet, tci),
                        Action::PushMpls { ethertype, entry } => driver.push_mpls(&mut packet, ethertype, entry),
                        Action::PopMpls(ethertype) => driver.pop_mpls(&mut packet, ethertype),
                        _ => driver.pop_vlan(&mut packet),
                    };
                    if done.is_err() {
                        return lose(driver, Loss::Malformed, packet);
                    }
                    if let Action::PopMpls(_) = *action {
                        follow_headers(driver, &mut packet);
                    }
                }
                Action::Controller => self.packet_in(moment, driver, visit, &packet),
                Action::Normal if !has_destination => driver.count(Loss::NoRoute),
                Action::Flood => self.send_flood(moment, driver, visit, &packet),
                Action::Clone(length) => {
                    let end = (number + 1 + usize::from(length)).min(actions.len());
                    if let Some(copy) = driver.copy(&packet)
                        && let Some((port, copy)) =
                            self.carry_out(moment, driver, visit, copy, &actions[number + 1..end])
                    {
                        self.put_forwarding(moment, driver, port, copy);
                    }
                    number = end - 1;
                }
                Action::Normal | Action::Output(_) if number == last => {
                    return self.send(moment, driver, visit, *action, packet);
                }
                Action::Normal | Action::Output(_) => {
                    if let Some(copy) = driver.copy(&packet)
                        && let Some((port, copy)) = self.send(moment, driver, visit, *action, copy)
                    {
                        self.put_forwarding(moment, driver, port, copy);
                    }
                }
            }
            number += 1;
        }
        driver.free(packet);
        None
    }

    /// A pipeline has no use for a packet.
    #[cold]
    fn lose_at<D: Driver<Packet = P>>(
        &self,
        driver: &mut D,
        Visit { switch, .. }: Visit,
        packet: P,
    ) -> Option<(NetPort, P)> {
        let is_metered = self.pipelines[switch].as_ref().is_some_and(|installed| installed.pipeline.has_metered());
        lose(driver, if is_metered { Loss::Meter } else { Loss::Pipeline }, packet)
    }

    /// Sends a copy by each port of the tree that spans the network, but for the one by which the packet came.
    fn send_flood<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        Visit { node, port, .. }: Visit,
        packet: &P,
    ) {
        let routes = Arc::clone(&self.routes);
        let ports = routes.tree(node).iter().map(|out| moment.tables.map.port(node, *out));
        for out in ports.filter(|out| *out != port) {
            if let Some(copy) = driver.copy(packet) {
                self.put_forwarding(moment, driver, out, copy);
            }
        }
    }

    /// The port that a packet leaves by.
    fn send<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        Visit { switch, node, port }: Visit,
        action: Action,
        packet: P,
    ) -> Option<(NetPort, P)> {
        match action {
            Action::Output(out) => match moment.tables.map.port_of(node, out) {
                Some(out) => Some((out, packet)),
                None => lose(driver, Loss::NoRoute, packet),
            },
            _ => self.switch_normally(moment, driver, (switch, node, port), packet),
        }
    }

    /// A field has been written: the packet goes to the host that has its destination address now, if any has, and belongs to the flow that its IP
    /// addresses and ports say.
    fn follow_field<D: Driver<Packet = P>>(
        &self,
        tables: &Tables,
        driver: &mut D,
        packet: &mut P,
        field: Field,
        has_destination: &mut bool,
    ) {
        let before = driver.forwarding(packet);
        let forwarding = match field {
            Field::EthSrc(_)
            | Field::VlanTci(_)
            | Field::Dscp(_)
            | Field::Ecn(_)
            | Field::Ttl(_)
            | Field::QuotedSrc(_)
            | Field::QuotedDst(_)
            | Field::QuotedPorts(..)
            | Field::TcpSeq(_)
            | Field::TcpAck(_)
            | Field::MplsLabel(_)
            | Field::MplsTrafficClass(_)
            | Field::MplsTtl(_)
            | Field::LabelledTtl(_)
            | Field::NdTarget(_)
            | Field::NdSourceLinkLayer(_)
            | Field::NdTargetLinkLayer(_)
            | Field::TunnelId(_) => return,
            // It belongs to the tree by which it came.
            Field::EthDst(mac) if is_group(mac) && before.to == FLOOD => Some(before),
            Field::EthDst(mac) if is_group(mac) => Some(self.flooding()),
            Field::EthDst(mac) => {
                let hash = || FlowKey::parse(driver.headers(packet)).map_or(before.hash, |key| key.hash());
                let hash = if before.to == FLOOD { hash() } else { before.hash };
                tables.host_table.by_mac(mac).map(|to| Forwarding { to, hash })
            }
            _ if before.to == FLOOD => return,
            _ => FlowKey::parse(driver.headers(packet)).ok().map(|key| Forwarding { hash: key.hash(), ..before }),
        };
        match forwarding {
            Some(forwarding) => {
                *has_destination |= matches!(field, Field::EthDst(_));
                driver.set_forwarding(packet, forwarding);
            }
            None => *has_destination = false,
        }
    }

    /// Where a frame with this key goes from here.
    fn forwarding_of(&self, tables: &Tables, key: &FlowKey) -> Option<Forwarding> {
        if is_group(key.eth_dst) {
            return Some(self.flooding());
        }
        let to = tables.host_table.by_mac(key.eth_dst)?;
        Some(Forwarding { to, hash: key.hash() })
    }

    /// Shows a packet to the control machine of a switch, and carries out what that wants.
    fn packet_in<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, visit: Visit, packet: &P) {
        let Some(installed) = &mut self.pipelines[visit.switch] else { return };
        installed.pipeline.packet_in(moment.now, moment.tables.map.number(visit.port), &driver.finished(packet));
        self.poll_pipeline(moment, driver, visit.switch);
    }

    /// Carries out what the control machine of a switch wants.
    pub(crate) fn poll_pipeline<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, switch: usize) {
        let Moment { tables, now } = moment;
        let node = tables.map.node_of_switch(switch);
        loop {
            let Some(installed) = &mut self.pipelines[switch] else { return };
            match installed.pipeline.poll(now) {
                Step::Wait(until) => {
                    // A machine that waits for a time that has come would be asked for ever.
                    let until = until.max(now + INSTANT);
                    if until < installed.armed {
                        installed.armed = until;
                        driver.wake_at(until, Timer::Switch(switch as u32));
                    }
                    return;
                }
                Step::Do(out) => self.packet_out(moment, driver, (node, out.port), &out.frame),
            }
        }
    }

    /// Sends a frame that the control machine of a switch has written.
    fn packet_out<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (node, port): (NodeId, PortId),
        frame: &[u8],
    ) {
        let tables = moment.tables;
        let Ok(key) = FlowKey::parse(frame) else { return driver.count(Loss::Malformed) };
        match (self.forwarding_of(tables, &key), tables.map.port_of(node, port)) {
            (Some(forwarding), Some(port)) => {
                if let Some(packet) = driver.make(frame, forwarding, Tag::None) {
                    self.put(moment, driver, port, packet);
                }
            }
            _ => driver.count(Loss::NoRoute),
        }
    }

    /// The time has come that the control machine of a switch has wanted.
    pub(crate) fn wake_pipeline<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, switch: usize) {
        let Some(Some(installed)) = self.pipelines.get_mut(switch) else { return };
        if installed.armed != moment.now {
            // An earlier one was armed in its place.
            return;
        }
        installed.armed = Time::NEVER;
        self.poll_pipeline(moment, driver, switch);
    }

    /// The pipeline of a switch, if it is here.
    pub fn pipeline_mut(&mut self, switch: usize) -> Option<&mut dyn Pipeline> {
        let installed = self.pipelines.get_mut(switch)?.as_mut()?;
        Some(&mut *installed.pipeline)
    }

    /// What a pipeline wants was changed from outside: it says when it is to be woken.
    pub fn pipeline_changed<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, switch: usize) {
        self.poll_pipeline(moment, driver, switch);
        self.follow_pending(moment, driver);
    }

    /// A switch's pipeline hears of the carrier of a port.
    pub(crate) fn report_carrier_to_pipeline(&mut self, tables: &Tables, port: NetPort) {
        // A bond has a carrier as long as any of its members has one.
        let map = &tables.map;
        let members = map.bond(port).map_or(std::slice::from_ref(&port), |end| map.members(end));
        let is_up = members.iter().any(|port| self.egress[*port].is_up());
        if let Some(switch) = map.switch(map.node(port))
            && let Some(Some(installed)) = self.pipelines.get_mut(switch)
        {
            installed.pipeline.set_carrier(map.number(members[0]), is_up);
        }
    }

    /// Has all control machines say what they have to say; what they were to be woken for is forgotten.
    pub(crate) fn start_pipelines<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        for switch in 0..self.pipelines.len() {
            if let Some(installed) = &mut self.pipelines[switch] {
                installed.armed = Time::NEVER;
                self.poll_pipeline(moment, driver, switch);
            }
        }
    }
}

/// Packets pass a link that takes no time.
fn count_passed<D: Driver>(link: &mut Link, driver: &D, packets: &[D::Packet]) {
    link.count_passed(packets.len() as u64, packets.iter().map(|packet| u64::from(driver.bytes(packet))).sum());
}

/// Headers are seen that were behind labels: the packet belongs to the flow that they say.
fn follow_headers<D: Driver>(driver: &mut D, packet: &mut D::Packet) {
    let before = driver.forwarding(packet);
    if before.to != FLOOD
        && let Ok(key) = FlowKey::parse(driver.headers(packet))
    {
        driver.set_forwarding(packet, Forwarding { hash: key.hash(), ..before });
    }
}

/// The last action by which a packet is sent or shown.
fn last_that_sends(actions: &[Action]) -> Option<usize> {
    let (mut last, mut number) = (None, 0);
    while let Some(action) = actions.get(number) {
        match action {
            Action::Set(_) | Action::PushVlan(_) | Action::PopVlan | Action::PushMpls { .. } | Action::PopMpls(_) => {}
            Action::Output(_) | Action::Normal | Action::Flood | Action::Controller => last = Some(number),
            Action::Clone(length) => {
                last = Some(number);
                number += usize::from(*length);
            }
        }
        number += 1;
    }
    last
}

/// A packet goes nowhere.
#[cold]
pub(crate) fn lose<D: Driver, T>(driver: &mut D, loss: Loss, packet: D::Packet) -> Option<T> {
    driver.count(loss);
    driver.free(packet);
    None
}
