//! What one run measured: one type for both drivers.

use fabric::DriverKind;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use transport::paced;

use crate::bonds::BondRecord;
use crate::cluster_record::ClusterRecord;

/// One run, as it stands in a line of `samples.jsonl`. It holds nothing that depends on the machine or the time of day
/// besides what a live run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// How long it was measured, in seconds. Where controllers were asked: how long that took.
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
    /// taken by the receiving host's kernel. Live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_outside_links: Option<u64>,
    /// How much later than due a packet was handed over at most, microseconds, from the network's start up to the end of
    /// this run. Live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_max_us: Option<u64>,
    /// What the controllers did, where they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Box<ClusterRecord>>,
}

/// What one flow did while it was measured; where a pair has several streams, what they did together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Payload that reached the receiving program, bit/s.
    pub goodput_bps: f64,
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
    /// What became of its datagrams, where they were sent at a constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<paced::Outcome>,
}

/// What one direction of a link did while it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Packets lost because the link had no carrier, or lost it while they were under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// Share of the time in transmission, 0 to 1; absent for a link without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Axis and value of a case as written in the file. A JSON object that keeps its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(pub Vec<(String, String)>);

impl Labels {
    /// The value on the axis `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Whether all of `only` are among them.
    pub fn contain(&self, only: &[(String, String)]) -> bool {
        only.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

impl std::fmt::Display for Labels {
    /// The values, which speak for themselves most of the time; bare numbers, truths and maps get their axis.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all");
        }
        for (i, (key, value)) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            if value.contains(": ") && !value.starts_with('[') {
                // Commas stand between labels.
                write!(f, "{comma}{key} {}", value.replace(": ", " ").replace(", ", " "))?;
            } else if is_number || matches!(value.as_str(), "true" | "false") {
                write!(f, "{comma}{key} {value}")?;
            } else {
                write!(f, "{comma}{value}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of labels")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Labels(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_do_not_speak_for_themselves_get_their_axis() {
        let shown = |labels: &[(&str, &str)]| {
            Labels(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()).to_string()
        };
        assert_eq!(shown(&[]), "all");
        assert_eq!(
            shown(&[("nodes", "3"), ("at", "leader"), ("pre-vote", "false")]),
            "nodes 3, leader, pre-vote false"
        );
        let delay = ("delay", "min: 70ms, mean: 80ms");
        assert_eq!(shown(&[("election-timeout", "measured"), delay]), "measured, delay min 70ms mean 80ms");
        assert_eq!(shown(&[("shards", "[name: car, modules: [car]]")]), "[name: car, modules: [car]]");
    }
}
