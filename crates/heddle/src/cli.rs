//! The command line: what can be said, and the help that `--help` and the manual page show.

pub mod actions;
mod candidates;
mod cluster;
mod controller;
mod flows;
mod metrics;
mod network;
mod ports;
mod programs;
pub mod recipes;
mod root_help;
mod seed;
mod services;
mod size;
pub mod users;

pub use actions::Cluster;
pub use cluster::{
    BENCH_PREFIX, Bench, BenchOperation, BenchTarget, CHECK_PREFIX, CheckLoad, CheckPerf, Endpoints, Tls,
};
pub use controller::{Controller, ControllerCommand, Reads, Shards};
pub use flows::{Flow, FlowAction, FlowsShown, Group, GroupAction, GroupsShown, Meter, MeterAction, Trace};
pub use metrics::Metrics;
pub use network::{
    Capture, Down, Exec, Flush, FlushTopic, FromArg, Graph, GraphFormat, Import, Iperf, Link, LinkAction, LinkArg,
    Logs, Path, Ping, Pings, Program, ProgramAction, Protocol, Shell, Show, ShowTopic,
};
pub use ports::{Port, PortAction, PortSet};
pub use programs::{Agent, Load, LoadSource, Serve, WorkMode};
pub use services::{Service, ServiceAction};
pub use size::size;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

/// A data-centre network from one file: run it live, simulate it, measure it.
#[derive(Debug, Parser)]
#[command(
    name = "heddle",
    version = env!("HEDDLE_VERSION"),
    propagate_version = true,
    max_term_width = 80,
    after_help = "Start with `heddle new lab`, then `heddle run lab.fabric.yaml`.",
    after_long_help = root_help::ROOT_HELP
)]
pub struct Cli {
    /// How to print data
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,

