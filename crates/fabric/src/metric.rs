//! What is measured: a metric's word in the file, what its number counts, and what kind of work yields it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Problems;
use crate::read::Read;
use crate::tree::Node;
use crate::words::{Words, word_of, words};
use crate::{Operation, Statistic};

/// What is measured. Each run yields one value of each. Written as one word: `goodput-mean`, `create-p99`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Mean goodput of the flows, bit/s.
    GoodputMean,
    /// Goodput of the slowest flow, bit/s.
    GoodputMin,
    /// Goodput of the fastest flow, bit/s.
    GoodputMax,
    /// Goodput of all flows together, bit/s.
    GoodputSum,
    /// Jain's index over the flows' goodputs, 0 to 1.
    Fairness,
    /// Segments sent again.
    Retransmits,
    /// Times that the duplicate-ACK threshold was reached (simulated only).
    FastRetransmits,
    /// Retransmission timeouts (simulated only).
    Timeouts,
    /// Segments that arrived after one that was sent later (RFC 4737).
    Reordered,
    /// The largest reordering extent seen, in segments (RFC 4737, section 4.2.1).
    ReorderExtent,
    /// Packets that a full queue turned away.
    Drops,
    /// Packets that wait in queues, those in transmission left out: of all links together, on the mean over the time.
    QueueMean,
    /// Packets that links marked since their queues were long.
    Marks,
    /// Packets that links lost at random.
    LinkLosses,
    /// Packets that links made two of, at random, over all links.
    LinkDuplicates,
    /// Packets of which links flipped a bit, at random, over all links.
    LinkCorruptions,
    /// Packets that did not take the delay of a link, at random, over all links.
    LinkOvertakes,
    /// Mean utilisation of the links between switches, and between hosts that forward and switches, 0 to 1.
    UtilisationMean,
    /// Utilisation of the busiest link direction, 0 to 1.
    UtilisationMax,
    /// How long packets took from where they entered the network to where they left it, seconds.
    Delay(Statistic),
    /// Smoothed round-trip times of the senders' TCP, as they were at the end of each step of a time series, seconds.
    RoundTrip(Statistic),
    /// Datagrams of a constant rate that were sent and never came.
    Lost,
    /// Datagrams of a constant rate that came again.
    Duplicates,
    /// The longest time between two arrivals of a flow of a constant rate, seconds.
    LongestGap,
    /// How long transfers took that began in the measured time and ended, seconds.
    Completion(Statistic),
    /// The same of the transfers of one class of sizes, seconds.
    CompletionOf(SizeClass, Statistic),
    /// Transfers that began in the measured time and did not end.
    Unfinished,
    /// How long requests of this operation took, seconds.
    Latency(Operation, Statistic),
    /// Requests to a service that were answered, a second.
    RequestRate,
    /// How long requests to a service took, from when they should have begun, seconds.
    Response(Statistic),
    /// Requests of this operation that all clients together had answered, a second.
    Throughput(Operation),
    /// Writes that were acknowledged and are not in the data after the run.
    LostWrites,
    /// Requests that ended in an error, or without an answer.
    Failed,
    /// 1 if the answers could have come from one copy of the data that is asked one request at a time, else 0.
    Linearizable,
    /// The longest time in which no write succeeded, seconds.
    UnavailableMax,
    /// Resident memory of the node that has the most of it, at the end, bytes.
    ResidentMax,
}

/// Which transfers, by their payload: the bounds are those of the literature on data centres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// Of at most 100 kB.
    Short,
    /// Of more, up to 10 MB.
    Medium,
    /// Of more than 10 MB.
    Long,
}

impl SizeClass {
    /// All of them, by size.
    pub const ALL: [Self; 3] = [Self::Short, Self::Medium, Self::Long];

    /// The class of a transfer with so much payload.
    pub const fn of(bytes: u32) -> Self {
        match bytes {
            0..=100_000 => Self::Short,
            100_001..=10_000_000 => Self::Medium,
            _ => Self::Long,
        }
    }
}

