//! What links do to packets: the file's values with their defaults.

use link::LinkSpec;
use machine::Span;

use crate::document::{LinkClasses, LinkText};
use crate::error::Problems;
use crate::topologies::Specs;

/// The queue of a link with a rate that says nothing about it: Linux's default (`txqueuelen`).
const DEFAULT_QUEUE: u32 = 1_000;

/// What a link does that is written as `own` where `defaults` hold.
pub(crate) fn merged(own: &LinkText, defaults: Option<&LinkText>) -> LinkSpec {
    let rate = own.rate.as_ref().or(defaults.and_then(|d| d.rate.as_ref()));
    let delay = own.delay.as_ref().or(defaults.and_then(|d| d.delay.as_ref()));
    let queue = own.queue.as_ref().or(defaults.and_then(|d| d.queue.as_ref()));
    let overhead = own.overhead.as_ref().or(defaults.and_then(|d| d.overhead.as_ref()));
    LinkSpec {
        rate_bps: rate.map(|rate| rate.value.0),
        delay: delay.map_or(Span::ZERO, |delay| delay.value.0),
        // Nothing waits on a link without a rate.
        queue_packets: rate.map(|_| queue.map_or(DEFAULT_QUEUE, |queue| queue.value.get())),
        overhead_bytes: rate.and(overhead).map_or(0, |overhead| overhead.value.0),
    }
}

/// Notes what is written in vain for a link on which nothing takes time.
pub(crate) fn note_idle(own: &LinkText, spec: LinkSpec, problems: &mut Problems<'_>) {
    if let (Some(overhead), None) = (&own.overhead, spec.rate_bps) {
        problems.add(
            overhead.place,
            "an overhead without a rate: bytes take no time on a link without a rate",
            "no rate to count it at",
            "add `rate:`, or remove `overhead:`",
        );
    }
    if let (Some(queue), None) = (&own.queue, spec.rate_bps) {
        problems.add(
            queue.place,
            "a queue without a rate: nothing ever waits on a link without a rate",
            "no rate to wait for",
            "add `rate:`, or remove `queue:`",
        );
    }
}

/// The links of a topology.
pub(crate) fn classes(classes: &LinkClasses, problems: &mut Problems<'_>) -> Specs {
    let all = LinkText {
        rate: classes.rate.clone(),
        delay: classes.delay.clone(),
        queue: classes.queue.clone(),
        overhead: classes.overhead.clone(),
    };
    let mut class = |own: Option<&LinkText>| match own {
        None => merged(&all, None),
        Some(own) => {
            let spec = merged(own, Some(&all));
            note_idle(own, spec, problems);
            spec
        }
    };
    let specs = Specs {
        hosts: class(classes.hosts.as_ref().map(|at| &at.value)),
        switches: class(classes.switches.as_ref().map(|at| &at.value)),
    };
    if specs.hosts.rate_bps.is_none() && specs.switches.rate_bps.is_none() {
        note_idle(&all, specs.hosts, problems);
    }
    specs
}
