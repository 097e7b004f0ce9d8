//! What a service does by itself, for logs and consoles.

use std::collections::VecDeque;

use machine::{Rebase, Span, Time};

use crate::server_id::ServerId;

/// Events that wait to be fetched at most; later ones are counted and dropped.
pub const EVENTS_MAX: usize = 64;

/// Something that nobody asked for has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its connections failed: it is out until then.
    Ejected {
        /// The server.
        server: ServerId,
        /// When it is back.
        until: Time,
    },
    /// It has been out for long enough.
    Readmitted(ServerId),
    /// Its agent reports overload.
    Overloaded(ServerId),
    /// Its agent reports that it has recovered, or has said nothing for so long that nobody knows.
    Recovered(ServerId),
    /// Too few servers are left: those that are out get connections.
    PanicBegan,
    /// Enough servers are in again.
    PanicEnded,
}

impl Rebase for Event {
    fn rebase(&mut self, by: Span) {
        match self {
            Self::Ejected { server: _, until } => until.rebase(by),
            Self::Readmitted(_) | Self::Overloaded(_) | Self::Recovered(_) | Self::PanicBegan | Self::PanicEnded => {}
        }
    }
}

/// Events that wait to be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    dropped: u64,
}

impl Events {
    pub fn new() -> Self {
        Self { queue: VecDeque::with_capacity(EVENTS_MAX), dropped: 0 }
    }

    pub fn push(&mut self, event: Event) {
        if self.queue.len() < EVENTS_MAX {
            self.queue.push_back(event);
        } else {
            self.dropped += 1;
        }
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Rebase for Events {
    fn rebase(&mut self, by: Span) {
        let Self { queue, dropped: _ } = self;
        queue.rebase(by);
    }
}
