//! The control protocol between a network's process and its clients: one JSON object a line over a unix stream socket.
//!
//! Pure: bytes in, values out; no socket. The client speaks first, with [`Request::Hello`]; then each request has one
//! reply. A line that cannot be read ends the conversation, since nobody knows where the next one would start.

mod bonds;
mod chains;
mod flows;
mod lines;
mod macs;
mod names;
mod refusals;
mod rstp;
mod services;

use std::fmt;

use fabric::{AddedPort, ChangedLink, ChangedPort, FlowCommand, LinkChange, Overrides, PortChange};
use machine::{Span, nanos};
use serde::{Deserialize, Serialize};

use crate::container::ContainerView;
use crate::convergence::UnconvergedBond;
use crate::files::FileMount;
use crate::port::Unsent;
use crate::programs::{ProgramCommand, ProgramState};
pub use bonds::{BondState, MemberState};
pub use chains::{ChainCounters, ChainHop, HopCount};
pub use datapath::Loss;
pub use flows::{
    ConnectionEntry, FlowCounters, FlowEntry, GroupCounters, MeterEntry, SwitchConnections, SwitchFlows, TracedEntry,
    TracedPacket,
};
pub use lines::Lines;
pub use macs::{MacEntry, SwitchMacs};
pub use names::{NameStatus, SiteStatus};
pub use refusals::Refusals;
pub use rstp::SwitchBridge;
pub use services::{BalancerStatus, EjectionStatus, HealthStatus, ServerChange, ServerStatus, ServiceStatus};

/// What both ends must agree on. To be raised whenever a request or a reply changes.
pub const VERSION: u32 = 18;

/// The longest line that a daemon takes, bytes: a fabric file with tens of thousands of explicit links fits.
pub const REQUEST_LIMIT: usize = 8 << 20;

/// The longest line that a client takes, bytes: the counters of the largest live network fit.
pub const REPLY_LIMIT: usize = 256 << 20;

