//! What goes into the machine and what comes out of it.

use core::fmt;

use machine::ServerId;
use machine::nanos::Span;
use tree::{Bytes, Path};

use crate::{AttemptId, Bucket, Error, Message, Offer, ProviderId};

/// A call of a local client. The driver numbers them; a number can be used again after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One delivery of a call to a local provider; the machine numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A call as a local client makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Comes back in [`Output::Answer`].
    pub id: CallId,
    /// Module and procedure, such as `people:add-person`.
    pub name: String,
    /// The data that it is about: chooses the provider. `None`: only providers for all data.
    pub path: Option<Path>,
    /// What the procedure gets; [`crate::config::PAYLOAD_BYTES_MAX`] bytes at most.
    pub input: Bytes,
    /// The call ends within this; above zero, [`crate::config::TIMEOUT_MAX`] at most.
    pub timeout: Span,
    /// Whether executing it twice does no harm. Then it goes to another provider when it may have been executed and no answer came.
    pub idempotent: bool,
}

/// What the driver tells the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Another server sent this.
    Message {
        /// Who; the driver knows from the connection.
        from: ServerId,
        /// The message.
        message: Message,
    },
    /// All servers of the cluster, as the meta group has them; this one may be among them. Buckets of others are dropped.
    Members(Vec<ServerId>),
    /// The servers that can be reached now. A server that is no longer among them is lost, as by [`Input::ServerLost`].
    Live(Vec<ServerId>),
    /// The connection to a server broke: what it was asked and has not answered may be executed or not.
    ServerLost(ServerId),
    /// A call could not even be sent: it was certainly not executed.
    Unsent {
        /// The server that it was to go to.
        to: ServerId,
        /// The attempt that the [`Message::Call`] named.
        attempt: AttemptId,
    },
    /// A local client offers procedures, besides those that it offers already.
    Offer {
        /// The connection of the provider.
        provider: ProviderId,
        /// All are taken or, with [`Output::OfferRefused`], none.
        offers: Vec<Offer>,
    },
    /// A local client offers these no longer. It still answers what it was asked before.
    Withdraw {
        /// The connection of the provider.
        provider: ProviderId,
        /// What it does not offer is ignored.
        offers: Vec<Offer>,
    },
    /// A local client's connection ended.
    ProviderGone(ProviderId),
    /// A local client calls.
    Call(Call),
    /// A local client wants no answer any more. The call may be executed or not.
    Cancel(CallId),
    /// A local provider could not be asked: it has certainly not executed the call.
    Undelivered {
        /// The delivery that the [`Output::Deliver`] named.
        delivery: DeliveryId,
    },
    /// A local provider answers.
    Reply {
        /// The connection of the provider.
        provider: ProviderId,
        /// The delivery that the [`Output::Deliver`] named.
        delivery: DeliveryId,
        /// The output, or the provider's words about why it did not succeed.
        result: Result<Bytes, String>,
    },
}

/// What the driver is to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this; it may be lost.
    Send {
        /// The server that it goes to.
        to: ServerId,
        /// The message.
        message: Message,
    },
    /// Have a local client execute a procedure, and bring back [`Input::Reply`].
    Deliver {
        /// The connection of the provider.
        provider: ProviderId,
        /// The number to repeat in the reply.
        delivery: DeliveryId,
        /// The name of the procedure.
        name: String,
        /// The data that it is about.
        path: Option<Path>,
        /// What it gets.
        input: Bytes,
    },
    /// A delivery has ended, by an answer or because nobody waits for one any more; comes once for each [`Output::Deliver`], and after it.
    Ended {
        /// The provider that had it.
        provider: ProviderId,
        /// The delivery that the [`Output::Deliver`] named.
        delivery: DeliveryId,
    },
    /// The end of a local client's call.
    Answer {
        /// The number of the call.
        id: CallId,
        /// The output, or why there is none.
        result: Result<Bytes, Error>,
    },
    /// The provider's last [`Input::Offer`] changed nothing.
    OfferRefused {
        /// The connection of the provider.
        provider: ProviderId,
        /// Why it failed.
        error: Error,
    },
    /// A message of another server was refused as a whole: to be logged.
    MessageRefused {
        /// Who sent it.
        from: ServerId,
        /// Why it failed.
        error: Error,
    },
}

/// What the machine has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Status messages sent.
    pub statuses_sent: u64,
    /// Envelopes that were sent.
    pub envelopes_sent: u64,
    /// Buckets taken from envelopes.
    pub buckets_taken: u64,
    /// Messages of other servers that were refused.
    pub messages_refused: u64,
    /// Times that another server claimed a version above the own one: the last start's incarnation was too low.
    pub versions_refuted: u64,
    /// Calls of local clients.
    pub calls: u64,
    /// Of these, answered by a provider, with an output or an error of its own.
    pub calls_completed: u64,
    /// Of these, ended with an error of the broker.
    pub calls_failed: u64,
    /// Of these, given up by the caller.
    pub calls_cancelled: u64,
    /// Attempts after a call's first one.
    pub failovers: u64,
    /// Calls sent to other servers.
    pub attempts_sent: u64,
    /// Calls delivered to local providers.
    pub deliveries: u64,
    /// Calls of other servers that no local provider takes.
    pub not_here: u64,
    /// Calls of other servers that were refused because a bound was reached.
    pub refused_busy: u64,
    /// Repeats of calls of other servers.
    pub repeats: u64,
    /// Answers to what nobody waits for any more.
    pub late_answers: u64,
}

/// What a status page shows of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The server that it is about.
    pub server: ServerId,
    /// Whether it can be reached now; true for this server.
    pub is_live: bool,
    /// What it offers; `None`: nothing was heard of it yet.
    pub bucket: Option<Bucket>,
    /// Calls under way to it; at this server, deliveries that are not answered.
    pub calls_under_way: usize,
}
