//! The Link Aggregation Control Protocol (IEEE 802.1AX-2014, clause 6): which members of a bond may be used together.
//!
//! ```text
//!  link up/down --+                                                  +--> LACPDUs, marker responses
//!  LACPDUs -------+--> receive, periodic, mux, churn machine a port --+--> which members collect and distribute
//!  markers -------+    selection logic over all ports                +--> events for the log
//!  time ----------+
//! ```
//!
//! The machines are those of the standard, with independent control of collector and distributor, and version 1 of the protocol;
//! keys, defaults and the choice among aggregates (`ad_select`, `min_links`) are those of the Linux bonding document. Where this
//! differs from the standard: [`AGGREGATE_WAIT`] is shorter, and a port that has just come up is assigned to an aggregate only
//! when its partner was heard or given up.
//!
//! What holds whatever a partner sends:
//! - A port distributes only while its partner is in sync and collects, or while there is no partner with LACP and the port is
//!   the only one that is used.
//! - All ports that distribute have the same partner system, partner key and own key.
//! - A port that hears its own bond is not used at all.
//! - State and work are bounded: at most [`MEMBERS_MAX`](crate::MEMBERS_MAX) ports, [`RECEIVE_MAX`] LACPDUs a second and port, of which a later one
//!   replaces one that waits; at most [`TRANSMIT_MAX`] LACPDUs and [`MARKER_MAX`] marker responses a second and port go out;
//!   [`EVENTS_MAX`] events wait.

mod churn;
mod event;
mod mux;
pub(crate) mod pace;
mod periodic;
mod port;
mod receive;
mod selection;
mod settings;
mod why;

use std::collections::{BTreeMap, VecDeque};

use machine::{Rebase, Span, Step, Time};
use wire::{
    EthernetRepr, LacpInfo, LacpPacket, LacpRepr, LacpState, MarkerPacket, MarkerRepr, SLOW_PAYLOAD, SLOW_PROTOCOLS,
    ethertype, slow_subtype,
};

pub use churn::{CHURN_TIME, ChurnState};
pub use event::{Event, Partner};
pub use mux::MuxState;
pub use periodic::{FAST_PERIOD, PeriodicState, SLOW_PERIOD};
pub use port::{Counters, MARKER_MAX, RECEIVE_MAX, Selected, TRANSMIT_MAX};
pub use receive::{LONG_TIMEOUT, ReceiveState, SHORT_TIMEOUT};
pub use selection::PATIENCE;
pub use settings::{AGGREGATE_WAIT, Settings};
pub use why::{Convergence, Reason, Why};

use crate::{Carrier, MemberId, MemberSet};
use port::Port;
use receive::Received;

/// Events that wait for [`Lacp::poll`]; what comes beyond is counted, not kept.
pub const EVENTS_MAX: usize = 64;
/// Ethernet header and payload of what is sent, without frame check sequence.
pub const FRAME: usize = 14 + SLOW_PAYLOAD;
/// The machines come to rest after this many rounds: assign, wait, attach, collect, distribute, and once more to see that
/// nothing is left; some are taken twice when another aggregate becomes the active one.
const ROUNDS_MAX: usize = 16;
/// A port waits for others that came later no longer than this many times the usual wait. So one that flaps keeps nobody out.
const WAITS_MAX: u64 = 4;

/// The members that carry frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Frames that arrive on these are accepted.
    pub collecting: MemberSet,
    /// Frames may be sent on these.
    pub distributing: MemberSet,
    /// Enough distribute (`min_links`; one at least): the bond is up.
    pub carrier: bool,
}

/// What [`Lacp::poll`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this frame on that member.
    Send {
        /// The member by which it leaves.
        port: MemberId,
        /// The frame from its destination address on.
        frame: [u8; FRAME],
    },
    /// From now on these members carry frames.
    Members(Members),
    /// Write this into the log.
    Event(Event),
}