/// Why a line is not a message.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Longer than agreed.
    #[error("a line of more than {limit} bytes")]
    TooLong {
        /// What was agreed.
        limit: usize,
    },
    /// The line is not JSON, or not a message.
    #[error("a line that is no message: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The other end speaks another version.
    #[error("protocol version {theirs}, expected {VERSION}")]
    Version {
        /// What the other end speaks.
        theirs: u32,
    },
    /// A message where another one is due.
    #[error("a {0} where it is not due")]
    Unexpected(&'static str),
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Opens the conversation.
    Hello {
        /// The version that is spoken: [`VERSION`].
        version: u32,
    },
    /// What the network is.
    Status,
    /// Make the network what this file says.
    Apply {
        /// The file's name, for messages.
        name: String,
        /// The folder that files which it names are relative to.
        folder: String,
        /// What is in it.
        text: String,
        /// What to change in it.
        overrides: Overrides,
    },
    /// What has been counted.
    Counters,
    /// Which bonds do not carry all that they can.
    Unconverged,
    /// How switches choose among equal paths.
    Salts,
    /// How do switches stand that speak RSTP?
    Bridges,
    /// Take the carrier from the links between two nodes, or give it back.
    SetLink {
        /// A node's name.
        a: String,
        /// The other node's name.
        b: String,
        /// Which of parallel links, from 1; without it, all.
        number: Option<u32>,
        /// Whether they have a carrier.
        up: bool,
    },
    /// Change what the links between two nodes do to packets.
    ChangeLink {
        /// A node's name.
        a: String,
        /// The other node's name.
        b: String,
        /// Which of parallel links, from 1; without it, all.
        number: Option<u32>,
        /// The keys that are set or taken away.
        change: LinkChange,
    },
    /// Add a port to a switch.
    AddPort(AddedPort),
    /// Say something else of a port of a switch.
    SetPort(ChangedPort),
    /// Take a port on a device away from a switch.
    RemovePort {
        /// The switch's name.
        switch: String,
        /// The port's name.
        port: String,
    },
    /// Change the tables of flows of a switch: all of the texts, or none.
    ChangeFlows {
        /// The switch's name.
        switch: String,
        /// What is done.
        command: FlowCommand,
        /// Whether flows are meant by exactly their match and priority.
        strict: bool,
        /// Flows or groups, as `ovs-ofctl` writes them.
        texts: Vec<String>,
    },
    /// What is in tables of flows.
    Flows {
        /// A switch's name; without it, all that have tables.
        switch: Option<String>,
        /// Which flows, as `ovs-ofctl dump-flows` chooses them; empty: all.
        selection: String,
    },
    /// The connections that a switch tracks, or all switches do.
    Connections {
        /// The switch's name; without it, all that track some.
        switch: Option<String>,
    },
    /// The addresses that a switch knows, or all switches do.
    Macs {
        /// The switch's name; without it, all.
        switch: Option<String>,
    },
    /// Forget the addresses that a switch has learned, or all switches have.
    FlushMacs {
        /// The switch's name; without it, all.
        switch: Option<String>,
    },
    /// Forget the connections that a switch tracks, or all switches do.
    FlushConnections {
        /// The switch's name; without it, all.
        switch: Option<String>,
        /// Those of this zone alone; without it, of all.
        zone: Option<u16>,
    },
    /// Change a server of a service.
    ChangeServer {
        /// The service's name.
        service: String,
        /// The server's name.
        server: String,
        /// What changes.
        change: ServerChange,
    },
    /// What a packet would meet at a switch.
    Trace {
        /// The switch's name.
        switch: String,
        /// The packet, by its fields as flows match them.
        packet: String,
    },
    /// How the programs of hosts do.
    Programs,
    /// Start or end programs of a host.
    CommandPrograms {
        /// The host's name.
        host: String,
        /// The program's name; without it, all of the host.
        program: Option<String>,
        /// What is done.
        command: ProgramCommand,
    },
    /// The way into a host: the reply carries the file descriptors of its network namespace and, if there is one, of the user
    /// namespace.
    Enter {
        /// The host's name.
        host: String,
    },
    /// Show what crosses links. Behind the reply, a capture in pcapng comes by this connection, until the client says no more (it shuts down its half, or goes
    /// away); then statistics, and the end of the connection.
    Capture {
        /// A node, one of its ports or a link: `h1`, `leaf1:2`, `h1-leaf1`.
        target: String,
        /// As pcap-filter(7) has it; empty: everything.
        filter: String,
        /// So many bytes of each frame.
        snaplen: u32,
        /// So many frames; if not said, until the client ends it.
        count: Option<u64>,
    },
    /// End the network.
    Down,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// The answer to [`Request::Hello`].
    Hello {
        /// The version that is spoken: [`VERSION`].
        version: u32,
    },
    /// The answer to [`Request::Status`].
    Status(Status),
    /// The answer to [`Request::Apply`].
    Applied(Applied),
    /// The answer to [`Request::Counters`].
    Counters(Box<Counters>),
    /// The answer to [`Request::Unconverged`].
    Unconverged(Vec<UnconvergedBond>),
    /// The answer to [`Request::Salts`]: by switch, and behind them by multi-homed host.
    Salts(Vec<u64>),
    /// The answer to [`Request::Bridges`], by switch.
    Bridges(Vec<SwitchBridge>),
    /// The answer to [`Request::SetLink`].
    Links(LinksSet),
    /// The answer to [`Request::ChangeLink`]: how many links do something else now.
    LinksChanged(usize),
    /// The answer to [`Request::AddPort`], [`Request::SetPort`] and [`Request::RemovePort`].
    PortsChanged,
    /// The answer to [`Request::ChangeFlows`]: how many flows or groups have changed.
    FlowsChanged(usize),
    /// The answer to [`Request::Flows`].
    Flows(Vec<SwitchFlows>),
    /// The answer to [`Request::Connections`].
    Connections(Vec<SwitchConnections>),
    /// The answer to [`Request::Macs`].
    Macs(Vec<SwitchMacs>),
    /// The answer to [`Request::FlushMacs`]: how many addresses were forgotten.
    MacsFlushed(usize),
    /// The answer to [`Request::FlushConnections`]: how many were forgotten.
    ConnectionsFlushed(usize),
    /// The answer to [`Request::ChangeServer`].
    ServerChanged,
    /// The answer to [`Request::Trace`].
    Traced(TracedPacket),
    /// The answer to [`Request::Enter`].
    Enter {
        /// The file to be seen as `/etc/hosts` in the host.
        hosts_file: String,
        /// What else its programs see in place of what the machine has.
        mounts: Vec<FileMount>,
        /// Of a host with files of its own: the last one of the descriptors is that of a mount namespace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own: Option<OwnFiles>,
    },
    /// The answer to [`Request::Programs`], and to [`Request::CommandPrograms`]: those that were meant.
    Programs(Vec<ProgramState>),
    /// The answer to [`Request::Capture`].
    Capture {
        /// The ports at which is looked, in the order of the capture's interfaces: `leaf1:2 (to h1)`.
        ports: Vec<String>,
    },
    /// To [`Request::Down`]: everything is gone.
    Down,
    /// The request failed, and nothing changed.
    Refused {
        /// Why the request is refused.
        message: String,
        /// What fixes it.
        hint: Option<String>,
        /// What of the file it is about: keys, and in a list the text of the item. Empty: none of it.
        at: Vec<String>,
    },
}

