//! Ends of bonds: what departs by a bond leaves by its members, and what comes by a member comes to the bond.

use bond::end::{Output, Partner, Plan};
use bond::{End, LearningPorts, MemberId, Mode, Transmit};
use machine::{Rebase, Span, Step, Time};
use topology::{BondEndId, NetPort, NodeId};
use vswitch::Forwarding;
use vswitch::neighbour::{ANSWER_BYTES, answer_probe};
use vswitch::spread::FlowHash;
use wire::is_group;

use crate::bursts::receive;
use crate::driver::{Driver, Tag, Timer};
use crate::flood::StormControl;
use crate::graph::{Graph, Moment, Tables};

/// What is at an end of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSpec {
    /// The node that it is at.
    pub node: NodeId,
    /// The other end.
    pub partner: BondEndId,
    /// The mode in which this end sends.
    pub mode: Mode,
    /// The bond. `None`: ports of a switch that learn.
    pub plan: Option<Box<Plan>>,
    /// Whether another program is at this end, behind devices of the machine: what comes by a member is written to that member's device.
    pub is_external: bool,
}

/// One end of a bond.
#[derive(Debug)]
pub struct EndState<P> {
    /// What it is.
    pub role: Role<P>,
    /// Whether the other end is another program's.
    pub(crate) has_external_partner: bool,
    /// When it is to be woken.
    armed: Time,
    /// What was let through to all of what the other end announced.
    pub(crate) announced: StormControl,
    /// What arrives until then was sent before this end was made: it does not say where the other end sends now.
    pub stale_until: Option<Time>,
}

/// What an end is.
#[derive(Debug)]
pub enum Role<P> {
    /// A bond that Heddle drives.
    Bonded(Box<End<P>>),
    /// Ports of a switch that learn which of them leads to whom.
    Learning(LearningPorts),
    /// A bond of another program.
    External,
}

impl<P> EndState<P> {
    /// An end that comes up at `now`.
    pub fn new(now: Time, spec: &EndSpec) -> Self {
        let plan = spec.plan.as_ref();
        let role = match plan {
            _ if spec.is_external => Role::External,
            Some(plan) => Role::Bonded(Box::new(End::new(now, plan))),
            None => Role::Learning(LearningPorts::default()),
        };
        let has_external_partner = plan.is_some_and(|plan| matches!(plan.partner, Partner::External { .. }));
        Self { role, has_external_partner, armed: Time::NEVER, announced: StormControl::default(), stale_until: None }
    }

    /// The bond, where Heddle drives it.
    pub const fn bonded(&self) -> Option<&End<P>> {
        match &self.role {
            Role::Bonded(end) => Some(end),
            Role::Learning(_) | Role::External => None,
        }
    }

    /// Hands on all that waits for what is missing: the network changes.
    pub fn flush(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if let Role::Bonded(end) = &mut self.role {
            end.flush(now, out);
        }
    }
}

impl<P> Rebase for EndState<P> {
    fn rebase(&mut self, by: Span) {
        let Self { role, has_external_partner: _, armed, announced, stale_until } = self;
        match role {
            Role::Bonded(end) => end.rebase(by),
            Role::Learning(_) | Role::External => {}
        }
        armed.rebase(by);
        announced.rebase(by);
        stale_until.rebase(by);
    }
}

