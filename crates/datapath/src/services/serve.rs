//! Packets to and from services pass here where they leave hosts.

use topology::{NetPort, NodeId};
use vswitch::spread::FlowHash;
use vswitch::{Field, Forwarding};

use super::balancers::Towards;
use super::state::Decision;
use super::syn_cookies::{MadeUp, make_up};
use super::validity::FromClient;
use super::{Service, answers};
use crate::driver::{Driver, Loss, Tag};
use crate::graph::{Graph, Moment};
use crate::pipeline::lose;
use crate::rewrite::write_only;

impl<P> Graph<P> {
    /// A packet leaves a host in a network that has services. It is returned if it goes on: to a server, if it is for a service.
    #[inline]
    pub(crate) fn send_to_server<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<P> {
        let host = moment.tables.map.node(port);
        let has_balancers = moment.tables.services.has_balancers();
        if has_balancers && self.is_forged(moment.tables, driver, host, &packet) {
            self.services.stopped += 1;
            return lose(driver, Loss::Service, packet);
        }
        if !Service::is_for_one(driver.destination(&packet)) {
            // A connection to a server itself is none of a service: one that has ended makes room for it.
            if self.services.is_server(driver.forwarding(&packet).to) {
                self.services.note_direct(moment.now, driver.headers(&packet));
            }
            return Some(packet);
        }
        let packet = if moment.tables.services.has_name_servers() {
            self.answer_as_name_server(moment, driver, port, packet)?
        } else {
            packet
        };
        if has_balancers {
            match self.course_of(moment, host, driver.headers(&packet)) {
                Towards::Here => {}
                Towards::Balancer(to) => return Some(forwarded_to(driver, to, packet)),
                Towards::Nowhere => return lose(driver, Loss::NoRoute, packet),
            }
        }
        let (services, host_table) = (&moment.tables.services, &moment.tables.host_table);
        if self.services.may_answer(host)
            && let Some((client, mac)) = self.services.client_of_answer(moment.now, driver.headers(&packet))
        {
            return Some(answer_to(driver, (client, mac), packet));
        }
        let mut fields = self.services.take_fields();
        let fault = || services.fault_of((&*driver, host_table), &packet);
        let seen = FromClient { headers: driver.headers(&packet), bytes: driver.bytes(&packet), fault: &fault };
        let sender = (host_table, host);
        let decision = self.services.process_from_client(moment.now, (services, sender), &seen, &mut fields);
        let passed = self.carry_out_service(moment, driver, (decision, port), packet, &mut fields);
        self.services.keep_fields(fields);
        if let Some(packet) = &passed {
            self.offload(moment, driver, port, packet);
        }
        passed
    }

