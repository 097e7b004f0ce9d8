//! `heddle serve`, `load` and `agent`: the programs of a service.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use machine::Span;
use workload::service::{DIRECTORIES_MAX, Distribution, SECONDS_MAX, SLOTS_MAX, Share, Workload, quantity};

use super::seed::seed;

#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen: an address and a port, or a port alone for all addresses
    #[arg(value_name = "[ADDRESS:]PORT", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub listen: Vec<SocketAddr>,
    /// Length of the page `/` and of what `/work` answers
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = quantity::size)]
    pub body: u64,
    /// Serve a web tree as well: `/tree/static/DIRECTORY/CLASS-FILE` and `/tree/dynamic/DIRECTORY/CLASS-FILE`
    #[arg(long)]
    pub tree: bool,
    /// Memory of requests that do not say it: 8MiB, uniform:1MiB,4MiB, exp:2MiB, pareto:1MiB,1.2,64MiB or lognormal:1MiB,0.5
    #[arg(long, value_name = "DISTRIBUTION", value_parser = Distribution::sizes, help_heading = "Requests")]
    pub size: Option<Distribution>,
    /// Duration of requests that do not say it: 2ms, exp:2ms, ..
    #[arg(long, value_name = "DISTRIBUTION", value_parser = Distribution::durations, help_heading = "Requests")]
    pub duration: Option<Distribution>,
    /// What a request does with its memory for its duration
    #[arg(long, value_enum, default_value_t = WorkMode::Busy, help_heading = "Requests")]
    pub mode: WorkMode,
    /// Threads that compute [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024), help_heading = "Requests")]
    pub threads: Option<u16>,
    /// Work on so many requests at a time; others wait [default: any number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Bounds")]
    pub at_a_time: Option<u32>,
    /// So many requests may wait; others are answered with 503
    #[arg(long, value_name = "N", default_value_t = 1_000, help_heading = "Bounds")]
    pub queue: u32,
    /// Requests take so much memory together; others wait
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = "Bounds")]
    pub memory_limit: Option<u64>,
    /// Requests for which there is no memory are answered with 503
    #[arg(long, requires = "memory_limit", help_heading = "Bounds")]
    pub refuse_memory: bool,
    /// So many connections at a time; others are closed
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Bounds")]
    pub connections: u32,
    /// At the end (SIGTERM, SIGINT), wait so long for what has begun
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::time, help_heading = "Bounds")]
    pub grace: Span,
    /// Requests of this share fail with 500 after their work
    #[arg(long, value_name = "SHARE", value_parser = quantity::share, help_heading = "Faults")]
    pub fail: Option<Share>,
    /// They fail with 503 at once, without work
    #[arg(long, requires = "fail", help_heading = "Faults")]
    pub fail_fast: bool,
    /// Requests of this share are never answered
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "100%", value_parser = quantity::share, help_heading = "Faults")]
    pub hang: Option<Share>,
    /// Work takes so many times as long
    #[arg(long, value_name = "FACTOR", value_parser = quantity::factor, help_heading = "Faults")]
    pub slow: Option<u32>,
    /// Faults begin so long after the start (or after POST /.heddle/restart)
    #[arg(long, value_name = "TIME", value_parser = quantity::time, help_heading = "Faults")]
    pub from: Option<Span>,
    /// And end so long after it
    #[arg(long, value_name = "TIME", value_parser = quantity::time, help_heading = "Faults")]
    pub until: Option<Span>,
    /// Answers have a load report, as ORCA writes it, in a header `endpoint-load-metrics`
    #[arg(long, help_heading = "Load reports")]
    pub report: bool,
    /// Give load reports to an agent: ADDRESS:PORT, or the path of a Unix socket
    #[arg(long, value_name = "AGENT", value_parser = push_to, help_heading = "Load reports")]
    pub push: Option<requests::serve::PushTo>,
    /// How often
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = positive_time, help_heading = "Load reports")]
    pub push_every: Duration,
    /// Where randomness starts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
}

