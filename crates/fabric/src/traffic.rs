//! The `traffic:` block of an experiment as it is written.

use std::borrow::Cow;

use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use transport::linux::{CongestionControl, Sysctl};
use transport::transfers::Sizes;
use transport::{ReceiveWindow, TransportKind};
use workload::service::Workload;

use crate::controllers::Flag;
use crate::error::Problems;
use crate::faults::LinkFaultText;
use crate::parameters::{parameters, plain};
use crate::pattern::PatternText;
use crate::quantity::{Bytes, Length, PacketRate, Whole};
use crate::read::{Fields, Mapping, Name, Read};
use crate::requests::{DrawnSize, DrawnTime, PathText, RequestRate, ServeText};
use crate::source::At;
use crate::sysctl::{self, SysctlText};
use crate::transfer_sizes::SizesText;
use crate::tree::{Node, Value};
use crate::window::WindowText;
use crate::words::Choice;
use crate::{Pattern, SwitchedBy, Traffic};

/// A minute in milliseconds.
const MINUTE: u64 = 60_000;

type Streams = Whole<1, 128>;
type InitialWindow = Whole<1, 1_000>;
/// Linux has no larger one (`tcp_max_reordering`).
type DuplicateAcks = Whole<1, 300>;
type TransferInterval = Length<false, MINUTE>;
/// As many as `heddle load` has.
type RequestClients = Whole<1, { workload::service::SLOTS_MAX as u64 }>;

