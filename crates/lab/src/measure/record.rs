//! What one run measured: one type for both drivers.

use std::collections::BTreeMap;

use fabric::{DriverKind, Fabric};
use machine::Span;
use serde::{Deserialize, Serialize};
use topology::{Link, NodeId, Side};
use transport::delay::Delays;
use transport::{paced, transfers};

use super::cluster_record::ClusterRecord;
use super::request_record::RequestRecord;
use super::time_series::TimeSeries;
use crate::labels::Labels;

/// One run, as it stands in a line of `samples.jsonl`. It holds nothing that depends on the machine or the time of day
/// besides what a live run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Record {
    /// The experiment's name.
    pub experiment: String,
    /// Index of the case in its experiment.
    pub case: usize,
    /// Axis and value as written, in the order of the axes.
    pub labels: Labels,
    /// Which repetition, from 1.
    pub repeat: u32,
    /// Where its chance started.
    pub seed: u64,
    /// Who drove it.
    pub driver: DriverKind,
    /// How long it was measured, in seconds; live, between the two moments for which the fabric's counters were read. Where controllers were
    /// asked: how long that took.
    pub seconds: f64,
    /// In the order of the pattern's pairs.
    pub flows: Vec<FlowRecord>,
    /// Each link twice, in the fabric's order: from its end A to B, then back.
    pub links: Vec<LinkRecord>,
    /// What the ends of the fabric's bonds did, in its order: both ends of a bond follow each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<BondRecord>,
    /// One packet or ACK over one link is one packet-hop; simulated runs only, warm-up included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_hops: Option<u64>,
    /// Late segments over all flows, where the driver counts them by place and not by flow (RFC 4737).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// The largest reordering extent over all flows, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_extent: Option<u32>,
    /// Packets that got lost in the machine and not in a link: no buffer, a full ring between threads, malformed, or not
    /// taken by the receiving host's kernel. Live runs, and simulated ones whose hosts cost something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_outside_links: Option<u64>,
    /// Packets that went nowhere while it was measured and no link has counted, by the name of the reason: what flows, meters and functions of chains dropped, what was not in its VLAN.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
    /// How much later than due a packet was handed over at most, microseconds, from the network's start up to the end of
    /// this run. Live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_max_us: Option<u64>,
    /// What went on from step to step, where that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_series: Option<Box<TimeSeries>>,
    /// How many cores of the machine were busy on the mean while it was measured, with whatever ran on them. Live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cores: Option<f64>,
    /// What came of requests to a service, where there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<RequestRecord>>,
    /// What the controllers did, where they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Box<ClusterRecord>>,
}

/// What one flow did while it was measured; where a pair has several streams, what they did together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowRecord {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Payload delivered in the measured time, bit/s. Simulated: what reached the receiving program, in order. Live: what the fabric handed to
    /// the receiving host, for all flows in the same window; of TCP each byte once, of UDP whole datagrams.
    pub goodput_bps: f64,
    /// What the receiving program says of it, bit/s, by a clock of its own, whose window is not quite the others'; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_goodput_bps: Option<f64>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that the duplicate-ACK threshold was reached; simulated runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_retransmits: Option<u64>,
    /// Retransmission timeouts; simulated runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// Segments that arrived late (RFC 4737), where the driver knows the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// The largest reordering extent in segments, likewise: simulated since the end of the warm-up, live since the flow's
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_extent: Option<u32>,
    /// How long its packets took from where they entered the network to where they left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// What became of its datagrams, where they were sent at a constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<paced::Outcome>,
    /// What became of the connections of this pair, where they come and go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<transfers::Outcome>,
    /// Why its connection did not come about, or broke off. Live runs only: a simulated one goes on trying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl FlowRecord {
    /// Of a flow of which nothing is known but its goodput.
    pub(crate) const fn new(from: String, to: String, goodput_bps: f64) -> Self {
        Self {
            from,
            to,
            goodput_bps,
            program_goodput_bps: None,
            retransmits: 0,
            fast_retransmits: None,
            timeouts: None,
            reordered: None,
            reorder_extent: None,
            delays: None,
            datagrams: None,
            transfers: None,
            failure: None,
        }
    }
}

/// What one direction of a link did while it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkRecord {
    /// The node that sends in this direction.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Whether it joins two nodes that forward: switches, or hosts that do.
    pub trunk: bool,
    /// Packets accepted.
    pub packets: u64,
    /// Bytes accepted.
    pub bytes: u64,
    /// Packets turned away by a full queue.
    pub drops: u64,
    /// Packets marked since its queue was long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marks: u64,
    /// Packets lost because the link had no carrier, or lost it while they were under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// Packets that were lost at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub losses: u64,
    /// Packets that were made two of at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// Packets of which a bit was flipped at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corruptions: u64,
    /// Packets that did not take the delay, at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overtakes: u64,
    /// Share of the time in transmission, 0 to 1; absent for a link without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// How many packets waited behind the one in transmission, on the mean over the time; absent for a link without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mean: Option<f64>,
}

/// What one end of a bond sent in a run, and how it put in order what came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondRecord {
    /// The node at this end.
    pub node: String,
    /// The node at the other end.
    pub to: String,
    /// The bond's name at this end.
    pub name: String,
    /// Bytes that this end sent over each member while it was measured.
    pub bytes: Vec<u64>,
    /// Order on arrival at this end, where it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderRecord>,
}

/// What order on arrival did at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OrderRecord {
    /// Frames that came.
    pub offered: u64,
    /// Frames that had to wait.
    pub held: u64,
    /// What a frame waited on average, those included that did not wait; seconds.
    pub hold_mean_seconds: f64,
    /// The longest wait, seconds.
    pub hold_max_seconds: f64,
    /// Gaps that were given up.
    pub given_up: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the file calls a node.
pub(crate) fn node_name(fabric: &Fabric, node: NodeId) -> String {
    fabric.topology.nodes[node].name.clone()
}

/// One direction of a link over the measured time. Both drivers count alike.
pub(crate) fn link_record(
    fabric: &Fabric,
    link: &Link,
    from: Side,
    counters: &link::Counters,
    measured: Span,
) -> LinkRecord {
    let forwards = |side| fabric.topology.forwards(link.end(side).node);
    let spec = link.spec_from(from);
    let share = counters.busy.as_ps() as f64 / (measured.as_ps() as f64).max(1.0);
    LinkRecord {
        from: node_name(fabric, link.end(from).node),
        to: node_name(fabric, link.end(from.other()).node),
        trunk: forwards(Side::A) && forwards(Side::B),
        packets: counters.packets,
        bytes: counters.bytes,
        drops: counters.drops,
        marks: counters.marks,
        cut: counters.cut,
        losses: counters.losses,
        duplicates: counters.duplicates,
        corruptions: counters.corruptions,
        overtakes: counters.overtakes,
        // What is accepted in the last moment is transmitted after it: a full link would show a little more than 1.
        utilisation: spec.rate_bps.map(|_| share.min(1.0)),
        queue_mean: spec.rate_bps.map(|_| counters.waited.as_secs_f64() / measured.as_secs_f64().max(1e-12)),
    }
}

/// Which of parallel links the one at this place of a record is, from 1; `None` if there is one only.
pub(crate) fn number_among_parallel(links: &[LinkRecord], at: usize) -> Option<usize> {
    let is_parallel = |link: &&LinkRecord| link.from == links[at].from && link.to == links[at].to;
    let has_others = links.iter().filter(is_parallel).nth(1).is_some();
    has_others.then(|| links[..=at].iter().filter(is_parallel).count())
}
