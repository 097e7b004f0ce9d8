//! A port of a bridge: the variables by which the machines hand on to each other (17.19), and its timers (17.17).

use machine::{Rebase, Span, Time};
use serde::{Deserialize, Serialize};
use wire::BpduRepr;

use crate::config::PortConfig;
use crate::vector::{Times, Vector};

/// How long a port waits to see which version is spoken behind it, and whether a bridge is there at all (table 17-1).
pub(crate) const MIGRATE_TIME: Span = Span::from_secs(3);

/// What a port is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing: it has no link, or was shut.
    #[default]
    Disabled,
    /// It leads to the root.
    Root,
    /// It is the way to the root for all behind it.
    Designated,
    /// It would lead to the root if the root port did not.
    Alternate,
    /// Another port of this bridge is designated for those behind it.
    Backup,
}

/// What a port does with frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortState {
    /// It neither forwards nor learns.
    #[default]
    Discarding,
    /// It learns and does not forward.
    Learning,
    /// It forwards.
    Forwarding,
}

/// What a port has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// BPDUs that have come in.
    pub received: u64,
    /// BPDUs that it has sent.
    pub sent: u64,
    /// Frames that were no BPDUs, or said what no bridge may say.
    pub bad: u64,
    /// BPDUs that came where none may: BPDU guard.
    pub guarded: u64,
}

/// Where topology changes are noticed (17.31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChangeState {
    /// Nothing is learned here.
    #[default]
    Inactive,
    /// The port learns, and is no path yet.
    Learning,
    /// It is a path between bridges.
    Active,
}

/// Where what a port knows of the root comes from (`infoIs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InfoIs {
    #[default]
    Disabled,
    Received,
    Mine,
    Aged,
}

/// When each timer runs out. [`Time::NEVER`]: it is held at its full value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    /// No bridge is there.
    pub(crate) edge_delay: Time,
    /// The port may go on from discarding to learning, from learning to forwarding.
    pub(crate) forward_delay: Time,
    /// The next BPDU is due.
    pub(crate) hello: Time,
    /// Another version may be heard.
    pub(crate) migration: Time,
    /// It was a backup port not long ago.
    pub(crate) recent_backup: Time,
    /// What was heard is too old.
    pub(crate) received_info: Time,
    /// It was the root port not long ago.
    pub(crate) recent_root: Time,
    /// BPDUs say that the topology has changed.
    pub(crate) topology_change: Time,
    /// It has heard itself.
    pub(crate) loopback: Time,
    /// An agreement may be one to what it said before.
    pub(crate) quarantine: Time,
    /// One more BPDU may be sent.
    pub(crate) transmit: Time,
}

impl Timers {
    fn all(&self) -> [Time; 11] {
        let Self {
            edge_delay,
            forward_delay,
            hello,
            migration,
            recent_backup,
            received_info,
            recent_root,
            topology_change,
            loopback,
            quarantine,
            transmit,
        } = *self;
        [
            edge_delay,
            forward_delay,
            hello,
            migration,
            recent_backup,
            received_info,
            recent_root,
            topology_change,
            loopback,
            quarantine,
            transmit,
        ]
    }

    /// When the next one runs out after now.
    pub(crate) fn next(&self, now: Time) -> Time {
        self.all().into_iter().filter(|at| *at > now).min().unwrap_or(Time::NEVER)
    }
}

impl Rebase for Timers {
    fn rebase(&mut self, by: Span) {
        let Self {
            edge_delay,
            forward_delay,
            hello,
            migration,
            recent_backup,
            received_info,
            recent_root,
            topology_change,
            loopback,
            quarantine,
            transmit,
        } = self;
        for timer in [
            edge_delay,
            forward_delay,
            hello,
            migration,
            recent_backup,
            received_info,
            recent_root,
            topology_change,
            loopback,
            quarantine,
            transmit,
        ] {
            timer.rebase(by);
        }
    }
}

/// A port. Names are those of the standard, in the words of [`Role`] and [`PortState`].
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the standard's machines hand on to each other by these")]
pub(crate) struct Port {
    pub(crate) config: PortConfig,
    /// Priority and number.
    pub(crate) id: u16,
    pub(crate) has_link: bool,
    /// A BPDU came where none may.
    pub(crate) is_shut: bool,
    pub(crate) role: Role,
    pub(crate) selected_role: Role,
    pub(crate) info_is: InfoIs,
    /// The best that is known of the root on this link.
    pub(crate) priority: Vector,
    pub(crate) times: Times,
    /// What this bridge would say.
    pub(crate) designated: Vector,
    pub(crate) designated_times: Times,
    /// A BPDU that was not looked at yet.
    pub(crate) received: Option<BpduRepr>,
    pub(crate) agree: bool,
    pub(crate) agreed: bool,
    pub(crate) proposed: bool,
    pub(crate) proposing: bool,
    pub(crate) disputed: bool,
    /// Whether it has said anything since it has its link.
    pub(crate) has_spoken: bool,
    /// Whether a bridge was heard since then.
    pub(crate) has_heard: bool,
    /// Whether it takes back what it has said or agreed to, and the other end does not know yet.
    pub(crate) takes_back: bool,
    pub(crate) sync: bool,
    pub(crate) synced: bool,
    pub(crate) re_root: bool,
    pub(crate) reselect: bool,
    pub(crate) selected: bool,
    pub(crate) update_info: bool,
    pub(crate) learn: bool,
    pub(crate) forward: bool,
    pub(crate) learning: bool,
    pub(crate) forwarding: bool,
    pub(crate) oper_edge: bool,
    pub(crate) send_rstp: bool,
    pub(crate) new_info: bool,
    pub(crate) received_tc: bool,
    pub(crate) received_tcn: bool,
    pub(crate) received_tc_ack: bool,
    pub(crate) tc_ack: bool,
    pub(crate) tc_prop: bool,
    pub(crate) change: ChangeState,
    /// How many BPDUs it has sent lately.
    pub(crate) transmitted: u8,
    pub(crate) timers: Timers,
    pub(crate) counters: PortCounters,
}

impl Port {
    pub(crate) fn new(config: PortConfig, number: usize) -> Self {
        let id = u16::from(config.priority >> 4) << 12 | (number as u16 + 1) & 0x0fff;
        Self { config, id, sync: true, re_root: true, new_info: true, ..Self::default() }
    }

    /// Whether it takes part.
    pub(crate) const fn is_enabled(&self) -> bool {
        self.has_link && !self.is_shut
    }

    /// Whether its role may be acted upon.
    pub(crate) const fn is_selected(&self) -> bool {
        self.selected && !self.update_info
    }

    /// Whether the other end can agree to something.
    pub(crate) const fn can_agree(&self) -> bool {
        self.send_rstp && self.config.point_to_point
    }

    pub(crate) const fn state(&self) -> PortState {
        match (self.learning, self.forwarding) {
            (_, true) => PortState::Forwarding,
            (true, false) => PortState::Learning,
            (false, false) => PortState::Discarding,
        }
    }
}

impl Rebase for Port {
    fn rebase(&mut self, by: Span) {
        self.timers.rebase(by);
    }
}
