//! What `heddle cluster` can do, and how it is reached.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use tree::{LeaseId, Path};

use super::recipes::{Elect, LeaseAction, Lock, Txn};
use super::users::{AuthAction, RoleAction, UserAction};
use super::{Bench, CheckPerf, Endpoints, Tls};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Servers and shards are named by their names or their numbers, as `heddle
cluster status` and `heddle cluster shards` list them.

EXIT STATUS
  0  it worked
  1  `check` or `alarms` found something; or the data said no: nothing is at
     the path, or --create, --replace or --if-etag did not hold; nothing was
     changed
  2  an error; nothing was changed unless the message says so, or that it may
     still be done

ENVIRONMENT
  HEDDLE_ENDPOINTS   controllers to ask, as after --endpoints
  HEDDLE_TOKEN       the token to log in with, unless --token-file names one

EXAMPLES
  heddle controller
      start a cluster of one, on this machine
  heddle cluster put /car:cars/car-entry=17 red
      write a value
  heddle cluster get /car:cars/car-entry=17
      read it
  heddle cluster watch /car:cars -o json
      follow changes, one JSON object a line
  heddle cluster lock /job:jobs/job=night -- ./backup
      one at a time
  heddle cluster shards create cars --module car
      give a module a Raft group of its own, while running
  heddle cluster add n2
      how to start a second controller
  heddle cluster check health
      is it well?
  heddle cluster check perf --load m
      does it take 1,000 writes a second?
  heddle cluster backup monday.heddle
      all data, into one file
  heddle cluster restore monday.heddle
      into a new, empty cluster")]
pub struct Cluster {
    #[command(flatten)]
    pub access: Access,
    #[command(subcommand)]
    pub action: Action,
}

/// How the cluster is reached; may stand anywhere behind `cluster`.
#[derive(Debug, Args)]
pub struct Access {
    /// Controllers to ask; one that answers is enough [default: those of `HEDDLE_ENDPOINTS`, else 127.0.0.1:6640]
    #[arg(long, global = true, value_name = "HOST:PORT,..", value_delimiter = ',', help_heading = "Access")]
    pub endpoints: Vec<String>,
    /// Our certificate (PEM), for a cluster with TLS
    #[arg(
        long = "tls-cert",
        global = true,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires_all = ["key", "authority"],
        help_heading = "Access"
    )]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(
        long = "tls-key",
        global = true,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "certificate",
        help_heading = "Access"
    )]
    pub key: Option<PathBuf>,
    /// The authority that signs all certificates of the cluster (PEM)
    #[arg(
        long = "tls-ca",
        global = true,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "certificate",
        help_heading = "Access"
    )]
    pub authority: Option<PathBuf>,
    /// Log in with the token in this file, which nobody else may read
    #[arg(
        long = "token-file",
        global = true,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Access"
    )]
    pub token_file: Option<PathBuf>,
    /// Give up after this long, as in 500ms, 5s or 1m [default: 5s; `bench` and `check perf` 10s, `restore` 60s a step; `lock` and
    /// `elect` wait for their turn as long as it takes]
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        value_parser = duration,
        help_heading = "Access"
    )]
    pub timeout: Option<Duration>,
}

impl Access {
    /// How long a request may take; this long by default.
    pub fn timeout_or(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
    }

    /// The servers to ask. An empty variable of the environment is none; an empty option is a mistake, as when a script's variable is not set.
    fn endpoints(&self) -> Vec<String> {
        if !self.endpoints.is_empty() {
            return self.endpoints.clone();
        }
        let from_environment = std::env::var("HEDDLE_ENDPOINTS").unwrap_or_default();
        let named = from_environment.trim().split(',').map(|it| it.trim().to_owned());
        if from_environment.trim().is_empty() {
            vec![format!("127.0.0.1:{}", node::DEFAULT_PORT)]
        } else {
            named.collect()
        }
    }

    /// The same without the timeout.
    pub fn connection(&self) -> Endpoints {
        Endpoints {
            endpoints: self.endpoints(),
            tls: Tls {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                authority: self.authority.clone(),
            },
            token_file: self.token_file.clone(),
        }
    }
}

/// The longest time that a request may be given.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// A time of more than nothing, as in `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let time = long_duration(text)?;
    if time > TIMEOUT_MAX {
        return Err("expected more than nothing and at most 10m".into());
    }
    Ok(time)
}