impl<P> Graph<P> {
    /// Has all ends of bonds, and the control machines of switches, say what they have to say. To be called before anything else, and when parts have
    /// come from another graph: what they were to be woken for is forgotten.
    pub fn start<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        for end in self.ends.keys() {
            if let Some(state) = &mut self.ends[end] {
                state.armed = Time::NEVER;
                self.poll_end(moment, driver, end);
            }
        }
        self.start_pipelines(moment, driver);
        self.start_bridges(moment, driver);
        self.ask_watches(moment, driver);
        self.start_balancers(moment, driver);
        self.follow_pending(moment, driver);
    }

    pub(crate) fn end(&mut self, end: BondEndId) -> &mut EndState<P> {
        self.ends[end].as_mut().expect("a part of a graph has the ends of bonds of its nodes")
    }

    /// Chooses the member that sends a packet which is to leave by a bond, and tags it.
    pub(crate) fn choose<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        packet: &mut P,
    ) -> Transmit {
        let Moment { tables, now } = moment;
        match &mut self.end(end).role {
            Role::Bonded(bonded) => {
                let (transmit, number) = driver.transmit(now, bonded, packet);
                driver.set_tag(packet, Tag::Number(number));
                // In balance-alb, what the host says about its address may make the bond announce it to others.
                let announce_at = bonded.announce_at();
                self.arm(driver, now, end, announce_at);
                transmit
            }
            Role::Learning(learning) => {
                driver.set_tag(packet, Tag::None);
                let all = (0..tables.map.members(end).len()).map(MemberId::new).collect();
                learning.find(driver.destination(packet)).map_or(Transmit::All(all), Transmit::One)
            }
            Role::External => unreachable!("what an external host sends has a member already"),
        }
    }

    /// A packet has come by a member of a bond.
    #[inline(never)]
    pub(crate) fn come_to_bond<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) {
        let Moment { tables, now } = moment;
        let (end, member) = tables.map.member(port).expect("the map says that it is in a bond");
        let tag = driver.tag(&packet);
        let mut released = std::mem::take(&mut self.released);
        let state = self.end(end);
        match &mut state.role {
            Role::External => {
                self.released = released;
                driver.deliver(now, port, packet);
            }
            Role::Learning(learning) => {
                if state.stale_until.is_none_or(|until| now > until) {
                    learning.saw(member, driver.source(&packet));
                }
                self.released = released;
                if tag == Tag::Control {
                    self.take_control(moment, driver, (end, member), packet);
                } else {
                    self.go_on(moment, driver, end, packet);
                }
            }
            Role::Bonded(bonded) if state.has_external_partner => {
                let received = driver.receive_from_external(now, bonded, member, packet, &mut released);
                let deadline = bonded.deadline();
                self.released = released;
                self.arm(driver, now, end, deadline);
                if let Some(packet) = received.back {
                    driver.free(packet);
                }
                self.hand_on(moment, driver, end);
                if received.poll {
                    self.poll_end(moment, driver, end);
                }
            }
            Role::Bonded(bonded) if tag == Tag::Control => {
                let frame = driver.frame(&packet).unwrap_or_default();
                bonded.receive_control(now, member, frame);
                // What it has asked by another member comes back to it in active-backup.
                let from = frame.get(6..).and_then(<[u8]>::first_chunk);
                let is_own = from.is_some_and(|from| bonded.bond().is_own_mac(*from));
                self.released = released;
                if is_own {
                    driver.free(packet);
                } else {
                    self.take_control(moment, driver, (end, member), packet);
                }
                self.poll_end(moment, driver, end);
            }
            Role::Bonded(bonded) => {
                let number = if let Tag::Number(number) = tag { number } else { 0 };
                receive(driver, now, bonded, (member, number), packet, &mut released);
                let deadline = bonded.deadline();
                self.released = released;
                self.hand_on(moment, driver, end);
                self.arm(driver, now, end, deadline);
            }
        }
    }

    /// Lets a packet go on at the node of an end of a bond.
    pub(crate) fn go_on<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        end: BondEndId,
        packet: P,
    ) {
        let tables = moment.tables;
        let at = (tables.bonds[end].node, tables.map.members(end)[0]);
        if let Some((port, packet)) = self.come_to(moment, driver, at, packet) {
            self.put(moment, driver, port, packet);
        }
    }

    /// Lets go on what an end has handed on.
    pub(crate) fn hand_on<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, end: BondEndId) {
        let tables = moment.tables;
        let is_host = tables.map.is_host(tables.bonds[end].node);
        let mut released = std::mem::take(&mut self.released);
        for mut packet in released.drain(..) {
            // From an external partner, and for no host that the host table knows: it may be for a member's own address. What its kernel
            // says to all has been answered.
            if driver.tag(&packet) == Tag::Control && (!is_host || is_group(driver.destination(&packet))) {
                self.spread_announcement(moment, driver, end, &packet);
                driver.free(packet);
                continue;
            }
            driver.set_tag(&mut packet, Tag::None);
            self.go_on(moment, driver, end, packet);
        }
        self.released = released;
    }

    /// A frame of the other end's own has come to an end.
    #[cold]
    fn take_control<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (end, member): (BondEndId, MemberId),
        packet: P,
    ) {
        self.answer_probe(moment, driver, (end, member), &packet);
        self.spread_announcement(moment, driver, end, &packet);
        driver.free(packet);
    }

    /// Answers what a bond at the other end asks of its own accord, to see whether its members live (`arp_interval`): from the host table, as hosts
    /// are answered. In active-backup its waiting members hear the question as well: they live by what comes back to them of the active one's
    /// questions, which a switch sends everywhere.
    fn answer_probe<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (end, member): (BondEndId, MemberId),
        question: &P,
    ) {
        let tables = moment.tables;
        let mut answer = [0; ANSWER_BYTES];
        let Some(Ok(len)) =
            driver.frame(question).map(|question| answer_probe(question, &tables.host_table, &mut answer))
        else {
            return;
        };
        let (members, partner) = (tables.map.members(end), &tables.bonds[tables.bonds[end].partner]);
        // An external host has had its answer where its question came in.
        if !partner.is_external {
            self.send_to_end(moment, driver, members[member.index()], &answer[..len]);
        }
        if partner.mode == Mode::ActiveBackup {
            for (_, port) in members.iter().enumerate().filter(|(other, _)| *other != member.index()) {
                let Some(mut copy) = driver.copy(question) else { return };
                driver.set_forwarding(&mut copy, to(tables.map.far_node(*port)));
                self.put_on(moment, driver, *port, copy);
            }
        }
    }

    /// Sends a frame to the other end of a bond itself.
    fn send_to_end<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, port: NetPort, frame: &[u8]) {
        let tables = moment.tables;
        if let Some(packet) = driver.make(frame, to(tables.map.far_node(port)), Tag::Control) {
            self.put_on(moment, driver, port, packet);
        }
    }

    /// Sends what a bond says by itself. What it announces to a peer of its host, in balance-alb, goes to that peer; all else is for the other end.
    fn send_control<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, port: NetPort, frame: &[u8]) {
        let tables = moment.tables;
        let peer = frame.first_chunk().and_then(|to| tables.host_table.by_mac(*to));
        match peer.filter(|peer| *peer != tables.map.node(port)) {
            Some(peer) => {
                if let Some(packet) = driver.make(frame, to(peer), Tag::None) {
                    self.put_on(moment, driver, port, packet);
                }
            }
            None => self.send_to_end(moment, driver, port, frame),
        }
    }

    /// A host has sent a frame that is for no host: its bond may learn from it. `port` is the host's.
    #[cold]
    pub fn overhear(&mut self, tables: &Tables, port: NetPort, frame: &[u8]) {
        if let Some(end) = tables.map.bond(port)
            && let Role::Bonded(bonded) = &mut self.end(end).role
        {
            bonded.overhear(frame);
        }
    }

    /// Somebody's time has come: [`Driver::wake_at`].
    pub fn wake<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, timer: Timer) {
        match timer {
            Timer::End(end) => self.wake_end(moment, driver, end),
            Timer::Switch(switch) => self.wake_pipeline(moment, driver, switch as usize),
            Timer::Bridge(switch) => self.wake_bridge(moment, driver, switch as usize),
            Timer::Chains => self.wake_watches(moment, driver),
            Timer::Balancers => self.wake_balancers(moment, driver),
        }
        self.follow_pending(moment, driver);
    }

    fn wake_end<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, end: BondEndId) {
        let now = moment.now;
        let Some(state) = &mut self.ends[end] else { return };
        if state.armed != now {
            // An earlier one was armed in its place.
            return;
        }
        state.armed = Time::NEVER;
        let Role::Bonded(bonded) = &mut state.role else { return };
        let released = &mut self.released;
        bonded.expire(now, &mut |packet| released.push(packet));
        self.hand_on(moment, driver, end);
        self.poll_end(moment, driver, end);
    }

    /// Carries out what an end wants.
    pub(crate) fn poll_end<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, end: BondEndId) {
        let Moment { tables, now } = moment;
        loop {
            let Role::Bonded(bonded) = &mut self.end(end).role else { return };
            match bonded.poll(now) {
                Step::Wait(until) => return self.arm(driver, now, end, until),
                Step::Do(Output::Send { member, frame }) => {
                    let port = tables.map.members(end)[member.index()];
                    self.send_control(moment, driver, port, frame.as_bytes());
                }
                Step::Do(output) => driver.note(now, end, &output),
            }
        }
    }

    /// Sees to it that an end is woken when it wants to be.
    #[inline]
    pub fn arm<D: Driver<Packet = P>>(&mut self, driver: &mut D, now: Time, end: BondEndId, until: Time) {
        let state = self.end(end);
        let until = until.max(now);
        if until < state.armed {
            state.armed = until;
            driver.wake_at(until, Timer::End(end));
        }
    }
}

const fn to(to: NodeId) -> Forwarding {
    Forwarding { to, hash: FlowHash(0) }
}
