//! What chains have counted, and how their functions do.

use machine::{Rebase, Span, Time};
use vswitch::chain::Watch;

use super::{Course, Steering};

/// The state of all chains.
#[derive(Debug)]
pub struct ChainState {
    /// In the order of chains, of their functions and of the functions' instances.
    pub instances: Vec<InstanceState>,
    /// By chain and course.
    pub courses: Vec<[CourseCounters; 2]>,
    /// When watches are to be asked.
    pub(super) armed: Time,
}

/// An instance of a function.
#[derive(Debug)]
pub struct InstanceState {
    /// How it does.
    pub watch: Watch,
    /// By course.
    pub hops: [HopCounters; 2],
    /// By course: a packet whose return is waited for.
    pub(super) samples: [Option<Sample>; 2],
}

/// A packet that was handed to a function, to see how long it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub signature: u64,
    pub at: Time,
}

/// What a function has got and given back on one course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopCounters {
    /// Packets that went to it.
    pub in_packets: u64,
    /// Their bytes, without frame check sequence.
    pub in_bytes: u64,
    /// Packets that came back from it.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// How many of the packets were timed, from where they were sent on their way to it until they came back.
    pub timed: u64,
    /// How long those took together.
    pub delay_total: Span,
    /// The longest.
    pub delay_max: Span,
}

/// What has become of packets on one course of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CourseCounters {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that were sent on to where they go, behind the last function.
    pub left: u64,
    /// How often a packet went past a function that was down.
    pub bypassed: u64,
    /// Packets that were dropped since a function was down.
    pub blocked: u64,
    /// Packets of functions that were for nobody: groups, and destinations that there are not.
    pub stray: u64,
}

/// A packet whose return is waited for in vain, since it was dropped or rewritten, makes room for another one after so long.
const SAMPLE_PATIENCE: Span = Span::from_ms(1_000);

/// One of so many packets is timed: a power of two.
const SAMPLED: u64 = 64;

impl ChainState {
    pub(crate) fn new(steering: &Steering) -> Self {
        let instance = |instance: &super::Instance| InstanceState {
            watch: Watch::new(instance.timeout),
            hops: [HopCounters::default(); 2],
            samples: [None; 2],
        };
        Self {
            instances: steering.instances.iter().map(instance).collect(),
            courses: vec![[CourseCounters::default(); 2]; steering.paths.len()],
            armed: Time::NEVER,
        }
    }
}

impl Default for ChainState {
    fn default() -> Self {
        Self { instances: Vec::new(), courses: Vec::new(), armed: Time::NEVER }
    }
}

impl InstanceState {
    /// Counts a packet that goes to it. Whether this one is to be timed.
    #[inline]
    pub(super) fn count_in(&mut self, now: Time, course: Course, bytes: u32) -> bool {
        let hop = &mut self.hops[course.index()];
        let is_turn = hop.in_packets & (SAMPLED - 1) == 0;
        hop.in_packets += 1;
        hop.in_bytes += u64::from(bytes);
        is_turn && self.samples[course.index()].is_none_or(|sample| now.since(sample.at) > SAMPLE_PATIENCE)
    }

    /// Counts a packet that has come back. `signature` is asked for while one is timed.
    #[inline]
    pub(super) fn count_out(&mut self, now: Time, course: Course, bytes: u32, signature: impl FnOnce() -> u64) {
        let hop = &mut self.hops[course.index()];
        hop.out_packets += 1;
        hop.out_bytes += u64::from(bytes);
        let sample = &mut self.samples[course.index()];
        if let Some(Sample { signature: wanted, at }) = *sample
            && signature() == wanted
        {
            let took = now.since(at);
            hop.timed += 1;
            hop.delay_total = hop.delay_total + took;
            hop.delay_max = hop.delay_max.max(took);
            *sample = None;
        }
    }
}

impl Rebase for ChainState {
    fn rebase(&mut self, by: Span) {
        let Self { instances, courses: _, armed } = self;
        for InstanceState { watch, hops: _, samples } in instances {
            watch.rebase(by);
            samples.iter_mut().flatten().for_each(|sample| sample.at.rebase(by));
        }
        armed.rebase(by);
    }
}
