//! How many files a process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit to what is allowed: each connection is an open file.
pub(crate) fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Without it, fewer connections are possible, and those that are too many are counted.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
