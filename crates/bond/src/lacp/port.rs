//! One port: what it is, what it knows of its partner, and where its machines stand.

use machine::{Rebase, Span, Time};
use wire::{LacpInfo, LacpRepr, LacpState, MarkerRepr};

use super::WAITS_MAX;
use super::churn::Churn;
use super::mux::MuxState;
use super::pace::Pace;
use super::periodic::PeriodicState;
use super::receive::{LONG_TIMEOUT, ReceiveState, SHORT_TIMEOUT};
use super::settings::{Settings, key};
use crate::config::LacpRate;
use crate::{Carrier, MemberId};

/// LACPDUs that a port sends in any second (6.4.16).
pub const TRANSMIT_MAX: usize = 3;
/// LACPDUs of a partner that are acted upon in any second. Of what comes beyond, only the last counts, and it waits.
pub const RECEIVE_MAX: usize = 16;
/// Markers that are answered in any second: what annex 57A lets a slow protocol send.
pub const MARKER_MAX: usize = 10;
/// A port's place in an aggregate (6.4.8, *Selected*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// It has none, or has to leave the one it has.
    Unselected,
    /// It belongs to the active aggregate.
    Selected,
    /// It belongs to an aggregate that is not used.
    Standby,
}

/// What came in and went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// LACPDUs that were sent.
    pub sent: u64,
    /// LACPDUs received that were well-formed.
    pub received: u64,
    /// Of these, how many a later one replaced before it was its turn.
    pub superseded: u64,
    /// Of these, how many came while the port was down or without LACP.
    pub ignored: u64,
    /// Of these, how many named this bond as their sender.
    pub looped: u64,
    /// Payloads that are no LACPDU and no marker PDU for their length or fields.
    pub malformed: u64,
    /// Payloads of other slow protocols.
    pub other_protocol: u64,
    /// Markers that were answered.
    pub markers_answered: u64,
    /// Markers left without an answer, as there were too many.
    pub markers_dropped: u64,
    /// Responses to markers, though none was sent.
    pub marker_responses: u64,
    /// How often the partner became another one.
    pub partner_changes: u64,
    /// How often the partner fell silent.
    pub expirations: u64,
    /// How often this end's churn was found (6.4.17).
    pub actor_churns: u64,
    /// How often the partner's churn was found.
    pub partner_churns: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) mac: [u8; 6],
    /// Its link; up is `port_enabled`.
    pub(super) carrier: Carrier,
    pub(super) actor: LacpInfo,
    pub(super) partner: LacpInfo,
    /// The partner's last LACPDU named this port as its partner.
    pub(super) heard: bool,
    pub(super) receive: ReceiveState,
    /// When the partner counts as silent (`current_while_timer`).
    pub(super) current_while: Time,
    pub(super) periodic: PeriodicState,
    pub(super) periodic_timer: Time,
    pub(super) mux: MuxState,
    pub(super) wait_while: Time,
    pub(super) selected: Selected,
    pub(super) aggregator: Option<MemberId>,
    pub(super) actor_churn: Churn,
    pub(super) partner_churn: Churn,
    /// An LACPDU is due (`NTT`, need to transmit).
    pub(super) ntt: bool,
    pub(super) sent: Pace<TRANSMIT_MAX>,
    pub(super) pending: Option<LacpRepr>,
    pub(super) taken: Pace<RECEIVE_MAX>,
    pub(super) marker: Option<MarkerRepr>,
    pub(super) answered: Pace<MARKER_MAX>,
    pub(super) looped_until: Time,
    pub(super) counters: Counters,
}

/// What makes a partner that partner (6.4.9, `update_Selected`).
const IDENTITY: LacpState = LacpState::AGGREGATION;

/// Whether both are the same end of a link, and may be aggregated alike.
pub(super) fn same_end(a: &LacpInfo, b: &LacpInfo) -> bool {
    let identity = |info: &LacpInfo| LacpInfo { state: info.state.only(IDENTITY), ..*info };
    identity(a) == identity(b)
}

