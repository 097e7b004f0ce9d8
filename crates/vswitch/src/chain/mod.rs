//! Service chains (RFC 7665): packets between some hosts pass functions in order, and those that come back pass them in reverse order.
//!
//! ```text
//!   from --> ingress [function 1] egress --> ingress [function 2] egress --> to
//!        <--         [          ]        <--         [          ]        <--
//! ```
//!
//! A function has two ports. The port that a packet comes back from says which chain it is of, in which direction, and which function is next: no more is
//! looked up than that.

mod watch;

use machine::{Span, mix};
use topology::NodeId;
use wire::protocol;

use crate::FlowKey;
use crate::conntrack::NatRange;
use crate::flow_key::mac_bits;
use crate::flow_table::Match;
use crate::functions::{BuiltIn, Course, PortForward};
use crate::host_table::AddressAlias;
use crate::spread::FlowHash;

pub use watch::{Watch, WatchStep};

/// The functions and chains of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    /// Each is in one chain at most.
    pub functions: Vec<Function>,
    /// A packet that two would take goes by the first one.
    pub chains: Vec<Chain>,
}

/// A function of chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Unique in the network.
    pub name: String,
    /// What it is.
    pub kind: FunctionKind,
}

/// What a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// It has ports: a namespace, a guest, a device.
    External {
        /// The ingress and the egress of each instance. Flows stay with theirs.
        instances: Vec<[NodeId; 2]>,
        /// An instance that gives nothing back for so long is probed, and is down if it gives nothing back for as long again.
        timeout: Span,
    },
    /// It is a machine in the chain itself.
    BuiltIn(BuiltIn),
}

impl Function {
    /// The ingress and the egress of each instance; none of a built-in function.
    pub fn instances(&self) -> &[[NodeId; 2]] {
        match &self.kind {
            FunctionKind::External { instances, .. } => instances,
            FunctionKind::BuiltIn(_) => &[],
        }
    }

    /// What it is, if it is built in.
    pub const fn built_in(&self) -> Option<&BuiltIn> {
        match &self.kind {
            FunctionKind::External { .. } => None,
            FunctionKind::BuiltIn(built_in) => Some(built_in),
        }
    }
}

impl Chains {
    /// The chain that takes packets from one host to another, as `fits` says of its match, and their course; the first one counts, as where packets leave.
    pub fn find(&self, from: NodeId, to: NodeId, fits: impl Fn(&Match) -> bool) -> Option<(&Chain, Course)> {
        self.chains.iter().find_map(|chain| {
            let goes = |from_ends: &[NodeId], to_ends: &[NodeId]| from_ends.contains(&from) && to_ends.contains(&to);
            if goes(&chain.from, &chain.to) && fits(&chain.matching) {
                return Some((chain, Course::Forward));
            }
            let is_back = chain.is_both_ways && goes(&chain.to, &chain.from);
            (is_back && fits(&chain.matching.reversed())).then_some((chain, Course::Reverse))
        })
    }

    /// The functions of a chain, in the order in which packets pass them.
    pub fn functions_on(&self, chain: &Chain, course: Course) -> Vec<&Function> {
        let functions = chain.functions.iter().map(|function| &self.functions[*function]);
        match course {
            Course::Forward => functions.collect(),
            Course::Reverse => functions.rev().collect(),
        }
    }

    /// Addresses that functions have and no host: packets for them are sent to the first host at the end of the chain from which they are answered.
    pub fn aliases(&self) -> Vec<AddressAlias> {
        let mut aliases = Vec::new();
        for chain in &self.chains {
            let functions = chain.functions.iter().map(|function| &self.functions[*function]);
            for rules in functions.filter_map(Function::built_in).filter_map(BuiltIn::nat) {
                let (Some(from), Some(to)) = (chain.from.first(), chain.to.first()) else { continue };
                let of_source = |range: NatRange| {
                    let NatRange { is_ipv6, addresses, .. } = range;
                    AddressAlias { is_ipv6, addresses, host: *from, mac: None }
                };
                let of_forward = |forward: &PortForward| {
                    let host = if forward.course == Course::Forward { *to } else { *from };
                    AddressAlias {
                        is_ipv6: forward.is_ipv6,
                        addresses: (forward.address, forward.address),
                        host,
                        mac: None,
                    }
                };
                aliases.extend(rules.source.map(of_source).into_iter().chain(rules.forwards.iter().map(of_forward)));
            }
        }
        aliases
    }
}

