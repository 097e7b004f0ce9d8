//! Where hosts and functions are attached to another switch, so that its ports alone lead packets of a chain through their functions.
//!
//! ```text
//!   from --+-- ingress [function 1] egress --+-- ingress [function 2] egress --+-- to
//!       section 0                        section 1                         section 2
//! ```
//!
//! A section has the egress of one function and the ingress of the next, or hosts at an end of the chain. Nothing but a function leads from one section to another. Flows without a chain
//! have a section of their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use fabric::Fabric;
use vswitch::functions::Course;

use crate::live::flow::LiveFlow;

/// Where addresses of these devices begin: those of measurements (RFC 2544, C.2.2), which no network of a file has unless it says so.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// What the devices of a function are called.
pub(super) const OF_FUNCTIONS: [&str; 2] = ["other0", "other1"];

/// A part of the other switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    /// Of flows that no chain takes: by MAC addresses, as everywhere.
    Plain,
    /// Behind so many functions of a chain, by its place in the file.
    Chain { chain: usize, behind: usize },
}

impl Section {
    /// What a bridge is called that is this section alone.
    pub fn bridge(self) -> String {
        match self {
            Self::Plain => PLAIN.to_owned(),
            Self::Chain { chain, behind } => format!("c{chain}s{behind}"),
        }
    }
}

/// The bridge of hosts without chains, and that of all chains where flows steer.
pub(super) const PLAIN: &str = "br0";
pub(super) const STEERED: &str = "chains";

/// A device of a host or a function, and the port that it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    /// In whose namespace the device is.
    pub host: String,
    /// The device.
    pub device: String,
    /// The port at the switch.
    pub port: String,
    /// Where that is.
    pub section: Section,
    /// The host's address there; functions have none.
    pub address: Option<Ipv4Addr>,
    /// The addresses that the device leads to.
    pub peers: Vec<Ipv4Addr>,
    /// Whether it is on the side of the section from which a chain's packets come.
    comes_first: bool,
}

/// All devices, and what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub attachments: Vec<Attachment>,
    /// Functions: in each, frames are passed on between its devices.
    pub functions: Vec<String>,
    /// By flow: the receiver's address.
    pub addresses: Vec<Ipv4Addr>,
    /// By flow: whether it passes functions.
    pub is_chained: Vec<bool>,
}

impl Layout {
    /// That of these flows.
    pub fn new(fabric: &Fabric, flows: &[LiveFlow]) -> Self {
        let mut layout = Self::default();
        // By host, section and side: the place of its attachment.
        let mut known: BTreeMap<(String, Section, bool), usize> = BTreeMap::new();
        let mut chains: Vec<usize> = Vec::new();
        for flow in flows {
            let node = |name: &str| fabric.topology.node(name).expect("a flow is between hosts of the fabric");
            let found = fabric.chains.find(node(&flow.from), node(&flow.to), |_| true);
            let ends = match found {
                None => [(Section::Plain, true), (Section::Plain, true)],
                Some((found, course)) => {
                    let all = &fabric.chains.chains;
                    let chain = all.iter().position(|chain| chain.name == found.name).expect("it was found there");
                    if !chains.contains(&chain) {
                        chains.push(chain);
                    }
                    let behind = found.functions.len();
                    let ends = [(Section::Chain { chain, behind: 0 }, true), (Section::Chain { chain, behind }, false)];
                    match course {
                        Course::Forward => ends,
                        Course::Reverse => [ends[1], ends[0]],
                    }
                }
            };
            let [from, to] = [(&flow.from, ends[0]), (&flow.to, ends[1])].map(|(host, (section, side))| {
                *known.entry((host.clone(), section, side)).or_insert_with(|| layout.host(host, (section, side)))
            });
            for (own, other) in [(from, to), (to, from)] {
                let peer = layout.attachments[other].address.expect("hosts have one");
                let peers = &mut layout.attachments[own].peers;
                if !peers.contains(&peer) {
                    peers.push(peer);
                }
            }
            layout.addresses.push(layout.attachments[to].address.expect("hosts have one"));
            layout.is_chained.push(found.is_some());
        }
        for chain in chains {
            layout.functions_of(fabric, chain);
        }
        layout
    }

    /// Adds a host's device; its place among all.
    fn host(&mut self, host: &str, (section, comes_first): (Section, bool)) -> usize {
        let number = self.attachments.len();
        let device = format!("other{}", self.attachments.iter().filter(|other| other.host == host).count());
        let address = Some(Ipv4Addr::from_bits(FIRST.to_bits() + number as u32));
        self.attach(host, device, (section, comes_first), address);
        number
    }

    fn functions_of(&mut self, fabric: &Fabric, chain: usize) {
        for (behind, function) in fabric.chains.chains[chain].functions.iter().enumerate() {
            let ports = fabric.chains.functions[*function].instances();
            let [[ingress, _]] = ports else { unreachable!("the file was refused: {ports:?}") };
            let name = &fabric.topology.nodes[*ingress].name;
            let sections = [behind, behind + 1].map(|behind| Section::Chain { chain, behind });
            for (device, end) in OF_FUNCTIONS.into_iter().zip([(sections[0], false), (sections[1], true)]) {
                self.attach(name, device.to_owned(), end, None);
            }
            self.functions.push(name.clone());
        }
    }

