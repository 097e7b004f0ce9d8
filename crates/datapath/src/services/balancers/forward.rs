//! Packets to and from balancers.

use topology::{NetPort, NodeId};
use vswitch::conntrack::{NatRange, Segment, Tuple};
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Field, Forwarding};
use wire::is_group;

use super::frames;
use crate::driver::{Driver, Loss, Tag};
use crate::graph::{Graph, Moment, Tables};
use crate::rewrite::write_only;
use crate::segment::{is_first_segment, parse};
use crate::services::answers;
use crate::services::serve::{joined, replace};
use crate::services::state::Decision;
use crate::services::syn_cookies::make_up;
use crate::services::tunnel::unpack;
use crate::services::validity::FromClient;
use crate::services::{MAC, Service, Services};

/// So many segments that begin connections wait for what peers are told before they go on.
const FIRST_SEGMENTS_MAX: usize = 64;

/// Where a packet for a service goes that has left a host.
pub(in crate::services) enum Towards {
    /// Its service has no balancers: the switch at which it comes in is one.
    Here,
    /// To this host.
    Balancer(NodeId),
    /// No balancer is there.
    Nowhere,
}

impl<P> Graph<P> {
    /// Where a packet goes that this host has sent to a service.
    pub(in crate::services) fn course_of(
        &mut self,
        Moment { tables, now }: Moment<'_>,
        host: NodeId,
        headers: &[u8],
    ) -> Towards {
        let services = &tables.services;
        let Some((segment, _)) = self.services.segment(now, headers) else {
            // It does not say whose it is: whoever has an address of it counts it.
            return Towards::Here;
        };
        let tuple = segment.tuple;
        let Some(number) = services.owner_of(tuple.is_ipv6, tuple.dst) else { return Towards::Here };
        let service = &services.all[number];
        if service.at.is_empty() {
            return Towards::Here;
        }
        let chosen = match service.vrrp {
            Some(_) => self.balancers.active[number].map(|at| self.balancers.all[at].host()),
            None => self.choose_balancer(service, host, &segment),
        };
        chosen.map_or(Towards::Nowhere, Towards::Balancer)
    }

    /// One of several that are all active: the one whose own port a server answers to, if it is there; else by the connection's hash, so that no connection changes its
    /// balancer but those of one that is gone.
    fn choose_balancer(&self, service: &Service, host: NodeId, segment: &Segment) -> Option<NodeId> {
        let is_usable = |host: &NodeId| self.balancers.at(*host).is_some_and(|at| self.balancers.all[at].is_usable());
        // An error is about a packet of the other direction.
        let tuple = segment.quoted.and_then(|quoted| quoted.reversed()).unwrap_or(segment.tuple);
        let is_server = service.servers.iter().any(|server| server.host == host);
        let owner = service
            .owner_of_port(tuple.is_ipv6, tuple.dst_port)
            .filter(|_| is_server)
            .and_then(|place| service.at.get(place));
        if let Some(owner) = owner.filter(|host| is_usable(host)) {
            return Some(*owner);
        }
        let score = |host: &NodeId| machine::mix(hash(&tuple) ^ machine::mix(u64::from(host.0)));
        service.at.iter().copied().filter(is_usable).max_by_key(score)
    }

    /// A host sends to a balancer what only balancers say to each other, or takes part in their election without being asked to.
    pub(in crate::services) fn is_forged<D: Driver<Packet = P>>(
        &self,
        tables: &Tables,
        driver: &D,
        host: NodeId,
        packet: &P,
    ) -> bool {
        let to = driver.forwarding(packet).to;
        let at = if to == FLOOD { None } else { self.balancers.at(to) };
        // What no switch knows the port of comes to all that ask for it, whatever its destination.
        if at.is_none() && to != FLOOD && !is_group(driver.destination(packet)) {
            return false;
        }
        let Some(frame) = driver.frame(packet) else { return false };
        let own = at.and_then(|at| tables.services.balancers.get(at));
        if own.is_some_and(|own| frames::read_sync(frame, own.ipv4).is_some()) {
            return true;
        }
        let is_partner = |service: &Service| service.vrrp.as_ref().is_some_and(|it| it.partners.contains(&host));
        frames::is_vrrp(frame) && !tables.services.all.iter().any(is_partner)
    }

