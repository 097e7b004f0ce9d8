//! The periodic transmission machine (6.4.13). The transmit machine (6.4.16) is `Lacp::poll`'s.
//!
//! `PERIODIC_TX` lasts no time, so it does not show.

use machine::{Span, Time};
use wire::LacpState;

use super::port::Port;

/// Between LACPDUs to a partner that asked for short timeouts (6.4.4, `Fast_Periodic_Time`).
pub const FAST_PERIOD: Span = Span::from_secs(1);
/// Between LACPDUs to other partners (6.4.4, `Slow_Periodic_Time`).
pub const SLOW_PERIOD: Span = Span::from_secs(30);

/// How often LACPDUs are sent though nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodicState {
    /// None is sent at all: the link is down, without LACP, or both ends are passive.
    NoPeriodic,
    /// One each second.
    FastPeriodic,
    /// One each 30 s.
    SlowPeriodic,
}

impl Port {
    /// Follows the link, both ends' activity, the partner's timeout, and the timer.
    pub(super) fn periodic_step(&mut self, now: Time) {
        let asked = self.actor.state.has(LacpState::ACTIVITY) || self.partner.state.has(LacpState::ACTIVITY);
        if !self.carrier.up || !self.lacp_enabled() || !asked {
            self.periodic = PeriodicState::NoPeriodic;
            self.periodic_timer = Time::NEVER;
            self.ntt = false;
            return;
        }
        let short = self.partner.state.has(LacpState::TIMEOUT);
        let (wanted, period) =
            if short { (PeriodicState::FastPeriodic, FAST_PERIOD) } else { (PeriodicState::SlowPeriodic, SLOW_PERIOD) };
        // From slow to fast by way of PERIODIC_TX: the partner may be about to give up. From fast to slow nothing is sent.
        let hurried = self.periodic == PeriodicState::SlowPeriodic && short;
        // A link that comes up, or back, is announced at once, not after a period: a partner such as Linux counts its wait from then.
        let starts = self.periodic == PeriodicState::NoPeriodic;
        if starts || hurried || now >= self.periodic_timer {
            self.ntt = true;
        } else if self.periodic == wanted {
            return;
        }
        self.periodic = wanted;
        self.periodic_timer = now + period;
    }
}