    /// A packet of this host has passed its chain, or has none. It is returned if it goes on: as if the service had sent it, if a server has.
    #[inline]
    pub(crate) fn send_from_server<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (host, port): (NodeId, NetPort),
        packet: P,
    ) -> Option<P> {
        if !self.services.is_server(host) {
            return Some(packet);
        }
        let mut fields = self.services.take_fields();
        let seen = (driver.headers(&packet), driver.bytes(&packet));
        let decision = self.services.process_from_server(moment.now, host, seen, &mut fields);
        let passed = self.carry_out_service(moment, driver, (decision, port), packet, &mut fields);
        self.services.keep_fields(fields);
        if let Some(packet) = &passed {
            self.offload(moment, driver, port, packet);
        }
        passed
    }

    fn carry_out_service<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (decision, port): (Decision, NetPort),
        packet: P,
        fields: &mut Vec<Field>,
    ) -> Option<P> {
        let tables = moment.tables;
        let answer = match decision {
            Decision::Pass => return Some(packet),
            Decision::Translated => return write_only(driver, packet, fields),
            Decision::To(host) => {
                fields.push(Field::EthDst(tables.host_table.mac(host)));
                let packet = write_only(driver, packet, fields)?;
                return self.send_on(moment, driver, (host, port), packet);
            }
            Decision::Connect(host, made) => {
                let frame = driver.frame(&packet).and_then(|frame| make_up(frame, &made, false));
                let packet = replace(driver, packet, frame.as_deref())?;
                fields.push(Field::EthDst(tables.host_table.mac(host)));
                let packet = write_only(driver, packet, fields)?;
                return self.send_on(moment, driver, (host, port), packet);
            }
            Decision::Join(third, update) => {
                let (to_server, to_client) = joined(driver, &packet, (&third, &update));
                let forwarding = Forwarding { to: tables.map.node(port), hash: FlowHash(0) };
                if let Some(frame) = to_server
                    && let Some(third) = driver.make_like(&packet, &frame, forwarding)
                {
                    self.put(moment, driver, tables.map.far(port), third);
                }
                let packet = replace(driver, packet, to_client.as_deref())?;
                return write_only(driver, packet, fields);
            }
            Decision::Answer(made) => driver.frame(&packet).and_then(|frame| make_up(frame, &made, true)),
            Decision::Exhausted => {
                driver.count(Loss::NoPort);
                driver.frame(&packet).and_then(|_| answers::refusal(&driver.finished(&packet)))
            }
            Decision::Refuse => driver.frame(&packet).and_then(|_| answers::refusal(&driver.finished(&packet))),
            Decision::Echo => driver.frame(&packet).and_then(answers::echo),
            Decision::Drop => None,
            Decision::Lost(loss) => {
                self.services.stopped += 1;
                return lose(driver, loss, packet);
            }
        };
        self.services.stopped += 1;
        if !self.say(moment, driver, port, packet, answer) && decision != Decision::Exhausted {
            driver.count(Loss::Service);
        }
        None
    }

    /// The sender of a packet, which goes nowhere, hears this, if it does: then this is true.
    pub(super) fn say<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
        answer: Option<Vec<u8>>,
    ) -> bool {
        let tables = moment.tables;
        // It is what the switch next to the client says, and comes to the client by its link.
        let to = tables.host_table.by_mac(driver.source(&packet));
        let answer =
            answer.zip(to).and_then(|(frame, to)| driver.make(&frame, Forwarding { to, hash: FlowHash(0) }, Tag::None));
        driver.free(packet);
        let Some(answer) = answer else { return false };
        self.put(moment, driver, tables.map.far(port), answer);
        true
    }
}

impl<P> Graph<P> {
    /// A packet goes on to a server at a host, through a tunnel if its service has one.
    #[inline]
    fn send_on<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (host, port): (NodeId, NetPort),
        mut packet: P,
    ) -> Option<P> {
        if let Some(service) = self.services.take_tunnel() {
            packet = self.send_through_tunnel(moment, driver, (service, host, port), packet)?;
        }
        Some(forwarded_to(driver, host, packet))
    }
}

/// Frames with what a server hears in answer to this segment of it, and what its client hears in place of it.
pub(super) fn joined<D: Driver>(
    driver: &D,
    packet: &D::Packet,
    (third, update): (&MadeUp, &MadeUp),
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let made = driver.frame(packet).map(|frame| (make_up(frame, third, true), make_up(frame, update, false)));
    made.unwrap_or_default()
}

/// Another frame in the place of a packet, which goes where that was going.
pub(super) fn replace<D: Driver>(driver: &mut D, packet: D::Packet, frame: Option<&[u8]>) -> Option<D::Packet> {
    let forwarding = driver.forwarding(&packet);
    let made = frame.and_then(|frame| driver.make_like(&packet, frame, forwarding));
    driver.free(packet);
    if made.is_none() {
        driver.count(Loss::Service);
    }
    made
}

/// Has what a server answers to an address of the balancer go to the client, as it is: it is translated behind the chains that it passes.
fn answer_to<D: Driver>(driver: &mut D, (client, mac): (NodeId, [u8; 6]), mut packet: D::Packet) -> D::Packet {
    driver.set_destination(&mut packet, mac);
    forwarded_to(driver, client, packet)
}

fn forwarded_to<D: Driver>(driver: &mut D, to: NodeId, mut packet: D::Packet) -> D::Packet {
    let hash = driver.forwarding(&packet).hash;
    driver.set_forwarding(&mut packet, Forwarding { to, hash });
    packet
}
