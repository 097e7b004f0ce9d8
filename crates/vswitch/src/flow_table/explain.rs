//! What a packet would meet, and why.

use std::sync::Arc;

use machine::Time;
use wire::{protocol, tcp_flags};

use super::flow::Flow;
use super::frozen::FrozenStates;
use super::key::{Key, Slot};
use super::matching::Match;
use super::meter::Metered;
use super::recirculation::{Pass, Run, Stacks};
use super::tables::FlowTables;
use super::walk::Decision;
use crate::action::Action;
use crate::conntrack::{Request, Segment, Tracked, ct_state};

/// What a packet meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainedStep {
    /// An entry of a table.
    Entry(Arc<Flow>),
    /// Connection tracking: what it would say of the packet, as flows match it.
    Connection(Box<Match>),
    /// The meter of this number, which lets a packet pass that does not come too fast.
    Meter(u32),
}

/// What a packet would meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What it meets, in order.
    pub steps: Vec<ExplainedStep>,
    /// The table in which no entry is for it.
    pub missed: Option<u8>,
    /// What is done with it.
    pub actions: Vec<Action>,
    /// What that depends on: while connections are what they are, it is the same for all packets that agree in this.
    pub because_of: Match,
}

/// A packet that is only thought of.
struct Thought<'a> {
    now: Time,
    tables: &'a FlowTables,
    frozen: FrozenStates,
    steps: Vec<ExplainedStep>,
    missed: Option<u8>,
    looked_at: Key,
}

impl Pass for Thought<'_> {
    fn decide(&mut self, key: &Key, stacks: &mut Stacks) {
        let mut decision = Decision::default();
        self.tables.look_up(&mut self.frozen, key, &mut decision);
        self.steps.extend(decision.entries.iter().filter_map(|id| self.tables.flow(*id)).map(ExplainedStep::Entry));
        self.missed = self.missed.or(decision.missed);
        self.looked_at.unite(&decision.looked_at);
        stacks.add(&decision.actions, &decision.inquiries);
    }

    fn track(&mut self, segment: &Segment, request: &Request) -> Tracked {
        for slot in [Slot::ETH_TYPE, Slot::IP_PROTO, Slot::IP_FRAG, Slot::TP_SRC, Slot::TP_DST] {
            self.looked_at.add(slot, slot.all());
        }
        self.looked_at.set_wide(Slot::SRC_LOW, u128::MAX);
        self.looked_at.set_wide(Slot::DST_LOW, u128::MAX);
        // Whoever names no flags means the first segment.
        let flags = if segment.tuple.protocol == protocol::TCP { segment.tcp_flags } else { 0 };
        let tcp_flags = if flags == 0 { tcp_flags::SYN } else { flags };
        let new = Tracked { state: ct_state::NEW | ct_state::TRACKED, ..Tracked::default() };
        let tracked = self
            .tables
            .conntrack()
            .map_or(new, |conntrack| conntrack.peek(self.now, &Segment { tcp_flags, ..*segment }, request));
        let mut said = Match::default();
        for (slot, value) in [
            (Slot::CT_STATE, u64::from(tracked.state)),
            (Slot::CT_ZONE, u64::from(request.zone)),
            (Slot::CT_MARK, u64::from(tracked.mark)),
        ] {
            // What is none is not shown.
            if value != 0 {
                said.key.set(slot, value);
                said.mask.set(slot, if slot == Slot::CT_STATE { value } else { slot.all() });
            }
        }
        self.steps.push(ExplainedStep::Connection(Box::new(said)));
        tracked
    }

    /// Nothing has changed since.
    fn track_again(&mut self, segment: &Segment, request: &Request) -> Option<Tracked> {
        Some(self.track(segment, request))
    }

    /// It comes alone.
    fn meter(&mut self, id: u32) -> Metered {
        self.steps.push(ExplainedStep::Meter(id));
        Metered::Pass
    }
}

impl FlowTables {
    /// What a packet would meet that has these fields, and 0 in all others. Nothing is counted, and no connection begins.
    pub fn explain(&self, now: Time, packet: &Match) -> Explanation {
        let (mut stacks, mut actions) = (Stacks::default(), Vec::new());
        let mut thought = Thought {
            now,
            tables: self,
            frozen: FrozenStates::default(),
            steps: Vec::new(),
            missed: None,
            looked_at: Key::default(),
        };
        let mut key = packet.key;
        key.set(Slot::RECIRCULATION, 0);
        thought.decide(&key, &mut stacks);
        if !Run::new(&mut thought, None, &mut stacks, &mut actions).carry_out(&key) {
            actions.clear();
        }
        let Thought { steps, missed, looked_at: mut mask, .. } = thought;
        mask.set(Slot::RECIRCULATION, 0);
        mask.forget_connection();
        // Only IPv6 has these bits.
        let mask = if key.get(Slot::ETH_TYPE) as u16 == wire::ethertype::IPV4 { mask.for_ipv4() } else { mask };
        Explanation { steps, missed, actions, because_of: Match { key: key.masked(&mask), mask } }
    }
}