/// What a daemon writes to its standard output, once, when it has started or failed to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StartupStatus {
    /// It listens for clients.
    Ready,
    /// It does not come up.
    Failed {
        /// Why the network cannot start.
        message: String,
        /// What fixes it.
        hint: Option<String>,
    },
}

/// What a network is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The instance's name.
    pub instance: String,
    /// The process that holds it.
    pub pid: i32,
    /// Whether it ends with the client that started it.
    pub ephemeral: bool,
    /// Name of the file applied last; empty before the first.
    pub file: String,
    /// What was in it.
    pub text: String,
    /// The folder that files which it names are relative to.
    pub folder: String,
    /// What was changed in it.
    pub overrides: Overrides,
    /// Links that were changed since.
    pub changed_links: Vec<ChangedLink>,
    /// Ports that were added to switches or taken away since.
    pub changed_ports: Vec<PortChange>,
    /// The fabric's name.
    pub fabric: String,
    /// Its hosts, in the file's order.
    pub hosts: Vec<String>,
    /// How many switches it has.
    pub switches: usize,
    /// How many links it has.
    pub links: usize,
    /// Whether any link has a rate or a delay.
    pub shaped: bool,
    /// How packets are spread.
    pub spread: vswitch::Spread,
    /// Threads that forward.
    pub workers: usize,
    /// Whole milliseconds since the process came up.
    pub uptime_ms: u64,
}

/// What [`Request::SetLink`] found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksSet {
    /// The links, in order: `h1-s1`, and with a number where there are several.
    pub links: Vec<String>,
    /// How many of them were different before.
    pub changed: usize,
    /// Whether they have a carrier.
    pub up: bool,
}

/// How many names a sentence lists; more are counted.
const NAMED_MAX: usize = 6;

/// What applying a file did. Links are named `a - b`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Nodes and links that were not there before.
    pub created: Vec<String>,
    /// Nodes and links that were there and are different now.
    pub changed: Vec<String>,
    /// Nodes and links that are gone.
    pub removed: Vec<String>,
    /// How many nodes and links are as they were.
    pub kept: usize,
    /// Programs that ran, and were started anew since they, their files or what they run in has changed: `web of h1`.
    #[serde(default)]
    pub restarted: Vec<String>,
}

impl Applied {
    /// Whether nothing had to be done.
    pub fn is_empty(&self) -> bool {
        let lists = [&self.created, &self.changed, &self.removed, &self.restarted];
        lists.into_iter().all(Vec::is_empty)
    }
}

impl Applied {
    /// What applying a file would do, as [`fmt::Display`] says what it did.
    pub fn plan(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, ["create", "change", "remove"], &format!("keep {}", self.kept))
            .expect("a text takes all");
        text
    }

    fn write(&self, f: &mut impl fmt::Write, words: [&str; 3], kept: &str) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "nothing to change, {} nodes and links kept", self.kept);
        }
        let parts = words.into_iter().zip([&self.created, &self.changed, &self.removed]);
        for (what, names) in parts.filter(|(_, names)| !names.is_empty()) {
            match names.as_slice() {
                few if few.len() <= NAMED_MAX => write!(f, "{what} {}, ", few.join(", "))?,
                many => write!(f, "{what} {} nodes and links, ", many.len())?,
            }
        }
        f.write_str(kept)?;
        match self.restarted.as_slice() {
            [] => Ok(()),
            few if few.len() <= NAMED_MAX => write!(f, "; restarted {}", few.join(", ")),
            many => write!(f, "; restarted {} programs", many.len()),
        }
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, ["created", "changed", "removed"], &format!("{} kept", self.kept))
    }
}

