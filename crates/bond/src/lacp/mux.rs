//! The mux machine with independent control of collector and distributor (6.4.15, figure 6-21).
//!
//! ```text
//! DETACHED --selected or standby--> WAITING --selected, ready--> ATTACHED --partner in sync--> COLLECTING
//!    ^                                 |                          |   ^                        |   ^   |
//!    +----------- unselected ----------+                          |   +--- partner not in sync +   |   | partner collects
//!    +------------------- unselected or standby ------------------+                                |   v
//!                                                                                            DISTRIBUTING
//! ```
//!
//! Linux 6.1 has the form with coupled control, whose last state is `COLLECTING_DISTRIBUTING`, and Open vSwitch has no mux
//! machine, but shows the same bits. Both work with this form: they set *collecting* as soon as this end is in sync, and it waits
//! for that before it sends, so that no frame is lost while an aggregate grows.

use machine::{Span, Time};
use wire::LacpState;

use super::port::{Port, Selected};

/// Where a port stands on its way into its aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuxState {
    /// Outside of any.
    Detached,
    /// It waits for others that come up at the same time, or for its aggregate to be used.
    Waiting,
    /// Inside, and says so (*in sync*).
    Attached,
    /// It accepts frames.
    Collecting,
    /// It accepts and sends frames.
    Distributing,
}

impl Port {
    /// Takes one step, if there is one to take. `ready`: the ports that wait for the same aggregate have waited long enough.
    pub(super) fn mux_step(&mut self, now: Time, ready: bool, wait: Span) -> bool {
        let selected = self.selected == Selected::Selected;
        let wanted = selected && self.partner.state.has(LacpState::SYNCHRONIZATION);
        let both_directions = wanted && self.partner.state.has(LacpState::COLLECTING);
        let next = match self.mux {
            MuxState::Detached if self.selected != Selected::Unselected => MuxState::Waiting,
            MuxState::Waiting if self.selected == Selected::Unselected => MuxState::Detached,
            MuxState::Waiting if selected && ready => MuxState::Attached,
            MuxState::Attached if !selected => MuxState::Detached,
            MuxState::Attached if wanted => MuxState::Collecting,
            MuxState::Collecting if !wanted => MuxState::Attached,
            MuxState::Collecting if both_directions => MuxState::Distributing,
            MuxState::Distributing if !both_directions => MuxState::Collecting,
            _ => return false,
        };
        self.enter_mux(next, now + wait);
        true
    }

    fn enter_mux(&mut self, next: MuxState, waited_at: Time) {
        self.mux = next;
        if next == MuxState::Detached && self.selected == Selected::Unselected {
            self.aggregator = None;
        }
        self.wait_while = if next == MuxState::Waiting { waited_at } else { Time::NEVER };
        let before = self.actor.state;
        self.set_actor_state(LacpState::SYNCHRONIZATION, !matches!(next, MuxState::Detached | MuxState::Waiting));
        self.set_actor_state(LacpState::COLLECTING, matches!(next, MuxState::Collecting | MuxState::Distributing));
        self.set_actor_state(LacpState::DISTRIBUTING, next == MuxState::Distributing);
        self.ntt |= self.actor.state != before;
    }
}