    /// Log more to standard error: -v what is done, -vv every detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people
    Table,
    /// JSON, for programs
    Json,
    /// Comma-separated values with a header line, for spreadsheets
    Csv,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
pub enum Command {
    /// Write a commented fabric file to start from
    New(New),
    /// Make a fabric file of another tool's: `*.clab.yml`, `*.graphml`, or Mininet's `*.py`
    ///
    /// Of containerlab (`*.clab.yml`) it takes nodes and links: those of kind `linux` are hosts (with FRR, BIRD or the like in their image: hosts that forward, with that image), all others switches, which route nothing. Of `*.graphml`, as the Internet Topology Zoo has it, nodes, edges
    /// and their rates; each node is a switch, and has a host if the file has none. Of Mininet (`*.py`) what the program makes: its classes, loops and functions are
    /// run as far as they add nodes and links, by an interpreter of a part of Python that reaches no file and no network, and ends. Nodes whose class sets `ip_forward` are routers; commands
    /// of hosts (`cmd`) that go on are their `programs:`. What is left out is said, with its line; a program that Python would not run, or that uses a name without a value, is refused.
    #[command(
        after_help = "Examples:\n  heddle import lab.clab.yml                  writes lab.fabric.yaml\n  heddle import Abilene.graphml -w - | heddle check -\n  heddle import mytopo.py -w mine.fabric.yaml"
    )]
    Import(Import),
    /// Read a file and report every mistake in it
    ///
    /// With -o json, a file without mistakes is printed as the network that it describes, with every node, link and experiment, defaults included; else what is wrong is in `problems`, each with its
    /// line, column, code, message and hint. Whether it is right is in the exit status: 0 or 2.
    #[command(
        after_help = "Examples:\n  heddle check lab.fabric.yaml\n  heddle check lab.fabric.yaml -o json | jq '.problems'"
    )]
    Check(FileArg),
    /// Say what `up` and `run` would do, and do nothing
    Plan(Plan),
    /// Start the network of a file, or change the running one to match the file
    ///
    /// Needs no root where user namespaces are allowed. Every host becomes a network namespace with one interface,
    /// eth0; all switches and links run in one background process. Running it again changes only what changed:
    /// programs in untouched hosts go on, with their connections.
    ///
    /// It returns when the network carries traffic: it waits until LACP has agreed on the links of bonds in 802.3ad, for four seconds
    /// at most, and until health checks have found the servers of services well whose programs it has started, for three. A bond that has not converged by then, or that carries less than it should, gets a warning with the reason; the exit
    /// status is 0 all the same.
    ///
    /// With --topo it needs no file: `heddle up --topo tree,3` is a network called `tree-3` whose links are as fast as the machine goes; `heddle link set` gives
    /// them delay and rate, and `heddle new lab --topo tree,3` writes the file of it.
    #[command(after_help = "Examples:\n  heddle up lab.fabric.yaml\n  heddle up --topo tree,3")]
    Up(Up),
    /// Stop running networks and all programs in their hosts
    ///
    /// Their hosts, links, captures and the programs that their files or `heddle exec` have started end with them; results, logs of `heddle run` and files stay. Nothing is asked, and a
    /// network that is not there is an error: then none is stopped. What a crash has left is for `heddle clean`.
    #[command(after_help = "Examples:\n  heddle down\n  heddle down lab\n  heddle down lab other\n  heddle down --all")]
    Down(Down),
    /// Run the experiments of a file, live and simulated, and write a report
    ///
    /// Without --sim or --live, both: the report shows them side by side with their difference. The simulation
    /// gives the same bytes for the same file and seed, at any number of threads.
    Run(Run),
    /// Run the experiments of a file live and simulated, and show how far both lie apart
    ///
    /// Of a folder that `run` or `compare` wrote, its results are compared, and nothing is run. Of a folder of fabric files, each is.
    ///
    /// For each experiment, case and metric it shows both means with 99 % confidence intervals, their difference in per cent of the simulated
    /// mean, and whether it lies within tolerance: 5 % of the mean of goodput and of completion times; 30 % or 10 packets of retransmits, reordered segments and drops; 20 % or 1 packet of
    /// the queues' mean. What a file asks for by `report` or `expect` is judged, too, but for controllers: mean times, medians and p90 by 10 % or 0.1 ms, higher percentiles by 20 % or 0.1 ms, rates of one
    /// flow and of requests by 10 %, shares and sums by 5 %, other counts by 30 % or 10. Other metrics that tables show usually have no tolerance. Where connections come and go, the completion times of all live runs are held against those
    /// of all simulated ones by their ranks (Mann and Whitney's test), which is not judged either. Then follow the flows and the links that differ most: at most ten each, ranked
    /// by multiples of these tolerances, a link's utilisation by multiples of 5 % of its rate. What only one driver can run is named and
    /// not compared. The exit status is 1 if any difference lies outside its tolerance; expectations of the file don't matter.
    ///
    /// Of several files, or of a folder of them, one table says what has a tolerance, a block for each file and case, and the last line how many files are within;
    /// -o json has each file's comparison whole, -o csv a column with the file. All files are checked before one runs. Each has its results and its report
    /// in results/NAME (with --results DIR: in DIR/NAME). A file that fails is named and keeps the others from nothing; the exit status is 2 then. --resume goes on
    /// where an interruption left off: files that were done are not run again.
    ///
    /// Two folders of one file, with the live runs in the one and the simulated ones in the other, are compared with each other.
    #[command(
        after_help = "Examples:\n  heddle compare lab.fabric.yaml\n  heddle compare fabrics/twin --apart-max 2\n  heddle compare results/a results/b -o csv"
    )]
    Compare(Compare),
    /// Measure what end hosts cost this machine, for simulations
    ///
    /// In simulations hosts cost nothing, unless `run --machine` or `compare --machine` names the file that this command writes. It runs iperf3, datagrams and short
    /// connections between two hosts of a network of its own, in rounds, which takes about two and a half minutes, and works out what a segment, a datagram and a
    /// byte take of a core's time, and how late a core begins that had nothing to do. What other programs take meanwhile is a part of the figures.
    Calibrate(Calibrate),
    /// List the networks that run
    ///
    /// One row a network of this user: its file, how many hosts, switches and links it has, how long it has been up, its process, and whose it is. STATE is
    /// `up`; `run` if it ends with the `heddle run` that started it; `silent` if its process does not answer; or `crashed` if its process has died and left
    /// programs in hosts or files behind, which `heddle clean` removes.
    #[command(visible_alias = "ls", after_help = "Example: heddle list -o json")]
    List,
    /// Show nodes, links, routes, flows or counters of a running network (nodes and links of a file, too)
    Show(Show),
    /// Have switches of a running network forget what they have learned
    ///
    /// What is for an address that was forgotten is flooded to ports that may have it (guests, devices, `flood: true`) until something comes from it again; where there are none, it is lost.
    /// Of connections that are forgotten, TCP's go on only where flows let segments in the middle of a connection begin one; those of services, chains and functions are not meant.
    #[command(
        after_help = "Examples:\n  heddle flush macs leaf1\n  heddle flush macs\n  heddle flush connections leaf1 --zone 4"
    )]
    Flush(Flush),
    /// Print what programs of hosts have said (`programs:` of the file)
    ///
    /// Of all hosts, of one, or of one program of it; the lines of one program come as they are, others with host and program in front. With --follow it goes on
    /// until it is interrupted or the network ends. Of each program the last one to two million bytes are kept while the network runs; lines that begin with `-- ` are Heddle's: when it was started, and how it ended.
    #[command(after_help = "Examples:\n  heddle logs\n  heddle logs h1 web --tail 20 -f")]
    Logs(Logs),
    /// Run a program in a host of a running network
    ///
    /// The program sees the host's own network, host name and /etc/hosts, in which all hosts of the fabric are named; files
    /// and users are those of this machine. The exit status is the program's; 127 if there is no such program, 126 if it
    /// cannot be run.
    ///
    /// What follows the program's name is the program's, options too; options of `heddle exec` stand before it. `--` may stand before the program.
    #[command(
        after_help = "Examples:\n  heddle exec h1 ping -c 3 h2\n  heddle exec -n lab h1 -- sh -c 'ip addr; ip route'"
    )]
    Exec(Exec),
    /// Open a shell in a host of a running network
    ///
    /// The shell is $SHELL, or else bash, or else sh. Its prompt names the host and the network, as in `h1@lab:~$`; the rest is as your own start-up files have
    /// it. In it, `HEDDLE_HOST` is the host, and `HEDDLE_NETWORK` the network, which heddle's own commands use there. The exit status is the shell's.
    #[command(visible_alias = "sh", after_help = "Example: heddle shell h1")]
    Shell(Shell),
    /// Ask whether hosts of a running network reach each other
    ///
    /// Two hosts, or with --all every pair of them (Mininet's pingall). Hosts ask each other in rounds, each one other at one time, so the network is not flooded; a round waits
    /// 50 ms at most, so the dead hold up nobody for long. Answers that come later still count. They ask by IPv4, or of a pair by -6 by IPv6; the line says which address was asked. (`heddle exec h1 ping h2` asks by IPv6, as programs in hosts do where a name has both: there `ping -4 h2` is IPv4, which flows for `icmp` match; those for `icmp6` match the other.)
    ///
    /// With --all, prints a matrix of mean round-trip times in milliseconds, a row for each host that asks (above 16 hosts, one line with a summary for each), and `N/M received`.
    /// With -o json or -o csv, one row a pair: the address that was asked, sent, received, the shortest, mean and longest round-trip time, and what kept answers away.
    /// The exit status is 1 if a pair got no answer.
    #[command(
        override_usage = "heddle ping [OPTIONS] <FROM> <TO>\n       heddle ping [OPTIONS] --all",
        after_help = "Examples:\n  heddle ping --all\n  heddle ping h1 h2 -c 10\n  heddle ping --all -o json | jq '.[] | select(.received == 0)'"
    )]
    Ping(Ping),
    /// Measure throughput between two hosts of a running network with iperf3
    ///
    /// Starts an iperf3 server in the receiving host and a client in the other, waits for the end, and prints one line. Both programs end with this one,
    /// whatever ends it. The second host receives; with --reverse it sends.
    ///
    /// With -o json or -o csv: from, to, protocol, streams, seconds, `sent-bps` and `received-bps` (payload, bit/s), retransmits (TCP), and of UDP `jitter-ms`, lost, datagrams
    /// and `lost-percent`.
    #[command(
        after_help = "Examples:\n  heddle iperf h1 h2\n  heddle iperf h1 h2 -u -b 50M -t 5\n  heddle iperf h1 h2 -P 4 -R -o json"
    )]
    Iperf(Iperf),
    /// Show which nodes and links packets of a flow take
    ///
    /// Of a file it is the path in the network as it comes up; of a running network, as its links are now. Where switches hash flows (`spread: ecmp`) it is found out by their own hash, for
    /// which both ports must be known; without --port and --source-port all paths are shown that a flow may take, and so it is where packets take turns. SHARE is how much of the flow (or
    /// of many flows) comes by a link. Of a bond all members are named that may carry it.
    ///
    /// A packet is followed by the machines that carry packets: VLANs, flows, functions of chains and services do with it what they do, and it is said where and why it is lost, or who
    /// gets it. It is the first one of a connection; where a firewall or flows let none begin this way, it is an answer to one that came the other way, and it is said that only answers come through. Flows are those that a running
    /// network has now; connections that it tracks are not looked at, nor are addresses that it has learned.
    ///
    /// The exit status is 1 if packets do not arrive, or if only answers do.
    #[command(
        after_help = "Examples:\n  heddle path h1 h54 --port 5201 --source-port 40000\n  heddle path h1 h2 lab.fabric.yaml --protocol icmp\n  heddle path h1 web --source-port 40000     # a service: which server gets it"
    )]
    Path(Path),
    /// Draw a network
    ///
    /// Hosts stand below, switches in layers above them; where there are many hosts, those of one switch stand in a column. Parallel links are drawn side by side, and bonds with a ring
    /// around them.
    #[command(
        after_help = "Examples:\n  heddle graph lab.fabric.yaml -w lab.svg\n  heddle graph lab.fabric.yaml --format dot | dot -Tpdf > lab.pdf"
    )]
    Graph(Graph),
    /// Capture what crosses links of a network, running or simulated, for Wireshark, tshark and tcpdump
    ///
    /// At a host or a switch (`h1`: at all its ports), at one port by its number (`leaf1:2`; `heddle show links` has the numbers), or at a link (`h1-leaf1`, seen from h1;
    /// `h1-leaf1:2` is the second of parallel ones). It needs no root, and costs other links nothing. Both directions are captured, each frame when its last bit has left the port or has
    /// come to it; what a full queue drops is not. Frames without a rate on their links are segments of up to 64 KiB, as hosts hand them to their network cards.
    ///
    /// It is written as pcapng into FILE (in libpcap's older format if its name ends in `.pcap`: frames alone, without the names of ports), or to standard output if that is a pipe or FILE is `-`: a pipe gets what `tcpdump -r -` reads. On a terminal, and in a file that a shell opens (`> FILE`), it is a line a frame, in the
    /// manner of tcpdump, with times in UTC, and so it is with --text (through a pipe, too); -o json and -o csv have what headers say a value each. It ends with Ctrl-C, SIGTERM, after --count frames or --for a time, or with the program that reads it; a file is whole then. The last line on standard error says how many frames were captured, and how
    /// many were lost since the reader was too slow: the network waits for nobody. Up to 16 captures of a network go on at one time, each into a file of its own; one of a node takes
    /// up the links that the node gets while it runs.
    ///
    /// FILTER is a part of pcap-filter(7): `arp`, `ip`, `ip6`, `icmp`, `icmp6`, `tcp`, `udp`, `vlan`, `host A`, `net A/LENGTH`, `port N`, `portrange N-M`, with `src` or `dst` before the last
    /// four, `greater BYTES`, `less BYTES`, and TCP's flags (`tcp[tcpflags] & (tcp-syn|tcp-fin) != 0`, `tcp[13] == 2`; of IPv6, too), joined by `and`, `or`, `not` and parentheses; words before a value may be left out where they are those of the value before (`port 80 or 443`). A is an address or the name of a host or a service. Fragments of IP have no ports, the first one neither; what a link loses at random (`loss`) is at neither of its ends.
    ///
    /// With --sim FILE it is a simulated run of the file that is captured, the same one as in `heddle run --sim`, at simulated time (it begins at 0, and so do the times in the capture). Frames have the headers that Linux would have
    /// written, with right lengths and checksums; what follows is zero, and is written only as far as --snaplen asks. SYNs have options and acknowledgements blocks (SACK) for which simulated links carry no bytes; a corrupted frame has lost its numbers. It ends when the run does, or after a million frames, unless --count or --for say otherwise.
    #[command(
        after_help = "Examples:\n  heddle capture h1 -w h1.pcapng\n  heddle capture h1 -w h1.pcapng --for 10s\n  heddle capture leaf1:2 icmp or arp\n  heddle capture h1-leaf1 'tcp port 80 and host h2' -c 100\n  heddle capture h1 'tcp[tcpflags] & tcp-syn != 0'\n  heddle capture h1 | tcpdump -n -r -\n  heddle capture h1 | wireshark -k -i -\n  heddle capture h1 --text | grep ICMP\n  heddle capture h1-leaf1 tcp --sim lab.fabric.yaml -w lab.pcapng\n  heddle capture h1 --sim lab.fabric.yaml -e scatter --case ecmp"
    )]
    Capture(Capture),
    /// Take a link of a running network down or up, or change its delay, loss, rate, ...
    Link(Link),
    /// Add ports to switches of a running network, remove or show them
    Port(Port),
    /// Start, stop or restart programs of a host (`programs:` of the file)
    ///
    /// Without a program's name, all of the host are meant. What is stopped stays so, also where the file has it started again, until it is started here, or the network is. `heddle show programs` shows them all, `heddle logs` what
    /// they say. A child that has left the program's process group (`setsid`) goes on until the network is down.
    Program(Program),
    /// Give a server of a running service another weight, drain it, or have it back
    Service(Service),
    /// Change or show the tables of flows of a running network's switches, as ovs-ofctl writes them
    Flow(Flow),
    /// Change or show the groups that flows of a switch name
    Group(Group),
    /// Change or show the meters that flows of a switch name: limits in bits or packets a second
    Meter(Meter),
    /// Show which flows a packet would meet at a switch, and why
    ///
    /// The packet is named by its fields, as flows match them. In place of an address (`nw_dst`, `ipv6_dst`, `dl_dst`, ..) a host may be named, or a service where it is asked for. Nothing is sent or counted.
    #[command(
        after_help = "Examples:\n  heddle trace leaf1 'in_port=h1,tcp,nw_dst=h2,tp_dst=80'\n  heddle trace leaf1 'icmp,nw_src=10.0.1.1,nw_dst=10.0.1.2'"
    )]
    Trace(Trace),
    /// Make the report of a results folder anew, or show two folders side by side
    ///
    /// With --compare A B, prints for each case, metric and driver that both have the two means, B minus A, and whether that is more than chance: runs of two calls do not form pairs,
    /// so the interval is Welch's. First it lists which keys of the two files differ, and at last what only one of them has. Live runs in the one and simulated runs of the same file in the other (`heddle run FILE --live`, `heddle run FILE --sim`) are
    /// shown as `heddle run FILE` shows both; `heddle compare A B` judges how far those lie apart. `-w page.html` writes it as a page. Nothing in the folders is changed then.
    #[command(
        after_help = "Examples:\n  heddle report results/lab\n  heddle report --compare results/lab-2026-11-26T10-00-00 results/lab"
    )]
    Report(Report),
    /// Serve HTTP requests that take memory and time, to put a load balancer to the test
    ///
    /// `/work?size=BYTES&duration=MICROSECONDS` takes memory, writes to all of it, and computes on it (or holds it) for that time; `/` is an empty page. What a request does not say
    /// is drawn from --size and --duration. It goes on until SIGTERM or SIGINT, and then answers what has begun. `/.heddle/stats` has its counters as JSON.
    #[command(
        after_help = "Examples:\n  heddle serve :80\n  heddle serve :80 --at-a-time 1 --mode sleep --duration exp:2ms\n  heddle serve :80 --memory-limit 512MiB --tree --report\n  heddle serve :80 --duration exp:2ms --slow x10 --from 1.5s --until 3.5s"
    )]
    Serve(Serve),
    /// Ask a service, closed or open loop, and measure
    ///
    /// Latency counts from the moment at which a request should have begun: what an open loop (--rate) could not send in time is not left out. `per-second` is of answers within the
    /// measured time. Connections stay open, so that the scheduler of a service chooses a server once a client: --new-connections opens one for each request. With -o json: failures by their kind, bytes, `latency` and `service` (from when requests did begin), and `series`, a second each. The exit status is 1 if requests failed.
    #[command(
        after_help = "Examples:\n  heddle load h2:80 --clients 64 --new-connections\n  heddle load 10.1.0.80 --workload vsvd --clients 200 --for 30s -o json\n  heddle load h2:80 --rate 1100/s --poisson --for 5s --series"
    )]
    Load(Load),
    /// Say how loaded this machine is, to load balancers
    ///
    /// Processors, memory, pressure (PSI), run queue and connections are read from the kernel; applications say what they know with POST /push. At --check, agent-checks of haproxy get a
    /// weight; GET /load at --http or --socket answers JSON as ORCA's load report has it.
    #[command(
        after_help = "Examples:\n  heddle agent --check :7777 --http :7778\n  heddle agent --check :7777 --up-to 70% --drain-at 95% --socket /run/agent.sock\n  curl --unix-socket /run/agent.sock http://agent/push \\\n    -d '{\"application_utilization\":0.4}'"
    )]
    Agent(Agent),
    /// Say what a running network counts, as Prometheus reads it
    ///
    /// Links, hosts, switches, bonds, service chains, services with each of their servers, and workers, in the text format of Prometheus. With --listen it is served at `/metrics`; the network may
    /// come and go meanwhile. Each who asks costs one question to the network.
    #[command(
        after_help = "Examples:\n  heddle metrics lab | grep heddle_link_drops_total\n  heddle metrics lab --listen :9469"
    )]
    Metrics(Metrics),
    /// Run a node of the controller cluster, in the foreground
    ///
    /// It holds the network's state in a tree of data, replicated to all nodes of its cluster, and lets any node call what any other
    /// offers. Without certificates it listens on loopback only.
    Controller(Controller),
    /// Look at a controller cluster, change it, measure it; read and write its data
    Cluster(Cluster),
    /// Print the JSON Schema (draft 7) of fabric files, for editors
    Schema,
    /// Remove what crashed networks left behind
    Clean,
    /// Print a completion script for a shell
    ///
    /// It completes commands, options and files, and by asking running networks, their names and their hosts.
    #[command(after_help = "Example: source <(heddle completions bash)")]
    Completions {
        /// The shell that the script is for
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder to write them to
        folder: PathBuf,
    },
    /// Write the reference of commands and of the file into a folder, as Markdown
    #[command(hide = true)]
    Reference {
        /// The folder to write it to
        folder: PathBuf,
    },
    /// The process behind `up`: holds the namespaces, forwards the packets
    #[command(hide = true)]
    Daemon(Daemon),
    /// Pass frames on between two devices: `up` starts it in functions of chains that name no program
    #[command(hide = true)]
    Forward {
        /// One device
        ingress: String,
        /// The other one
        egress: String,
    },
    /// The ends of a flow of datagrams: `run` starts them in hosts
    #[command(hide = true)]
    Datagrams {
        #[command(subcommand)]
        end: Datagrams,
    },
    /// Ask other hosts for an answer: `ping` starts it in hosts
    #[command(hide = true)]
    Pings(Pings),
    /// Say how a host's connections stand, as often as a line comes: `run` starts it in hosts
    #[command(hide = true)]
    Connections {
        /// The ports of the other ends
        #[arg(long = "port", value_name = "PORT")]
        ports: Vec<u16>,
    },
    /// The ends of connections that come and go: `run` starts them in hosts
    #[command(hide = true)]
    Transfers {
        #[command(subcommand)]
        end: Transfers,
    },
}

