//! The receive machine (6.4.12).
//!
//! ```text
//!              port_moved              port down, from anywhere
//! INITIALIZE <-------------+              |
//!      |                   |              v
//!      +------------> PORT_DISABLED --up, without LACP--> LACP_DISABLED
//!                          |
//!                       up v          timer            LACPDU
//!                       EXPIRED --------------> DEFAULTED ----+
//!                        ^   |                                |
//!                  timer |   | LACPDU                         |
//!                        |   v                                |
//!                       CURRENT <-----------------------------+
//! ```

use machine::{Span, Time};
use wire::{LacpInfo, LacpRepr, LacpState};

use super::port::{Port, Selected, same_end};
use super::settings::Settings;
use crate::config::LacpRate;

/// A partner that should send every second is silent after so long (6.4.4, `Short_Timeout_Time`).
pub const SHORT_TIMEOUT: Span = Span::from_secs(3);
/// A partner that should send every 30 s is silent after so long (6.4.4, `Long_Timeout_Time`).
pub const LONG_TIMEOUT: Span = Span::from_secs(90);

/// What is known of the partner. INITIALIZE lasts no time, so it does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
    /// The link is down. What was known of the partner is kept: it may come back.
    PortDisabled,
    /// The link is up, but LACP does not run on it.
    LacpDisabled,
    /// The partner has not been heard for some time, or not yet.
    Expired,
    /// There is no partner, or it has no LACP: defaults stand for it.
    Defaulted,
    /// What the partner said last holds.
    Current,
}

/// What the receive machine has to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// The partner became another one.
    pub(super) partner_changed: bool,
    /// The partner fell silent.
    pub(super) expired: bool,
    /// Defaults stand for the partner now.
    pub(super) defaulted: bool,
}

impl Port {
    /// INITIALIZE: nothing is known.
    pub(super) fn initialize(&mut self, settings: &Settings) {
        self.selected = Selected::Unselected;
        self.record_default(settings);
        self.set_actor_state(LacpState::EXPIRED, false);
        self.receive = ReceiveState::PortDisabled;
        self.partner.state = self.partner.state.with(LacpState::SYNCHRONIZATION, false);
        self.current_while = Time::NEVER;
    }

    /// Follows the link and the timer.
    pub(super) fn receive_step(&mut self, now: Time, settings: &Settings) -> Received {
        let mut report = Received::default();
        if !self.carrier.up {
            if self.receive != ReceiveState::PortDisabled {
                self.enter_port_disabled();
            }
            return report;
        }
        if !self.lacp_enabled() {
            if self.receive != ReceiveState::LacpDisabled {
                self.enter_lacp_disabled(settings);
            }
            return report;
        }
        match self.receive {
            ReceiveState::PortDisabled | ReceiveState::LacpDisabled => self.enter_expired(now),
            ReceiveState::Current if now >= self.current_while => {
                self.counters.expirations += 1;
                report.expired = true;
                self.enter_expired(now);
            }
            ReceiveState::Expired if now >= self.current_while => {
                report.partner_changed = self.enter_defaulted(settings);
                report.defaulted = true;
            }
            _ => {}
        }
        report
    }

    /// CURRENT, by an LACPDU. The link is up and LACP runs on it.
    pub(super) fn receive_lacpdu(&mut self, now: Time, settings: &Settings, pdu: &LacpRepr) -> Received {
        let partner_changed = !same_end(&self.partner, &pdu.actor);
        if partner_changed {
            self.selected = Selected::Unselected;
            self.counters.partner_changes += 1;
        }
        self.ntt |= self.differs_from_actor(&pdu.partner);
        self.record(pdu);
        self.set_actor_state(LacpState::EXPIRED, false);
        self.receive = ReceiveState::Current;
        self.current_while = now + if settings.rate == LacpRate::Fast { SHORT_TIMEOUT } else { LONG_TIMEOUT };
        Received { partner_changed, ..Received::default() }
    }

    /// `update_NTT`: what the partner knows of this end is not what is true.
    fn differs_from_actor(&self, seen: &LacpInfo) -> bool {
        let compared = LacpState(
            LacpState::ACTIVITY.0 | LacpState::TIMEOUT.0 | LacpState::SYNCHRONIZATION.0 | LacpState::AGGREGATION.0,
        );
        let mask = |info: &LacpInfo| LacpInfo { state: info.state.only(compared), ..*info };
        mask(seen) != mask(&self.actor)
    }

    /// `recordPDU`: takes over what the partner says of itself. It is in sync if it means this port and will keep saying so.
    fn record(&mut self, pdu: &LacpRepr) {
        self.heard = same_end(&pdu.partner, &self.actor);
        let sender = pdu.actor.state;
        let means_us = self.heard || !sender.has(LacpState::AGGREGATION);
        let maintained = sender.has(LacpState::ACTIVITY)
            || (self.actor.state.has(LacpState::ACTIVITY) && pdu.partner.state.has(LacpState::ACTIVITY));
        let in_sync = sender.has(LacpState::SYNCHRONIZATION) && means_us && maintained;
        self.partner = pdu.actor;
        self.partner.state = sender.with(LacpState::SYNCHRONIZATION, in_sync);
        self.set_actor_state(LacpState::DEFAULTED, false);
    }

    fn enter_port_disabled(&mut self) {
        self.receive = ReceiveState::PortDisabled;
        self.partner.state = self.partner.state.with(LacpState::SYNCHRONIZATION, false);
        self.current_while = Time::NEVER;
        self.looped_until = Time::ZERO;
        self.pending = None;
        self.marker = None;
    }

    fn enter_expired(&mut self, now: Time) {
        self.receive = ReceiveState::Expired;
        self.partner.state = self.partner.state.with(LacpState::SYNCHRONIZATION, false).with(LacpState::TIMEOUT, true);
        self.current_while = now + SHORT_TIMEOUT;
        self.set_actor_state(LacpState::EXPIRED, true);
    }

    /// True if there was a partner until now.
    fn enter_defaulted(&mut self, settings: &Settings) -> bool {
        let changed = !same_end(&self.partner, &default_partner(settings));
        if changed {
            self.selected = Selected::Unselected;
        }
        self.record_default(settings);
        self.set_actor_state(LacpState::EXPIRED, false);
        self.receive = ReceiveState::Defaulted;
        self.current_while = Time::NEVER;
        changed
    }

    fn enter_lacp_disabled(&mut self, settings: &Settings) {
        self.selected = Selected::Unselected;
        self.record_default(settings);
        self.set_actor_state(LacpState::EXPIRED, false);
        self.receive = ReceiveState::LacpDisabled;
        self.current_while = Time::NEVER;
        self.pending = None;
    }

    fn record_default(&mut self, settings: &Settings) {
        self.partner = default_partner(settings);
        self.heard = false;
        self.set_actor_state(LacpState::DEFAULTED, true);
    }
}

/// What stands for a partner that does not speak: a single link that always works. It is asked at the pace of `lacp_rate`, so
/// that a passive partner which starts late is found.
fn default_partner(settings: &Settings) -> LacpInfo {
    let works = LacpState::SYNCHRONIZATION.0 | LacpState::COLLECTING.0 | LacpState::DISTRIBUTING.0;
    LacpInfo {
        state: LacpState(works).with(LacpState::TIMEOUT, settings.rate == LacpRate::Fast),
        ..LacpInfo::default()
    }
}
