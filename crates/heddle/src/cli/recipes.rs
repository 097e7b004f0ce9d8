//! Leases, transactions, locks and elections on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use tree::{LeaseId, Path};

use super::actions::{LocationArgs, long_duration};

#[derive(Debug, Subcommand)]
pub enum LeaseAction {
    /// Begin a lease, and print its number
    Grant {
        /// How long it lives without being kept alive, as in 10s or 5m: 1s to 720h
        #[arg(value_name = "TIME", value_parser = long_duration)]
        ttl: Duration,
        /// What it is for: it lives in the shard that has this path, and moves with it
        path: Path,
        /// Its number, in hexadecimal; if left out, a random one
        #[arg(long, value_name = "LEASE")]
        id: Option<LeaseId>,
    },
    /// End a lease; the values that were written with it are deleted
    Revoke {
        #[command(flatten)]
        lease: LeaseName,
    },
    /// Show how long a lease has left, and the values that go with it
    Ttl {
        #[command(flatten)]
        lease: LeaseName,
    },
    /// Keep a lease alive until interrupted, or until it has ended
    KeepAlive {
        #[command(flatten)]
        lease: LeaseName,
        /// Once, instead of until interrupted
        #[arg(long)]
        once: bool,
    },
    /// List all leases
    List,
}

/// A lease by its number.
#[derive(Debug, Args)]
pub struct LeaseName {
    /// The lease, as `lease grant` printed it
    pub lease: LeaseId,
    /// The path that it was granted for; if left out, it is looked for in all shards
    #[arg(long, value_name = "PATH")]
    pub at: Option<Path>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A TRANSACTION, one step a line; `#` begins a comment

  if                                      all of these, or `else`; may be left
                                          out
    /car:cars/car-entry=1 is absent       or: is present
    /car:cars/car-entry=2 = red           the value; or: !=
    /car:cars/car-entry=3 etag = 17       or: !=, <, >
  then
    put /car:cars/car-entry=1 blue        or: create, replace
    put --lease 2f /car:cars/car-entry=4 \"\\u0000 and spaces \"
    delete /car:cars/car-entry=5          refused if it is not there; or: remove
    get /car:cars/car-entry=2             read as the transaction left it
  else
    get /car:cars/car-entry=1

A value reaches to the end of its line, or is a string as in JSON. --datastore
may stand before any path. Everything is done or nothing, and all of it must be
in one shard.

EXIT STATUS
  0  the conditions held, and `then` was done
  1  a condition did not hold: `else` was done if there is one; or the data
     refused a change, and nothing was done
  2  an error")]
pub struct Txn {
    /// The file; `-`, or none: standard input
    #[arg(default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
COMMAND gets these in its environment:
  HEDDLE_LOCK_TOKEN  the fencing token: larger for each holder than for the one
                     before
  HEDDLE_LOCK_ENTRY  the path of the entry that has it as its entity tag, as a
                     condition of transactions
  HEDDLE_LOCK_LEASE  the lease

EXIT STATUS
  that of COMMAND; 128 and the signal's number if it was killed by one
  125  the lock could not be had, within --timeout if that was given, or was
       lost: then COMMAND was ended first (SIGTERM, after 5 s SIGKILL)
  126  COMMAND cannot be run
  127  there is no such COMMAND")]
pub struct Lock {
    #[command(flatten)]
    pub at: LocationArgs,
    /// Others get the lock if this program is not heard of for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = long_duration)]
    pub ttl: Duration,
    /// What to run while the lock is held; without one, the lock is held until interrupted
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Elect {
    #[command(flatten)]
    pub at: LocationArgs,
    /// Stand for election under this name, and stay elected until interrupted
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    pub name: Option<String>,
    /// Print the winner of each election until interrupted: --timeout does not count
    #[arg(long)]
    pub listen: bool,
    /// Another is elected if this program is not heard of for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = long_duration)]
    pub ttl: Duration,
}