/// A time of more than nothing, however long.
pub fn long_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: expected a number with a unit, as in 500ms, 5s or 1m");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let time = Duration::from_millis(number.saturating_mul(unit_ms));
    if time.is_zero() {
        return Err("expected more than nothing and at most 10m".into());
    }
    Ok(time)
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show the servers, and the shards in short (-v: everything about them)
    Status,
    /// List the shards, or change them
    ///
    /// A shard is a part of the data with a Raft group of its own: whole modules, or what is below a path. `default` holds
    /// whatever no other shard claims. All changes are made while the cluster runs, and no write is lost; data on its way to
    /// another shard makes its writers and readers wait for a moment.
    Shards {
        #[command(subcommand)]
        action: Option<ShardAction>,
    },
    /// Let a server lead a shard, now
    ///
    /// Leaders move to where requests come from, so it may move again: `shards pin` keeps it.
    MoveLeader {
        /// Name or number of the shard
        shard: String,
        /// Name or number of the server
        server: String,
    },
    /// Have servers give back all room on their disks that they can, while they go on
    ///
    /// They do so by themselves when their logs have grown long; this needs not wait for that.
    Defrag {
        /// The server; all of them if it is left out
        server: Option<String>,
    },
    /// Say how to start a further server of this cluster
    ///
    /// A server adds itself when it starts with --join: this prints the command to run on its machine.
    Add {
        /// Name of the new server; if left out, one that is free
        name: Option<String>,
        /// Where it shall listen; may be left out where the others are on this machine
        #[arg(long, value_name = "HOST:PORT")]
        listen: Option<String>,
    },
    /// Take a server out of the cluster, for good
    ///
    /// Its replicas are given to others, where shards say how many they want. Refused when a shard would be left without
    /// a majority of running voters.
    ///
    /// The servers agree on this by a majority of the voters of `meta`, with --force, too: where that is lost, nobody can be
    /// removed. Start one of the servers that are down with its data folder, on another machine if need be (--advertise); if the
    /// folders are lost, restore the last backup into a new cluster.
    Remove {
        /// Name or number of the server
        server: String,
        /// Even if shards are left without a majority of running voters: their data can then be read stale only. It needs the
        /// majority of `meta` all the same
        #[arg(long)]
        force: bool,
    },
    /// Say how to start a server in the place of another
    ///
    /// The new one takes over the old one's place in lists of replicas and pins, in one step, when it starts with
    /// --replace: this prints the command to run on its machine.
    Replace {
        /// The server that leaves; it may have crashed
        old: String,
        /// Name of the new one; if left out, the old one's
        name: Option<String>,
        /// Where it shall listen; if left out, where the old one did
        #[arg(long, value_name = "HOST:PORT")]
        listen: Option<String>,
    },
    /// Write all data and the map of shards into a file
    ///
    /// Each shard is written as it is at one moment. The file has checksums, and is there only when it is whole. Values that belong
    /// to leases are left out: in another cluster nobody would keep them alive. Users and roles are left out too, and revisions and entity tags
    /// are new ones after `restore`.
    Backup {
        /// File to write
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Overwrite the file if it is there
        #[arg(short, long)]
        force: bool,
        /// No progress bar
        #[arg(short, long)]
        quiet: bool,
    },
    /// Fill a new, empty cluster with a backup
    ///
    /// The file is checked as a whole before anything is written, and the cluster's content is read and compared
    /// afterwards. Shards are made as they were; lists of replicas and pins are kept for servers of the same names.
    Restore {
        /// File to read
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// No progress bar
        #[arg(short, long)]
        quiet: bool,
    },
    /// Print a value, its bytes as they are
    Get {
        #[command(flatten)]
        at: LocationArgs,
        #[command(flatten)]
        freshness: Freshness,
        /// As it was at this revision of its shard; `revisions` shows which there are
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
    },
    /// List a path and what is below it
    List {
        #[command(flatten)]
        at: LocationArgs,
        #[command(flatten)]
        freshness: Freshness,
        /// So many at most
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// As it was at this revision of its shard; `revisions` shows which there are
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
    },
    /// Show which revisions of a path's shard can be read
    Revisions {
        /// Any path of the shard
        path: Path,
    },
    /// Write a value
    #[command(group = ArgGroup::new("condition").args(["create", "replace", "if_etag"]))]
    Put {
        #[command(flatten)]
        at: LocationArgs,
        /// The value; `-` reads it from standard input
        value: String,
        /// Only if there is none yet
        #[arg(long)]
        create: bool,
        /// Only if there is one already
        #[arg(long)]
        replace: bool,
        /// Only if the value there has this entity tag
        #[arg(long, value_name = "ETAG")]
        if_etag: Option<u64>,
        /// It goes away with this lease
        #[arg(long, value_name = "LEASE", conflicts_with = "replace")]
        lease: Option<LeaseId>,
    },
    /// Take away a value and what is below it
    Delete {
        #[command(flatten)]
        at: LocationArgs,
        /// Also if the path is /: all data
        #[arg(long)]
        recursive: bool,
        /// Only if the value there has this entity tag
        #[arg(long, value_name = "ETAG")]
        if_etag: Option<u64>,
    },
    /// Follow changes at and below a path, one line an event, until interrupted
    Watch {
        #[command(flatten)]
        at: LocationArgs,
        /// Begin with what happened after this revision of the path's shard
        #[arg(long, value_name = "REVISION")]
        from: Option<u64>,
    },
    /// Make several changes of one shard at once, if conditions hold
    Txn(Txn),
    /// Leases: values that go away when nobody keeps them alive
    Lease {
        #[command(subcommand)]
        action: LeaseAction,
    },
    /// Run a command while holding a lock
    ///
    /// Whoever asks first gets it first. The lock is given back when the command ends, and goes to the next when this program is
    /// not heard of for as long as --ttl says.
    Lock(Lock),
    /// Stand for election, or follow elections
    Elect(Elect),
    /// Show the user that this client is for the cluster
    Whoami,
    /// Have users checked, or not
    Auth {
        #[command(subcommand)]
        action: AuthAction,
    },
    /// Make and change users
    User {
        #[command(subcommand)]
        action: UserAction,
    },
    /// Make and change roles: what users may do
    Role {
        #[command(subcommand)]
        action: RoleAction,
    },
    /// Call an RPC that some program offers, wherever that is connected
    Call(Call),
    /// Measure latencies and rates of a cluster under load
    ///
    /// Cars are created, read, updated and deleted, and `people:add-person` is called, which this program offers at the shard's
    /// leader and which writes a person. Each client asks one thing after another over a connection of its own.
    Bench(Bench),
    /// Find out whether the cluster is well, or fast enough
    ///
    /// Prints a line for each thing that was looked at, with PASS or FAIL. Exit status 1: something failed.
    Check {
        #[command(subcommand)]
        action: CheckAction,
    },
    /// List what somebody should look at, as long as it lasts: quotas, disks, replicas, leaders, servers
    ///
    /// Exit status 1: there is something.
    Alarms,
    /// List refusals: by which server, of which client, for what reason; the most frequent since the server's start
    Refusals,
}

