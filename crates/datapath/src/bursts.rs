//! Packets that come in together: those whose paths are known go straight to their ends, and what leaves by a bond leaves it together.
//!
//! ```text
//!   burst --> path of each: to a host ------------------------> driver: deliver
//!               |           to a bond, as others before it --+
//!               |                                            v
//!               |                          members chosen at once, links, other end --> burst, behind the bond
//!               +---------> none: from hop to hop
//! ```
//!
//! Packets that leave by one bond one after the other are a run. A run goes through the bond before anything else of the burst is handled, so that all that
//! becomes of packets becomes of them in their order, as if they had gone one by one.

use bond::{Accept, DropReason, End, MemberId, Transmit};
use link::Verdict;
use machine::Time;
use topology::{BondEndId, NetPort};
use vswitch::{FLOOD, UNKNOWN};

use crate::driver::{Driver, Loss, Tag};
use crate::ends::Role;
use crate::graph::{Egress, EgressKind, Graph, Moment};
use crate::map::Map;
use crate::paths::{Exit, Key, LEARNED_MAX, Origin};

/// Buffers of bursts, to be used again.
#[derive(Debug)]
pub(crate) struct Bursts<P> {
    /// Of packets: one for each bond in a row.
    spare: Vec<Vec<P>>,
    /// By packet of a run, where it goes.
    chosen: Vec<Transmit>,
}

impl<P> Bursts<P> {
    /// An empty buffer.
    pub(crate) fn take_spare(&mut self) -> Vec<P> {
        self.spare.pop().unwrap_or_default()
    }

    /// A buffer is empty again.
    pub(crate) fn keep_spare(&mut self, spare: Vec<P>) {
        self.spare.push(spare);
    }
}

impl<P> Default for Bursts<P> {
    fn default() -> Self {
        Self { spare: Vec::new(), chosen: Vec::new() }
    }
}