impl Port {
    pub(super) fn new(now: Time, settings: &Settings, id: MemberId, mac: [u8; 6], priority: u16) -> Self {
        // Port numbers begin with 1: 0 is no port (6.3.4).
        let number = id.index() as u16 + 1;
        let mut port = Self {
            mac,
            carrier: Carrier { full_duplex: true, ..Carrier::DOWN },
            actor: LacpInfo { port: number, port_priority: priority, ..LacpInfo::default() },
            partner: LacpInfo::default(),
            heard: false,
            receive: ReceiveState::PortDisabled,
            current_while: Time::NEVER,
            periodic: PeriodicState::NoPeriodic,
            periodic_timer: Time::NEVER,
            mux: MuxState::Detached,
            wait_while: Time::NEVER,
            selected: Selected::Unselected,
            aggregator: None,
            actor_churn: Churn::new(now),
            partner_churn: Churn::new(now),
            ntt: false,
            sent: Pace::new(),
            pending: None,
            taken: Pace::new(),
            marker: None,
            answered: Pace::new(),
            looped_until: Time::ZERO,
            counters: Counters::default(),
        };
        port.configure(settings);
        port.initialize(settings);
        port
    }

    /// Takes over what the operator sets and what follows from speed and duplex. Whoever leaves an aggregate by that is unselected.
    pub(super) fn configure(&mut self, settings: &Settings) {
        let before = self.actor;
        self.actor.system = settings.system;
        self.actor.system_priority = settings.system_priority;
        self.actor.key = key(settings.user_key, self.carrier.speed_mbps, self.carrier.full_duplex);
        self.actor.state = self
            .actor
            .state
            .with(LacpState::ACTIVITY, settings.active)
            .with(LacpState::TIMEOUT, settings.rate == LacpRate::Fast)
            .with(LacpState::AGGREGATION, self.carrier.full_duplex);
        if !same_end(&before, &self.actor) {
            self.selected = Selected::Unselected;
        }
        let slower = before.state.has(LacpState::TIMEOUT) && settings.rate == LacpRate::Slow;
        if slower && self.receive == ReceiveState::Current {
            // The partner is about to be asked for less: what it sent last has to hold for as long as what it sends next.
            self.current_while += LONG_TIMEOUT;
        }
        self.ntt |= before != self.actor;
    }

    /// LACP is for full-duplex links (6.1.1.1, as Linux has it): others are used one at a time.
    pub(super) const fn lacp_enabled(&self) -> bool {
        self.carrier.full_duplex
    }

    pub(super) fn looped(&self, now: Time) -> bool {
        now < self.looped_until
    }

    /// It heard its own bond. It stays out for three of the periods in which it would hear itself again, or until its link goes
    /// down. Another partner that is heard meanwhile changes nothing: what is sent would still come back. True if that is news.
    pub(super) fn hear_itself(&mut self, now: Time, settings: &Settings) -> bool {
        let news = !self.looped(now);
        let often = settings.rate == LacpRate::Fast && self.periodic != PeriodicState::SlowPeriodic;
        self.looped_until = now + if often { SHORT_TIMEOUT } else { LONG_TIMEOUT };
        self.counters.looped += 1;
        news
    }

    /// Sets or clears bits of the own state.
    pub(super) fn set_actor_state(&mut self, flags: LacpState, set: bool) {
        self.actor.state = self.actor.state.with(flags, set);
    }

    pub(super) fn is_defaulted(&self) -> bool {
        self.actor.state.has(LacpState::DEFAULTED)
    }

    /// The earliest time after `now` at which a machine has something to do by itself.
    pub(super) fn deadline(&self, now: Time, wait: Span) -> Time {
        let never_unless = |wanted: bool, time: Time| if wanted { time } else { Time::NEVER };
        [
            self.current_while,
            self.periodic_timer,
            never_unless(self.mux == MuxState::Waiting, self.wait_while),
            never_unless(self.mux == MuxState::Waiting, self.wait_while + wait * (WAITS_MAX - 1)),
            self.actor_churn.deadline(),
            self.partner_churn.deadline(),
            never_unless(self.ntt, self.sent.ready_at()),
            never_unless(self.pending.is_some(), self.taken.ready_at()),
            self.looped_until,
        ]
        .into_iter()
        .filter(|&time| time > now)
        .min()
        .unwrap_or(Time::NEVER)
    }
}

impl Rebase for Port {
    fn rebase(&mut self, by: Span) {
        let Self {
            mac: _,
            carrier: _,
            actor: _,
            partner: _,
            heard: _,
            receive: _,
            current_while,
            periodic: _,
            periodic_timer,
            mux: _,
            wait_while,
            selected: _,
            aggregator: _,
            actor_churn,
            partner_churn,
            ntt: _,
            sent,
            pending: _,
            taken,
            marker: _,
            answered,
            looped_until,
            counters: _,
        } = self;
        current_while.rebase(by);
        periodic_timer.rebase(by);
        wait_while.rebase(by);
        actor_churn.rebase(by);
        partner_churn.rebase(by);
        sent.rebase(by);
        taken.rebase(by);
        answered.rebase(by);
        looped_until.rebase(by);
    }
}