/// What has been counted since each part came up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The moment up to which all this was counted, by the clock by which packets are carried, since the process came up: what was due
    /// before is in it, and nothing that was due later.
    pub at: nanos::Span,
    /// How much earlier one worker was read than another; zero, unless the machine gave one of them no CPU for half a second.
    #[serde(default)]
    pub spread: nanos::Span,
    /// The links, in the order of [`topology::Topology::links`].
    pub links: Vec<LinkCounters>,
    /// The ports of hosts, in the order of the hosts.
    pub ports: Vec<PortCounters>,
    /// What switches forwarded, where it is more than zero; by switch, then by destination, in the file's order.
    pub forwarded: Vec<Forwarded>,
    /// Flows seen at their receivers, in the order in which they came up: in networks in which a link has a rate or a delay, and in those of
    /// `heddle run`.
    pub flows: Vec<FlowCounters>,
    /// Frames that came in and went nowhere, of all hosts; those that are one host's are in its [`PortCounters`], too.
    pub refused: Refusals,
    /// Ends of bonds, in the order of [`fabric::Fabric::bonds`]; MAC-learning ports of a switch are not among them.
    #[serde(default)]
    pub bonds: Vec<BondState>,
    /// Courses of service chains, in the order of the file.
    #[serde(default)]
    pub chains: Vec<ChainCounters>,
    /// Services, in the order of the file.
    #[serde(default)]
    pub services: Vec<ServiceStatus>,
    /// Names that lead to services, in the order of the file.
    #[serde(default)]
    pub names: Vec<NameStatus>,
    /// What name servers have counted besides what the names have.
    #[serde(default)]
    pub name_servers: balance::names::QueryCounters,
    /// The threads that forward.
    pub workers: Vec<WorkerCounters>,
}

/// A link's two directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Node at end A.
    pub a: String,
    /// Node at end B.
    pub b: String,
    /// Whether it has a carrier.
    #[serde(default = "yes")]
    pub up: bool,
    /// Whether somebody has taken it, by [`Request::SetLink`]: it is not only that its device has none.
    #[serde(default)]
    pub pulled: bool,
    /// What passed from A to B.
    pub forward: link::Counters,
    /// What passed from B to A.
    pub backward: link::Counters,
}

impl Default for LinkCounters {
    /// A link without ends, with a carrier, that has done nothing.
    fn default() -> Self {
        let idle = link::Counters::default();
        Self { a: String::new(), b: String::new(), up: yes(), pulled: false, forward: idle, backward: idle }
    }
}

const fn yes() -> bool {
    true
}

/// A host's port. Frames of a network without shaped links are segments of up to 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// The name of the host.
    pub host: String,
    /// What passed the port.
    #[serde(flatten)]
    pub traffic: PortTraffic,
    /// What is wrong with what is behind the port, so that nothing more comes from there: of a capture that is cut off or damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// By device, where one is a socket for guests: by how many pairs of queues a guest gets frames there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues_used: Vec<u8>,
}

/// What passed a host's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortTraffic {
    /// Frames that the host sent.
    pub sent_packets: u64,
    /// Their bytes, without FCS.
    pub sent_bytes: u64,
    /// Frames that the host was handed.
    pub received_packets: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Frames that the host's kernel did not take.
    pub drops: u64,
    /// Times that a program in the host has removed the device.
    #[serde(default)]
    pub device_losses: u64,
    /// Frames of this host that came in and went nowhere.
    #[serde(default)]
    pub refused: Refusals,
}

impl PortTraffic {
    /// Adds what passed the same port at another worker.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.drops += other.drops;
        self.device_losses += other.device_losses;
        self.refused.add(&other.refused);
    }

    /// Counts what was written to the port. Full, or taken down by a program in the host: as on a real port, it is lost.
    pub(crate) fn count_received(&mut self, written: bool, packets: u64, bytes: u64) {
        if written {
            self.received_packets += packets;
            self.received_bytes += bytes;
        } else {
            self.drops += packets;
        }
    }

    /// Counts as lost what was counted as received when it began to wait.
    pub(crate) fn count_unsent(&mut self, unsent: Unsent) {
        self.received_packets -= unsent.frames;
        self.received_bytes -= unsent.bytes;
        self.drops += unsent.frames;
    }
}

