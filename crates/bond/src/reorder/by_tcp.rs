//! In order by TCP's own numbers (RFC 9293): the peer is external.

use machine::{Rebase, Span, Time};
use serde::{Deserialize, Serialize};
use wire::tcp_flags::{FIN, RST, SYN};

use super::flows::{Flows, Gap};
use super::slots::{NIL, Slots};
use super::{
    Config, Counters, Error, MEMBERS, Reorder, Rule, Segment, check_buffer, check_timeout, extend, overtaken_below,
};

/// Further than this from what is expected, no sender's window reaches: the flow is another one under the same ports.
const REACH: u64 = 1 << 26;
/// Where a flow's count starts anew, so that a sender who leaps with each segment does not make it overflow.
const COUNT_MAX: u64 = 1 << 62;
/// So many segments in turn from behind mean that the flow goes on there: one forged number must not end the repair.
const BEHIND_MAX: u32 = 256;
/// Steps to find a segment's place among those that wait for the same gap. Links keep order, so a step is taken only past
/// what overtook this segment and is not the latest itself.
const STEPS_MAX: u32 = 512;
/// No measured timeout is shorter: below lies the jitter of whoever drives this.
const TIMEOUT_MIN: Span = Span::from_us(20);
/// With each repair, the measured skew falls by this part of itself, unless the repair took longer.
const SKEW_DECAY: u64 = 1_024;

/// How long to wait for what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timeout {
    /// It is always this long.
    Fixed(Span),
    /// Twice the skew between the members, as repairs show it; never longer than this, and so long until there was a repair.
    Measured(Span),
}

impl Timeout {
    /// No packet waits longer.
    pub const fn ceiling(self) -> Span {
        let (Self::Fixed(ceiling) | Self::Measured(ceiling)) = self;
        ceiling
    }
}

/// What bounds a [`ByTcp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpConfig {
    /// Packets that may wait, of all flows: as in [`Config`].
    pub buffer: u32,
    /// Flows that are watched: a power of two from 8 to 65,536.
    pub flows: u32,
    /// How long a packet may wait: at most [`super::TIMEOUT_MAX`].
    pub timeout: Timeout,
    /// Spreads the flows over the table, so that nobody can choose flows that meet.
    pub seed: u64,
}

impl Default for TcpConfig {
    /// 1,024 packets of 1,024 flows, at most 5 ms.
    fn default() -> Self {
        let Config { buffer, .. } = Config::default();
        Self { buffer, flows: 1_024, timeout: Timeout::Measured(Span::from_ms(5)), seed: 0 }
    }
}

/// Puts TCP segments back in order, each flow by itself.
///
/// Waiting is for segments with data, or FIN, that lie ahead of a gap. All others pass at once: what is not TCP, pure ACKs,
/// keep-alives, window probes, retransmissions. SYN, RST and data with SACK blocks pass at once too, but take along what
/// waits and belongs before them.
///
/// Invariants: what waits for a flow is sorted, does not overlap, and lies beyond `expected`; each slot is in
/// one flow's list or in `free`.
#[derive(Clone, Debug)]
pub struct ByTcp<P> {
    config: TcpConfig,
    members: u32,
    flows: Flows,
    slots: Slots<P>,
    waits: Box<[Waiting]>,
    free: Vec<u32>,
    /// The longest that a repair took lately.
    skew: Option<Span>,
    counters: Counters,
}

/// Which bytes wait in a slot, and its neighbours in the flow.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    seq: u64,
    end: u64,
    flow: u32,
    before: u32,
    after: u32,
}

/// A segment on its way to its place.
#[derive(Clone, Copy)]
struct Arrival {
    now: Time,
    flow: u32,
    seq: u64,
    end: u64,
}

impl<P> ByTcp<P> {
    /// One that has seen nothing yet; this is its only allocation.
    ///
    /// # Errors
    /// If the configuration is out of its bounds.
    pub fn new(config: TcpConfig) -> Result<Self, Error> {
        check_buffer(config.buffer)?;
        check_timeout(config.timeout.ceiling())?;
        let unused = Waiting { seq: 0, end: 0, flow: 0, before: NIL, after: NIL };
        Ok(Self {
            config,
            members: 0,
            flows: Flows::new(config.flows, config.seed)?,
            slots: Slots::new(config.buffer),
            waits: vec![unused; config.buffer as usize].into(),
            free: (0..config.buffer).rev().collect(),
            skew: None,
            counters: Counters::default(),
        })
    }

