//! What can go wrong, for callers, providers and peers.

use core::fmt;

use machine::ServerId;
use machine::nanos::Span;
use serde::{Deserialize, Serialize};
use tree::Path;

use crate::Version;
use crate::config::{
    BUCKET_BYTES_MAX, CALL_BYTES_MAX, CALLS_MAX, NAME_BYTES_MAX, OFFERS_MAX, PAYLOAD_BYTES_MAX, SERVERS_MAX,
    TIMEOUT_MAX,
};

/// Why a call, an offer or a message was not accepted or not completed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// Nobody offers it. The call was not executed.
    #[error("no server offers {name}{}", on(path.as_deref()))]
    NoProvider {
        /// The procedure that was called.
        name: String,
        /// The path that was to choose the provider.
        path: Option<String>,
    },
    /// Only servers offer it that cannot be reached now. The call was not executed.
    #[error("{name} is offered by server {server} alone, which cannot be reached\nhint: try again when it is back")]
    Unreachable {
        /// The procedure that was called.
        name: String,
        /// One of the servers that offer it.
        server: ServerId,
    },
    /// The provider was lost after the call had been sent to it. The call may have been executed, or not.
    #[error(
        "the provider on server {server} {reason} before it answered; the call may have been executed\nhint: mark calls that may be repeated as idempotent"
    )]
    ProviderLost {
        /// Where the provider was.
        server: ServerId,
        /// How this came out.
        reason: Loss,
    },
    /// Too many calls are under way. The call was not executed.
    #[error("{what} is at its bound of {bound}; the call was not executed\nhint: try again a little later")]
    Busy {
        /// What is full.
        what: Bound,
        /// How many it holds.
        bound: u64,
    },
    /// The provider executed the call and answered with an error.
    #[error("the provider answered with an error: {text}")]
    Failed {
        /// The provider's words.
        text: String,
    },
    /// The call's input exceeds the bound.
    #[error(
        "an input of {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are possible\nhint: store large data in the tree and pass its path"
    )]
    InputTooLarge {
        /// The bytes that it has.
        bytes: u64,
    },
    /// The provider's answer exceeds the bound.
    #[error(
        "the provider answered with {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are possible\nhint: store large data in the tree and answer with its path"
    )]
    OutputTooLarge {
        /// The bytes that it has.
        bytes: u64,
    },
    /// No time, or too much of it.
    #[error("a timeout of {} s; it must lie above 0 and at most {} s", timeout.as_secs_f64(), TIMEOUT_MAX.as_secs_f64())]
    Timeout {
        /// What the caller asked for.
        timeout: Span,
    },
    /// The caller uses a number of a call that is still under way.
    #[error("call {id} is still under way\nhint: give each call a number of its own")]
    CallUnderWay {
        /// The number that is in use.
        id: u64,
    },
    /// A name of no or too many characters, or with blanks or control characters in it.
    #[error(
        "{name:?} is no name of a procedure: 1 to {NAME_BYTES_MAX} bytes without blanks were expected, such as people:add-person"
    )]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// A bucket would exceed its bounds.
    #[error(
        "{offers} offers of {bytes} bytes; a server can have {OFFERS_MAX} of together {BUCKET_BYTES_MAX} bytes\nhint: offer a path that contains the others"
    )]
    TooManyOffers {
        /// How many there would be.
        offers: u64,
        /// Bytes of all names and paths.
        bytes: u64,
    },
    /// A status or an envelope names more servers than a cluster can have.
    #[error("a message about {servers} servers; a cluster has at most {SERVERS_MAX}")]
    TooManyServers {
        /// How many it names.
        servers: u64,
    },
    /// A version that no server can have reached.
    #[error("version {version} for the bucket of server {server} is not possible")]
    Version {
        /// The server whose bucket it is.
        server: ServerId,
        /// What was claimed.
        version: Version,
    },
    /// A message from a process that is no member of the cluster.
    #[error("server {server} is no member of this cluster\nhint: it may have been removed, or has joined a moment ago")]
    Stranger {
        /// Who sent it.
        server: ServerId,
    },
}

/// How it came out that a provider was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// The provider's connection to its server ended.
    Disconnected,
    /// Its server was lost.
    ServerLost,
    /// Its server has started anew since.
    Restarted,
    /// No answer came before the call's timeout.
    Silent,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disconnected => "disconnected",
            Self::ServerLost => "was lost with its server",
            Self::Restarted => "was lost when its server started anew",
            Self::Silent => "was silent until the timeout",
        })
    }
}

/// What can be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// [`CALLS_MAX`] calls are under way.
    Calls,
    /// Calls under way hold [`CALL_BYTES_MAX`] bytes.
    CallBytes,
    /// [`crate::config::CALLS_PER_SERVER_MAX`] calls are under way at that server.
    CallsToServer,
    /// [`crate::config::EXECUTIONS_MAX`], here or at another server.
    Executions,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calls => "the number of calls under way",
            Self::CallBytes => "the size of the inputs of all calls under way",
            Self::CallsToServer => "the number of calls under way to the server that offers it",
            Self::Executions => "the number of calls that providers have not answered",
        })
    }
}

impl Error {
    pub(crate) fn no_provider(name: &str, path: Option<&Path>) -> Self {
        Self::NoProvider { name: name.to_owned(), path: path.map(|path| path.as_str().to_owned()) }
    }

    pub(crate) fn busy(what: Bound) -> Self {
        let bound = match what {
            Bound::Calls => CALLS_MAX,
            Bound::CallBytes => CALL_BYTES_MAX,
            Bound::CallsToServer => crate::config::CALLS_PER_SERVER_MAX,
            Bound::Executions => crate::config::EXECUTIONS_MAX,
        };
        Self::Busy { what, bound: bound as u64 }
    }
}

fn on(path: Option<&str>) -> String {
    path.map_or_else(String::new, |path| format!(" for {path}"))
}

/// At most 80 bytes of a text from elsewhere, for an error.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
