//! The endpoints of a TCP flow, whichever of the two kinds they are of: the studies' ([`crate::sender`]) or Linux's ([`crate::linux`]).

use machine::{Control, Span, Step, Time};

use crate::{Receiver, Sender, TransportKind, TransportSpec, linux, sender};

/// An endpoint of either kind.
#[derive(Clone, Debug)]
pub enum Endpoint<S, L> {
    /// As the studies had it.
    Study(S),
    /// As Linux has it. It is the larger one.
    Linux(Box<L>),
}

/// What sends.
pub type SendingEndpoint = Endpoint<Sender, linux::Sender>;
/// What receives.
pub type ReceivingEndpoint = Endpoint<Receiver, linux::Receiver>;

impl SendingEndpoint {
    /// One that waits for [`sender::Input::Start`].
    pub fn new(spec: &TransportSpec) -> Self {
        match spec.kind {
            TransportKind::Linux => Self::Linux(Box::new(linux::Sender::new(spec))),
            _ => Self::Study(Sender::new(spec)),
        }
    }

    /// Where randomness starts that a congestion control of Linux may have.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        if let Self::Linux(sender) = &mut self {
            sender.set_seed(seed);
        }
        self
    }

    /// There is no more to send than this, in bytes since the beginning, of which whole segments count. Without it data are endless.
    pub fn write(&mut self, now: Time, bytes: u64) {
        match self {
            Self::Study(sender) => sender.write(bytes),
            Self::Linux(sender) => sender.write(now, bytes),
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

    /// The congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        match self {
            Self::Study(sender) => sender.cwnd(),
            Self::Linux(sender) => sender.cwnd(),
        }
    }

    /// The smoothed round-trip time; `None` before the first one was measured.
    pub const fn smoothed_rtt(&self) -> Option<Span> {
        match self {
            Self::Study(sender) => sender.smoothed_rtt(),
            Self::Linux(sender) => sender.smoothed_rtt(),
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

impl ReceivingEndpoint {
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

impl<S: Control, L: Control<Input = S::Input, Output = S::Output>> Control for Endpoint<S, L> {
    type Input = S::Input;
    type Output = S::Output;

    #[inline]
    fn handle(&mut self, now: Time, input: S::Input) {
        match self {
            Self::Study(study) => study.handle(now, input),
            Self::Linux(linux) => linux.handle(now, input),
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Step<S::Output> {
        match self {
            Self::Study(study) => study.poll(now),
            Self::Linux(linux) => linux.poll(now),
        }
    }
}