#[derive(Debug, Subcommand)]
pub enum Transfers {
    /// Begin transfers at moments drawn at random
    Send {
        /// Payload of each, by points of its distribution
        #[arg(long, value_name = "BYTES:SHARE,..")]
        sizes: live::transfers::Sizes,
        /// Picoseconds from one to the next, on the mean
        #[arg(long, value_name = "N")]
        every_ps: u64,
        /// Where randomness starts
        #[arg(long, value_name = "N")]
        seed: u64,
        /// When the run begins, by the monotonic clock
        #[arg(long, value_name = "N")]
        origin_ns: u64,
        /// When the measured time begins, since then
        #[arg(long, value_name = "N")]
        warm_up_ps: u64,
        /// How long it lasts
        #[arg(long, value_name = "N")]
        for_ps: u64,
        /// The longest segment
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
        segment: Option<u32>,
        /// Whom to connect to
        #[arg(value_name = "ADDRESS:PORT")]
        to: std::net::SocketAddrV4,
    },
    /// Read them, and answer when all is there
    Receive {
        /// The port to listen at
        #[arg(long)]
        port: u16,
        /// End after so many milliseconds
        #[arg(long, value_name = "N")]
        patience_ms: u64,
    },
}

#[derive(Debug, Subcommand)]
pub enum Datagrams {
    /// Send numbered datagrams at an even pace
    Send {
        /// Datagrams a second
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        rate: u64,
        /// How many datagrams to send
        #[arg(long, value_name = "N")]
        count: u64,
        /// Payload of each
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(16..=65_507))]
        bytes: u16,
        /// Where to send them
        #[arg(value_name = "ADDRESS:PORT")]
        to: std::net::SocketAddr,
    },
    /// Note which of them come, and when
    Receive {
        /// The port to listen at
        #[arg(long)]
        port: u16,
        /// Datagrams a second
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        rate: u64,
        /// The first that is measured
        #[arg(long, value_name = "N")]
        from: u64,
        /// The one after the last that is measured
        #[arg(long, value_name = "N")]
        to: u64,
        /// Give up after so many milliseconds
        #[arg(long, value_name = "N")]
        patience_ms: u64,
    },
    /// Send messages as fast as credit for them comes
    Stream {
        /// How many streams
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
        streams: u32,
        /// Messages of a stream that are under way
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
        window: u32,
        /// Payload of each
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(16..=65_507))]
        bytes: u16,
        /// For so many milliseconds
        #[arg(long, value_name = "N")]
        for_ms: u64,
        /// Where to send them
        #[arg(value_name = "ADDRESS:PORT")]
        to: std::net::SocketAddr,
    },
    /// Count messages and give credit for them
    Sink {
        /// The port to listen at
        #[arg(long)]
        port: u16,
        /// Messages of a stream that are under way
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
        window: u32,
        /// Measure so many milliseconds after the first message
        #[arg(long, value_name = "N")]
        warm_up_ms: u64,
        /// For so many milliseconds
        #[arg(long, value_name = "N")]
        for_ms: u64,
        /// Give up after so many milliseconds
        #[arg(long, value_name = "N")]
        patience_ms: u64,
    },
}

