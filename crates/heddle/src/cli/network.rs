//! Commands about a network that runs: what they take.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use fabric::LinkChange;
use lab::terminal::broken;
use workload::service::quantity;

use super::actions::{duration, long_duration};
use super::candidates;
use super::seed::seed;

/// Completes names of hosts.
fn hosts() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::hosts)
}

/// Completes names of hosts and switches.
fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::nodes)
}

/// Completes names of networks that run.
fn networks() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::networks)
}

/// Completes networks in a word.
pub fn topologies() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::topologies)
}

/// What `--topo` takes.
pub fn topo_help() -> String {
    let words = fabric::topology_words().join(" ");
    format!("A network in a word, in place of a file: a topology with its numbers as in the file, like {words}")
}

/// Which running network is meant: the same option wherever one is.
#[derive(Clone, Debug, Args)]
pub struct NetworkArg {
    /// The running network, by name; `HEDDLE_NETWORK` may say it, and neither is needed when only one runs
    #[arg(short, long = "name", alias = "network", alias = "instance", value_name = "NETWORK", add = networks())]
    pub name: Option<String>,
}

/// The same of a command that has others below it: it may stand anywhere behind the first.
#[derive(Clone, Debug, Args)]
pub struct GlobalNetworkArg {
    /// The running network, by name; `HEDDLE_NETWORK` may say it, and neither is needed when only one runs
    #[arg(
        short,
        long = "name",
        alias = "network",
        alias = "instance",
        value_name = "NETWORK",
        global = true,
        add = networks()
    )]
    pub name: Option<String>,
}

/// A running network, or a file.
#[derive(Clone, Debug, Args)]
pub struct FromArg {
    /// The running network (may be left out when only one runs), or a fabric file
    #[arg(value_name = "NETWORK|FILE", conflicts_with = "name", add = ArgValueCompleter::new(candidates::networks_and_files))]
    pub from: Option<String>,
    #[arg(long, value_name = "TOPOLOGY", help = topo_help(), conflicts_with_all = ["name", "from"], add = topologies())]
    pub topo: Option<String>,
    #[command(flatten)]
    pub network: NetworkArg,
}