parameters! {
    /// What a case sets in the traffic of an experiment.
    TrafficSetting, TrafficAxis of Traffic;

    /// Who talks to whom, and how.
    TrafficText {
        /// `random`, `stride(i)`, `staggered(p, q)`, `permutation`, `incast(n)`, `all-to-all` or `pairs: [[h1, h2], ..]`.
        /// Not needed where `vary` has it.
        "pattern" => pattern: Option<At<PatternText>>, vary {
            /// Who talks to whom.
            "pattern": PatternText => Condition Pattern(Pattern),
            |text, context, problems| context.pattern(&text.value, text.place, problems),
            |traffic, pattern| traffic.pattern.clone_from(pattern)
        };
        /// TCP as Linux has it, `linux`; as the studies had it, by its loss recovery; or `udp`. `linux` when not given.
        "transport" => transport: Option<Choice<TransportKind>>, vary {
            /// TCP, or UDP.
            "transport": Choice<TransportKind> => Policy Transport(TransportKind), plain,
            |traffic, kind| traffic.transport.kind = *kind
        };
        /// With `linux`: how the congestion window grows. `cubic` when not given.
        "congestion-control" => congestion_control: Option<At<Choice<CongestionControl>>>, vary {
            /// How the congestion window grows, with `linux`.
            "congestion-control": Choice<CongestionControl> => Policy CongestionControl(CongestionControl), plain,
            |traffic, control| traffic.transport.linux.congestion_control = *control
        };
        /// With `linux`: what is set in all hosts, by sysctls' names below `net.ipv4` and in the kernel's units: `{ tcp_dsack: 0 }`. As a kernel has it that nobody has
        /// set up when not given.
        "sysctl" => sysctl: Option<At<SysctlText>>, vary {
            /// What is set in all hosts by sysctls' names, with `linux`: `[{ tcp_dsack: 1 }, { tcp_dsack: 0 }]`.
            "sysctl": SysctlText => Policy Sysctl(Vec<(Sysctl, u64)>), plain,
            |traffic, values| sysctl::apply(values, &mut traffic.transport.linux)
        };
        /// So many flows between the two hosts of each pair, measured together. 1 when not given.
        "streams" => streams: Option<Streams>, vary {
            /// How many flows each pair of hosts has.
            "streams": Streams => Condition Streams(u32), plain, |traffic, streams| traffic.streams = *streams
        };
        /// With `udp`: numbered datagrams of one segment, so many a second from each host that sends, at an even pace (`10 kpps`; or `10 Mbit/s` of payload, in whole datagrams). It is
        /// measured which of them are lost, and the longest time in which none arrives. As fast as it goes when not given.
        "rate" => rate: Option<At<PacketRate>>;
        /// With TCP: connections that come and go, each with so many bytes, in place of flows without end: `{ size: 20kB, every: 10ms }`. It is measured
        /// how long each takes, from the moment at which it is asked for until the receiving program has read the last byte.
        "transfers" => transfers: Option<At<TransfersText>>;
        /// Requests to a service, in place of all other traffic: `{ to: web, workload: vsvd, clients: 8 }`. Its servers work on them as `heddle serve` does, and its clients measure
        /// as `heddle load` does. `pattern` is not needed then.
        "requests" => requests: Option<At<RequestsText>>;
        /// What switches the packets of the flows, live: `heddle`, this network; `linux-bridge` or `openvswitch` (its datapath in user space), a switch of its own to which each host of the flows
        /// has another device for the time of the run. For TCP as fast as it goes, and without the links' rates: `vary: { shaping: [false] }`. `heddle` when not given.
        "switched-by" => switched_by: Option<At<SwitchedBy>>, vary {
            /// What switches the packets of the flows, live.
            "switched-by": SwitchedBy => Policy SwitchedBy(SwitchedBy), plain, |traffic, by| traffic.switched_by = *by
        };
        /// Links that go down and come up meanwhile. Bonds hear of it at once, and routes unless they are `fixed`.
        "faults" => faults: Option<At<Vec<At<LinkFaultText>>>>;
        /// Receive window in segments; it bounds what is in flight. 256 when not given. With `linux` also `auto`: as large as the receiver finds that the path
        /// needs, up to 4 MiB, as Linux does whose buffers nobody has set.
        "window" => window: Option<At<WindowText>>, vary {
            /// Receive window in segments, or `auto`.
            "window": WindowText => Condition Window(ReceiveWindow), plain, |traffic, window| traffic.transport.window = *window
        };
        /// Initial window in segments. 10 when not given (RFC 6928).
        "initial-window" => initial_window: Option<InitialWindow>, vary {
            /// Initial window in segments.
            "initial-window": InitialWindow => Condition InitialWindow(u32), plain,
            |traffic, segments| traffic.transport.initial_window = *segments
        };
        /// Duplicate ACKs that call for a fast retransmit. 3 when not given (RFC 5681).
        "duplicate-ack-threshold" => duplicate_ack_threshold: Option<DuplicateAcks>, vary {
            /// Duplicate ACKs that call for a fast retransmit.
            "duplicate-ack-threshold": DuplicateAcks => Condition DuplicateAckThreshold(u32), plain,
            |traffic, acks| {
                traffic.transport.duplicate_ack_threshold = *acks;
                traffic.transport.linux.reordering = *acks;
            }
        };
        /// The longest an ACK waits for a second segment, or `none`: one ACK a segment. 40ms when not given.
        "delayed-ack" => delayed_ack: Option<DelayedAck>;
        /// Payload bytes of a full segment, or of a datagram. When not given, what fits the MTU: 1448 of 1500, or 1472 of UDP.
        "segment" => segment: Option<At<Bytes<1, 65_535>>>;
        /// Bytes of headers of each packet on the link. 66 when not given: Ethernet 14, IPv4 20, TCP 20, timestamps 12; 42 of UDP, which has 8. Where a
        /// link's rate is to mean what it means in Ethernet, 24 more: preamble 8, checksum 4, gap 12.
        "header" => header: Option<Bytes<0, 1_000>>;
        /// The least retransmission timeout. 200ms when not given.
        "rto-min" => rto_min: Option<Length<false, MINUTE>>;
    }

    /// Connections that come and go.
    TransfersText {
        /// Payload of each: `20kB`, up to `1000MB`. Or drawn for each: `web-search` and `data-mining` as data centres have them, `{ lognormal: { median: 20kB, sigma: 1.5 } }`, or points of
        /// a cumulative distribution function, `{ cdf: [[10kB, 0.5], [1MB, 1]] }`.
        "size" => size: At<SizesText>, vary {
            /// Payload of each transfer, or what it is drawn from.
            "transfers.size": SizesText => Condition TransferSize(Sizes), plain,
            |traffic, size| if let Some(transfers) = &mut traffic.transfers { transfers.size.clone_from(size) }
        };
        /// The mean time from the beginning of one to that of the next, of each pair of hosts: intervals are distributed exponentially, and do not depend on
        /// what became of those before.
        "every" => every: At<TransferInterval>, vary {
            /// The mean time from the beginning of one transfer of a pair to that of the next.
            "transfers.every": TransferInterval => Condition TransferInterval(Span), plain,
            |traffic, every| if let Some(transfers) = &mut traffic.transfers { transfers.every = *every }
        };
    }

    /// Requests to a service. Names and defaults are those of `heddle load` and `heddle serve`.
    RequestsText {
        /// The service that is asked.
        "to" => to: At<Name>;
        /// The hosts of the clients, among which they are divided. All hosts that are none of its servers when not given.
        "from" => from: Option<At<Vec<At<Name>>>>;
        /// What is asked for: `fine-grain`, `fsfd`, `fsvd`, `vsfd`, `vsvd`, `htm-memory` or `web-tree`. `fine-grain` when not given.
        "workload" => workload: Option<Choice<Workload>>, vary {
            /// What is asked for.
            "requests.workload": Choice<Workload> => Condition Workload(Workload), plain,
            |traffic, workload| if let Some(requests) = &mut traffic.requests { requests.workload = *workload }
        };
        /// Memory of each request, in place of the workload's own: `8MiB`, `exp:2MiB`.
        "size" => size: Option<DrawnSize>;
        /// How long each request works, in place of the workload's own: `2ms`, `exp:2ms`.
        "duration" => duration: Option<DrawnTime>;
        /// What each request asks for in place of a workload: with `/work`, how much and how long is the server's choice (`size`, `duration` of `servers`).
        "path" => path: Option<At<PathText>>;
        /// A closed loop: so many clients in all, each of which asks again when it has its answer. 10 when neither this nor `rate` is given.
        "clients" => clients: Option<RequestClients>, vary {
            /// How many clients ask.
            "requests.clients": RequestClients => Condition RequestClients(u32), plain,
            |traffic, clients| if let Some(requests) = &mut traffic.requests { requests.clients = *clients }
        };
        /// And has thought for so long: `100ms`, `exp:1s`. Not at all when not given.
        "think" => think: Option<DrawnTime>;
        /// An open loop: so many requests a second in all, whatever the answers do (`1100/s`).
        "rate" => rate: Option<RequestRate>, vary {
            /// How many requests come a second, whatever the answers do.
            "requests.rate": RequestRate => Condition RequestRate(u64), plain,
            |traffic, rate| if let Some(requests) = &mut traffic.requests { requests.rate_milli = Some(*rate) }
        };
        /// With `rate`: whether they begin at random moments, as from many who know nothing of each other. `false` when not given.
        "poisson" => poisson: Option<Flag>;
        /// With `rate`: so many may be under way from each host; others begin late. 4096 when not given.
        "in-flight" => in_flight: Option<RequestClients>;
        /// Whether each request has a connection of its own. `false` when not given: each client keeps one.
        "new-connections" => new_connections: Option<Flag>, vary {
            /// Whether each request has a connection of its own.
            "requests.new-connections": Flag => Condition NewConnections(bool), plain,
            |traffic, is_new| if let Some(requests) = &mut traffic.requests { requests.new_connections = *is_new }
        };
        /// A request that takes longer has failed. 10s when not given.
        "timeout" => timeout: Option<Length<false, MINUTE>>;
        /// What all servers of the service do.
        "servers" => servers: Option<ServeText>;
        /// What single ones do besides or instead, by their hosts: `{ h7: { duration: 10ms } }`.
        "by-server" => by_server: Option<At<Mapping<Name, ServeText>>>;
    }
}

/// A time below RFC 1122's limit, or `none`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedAck(pub Option<Span>);

type AckDelay = Length<false, 500>;

impl Read for DelayedAck {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "none" => Some(Self(None)),
            _ => AckDelay::read(node, problems).map(|time| Self(Some(time.0))),
        }
    }
}

impl JsonSchema for DelayedAck {
    fn schema_name() -> Cow<'static, str> {
        "DelayedAck".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "none" }, generator.subschema_for::<AckDelay>()] })
    }
}