    /// What bounds it.
    pub const fn config(&self) -> TcpConfig {
        self.config
    }

    /// By how much one member lags behind another, as repairs showed it; `None` before the first.
    pub const fn skew(&self) -> Option<Span> {
        self.skew
    }

    /// How long a packet may wait at present.
    pub fn timeout(&self) -> Span {
        match (self.config.timeout, self.skew) {
            (Timeout::Measured(ceiling), Some(skew)) => (skew * 2).max(TIMEOUT_MIN).min(ceiling),
            (timeout, _) => timeout.ceiling(),
        }
    }

    /// Hands on all that waits, and forgets all flows: what comes next is not compared with what came before.
    pub fn forget(&mut self, now: Time, out: &mut impl FnMut(P)) {
        self.flush(now, out);
        for at in 0..self.config.flows {
            self.flows.leave(at);
        }
    }

    fn repair_took(&mut self, time: Span) {
        if time <= self.config.timeout.ceiling() {
            let decayed = self.skew.map_or(0, |skew| skew.as_ps() - skew.as_ps() / SKEW_DECAY);
            self.skew = Some(time.max(Span::from_ps(decayed)));
        }
    }

    /// SYN: the flow starts here. What waits for an earlier one goes before it.
    fn begin(&mut self, now: Time, segment: Segment, out: &mut impl FnMut(P)) {
        let at = match self.flows.find(segment.flow) {
            Some(at) => at,
            None => self.enter(now, segment, out),
        };
        self.hand_on_all(now, at, Rule::Urgent, out);
        self.flows[at].start(segment.seq.wrapping_add(1).wrapping_add(segment.payload_len));
        self.flows[at].used = now;
    }

    /// RST: the flow ends here.
    fn end(&mut self, now: Time, segment: Segment, out: &mut impl FnMut(P)) {
        if let Some(at) = self.flows.find(segment.flow) {
            self.hand_on_all(now, at, Rule::Urgent, out);
            self.flows.leave(at);
        }
    }

    /// Makes an entry for a flow that starts with this segment.
    fn enter(&mut self, now: Time, segment: Segment, out: &mut impl FnMut(P)) -> u32 {
        let (at, taken) = self.flows.room(segment.flow);
        if taken {
            self.counters.evicted += 1;
            self.hand_on_all(now, at, Rule::Reset, out);
        }
        self.flows.enter(at, segment.flow, segment.seq);
        at
    }

    /// A segment that occupies numbers: data, FIN, or both.
    fn place(&mut self, now: Time, member: usize, segment: Segment, packet: P, out: &mut impl FnMut(P)) {
        let at = match self.flows.find(segment.flow) {
            Some(at) => at,
            None => self.enter(now, segment, out),
        };
        let length = u64::from(segment.payload_len) + u64::from(segment.flags & FIN != 0);
        let expected = self.flows[at].expected;
        let mut seq = extend(expected, segment.seq);
        if seq.abs_diff(expected) > REACH || expected >= COUNT_MAX {
            self.restart(now, at, segment.seq, out);
            seq = self.flows[at].expected;
        }
        let end = seq + length;
        let flow = &mut self.flows[at];
        flow.used = now;
        flow.carried = true;
        flow.newest[member] = flow.newest[member].max(seq);
        let arrival = Arrival { now, flow: at, seq, end };
        if end <= flow.expected {
            return self.hand_on_late(arrival, segment.seq.wrapping_add(length as u32), packet, out);
        }
        flow.behind = 0;
        if seq <= flow.expected {
            if !flow.is_empty() {
                let took = now.since(self.slots.arrived(flow.first));
                self.counters.repaired += 1;
                self.repair_took(took);
            }
            self.hand_on_due(arrival, packet, out);
        } else {
            self.wait(arrival, segment.has_sack, packet, out);
        }
        self.skip_overtaken(now, at, out);
    }

    /// Nothing new: a retransmission, or a segment that was not waited for long enough.
    fn hand_on_late(&mut self, arrival: Arrival, next: u32, packet: P, out: &mut impl FnMut(P)) {
        let Arrival { now, flow: at, seq, .. } = arrival;
        let flow = &mut self.flows[at];
        self.counters.late += 1;
        flow.behind += 1;
        let gap = flow.gap;
        if flow.behind >= BEHIND_MAX {
            self.restart(now, at, next, out);
        } else if gap.from <= seq && seq < gap.to {
            // Or it was sent again, which looks the same; the ceiling bounds what that may do.
            self.repair_took(now.since(gap.since));
        }
        out(packet);
    }

