//! What is said of tables of flows.

use serde::{Deserialize, Serialize};
use vswitch::conntrack::ConntrackCounters;
use vswitch::flow_table::CacheCounters;

/// What is in the tables of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchFlows {
    /// The switch's name.
    pub switch: String,
    /// The entries that were asked for, in the order of tables, then of priorities, highest first.
    pub entries: Vec<FlowEntry>,
    /// All groups, as `ovs-ofctl dump-groups` writes them.
    pub groups: Vec<String>,
    /// What they have counted, in the same order.
    #[serde(default)]
    pub group_counters: Vec<GroupCounters>,
    /// All meters.
    pub meters: Vec<MeterEntry>,
    /// What the caches in front of the tables have counted.
    pub cache: CacheCounters,
}

/// What a group of a switch has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounters {
    /// By which flows name it.
    pub id: u32,
    /// Flows that name it.
    pub flows: usize,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it has been there, in milliseconds.
    pub duration_ms: u64,
    /// By bucket: packets and bytes that it got.
    pub buckets: Vec<(u64, u64)>,
}

/// A meter of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterEntry {
    /// By which flows name it.
    pub id: u32,
    /// As `ovs-ofctl dump-meters` writes it, on one line.
    pub text: String,
    /// Flows that name it.
    pub flows: usize,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it has been there, in milliseconds.
    pub duration_ms: u64,
    /// By band: packets and bytes that were dropped or marked.
    pub bands: Vec<(u64, u64)>,
}

/// An entry of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEntry {
    /// The table that it is in.
    pub table: u8,
    /// Of two entries that match a packet, the one with the higher priority counts.
    pub priority: u16,
    /// A number by which whoever made it knows it.
    pub cookie: u64,
    /// What it matches, as `ovs-ofctl` writes it; empty: everything.
    pub matching: String,
    /// What is done with what it matches, as `ovs-ofctl` writes it.
    pub actions: String,
    /// It goes when it has matched nothing for so long, in seconds; 0: never.
    pub idle_timeout_s: u16,
    /// It goes so long after it was made, in seconds; 0: never.
    pub hard_timeout_s: u16,
    /// How long it has been there, in milliseconds.
    pub duration_ms: u64,
    /// How long it has matched nothing, in milliseconds.
    pub idle_ms: u64,
    /// Packets that it has matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a packet would meet at a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPacket {
    /// The entries, in the order in which it meets them.
    pub entries: Vec<TracedEntry>,
    /// The table in which no entry is for it.
    pub missed: Option<u8>,
    /// What is done with it.
    pub actions: String,
    /// What that depends on, as flows match it.
    pub because_of: String,
}

/// What a packet meets in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedEntry {
    /// The table; `None`: the flow is what is known of the packet's connection from there on.
    pub table: Option<u8>,
    /// All of the flow.
    pub flow: String,
}

/// The connections that a switch tracks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchConnections {
    /// The switch's name.
    pub switch: String,
    /// What has been counted; how many connections there are, too, of which not all need be listed.
    pub counters: ConntrackCounters,
    /// The connections.
    pub connections: Vec<ConnectionEntry>,
}

/// A connection that a switch tracks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEntry {
    /// As `ovs-appctl dpctl/dump-conntrack` writes it.
    pub text: String,
    /// How long it lives without another packet, in milliseconds.
    pub expires_ms: u64,
}

/// A flow of TCP or UDP as seen where it leaves the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounters {
    /// Where it comes from.
    pub from: std::net::SocketAddr,
    /// Where it goes.
    pub to: std::net::SocketAddr,
    /// Bytes of payload that its receiver was handed: of TCP each once, however often it was sent; of UDP those of whole datagrams.
    pub delivered_bytes: u64,
    /// What order its segments arrived in, of TCP.
    pub reordering: Option<transport::reordering::Counters>,
    /// How long its packets took through the network, where a link has a rate or a delay; of datagrams in fragments the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<transport::delay::Delays>,
}
