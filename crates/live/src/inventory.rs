//! Which networks of this user there are, and what is left of those whose process has died.

use std::time::Duration;

use crate::control::Status;
use crate::runtime::{Folder, State};
use crate::{Error, Instance, clean, process};

/// How long a daemon may take to say what it is: others are to be listed, too.
const PATIENCE: Duration = Duration::from_secs(5);

/// A network in the runtime folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What is there of it.
    pub presence: Presence,
}

/// What is there of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is up: what its process says.
    Up(Box<Status>),
    /// Its process runs, and does not say what it is.
    Silent {
        /// The process.
        pid: i32,
        /// Why there is no answer.
        reason: String,
    },
    /// Its process has died; [`crate::clean`](fn@crate::clean) removes what it left.
    Crashed {
        /// The process, if it came so far that it wrote its number down.
        pid: Option<i32>,
        /// How many programs still run in its hosts.
        processes: usize,
    },
}

/// All networks of this user, by name: those that are up, those that end with a client, and what crashed ones left.
///
/// # Errors
/// If the runtime folder cannot be read.
pub fn inventory() -> Result<Vec<Listed>, Error> {
    let listed = |(name, folder): (String, Folder)| Some(Listed { presence: presence(&name, &folder)?, name });
    Ok(Folder::all()?.into_iter().filter_map(listed).collect())
}

/// What is there of the network that has this folder; `None`: nothing yet, or nothing any more.
fn presence(name: &str, folder: &Folder) -> Option<Presence> {
    match folder.state() {
        Some(state) if state.is_alive() => running(name, &state),
        Some(state) => Some(Presence::Crashed { pid: Some(state.pid), processes: process::count(&state.mark) }),
        None if clean::may_come_up(folder) => None,
        None => Some(Presence::Crashed { pid: None, processes: 0 }),
    }
}

fn running(name: &str, state: &State) -> Option<Presence> {
    let instance = Instance::connect_within(name, PATIENCE).transpose()?;
    match instance.and_then(|instance| instance.status()) {
        Ok(status) => Some(Presence::Up(Box::new(status))),
        // It has ended since.
        Err(Error::Gone) if !state.is_alive() => None,
        Err(Error::Gone | Error::Silent { .. }) => {
            Some(Presence::Silent { pid: state.pid, reason: "it does not answer".to_owned() })
        }
        Err(error) => Some(Presence::Silent { pid: state.pid, reason: error.to_string() }),
    }
}