/// Where a port stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What its LACPDUs say of itself.
    pub actor: LacpInfo,
    /// What it knows of its partner.
    pub partner: LacpInfo,
    /// The receive machine's state.
    pub receive: ReceiveState,
    /// The periodic transmission machine's state.
    pub periodic: PeriodicState,
    /// The mux machine's state.
    pub mux: MuxState,
    /// Its place in an aggregate.
    pub selected: Selected,
    /// Which aggregate that is; as many as members can be.
    pub aggregator: Option<MemberId>,
    /// Whether this end comes in sync.
    pub actor_churn: ChurnState,
    /// Whether the partner's end does.
    pub partner_churn: ChurnState,
    /// What came in and went out.
    pub counters: Counters,
}

/// LACP of one bond.
///
/// One rule: after every call that takes a time, call [`Lacp::poll`] until it returns [`Step::Wait`]. Time never runs backwards
/// between calls. A call for a member that is not there changes nothing.
#[derive(Clone, Debug)]
pub struct Lacp {
    settings: Settings,
    ports: BTreeMap<MemberId, Port>,
    /// The aggregate in use.
    active: Option<MemberId>,
    /// Since when the partner uses another aggregate than this end wants; [`Time::NEVER`]: it does not.
    unclaimed_since: Time,
    members: Members,
    /// `members` was not given out yet.
    members_changed: bool,
    events: VecDeque<Event>,
    events_dropped: u64,
    /// Something came in that the machines have not seen.
    dirty: bool,
    /// Frames may wait to be sent.
    draining: bool,
    /// When a machine has something to do by itself.
    deadline: Time,
}

