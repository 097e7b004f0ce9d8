//! What chains have counted, and how their functions do.

use machine::{Rebase, Span, Time, mix};
use topology::NodeId;
use vswitch::Field;
use vswitch::chain::Watch;
use vswitch::functions::{Course, ServiceFunction};

use super::Steering;
use crate::graph::Graph;

/// The state of all chains.
#[derive(Debug)]
pub struct ChainState {
    /// In the order of chains, of their functions and of the functions' instances.
    pub instances: Vec<InstanceState>,
    /// Likewise, of functions that are built in.
    pub built_in: Vec<BuiltInState>,
    /// By chain and course.
    pub courses: Vec<[CourseCounters; 2]>,
    /// When watches are to be asked.
    pub(super) armed: Time,
    /// What is written into the packet that passes a built-in function.
    pub(super) fields: Vec<Field>,
}

/// A built-in function.
#[derive(Debug)]
pub struct BuiltInState {
    /// What it does.
    pub function: Box<dyn ServiceFunction>,
    /// By course.
    pub hops: [HopCounters; 2],
}

/// An instance of a function.
#[derive(Debug)]
pub struct InstanceState {
    /// How it does.
    pub watch: Watch,
    /// By course.
    pub hops: [HopCounters; 2],
    /// By course: packets that have come to it, be it to pass it or to see how it does.
    arrived: [u64; 2],
    /// Frames that were sent to it only to see how it does.
    pub(super) probes: u64,
    /// By course: a packet whose return is waited for.
    pub(super) samples: [Option<Sample>; 2],
}

/// A packet that was handed to a function, to see how long it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub signature: u64,
    pub at: Time,
}

impl HopCounters {
    /// Counts a packet that comes to it.
    pub(super) fn count_in(&mut self, bytes: u32) {
        self.in_packets += 1;
        self.in_bytes += u64::from(bytes);
    }

    /// Counts a packet that it has let pass.
    pub(super) fn count_out(&mut self, bytes: u32) {
        self.out_packets += 1;
        self.out_bytes += u64::from(bytes);
    }
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
    /// Packets that were for nobody: of functions, for stations that there are not; of hosts, for one of them but sent to everybody, which no function would see.
    pub stray: u64,
}

/// A packet whose return is waited for in vain, since it was dropped or rewritten, makes room for another one after so long.
const SAMPLE_PATIENCE: Span = Span::from_ms(1_000);

/// One of so many packets is timed: a power of two.
const SAMPLED: u64 = 64;

impl ChainState {
    /// `seed` is where the hashes of functions start.
    pub(crate) fn new(steering: &Steering, seed: u64) -> Self {
        let instance = |instance: &super::Instance| InstanceState {
            watch: Watch::new(instance.timeout),
            hops: [HopCounters::default(); 2],
            arrived: [0; 2],
            probes: 0,
            samples: [None; 2],
        };
        let built_in = |(number, hop): (usize, &super::BuiltInHop)| BuiltInState {
            function: hop.built_in.make(mix(seed ^ mix(number as u64))),
            hops: [HopCounters::default(); 2],
        };
        Self {
            instances: steering.instances.iter().map(instance).collect(),
            built_in: steering.built_in.iter().enumerate().map(built_in).collect(),
            courses: vec![[CourseCounters::default(); 2]; steering.paths.len()],
            ..Self::default()
        }
    }

    /// Chains have changed: built-in functions that are what they were go on with what they know.
    pub(crate) fn take_over(&mut self, old: &mut Self, (was, is): (&Steering, &Steering)) {
        for (number, hop) in is.built_in.iter().enumerate() {
            if let Some(before) = was.built_in.iter().position(|before| before == hop) {
                std::mem::swap(&mut self.built_in[number], &mut old.built_in[before]);
            }
        }
    }
}

impl<P> Graph<P> {
    /// A host is handed a packet in a network that has chains.
    #[inline]
    pub(crate) fn count_arrival(&mut self, steering: &Steering, host: NodeId) {
        if let Some((id, course)) = steering.arrival(host) {
            self.chains.instances[id as usize].arrived[course.index()] += 1;
        }
    }
}

impl Default for ChainState {
    fn default() -> Self {
        Self {
            instances: Vec::new(),
            built_in: Vec::new(),
            courses: Vec::new(),
            armed: Time::NEVER,
            fields: Vec::new(),
        }
    }
}

impl InstanceState {
    /// Packets that have come to it to pass it. What went there and is not among them is under way, or was lost before.
    pub const fn arrived(&self, course: Course) -> u64 {
        match course {
            // Probes are sent that way.
            Course::Forward => self.arrived[0].saturating_sub(self.probes),
            Course::Reverse => self.arrived[1],
        }
    }

    /// Counts a packet that goes to it. Whether this one is to be timed.
    #[inline]
    pub(super) fn count_in(&mut self, now: Time, course: Course, bytes: u32) -> bool {
        let hop = &mut self.hops[course.index()];
        let is_turn = hop.in_packets & (SAMPLED - 1) == 0;
        hop.count_in(bytes);
        is_turn && self.samples[course.index()].is_none_or(|sample| now.since(sample.at) > SAMPLE_PATIENCE)
    }

    /// Counts a packet that has come back. `signature` is asked for while one is timed.
    #[inline]
    pub(super) fn count_out(&mut self, now: Time, course: Course, bytes: u32, signature: impl FnOnce() -> u64) {
        let hop = &mut self.hops[course.index()];
        hop.count_out(bytes);
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
        let Self { instances, built_in, courses: _, armed, fields: _ } = self;
        for BuiltInState { function, hops: _ } in built_in {
            function.rebase(by);
        }
        for InstanceState { watch, hops: _, arrived: _, probes: _, samples } in instances {
            watch.rebase(by);
            samples.iter_mut().flatten().for_each(|sample| sample.at.rebase(by));
        }
        armed.rebase(by);
    }
}
