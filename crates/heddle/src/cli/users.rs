//! `heddle cluster user`, `role`, `auth`: who may do what.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use placement::access::Operation;
use tree::Path;

use super::actions::Datastore;

#[derive(Debug, Subcommand)]
pub enum AuthAction {
    /// Let only users do something, and only what their roles allow
    ///
    /// Done by a user with the role root, who shows by it that one can log in. From when this is answered, every server that
    /// has heard of it refuses whoever has not logged in; it says which servers have not.
    Enable,
    /// Take requests of everybody again
    Disable,
    /// Say whether users are checked
    Status,
}

#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// Make a user
    ///
    /// NAME is the common name of the user's certificate, `uid:` and the number of a user of this machine (for connections
    /// within it, without TLS), or any name for a user with a token. A token is shown once; the cluster keeps its hash.
    Add {
        /// Name of the user
        name: String,
        /// A role (may be given several times)
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
        /// Draw a token, and print it
        #[arg(long)]
        token: bool,
        /// The token expires after this, as in 12h or 30d
        #[arg(long, value_name = "TIME", requires = "token", value_parser = span)]
        expires: Option<Duration>,
    },
    /// Take a user away; it may do nothing any more, on open connections either
    Delete {
        /// Name of the user
        name: String,
    },
    /// List the users
    List,
    /// Give a user a role
    Grant {
        /// Name of the user
        name: String,
        /// Name of the role
        role: String,
    },
    /// Take a role from a user
    Revoke {
        /// Name of the user
        name: String,
        /// Name of the role
        role: String,
    },
    /// Draw a new token, and print it; the one before is worth nothing any more
    Token {
        /// Name of the user
        name: String,
        /// It expires after this, as in 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = span)]
        expires: Option<Duration>,
        /// Take the token away instead
        #[arg(long, conflicts_with = "expires")]
        remove: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum RoleAction {
    /// Make a role that may do nothing yet
    Add {
        /// Name of the role
        name: String,
    },
    /// Take a role away, from its users too
    Delete {
        /// Name of the role
        name: String,
    },
    /// List the roles, and what they may do
    List,
    /// Allow a role something
    ///
    /// `read`, `write`, `delete`, `watch` need a path, and are good for all below it; `call` and `offer` the name of an RPC,
    /// or `people:` for all of a module, or `*`; `status`, `members`, `shards`, `leaders`, `backup`, `users` are about the cluster
    /// itself. A list or a watch needs the right to read all of its subtree; a watch also the right to watch, and a condition the right
    /// to read what it is about.
    Grant(GrantArgs),
    /// Allow it no more: these operations of exactly this path or RPC
    Revoke(GrantArgs),
}

#[derive(Debug, Args)]
pub struct GrantArgs {
    /// Name of the role
    pub role: String,
    /// What, with commas between
    #[arg(value_name = "OPERATION,..")]
    pub operations: Operations,
    /// A path, or the name of an RPC
    #[arg(value_name = "PATH|RPC")]
    pub scope: Option<String>,
    /// Of one datastore only
    #[arg(long, value_enum)]
    pub datastore: Option<Datastore>,
    /// Of an RPC: only where it is routed to this path or below it
    #[arg(long, value_name = "PATH")]
    pub path: Option<Path>,
}

/// Operations with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations(pub BTreeSet<Operation>);

impl FromStr for Operations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// A time with a unit, as in `30d`.
fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: expected a number with a unit, as in 90s, 15m, 12h or 30d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    // Ten years are for ever.
    match number.checked_mul(unit) {
        Some(seconds @ 1..=315_360_000) => Ok(Duration::from_secs(seconds)),
        _ => Err("expected more than nothing and at most 3650d".into()),
    }
}

/// What is noted in an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Audited {
    /// Writes, RPCs, everything that runs the cluster, and whatever was denied
    Changes,
    /// Reads, lists and watches as well
    Reads,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for bad in ["", "d", "30", "0s", "4000d", "-1d", "99999999999999999999d", "18446744073709551615d"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