#[derive(Debug, Args)]
pub struct Down {
    /// Running networks, or the files that they were made of; may be left out when only one runs
    #[arg(value_name = "NETWORK", conflicts_with = "name", add = ArgValueCompleter::new(candidates::networks_and_files))]
    pub networks: Vec<String>,
    #[command(flatten)]
    pub at: NetworkArg,
    /// Stop every network of this user
    #[arg(short, long, conflicts_with = "networks")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Import {
    /// The file of the other tool; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The fabric file that is written [default: NAME.fabric.yaml]; `-` is standard output
    #[arg(short, long, alias = "out", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<String>,
    /// Of a program of Mininet with several topologies: this one, by its name in `topos` or of its class [default: the first in `topos`]
    #[arg(long, value_name = "NAME")]
    pub topo: Option<String>,
    /// Overwrite the file if it is there
    #[arg(short, long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// What to show
    #[arg(value_enum)]
    pub topic: ShowTopic,
    #[command(flatten)]
    pub from: FromArg,
    /// Of `flows`, `caches`, `connections`, `macs` and `rstp`: those of one switch; its name may stand in place of the network's, if only one is up
    #[arg(short, long, value_name = "SWITCH", add = nodes())]
    pub switch: Option<String>,
    /// Show it again and again, every so many seconds (1 when not given), until interrupted: on a terminal in place, elsewhere one after the other
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    pub watch: Option<u32>,
    /// With --watch: end after so many times, as `vmstat` does
    #[arg(short, long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowTopic {
    /// Hosts and switches with their addresses
    #[value(alias = "node")]
    Nodes,
    /// Links with both ends, rate, delay and queue; of a running network also whether they are up
    #[value(alias = "link")]
    Links,
    /// Routes of each switch: next-hop ports towards each host, and packets
    #[value(alias = "route")]
    Routes,
    /// Flows of each switch that has tables, as ovs-ofctl dump-flows prints them
    #[value(alias = "flow")]
    Flows,
    /// What the caches in front of switches' flows have counted, as ovs-appctl dpctl/show does: hits, misses, megaflows and their masks
    #[value(alias = "cache")]
    Caches,
    /// Connections that switches track (`ct` in their flows), as ovs-appctl dpctl/dump-conntrack prints them; where no network has the name that is given, it is a switch's
    #[value(alias = "connection")]
    Connections,
    /// Addresses that switches know at their ports to hosts, as ovs-appctl fdb/show prints them: those of the file (`static`), and those that were learned; where no network has the name that is given, it is a switch's
    #[value(alias = "mac")]
    Macs,
    /// Ports of switches that speak RSTP: role, state, cost and designated bridge, and BPDUs in, out and bad; below them the root; with -o json all else that ovs-appctl rstp/show prints
    Rstp,
    /// Meters of each switch that has some and what they have counted, as ovs-ofctl dump-meters and meter-stats print them
    #[value(alias = "meter")]
    Meters,
    /// Bonds: each member, whether it sends, and why; what resequencing did
    #[value(alias = "bond")]
    Bonds,
    /// What each link and each host's port carried and dropped, and what was refused, by the host that sent it; at which switch is what `flows`, `meters` and `rstp` of those say, and `heddle trace` of a packet
    #[value(alias = "counter")]
    Counters,
    /// Services: how each server does, and what it has been given; with `--watch` as `top` shows it
    #[value(alias = "service")]
    Services,
    /// Names that lead to one of several services: each site's health, load and share of the answers, and what name servers refused
    #[value(alias = "name")]
    Names,
    /// Service chains: what passes each function, how long it takes, and whether it is up
    #[value(alias = "chain")]
    Chains,
    /// Programs that hosts start with the network: whether they run, how they ended, and where their output is
    #[value(alias = "program")]
    Programs,
}

#[derive(Debug, Args)]
pub struct Flush {
    /// What to forget
    #[arg(value_enum)]
    pub topic: FlushTopic,
    /// The switch; if left out, all
    #[arg(add = nodes())]
    pub switch: Option<String>,
    /// Connections of this zone alone
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<u16>,
    #[command(flatten)]
    pub network: NetworkArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlushTopic {
    /// Addresses that were learned, as ovs-appctl fdb/flush does
    Macs,
    /// Connections that flows track (`ct`), as ovs-appctl dpctl/flush-conntrack does: what comes of them begins a connection or belongs to none
    Connections,
}

#[derive(Debug, Args)]
pub struct Exec {
    #[command(flatten)]
    pub network: NetworkArg,
    #[command(flatten)]
    habits: ExecHabits,
    /// The host to run it in
    #[arg(add = hosts())]
    pub host: String,
    /// The program and its arguments: all that follows the program's name is the program's
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// What Docker's users write by habit: a program has standard input and the terminal anyway.
#[derive(Debug, Args)]
struct ExecHabits {
    #[arg(short, hide = true)]
    interactive: bool,
    #[arg(short, hide = true)]
    tty: bool,
}

#[derive(Debug, Args)]
pub struct Logs {
    #[command(flatten)]
    pub network: NetworkArg,
    /// The host; all when not given
    #[arg(add = hosts())]
    pub host: Option<String>,
    /// The program, by its name in the file; all of the host when not given
    pub program: Option<String>,
    /// Print what they go on to say, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Begin with the last lines of each program: so many (all when not given)
    #[arg(long, value_name = "LINES")]
    pub tail: Option<usize>,
}

#[derive(Debug, Args)]
pub struct Program {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: ProgramAction,
}

#[derive(Debug, Subcommand)]
pub enum ProgramAction {
    /// Start those that do not run
    #[command(after_help = "Example: heddle program start h1 web")]
    Start {
        #[command(flatten)]
        at: ProgramArg,
    },
    /// End them, by SIGTERM and, half a second later, SIGKILL
    #[command(after_help = "Example: heddle program stop h1 web")]
    Stop {
        #[command(flatten)]
        at: ProgramArg,
    },
    /// End them, if they run, and start them
    #[command(after_help = "Example: heddle program restart h1")]
    Restart {
        #[command(flatten)]
        at: ProgramArg,
    },
}

#[derive(Debug, Args)]
pub struct ProgramArg {
    /// The host
    #[arg(add = hosts())]
    pub host: String,
    /// The program, by its name in the file; all of the host when not given
    pub program: Option<String>,
}

#[derive(Debug, Args)]
pub struct Shell {
    #[command(flatten)]
    pub network: NetworkArg,
    /// The host to be in
    #[arg(add = hosts())]
    pub host: String,
}

#[derive(Debug, Args)]
pub struct Capture {
    /// Where: a node, one of its ports by number, or a link
    #[arg(value_name = "NODE|NODE:PORT|NODE-NODE", add = nodes())]
    pub target: String,
    /// Which frames, as tcpdump takes it; all of them if left out
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Write pcapng into this file (`.pcap`: the older format); `-` is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Print a line a frame, also where standard output is a pipe
    #[arg(short, long, conflicts_with = "write")]
    pub text: bool,
    /// End after so many frames
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after so long, as in 10s; with --sim, at this time of the run
    #[arg(long = "for", value_name = "TIME", value_parser = long_duration)]
    pub lasts: Option<Duration>,
    /// Capture so many bytes of each frame [default: all of it; of a simulated one its headers, since all that follows is zero]
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(live::sniffer::SNAPLEN_MAX)))]
    pub snaplen: Option<u32>,
    #[command(flatten)]
    pub simulated: SimulatedArgs,
    #[command(flatten)]
    pub network: NetworkArg,
}

