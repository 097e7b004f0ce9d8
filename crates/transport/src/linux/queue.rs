//! What has been sent and is not acknowledged: the retransmission queue, and the order in which its segments were last sent.

use machine::Time;

use crate::bitmap::Bitmap;

/// No segment.
const NIL: u32 = u32::MAX;
/// Segments that have a place from the beginning; more get one when they are needed.
const PLACES: u32 = 64;

const LOST: u8 = 1;
const RESENT: u8 = 2;
const EVER_RESENT: u8 = 4;
const LINKED: u8 = 8;
const LAST_OF_BURST: u8 = 16;

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// When it was sent last.
    pub at: Time,
    /// How many segments had been delivered by then.
    pub delivered: u32,
    flags: u8,
    // Neighbours in the order of sending.
    older: u32,
    newer: u32,
}

impl Sent {
    const UNUSED: Self = Self { at: Time::ZERO, delivered: 0, flags: 0, older: NIL, newer: NIL };

    /// It is taken for lost.
    pub const fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }

    /// It was sent again, and that has not been taken for lost.
    pub const fn is_resent(&self) -> bool {
        self.flags & RESENT != 0
    }

    /// It was sent more than once.
    pub const fn was_resent(&self) -> bool {
        self.flags & EVER_RESENT != 0
    }
}

/// The segments from the first that is not acknowledged to the last that was sent, by their numbers in the stream.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    places: Box<[Sent]>,
    /// The first segment that is not acknowledged (`snd_una`).
    first: u64,
    /// Behind the last that was sent (`snd_nxt`).
    next: u64,
    /// Which have arrived, counted from `first`.
    arrived: Bitmap,
    /// Behind the highest that has arrived.
    top: u64,
    /// No segment below is lost and waits to be sent again.
    hint: u64,
    oldest: u32,
    newest: u32,
    lost: u32,
    resent: u32,
}

impl Queue {
    pub fn new() -> Self {
        Self {
            places: vec![Sent::UNUSED; PLACES as usize].into(),
            first: 0,
            next: 0,
            arrived: Bitmap::new(PLACES),
            top: 0,
            hint: 0,
            oldest: NIL,
            newest: NIL,
            lost: 0,
            resent: 0,
        }
    }

    pub const fn first(&self) -> u64 {
        self.first
    }

    pub const fn next(&self) -> u64 {
        self.next
    }

    /// `packets_out`.
    pub const fn len(&self) -> u32 {
        (self.next - self.first) as u32
    }

    /// `sacked_out`.
    pub const fn arrived(&self) -> u32 {
        self.arrived.ones() as u32
    }

    /// `lost_out`.
    pub const fn lost(&self) -> u32 {
        self.lost
    }

    /// `retrans_out`.
    pub const fn resent(&self) -> u32 {
        self.resent
    }

    /// Segments in the network (`tcp_packets_in_flight`).
    pub const fn in_flight(&self) -> u32 {
        self.len() + self.resent - self.arrived() - self.lost
    }

    /// `tcp_highest_sack_seq`.
    pub const fn highest(&self) -> u64 {
        if self.arrived.ones() == 0 || self.top < self.first { self.first } else { self.top }
    }

    const fn place(&self, segment: u64) -> u32 {
        (segment & (self.places.len() as u64 - 1)) as u32
    }

    fn segment_at(&self, place: u32) -> u64 {
        let ahead = u64::from(place.wrapping_sub(self.place(self.first))) & (self.places.len() as u64 - 1);
        self.first + ahead
    }

    pub fn get(&self, segment: u64) -> &Sent {
        &self.places[self.place(segment) as usize]
    }

    pub fn has_arrived(&self, segment: u64) -> bool {
        self.arrived.get(segment - self.first)
    }

    /// The first of `from..to` that is not known to have arrived.
    pub fn first_missing(&self, from: u64, to: u64) -> Option<u64> {
        self.arrived.first_clear(from - self.first, to - self.first).map(|distance| self.first + distance)
    }

    /// A new segment is sent; its number.
    pub fn push(&mut self, now: Time, delivered: u32) -> u64 {
        if self.len() as usize == self.places.len() {
            self.grow();
        }
        let segment = self.next;
        self.next += 1;
        let place = self.place(segment);
        self.places[place as usize] = Sent { at: now, delivered, ..Sent::UNUSED };
        self.link_newest(place);
        segment
    }