/// What requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkMode {
    /// Compute on it: so much time of a core
    Busy,
    /// Hold it
    Sleep,
}

#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Debug, Args)]
pub struct Load {
    /// Whom to ask, as in `h2:80` or `http://10.1.0.80/`; several are asked in turn. A path is asked for in place of the workload's. Names are looked up once a second: new connections go where they lead then
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// What is asked for
    #[arg(short, long, value_name = "WORKLOAD", default_value = "fine-grain", value_parser = workloads())]
    pub workload: Workload,
    /// Memory of each request, in place of the workload's own: 8MiB, pareto:1MiB,1.2,64MiB, ..
    #[arg(long, value_name = "DISTRIBUTION", value_parser = Distribution::sizes)]
    pub size: Option<Distribution>,
    /// Duration of each request, in place of the workload's own: 2ms, exp:2ms, ..
    #[arg(long, value_name = "DISTRIBUTION", value_parser = Distribution::durations)]
    pub duration: Option<Distribution>,
    /// Directories of the web tree
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(DIRECTORIES_MAX)))]
    pub directories: u32,
    /// Closed loop: so many clients, each of which asks again when it has its answer
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(SLOTS_MAX)), help_heading = "Arrivals")]
    pub clients: u32,
    /// And has thought so long: 100ms, exp:1s, ..
    #[arg(long, value_name = "DISTRIBUTION", value_parser = Distribution::durations, help_heading = "Arrivals")]
    pub think: Option<Distribution>,
    /// Clients begin one after another within this time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time, help_heading = "Arrivals")]
    pub ramp: Span,
    /// Open loop: so many requests a second, whatever the answers do
    #[arg(short, long, value_name = "RATE", value_parser = quantity::rate, conflicts_with_all = ["clients", "think", "ramp"], help_heading = "Arrivals")]
    pub rate: Option<u64>,
    /// At random moments, as from many who know nothing of each other
    #[arg(long, requires = "rate", help_heading = "Arrivals")]
    pub poisson: bool,
    /// So many requests under way at most; others begin late, and their latency counts from when they should have begun
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=i64::from(SLOTS_MAX)), help_heading = "Arrivals")]
    pub in_flight: u32,
    /// How long to measure
    #[arg(short = 't', long = "for", value_name = "TIME", default_value = "10s", value_parser = measured_time, help_heading = "Time")]
    pub lasts: Span,
    /// How long to ask before that
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::time, help_heading = "Time")]
    pub warm_up: Span,
    /// A request that takes longer has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_span, help_heading = "Time")]
    pub timeout: Span,
    /// A new connection for each request
    #[arg(long, help_heading = "Connections")]
    pub new_connections: bool,
    /// One connection a client, which is the default
    #[arg(long, conflicts_with = "new_connections", help_heading = "Connections")]
    pub keep_alive: bool,
    /// Addresses of this machine to connect from, in turn
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Connections")]
    pub source: Vec<IpAddr>,
    /// The header `Host` [default: the first target]
    #[arg(long, value_name = "NAME", value_parser = host_name, help_heading = "Connections")]
    pub host: Option<String>,
    /// Print each second of the measured time, and not the whole
    #[arg(long)]
    pub series: bool,
    /// With `-o json`: all latencies, as [nanoseconds, how many]
    #[arg(long, hide = true)]
    pub buckets: bool,
    /// Where randomness starts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("where").required(true).multiple(true).args(["check", "http", "socket"]),
    // What is made of the group is wider than a terminal.
    override_usage = "heddle agent [OPTIONS] <--check <PORT>|--http <PORT>|--socket <PATH>>"
)]
pub struct Agent {
    /// Answer agent-checks of haproxy there
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen, value_delimiter = ',')]
    pub check: Vec<SocketAddr>,
    /// Serve HTTP there: GET /load, POST /push
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen, value_delimiter = ',')]
    pub http: Vec<SocketAddr>,
    /// The same at a Unix socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Vec<PathBuf>,
    /// How often the kernel is asked
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = positive_time)]
    pub every: Duration,
    /// What an application has pushed is forgotten after this time
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = positive_time)]
    pub push_lasts: Duration,
    /// Report processors and memory of this process and its children, not of the machine
    #[arg(long, value_name = "PID")]
    pub process: Option<u32>,
    /// All the memory that it may have [default: the machine's]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, requires = "process")]
    pub memory: Option<u64>,
    /// What counts as load for agent-check: the largest of these
    #[arg(
        long,
        value_enum,
        value_name = "SOURCE",
        value_delimiter = ',',
        default_value = "cpu,memory,application",
        help_heading = "Weight"
    )]
    pub load: Vec<LoadSource>,
    /// Up to this load the weight is 100 %; beyond it, it falls
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = quantity::share, help_heading = "Weight")]
    pub up_to: Share,
    /// The weight at full load, in per cent
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100), help_heading = "Weight")]
    pub least: u32,
    /// From this load on, answer `drain`: no new connections
    #[arg(long, value_name = "SHARE", value_parser = quantity::share, help_heading = "Weight")]
    pub drain_at: Option<Share>,
    /// Connections at most, as `maxconn:N`
    #[arg(long, value_name = "N", help_heading = "Weight")]
    pub maxconn: Option<u32>,
}

