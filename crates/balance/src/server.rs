//! One server of a service: what it is doing, and whether it may get connections.

use machine::{Rebase, Span, Time};
use serde::Serialize;

use crate::config::ServerSpec;

/// A server of a [`crate::Service`]. It stays the same as long as the server has connections or stands in the specification; afterwards it names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    slot: u16,
    /// Counts the servers that have had this slot.
    generation: u16,
}

impl ServerId {
    pub(crate) const fn new(slot: usize, generation: u16) -> Self {
        Self { slot: slot as u16, generation }
    }

    /// A small number that no other server of the service has at the same time, for tables of the driver.
    pub const fn index(self) -> usize {
        self.slot as usize
    }

    pub(crate) const fn generation(self) -> u16 {
        self.generation
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Completed,
    /// The server answered that it cannot (HTTP's 5xx), for drivers that read answers.
    Error,
    /// The server reset it before any answer.
    Reset,
    /// The server refused it, or said that it has no such port.
    Refused,
    /// No answer came in time.
    TimedOut,
    /// It was silent for so long that it was given up, or its driver lost it: nothing is known of the server by that.
    Expired,
}

impl Outcome {
    /// Whether it speaks against the server.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Error | Self::Reset | Self::Refused | Self::TimedOut => true,
            Self::Completed | Self::Expired => false,
        }
    }
}

/// Why a server gets no connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// It is to get none: drained by hand, of weight 0, or no longer specified.
    Draining,
    /// Health checks find it down.
    Down,
    /// It has as many connections as it may have.
    Full,
}

/// What a server is doing, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Whom [`crate::Service`] means by it.
    #[serde(skip)]
    pub id: ServerId,
    /// As specified, or as set since.
    pub weight: u32,
    /// Established connections, as IPVS counts them.
    pub active: u32,
    /// Connections that are closing.
    pub inactive: u32,
    /// Connections since the start.
    pub opened: u64,
    /// Those that ended as they should.
    pub completed: u64,
    /// Those that ended with a failure of the server.
    pub failed: u64,
    /// Why it gets nothing, if so.
    pub unavailable: Option<Unavailable>,
}

/// What the service keeps of one server.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent of each other")]
pub(crate) struct Server {
    pub id: ServerId,
    /// Whether the scheduler may take it now. Kept by [`crate::servers::Servers`].
    pub is_candidate: bool,
    pub active: u32,
    pub inactive: u32,
    pub weight: u32,
    /// The last weight that was not zero; by it Maglev's table goes.
    pub last_weight: u32,
    pub opened: u64,
    pub completed: u64,
    pub failed: u64,
    /// What health checks say; without any, it is healthy.
    pub is_healthy: bool,
    /// Drained by hand.
    pub is_drained: bool,
    /// Whether it has reached its limit and is not below the lower one yet.
    pub is_full: bool,
    pub is_specified: bool,
    pub spec: ServerSpec,
}

impl Server {
    pub fn new(id: ServerId, spec: ServerSpec) -> Self {
        Self {
            id,
            is_candidate: false,
            active: 0,
            inactive: 0,
            weight: spec.weight,
            last_weight: spec.weight,
            opened: 0,
            completed: 0,
            failed: 0,
            is_healthy: true,
            is_drained: false,
            is_full: false,
            is_specified: true,
            spec,
        }
    }

    /// Gives it another weight.
    pub fn set_weight(&mut self, weight: u32) {
        self.weight = weight;
        if weight > 0 {
            self.last_weight = weight;
        }
    }

    /// All connections that it has.
    pub const fn connections(&self) -> u32 {
        self.active + self.inactive
    }

    /// Why it gets nothing, if so. The first reason that applies.
    pub fn unavailable(&self) -> Option<Unavailable> {
        if !self.is_specified || self.is_drained || self.weight == 0 {
            Some(Unavailable::Draining)
        } else if !self.is_healthy {
            Some(Unavailable::Down)
        } else if self.is_full {
            Some(Unavailable::Full)
        } else {
            None
        }
    }

    /// Compares its connections with its limits. True if it has become full, or is so no longer.
    pub fn check_limit(&mut self) -> bool {
        let Some(max) = self.spec.connections_max else { return core::mem::take(&mut self.is_full) };
        let before = self.is_full;
        let resume = self.spec.connections_resume.unwrap_or(max);
        self.is_full = self.connections() >= if before { resume } else { max };
        self.is_full != before
    }

    pub fn status(&self, _now: Time) -> ServerStatus {
        ServerStatus {
            name: self.spec.name.clone(),
            id: self.id,
            weight: self.weight,
            active: self.active,
            inactive: self.inactive,
            opened: self.opened,
            completed: self.completed,
            failed: self.failed,
            unavailable: self.unavailable(),
        }
    }
}

impl Rebase for Server {
    fn rebase(&mut self, _by: Span) {
        let Self {
            id: _,
            is_candidate: _,
            active: _,
            inactive: _,
            weight: _,
            last_weight: _,
            opened: _,
            completed: _,
            failed: _,
            is_healthy: _,
            is_drained: _,
            is_full: _,
            is_specified: _,
            spec: _,
        } = self;
    }
}