impl Lacp {
    /// A bond without members.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ports: BTreeMap::new(),
            active: None,
            unclaimed_since: Time::NEVER,
            members: Members::default(),
            members_changed: false,
            events: VecDeque::with_capacity(EVENTS_MAX),
            events_dropped: 0,
            dirty: false,
            draining: false,
            deadline: Time::NEVER,
        }
    }

    /// What the operator has set.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes what the operator sets. Ports whose key or system changes by that leave their aggregates and come back.
    pub fn configure(&mut self, settings: Settings) {
        self.settings = settings;
        for port in self.ports.values_mut() {
            port.configure(&settings);
        }
        self.dirty = true;
    }

    /// Adds a member; its link is down until [`Lacp::link`] says otherwise. `priority` is its port's (`actor_port_prio`; less goes
    /// first), `mac` the source address of its LACPDUs. A member that is there already starts anew.
    pub fn add_port(&mut self, now: Time, id: MemberId, mac: [u8; 6], priority: u16) {
        self.ports.insert(id, Port::new(now, &self.settings, id, mac, priority));
        self.dirty = true;
    }

    /// Takes a member out. Its partner learns of it by silence.
    pub fn remove_port(&mut self, id: MemberId) {
        self.dirty |= self.ports.remove(&id).is_some();
    }

    /// The link of a member went up or down, or changed its speed or duplex.
    pub fn link(&mut self, id: MemberId, carrier: Carrier) {
        let settings = self.settings;
        let Some(port) = self.ports.get_mut(&id) else { return };
        // A link that is down has no duplex, and would lose its key for nothing.
        port.carrier = if carrier.up { carrier } else { Carrier { up: false, ..port.carrier } };
        port.configure(&settings);
        self.dirty = true;
    }

    /// Takes the payload of a frame of the slow protocols (what follows the type [`ethertype::SLOW`]) that arrived on a member.
    pub fn receive(&mut self, now: Time, id: MemberId, payload: &[u8]) {
        let settings = self.settings;
        let Some(port) = self.ports.get_mut(&id) else { return };
        match payload.first() {
            Some(&slow_subtype::LACP) => match LacpPacket::new_checked(payload) {
                Ok(packet) => self.take_lacpdu(now, id, &LacpRepr::parse(&packet)),
                Err(_) => port.counters.malformed += 1,
            },
            Some(&slow_subtype::MARKER) => match MarkerPacket::new_checked(payload) {
                Ok(packet) => {
                    port.take_marker(now, &settings, &MarkerRepr::parse(&packet));
                    self.draining = true;
                }
                Err(_) => port.counters.malformed += 1,
            },
            Some(_) => port.counters.other_protocol += 1,
            None => port.counters.malformed += 1,
        }
    }

    /// Notes an LACPDU; the machines see it when they run.
    fn take_lacpdu(&mut self, now: Time, id: MemberId, pdu: &LacpRepr) {
        let settings = self.settings;
        let port = self.port_mut(id);
        port.counters.received += 1;
        if !port.carrier.up || !port.lacp_enabled() {
            port.counters.ignored += 1;
        } else if pdu.actor.system == settings.system {
            // Whatever its other fields say: a bond is never aggregated with itself.
            if port.hear_itself(now, &settings) {
                self.log(Event::Looped { port: id });
            }
            self.dirty = true;
        } else {
            port.counters.superseded += u64::from(port.pending.is_some());
            port.pending = Some(*pdu);
            self.dirty = true;
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Time) -> Step<Output> {
        if self.dirty || now >= self.deadline {
            self.run(now);
        }
        if self.members_changed {
            self.members_changed = false;
            return Step::Do(Output::Members(self.members));
        }
        if self.draining {
            if let Some((port, frame)) = self.next_frame(now) {
                return Step::Do(Output::Send { port, frame });
            }
            self.draining = false;
        }
        if let Some(event) = self.events.pop_front() {
            return Step::Do(Output::Event(event));
        }
        Step::Wait(self.deadline)
    }

    /// Lets all machines see what came in and what time it is, until none of them moves.
    fn run(&mut self, now: Time) {
        self.dirty = false;
        self.run_receive(now);
        let mut rounds = 0;
        while self.run_mux(now) | self.select(now) {
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "the machines come to rest");
        }
        for port in self.ports.values_mut() {
            port.periodic_step(now);
        }
        self.run_churn(now);
        self.note_members();
        self.draining = true;
        let deadlines = self.ports.values().map(|port| port.deadline(now, self.settings.aggregate_wait));
        let patience = Some(self.unclaimed_since + PATIENCE).filter(|&time| time > now);
        self.deadline = deadlines.chain(patience).min().unwrap_or(Time::NEVER);
    }

    fn run_receive(&mut self, now: Time) {
        let settings = self.settings;
        let ids: Vec<MemberId> = self.ports.keys().copied().collect();
        for id in ids {
            let port = self.port_mut(id);
            let from = Partner::of(&port.partner);
            let report = port.receive_step(now, &settings);
            self.report(id, from, report);
            let port = self.port_mut(id);
            if port.pending.is_some() && port.taken.take(now) {
                let pdu = port.pending.take().expect("one is pending");
                let from = Partner::of(&port.partner);
                let report = port.receive_lacpdu(now, &settings, &pdu);
                self.report(id, from, report);
                self.forget_moved(id, &pdu.actor);
            }
        }
    }

    fn report(&mut self, id: MemberId, from: Partner, report: Received) {
        let to = Partner::of(&self.ports[&id].partner);
        if report.expired {
            self.log(Event::PartnerSilent { port: id });
        }
        if report.defaulted {
            self.log(Event::NoPartner { port: id });
        } else if report.partner_changed && from != to {
            self.log(Event::PartnerChanged { port: id, from, to });
        }
    }

    /// One step of each mux machine. True if one moved.
    fn run_mux(&mut self, now: Time) -> bool {
        let wait = self.settings.aggregate_wait;
        let mut ready = MemberSet::EMPTY;
        for (&id, port) in self.ports.iter().filter(|(_, port)| port.mux == MuxState::Waiting) {
            let long_enough = now >= port.wait_while + wait * (WAITS_MAX - 1);
            let all = port.aggregator.is_some_and(|aggregator| self.ready(now, aggregator));
            if long_enough || all {
                ready.insert(id);
            }
        }
        let mut moved = false;
        for (&id, port) in &mut self.ports {
            moved |= port.mux_step(now, ready.contains(id), wait);
        }
        moved
    }

    fn run_churn(&mut self, now: Time) {
        let ids: Vec<MemberId> = self.ports.keys().copied().collect();
        for id in ids {
            let port = self.port_mut(id);
            let actor = port.actor_churn.step(now, port.carrier.up, port.actor.state.has(LacpState::SYNCHRONIZATION));
            let partner =
                port.partner_churn.step(now, port.carrier.up, port.partner.state.has(LacpState::SYNCHRONIZATION));
            port.counters.actor_churns += u64::from(actor);
            port.counters.partner_churns += u64::from(partner);
            if actor {
                self.log(Event::ActorChurn { port: id });
            }
            if partner {
                self.log(Event::PartnerChurn { port: id });
            }
        }
    }

    fn note_members(&mut self) {
        let set = |flag| -> MemberSet {
            self.ports.iter().filter(|(_, port)| port.actor.state.has(flag)).map(|(&id, _)| id).collect()
        };
        let distributing = set(LacpState::DISTRIBUTING);
        let enough = distributing.len() >= usize::from(self.settings.min_links.max(1));
        let members = Members { collecting: set(LacpState::COLLECTING), distributing, carrier: enough };
        self.members_changed |= members != self.members;
        self.members = members;
    }

    /// The transmit machine (6.4.16) and the marker responder (6.5.4.2).
    fn next_frame(&mut self, now: Time) -> Option<(MemberId, [u8; FRAME])> {
        for (&id, port) in &mut self.ports {
            if let Some(marker) = port.marker.take() {
                port.counters.markers_answered += 1;
                return Some((id, frame(port.mac, |payload| marker.emit(payload))));
            }
            if port.ntt && port.sent.take(now) {
                port.ntt = false;
                port.counters.sent += 1;
                let pdu = LacpRepr { actor: port.actor, partner: port.partner, collector_max_delay: 0 };
                return Some((id, frame(port.mac, |payload| pdu.emit(payload))));
            }
        }
        None
    }

    fn log(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.events_dropped += 1;
        }
    }

    fn port_mut(&mut self, id: MemberId) -> &mut Port {
        self.ports.get_mut(&id).expect("only members' indices come here")
    }

    /// Which members carry frames, as of the last poll.
    pub const fn members(&self) -> Members {
        self.members
    }

    /// The members of the aggregate in use, and whose ports are at their other ends.
    pub fn active(&self) -> Option<(MemberSet, Partner)> {
        let port = self.representative()?;
        Some((self.ports_of(self.active?), Partner::of(&port.partner)))
    }

    /// Events that were not kept, as too many waited.
    pub const fn events_dropped(&self) -> u64 {
        self.events_dropped
    }

    /// Where a member stands, as of the last poll.
    pub fn status(&self, id: MemberId) -> Option<Status> {
        self.ports.get(&id).map(|port| Status {
            actor: port.actor,
            partner: port.partner,
            receive: port.receive,
            periodic: port.periodic,
            mux: port.mux,
            selected: port.selected,
            aggregator: port.aggregator,
            actor_churn: port.actor_churn.state,
            partner_churn: port.partner_churn.state,
            counters: port.counters,
        })
    }
}