#[derive(Debug, Args)]
pub struct FileArg {
    /// The fabric file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// A fabric file, or a network in a word.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct FileOrTopo {
    /// The fabric file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[arg(long, value_name = "TOPOLOGY", help = network::topo_help(), add = network::topologies())]
    pub topo: Option<String>,
}

#[derive(Debug, Args)]
pub struct New {
    /// Name of the fabric; the file is NAME.fabric.yaml. Or that file itself
    pub name: String,
    /// Shape of the network
    #[arg(short, long, value_enum, default_value_t = Topology::LeafSpine)]
    pub topology: Topology,
    #[arg(long, value_name = "TOPOLOGY", help = network::topo_help(), conflicts_with = "topology", add = network::topologies())]
    pub topo: Option<String>,
    /// Overwrite the file if it is there
    #[arg(short, long)]
    pub force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Topology {
    /// Three tiers, k pods of k-port switches, k^3/4 hosts
    FatTree,
    /// Two tiers: every leaf switch is linked to every spine switch
    LeafSpine,
    /// Servers with several ports that forward, and switches that are linked to servers only
    Bcube,
    /// Nodes and links one by one
    Explicit,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub file: FileOrTopo,
    #[command(flatten)]
    pub selection: Selection,
}

#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    pub file: FileOrTopo,
    /// Name of the running network, if not the fabric's (of --topo tree,3: `tree-3`)
    #[arg(short, long)]
    pub name: Option<String>,
    /// Don't wait until bonds have converged and servers have started
    #[arg(long)]
    pub no_wait: bool,
    // What Docker's users write by habit: a network runs in the background anyway.
    #[arg(short, long, hide = true)]
    detach: bool,
}

