//! Removing what daemons left that were killed.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::runtime::Folder;
use crate::{Error, process};

/// How long a daemon may take until it says which process it is.
const COMING_UP: Duration = Duration::from_secs(5);

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Networks whose process had died.
    pub instances: Vec<String>,
    /// Processes that still ran in their hosts.
    pub processes: usize,
}

impl fmt::Display for Cleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instances.is_empty() {
            return f.write_str("nothing was left behind");
        }
        let plural = if self.processes == 1 { "" } else { "es" };
        write!(f, "removed what was left of {}; ended {} process{plural}", self.instances.join(", "), self.processes)
    }
}

/// Removes what daemons of this user left when they were killed: processes in their hosts, and with the last of them the
/// namespaces; and their folders. Networks that are up are not touched.
///
/// # Errors
/// If a folder cannot be read or removed.
pub fn clean() -> Result<Cleaned, Error> {
    let mut cleaned = Cleaned::default();
    for (name, folder) in Folder::all()? {
        if let Some(processes) = clean_one(&folder)? {
            cleaned.instances.push(name);
            cleaned.processes += processes;
        }
    }
    Ok(cleaned)
}

/// Removes what the daemon of `folder` left, if it is dead. Returns how many processes still ran; `None` if there was nothing to
/// do.
pub fn clean_one(folder: &Folder) -> Result<Option<usize>, Error> {
    let processes = match folder.state() {
        Some(state) if state.is_alive() => return Ok(None),
        Some(state) => process::end(&state.mark, None),
        None if may_come_up(folder) => return Ok(None),
        None => 0,
    };
    folder.remove()?;
    Ok(Some(processes))
}

/// Whether a folder without a state may belong to a daemon that is just coming up.
pub fn may_come_up(folder: &Folder) -> bool {
    folder.age().is_none_or(|age| age < COMING_UP)
}