    fn attach(
        &mut self,
        host: &str,
        device: String,
        (section, comes_first): (Section, bool),
        address: Option<Ipv4Addr>,
    ) {
        let (host, port, peers) = (host.to_owned(), format!("p{}", self.attachments.len()), Vec::new());
        self.attachments.push(Attachment { host, device, port, section, address, peers, comes_first });
    }

    /// The sections that there are, ascending.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.attachments.iter().map(|attachment| attachment.section).collect();
        sections.sort_unstable();
        sections.dedup();
        sections
    }

    /// Flows as ovs-ofctl reads them that take what comes in on one side of a chain's section to the other side: by port, and to one of several hosts by its address.
    pub fn steering(&self) -> String {
        let mut text = String::new();
        for from in self.attachments.iter().filter(|from| from.section != Section::Plain) {
            let is_across = |to: &&Attachment| to.section == from.section && to.comes_first != from.comes_first;
            let across: Vec<&Attachment> = self.attachments.iter().filter(is_across).collect();
            let ports = across.iter().map(|to| format!("output:{}", to.port)).collect::<Vec<_>>().join(",");
            let actions = if ports.is_empty() { "drop".to_owned() } else { ports };
            let _ = writeln!(text, "priority=10,in_port={},actions={actions}", from.port);
            for to in across.iter().filter(|_| across.len() > 1) {
                if let Some(address) = to.address {
                    let _ = writeln!(
                        text,
                        "priority=20,in_port={},ip,nw_dst={address},actions=output:{}",
                        from.port, to.port
                    );
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use fabric::{Source, parse};

    use super::*;

    const NETWORK: &str = "\
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }, { between: [h4, s1] }]
functions: { f1: { at: s1 }, f2: { at: s1 } }
chains: { c: { from: [h1, h2], to: h3, functions: [f1, f2] } }
";

    fn layout(pairs: &[(&str, &str)]) -> Layout {
        let source = Source { name: "net.fabric.yaml".into(), text: NETWORK.to_owned() };
        let fabric = parse(&source).unwrap_or_else(|error| panic!("{error:?}"));
        let flow = |(from, to): &(&str, &str)| LiveFlow {
            from: (*from).to_owned(),
            to: (*to).to_owned(),
            address: String::new(),
            port: 1,
        };
        Layout::new(&fabric, &pairs.iter().map(flow).collect::<Vec<_>>())
    }

    /// Each attachment in a line.
    fn drawn(layout: &Layout) -> Vec<String> {
        let line = |it: &Attachment| {
            let last = |address: &Ipv4Addr| address.octets()[3].to_string();
            let peers = it.peers.iter().map(last).collect::<Vec<_>>().join(" ");
            let address = it.address.as_ref().map(last).unwrap_or_default();
            format!("{} {} {} at {}: {address} to {peers}", it.host, it.device, it.port, it.section.bridge())
        };
        layout.attachments.iter().map(line).collect()
    }

    #[test]
    fn hosts_without_a_chain_have_one_device_each() {
        let layout = layout(&[("h1", "h4"), ("h4", "h2")]);
        let lines = ["h1 other0 p0 at br0: 1 to 2", "h4 other0 p1 at br0: 2 to 1 3", "h2 other0 p2 at br0: 3 to 2"];
        assert_eq!(drawn(&layout), lines);
        assert_eq!((layout.steering().as_str(), layout.functions.len()), ("", 0));
        assert_eq!(layout.addresses, [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 0, 3)]);
    }

    #[test]
    fn functions_stand_between_the_sections_of_their_chain() {
        let layout = layout(&[("h1", "h3"), ("h3", "h2"), ("h3", "h4")]);
        let lines = [
            "h1 other0 p0 at c0s0: 1 to 2",
            "h3 other0 p1 at c0s2: 2 to 1 3",
            "h2 other0 p2 at c0s0: 3 to 2",
            "h3 other1 p3 at br0: 4 to 5",
            "h4 other0 p4 at br0: 5 to 4",
            "f1 other0 p5 at c0s0:  to ",
            "f1 other1 p6 at c0s1:  to ",
            "f2 other0 p7 at c0s1:  to ",
            "f2 other1 p8 at c0s2:  to ",
        ];
        assert_eq!(drawn(&layout), lines);
        assert_eq!(
            (layout.functions.join(" "), layout.is_chained.clone()),
            ("f1 f2".to_owned(), vec![true, true, false])
        );
        let steering = "\
priority=10,in_port=p0,actions=output:p5
priority=10,in_port=p1,actions=output:p8
priority=10,in_port=p2,actions=output:p5
priority=10,in_port=p5,actions=output:p0,output:p2
priority=20,in_port=p5,ip,nw_dst=198.18.0.1,actions=output:p0
priority=20,in_port=p5,ip,nw_dst=198.18.0.3,actions=output:p2
priority=10,in_port=p6,actions=output:p7
priority=10,in_port=p7,actions=output:p6
priority=10,in_port=p8,actions=output:p1
";
        assert_eq!(layout.steering(), steering);
        assert_eq!(layout.sections().len(), 4);
    }
}