    /// The flow goes on elsewhere.
    fn restart(&mut self, now: Time, at: u32, seq: u32, out: &mut impl FnMut(P)) {
        self.counters.restarts += 1;
        self.hand_on_all(now, at, Rule::Reset, out);
        self.flows[at].start(seq);
    }

    /// What is expected: it goes on, and so does what waited for it.
    #[inline]
    fn hand_on_due(&mut self, arrival: Arrival, packet: P, out: &mut impl FnMut(P)) {
        let flow = &mut self.flows[arrival.flow];
        flow.expected = flow.expected.max(arrival.end);
        out(packet);
        self.run(arrival.now, arrival.flow, out);
    }

    /// A segment ahead of a gap. If it must not wait, what waits before it goes on, then it.
    fn wait(&mut self, arrival: Arrival, urgent: bool, packet: P, out: &mut impl FnMut(P)) {
        let Arrival { now, flow: at, seq, .. } = arrival;
        if self.free.is_empty() {
            self.make_room(now, out);
        }
        let rule = match self.neighbour(arrival) {
            // Making room may have closed the gap.
            _ if seq <= self.flows[at].expected => return self.hand_on_due(arrival, packet, out),
            _ if urgent => Rule::Urgent,
            Ok(before) => return self.put(arrival, before, packet),
            Err(rule) => rule,
        };
        self.give_up_to(now, at, seq, rule, out);
        self.hand_on_due(arrival, packet, out);
    }

    /// Which waiting segment a new one comes behind ([`NIL`]: it is the first), or why it must not wait.
    fn neighbour(&self, arrival: Arrival) -> Result<u32, Rule> {
        let mut before = self.flows[arrival.flow].last;
        for _ in 0..STEPS_MAX {
            let Some(other) = self.waits.get(before as usize) else { return Ok(NIL) };
            if other.end <= arrival.seq {
                return Ok(before);
            }
            if other.seq < arrival.end {
                // The same bytes wait already: the sender has given up before us.
                return Err(Rule::Urgent);
            }
            before = other.before;
        }
        Err(Rule::Full)
    }

    fn put(&mut self, arrival: Arrival, before: u32, packet: P) {
        let place = self.free.pop().expect("room was made");
        let flow = &mut self.flows[arrival.flow];
        let after = match self.waits.get_mut(before as usize) {
            Some(earlier) => core::mem::replace(&mut earlier.after, place),
            None => core::mem::replace(&mut flow.first, place),
        };
        match self.waits.get_mut(after as usize) {
            Some(later) => {
                later.before = place;
                self.counters.repaired += 1;
            }
            None => flow.last = place,
        }
        let Arrival { now, flow, seq, end } = arrival;
        self.waits[place as usize] = Waiting { seq, end, flow, before, after };
        self.slots.put(place, now, packet);
        self.counters.holds_one_more(self.slots.len());
    }

    /// Lets go of what waits for longest, and of what belongs before it.
    fn make_room(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if let Some((place, _)) = self.slots.oldest() {
            let Waiting { flow, seq, .. } = self.waits[place as usize];
            self.give_up_to(now, flow, seq, Rule::Full, out);
        }
    }

    /// Links keep order, so what every member in use has passed is lost (RFC 1990, section 4.1).
    fn skip_overtaken(&mut self, now: Time, at: u32, out: &mut impl FnMut(P)) {
        let flow = &self.flows[at];
        if flow.is_empty() {
            return;
        }
        if let Some(below) = overtaken_below(&flow.newest, self.members)
            && below > flow.expected
        {
            self.give_up_to(now, at, below, Rule::Overtaken, out);
        }
    }

    fn hand_on_all(&mut self, now: Time, at: u32, rule: Rule, out: &mut impl FnMut(P)) {
        if let Some(last) = self.waits.get(self.flows[at].last as usize) {
            self.give_up_to(now, at, last.seq, rule, out);
        }
    }