/// Which simulated run is captured.
#[derive(Debug, Args)]
pub struct SimulatedArgs {
    /// Capture in a simulated run of this file in place of a running network: the first one of traffic, unless the options below name another
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "name")]
    pub sim: Option<PathBuf>,
    /// With --sim: of this experiment
    #[arg(short, long, value_name = "NAME", requires = "sim")]
    pub experiment: Option<String>,
    /// With --sim: of this case, as `heddle plan` shows it
    #[arg(long, value_name = "CASE", requires = "sim")]
    pub case: Option<String>,
    /// With --sim: this run of the case
    #[arg(long, value_name = "N", requires = "sim", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// With --sim: seed of all randomness, in place of the file's
    #[arg(long, value_name = "N", requires = "sim", value_parser = seed)]
    pub seed: Option<u64>,
    /// With --sim: hosts cost what this file of `heddle calibrate` says [default: they cost nothing]
    #[arg(long, value_name = "FILE", requires = "sim", value_hint = ValueHint::FilePath)]
    pub machine: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Link {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: LinkAction,
}

#[derive(Debug, Subcommand)]
pub enum LinkAction {
    /// Take the carrier from a link, as if its cable were pulled
    ///
    /// What is under way on it is lost, and what is sent on it meanwhile. Bonds hear of it at once and use their other members; routes
    /// lead around it, unless the file says `routes: fixed`. It stays so when `up` changes the network, as long as the link is in the file.
    #[command(after_help = "Examples:\n  heddle link down leaf1 spine1\n  heddle link down leaf1-spine1")]
    Down(LinkArg),
    /// Give a link its carrier back, as if its cable were plugged in
    #[command(after_help = "Example: heddle link up leaf1 spine1")]
    Up(LinkArg),
    /// Change what a link does to packets, in both directions or on the way back
    ///
    /// The keys are those that links have in the file, with the same values; `none` takes a key away, and keys that are not named stay as they are. What the file, or
    /// a key with `back.` before it, says of the way back, from the node that is named second here to the first, stays so; `back.KEY=none` makes it as the
    /// other direction, and `back.KEY=off` takes it away there alone. What has left the transmitter arrives when it would have; what waits behind it goes by the new values. Programs, connections and all other links
    /// go on untouched. `delay 10ms`, as tc has it, is `delay=10ms`.
    /// Without keys it prints what the link does, as `heddle link show`.
    ///
    /// It holds until `heddle up` applies a file: that brings the file's values back.
    #[command(
        after_help = LINK_EXAMPLES,
        after_long_help = link_keys()
    )]
    Set(LinkSet),
    /// Print what a link does, and what its file says otherwise
    #[command(after_help = "Example: heddle link show leaf1 spine1")]
    Show(LinkArg),
}

