//! `firewall`: connections are let in or not when they begin; what belongs to one that was let in passes, and what is about one.
//!
//! ```text
//! packet -> connection known, or an ICMP error about one -----------------------------------------------> pass
//!           | new -> rules of its course, the first one that fits, else outbound: allow, inbound: deny --> pass, kept | drop
//!           | neither: a segment out of the blue, a fragment, what is behind a second tag ----------------> drop
//! ```

use machine::{Rebase, Span, Time};

use super::connections::{Content, connections, count_of};
use super::service_function::{Course, FunctionCount, PassingPacket, ServiceFunction, Verdict, nonzero};
use crate::conntrack::{Conntrack, Refusal, Request, Segment, Translate, ct_state};
use crate::field::Field;
use crate::flow_table::Match;

/// Which connections may begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirewallRules {
    /// Connections that the chain's `from` begins: the first rule that fits counts. Without one they are allowed.
    pub outbound: Vec<FirewallRule>,
    /// Connections that the chain's `to` begins. Without a rule that fits they are denied.
    pub inbound: Vec<FirewallRule>,
}

/// A rule for packets that begin connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirewallRule {
    /// Whether they may.
    pub allows: bool,
    /// Which packets.
    pub matching: Match,
}

impl FirewallRules {
    fn of(&self, course: Course) -> (&[FirewallRule], bool) {
        match course {
            Course::Forward => (&self.outbound, true),
            Course::Reverse => (&self.inbound, false),
        }
    }
}

/// A stateful firewall.
#[derive(Debug)]
pub struct Firewall {
    rules: FirewallRules,
    conntrack: Conntrack,
    /// By course and rule, the default behind them: what has begun, or was not let in.
    decided: [Vec<u64>; 2],
    /// Packets that belong to no connection and begin none.
    invalid: u64,
    /// Fragments, which do not say what they belong to, and IP packets that are malformed.
    fragments: u64,
    /// Frames with several tags: what is in them is not looked at.
    nested: u64,
    /// Connections that could not be kept since the table is full.
    full: u64,
    /// Connections that could not be kept since answers to them would be another one's, or are no others than they themselves.
    no_tuple: u64,
}

impl Firewall {
    /// `seed` is where the hashes of its connections start.
    pub fn new(rules: &FirewallRules, seed: u64) -> Self {
        let places = |course| vec![0; rules.of(course).0.len() + 1];
        Self {
            conntrack: connections(seed),
            decided: Course::BOTH.map(places),
            rules: rules.clone(),
            invalid: 0,
            fragments: 0,
            nested: 0,
            full: 0,
            no_tuple: 0,
        }
    }

    /// Whether a packet that begins something may.
    fn may_begin(&mut self, packet: &PassingPacket<'_>) -> bool {
        let (rules, default) = self.rules.of(packet.course);
        let found = rules.iter().position(|rule| rule.matching.has_frame(packet.headers));
        self.decided[packet.course.index()][found.unwrap_or(rules.len())] += 1;
        found.map_or(default, |rule| rules[rule].allows)
    }

    fn process_ip(&mut self, now: Time, packet: &PassingPacket<'_>, segment: &Segment) -> Verdict {
        self.conntrack.begin_for(packet.course.index());
        let request = Request { zone: 0, commit: false, force: false, mark: None, translate: Translate::No };
        let tracked = self.conntrack.process(now, segment, &request);
        if tracked.state & ct_state::INVALID != 0 {
            self.invalid += 1;
            return Verdict::Drop;
        }
        if tracked.is_kept {
            return Verdict::Pass;
        }
        if !self.may_begin(packet) {
            return Verdict::Drop;
        }
        let begun = self.conntrack.process(now, segment, &Request { commit: true, ..request });
        if begun.is_kept {
            return Verdict::Pass;
        }
        match begun.refusal {
            Some(Refusal::NoTuple) => self.no_tuple += 1,
            Some(Refusal::NoRoom) | None => self.full += 1,
        }
        Verdict::Drop
    }
}

impl ServiceFunction for Firewall {
    fn process(&mut self, now: Time, packet: &PassingPacket<'_>, _: &mut Vec<Field>) -> Verdict {
        let unreadable = match Content::of(packet.headers) {
            Content::Ip(segment) => return self.process_ip(now, packet, &segment),
            Content::NeighbourDiscovery => return Verdict::Pass,
            Content::Other => return if self.may_begin(packet) { Verdict::Pass } else { Verdict::Drop },
            Content::Fragment => &mut self.fragments,
            Content::Nested => &mut self.nested,
        };
        *unreadable += 1;
        Verdict::Drop
    }

    fn counts(&self) -> Vec<FunctionCount> {
        let mut counts = vec![count_of(&self.conntrack)];
        for (course, word) in Course::BOTH.into_iter().zip(["outbound", "inbound"]) {
            let (rules, default) = self.rules.of(course);
            let verb = |allows: bool| if allows { "allow" } else { "deny" };
            let names = rules.iter().map(|rule| match rule.matching.to_string() {
                all if all.is_empty() => format!("{word} {} all", verb(rule.allows)),
                text => format!("{word} {} {text}", verb(rule.allows)),
            });
            let names = names.chain(std::iter::once(format!("{word} {} by default", verb(default))));
            let decided = &self.decided[course.index()];
            counts.extend(names.zip(decided).map(|(name, count)| FunctionCount::new(name, *count)));
        }
        counts.extend([
            FunctionCount::new("invalid", self.invalid),
            FunctionCount::new("fragments", self.fragments),
            FunctionCount::new("several tags", self.nested),
            FunctionCount::new("no room for connections", self.full),
            FunctionCount::new("no tuple for connections", self.no_tuple),
        ]);
        nonzero(counts)
    }
}

impl Rebase for Firewall {
    fn rebase(&mut self, by: Span) {
        let Self { rules: _, conntrack, decided: _, invalid: _, fragments: _, nested: _, full: _, no_tuple: _ } = self;
        conntrack.rebase(by);
    }
}
