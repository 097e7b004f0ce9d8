//! What agents on servers say, as text: `HAProxy`'s agent-check and ORCA's load reports, read and written.
//!
//! Both come from machines that may be broken or hostile, so texts are bounded, and whatever is not understood is an error that changes nothing.

mod haproxy;
mod json;
mod orca;

pub use haproxy::{Admin, AgentCheck, State};
pub use orca::{parse_report, write_report};

/// Bytes of a text at most.
pub const TEXT_MAX: usize = 4_096;

/// Why a text of an agent was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Longer than [`TEXT_MAX`].
    #[error("the agent's answer is longer than {TEXT_MAX} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("the agent's answer is no text")]
    NoText,
    /// A word that `HAProxy` does not know.
    #[error("`{0}` is none of up, down, ready, drain, maint, fail, stopped, NN%, maxconn:N")]
    Word(String),
    /// A number that is none, or out of range.
    #[error("{name}: `{value}` is not {expected}")]
    Value {
        /// What it is the value of.
        name: String,
        /// The value as it came.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The same twice.
    #[error("`{0}` stands there twice")]
    Twice(String),
    /// Something else was expected.
    #[error("at byte {at}: {expected} is expected")]
    Syntax {
        /// Where.
        at: usize,
        /// What.
        expected: &'static str,
    },
}

/// The text, if it is one and not too long.
fn text(bytes: &[u8]) -> Result<&str, AgentError> {
    if bytes.len() > TEXT_MAX {
        return Err(AgentError::TooLong);
    }
    core::str::from_utf8(bytes).map_err(|_| AgentError::NoText)
}

/// A part of a text that is short enough to be shown.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
