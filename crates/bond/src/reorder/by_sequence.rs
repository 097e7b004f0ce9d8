//! In order by the bond's own numbers: the peer is internal and counts what it sends over all members.

use core::cmp::Ordering;

use machine::{Rebase, Span, Time};

use super::seen::Seen;
use super::slots::Slots;
use super::{Config, Counters, Error, MEMBERS, ORIGIN, Reorder, Rule, extend, overtaken_below};

/// So many frames in turn from far behind mean that the peer counts anew without a new epoch.
const RESTART_AFTER: u32 = 32;
/// Where the count starts anew, so that a peer who leaps by 2^31 with each frame does not make it overflow.
const COUNT_MAX: u64 = 1 << 62;

/// What the peer wrote on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Another one whenever the peer starts to count anew.
    pub epoch: u16,
    /// One more for each frame that the peer sends over any member, 0 for the first one of an epoch; wraps (RFC 1982).
    pub number: u32,
}

/// Puts numbered frames back in order.
///
/// ```text
///        next - buffer          next                    next + buffer
///   stale     |  handed on,       |  waits, or is missing     |   too far: the
///   (handed   |  or given up and  |  X . . X X . X            |   first gaps are
///   on)       |  may come late    |  ^ gap                    |   given up
/// ```
///
/// Invariants: a number within the two windows has its bit in `seen` if and only if it came; a number at or above `next`
/// with its bit set waits at place `number % buffer`; `next` itself is missing.
#[derive(Clone, Debug)]
pub struct BySequence<P> {
    config: Config,
    members: u32,
    epoch: Option<u16>,
    /// The epoch before: members that have not turned to the present one may still bring its frames.
    epoch_before: Option<u16>,
    /// What is waited for.
    next: u64,
    /// The highest number that came.
    top: u64,
    /// The highest number of this epoch that each member has brought; 0 for none.
    newest: [u64; MEMBERS],
    seen: Seen,
    slots: Slots<P>,
    /// Frames in turn from below both windows.
    stale: u32,
    counters: Counters,
}

impl<P> BySequence<P> {
    /// One that has seen nothing yet; this is its only allocation.
    ///
    /// # Errors
    /// If the configuration is out of its bounds.
    pub fn new(config: Config) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            config,
            members: 0,
            epoch: None,
            epoch_before: None,
            next: ORIGIN,
            top: ORIGIN - 1,
            newest: [0; MEMBERS],
            seen: Seen::new(u64::from(config.buffer) * 2),
            slots: Slots::new(config.buffer),
            stale: 0,
            counters: Counters::default(),
        })
    }

    /// How much may wait, and how long.
    pub const fn config(&self) -> Config {
        self.config
    }

    const fn window(&self) -> u64 {
        self.config.buffer as u64
    }

    const fn place(&self, number: u64) -> u32 {
        number as u32 & (self.config.buffer - 1)
    }

    /// A frame that is not simply the next one.
    fn sort_in(&mut self, now: Time, member: usize, mut number: u64, packet: P, out: &mut impl FnMut(P)) -> Option<P> {
        if number >= COUNT_MAX {
            self.start(now, number as u32, out);
            number = self.next;
        }
        if number + self.window() < self.next {
            self.hand_on_stale(now, member, number, packet, out);
            return None;
        }
        self.stale = 0;
        if number >= self.next + self.window() {
            self.give_up_to(now, number + 1 - self.window(), Rule::Full, out);
        }
        self.newest[member] = self.newest[member].max(number);
        let mut copy = None;
        if self.seen.insert(number) {
            self.counters.repaired += u64::from(number < self.top && number >= self.next);
            self.top = self.top.max(number);
            match number.cmp(&self.next) {
                Ordering::Less => {
                    self.counters.late += 1;
                    out(packet);
                }
                Ordering::Equal => {
                    self.step_to(number + 1);
                    out(packet);
                    self.run(now, out);
                }
                Ordering::Greater => {
                    self.slots.put(self.place(number), now, packet);
                    self.counters.holds_one_more(self.slots.len());
                }
            }
        } else {
            self.counters.duplicates += 1;
            copy = Some(packet);
        }
        self.skip_overtaken(now, out);
        copy
    }

    /// Whether a frame from so far behind is a copy is not known any more, but losing it would be worse. If they come in a row,
    /// the peer counts anew.
    #[cold]
    fn hand_on_stale(&mut self, now: Time, member: usize, number: u64, packet: P, out: &mut impl FnMut(P)) {
        self.counters.late += 1;
        self.stale += 1;
        if self.stale >= RESTART_AFTER {
            self.counters.restarts += 1;
            self.start(now, number as u32, out);
            self.seen.insert(self.next);
            self.top = self.next;
            self.newest[member] = self.next;
            self.step_to(self.next + 1);
        }
        out(packet);
    }

    /// A frame of another epoch; true if it is one of the epoch before that was overtaken by the present one.
    #[cold]
    fn turn(&mut self, now: Time, member: usize, header: Numbered, out: &mut impl FnMut(P)) -> bool {
        // Members are first in, first out: one that has brought the present epoch brings the one before no more.
        if self.epoch_before == Some(header.epoch) && self.newest[member] == 0 {
            return true;
        }
        self.epoch_before = self.epoch.replace(header.epoch);
        // Close to the epoch's start, what came before is still on its way; else we came later than the peer.
        let first = if header.number < self.config.buffer { 0 } else { header.number };
        self.start(now, first, out);
        false
    }

    /// Counts from `number` on.
    fn start(&mut self, now: Time, number: u32, out: &mut impl FnMut(P)) {
        self.flush(now, out);
        self.next = ORIGIN + u64::from(number);
        self.top = self.next - 1;
        self.newest = [0; MEMBERS];
        self.seen.clear();
        self.stale = 0;
    }

    /// Links keep order, so what every member in use has passed is lost (RFC 1990, section 4.1).
    fn skip_overtaken(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if self.slots.is_empty() {
            return;
        }
        if let Some(below) = overtaken_below(&self.newest, self.members)
            && below > self.next
        {
            self.give_up_to(now, below, Rule::Overtaken, out);
        }
    }

    /// Waits no more for anything below `to`.
    fn give_up_to(&mut self, now: Time, to: u64, rule: Rule, out: &mut impl FnMut(P)) {
        while self.next < to {
            let limit = to.min(self.next + self.window());
            let waits = if self.slots.is_empty() { None } else { self.seen.first(self.next, limit) };
            let until = waits.unwrap_or(to);
            if until > self.next {
                self.counters.gave_up(rule, until - self.next);
                self.step_to(until);
            }
            if waits.is_some() {
                self.hand_on_next(now, out);
            }
        }
        self.run(now, out);
    }

    /// Hands on what waits up to the next gap.
    fn run(&mut self, now: Time, out: &mut impl FnMut(P)) {
        while !self.slots.is_empty() && self.seen.contains(self.next) {
            self.hand_on_next(now, out);
        }
    }

    fn hand_on_next(&mut self, now: Time, out: &mut impl FnMut(P)) {
        let (packet, arrived) = self.slots.take(self.place(self.next));
        self.step_to(self.next + 1);
        self.counters.released(now.since(arrived));
        out(packet);
    }

    /// Moves the windows on. Numbers that enter have not come.
    #[inline]
    fn step_to(&mut self, to: u64) {
        let enters = self.next + self.window();
        if to == self.next + 1 {
            self.seen.remove(enters);
        } else {
            self.seen.remove_range(enters, to + self.window());
        }
        self.next = to;
    }
}