/// A service chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Unique in the network.
    pub name: String,
    /// The hosts whose packets it takes, ascending.
    pub from: Vec<NodeId>,
    /// To these hosts, ascending.
    pub to: Vec<NodeId>,
    /// Which of their packets.
    pub matching: Match,
    /// Functions in their order, by their place among those of the network.
    pub functions: Vec<usize>,
    /// Whether what comes back passes the functions as well, in reverse order.
    pub is_both_ways: bool,
    /// What becomes of packets while a function is down.
    pub on_failure: OnFailure,
}

/// What becomes of packets for a function of which no instance is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They go to the next function.
    Bypass,
    /// They are dropped: nobody passes unchecked.
    #[default]
    Block,
}

impl OnFailure {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Bypass, Self::Block];

    /// Its name in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Block => "block",
        }
    }
}

/// A hash that both directions of a flow have in common, so that one instance of a function sees both.
pub fn flow_of(key: &FlowKey) -> FlowHash {
    let end = |address: u128, mac: [u8; 6], port: u16| {
        let address = if key.src | key.dst == 0 { u128::from(mac_bits(mac)) } else { address };
        mix(address as u64 ^ mix((address >> 64) as u64 ^ u64::from(port) << 32))
    };
    let ends = end(key.src, key.eth_src, key.src_port).wrapping_add(end(key.dst, key.eth_dst, key.dst_port));
    FlowHash(mix(ends ^ u64::from(key.protocol) << 16 ^ u64::from(key.ethertype)))
}

/// What a frame is known by again that a function has let pass: a hash of its beginning, but for what routers and network cards change (times to live, checksums).
pub fn signature(frame: &[u8]) -> u64 {
    /// Where the checksums of UDP and TCP are, behind an IPv4 header without options.
    const UDP_SUM: usize = 40;
    const TCP_SUM: usize = 50;
    const LENGTH: usize = 96;
    let mut bytes = [0; LENGTH];
    let length = frame.len().min(LENGTH);
    bytes[..length].copy_from_slice(&frame[..length]);
    bytes[..16].fill(0);
    bytes[20..26].fill(0);
    match frame.get(23) {
        Some(&protocol::UDP) => bytes[UDP_SUM..UDP_SUM + 2].fill(0),
        Some(&protocol::TCP) => bytes[TCP_SUM..TCP_SUM + 2].fill(0),
        _ => {}
    }
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(frame.len() as u64, |hash, word| mix(hash ^ u64::from_le_bytes(*word)))
}

/// Which of several instances a flow goes to, among those that are up: that with the highest weight for it (rendezvous hashing, Thaler and Ravishankar 1998). So only flows of an instance that
/// goes down change, and they return to it.
pub fn rendezvous(flow: FlowHash, instances: usize, is_up: impl Fn(usize) -> bool) -> Option<usize> {
    (0..instances).filter(|instance| is_up(*instance)).max_by_key(|instance| mix(flow.0 ^ mix(*instance as u64 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flows_of_an_instance_that_goes_down_change() {
        let flows = (0..3_000).map(|flow| FlowHash(mix(flow)));
        let mut shares = [0; 3];
        for flow in flows {
            let before = rendezvous(flow, 3, |_| true).unwrap();
            shares[before] += 1;
            let after = rendezvous(flow, 3, |instance| instance != 1).unwrap();
            assert!(after != 1 && (before == 1 || after == before), "{flow:?}");
        }
        assert!(shares.iter().all(|share| (900..1_100).contains(share)), "{shares:?}");
        assert_eq!(rendezvous(FlowHash(7), 3, |_| false), None);
    }

    #[test]
    fn a_frame_is_known_again_behind_a_router() {
        let mut frame: Vec<u8> = (0..120).collect();
        frame[23] = 6;
        let before = signature(&frame);
        for changed in [0, 6, 22, 24, 50, 51] {
            frame[changed] ^= 0x55;
        }
        assert_eq!(signature(&frame), before);
        frame[40] ^= 1;
        assert_ne!(signature(&frame), before, "the sequence number is another one");
        assert_ne!(signature(&[]), signature(&[0]));
    }

    #[test]
    fn both_directions_of_a_flow_are_one() {
        let address = |last: u8, port| format!("10.0.0.{last}:{port}").parse().unwrap();
        let flow = |from, to| flow_of(&FlowKey::of_flow(6, from, to));
        let ahead = flow(address(1, 80), address(2, 4_000));
        assert_eq!(ahead, flow(address(2, 4_000), address(1, 80)));
        assert_ne!(ahead, flow(address(1, 4_000), address(2, 80)));
    }
}
