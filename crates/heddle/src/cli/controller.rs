//! `heddle controller`: the daemon.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::Tls;
use super::users::Audited;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
EXAMPLES
  heddle controller                      one node: nothing to configure
  heddle controller --node c2 --listen 127.0.0.1:6642 --join 127.0.0.1:6640
                                         a second one on this machine joins it
  heddle controller certificates --out tls c1.example.org c2.example.org
  heddle controller --node c1 --listen 0.0.0.0:6640 \\
      --advertise c1.example.org:6640 --tls-cert tls/c1.example.org.pem \\
      --tls-key tls/c1.example.org.key --tls-ca tls/ca.pem

EXIT STATUS
  0  it got SIGTERM or SIGINT and has handed over what it led
  2  it could not start, or had to stop; the message says why, and nothing that
     was confirmed is lost

FILES
  DIR/identity, DIR/*  cluster and server, the log, snapshots: only the
                       controller changes them
  DIR/LOCK             held while a controller uses the folder
  DIR/STARTED          the log was there: without it the controller refuses to
                       start again

A controller of one node needs no configuration. More nodes join it with --join;
three of them survive the loss of one. The same command line starts a node
again: once it has joined, --join only makes sure that it still means the same
cluster."
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct Controller {
    #[command(subcommand)]
    pub command: Option<ControllerCommand>,
    /// Name of this node, unique in its cluster
    #[arg(long, value_name = "NAME", default_value = "c1")]
    pub node: String,
    /// Data folder [default: heddle/NAME in `$XDG_STATE_HOME`, or in ~/.local/state]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Where to listen for other nodes and for clients; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value_t = format!("127.0.0.1:{}", node::DEFAULT_PORT))]
    pub listen: String,
    /// Where others reach this node [default: where it listens]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Nodes of the cluster to join; without, the first start founds a cluster
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub join: Vec<String>,
    /// When joining, take the place of the server with this number, which is lost for good
    #[arg(long, value_name = "SERVER", requires = "join")]
    pub replace: Option<u64>,
    /// Serve /metrics, /healthz and /readyz here: plain HTTP on loopback, else HTTPS for holders of a certificate
    /// [default: not at all]
    #[arg(long, value_name = "HOST:PORT")]
    pub http: Option<String>,
    /// How long a leader may be silent before another is elected: one value, as in `1s`, or bounds, as in `100ms..10s`,
    /// within which it follows the measured round trip
    #[arg(long, value_name = "TIME|MIN..MAX", default_value = "100ms..10s", value_parser = election_timeout)]
    pub election_timeout: placement::TimeoutConfig,
    /// Stand for election without asking first whether the others would elect this node: as Raft does without its pre-vote
    /// extension; for comparisons, the same on all nodes
    #[arg(long)]
    pub no_pre_vote: bool,
    /// Empty this node's replica of a shard if it has stopped, as `heddle cluster status` says, and let its leader fill it again; a
    /// replica that is whole is left alone. It takes part in no election before it has again all that it had
    #[arg(long, value_name = "SHARD-NUMBER")]
    pub rebuild: Vec<u64>,
    /// How modules are spread over shards in a cluster that this node founds
    #[arg(long, value_enum, default_value_t = Shards::Single)]
    pub shards: Shards,
    /// How reads come to see every write that was answered before them
    #[arg(long, value_enum, default_value_t = Reads::Lease)]
    pub reads: Reads,
    /// Leave leaders where they are, instead of moving them to where requests come from
    #[arg(long)]
    pub keep_leaders: bool,
    /// Log in with the token in this file when joining, where users are checked; or with that in `HEDDLE_TOKEN`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Write an audit log of clients' requests to this file, one line of JSON each, without values
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Audit log")]
    pub audit_log: Option<PathBuf>,
    /// What is noted
    #[arg(long, value_enum, default_value_t = Audited::Changes, help_heading = "Audit log")]
    pub audit: Audited,
    /// Refuse what cannot be noted, instead of counting it
    #[arg(long, requires = "audit_log", help_heading = "Audit log")]
    pub audit_required: bool,
    /// Begin another file after so many MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_048_576), help_heading = "Audit log")]
    pub audit_size: u64,
    /// Keep so many full files, as FILE.1 and so on
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = "Audit log")]
    pub audit_keep: u32,
    /// Memory for what is held for clients and other nodes, beside the data: when it is used up, requests are answered "busy"
    /// and watches skip
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = memory)]
    pub memory: usize,
    /// Data that this node may hold, 16MiB at least: when they take so much, shards that it leads refuse what would add to them (but what
    /// is on its way), until they take less than 95 %; an alarm comes at 80 %. The same on all nodes; `none` for no bound
    #[arg(long, value_name = "SIZE|none", default_value = "2GiB", value_parser = quota)]
    pub quota: Quota,
    /// End when standard input is closed: with whoever started it
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    #[command(flatten)]
    pub tls: Tls,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shards {
    /// Everything in one
    Single,
    /// Each module gets one of its own when it is first written
    Distributed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Reads {
    /// The leader answers by itself while its lease lasts: fast, and right as long as the clocks of any two nodes differ in
    /// speed by at most 50 per mille (5 %); a virtual machine whose clock stands still while it is paused is outside of that
    Lease,
    /// The leader asks a majority first, once for all reads that wait: a round trip more, and right whatever the clocks do
    Index,
}

#[derive(Debug, Subcommand)]
pub enum ControllerCommand {
    /// Make certificates for controllers and their clients, and the authority that signs them
    ///
    /// Nothing is overwritten; with the authority of an earlier call, more certificates can be made. All keys are readable by their
    /// owner alone.
    ///
    /// A controller's certificate is for servers, and for the hosts named; `client` is for clients, and lets nobody pass for a
    /// controller. A controller that moves to another host needs a certificate for both until the cluster knows of it.
    Certificates {
        /// Folder for them
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: PathBuf,
        /// One controller each: the names and addresses by which it is reached, with commas between them
        #[arg(value_name = "HOST[,HOST...]", required_unless_present = "users")]
        hosts: Vec<String>,
        /// A user, who logs in by this name (may be given several times)
        #[arg(long = "user", value_name = "NAME")]
        users: Vec<String>,
    },
}

/// A time with a unit.
fn span(text: &str) -> Result<machine::nanos::Span, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let expected = || format!("`{text}` is no time: expected a whole number and us, ms or s, as in 100ms");
    let number: u64 = number.parse().map_err(|_| expected())?;
    let span = match unit {
        "us" => machine::nanos::Span::from_us(number),
        "ms" => machine::nanos::Span::from_ms(number),
        "s" => machine::nanos::Span::from_secs(number),
        _ => return Err(expected()),
    };
    let (least, most) = (machine::nanos::Span::from_ms(10), machine::nanos::Span::from_secs(600));
    if span < least || span > most {
        return Err(format!("`{text}` is out of bounds: expected {least} to {most}"));
    }
    Ok(span)
}

/// Bytes of data, if there is a bound.
#[derive(Clone, Copy, Debug)]
pub struct Quota(pub Option<u64>);

fn quota(text: &str) -> Result<Quota, String> {
    if text == "none" {
        return Ok(Quota(None));
    }
    let bytes = super::size(text).map_err(|error| format!("{error}, or `none`"))?;
    let (least, most) = (store::alarm::MIN_QUOTA_BYTES, 1 << 40);
    if bytes < least || bytes > most {
        return Err(format!("`{text}` is out of bounds: expected 16MiB to 1TiB, or `none`"));
    }
    Ok(Quota(Some(bytes)))
}

fn memory(text: &str) -> Result<usize, String> {
    let bytes = super::size(text)?;
    let (least, most) = (store::budget::MIN_BYTES as u64, 1 << 40);
    if bytes < least || bytes > most {
        return Err(format!("`{text}` is out of bounds: expected 64MiB to 1TiB"));
    }
    Ok(bytes as usize)
}

fn election_timeout(text: &str) -> Result<placement::TimeoutConfig, String> {
    let (min, max, fixed) = match text.split_once("..") {
        Some((min, max)) => (span(min)?, span(max)?, None),
        None => (span(text)?, span(text)?, Some(span(text)?)),
    };
    if min > max {
        return Err(format!("{min} is more than {max}: expected the smaller bound first"));
    }
    Ok(placement::TimeoutConfig { min, max, fixed })
}

#[cfg(test)]
mod tests {
    use machine::nanos::Span;

    use super::*;

    #[test]
    fn election_timeouts_are_one_value_or_bounds() {
        let fixed = election_timeout("1s").unwrap();
        assert_eq!(fixed.fixed, Some(Span::from_secs(1)));
        let bounds = election_timeout("100ms..10s").unwrap();
        assert_eq!((bounds.min, bounds.max, bounds.fixed), (Span::from_ms(100), Span::from_secs(10), None));
        for wrong in ["", "1", "s", "1h", "-1s", "10s..1s", "1s..", "1us", "601s", "99999999999999999999s"] {
            assert!(election_timeout(wrong).is_err(), "{wrong}");
        }
    }
}