const LINK_EXAMPLES: &str = "\
Examples:
  heddle link set leaf1 spine1 delay=20ms jitter=1ms loss=0.1%
  heddle link set h1 leaf1 rate=100Mbit queue=100
  heddle link set h1 leaf1 2 rate=none
  heddle link set h1 leaf1 rate=50Mbit back.rate=10Mbit
  heddle link set leaf1-spine1:2 delay=20ms";

/// The keys of links, and what each of them says, in lines of 80 columns.
fn link_keys() -> String {
    const INDENT: usize = 13;
    const COLUMNS: usize = 80;
    let keys: String = LinkChange::KEYS
        .iter()
        .map(|(key, says)| {
            let says = says.split_whitespace().collect::<Vec<_>>().join(" ");
            broken(&format!("  {key:<10} {says}\n"), Some(COLUMNS), INDENT)
        })
        .collect();
    format!("Keys:\n{keys}\n{LINK_EXAMPLES}")
}

/// The links between two nodes.
#[derive(Debug, Args)]
pub struct LinkArg {
    /// The node at one end; or a link as `heddle show links` names it: `leaf1-spine1`, or `leaf1-spine1:2` for the second one
    #[arg(add = nodes())]
    pub a: String,
    /// The node at the other end
    #[arg(add = nodes())]
    pub b: Option<String>,
    /// Which of parallel links, from 1; if left out, all of them
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub number: Option<u32>,
}

#[derive(Debug, Args)]
pub struct LinkSet {
    /// The node at one end; or a link as `heddle show links` names it: `leaf1-spine1`, or `leaf1-spine1:2` for the second one
    #[arg(add = nodes())]
    pub a: String,
    /// The node at the other end
    #[arg(add = nodes())]
    pub b: Option<String>,
    /// Which of parallel links, from 1 (if left out, all of them); then keys with their values, as in `delay=20ms`
    #[arg(value_name = "N|KEY=VALUE", add = ArgValueCompleter::new(candidates::link_keys))]
    pub words: Vec<String>,
}

impl LinkSet {
    /// The links, and the keys.
    pub fn parts(&self) -> (LinkArg, Vec<String>) {
        // After a link's name, keys may begin at once.
        let (b, first) = match &self.b {
            Some(key) if key.contains('=') => (None, Some(key)),
            Some(key) if is_key(key) && self.words.first().is_some_and(|word| is_bare_value(word)) => (None, Some(key)),
            b => (b.clone(), None),
        };
        let number = self.words.first().filter(|_| first.is_none()).and_then(|word| word.parse().ok());
        let keys = first.into_iter().chain(self.words.iter().skip(usize::from(number.is_some())));
        (LinkArg { a: self.a.clone(), b, number }, joined(keys))
    }
}

/// Whether a word is the key of a link, with nothing behind it.
fn is_key(word: &str) -> bool {
    let bare = word.strip_prefix("back.").unwrap_or(word);
    LinkChange::KEYS.iter().any(|(key, _)| *key == bare)
}

/// Whether a word is a value that stands behind its key, and not the number of a link.
fn is_bare_value(word: &str) -> bool {
    !word.contains('=') && word.parse::<u32>().is_err()
}

/// Keys with their values, one a word: `delay 10ms`, as `tc` has it, is `delay=10ms`.
fn joined<'a>(words: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut words = words.peekable();
    let mut keys = Vec::new();
    while let Some(word) = words.next() {
        let value = words.next_if(|value| is_key(word) && !value.contains('=') && !is_key(value));
        keys.push(value.map_or_else(|| word.clone(), |value| format!("{word}={value}")));
    }
    keys
}

