//! Steering: another destination is written on a packet that is on its way through a chain.

use std::net::{Ipv4Addr, Ipv6Addr};

use machine::Time;
use topology::{LinkId, NetPort, NodeId};
use vswitch::chain::{OnFailure, WatchStep, flow_of, rendezvous};
use vswitch::functions::Course;
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, FlowKey, Forwarding};
use wire::{EthernetPacket, ethertype, is_group};

use super::state::Sample;
use super::{Hop, Rule, Step};
use crate::driver::{Driver, Loss, Tag, Timer};
use crate::graph::{Graph, Moment, Tables};
use crate::pipeline::lose;

/// The ethertype of probes: that for experiments within one network (IEEE 802, 9.2.4).
const PROBE_TYPE: u16 = 0x88b5;

/// From whom probes are, and to whom: locally administered addresses that no host has. A bridge passes them on, as it does all that it has not learned.
const PROBE_FROM: [u8; 6] = [0x06, b'h', b'e', b'd', b'd', 0];
const PROBE_TO: [u8; 6] = [0x06, b'h', b'e', b'd', b'd', 1];

/// The shortest frame, without its check sequence.
const PROBE_BYTES: usize = 60;

impl<P> Graph<P> {
    /// A packet leaves a host in a network that has chains or services. It is returned with the destination that it has next, unless it goes nowhere.
    ///
    /// Functions of chains see what goes to a server and what it answers with the server's own address.
    #[inline(never)]
    pub(crate) fn steer<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<P> {
        let tables = moment.tables;
        let host = tables.map.node(port);
        let packet = self.send_to_server(moment, driver, port, packet)?;
        match tables.steering.step(host) {
            Step::Plain => self.send_from_server(moment, driver, (host, port), packet),
            Step::Classify(number) => self.classify(moment, driver, (number, port), packet),
            Step::Continue(instance, course) => {
                self.go_on_from(moment, driver, (instance as usize, course, port), packet)
            }
            Step::Stray => {
                driver.count(Loss::NoRoute);
                driver.free(packet);
                None
            }
        }
    }

