//! Flows of UDP: messages as fast as credit for them comes back, as between live hosts, or datagrams at an even pace.

use std::ops::Range;

use machine::{Control, Step, Time};
use transport::udp::{self, FRAGMENTS, Fragment};
use transport::{credit, paced};

use crate::Scenario;

/// What a flow of UDP has instead of sender and receiver.
#[derive(Debug)]
pub(crate) enum Udp {
    /// As fast as credit comes back.
    Bulk { sender: credit::Sender, receiver: udp::Receiver, credits: credit::Receiver },
    /// At an even pace.
    Paced { sender: paced::Sender, receiver: paced::Receiver },
}

impl Udp {
    /// `window`: messages under way that are not at an even pace.
    pub(crate) fn new(scenario: &Scenario<'_>, start: Time, window: u32) -> Self {
        let Some(rate) = scenario.rate_pps else {
            let (sender, receiver) = (credit::Sender::new(window), udp::Receiver::default());
            return Self::Bulk { sender, receiver, credits: credit::Receiver::new(Time::ZERO..Time::NEVER, window) };
        };
        let measured = Time::ZERO + scenario.warm_up;
        let number = |time: Time| paced::first_after(rate, time.since(start));
        let numbers = number(measured)..number(measured + scenario.duration);
        Self::Paced { sender: paced::Sender::new(rate), receiver: paced::Receiver::new(rate, numbers) }
    }

    /// It begins to send.
    pub(crate) fn start(&mut self, now: Time) {
        match self {
            Self::Bulk { sender, .. } => sender.handle(now, credit::Input::Start),
            Self::Paced { sender, .. } => sender.handle(now, paced::Input::Start),
        }
    }

    /// The numbers of the packets that it sends now: all fragments of a message at once, as a kernel does, or a datagram.
    pub(crate) fn poll(&mut self, now: Time) -> Step<Range<u64>> {
        let polled = match self {
            Self::Bulk { sender, .. } => (sender.poll(now), u64::from(FRAGMENTS)),
            Self::Paced { sender, .. } => (sender.poll(now), 1),
        };
        match polled {
            (Step::Wait(until), _) => Step::Wait(until),
            (Step::Do(number), packets) => Step::Do(number * packets..(number + 1) * packets),
        }
    }

    /// A packet has come to its host; `heard`: how many fragments that has had of the sender, to be counted on. Returns the credit to be sent back.
    pub(crate) fn receive(&mut self, now: Time, number: u64, heard: &mut u32) -> Option<u64> {
        match self {
            Self::Bulk { receiver, credits, .. } => {
                *heard = heard.wrapping_add(1);
                let message = receiver.receive(Fragment::of(number), *heard)?;
                credits.receive(now, message)
            }
            Self::Paced { receiver, .. } => {
                receiver.receive(now, number);
                None
            }
        }
    }

    /// Credit has come back.
    pub(crate) fn credit(&mut self, now: Time, number: u64) {
        if let Self::Bulk { sender, .. } = self {
            sender.handle(now, credit::Input::Credit(number));
        }
    }
}

/// How many messages of a flow of UDP are under way: as live, where a host's flows share its links' queues.
pub(crate) fn udp_window(scenario: &Scenario<'_>) -> u32 {
    let topology = &scenario.fabric.topology;
    let mut streams = vec![[0; 2]; topology.nodes.len()];
    for flow in scenario.flows {
        streams[flow.from.0 as usize][0] += 1;
        streams[flow.to.0 as usize][1] += 1;
    }
    let most = streams.into_iter().flatten().max().unwrap_or(1);
    credit::window(topology.links.iter().filter_map(|link| link.spec.queue_packets), most)
}
