//! Commands about tables of flows: what they take.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;

use super::candidates;
use super::network::GlobalNetworkArg;

/// Completes names of hosts and switches.
fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::nodes)
}

/// Completes names of networks that run.
fn networks() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::networks)
}

#[derive(Debug, Args)]
pub struct Flow {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: FlowAction,
}

#[derive(Debug, Subcommand)]
pub enum FlowAction {
    /// Add flows, as `ovs-ofctl add-flow` does
    ///
    /// One with the table, priority and match of another takes its place. Either all are added, or, if one of them is wrong, none. A switch that had no
    /// tables gets them, with the flow `priority=0 actions=NORMAL`: what no other flow is for goes along the routes. Packets and programs go on meanwhile.
    ///
    /// A port is named by its number, which counts from 0 (`heddle port show SWITCH` lists them), or by the node that it leads to: `in_port=h1`, `output:spine1`. A host or a
    /// service may stand for its address in what a flow matches: `nw_src=h1`, `dl_dst=h2`. In a file, a line may begin with `add`, `modify`, `modify_strict`, `delete` or
    /// `delete_strict`, as in bundles of `ovs-ofctl`.
    #[command(after_help = ADD_EXAMPLES)]
    Add(Flows),
    /// Give flows other actions, as `ovs-ofctl mod-flows` does: those that match no more than is said; their counters go on
    #[command(visible_alias = "modify", after_help = "Example: heddle flow mod leaf1 'tcp,tp_dst=80,actions=normal'")]
    Mod(FlowsMeant),
    /// Remove flows, as `ovs-ofctl del-flows` does: those that match no more than is said; without any, all
    #[command(
        visible_alias = "delete",
        after_help = "Examples:\n  heddle flow del leaf1 'tcp,tp_dst=80'\n  heddle flow del leaf1 'cookie=0x7/-1'\n  heddle flow del leaf1"
    )]
    Del(FlowsMeant),
    /// Show flows, as `ovs-ofctl dump-flows` does: those that match no more than is said; without any, all
    ///
    /// On a terminal ports have the names of the nodes that they lead to, and through a pipe their numbers, which count from 0 (`heddle port show SWITCH` lists them). `flow add`
    /// takes both.
    #[command(
        alias = "list",
        after_help = "Examples:\n  heddle flow show leaf1\n  heddle flow show leaf1 'table=0,tcp' -o json\n  heddle flow show leaf1 out_port=spine1"
    )]
    Show(FlowsShown),
}

const ADD_EXAMPLES: &str = "\
Examples:
  heddle flow add leaf1 'priority=10,tcp,tp_dst=80,actions=drop'
  heddle flow add leaf1 'ip,nw_dst=10.0.1.9,actions=mod_nw_dst:10.0.1.2,normal'
  heddle flow add leaf1 'idle_timeout=60,in_port=h1,udp,actions=output:spine1'
  heddle flow add leaf1 'ip,nw_src=h1,nw_dst=h2,actions=drop'
  heddle flow add leaf1 flows.txt               # as ovs-ofctl add-flows
  heddle flow show leaf1 | heddle flow add leaf2 -";

#[derive(Debug, Args)]
pub struct Flows {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// Flows, each in quotes; a file, or `-` for standard input, has one a line, and may be what `flow show` has printed
    #[arg(value_name = "FLOW|FILE", required = true)]
    pub flows: Vec<String>,
}

#[derive(Debug, Args)]
pub struct FlowsMeant {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// Which flows, each in quotes; `-` reads them from standard input, one a line
    #[arg(value_name = "FLOW")]
    pub flows: Vec<String>,
    /// Only the one flow with exactly this match and priority
    #[arg(long)]
    pub strict: bool,
}

#[derive(Debug, Args)]
pub struct FlowsShown {
    /// The switch; if left out, all that have tables
    #[arg(add = nodes())]
    pub switch: Option<String>,
    /// Which flows
    #[arg(value_name = "FLOWS")]
    pub flows: Option<String>,
    /// Name ports by the nodes that they lead to, through a pipe as well
    #[arg(long, conflicts_with = "no_names")]
    pub names: bool,
    /// Show numbers of ports, on a terminal as well
    #[arg(long)]
    pub no_names: bool,
}

