//! Texts that are read and printed, and tables against a search through a list.

mod changes;
mod connections;
mod labels;
mod meters;
mod model;
mod reference;
mod texts;

use super::{Flow, FlowError, Group, Ports};

/// A switch with hosts at ports 0 to 2 and two links to another switch.
fn ports() -> Ports {
    Ports::to(&["h0", "h1", "h2", "s2", "s2"])
}

fn flow(text: &str) -> Flow {
    Flow::parse(text, &ports()).unwrap_or_else(|error| panic!("{text}: {error} ({})", error.hint))
}

fn group(text: &str) -> Group {
    Group::parse(text, &ports()).unwrap_or_else(|error| panic!("{text}: {error} ({})", error.hint))
}

/// What is wrong with a text, the piece that is wrong, and the hint.
fn complaint(text: &str, error: &FlowError) -> String {
    format!("[{}] {} ({})", &text[error.at.clone()], error.message, error.hint)
}