    #[cold]
    fn grow(&mut self) {
        let mut order = Vec::with_capacity(self.places.len());
        let mut at = self.oldest;
        while at != NIL {
            order.push(self.segment_at(at));
            at = self.places[at as usize].newer;
        }
        let old = core::mem::take(&mut self.places);
        let old_mask = old.len() as u64 - 1;
        self.places = vec![Sent::UNUSED; old.len() * 2].into();
        let mut arrived = Bitmap::new(old.len() as u32 * 2);
        for segment in self.first..self.next {
            let sent = Sent { older: NIL, newer: NIL, ..old[(segment & old_mask) as usize] };
            let place = self.place(segment);
            self.places[place as usize] = sent;
            if self.arrived.get(segment - self.first) {
                arrived.set(segment - self.first);
            }
        }
        self.arrived = arrived;
        (self.oldest, self.newest) = (NIL, NIL);
        for segment in order {
            self.link_newest(self.place(segment));
        }
    }

    /// It is sent again.
    pub fn resend(&mut self, segment: u64, now: Time, delivered: u32) {
        self.probe(segment, now, delivered);
        let place = self.place(segment) as usize;
        self.resent += u32::from(!self.places[place].is_resent());
        self.places[place].flags |= RESENT;
    }

    /// It is sent again as a probe, which counts as under way no more than it did.
    pub fn probe(&mut self, segment: u64, now: Time, delivered: u32) {
        let place = self.place(segment);
        self.unlink(place);
        self.link_newest(place);
        let sent = &mut self.places[place as usize];
        (sent.at, sent.delivered) = (now, delivered);
        sent.flags |= EVER_RESENT;
    }

    /// The first segment is acknowledged, and leaves. Whether it was known to have arrived.
    pub fn pop(&mut self) -> (Sent, bool) {
        let place = self.place(self.first);
        let arrived = self.arrived.get(0);
        self.unlink(place);
        let sent = self.places[place as usize];
        self.lost -= u32::from(sent.is_lost());
        self.resent -= u32::from(sent.is_resent());
        self.arrived.advance(1);
        self.first += 1;
        self.hint = self.hint.max(self.first);
        (sent, arrived)
    }

    /// It is known to have arrived. A retransmission of it is taken to be under way still, unless it was taken for lost before.
    pub fn arrive(&mut self, segment: u64) {
        let place = self.place(segment);
        self.unlink(place);
        let sent = &mut self.places[place as usize];
        if sent.is_lost() {
            self.lost -= 1;
            self.resent -= u32::from(sent.is_resent());
            sent.flags &= !(LOST | RESENT);
        }
        self.arrived.set(segment - self.first);
        self.top = self.top.max(segment + 1);
    }

    /// Its retransmission is known to have arrived as well.
    pub fn arrive_twice(&mut self, segment: u64) {
        let place = self.place(segment) as usize;
        self.resent -= u32::from(self.places[place].is_resent());
        self.places[place].flags &= !RESENT;
    }

    /// It is taken for lost, or its retransmission is (`tcp_mark_skb_lost`). How many segments more are lost by that: 0 or 1.
    pub fn mark_lost(&mut self, segment: u64) -> u32 {
        if self.has_arrived(segment) {
            return 0;
        }
        let place = self.place(segment);
        let sent = &mut self.places[place as usize];
        let news = if sent.is_lost() {
            let resent = u32::from(sent.is_resent());
            self.resent -= resent;
            sent.flags &= !RESENT;
            resent
        } else {
            self.lost += 1;
            sent.flags |= LOST;
            1
        };
        self.hint = self.hint.min(segment);
        news
    }

    /// Nobody looks at it in the order of sending any more, until it is sent again.
    pub fn leave_order(&mut self, segment: u64) {
        self.unlink(self.place(segment));
    }

    /// Nothing is taken for lost any more.
    pub fn unmark_lost(&mut self) {
        for segment in self.first..self.next {
            let place = self.place(segment) as usize;
            self.places[place].flags &= !LOST;
        }
        self.lost = 0;
    }

    /// A burst ends with it, of those that are sent again as well.
    pub fn end_burst(&mut self, segment: u64) {
        self.places[self.place(segment) as usize].flags |= LAST_OF_BURST;
    }