#[derive(Debug, Args)]
pub struct Group {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: GroupAction,
}

#[derive(Debug, Subcommand)]
pub enum GroupAction {
    /// Add groups, as `ovs-ofctl add-group` does
    ///
    /// The type says what becomes of a packet: `select`, it goes to one bucket, by its connection; `all`, each bucket gets a copy; `ff` (fast failover), it goes to the first bucket
    /// whose `watch_port` is up; `indirect`, there is but one bucket.
    #[command(
        after_help = "Examples:\n  heddle group add leaf1 \\\n    'group_id=1,type=select,bucket=output:spine1,bucket=output:spine2'"
    )]
    Add(Groups),
    /// Give groups other buckets, as `ovs-ofctl mod-group` does
    #[command(visible_alias = "modify")]
    Mod(Groups),
    /// Remove groups by their numbers, and the flows that name them; without any, all
    #[command(visible_alias = "delete", after_help = "Example: heddle group del leaf1 group_id=1")]
    Del(GroupsMeant),
    /// Show groups, as `ovs-ofctl dump-groups` does
    #[command(alias = "list", after_help = "Examples:\n  heddle group show leaf1\n  heddle group show leaf1 1")]
    Show(GroupsShown),
    /// Show what groups and their buckets have counted, as `ovs-ofctl dump-group-stats` does
    ///
    /// Packets that have come to a group, and of them those that each of its buckets got, by the number of the bucket from 0. Groups that name groups count as well.
    #[command(after_help = "Examples:\n  heddle group stats leaf1\n  heddle group stats leaf1 1 -o json")]
    Stats(GroupsShown),
}

#[derive(Debug, Args)]
pub struct Groups {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// Groups, each in quotes; `-` reads them from standard input, one a line
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<String>,
}

#[derive(Debug, Args)]
pub struct GroupsMeant {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// Which groups
    #[arg(value_name = "GROUP")]
    pub groups: Vec<String>,
}

#[derive(Debug, Args)]
pub struct GroupsShown {
    /// The switch; if left out, all that have tables
    #[arg(add = nodes())]
    pub switch: Option<String>,
    /// Only the one with this number
    #[arg(value_name = "NUMBER")]
    pub number: Option<String>,
}

#[derive(Debug, Args)]
pub struct Meter {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: MeterAction,
}

#[derive(Debug, Subcommand)]
pub enum MeterAction {
    /// Add meters, as `ovs-ofctl add-meter` does; the flow `actions=meter:1,normal` has packets pass one
    #[command(
        after_help = "Examples:\n  heddle meter add leaf1 \\\n    'meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=100'\n  heddle meter add leaf1 'meter=2,pktps,band=type=drop,rate=500'"
    )]
    Add(Meters),
    /// Give meters other bands, as `ovs-ofctl mod-meter` does; they begin anew
    #[command(visible_alias = "modify")]
    Mod(Meters),
    /// Remove meters by their numbers, and the flows that name them; without any, all
    #[command(visible_alias = "delete", after_help = "Example: heddle meter del leaf1 meter=1")]
    Del(MetersMeant),
    /// Show meters and what they have counted, as `ovs-ofctl dump-meters` and `meter-stats` do
    #[command(
        aliases = ["list", "stats"],
        after_help = "Examples:\n  heddle meter show leaf1\n  heddle meter show leaf1 1"
    )]
    Show(GroupsShown),
}

#[derive(Debug, Args)]
pub struct Meters {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// Meters, each in quotes; `-` reads them from standard input, one a line
    #[arg(value_name = "METER", required = true)]
    pub meters: Vec<String>,
}

#[derive(Debug, Args)]
pub struct MetersMeant {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// Which meters
    #[arg(value_name = "METER")]
    pub meters: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Trace {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// The packet, by its fields, each with one value; the port is that by which packets of its source come, and other fields that are not named are 0
    #[arg(value_name = "PACKET")]
    pub packet: String,
    /// The running network, by name; `HEDDLE_NETWORK` may say it, and neither is needed when only one runs
    #[arg(short, long = "name", alias = "network", alias = "instance", value_name = "NETWORK", add = networks())]
    pub name: Option<String>,
}