impl<P> Reorder<P> for BySequence<P> {
    type Header = Numbered;

    #[inline]
    fn offer(&mut self, now: Time, member: u8, header: Numbered, packet: P, out: &mut impl FnMut(P)) -> Option<P> {
        let member = usize::from(member);
        assert!(member < MEMBERS, "a bond has no member {member}");
        self.counters.offered += 1;
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.expire(now, out);
        }
        if self.epoch != Some(header.epoch) && self.turn(now, member, header, out) {
            self.counters.late += 1;
            out(packet);
            return None;
        }
        let number = extend(self.next, header.number);
        if number != self.next || !self.slots.is_empty() {
            return self.sort_in(now, member, number, packet, out);
        }
        self.seen.insert(number);
        self.step_to(number + 1);
        self.newest[member] = number;
        self.top = number;
        self.stale = 0;
        out(packet);
        None
    }

    #[inline]
    fn deadline(&self) -> Option<Time> {
        self.slots.oldest().map(|(_, arrived)| arrived + self.config.timeout)
    }

    fn expire(&mut self, now: Time, out: &mut impl FnMut(P)) {
        while let Some((place, arrived)) = self.slots.oldest()
            && arrived + self.config.timeout <= now
        {
            // What waits lies within one window of `next`, so its slot gives its number.
            let ahead = place.wrapping_sub(self.next as u32) & (self.config.buffer - 1);
            self.give_up_to(now, self.next + u64::from(ahead), Rule::Timeout, out);
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if !self.slots.is_empty() {
            self.give_up_to(now, self.top + 1, Rule::Reset, out);
        }
    }

    fn set_members(&mut self, now: Time, members: u32, out: &mut impl FnMut(P)) {
        self.members = members;
        self.skip_overtaken(now, out);
    }

    fn waiting(&self) -> u32 {
        self.slots.len()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<P> Rebase for BySequence<P> {
    fn rebase(&mut self, by: Span) {
        let Self {
            config: _,
            members: _,
            epoch: _,
            epoch_before: _,
            next: _,
            top: _,
            newest: _,
            seen: _,
            slots,
            stale: _,
            counters: _,
        } = self;
        slots.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To come there from outside takes 2^31 frames.
    #[test]
    fn the_count_starts_anew_before_it_overflows() {
        let mut machine = BySequence::new(Config::default()).unwrap();
        (machine.epoch, machine.next, machine.top) = (Some(1), COUNT_MAX - 1, COUNT_MAX - 2);
        let mut left = Vec::new();
        for number in [0, u32::MAX, 2, 1] {
            machine.offer(Time::ZERO, 0, Numbered { epoch: 1, number }, number, &mut |number| left.push(number));
        }
        assert_eq!(left, [0, u32::MAX, 1, 2]);
        assert!(machine.next < ORIGIN * 2);
    }
}