/// What a metric's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits a second.
    BitsPerSecond,
    /// A number of things.
    Count,
    /// 0 to 1, shown as it is.
    Index,
    /// 0 to 1, shown in per cent.
    Share,
    /// Seconds.
    Seconds,
    /// A number of things a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// 1 for yes, 0 for no.
    YesNo,
}

words!(Metric, "Metric", "a metric", {
    "goodput-mean" => Metric::GoodputMean,
    "goodput-min" => Metric::GoodputMin,
    "goodput-max" => Metric::GoodputMax,
    "goodput-sum" => Metric::GoodputSum,
    "fairness" => Metric::Fairness,
    "retransmits" => Metric::Retransmits,
    "fast-retransmits" => Metric::FastRetransmits,
    "timeouts" => Metric::Timeouts,
    "reordered" => Metric::Reordered,
    "reorder-extent" => Metric::ReorderExtent,
    "drops" => Metric::Drops,
    "queue-mean" => Metric::QueueMean,
    "marks" => Metric::Marks,
    "link-losses" => Metric::LinkLosses,
    "link-duplicates" => Metric::LinkDuplicates,
    "link-corruptions" => Metric::LinkCorruptions,
    "link-overtakes" => Metric::LinkOvertakes,
    "utilisation-mean" => Metric::UtilisationMean,
    "utilisation-max" => Metric::UtilisationMax,
    "delay-min" => Metric::Delay(Statistic::Min),
    "delay-mean" => Metric::Delay(Statistic::Mean),
    "delay-p50" => Metric::Delay(Statistic::P50),
    "delay-p90" => Metric::Delay(Statistic::P90),
    "delay-p99" => Metric::Delay(Statistic::P99),
    "delay-p99.9" => Metric::Delay(Statistic::P999),
    "delay-max" => Metric::Delay(Statistic::Max),
    "rtt-min" => Metric::RoundTrip(Statistic::Min),
    "rtt-mean" => Metric::RoundTrip(Statistic::Mean),
    "rtt-p50" => Metric::RoundTrip(Statistic::P50),
    "rtt-p90" => Metric::RoundTrip(Statistic::P90),
    "rtt-p99" => Metric::RoundTrip(Statistic::P99),
    "rtt-p99.9" => Metric::RoundTrip(Statistic::P999),
    "rtt-max" => Metric::RoundTrip(Statistic::Max),
    "lost" => Metric::Lost,
    "duplicates" => Metric::Duplicates,
    "longest-gap" => Metric::LongestGap,
    "completion-mean" => Metric::Completion(Statistic::Mean),
    "completion-p50" => Metric::Completion(Statistic::P50),
    "completion-p90" => Metric::Completion(Statistic::P90),
    "completion-p99" => Metric::Completion(Statistic::P99),
    "completion-p99.9" => Metric::Completion(Statistic::P999),
    "completion-max" => Metric::Completion(Statistic::Max),
    "completion-short-mean" => Metric::CompletionOf(SizeClass::Short, Statistic::Mean),
    "completion-short-p50" => Metric::CompletionOf(SizeClass::Short, Statistic::P50),
    "completion-short-p90" => Metric::CompletionOf(SizeClass::Short, Statistic::P90),
    "completion-short-p99" => Metric::CompletionOf(SizeClass::Short, Statistic::P99),
    "completion-short-p99.9" => Metric::CompletionOf(SizeClass::Short, Statistic::P999),
    "completion-short-max" => Metric::CompletionOf(SizeClass::Short, Statistic::Max),
    "completion-medium-mean" => Metric::CompletionOf(SizeClass::Medium, Statistic::Mean),
    "completion-medium-p50" => Metric::CompletionOf(SizeClass::Medium, Statistic::P50),
    "completion-medium-p90" => Metric::CompletionOf(SizeClass::Medium, Statistic::P90),
    "completion-medium-p99" => Metric::CompletionOf(SizeClass::Medium, Statistic::P99),
    "completion-medium-p99.9" => Metric::CompletionOf(SizeClass::Medium, Statistic::P999),
    "completion-medium-max" => Metric::CompletionOf(SizeClass::Medium, Statistic::Max),
    "completion-long-mean" => Metric::CompletionOf(SizeClass::Long, Statistic::Mean),
    "completion-long-p50" => Metric::CompletionOf(SizeClass::Long, Statistic::P50),
    "completion-long-p90" => Metric::CompletionOf(SizeClass::Long, Statistic::P90),
    "completion-long-p99" => Metric::CompletionOf(SizeClass::Long, Statistic::P99),
    "completion-long-p99.9" => Metric::CompletionOf(SizeClass::Long, Statistic::P999),
    "completion-long-max" => Metric::CompletionOf(SizeClass::Long, Statistic::Max),
    "unfinished" => Metric::Unfinished,
    "requests-per-second" => Metric::RequestRate,
    "response-min" => Metric::Response(Statistic::Min),
    "response-mean" => Metric::Response(Statistic::Mean),
    "response-p50" => Metric::Response(Statistic::P50),
    "response-p90" => Metric::Response(Statistic::P90),
    "response-p99" => Metric::Response(Statistic::P99),
    "response-p99.9" => Metric::Response(Statistic::P999),
    "response-max" => Metric::Response(Statistic::Max),
    "create-min" => Metric::Latency(Operation::Create, Statistic::Min),
    "create-mean" => Metric::Latency(Operation::Create, Statistic::Mean),
    "create-p50" => Metric::Latency(Operation::Create, Statistic::P50),
    "create-p90" => Metric::Latency(Operation::Create, Statistic::P90),
    "create-p99" => Metric::Latency(Operation::Create, Statistic::P99),
    "create-p99.9" => Metric::Latency(Operation::Create, Statistic::P999),
    "create-max" => Metric::Latency(Operation::Create, Statistic::Max),
    "create-rate" => Metric::Throughput(Operation::Create),
    "read-min" => Metric::Latency(Operation::Read, Statistic::Min),
    "read-mean" => Metric::Latency(Operation::Read, Statistic::Mean),
    "read-p50" => Metric::Latency(Operation::Read, Statistic::P50),
    "read-p90" => Metric::Latency(Operation::Read, Statistic::P90),
    "read-p99" => Metric::Latency(Operation::Read, Statistic::P99),
    "read-p99.9" => Metric::Latency(Operation::Read, Statistic::P999),
    "read-max" => Metric::Latency(Operation::Read, Statistic::Max),
    "read-rate" => Metric::Throughput(Operation::Read),
    "update-min" => Metric::Latency(Operation::Update, Statistic::Min),
    "update-mean" => Metric::Latency(Operation::Update, Statistic::Mean),
    "update-p50" => Metric::Latency(Operation::Update, Statistic::P50),
    "update-p90" => Metric::Latency(Operation::Update, Statistic::P90),
    "update-p99" => Metric::Latency(Operation::Update, Statistic::P99),
    "update-p99.9" => Metric::Latency(Operation::Update, Statistic::P999),
    "update-max" => Metric::Latency(Operation::Update, Statistic::Max),
    "update-rate" => Metric::Throughput(Operation::Update),
    "delete-min" => Metric::Latency(Operation::Delete, Statistic::Min),
    "delete-mean" => Metric::Latency(Operation::Delete, Statistic::Mean),
    "delete-p50" => Metric::Latency(Operation::Delete, Statistic::P50),
    "delete-p90" => Metric::Latency(Operation::Delete, Statistic::P90),
    "delete-p99" => Metric::Latency(Operation::Delete, Statistic::P99),
    "delete-p99.9" => Metric::Latency(Operation::Delete, Statistic::P999),
    "delete-max" => Metric::Latency(Operation::Delete, Statistic::Max),
    "delete-rate" => Metric::Throughput(Operation::Delete),
    "rpc-min" => Metric::Latency(Operation::Rpc, Statistic::Min),
    "rpc-mean" => Metric::Latency(Operation::Rpc, Statistic::Mean),
    "rpc-p50" => Metric::Latency(Operation::Rpc, Statistic::P50),
    "rpc-p90" => Metric::Latency(Operation::Rpc, Statistic::P90),
    "rpc-p99" => Metric::Latency(Operation::Rpc, Statistic::P99),
    "rpc-p99.9" => Metric::Latency(Operation::Rpc, Statistic::P999),
    "rpc-max" => Metric::Latency(Operation::Rpc, Statistic::Max),
    "rpc-rate" => Metric::Throughput(Operation::Rpc),
    "election-min" => Metric::Latency(Operation::Election, Statistic::Min),
    "election-mean" => Metric::Latency(Operation::Election, Statistic::Mean),
    "election-p50" => Metric::Latency(Operation::Election, Statistic::P50),
    "election-p90" => Metric::Latency(Operation::Election, Statistic::P90),
    "election-p99" => Metric::Latency(Operation::Election, Statistic::P99),
    "election-p99.9" => Metric::Latency(Operation::Election, Statistic::P999),
    "election-max" => Metric::Latency(Operation::Election, Statistic::Max),
    "lost-writes" => Metric::LostWrites,
    "failed" => Metric::Failed,
    "linearizable" => Metric::Linearizable,
    "unavailable-max" => Metric::UnavailableMax,
    "resident-max" => Metric::ResidentMax,
});