    /// The same of packets that leave together, in their order.
    pub(crate) fn steer_burst<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packets: &mut Vec<P>,
    ) {
        let mut steered = self.bursts.take_spare();
        steered.extend(packets.drain(..).filter_map(|packet| self.steer(moment, driver, port, packet)));
        std::mem::swap(packets, &mut steered);
        self.bursts.keep_spare(steered);
        self.follow_pending(moment, driver);
    }

    /// A packet leaves a host whose packets may be for a chain.
    fn classify<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (number, port): (u32, NetPort),
        packet: P,
    ) -> Option<P> {
        let tables = moment.tables;
        let headers = driver.headers(&packet);
        let to = match driver.forwarding(&packet).to {
            FLOOD if is_group(driver.destination(&packet)) => match addressee(tables, headers) {
                Addressee::All => FLOOD,
                Addressee::Host(host) => host,
                Addressee::Unknown => {
                    let Rule { chain, course, .. } = tables.steering.rules[number as usize][0];
                    self.chains.courses[chain as usize][course.index()].stray += 1;
                    return lose(driver, Loss::Stray, packet);
                }
            },
            to => to,
        };
        // What cannot be read may be what is matched.
        let fits = |rule: &&Rule| {
            rule.to.binary_search(&to).is_ok()
                && rule.matching.as_ref().is_none_or(|matching| matching.has_frame(headers) || is_nested(headers))
        };
        let rules = &tables.steering.rules[number as usize];
        let Some(rule) = rules.iter().find(fits) else {
            return self.send_from_server(moment, driver, (tables.map.node(port), port), packet);
        };
        if driver.forwarding(&packet).to == FLOOD {
            // No function would see it.
            self.chains.courses[rule.chain as usize][rule.course.index()].stray += 1;
            return lose(driver, Loss::Stray, packet);
        }
        self.chains.courses[rule.chain as usize][rule.course.index()].entered += 1;
        self.hand_to_next(moment, driver, (rule.chain as usize, rule.course, 0, port), packet)
    }

    /// A packet has come back from a function.
    fn go_on_from<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (id, course, port): (usize, Course, NetPort),
        packet: P,
    ) -> Option<P> {
        let steering = &moment.tables.steering;
        let instance = &steering.instances[id];
        let chain = instance.chain as usize;
        let state = &mut self.chains.instances[id];
        if state.watch.returned() {
            driver.function_changed(moment.now, instance.ports[0], true);
        }
        if driver.frame(&packet).is_some_and(is_probe) {
            driver.free(packet);
            return None;
        }
        if driver.forwarding(&packet).to == FLOOD {
            // What is for groups never comes to a function: it is its own, as neighbour discovery of a bridge, and no packet of the chain has gone astray.
            let is_own = is_group(driver.destination(&packet));
            self.chains.courses[chain][course.index()].stray += u64::from(!is_own);
            return lose(driver, Loss::Stray, packet);
        }
        let bytes = driver.bytes(&packet);
        state.count_out(moment.now, course, bytes, || driver.signature(&packet));
        let hops = steering.paths[chain].hops.len();
        let done = match course {
            Course::Forward => instance.hop as usize + 1,
            Course::Reverse => hops - instance.hop as usize,
        };
        self.hand_to_next(moment, driver, (chain, course, done, port), packet)
    }

    /// Has a packet go on that has done with so many functions of its chain, and leaves by this port.
    fn hand_to_next<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (chain, course, done, port): (usize, Course, usize, NetPort),
        mut packet: P,
    ) -> Option<P> {
        let Moment { tables, now } = moment;
        let path = &tables.steering.paths[chain];
        for step in done..path.hops.len() {
            let hop = match course {
                Course::Forward => step,
                Course::Reverse => path.hops.len() - 1 - step,
            };
            let (first, count) = match path.hops[hop] {
                Hop::Instances(first, count) => (first as usize, count as usize),
                Hop::BuiltIn(number) => {
                    packet = self.pass_built_in(moment, driver, (number as usize, course, port), packet)?;
                    continue;
                }
            };
            let hash = driver.forwarding(&packet).hash;
            let (mut chosen, mut tried) = self.choose_instance(driver, (first, count), &packet);
            if chosen.is_none() && path.on_failure == OnFailure::Block {
                // It would be dropped.
                chosen = tried.take();
            }
            // What comes of a copy is a packet that comes twice, once.
            if let Some(id) = tried
                && let Some(mut copy) = driver.copy(&packet)
            {
                let to = tables.steering.instances[id].ports[course.index()];
                // The packet itself goes on, and is counted there.
                self.watch_hand_over(now, driver, id);
                driver.steer(&mut copy, Forwarding { to, hash });
                self.put(moment, driver, port, copy);
            }
            if let Some(id) = chosen {
                let to = tables.steering.instances[id].ports[course.index()];
                self.count_hand_over(now, driver, (id, course), &packet);
                driver.steer(&mut packet, Forwarding { to, hash });
                return Some(packet);
            }
            let counters = &mut self.chains.courses[chain][course.index()];
            match path.on_failure {
                OnFailure::Bypass => counters.bypassed += 1,
                OnFailure::Block => {
                    counters.blocked += 1;
                    return lose(driver, Loss::FunctionDown, packet);
                }
            }
        }
        let counters = &mut self.chains.courses[chain][course.index()];
        let to = path.ends[course.index()].or_else(|| destination(moment, driver, port, &packet));
        let Some(to) = to else {
            counters.stray += 1;
            return lose(driver, Loss::Stray, packet);
        };
        counters.left += 1;
        let hash = driver.forwarding(&packet).hash;
        driver.steer(&mut packet, Forwarding { to, hash });
        match tables.host_table.by_mac(driver.source(&packet)) {
            Some(host) => self.send_from_server(moment, driver, (host, port), packet),
            None => Some(packet),
        }
    }

    /// The instance of a function that takes a packet, and one that is down and may be tried.
    #[inline]
    fn choose_instance<D: Driver<Packet = P>>(
        &mut self,
        driver: &D,
        (first, count): (usize, usize),
        packet: &P,
    ) -> (Option<usize>, Option<usize>) {
        let instances = &mut self.chains.instances[first..first + count];
        if let [only] = instances {
            let tried = !only.watch.is_up() && only.watch.tries();
            return (only.watch.is_up().then_some(first), tried.then_some(first));
        }
        let flow = FlowKey::parse(driver.headers(packet)).map_or(FlowHash(0), |key| flow_of(&key));
        let Some(own) = rendezvous(flow, count, |_| true) else { return (None, None) };
        if instances[own].watch.is_up() {
            return (Some(first + own), None);
        }
        let tried = instances[own].watch.tries().then_some(first + own);
        let other = rendezvous(flow, count, |instance| instances[instance].watch.is_up());
        (other.map(|instance| first + instance), tried)
    }

    #[inline]
    fn count_hand_over<D: Driver<Packet = P>>(
        &mut self,
        now: Time,
        driver: &mut D,
        (id, course): (usize, Course),
        packet: &P,
    ) {
        let bytes = driver.bytes(packet);
        let state = &mut self.chains.instances[id];
        if state.count_in(now, course, bytes) {
            state.samples[course.index()] = Some(Sample { signature: driver.signature(packet), at: now });
        }
        self.watch_hand_over(now, driver, id);
    }

    /// Something was handed to a function, which is to give it back.
    #[inline]
    fn watch_hand_over<D: Driver<Packet = P>>(&mut self, now: Time, driver: &mut D, id: usize) {
        if let Some(until) = self.chains.instances[id].watch.handed(now) {
            self.arm_watches(driver, until);
        }
    }

    fn arm_watches<D: Driver<Packet = P>>(&mut self, driver: &mut D, until: Time) {
        if until < self.chains.armed {
            self.chains.armed = until;
            driver.wake_at(until, Timer::Chains);
        }
    }

    /// The time has come that watches have wanted.
    #[cold]
    pub(crate) fn wake_watches<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        if self.chains.armed != moment.now {
            // An earlier one was armed in its place.
            return;
        }
        self.ask_watches(moment, driver);
    }

    /// Asks all watches what they want; what they were to be woken for is forgotten.
    pub(crate) fn ask_watches<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        self.chains.armed = Time::NEVER;
        let mut next = Time::NEVER;
        for id in 0..self.chains.instances.len() {
            loop {
                match self.chains.instances[id].watch.poll(moment.now) {
                    WatchStep::Wait(until) => {
                        next = next.min(until);
                        break;
                    }
                    WatchStep::Probe => self.send_probe(moment, driver, id),
                    WatchStep::Down => {
                        driver.function_changed(moment.now, moment.tables.steering.instances[id].ports[0], false);
                        self.send_probe(moment, driver, id);
                    }
                }
            }
        }
        self.arm_watches(driver, next);
    }

    /// Sends a frame to the ingress of a function, which should come out of its egress.
    fn send_probe<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, id: usize) {
        let tables = moment.tables;
        let to = tables.steering.instances[id].ports[0];
        self.chains.instances[id].probes += 1;
        if let Some(packet) = driver.make(&probe(), Forwarding { to, hash: FlowHash(0) }, Tag::None) {
            self.put(moment, driver, tables.steering.towards_ingress(&tables.map, id), packet);
        }
    }

    /// Functions hear of the carrier of a link.
    pub(crate) fn report_carrier_to_functions<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        link: LinkId,
        up: bool,
    ) {
        let tables = moment.tables;
        for node in tables.map.ends(link).map(|port| tables.map.node(port)) {
            let Some((id, is_egress)) = tables.steering.instance_at(node) else { continue };
            let watch = &mut self.chains.instances[id].watch;
            let was_up = watch.is_up();
            watch.set_carrier(moment.now, is_egress, up);
            if watch.is_up() != was_up {
                let is_up = watch.is_up();
                driver.function_changed(moment.now, tables.steering.instances[id].ports[0], is_up);
            }
        }
    }

    /// The same of a link that has no carrier from the beginning.
    pub(crate) fn start_functions_without(&mut self, tables: &Tables, now: Time, port: NetPort) {
        if let Some((id, is_egress)) = tables.steering.instance_at(tables.map.node(port)) {
            self.chains.instances[id].watch.set_carrier(now, is_egress, false);
        }
    }
}