/// What may count as load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadSource {
    /// Use of the processors
    Cpu,
    /// Use of the memory
    Memory,
    /// Time in which something waited for a processor, memory or a disk (PSI)
    Pressure,
    /// What the application pushes as `application_utilization`
    Application,
}

/// Where to listen. `[::]` is for all addresses, those of IPv4 as well.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    }
    text.parse().map_err(|_| {
        format!("`{text}`: expected an address and a port, as in 127.0.0.1:8080 or [::1]:8080, or a port alone")
    })
}

fn push_to(text: &str) -> Result<requests::serve::PushTo, String> {
    if text.contains('/') {
        return Ok(requests::serve::PushTo::Unix(PathBuf::from(text)));
    }
    let address = text.parse().map(requests::serve::PushTo::Tcp);
    address.map_err(|_| format!("`{text}`: expected ADDRESS:PORT, or a path with a `/`"))
}

fn positive_span(text: &str) -> Result<Span, String> {
    let span = quantity::time(text)?;
    if span == Span::ZERO { Err("expected more than nothing".to_owned()) } else { Ok(span) }
}

fn positive_time(text: &str) -> Result<Duration, String> {
    positive_span(text).map(|span| Duration::from_nanos(span.as_ns()))
}

fn measured_time(text: &str) -> Result<Span, String> {
    let longest = Span::from_secs(SECONDS_MAX);
    positive_span(text).map(|span| span.min(longest))
}

/// What may stand in a header.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_name { Ok(text.to_owned()) } else { Err("expected a name without spaces".to_owned()) }
}

/// Workloads by their names, which completions know.
fn workloads() -> impl clap::builder::TypedValueParser<Value = Workload> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(Workload::ALL.map(Workload::name))
        .map(|name| name.parse::<Workload>().expect("it is one of them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen() {
        let address = |text| listen(text).map(|address| address.to_string());
        assert_eq!((address("80"), address(":80")), (Ok("[::]:80".to_owned()), Ok("[::]:80".to_owned())));
        assert_eq!(
            (address("127.0.0.1:0"), address("[::1]:9")),
            (Ok("127.0.0.1:0".to_owned()), Ok("[::1]:9".to_owned()))
        );
        assert!(["", "h1:80", "65536", "::"].iter().all(|wrong| listen(wrong).is_err()));
        assert!(push_to("./a.sock").is_ok() && push_to("127.0.0.1:9").is_ok() && push_to("agent").is_err());
        assert!(positive_span("0").is_err() && host_name("a b").is_err());
    }
}