#[derive(Debug, Args)]
pub struct Ping {
    /// The host that asks
    #[arg(required_unless_present = "all", requires = "to", add = hosts())]
    pub from: Option<String>,
    /// Who is asked: a host, a service, or an address
    #[arg(add = hosts())]
    pub to: Option<String>,
    /// Every host asks every other one
    #[arg(short, long, conflicts_with = "from")]
    pub all: bool,
    #[command(flatten)]
    pub version: VersionArgs,
    /// How often each is asked [default: 3; with --all, 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: Option<u32>,
    /// From one question to the next, as in 200ms or 1s
    #[arg(short, long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pub interval: Duration,
    /// How long the last answers are waited for
    #[arg(short = 'W', long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub network: NetworkArg,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// By which version of IP.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// By IPv4, as where nothing else is said
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// By IPv6, as programs in hosts go where a name has both
    #[arg(short = '6', long, conflicts_with = "all")]
    pub ipv6: bool,
}

/// What `ping` starts in hosts.
#[derive(Debug, Args)]
pub struct Pings {
    /// Of how many neighbours the kernel's entries may stay
    #[arg(long, value_name = "N")]
    pub remembered: usize,
    /// How long the last answers are waited for
    #[arg(long, value_name = "N")]
    pub patience_ms: u64,
    /// Who is asked
    #[arg(value_name = "ADDRESS")]
    pub to: Vec<IpAddr>,
}

#[derive(Debug, Args)]
pub struct Iperf {
    /// The host that sends
    #[arg(add = hosts())]
    pub from: String,
    /// The host that receives
    #[arg(add = hosts())]
    pub to: String,
    /// UDP in place of TCP, at the rate that --bitrate says
    #[arg(short, long)]
    pub udp: bool,
    /// For how long: a plain number is of seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = whole_seconds)]
    pub time: u32,
    /// Streams side by side
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub parallel: u32,
    /// The other way round: the second host sends, and the first receives
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Of each stream: 10M (as iperf3 has it) or 10Mbit/s; 0 is as fast as it can. 10M/20 sends twenty datagrams at a time [default: TCP 0, UDP 1M]
    #[arg(short, long, value_name = "RATE", value_parser = bitrate)]
    pub bitrate: Option<String>,
    /// Where the server listens [default: 5201, or the next that is free]
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    #[command(flatten)]
    pub network: NetworkArg,
}

#[derive(Debug, Args)]
pub struct Path {
    /// The host that sends
    #[arg(value_name = "FROM", add = hosts())]
    pub source: String,
    /// What they are for: a host, a service, or an address that one of them has
    #[arg(value_name = "TO", add = hosts())]
    pub destination: String,
    #[command(flatten)]
    pub from: FromArg,
    /// The flow's destination port
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The flow's source port
    #[arg(short, long, value_name = "PORT")]
    pub source_port: Option<u16>,
    /// The flow's protocol
    #[arg(long, value_enum, default_value_t = Protocol::Tcp)]
    pub protocol: Protocol,
    /// Between the hosts' IPv6 addresses
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// The host sends them with a tag of this VLAN
    #[arg(long, value_name = "VID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// The transmission control protocol
    Tcp,
    /// Datagrams
    Udp,
    /// What ping asks with: it has no ports
    Icmp,
}

#[derive(Debug, Args)]
pub struct Graph {
    #[command(flatten)]
    pub from: FromArg,
    /// As what it is drawn [default: by the name that --write has; else svg]
    #[arg(short, long, value_enum)]
    pub format: Option<GraphFormat>,
    /// Write it into this file, and not to standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// A picture, for browsers, light and dark
    Svg,
    /// For Graphviz: `dot -Tpdf`
    Dot,
    /// For Markdown: code hosts and many editors draw it
    Mermaid,
}

/// The longest measurement with iperf3.
const SECONDS_MAX: u64 = 86_400;

