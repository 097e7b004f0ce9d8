//! Why a probe has failed.

use std::io;

use balance::health::BadAnswer;

/// Why a server is not well.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing came in time.
    #[error("no answer in time")]
    TimedOut,
    /// Nobody listens.
    #[error("connection refused")]
    Refused,
    /// The connection or the socket failed otherwise.
    #[error("{0}")]
    Io(io::Error),
    /// The certificate is not good, or the other side speaks no TLS.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// HTTP/2 failed.
    #[error("HTTP/2: {0}")]
    Http2(#[from] h2::Error),
    /// What came says that it is not well.
    #[error("{0}")]
    Answer(#[from] BadAnswer),
    /// The check itself cannot be made.
    #[error("this check cannot be made: {0}")]
    Check(String),
    /// The program has said no.
    #[error("{status}{}", .said.as_ref().map_or_else(String::new, |line| format!(": {line}")))]
    Command {
        /// How it ended.
        status: String,
        /// The last line of its output.
        said: Option<String>,
    },
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(tls) => Self::Tls(tls.clone()),
                None => Self::Io(error),
            },
        }
    }
}
