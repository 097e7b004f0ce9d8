//! The ends of a TCP flow, whichever of the two kinds they are of: the studies' ([`crate::sender`]) or Linux's ([`crate::linux`]).

use machine::{Control, Step, Time};

use crate::{Ack, Receiver, Segment, Sender, TransportKind, TransportSpec, linux, receiver, sender};

/// What sends.
#[expect(
    clippy::large_enum_variant,
    reason = "flows of one run are all of one kind, and a pointer more costs at each packet"
)]
#[derive(Clone, Debug)]
pub enum SendingEnd {
    /// As the studies had it.
    Study(Sender),
    /// As Linux has it.
    Linux(Box<linux::Sender>),
}

/// What receives.
#[derive(Clone, Debug)]
pub enum ReceivingEnd {
    /// As the studies had it.
    Study(Receiver),
    /// As Linux has it.
    Linux(Box<linux::Receiver>),
}

impl SendingEnd {
    /// One that waits for [`sender::Input::Start`].
    pub fn new(spec: &TransportSpec) -> Self {
        match spec.kind {
            TransportKind::Linux => Self::Linux(Box::new(linux::Sender::new(spec))),
            _ => Self::Study(Sender::new(spec)),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> sender::Counters {
        match self {
            Self::Study(sender) => sender.counters(),
            Self::Linux(sender) => {
                let linux::Counters { segments, retransmits, recoveries, timeouts, .. } = sender.counters();
                sender::Counters { segments, retransmits, fast_retransmits: recoveries, timeouts }
            }
        }
    }

    /// The first byte that is not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        match self {
            Self::Study(sender) => sender.unacknowledged(),
            Self::Linux(sender) => sender.unacknowledged(),
        }
    }

    /// Bytes sent and not yet acknowledged. Never above the receive window.
    pub fn flight(&self) -> u64 {
        match self {
            Self::Study(sender) => sender.flight(),
            Self::Linux(sender) => sender.flight(),
        }
    }
}

impl ReceivingEnd {
    /// One that has seen nothing.
    pub fn new(spec: &TransportSpec) -> Self {
        match spec.kind {
            TransportKind::Linux => Self::Linux(Box::new(linux::Receiver::new(spec))),
            _ => Self::Study(Receiver::new(spec)),
        }
    }

    /// Bytes given to the application, in order.
    pub fn delivered_bytes(&self) -> u64 {
        match self {
            Self::Study(receiver) => receiver.delivered_bytes(),
            Self::Linux(receiver) => receiver.delivered_bytes(),
        }
    }
}

impl Control for SendingEnd {
    type Input = sender::Input;
    type Output = Segment;

    #[inline]
    fn handle(&mut self, now: Time, input: sender::Input) {
        match self {
            Self::Study(sender) => sender.handle(now, input),
            Self::Linux(sender) => sender.handle(now, input),
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Step<Segment> {
        match self {
            Self::Study(sender) => sender.poll(now),
            Self::Linux(sender) => sender.poll(now),
        }
    }
}

impl Control for ReceivingEnd {
    type Input = receiver::Input;
    type Output = Ack;

    #[inline]
    fn handle(&mut self, now: Time, input: receiver::Input) {
        match self {
            Self::Study(receiver) => receiver.handle(now, input),
            Self::Linux(receiver) => receiver.handle(now, input),
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Step<Ack> {
        match self {
            Self::Study(receiver) => receiver.poll(now),
            Self::Linux(receiver) => receiver.poll(now),
        }
    }
}