/// The host that a packet is for which leaves by this port, or behind which somebody is whom it is for. Nobody has the address of a group.
fn destination<D: Driver>(moment: Moment<'_>, driver: &D, port: NetPort, packet: &D::Packet) -> Option<NodeId> {
    let mac = driver.destination(packet);
    if is_group(mac) {
        return None;
    }
    moment.tables.host_table.by_mac(mac).or_else(|| driver.learned(moment.now, port, packet))
}

/// Whom a frame to everybody is for.
enum Addressee {
    /// Everybody.
    All,
    /// This host alone, by its IP address: it should not have been sent so (RFC 1122, 3.3.6).
    Host(NodeId),
    /// One host that may be any, or what hosts read and a switch does not.
    Unknown,
}

fn addressee(tables: &Tables, headers: &[u8]) -> Addressee {
    let Ok(ethernet) = EthernetPacket::new_checked(headers) else { return Addressee::Unknown };
    match ethernet.ethertype() {
        ethertype::IPV4 | ethertype::IPV6 => {}
        // Hosts look through tags.
        tag if ethertype::is_tag(tag) => return Addressee::Unknown,
        _ => return Addressee::All,
    }
    let Ok(FlowKey { ethertype, dst, .. }) = FlowKey::parse(headers) else { return Addressee::Unknown };
    let (is_for_all, host) = if ethertype == ethertype::IPV6 {
        let address = Ipv6Addr::from_bits(dst);
        (address.is_multicast(), tables.host_table.by_ipv6(address))
    } else {
        let address = Ipv4Addr::from_bits(dst as u32);
        (address.is_multicast() || tables.steering.is_broadcast(address), tables.host_table.by_ipv4(address))
    };
    match host {
        Some(host) => Addressee::Host(host),
        None if is_for_all => Addressee::All,
        None => Addressee::Unknown,
    }
}

/// Whether there is another tag behind the first one.
fn is_nested(headers: &[u8]) -> bool {
    EthernetPacket::new_checked(headers).is_ok_and(|ethernet| ethertype::is_tag(ethernet.ethertype()))
}

fn probe() -> [u8; PROBE_BYTES] {
    let mut frame = [0; PROBE_BYTES];
    frame[..6].copy_from_slice(&PROBE_TO);
    frame[6..12].copy_from_slice(&PROBE_FROM);
    frame[12..14].copy_from_slice(&PROBE_TYPE.to_be_bytes());
    frame
}

fn is_probe(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&PROBE_TYPE.to_be_bytes()) && frame.starts_with(&PROBE_TO)
}