    /// How many are to be sent again together from this one on, at most `most`: what was sent so, and is lost.
    pub fn burst_to_resend(&mut self, segment: u64, most: u32) -> u32 {
        let end = self.next.min(segment + u64::from(most.max(1)));
        let mut last = segment;
        while !self.is_last_of_burst(last) && last + 1 < end && self.waits(last + 1) {
            last += 1;
        }
        self.end_burst(last);
        (last + 1 - segment) as u32
    }

    fn is_last_of_burst(&self, segment: u64) -> bool {
        self.get(segment).flags & LAST_OF_BURST != 0
    }

    /// It is lost and was not sent again.
    fn waits(&self, segment: u64) -> bool {
        let sent = self.get(segment);
        sent.is_lost() && !sent.is_resent() && !self.has_arrived(segment)
    }

    /// The first segment that is lost and not sent again.
    pub fn first_to_resend(&mut self) -> Option<u64> {
        if self.resent >= self.lost {
            return None;
        }
        let found = (self.hint..self.next).find(|segment| self.waits(*segment));
        self.hint = found.unwrap_or(self.next);
        found
    }

    /// The segment that was sent longest ago, of those that are not known to have arrived and have not left the order.
    pub fn oldest(&self) -> Option<u64> {
        (self.oldest != NIL).then(|| self.segment_at(self.oldest))
    }

    /// The one that was sent after it.
    pub fn newer_than(&self, segment: u64) -> Option<u64> {
        let newer = self.get(segment).newer;
        (newer != NIL).then(|| self.segment_at(newer))
    }

    fn link_newest(&mut self, place: u32) {
        let sent = &mut self.places[place as usize];
        (sent.older, sent.newer) = (self.newest, NIL);
        sent.flags |= LINKED;
        match self.places.get_mut(self.newest as usize) {
            Some(older) => older.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Sent { older, newer, flags, .. } = self.places[place as usize];
        if flags & LINKED == 0 {
            return;
        }
        self.places[place as usize].flags &= !LINKED;
        match self.places.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &Queue) -> Vec<u64> {
        std::iter::successors(queue.oldest(), |segment| queue.newer_than(*segment)).collect()
    }

    #[test]
    fn counts_and_order_follow_what_happens() {
        let mut queue = Queue::new();
        for n in 0..6 {
            assert_eq!(queue.push(Time::from_ns(n), 0), n);
        }
        queue.arrive(3);
        assert_eq!([queue.mark_lost(0), queue.mark_lost(3), queue.mark_lost(0)], [1, 0, 0]);
        assert_eq!((queue.in_flight(), queue.arrived(), queue.lost(), queue.highest()), (4, 1, 1, 4));
        assert_eq!(order(&queue), [0, 1, 2, 4, 5]);
        queue.leave_order(0);
        assert_eq!(order(&queue), [1, 2, 4, 5]);
        assert_eq!(queue.first_to_resend(), Some(0));
        queue.resend(0, Time::from_ns(9), 0);
        assert_eq!((queue.in_flight(), queue.first_to_resend()), (5, None));
        assert_eq!(order(&queue), [1, 2, 4, 5, 0]);
        assert_eq!(queue.mark_lost(0), 1, "a retransmission is lost");
        assert_eq!((queue.resent(), queue.first_to_resend()), (0, Some(0)));
        queue.arrive(0);
        assert_eq!((queue.lost(), queue.arrived(), queue.in_flight()), (0, 2, 4));
        assert!(queue.pop().1);
        assert!(!queue.pop().1);
        assert_eq!((queue.first(), queue.len(), queue.arrived()), (2, 4, 1));
    }

    #[test]
    fn it_grows_and_keeps_what_it_has() {
        let mut queue = Queue::new();
        for n in 0..50 {
            queue.push(Time::from_ns(n), 0);
        }
        (0..40).for_each(|_| _ = queue.pop());
        for n in 50..100 {
            queue.push(Time::from_ns(n), 0);
        }
        queue.arrive(60);
        queue.mark_lost(41);
        queue.resend(41, Time::from_ns(100), 0);
        for n in 100..300 {
            queue.push(Time::from_ns(n + 1), 0);
        }
        let expected: Vec<u64> = (40..100).filter(|n| ![41, 60].contains(n)).chain([41]).chain(100..300).collect();
        assert_eq!(order(&queue), expected);
        assert_eq!((queue.len(), queue.arrived(), queue.lost(), queue.resent()), (260, 1, 1, 1));
        assert!(queue.has_arrived(60) && queue.get(41).was_resent());
        assert_eq!(queue.get(299).at, Time::from_ns(300));
    }
}