impl<P> Graph<P> {
    /// [`Graph::depart`] of packets that leave one after the other by one port, in their order. Those whose paths are known go straight to their ends.
    #[inline]
    pub fn depart_burst<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packets: &mut Vec<P>,
    ) {
        if !moment.tables.steering.is_empty() {
            self.steer_burst(moment, driver, port, packets);
        }
        self.send_burst(moment, driver, Origin::port(port), packets);
    }

    /// [`Graph::depart_by`] of packets that leave one after the other by one port, a member of another program's bond, in their order.
    pub fn depart_by_burst<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packets: &mut Vec<P>,
    ) {
        let Moment { tables, now } = moment;
        if !tables.steering.is_empty() {
            return packets.drain(..).for_each(|packet| self.depart_by(moment, driver, port, packet));
        }
        let Egress { far, kind, is_observed, link } = &self.egress[port];
        let is_at_once = *kind == EgressKind::InBond && !is_observed && link.takes_no_time(now) && driver.is_here(*far);
        let far = tables.map.member(*far).filter(|(end, _)| is_at_once && self.hears_an_external_bond(*end));
        let Some((end, member)) = far else {
            return packets.drain(..).for_each(|packet| self.depart_by(moment, driver, port, packet));
        };
        let mut arrived = self.bursts.spare.pop().unwrap_or_default();
        for packet in packets.drain(..) {
            self.egress[port].link.offer(now, driver.bytes(&packet));
            let state = self.end(end);
            match &mut state.role {
                Role::Learning(learning) => {
                    if state.stale_until.is_none_or(|until| now > until) {
                        learning.saw(member, driver.source(&packet));
                    }
                    arrived.push(packet);
                }
                Role::Bonded(bonded) => {
                    let received = driver.receive_from_external(now, bonded, member, packet, &mut arrived);
                    if let Some(packet) = received.back {
                        driver.free(packet);
                    }
                    if received.poll {
                        self.go_on_from_external(moment, driver, end, &mut arrived);
                        self.poll_end(moment, driver, end);
                    }
                }
                Role::External => unreachable!("it hears nothing itself"),
            }
        }
        self.go_on_from_external(moment, driver, end, &mut arrived);
        self.bursts.spare.push(arrived);
    }

    /// Whether an end is here that another program's bond is at the other end of: ports that learn, or a bond that knows.
    fn hears_an_external_bond(&self, end: BondEndId) -> bool {
        self.ends[end].as_ref().is_some_and(|state| match state.role {
            Role::Learning(_) => true,
            Role::Bonded(_) => state.has_external_partner,
            Role::External => false,
        })
    }

    /// Lets packets go on that have come from another program's bond.
    fn go_on_from_external<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        packets: &mut Vec<P>,
    ) {
        if let Role::Bonded(bonded) = &self.end(end).role {
            let deadline = bonded.deadline();
            self.arm(driver, moment.now, end, deadline);
        }
        if packets.iter().any(|packet| driver.tag(packet) == Tag::Control) {
            // What was held comes out, and is for nobody in the host table.
            self.released.append(packets);
            self.hand_on(moment, driver, end);
            self.follow_pending(moment, driver);
        } else {
            self.go_on_together(moment, driver, end, packets);
        }
    }

    /// Sends packets off from where they are, in their order.
    fn send_burst<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        from: Origin,
        packets: &mut Vec<P>,
    ) {
        // A pipeline decides about each.
        if let Err(port) = from.place()
            && self.leads_to_pipeline(&moment.tables.map, port)
        {
            return self.process_burst(moment, driver, port, packets);
        }
        let mut run = self.bursts.spare.pop().unwrap_or_default();
        // The bond that the run leaves by, while there is one.
        let mut bond = None;
        let mut learned = 0;
        for packet in packets.drain(..) {
            let forwarding = driver.forwarding(&packet);
            let key = Key::new(self.spread, from, forwarding);
            let exit = self.paths.take(key, driver.bytes(&packet));
            if let Some(end) = bond
                && exit != Some(Exit::Bond(end))
            {
                self.leave_by_bond(moment, driver, end, &mut run);
                bond = None;
            }
            match exit {
                Some(Exit::Host(port)) if moment.tables.steering.is_empty() => {
                    driver.deliver(moment.now, port, packet);
                }
                Some(Exit::Host(port)) => {
                    let host = moment.tables.map.node(port);
                    if let Some(packet) = self.receive(moment, driver, (host, port), packet) {
                        driver.deliver(moment.now, port, packet);
                    }
                    self.follow_pending(moment, driver);
                }
                Some(Exit::Bond(end)) => {
                    bond = Some(end);
                    run.push(packet);
                }
                None => {
                    self.send_alone(moment, driver, from, packet);
                    if learned < LEARNED_MAX && ![FLOOD, UNKNOWN].contains(&forwarding.to) {
                        learned += 1;
                        self.learn(moment, driver, key, forwarding);
                    }
                }
            }
        }
        if let Some(end) = bond {
            self.leave_by_bond(moment, driver, end, &mut run);
        }
        self.bursts.spare.push(run);
    }

    /// Whether the next node by this port, which is in no bond, is a switch that has a pipeline.
    #[inline]
    fn leads_to_pipeline(&self, map: &Map, port: NetPort) -> bool {
        let Egress { far, kind, .. } = &self.egress[port];
        *kind == EgressKind::Single
            && !self.pipelines.is_empty()
            && map.switch(map.taker(*far).node()).is_some_and(|at| self.pipelines[at].is_some())
    }

    /// Sends a packet off from hop to hop.
    fn send_alone<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, from: Origin, packet: P) {
        match from.place() {
            Err(port) => self.depart_steered(moment, driver, port, packet),
            Ok(end) => {
                self.go_on(moment, driver, end, packet);
                self.follow_pending(moment, driver);
            }
        }
    }

    /// Sends packets off by a bond whose links take no time, and has them go on behind it.
    fn leave_by_bond<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        run: &mut Vec<P>,
    ) {
        let Moment { tables, now } = moment;
        let first = self.choose_for_all(moment, driver, end, run);
        let mut arrived = self.bursts.spare.pop().unwrap_or_default();
        let far = tables.bonds[end].partner;
        let state = self.ends[far].as_mut().expect("a path leaves by a bond whose other end is here");
        let (members, egress) = (tables.map.members(end), &mut self.egress);
        // The port that a packet comes to over a member's link. A link without carrier counts what it loses.
        let mut cross = |driver: &mut D, member: MemberId, packet: P| {
            let egress = &mut egress[members[member.index()]];
            match egress.link.offer(now, driver.bytes(&packet)) {
                // Nothing waits where no time passes, so there are no marks; nor is anything random about such a link.
                Verdict::Arrives(_) | Verdict::Marks(_) | Verdict::Impaired(_) => Some((egress.far, packet)),
                Verdict::Dropped => {
                    driver.free(packet);
                    None
                }
            }
        };
        let member_at = |port| tables.map.member(port).expect("links of a bond lead to its other end").1;
        let packets = run.drain(..).zip(&self.bursts.chosen);
        let mut deadline = Time::NEVER;
        match &mut state.role {
            Role::External => send_each(driver, packets, first, |driver, member, _, packet| {
                if let Some((port, packet)) = cross(driver, member, packet) {
                    driver.deliver(now, port, packet);
                }
            }),
            Role::Learning(learning) => {
                let is_stale = state.stale_until.is_some_and(|until| now <= until);
                send_each(driver, packets, first, |driver, member, _, packet| {
                    let Some((port, packet)) = cross(driver, member, packet) else { return };
                    if !is_stale {
                        learning.saw(member_at(port), driver.source(&packet));
                    }
                    arrived.push(packet);
                });
            }
            Role::Bonded(bonded) => {
                let (open, mut accepted) = (bonded.open_members(), 0);
                send_each(driver, packets, first, |driver, member, number, packet| {
                    let Some((port, packet)) = cross(driver, member, packet) else { return };
                    let member = member_at(port);
                    if open.contains(member) {
                        accepted += 1;
                        arrived.push(packet);
                    } else {
                        receive(driver, now, bonded, (member, number), packet, &mut arrived);
                    }
                });
                bonded.count_accepted(accepted);
                deadline = bonded.deadline();
            }
        }
        self.arm(driver, now, far, deadline);
        self.go_on_together(moment, driver, far, &mut arrived);
        self.bursts.spare.push(arrived);
    }

    /// Chooses the members that send packets which leave by a bond. The number of the first one, where the bond numbers what it sends: each has one more than the
    /// last one that was sent.
    fn choose_for_all<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        packets: &mut [P],
    ) -> Option<u32> {
        let Moment { tables, now } = moment;
        let chosen = &mut self.bursts.chosen;
        chosen.resize(packets.len(), Transmit::None(DropReason::NoUsableMember));
        match &mut self.ends[end].as_mut().expect("a path leaves by a bond that is here").role {
            Role::Bonded(bonded) => {
                let first = driver.transmit_burst(now, bonded, packets, chosen);
                let announce_at = bonded.announce_at();
                self.arm(driver, now, end, announce_at);
                Some(first)
            }
            Role::Learning(learning) => {
                let all = (0..tables.map.members(end).len()).map(MemberId::new).collect();
                for (packet, place) in packets.iter().zip(chosen) {
                    *place = learning.find(driver.destination(packet)).map_or(Transmit::All(all), Transmit::One);
                }
                None
            }
            Role::External => unreachable!("what an external host sends has a member already"),
        }
    }

    /// Lets packets go on that have come through a bond to this end of it.
    fn go_on_together<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        packets: &mut Vec<P>,
    ) {
        let tables = moment.tables;
        if packets.is_empty() {
            return;
        }
        if tables.map.is_host(tables.bonds[end].node) {
            let port = tables.map.members(end)[0];
            packets.drain(..).for_each(|packet| driver.deliver(moment.now, port, packet));
        } else {
            self.send_burst(moment, driver, Origin::behind(end), packets);
        }
    }
}

