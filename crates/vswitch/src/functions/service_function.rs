//! What a built-in function of a service chain is: a packet and the time go in, a verdict comes out.

use std::fmt;

use machine::{Rebase, Time};
use topology::NodeId;

use crate::field::Field;

/// Which way a packet goes through a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// From its `from` to its `to`.
    Forward,
    /// Back.
    Reverse,
}

impl Course {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// Its place in [`Course::BOTH`].
    pub const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Reverse => 1,
        }
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// A built-in function of a service chain (RFC 7665): a machine without clock and socket, the same for frames and for simulated packets.
///
/// It has no port. A packet is shown to it where it leaves the host, or the function, that it comes from; it is not copied for that, and nobody looks up where it is
/// to go.
pub trait ServiceFunction: fmt::Debug + Send + Rebase {
    /// A packet passes. `fields` is empty, and is written into it, in order, if the verdict lets it pass.
    fn process(&mut self, now: Time, packet: &PassingPacket<'_>, fields: &mut Vec<Field>) -> Verdict;

    /// What it has counted, in the order in which it is shown.
    fn counts(&self) -> Vec<FunctionCount>;
}

/// A packet that passes a function.
#[derive(Clone, Copy, Debug)]
pub struct PassingPacket<'a> {
    /// Which way.
    pub course: Course,
    /// Its bytes from the destination address on, as many as there are; headers at least.
    pub headers: &'a [u8],
    /// Its length in bytes, without frame check sequence. A segment that a kernel left to others to cut is longer than an MTU.
    pub bytes: u32,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes no further. The function has counted why.
    Drop,
    /// It goes on, and a copy of it goes to this host.
    PassAndCopy(NodeId),
}

/// A number that a function shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCount {
    /// What was counted.
    pub name: String,
    /// How often: packets, if nothing else is said.
    pub count: u64,
    /// The bytes of those packets, where they are counted.
    pub bytes: Option<u64>,
}

impl FunctionCount {
    /// Without bytes.
    pub fn new(name: impl Into<String>, count: u64) -> Self {
        Self { name: name.into(), count, bytes: None }
    }
}

/// Those that have counted anything.
pub(super) fn nonzero(counts: impl IntoIterator<Item = FunctionCount>) -> Vec<FunctionCount> {
    counts.into_iter().filter(|count| count.count > 0).collect()
}
