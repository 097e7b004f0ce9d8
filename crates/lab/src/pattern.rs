//! Which hosts talk to each other.
//!
//! The patterns are those of the fat-tree literature (Al-Fares et al., SIGCOMM 2008, section 5.3: random, stride,
//! staggered) and those that stress one place (permutation, incast, all-to-all). No pair joins a host to itself.

use fabric::{Fabric, Pattern};
use machine::Rng;
use topology::NodeId;

/// More flows than this are refused: all-to-all grows with the square of the hosts.
pub const FLOWS_MAX: u64 = 1_000_000;

/// Why a pattern yields no pairs in a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPairs {
    /// Nobody to talk to.
    #[error("traffic needs two hosts at least, the fabric has {hosts}")]
    TooFewHosts {
        /// How many there are.
        hosts: u32,
    },
    /// A stride that leads back to where it started.
    #[error("stride({stride}) among {hosts} hosts makes every host talk to itself")]
    StrideToSelf {
        /// The stride.
        stride: u32,
        /// How many hosts there are.
        hosts: u32,
    },
    /// `incast(0)`, or an empty list.
    #[error("the pattern names no pair of hosts")]
    Empty,
    /// More than [`FLOWS_MAX`].
    #[error("the pattern makes {flows} flows, more than the {FLOWS_MAX} that one run can have")]
    TooMany {
        /// How many it would be.
        flows: u64,
    },
    /// A pair that is not two different hosts.
    #[error("the pair of nodes {from} and {to} is not two different hosts")]
    NotHosts {
        /// The sender's number.
        from: u32,
        /// The receiver's number.
        to: u32,
    },
}

impl NoPairs {
    /// What the user can do.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::TooFewHosts { .. } => "add a host to the topology",
            Self::StrideToSelf { .. } => "choose a stride that the number of hosts does not divide",
            Self::Empty => "name at least one pair, or `incast(1)`",
            Self::TooMany { .. } => "use `permutation` or `random`, or a smaller topology",
            Self::NotHosts { .. } => "name two different hosts",
        }
    }
}

/// The pairs (sender, receiver) of `pattern`, in the order of the senders. The same `rng` draws the same pairs.
///
/// # Errors
/// If the pattern makes no sense in this fabric.
pub fn pairs(fabric: &Fabric, pattern: &Pattern, rng: &mut Rng) -> Result<Vec<(NodeId, NodeId)>, NoPairs> {
    let n = fabric.topology.end_host_count();
    if n < 2 {
        return Err(NoPairs::TooFewHosts { hosts: n });
    }
    match pattern {
        Pattern::Random => Ok((0..n).map(|x| pair(x, other_than(x, n, rng))).collect()),
        Pattern::Stride(stride) => stride_pairs(*stride, n),
        Pattern::Staggered(same_edge, same_pod) => Ok(Places::new(fabric).staggered(*same_edge, *same_pod, rng)),
        Pattern::Permutation => Ok(derangement(n, rng)),
        Pattern::Incast(0) => Err(NoPairs::Empty),
        Pattern::Incast(senders) => Ok((1..=(*senders).min(n - 1)).map(|x| pair(x, 0)).collect()),
        Pattern::AllToAll => {
            let flows = u64::from(n) * u64::from(n - 1);
            if flows > FLOWS_MAX {
                return Err(NoPairs::TooMany { flows });
            }
            Ok((0..n).flat_map(|x| (0..n).filter(move |&y| y != x).map(move |y| pair(x, y))).collect())
        }
        Pattern::Pairs(pairs) => named(pairs, n),
    }
}

const fn pair(from: u32, to: u32) -> (NodeId, NodeId) {
    (NodeId(from), NodeId(to))
}

/// A host drawn uniformly among those that are not `x`.
fn other_than(x: u32, n: u32, rng: &mut Rng) -> u32 {
    let y = rng.below(n - 1);
    if y < x { y } else { y + 1 }
}

fn stride_pairs(stride: u32, n: u32) -> Result<Vec<(NodeId, NodeId)>, NoPairs> {
    if stride.is_multiple_of(n) {
        return Err(NoPairs::StrideToSelf { stride, hosts: n });
    }
    let step = u64::from(stride);
    Ok((0..n).map(|x| pair(x, ((u64::from(x) + step) % u64::from(n)) as u32)).collect())
}

/// Uniform among the permutations without a fixed point: draw until there is none, e = 2.72 times on average.
fn derangement(n: u32, rng: &mut Rng) -> Vec<(NodeId, NodeId)> {
    let mut to: Vec<u32> = (0..n).collect();
    loop {
        rng.shuffle(&mut to);
        if to.iter().enumerate().all(|(x, &y)| x as u32 != y) {
            return to.into_iter().enumerate().map(|(x, y)| pair(x as u32, y)).collect();
        }
    }
}