/// Which runs of a file.
#[derive(Debug, Args)]
pub struct Selection {
    /// Run only simulated
    #[arg(long, conflicts_with = "live")]
    pub sim: bool,
    /// Run only live
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub choice: Choice,
}

/// Which runs of a file, whoever drives them.
#[derive(Debug, Args)]
pub struct Choice {
    /// Seed of all randomness, in place of the file's `seed`
    #[arg(long, value_name = "N", value_parser = seed::seed)]
    pub seed: Option<u64>,
    /// Only this experiment (may be given several times)
    #[arg(short = 'e', long = "experiment", value_name = "NAME")]
    pub experiments: Vec<String>,
    /// Only cases of this name, as `heddle plan` shows them, or with this value: `ecmp`, `spread=ecmp` (may be given several times)
    #[arg(long = "case", alias = "only", value_name = "CASE")]
    pub cases: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub file: FileArg,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub running: Running,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Fabric files, folders of them (*.fabric.yaml), or folders of results
    #[arg(value_name = "FILE|DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub from: Vec<PathBuf>,
    /// So many files may lie apart before the exit status is 1
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub apart_max: u32,
    #[command(flatten)]
    pub choice: Choice,
    #[command(flatten)]
    pub running: Running,
}

/// How runs go, and where their results go.
#[derive(Debug, Args)]
pub struct Running {
    /// Simulated runs side by side [default: one a core]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Folder for the results [default: results/NAME]
    #[arg(long, aliases = ["out", "out-dir", "output-dir"], value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub results: Option<PathBuf>,
    /// Go on with runs that were interrupted or failed: those that have ended are not run again
    #[arg(long)]
    pub resume: bool,
    /// Let go of the results of earlier runs, which are kept beside the new ones otherwise (results/NAME-TIME)
    #[arg(long, conflicts_with = "resume")]
    pub overwrite: bool,
    /// Simulated hosts cost what this file of `heddle calibrate` says [default: they cost nothing]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub machine: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Calibrate {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "machine.json", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// How often all is measured
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=100))]
    pub rounds: u32,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Report {
    /// A folder that `run` wrote
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "compare", conflicts_with = "compare")]
    pub folder: Option<PathBuf>,
    /// Two such folders, side by side
    #[arg(long, num_args = 0..=2, value_names = ["A", "B"], value_hint = ValueHint::DirPath)]
    pub compare: Vec<PathBuf>,
    /// Write the page there; with --compare there is none otherwise, and without it in place of `DIR/report.html`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Daemon {
    /// Name of the network
    #[arg(long)]
    pub instance: String,
    /// End when the client that started it goes
    #[arg(long)]
    pub ephemeral: bool,
}