impl Port {
    /// A marker is answered as it is, but for its kind. One waits at a time.
    fn take_marker(&mut self, now: Time, settings: &Settings, marker: &MarkerRepr) {
        if marker.response {
            self.counters.marker_responses += 1;
        } else if !self.carrier.up
            || marker.requester_system == settings.system
            || self.marker.is_some()
            || !self.answered.take(now)
        {
            self.counters.markers_dropped += 1;
        } else {
            self.marker = Some(MarkerRepr { response: true, ..*marker });
        }
    }
}

/// A frame of the slow protocols, whose payload `emit` writes.
fn frame(src: [u8; 6], emit: impl FnOnce(&mut [u8])) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let header = EthernetRepr { dst: SLOW_PROTOCOLS, src, vlan: None, ethertype: ethertype::SLOW };
    header.emit(&mut frame);
    emit(&mut frame[header.buffer_len()..]);
    frame
}

impl Rebase for Lacp {
    fn rebase(&mut self, by: Span) {
        let Self {
            settings: _,
            ports,
            active: _,
            unclaimed_since,
            members: _,
            members_changed: _,
            events: _,
            events_dropped: _,
            dirty: _,
            draining: _,
            deadline,
        } = self;
        ports.rebase(by);
        unclaimed_since.rebase(by);
        deadline.rebase(by);
    }
}