impl Metric {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::WORDS.iter().map(|&(_, metric)| metric)
    }

    /// What its number counts.
    pub const fn unit(self) -> Unit {
        match self {
            Self::GoodputMean | Self::GoodputMin | Self::GoodputMax | Self::GoodputSum => Unit::BitsPerSecond,
            Self::Fairness => Unit::Index,
            Self::UtilisationMean | Self::UtilisationMax => Unit::Share,
            Self::Retransmits
            | Self::FastRetransmits
            | Self::Timeouts
            | Self::Reordered
            | Self::ReorderExtent
            | Self::Drops
            | Self::QueueMean
            | Self::Marks
            | Self::LinkLosses
            | Self::LinkDuplicates
            | Self::LinkCorruptions
            | Self::LinkOvertakes
            | Self::Lost
            | Self::Duplicates
            | Self::Unfinished
            | Self::LostWrites
            | Self::Failed => Unit::Count,
            Self::Completion(_)
            | Self::CompletionOf(..)
            | Self::Delay(_)
            | Self::RoundTrip(_)
            | Self::Response(_)
            | Self::Latency(..)
            | Self::UnavailableMax
            | Self::LongestGap => Unit::Seconds,
            Self::RequestRate | Self::Throughput(_) => Unit::PerSecond,
            Self::ResidentMax => Unit::Bytes,
            Self::Linearizable => Unit::YesNo,
        }
    }

    /// Whether it is of datagrams that are sent at a constant rate.
    pub const fn is_of_a_rate(self) -> bool {
        matches!(self, Self::Lost | Self::Duplicates | Self::LongestGap)
    }

    /// Whether it is of connections that come and go.
    pub const fn is_of_transfers(self) -> bool {
        matches!(self, Self::Completion(_) | Self::CompletionOf(..) | Self::Unfinished)
    }

    /// Whether it is of requests to a service. [`Metric::Failed`] is of those and of controllers.
    pub const fn is_of_requests(self) -> bool {
        matches!(self, Self::RequestRate | Self::Response(_) | Self::Failed)
    }

    /// Whether it is of flows, of which requests have none that stay.
    pub const fn is_of_flows(self) -> bool {
        matches!(
            self,
            Self::GoodputMean
                | Self::GoodputMin
                | Self::GoodputMax
                | Self::GoodputSum
                | Self::Fairness
                | Self::Retransmits
                | Self::FastRetransmits
                | Self::Timeouts
                | Self::Reordered
                | Self::ReorderExtent
                | Self::Delay(_)
                | Self::RoundTrip(_)
        )
    }

    /// Whether it is of controllers that are asked, not of traffic.
    pub const fn is_of_cluster(self) -> bool {
        matches!(
            self,
            Self::Latency(..)
                | Self::Throughput(_)
                | Self::LostWrites
                | Self::Failed
                | Self::Linearizable
                | Self::UnavailableMax
                | Self::ResidentMax
        )
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|&(_, metric)| metric).ok_or_else(|| D::Error::custom(format!("`{text}` is not a metric")))
    }
}