    /// A packet has come to a host by a port. It is returned if it is the host's own, and not for the balancer there.
    #[inline]
    pub(crate) fn balance<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (host, port): (NodeId, NetPort),
        packet: P,
    ) -> Option<P> {
        let packet = if moment.tables.services.has_tunnels() { unpack(moment, driver, host, packet)? } else { packet };
        match self.balancers.at(host) {
            None => Some(packet),
            Some(at) => self.balance_at(moment, driver, (at, port), packet),
        }
    }

    /// The same for a driver that hands hosts what comes to their ports without [`Graph::arrive`].
    pub fn arrive_at_host<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<P> {
        let own = self.balance(moment, driver, (moment.tables.map.node(port), port), packet);
        self.follow_pending(moment, driver);
        own
    }

    #[cold]
    #[inline(never)]
    fn balance_at<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, port): (usize, NetPort),
        packet: P,
    ) -> Option<P> {
        if Service::is_for_one(driver.destination(&packet)) {
            self.serve_at(moment, driver, (at, port), packet);
            return None;
        }
        if self.hear_at_balancer(moment, driver, at, &packet) {
            driver.free(packet);
            return None;
        }
        Some(packet)
    }

    /// A packet for a service has come to a balancer: it goes on to a server, or to a client.
    fn serve_at<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, port): (usize, NetPort),
        packet: P,
    ) {
        let Moment { tables, now } = moment;
        let host_table = &tables.host_table;
        let balancer = &mut self.balancers.all[at];
        let (own, state) = (balancer.host(), balancer.state_mut());
        let mut fields = state.take_fields();
        let (headers, bytes) = (driver.headers(&packet), driver.bytes(&packet));
        let client = state.client_of_answer(now, headers);
        let decision = if client.is_some() {
            state.process_from_server(now, own, (headers, bytes), &mut fields)
        } else {
            let from = host_table.by_mac(driver.source(&packet)).unwrap_or(own);
            let fault = || tables.services.fault_of((&*driver, host_table), &packet);
            let seen = FromClient { headers, bytes, fault: &fault };
            state.process_from_client(now, (&tables.services, (host_table, from)), &seen, &mut fields)
        };
        let opens = balancer.state_mut().take_opened();
        let begins = balancer.note_packet(now);
        match (decision, client) {
            (Decision::To(host), _) => {
                // Of a connection's first segment there is no second one under way that could overtake it, other than with UDP.
                let is_held = opens && is_first_of_tcp(driver.headers(&packet));
                let to = (host, host_table.mac(host));
                self.send_translated(moment, driver, (at, port, is_held), to, (packet, &mut fields));
            }
            (Decision::Translated, Some(client)) => {
                self.send_translated(moment, driver, (at, port, false), client, (packet, &mut fields));
            }
            (Decision::Connect(host, made), _) => {
                let frame = driver.frame(&packet).and_then(|frame| make_up(frame, &made, false));
                if let Some(packet) = replace(driver, packet, frame.as_deref()) {
                    let to = (host, host_table.mac(host));
                    self.send_translated(moment, driver, (at, port, false), to, (packet, &mut fields));
                }
            }
            (Decision::Join(third, update), Some(client)) => {
                let (to_server, to_client) = joined(driver, &packet, (&third, &update));
                let server = host_table.by_mac(driver.source(&packet));
                if let (Some(frame), Some(to)) = (to_server, server)
                    && let Some(third) = driver.make_like(&packet, &frame, Forwarding { to, hash: FlowHash(0) })
                {
                    self.send_or_hold(moment, driver, (at, port, opens), third);
                }
                if let Some(packet) = replace(driver, packet, to_client.as_deref()) {
                    self.send_translated(moment, driver, (at, port, opens), client, (packet, &mut fields));
                }
            }
            _ => self.answer_at(moment, driver, (decision, port), packet),
        }
        self.balancers.all[at].state_mut().keep_fields(fields);
        if begins {
            self.arm_balancers(moment, driver, at);
        }
    }

    /// A packet goes on to a host with this MAC address, with what is to be written into it.
    fn send_translated<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        from: (usize, NetPort, bool),
        (to, mac): (NodeId, [u8; 6]),
        (packet, fields): (P, &mut Vec<Field>),
    ) {
        fields.extend([Field::EthDst(mac), Field::EthSrc(MAC)]);
        if let Some(mut packet) = write_only(driver, packet, fields) {
            let hash = driver.forwarding(&packet).hash;
            driver.set_forwarding(&mut packet, Forwarding { to, hash });
            self.send_or_hold(moment, driver, from, packet);
        }
    }

    /// A packet leaves a balancer by its port. `is_held`: when peers have been told of its connection.
    fn send_or_hold<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, port, is_held): (usize, NetPort, bool),
        packet: P,
    ) {
        if is_held {
            self.hold_first_segment(moment, driver, (at, port), packet);
        } else {
            self.put(moment, driver, port, packet);
        }
    }

    /// Has a segment that begins a connection wait until peers have been told of that: whoever takes the balancer's place then knows what its answer belongs to. That is once for all that
    /// come in at a time.
    fn hold_first_segment<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, port): (usize, NetPort),
        packet: P,
    ) {
        self.first_segments.push((port, packet));
        self.balancers.all[at].note_opened(moment.now);
        if self.first_segments.len() < FIRST_SEGMENTS_MAX {
            self.arm_balancers(moment, driver, at);
        } else {
            for at in 0..self.balancers.all.len() {
                self.drive_balancer(moment, driver, at);
            }
            self.release_first_segments(moment, driver);
        }
    }

    /// They go on.
    pub(super) fn release_first_segments<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        let mut held = std::mem::take(&mut self.first_segments);
        for (port, packet) in held.drain(..) {
            self.put(moment, driver, port, packet);
        }
        self.first_segments = held;
    }

    /// A packet goes nowhere from a balancer, or is answered by it.
    fn answer_at<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (decision, port): (Decision, NetPort),
        packet: P,
    ) {
        self.services.stopped += 1;
        match decision {
            Decision::Exhausted => driver.count(Loss::NoPort),
            Decision::Lost(loss) => {
                driver.count(loss);
                driver.free(packet);
                return;
            }
            _ => {}
        }
        let answer = match decision {
            Decision::Refuse | Decision::Exhausted => {
                driver.frame(&packet).and_then(|_| answers::refusal(&driver.finished(&packet)))
            }
            Decision::Echo => driver.frame(&packet).and_then(answers::echo),
            Decision::Answer(made) => driver.frame(&packet).and_then(|frame| make_up(frame, &made, true)),
            Decision::Connect(..)
            | Decision::Join(..)
            | Decision::Drop
            | Decision::Lost(_)
            | Decision::Pass
            | Decision::To(_)
            | Decision::Translated => None,
        };
        let to = moment.tables.host_table.by_mac(driver.source(&packet));
        let forwarding = to.map(|to| Forwarding { to, hash: FlowHash(0) });
        if let (Some(frame), Some(forwarding)) = (answer, forwarding)
            && let Some(answer) = driver.make(&frame, forwarding, Tag::None)
        {
            self.put(moment, driver, port, answer);
        } else if decision != Decision::Exhausted {
            driver.count(Loss::Service);
        }
        driver.free(packet);
    }
}

/// Whether a frame with these headers has the first segment of a connection in it.
fn is_first_of_tcp(headers: &[u8]) -> bool {
    parse(headers).is_some_and(|segment| is_first_segment(segment.tcp_flags))
}

/// What both directions of what a client says have in common with each other, and with nothing else.
fn hash(tuple: &Tuple) -> u64 {
    let Tuple { src, dst, src_port, dst_port, protocol, is_ipv6: _ } = *tuple;
    let ports = u64::from(src_port) << 32 | u64::from(dst_port) << 16 | u64::from(protocol);
    [(src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64]
        .into_iter()
        .fold(machine::mix(ports), |hash, word| machine::mix(hash ^ word).wrapping_add(word))
}

impl Services {
    /// The service that has an address, be it one at which clients find it or one of its balancers' own.
    fn owner_of(&self, is_ipv6: bool, address: u128) -> Option<usize> {
        self.with_address(is_ipv6, address).or_else(|| {
            let has_it = |service: &Service| {
                let is_in = |range: &NatRange| {
                    range.is_ipv6 == is_ipv6 && (range.addresses.0..=range.addresses.1).contains(&address)
                };
                service.sources.iter().any(is_in)
            };
            self.all.iter().position(has_it)
        })
    }
}