/// What is checked.
#[derive(Debug, Subcommand)]
pub enum CheckAction {
    /// Are all servers there, has every shard a leader, do all disks take writes?
    Health,
    /// Is the cluster fast enough for a load?
    ///
    /// Writes at a fixed rate, and takes away what it wrote. It passes if no request failed, at least nine tenths of the rate were reached,
    /// the slowest request took at most 500 ms, and the standard deviation of their times is at most 100 ms.
    Perf(CheckPerf),
}

/// A place in the data.
#[derive(Clone, Debug, Args)]
pub struct LocationArgs {
    /// Where, as in /car:cars/car-entry=17
    pub path: Path,
    /// Which of the two datastores
    #[arg(long, value_enum, default_value_t = Datastore::Config)]
    pub datastore: Datastore,
}

impl LocationArgs {
    /// The same in the words of the store.
    pub fn location(&self) -> tree::Location {
        match self.datastore {
            Datastore::Config => tree::Location::config(self.path.clone()),
            Datastore::Operational => tree::Location::operational(self.path.clone()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Datastore {
    /// What was asked for
    Config,
    /// What the network is like at present
    Operational,
}

#[derive(Debug, Args)]
pub struct Call {
    /// Its name, as in people:add-person
    pub rpc: String,
    /// Its input; `-` reads it from standard input
    pub input: Option<String>,
    /// Call the one that serves this data
    #[arg(long, value_name = "PATH")]
    pub path: Option<Path>,
    /// It may be carried out twice: try elsewhere when a provider is lost
    #[arg(long)]
    pub idempotent: bool,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Args)]
pub struct Freshness {
    /// Take whatever the asked server has, which may be old
    #[arg(long)]
    pub stale: bool,
}

#[derive(Debug, Subcommand)]
pub enum ShardAction {
    /// Make a shard, and move data to it
    Create {
        /// Name of the new shard
        name: String,
        #[command(flatten)]
        parts: ShardScope,
        /// Servers that hold it: `all`, a number of servers, or their names
        #[arg(long, value_name = "all|N|SERVER,..", default_value = "all")]
        replicas: String,
    },
    /// Delete a shard; its data moves to the shard that has what is above them
    Delete {
        /// Name or number of the shard
        name: String,
    },
    /// Move data to a shard
    Move {
        /// The shard that it goes to
        name: String,
        #[command(flatten)]
        parts: ShardScope,
    },
    /// Choose the servers that hold a shard
    Replicas {
        /// Name or number of the shard
        name: String,
        /// `all`, a number of servers, or their names
        #[arg(value_name = "all|N|SERVER,..")]
        replicas: String,
    },
    /// Choose how modules are spread over shards
    Strategy {
        /// How shards are made
        #[arg(value_enum)]
        strategy: Strategy,
    },
    /// Have a server lead a shard, whatever the load
    Pin {
        /// Name or number of the shard
        name: String,
        /// Name or number of the server
        server: String,
    },
    /// Let the load choose a shard's leader again
    Unpin {
        /// Name or number of the shard
        name: String,
    },
}

/// Parts of the data.
#[derive(Clone, Debug, Args)]
pub struct ShardScope {
    /// All of a YANG module (may be given several times)
    #[arg(long = "module", value_name = "MODULE", action = ArgAction::Append)]
    pub modules: Vec<String>,
    /// A path and what is below it (may be given several times)
    #[arg(long = "prefix", value_name = "PATH", action = ArgAction::Append)]
    pub prefixes: Vec<Path>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// Everything in `default`, but for shards made by hand
    Single,
    /// A shard for each module, made when it is first written
    Distributed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        for wrong in ["", "5", "s", "-1s", "0s", "1h", "11m", "1.5s", "99999999999999999999s", "18446744073709551615m"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
