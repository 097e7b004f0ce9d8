//! Service chains: frames that come from functions, and what is told about them.

use datapath::{BuiltInState, ChainState, HopCounters, InstanceState, Tag};
use machine::Time;
use topology::NodeId;
use vswitch::functions::{BuiltIn, Course, FunctionCount};
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, FlowKey, Forwarding};
use wire::is_group;

use super::edge::Edge;
use super::plan::Plan;
use super::pool::Packet;
use crate::control::{ChainCounters, ChainHop, HopCount};

impl Edge {
    /// Decides about a frame that a function has sent: its port says where it goes next.
    #[inline]
    pub(super) fn enter_from_function(&mut self, host: usize, now: Time, mut packet: Packet) {
        let frame = packet.ethernet();
        // Nobody's packets through a chain are for a group.
        let to = if frame.first_chunk().is_some_and(|to| is_group(*to)) { FLOOD } else { NodeId(host as u32) };
        let key = self.plan.asks_functions_for_flows().then(|| FlowKey::parse(frame).ok()).flatten();
        let hash = key.map_or(FlowHash(0), |key| key.hash());
        self.stamp(now, &mut packet, Forwarding { to, hash }, Tag::None);
        self.entering.push(packet);
    }

    /// Says in the log that a function has gone down, or is back.
    #[cold]
    pub(super) fn log_function(&mut self, now: Time, ingress: NodeId, up: bool) {
        if let Some(lines) = self.function_log.take_left_out(now) {
            tracing::warn!("{lines} more changes of functions in a minute are not in this log");
        }
        if !self.function_log.take(now) {
            return;
        }
        let name = &self.plan.fabric().topology.nodes[ingress].name;
        if up {
            tracing::info!("function {name} is back");
        } else {
            tracing::warn!("function {name} is down: it gives nothing back, or a port of it has no carrier");
        }
    }
}

/// How chains do, at `now`; none of a worker that has none.
pub(super) fn counters(state: &ChainState, plan: &Plan, now: Time) -> Vec<ChainCounters> {
    let chains = &plan.fabric().chains;
    let nodes = &plan.fabric().topology.nodes;
    let (mut instances, mut built_in) = (state.instances.iter(), state.built_in.iter());
    let mut rows = Vec::new();
    for (chain, courses) in chains.chains.iter().zip(&state.courses) {
        // By course.
        let mut hops = [Vec::new(), Vec::new()];
        for function in chain.functions.iter().map(|function| &chains.functions[*function]) {
            if let Some(kind) = function.built_in() {
                let Some(state) = built_in.next() else { continue };
                for (hops, counters) in hops.iter_mut().zip(&state.hops) {
                    hops.push(ChainHop { function: function.name.clone(), ..hop_of_built_in(kind, state, counters) });
                }
            }
            for (ports, instance) in function.instances().iter().zip(instances.by_ref()) {
                for (hops, course) in hops.iter_mut().zip(Course::BOTH) {
                    hops.push(ChainHop { function: nodes[ports[0]].name.clone(), ..hop_of(now, instance, course) });
                }
            }
        }
        for (course, mut hops) in Course::BOTH.into_iter().zip(hops) {
            match course {
                Course::Forward => {}
                Course::Reverse if !chain.is_both_ways => continue,
                Course::Reverse => hops.reverse(),
            }
            let counted = courses[course.index()];
            rows.push(ChainCounters {
                chain: chain.name.clone(),
                course: course.name().to_owned(),
                entered: counted.entered,
                left: counted.left,
                bypassed: counted.bypassed,
                blocked: counted.blocked,
                stray: counted.stray,
                hops,
            });
        }
    }
    rows
}

fn hop_of(now: Time, instance: &InstanceState, course: Course) -> ChainHop {
    ChainHop {
        arrived_packets: instance.arrived(course),
        up: instance.watch.is_up(),
        failures: instance.watch.failures(),
        down_ms: instance.watch.down_since().map(|since| now.since(since).as_ns() / 1_000_000),
        ..counted(&instance.hops[course.index()])
    }
}

fn hop_of_built_in(kind: &BuiltIn, state: &BuiltInState, counters: &HopCounters) -> ChainHop {
    let counts = state.function.counts().into_iter();
    let counts = counts.map(|FunctionCount { name, count, bytes }| HopCount { name, count, bytes });
    ChainHop {
        built_in: Some(kind.kind().to_owned()),
        counts: counts.collect(),
        up: true,
        arrived_packets: counters.in_packets,
        ..counted(counters)
    }
}

fn counted(hop: &HopCounters) -> ChainHop {
    ChainHop {
        in_packets: hop.in_packets,
        in_bytes: hop.in_bytes,
        out_packets: hop.out_packets,
        out_bytes: hop.out_bytes,
        timed: hop.timed,
        delay_total_ns: hop.delay_total.as_ns(),
        delay_max_ns: hop.delay_max.as_ns(),
        ..ChainHop::default()
    }
}