/// What a switch forwarded to one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// The name of the switch.
    pub switch: String,
    /// The name of the host that the frames go to.
    pub host: String,
    /// Frames that were forwarded.
    pub packets: u64,
}

/// How programs come to see the files of a host that has its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnFiles {
    /// They are in the mount namespace.
    Image(ImageView),
    /// A runtime, which is called there, has them begin in a container that runs.
    Container(ContainerView),
}

/// What programs of a host that is an image start with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageView {
    /// Where they start.
    pub folder: String,
    /// Their environment besides.
    pub environment: Vec<String>,
}

/// A thread that forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCounters {
    /// Time in which it did not sleep.
    pub busy: nanos::Span,
    /// Frames of a shaped network that were handed to hosts.
    pub delivered: u64,
    /// How much later than due they were handed over, all together: divided by `delivered`, the mean.
    pub late_total: nanos::Span,
    /// The latest one.
    pub late_max: Span,
    /// How long after it was due a packet came from another worker at most: it was carried on as if it were due when it came.
    #[serde(default)]
    pub taken_late_max: Span,
}

impl WorkerCounters {
    /// Adds those of another worker.
    pub fn add(&mut self, other: &Self) {
        self.busy = self.busy + other.busy;
        self.delivered += other.delivered;
        self.late_total = self.late_total + other.late_total;
        self.late_max = self.late_max.max(other.late_max);
        self.taken_late_max = self.taken_late_max.max(other.taken_late_max);
    }
}

/// A message as a line.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have string keys only");
    line.push(b'\n');
    line
}

/// A line, without its end, as a message.
///
/// # Errors
/// [`ProtocolError::Malformed`] if it is none.
pub fn decode<'a, M: Deserialize<'a>>(line: &'a [u8]) -> Result<M, ProtocolError> {
    Ok(serde_json::from_slice(line)?)
}

#[cfg(test)]
mod tests {
    use fabric::LinkSetting;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_come() {
        let mut lines = Lines::new(8);
        let mut seen = Vec::new();
        for byte in b"one\n\ntwo\nthree" {
            lines.push(&[*byte]);
            while let Some(line) = lines.take_line().unwrap() {
                seen.push(line);
            }
        }
        assert_eq!(seen, [b"one".to_vec(), b"".to_vec(), b"two".to_vec()]);
        lines.push(b"\nfour\n");
        assert_eq!(lines.take_line().unwrap(), Some(b"three".to_vec()));
        assert_eq!(lines.take_line().unwrap(), Some(b"four".to_vec()));
        assert_eq!(lines.take_line().unwrap(), None);
    }

    #[test]
    fn a_line_without_end_is_refused_for_ever() {
        let mut lines = Lines::new(8);
        lines.push(b"123456789");
        assert!(matches!(lines.take_line(), Err(ProtocolError::TooLong { limit: 8 })));
        lines.push(b"\n");
        assert!(matches!(lines.take_line(), Err(ProtocolError::TooLong { limit: 8 })));
    }

    #[test]
    fn unknown_requests_and_keys_are_refused() {
        for line in
            [&b"{}"[..], b"", b"\"reboot\"", b"{\"enter\":{\"host\":\"a\",\"x\":1}}", b"{\"enter\":{}}", b"\xff"]
        {
            assert!(decode::<Request>(line).is_err(), "{:?}", String::from_utf8_lossy(line));
        }
        let down: Request = decode(b"\"down\"").unwrap();
        assert_eq!(down, Request::Down);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lines = Lines::new(64);
            lines.push(&bytes);
            while let Ok(Some(line)) = lines.take_line() {
                prop_assert!(line.len() <= 64);
                let _ = decode::<Request>(&line);
            }
        }

        #[test]
        fn what_is_encoded_decodes(name in ".*", folder in ".*", text in ".*", rate in any::<Option<u64>>()) {
            let overrides = rate.map_or_else(Overrides::default, |rate| Overrides::from([LinkSetting::Rate(rate)]));
            let request = Request::Apply { name, folder, text, overrides };
            let line = encode(&request);
            prop_assert!(!line[..line.len() - 1].contains(&b'\n'));
            prop_assert_eq!(decode::<Request>(&line[..line.len() - 1]).unwrap(), request);
        }
    }
}