/// Has packets sent by the members that were chosen for each, in their order, a copy by each but the last. `send` is given the member and the packet's number.
#[inline]
fn send_each<'a, D: Driver>(
    driver: &mut D,
    packets: impl Iterator<Item = (D::Packet, &'a Transmit)>,
    first: Option<u32>,
    mut send: impl FnMut(&mut D, MemberId, u32, D::Packet),
) {
    let mut number = first.unwrap_or(0);
    for (packet, chosen) in packets {
        match *chosen {
            Transmit::One(member) => send(driver, member, number, packet),
            Transmit::All(members) => {
                let last = members.iter().last();
                for member in members.iter().filter(|member| Some(*member) != last) {
                    if let Some(copy) = driver.copy(&packet) {
                        send(driver, member, number, copy);
                    }
                }
                match last {
                    Some(member) => send(driver, member, number, packet),
                    None => driver.free(packet),
                }
            }
            Transmit::None(_) => {
                driver.count(Loss::NoMember);
                driver.free(packet);
                continue;
            }
        }
        number = number.wrapping_add(u32::from(first.is_some()));
    }
}

/// Shows an end of a bond what has come by a member from the other end, which has numbered it. `out` gets what goes on, in order.
#[inline]
pub(crate) fn receive<D: Driver>(
    driver: &mut D,
    now: Time,
    bonded: &mut End<D::Packet>,
    (member, number): (MemberId, u32),
    mut packet: D::Packet,
    out: &mut Vec<D::Packet>,
) {
    let summary = driver.summary(bonded.bond().config(), &packet);
    // A peer knows the host by a member's address.
    if let Accept::DeliverTo(mac) = bonded.bond().accept(member, &summary) {
        driver.set_destination(&mut packet, mac);
    }
    let copy = bonded.receive(now, (member, number), &summary, packet, &mut |packet| out.push(packet));
    if let Some(copy) = copy {
        driver.free(copy);
    }
}