    /// Waits no more for any byte of a flow below `to`.
    fn give_up_to(&mut self, now: Time, at: u32, to: u64, rule: Rule, out: &mut impl FnMut(P)) {
        loop {
            self.run(now, at, out);
            let flow = &mut self.flows[at];
            if flow.expected >= to {
                return;
            }
            let next = self.waits.get(flow.first as usize);
            let until = next.map_or(to, |next| next.seq.min(to));
            if matches!(rule, Rule::Timeout) && next.is_some() {
                flow.gap = Gap { from: flow.expected, to: until, since: self.slots.arrived(flow.first) };
            }
            self.counters.gave_up(rule, until - flow.expected);
            flow.expected = until;
        }
    }

    /// Hands on what waits up to the next gap.
    #[inline]
    fn run(&mut self, now: Time, at: u32, out: &mut impl FnMut(P)) {
        while let Some(&Waiting { seq, end, after, .. }) = self.waits.get(self.flows[at].first as usize) {
            let flow = &mut self.flows[at];
            if seq > flow.expected {
                return;
            }
            flow.expected = flow.expected.max(end);
            let place = core::mem::replace(&mut flow.first, after);
            match self.waits.get_mut(after as usize) {
                Some(later) => later.before = NIL,
                None => flow.last = NIL,
            }
            let (packet, arrived) = self.slots.take(place);
            self.free.push(place);
            self.counters.released(now.since(arrived));
            out(packet);
        }
    }
}

impl<P> Reorder<P> for ByTcp<P> {
    /// `None` for what is not TCP, and for fragments.
    type Header = Option<Segment>;

    #[inline]
    fn offer(
        &mut self,
        now: Time,
        member: u8,
        header: Option<Segment>,
        packet: P,
        out: &mut impl FnMut(P),
    ) -> Option<P> {
        let member = usize::from(member);
        assert!(member < MEMBERS, "a bond has no member {member}");
        self.counters.offered += 1;
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.expire(now, out);
        }
        let Some(segment) = header else {
            out(packet);
            return None;
        };
        if segment.flags & (SYN | RST) != 0 {
            if segment.flags & RST != 0 {
                self.end(now, segment, out);
            } else {
                self.begin(now, segment, out);
            }
            out(packet);
            return None;
        }
        if segment.payload_len == 0 && segment.flags & FIN == 0 {
            out(packet);
            return None;
        }
        self.place(now, member, segment, packet, out);
        None
    }

    #[inline]
    fn deadline(&self) -> Option<Time> {
        self.slots.oldest().map(|(_, arrived)| arrived + self.timeout())
    }

    fn expire(&mut self, now: Time, out: &mut impl FnMut(P)) {
        while let Some((place, arrived)) = self.slots.oldest()
            && arrived + self.timeout() <= now
        {
            let Waiting { flow, seq, .. } = self.waits[place as usize];
            self.give_up_to(now, flow, seq, Rule::Timeout, out);
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl FnMut(P)) {
        while let Some((place, _)) = self.slots.oldest() {
            self.hand_on_all(now, self.waits[place as usize].flow, Rule::Reset, out);
        }
    }

    fn set_members(&mut self, now: Time, members: u32, out: &mut impl FnMut(P)) {
        self.members = members;
        for at in 0..self.config.flows {
            self.skip_overtaken(now, at, out);
        }
    }

    fn waiting(&self) -> u32 {
        self.slots.len()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<P> Rebase for ByTcp<P> {
    fn rebase(&mut self, by: Span) {
        let Self { config: _, members: _, flows, slots, waits: _, free: _, skew: _, counters: _ } = self;
        flows.rebase(by);
        slots.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reorder::ORIGIN;

    /// To come there from outside takes 2^36 segments.
    #[test]
    fn the_count_starts_anew_before_it_overflows() {
        let mut machine = ByTcp::new(TcpConfig::default()).unwrap();
        let mut left = Vec::new();
        for seq in [0, 10, 30, 50, 40] {
            let segment = Segment { flow: 1, seq, payload_len: 10, flags: 0, has_sack: false };
            machine.offer(Time::ZERO, 0, Some(segment), seq, &mut |seq| left.push(seq));
            if seq == 10 {
                let at = machine.flows.find(1).unwrap();
                machine.flows[at].expected = COUNT_MAX + 20;
            }
        }
        assert_eq!(left, [0, 10, 30, 40, 50]);
        let at = machine.flows.find(1).unwrap();
        assert_eq!(machine.flows[at].expected, ORIGIN + 60);
    }
}