/// Whole seconds: `10`, `10s`, `2min`.
fn whole_seconds(text: &str) -> Result<u32, String> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ns = quantity::time(&if is_plain { format!("{text}s") } else { text.to_owned() })?.as_ns();
    let seconds = ns / 1_000_000_000;
    if ns % 1_000_000_000 != 0 || !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("expected whole seconds, from 1 to {SECONDS_MAX}"));
    }
    u32::try_from(seconds).map_err(|error| error.to_string())
}

/// A rate, in bits a second, with how many packets are sent at a time: as iperf3 takes it, which would take anything.
fn bitrate(text: &str) -> Result<String, String> {
    let expected = || "expected a rate in bits a second, as in 10M, 1.5G, 10Mbit/s, or 10M/20 for bursts".to_owned();
    let burst = |end: &str| end.parse().is_ok_and(|packets: u32| (1..=1_000).contains(&packets));
    let (rate, burst) = match text.rsplit_once('/') {
        Some((rate, end)) if burst(end) => (rate, Some(end)),
        Some((rate, "s")) => (rate, None),
        Some(_) => return Err(expected()),
        None => (text.strip_suffix("ps").unwrap_or(text), None),
    };
    let (number, unit) = rate.split_at(rate.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rate.len()));
    let unit = match unit.trim_start() {
        "" | "bit" => 1.0,
        "k" | "K" | "kb" | "kbit" | "Kbit" => 1e3,
        "M" | "m" | "Mb" | "Mbit" => 1e6,
        "G" | "g" | "Gb" | "Gbit" => 1e9,
        "T" | "t" | "Tbit" => 1e12,
        _ => return Err(expected()),
    };
    // More than there is a link for.
    let bps = number.parse::<f64>().ok().map(|number| (number * unit).round()).filter(|bps| *bps <= 1e15);
    let bps = bps.ok_or_else(expected)?;
    Ok(burst.map_or_else(|| format!("{bps:.0}"), |burst| format!("{bps:.0}/{burst}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// iperf3 sends as fast as it can, or at another rate, where it cannot read one.
    #[test]
    fn bitrates_are_those_of_iperf3_and_of_files() {
        for (text, taken) in [
            ("10M", "10000000"),
            ("1.5G", "1500000000"),
            ("0", "0"),
            ("64k", "64000"),
            ("5Mbit/s", "5000000"),
            ("5 Mbit/s", "5000000"),
            ("5Mbps", "5000000"),
            ("10M/20", "10000000/20"),
        ] {
            assert_eq!(bitrate(text).as_deref(), Ok(taken), "{text}");
        }
        for text in ["foo", "", "10X", "10MB", "-1", "1e3", "10M/0", "10M/x", ".", "1e400", "99999999T"] {
            assert!(bitrate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_of_links_may_stand_before_their_values() {
        let parts = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let (a, b) = (words.next().expect("a node"), words.next());
            let (LinkArg { a, b, number }, keys) = LinkSet { a, b, words: words.collect() }.parts();
            (a, b.unwrap_or_default(), number, keys.join(" "))
        };
        for (line, a, b, number, keys) in [
            ("h1 s1 delay=1ms", "h1", "s1", None, "delay=1ms"),
            ("h1 s1 delay 1ms", "h1", "s1", None, "delay=1ms"),
            ("h1 s1 2 delay 1ms loss 1% rate=none", "h1", "s1", Some(2), "delay=1ms loss=1% rate=none"),
            ("h1-s1 delay 1ms back.delay 2ms", "h1-s1", "", None, "delay=1ms back.delay=2ms"),
            ("h1-s1 queue=3 ecn 2", "h1-s1", "", None, "queue=3 ecn=2"),
            ("h1 s1 delay loss", "h1", "s1", None, "delay loss"),
            ("h1 s1 10ms", "h1", "s1", None, "10ms"),
        ] {
            assert_eq!(parts(line), (a.to_owned(), b.to_owned(), number, keys.to_owned()), "{line}");
        }
    }
}