fn named(pairs: &[(NodeId, NodeId)], n: u32) -> Result<Vec<(NodeId, NodeId)>, NoPairs> {
    if pairs.is_empty() {
        return Err(NoPairs::Empty);
    }
    if pairs.len() as u64 > FLOWS_MAX {
        return Err(NoPairs::TooMany { flows: pairs.len() as u64 });
    }
    match pairs.iter().find(|(from, to)| from == to || from.0 >= n || to.0 >= n) {
        Some((from, to)) => Err(NoPairs::NotHosts { from: from.0, to: to.0 }),
        None => Ok(pairs.to_vec()),
    }
}

/// Hosts sorted so that those of an edge switch, and those of a pod, lie side by side.
struct Places {
    order: Vec<u32>,
    /// For each host: the range of `order` with the hosts of its edge switch, and the one with those of its pod.
    ranges: Vec<[(u32, u32); 2]>,
}

impl Places {
    fn new(fabric: &Fabric) -> Self {
        let keys: Vec<(Option<u32>, u32)> = (0..fabric.topology.end_host_count()).map(|x| place(fabric, x)).collect();
        let mut order: Vec<u32> = (0..fabric.topology.end_host_count()).collect();
        order.sort_by_key(|&x| (keys[x as usize], x));
        let mut ranges = vec![[(0, 0); 2]; order.len()];
        for (level, same) in [same_edge as SamePlace, same_pod as SamePlace].into_iter().enumerate() {
            let mut start = 0;
            while start < order.len() {
                let key = keys[order[start] as usize];
                let len = order[start..].iter().take_while(|&&x| same(keys[x as usize], key)).count();
                for &x in &order[start..start + len] {
                    ranges[x as usize][level] = (start as u32, (start + len) as u32);
                }
                start += len;
            }
        }
        Self { order, ranges }
    }

    fn staggered(&self, same_edge: f64, same_pod: f64, rng: &mut Rng) -> Vec<(NodeId, NodeId)> {
        (0..self.order.len() as u32)
            .map(|x| {
                let draw = rng.fraction();
                // Where the wanted group is empty (an edge switch with one host, a fabric of one pod), the next wider
                // one takes its place, and the nearest one when there is no wider.
                let wanted = if draw < same_edge {
                    [0, 1, 2]
                } else if draw < same_edge + same_pod {
                    [1, 2, 0]
                } else {
                    [2, 1, 0]
                };
                let to = wanted.into_iter().find_map(|group| self.draw(x, group, rng));
                pair(x, to.expect("two hosts at least: one of the three groups has another one"))
            })
            .collect()
    }

    /// A host drawn from a group around `x`: 0 its edge switch, 1 the rest of its pod, 2 elsewhere. None if it is empty.
    fn draw(&self, x: u32, group: usize, rng: &mut Rng) -> Option<u32> {
        let [edge, pod] = self.ranges[x as usize];
        let all = (0, self.order.len() as u32);
        let at = |index: u32| self.order[index as usize];
        match group {
            0 => loop {
                if edge.1 - edge.0 < 2 {
                    return None;
                }
                let y = at(edge.0 + rng.below(edge.1 - edge.0));
                if y != x {
                    return Some(y);
                }
            },
            1 => between(pod, edge, rng).map(at),
            _ => between(all, pod, rng).map(at),
        }
    }
}

type SamePlace = fn((Option<u32>, u32), (Option<u32>, u32)) -> bool;

fn same_edge(a: (Option<u32>, u32), b: (Option<u32>, u32)) -> bool {
    a == b
}

fn same_pod(a: (Option<u32>, u32), b: (Option<u32>, u32)) -> bool {
    a.0 == b.0
}

/// An index of the range `outer` that lies outside the range `inner` within it. None if there is none.
fn between(outer: (u32, u32), inner: (u32, u32), rng: &mut Rng) -> Option<u32> {
    let left = inner.0 - outer.0;
    let count = left + (outer.1 - inner.1);
    (count > 0).then(|| {
        let draw = rng.below(count);
        if draw < left { outer.0 + draw } else { inner.1 + (draw - left) }
    })
}

/// A host's pod (all hosts share one where the topology has none) and its edge switch.
fn place(fabric: &Fabric, host: u32) -> (Option<u32>, u32) {
    let id = NodeId(host);
    (fabric.topology.pod(id), fabric.topology.peers(id).next().unwrap_or(id).0)
}

#[cfg(test)]
mod tests;
