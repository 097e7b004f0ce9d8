//! Captures of a live network: which there are, and where each looks.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use machine::{Rebase, Span};
use topology::Topology;

use super::Network;
use crate::Error;
use crate::dataplane::TapPoint;
use crate::sniffer::{Direction, Filter, Interface, Observer, SNAPLEN_MAX, Session, Target};

/// Captures at one time: each has a client that waits, and a queue.
const CAPTURES_MAX: usize = 16;

/// Why captures end that nobody has ended.
const NETWORK_ENDED: &str = "the network has ended";
const LINK_GONE: &str = "the network has changed, and the link is not in it any more";

/// The captures that are under way.
#[derive(Debug, Default)]
pub(super) struct Captures {
    running: Vec<Capture>,
    /// How many there have been.
    begun: u64,
}

#[derive(Debug)]
struct Capture {
    number: u64,
    /// What was asked for, if that may be more ports when the network has more: a node, or all links between two.
    follows: Option<String>,
    targets: Vec<(Target, Arc<Interface>)>,
    observer: Arc<Observer>,
    /// Nanoseconds from 1970 until the network's clock showed zero, as it was when the capture began: time stamps go on evenly from there.
    zero_ns: u64,
}

impl Rebase for Captures {
    fn rebase(&mut self, by: Span) {
        let Self { running, begun: _ } = self;
        for capture in running {
            capture.zero_ns += by.as_ns();
        }
    }
}

impl Captures {
    /// Whether one is under way.
    pub const fn is_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Ends all of them, unless their queues are full.
    pub fn end(&self) {
        for capture in &self.running {
            let _ = capture.observer.try_end(NETWORK_ENDED);
        }
    }
}

impl Network {
    /// Begins a capture: its number, for [`Network::end_capture`], and what its reader needs.
    pub fn begin_capture(&mut self, target: &str, filter: &str, snaplen: u32) -> Result<(u64, Session), Error> {
        let Some(plane) = &self.plane else { return Err(Error::NothingRuns) };
        if self.captures.running.len() >= CAPTURES_MAX {
            return Err(Error::TooManyCaptures { limit: CAPTURES_MAX });
        }
        let fabric = plane.plan().fabric();
        let topology = &fabric.topology;
        let targets = Target::find(topology, target)?;
        let parsed = Filter::of(fabric, filter)?;
        // In this order, the capture's clock is never behind that of frames: what it has seen would not have come yet.
        let began = Instant::now();
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let zero_ns = now_ns.saturating_sub(self.clock.now().as_ns());
        // A port's number may be another one's, and so may a link's.
        let follows = (topology.node(target).is_some() || !target.contains(':')).then(|| target.to_owned());
        let session = Session::new(&targets, parsed, filter, snaplen.clamp(1, SNAPLEN_MAX), (now_ns, began));
        self.captures.begun += 1;
        let number = self.captures.begun;
        let observer = Arc::clone(session.observer());
        let targets = targets.into_iter().zip(observer.interfaces()).collect();
        self.captures.running.push(Capture { number, follows, targets, observer, zero_ns });
        self.look();
        Ok((number, session))
    }

    /// Ends a capture: when this returns, no worker shows anything to it.
    pub fn end_capture(&mut self, number: u64) {
        self.captures.running.retain(|capture| capture.number != number);
        self.look();
    }

    /// The network has changed: captures go on where their links are now, and where a node has new ones. One that has none any more ends.
    pub(super) fn go_on_capturing(&mut self) {
        let Some(plane) = &self.plane else { return };
        let topology = &plane.plan().fabric().topology;
        self.captures.running.retain_mut(|capture| {
            capture.take_up_new_ports(topology);
            let is_there = capture.targets.iter().any(|(target, _)| target.locate(topology).is_some());
            if !is_there && !capture.observer.try_end(LINK_GONE) {
                tracing::warn!("a capture whose links are gone goes on until its reader has read what waits");
            }
            is_there
        });
        if !self.captures.running.is_empty() {
            self.look();
        }
    }

    /// Has the workers show what captures want to see.
    fn look(&mut self) {
        let Some(plane) = &mut self.plane else { return };
        let (map, topology) = (plane.plan().map(), &plane.plan().fabric().topology);
        let points: Vec<TapPoint> =
            self.captures.running.iter().flat_map(|capture| capture.points(map, topology)).collect();
        plane.observe(&points);
    }
}

impl Capture {
    fn take_up_new_ports(&mut self, topology: &Topology) {
        let Some(asked) = &self.follows else { return };
        for target in Target::find(topology, asked).unwrap_or_default() {
            if !self.targets.iter().any(|(known, _)| known.is_same_port(&target)) {
                let interface = self.observer.add_interface(target.name.clone());
                self.targets.push((target, interface));
            }
        }
    }

    /// Both directions at each of its ports that are there.
    fn points<'a>(
        &'a self,
        map: &'a datapath::Map,
        topology: &'a Topology,
    ) -> impl Iterator<Item = TapPoint> + use<'a> {
        let Self { number: _, follows: _, targets, observer, zero_ns } = self;
        let located = targets.iter();
        let located = located.filter_map(|(target, interface)| Some((interface, target.locate(topology)?)));
        located.flat_map(move |(interface, (node, port))| {
            let port = map.port(node, port);
            [(port, Direction::Outbound), (map.far(port), Direction::Inbound)].map(|(port, direction)| TapPoint {
                port,
                interface: Arc::clone(interface),
                direction,
                zero_ns: *zero_ns,
                observer: Arc::clone(observer),
            })
        })
    }
}
