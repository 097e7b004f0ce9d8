//! What an acknowledgement says has arrived: in order, beyond holes, and twice.

use machine::Time;

use super::arrivals::Arrivals;
use super::sender::Sender;
use super::stamp::Stamp;
use crate::Ack;

impl Sender {
    /// `tcp_sacktag_write_queue`.
    pub(super) fn note_blocks(&mut self, arrivals: &mut Arrivals, ack: &Ack) {
        let blocks = ack.blocks.as_slice();
        // Distances below the acknowledgement itself wrap.
        let segment = |offset: u32| ack.ack.wrapping_add_signed(i64::from(offset.cast_signed())) / self.segment_bytes;
        let ranges = |n: usize| blocks.get(n).map(|block| (segment(block.start), segment(block.end)));
        let duplicate = ranges(0).filter(|(start, end)| {
            start < end
                && (*start < arrivals.first || ranges(1).is_some_and(|within| *end <= within.1 && *start >= within.0))
        });
        let mut ranges = [ranges(0), ranges(1), ranges(2)];
        if let Some((start, end)) = duplicate {
            self.note_duplicate(arrivals, start, end);
            ranges[0] = None;
        }
        // As they lie, whatever the order in which they were said: what comes after a hole in the same acknowledgement was not overtaken.
        ranges.sort_unstable();
        for (start, end) in ranges.into_iter().flatten() {
            self.note_range(arrivals, start, end);
        }
        self.check_reordering(arrivals.late);
        arrivals.late = u64::MAX;
    }

    /// A block says what came twice (`tcp_check_dsack`, `tcp_dsack_seen`).
    fn note_duplicate(&mut self, arrivals: &mut Arrivals, start: u64, end: u64) {
        let segments = end - start;
        if segments > self.receive_window {
            return;
        }
        if segments == 1 && self.probe == Some(end) {
            arrivals.duplicate_is_probe = true;
        }
        self.duplicates += segments;
        if self.duplicates > self.counters.retransmits {
            // The network did it.
            return;
        }
        if self.reordering_seen && !arrivals.duplicate_is_probe {
            self.rack.duplicate_seen = true;
        }
        arrivals.duplicate = true;
        self.delivered = self.delivered.wrapping_add(segments as u32);
        if end <= arrivals.prior_first
            && let Some(undo) = &mut self.undo
            && end > undo.marker
        {
            undo.resent = undo.resent.map(|resent| resent.saturating_sub(segments as u32));
        }
        for segment in start.max(self.queue.first())..end.min(self.queue.next()) {
            self.note_segment_twice(arrivals, segment);
        }
    }

    fn note_segment_twice(&mut self, arrivals: &mut Arrivals, segment: u64) {
        if self.queue.get(segment).was_resent() {
            if let Some(undo) = &mut self.undo
                && segment >= undo.marker
            {
                undo.resent = undo.resent.map(|resent| resent.saturating_sub(1));
            }
            if self.queue.has_arrived(segment) {
                arrivals.late = arrivals.late.min(segment);
            }
        }
        if segment >= arrivals.first {
            if !self.queue.has_arrived(segment) {
                self.note_segment(arrivals, segment);
            }
            self.queue.arrive_twice(segment);
        }
    }

    fn note_range(&mut self, arrivals: &mut Arrivals, start: u64, end: u64) {
        let end = end.min(self.queue.next());
        let mut from = start.max(arrivals.first).max(self.queue.first());
        while from < end
            && let Some(segment) = self.queue.first_missing(from, end)
        {
            self.note_segment(arrivals, segment);
            from = segment + 1;
        }
    }

    /// A segment beyond the acknowledgement is known to have arrived (`tcp_sacktag_one`).
    fn note_segment(&mut self, arrivals: &mut Arrivals, segment: u64) {
        let sent = *self.queue.get(segment);
        if let Some(model) = &mut self.model {
            model.rate.on_delivered(segment, &sent);
        }
        self.rack.advance(arrivals.now, segment, &sent, self.rtt.shortest());
        arrivals.note_latest(segment, &sent);
        if !sent.was_resent() {
            if segment < self.queue.highest() {
                arrivals.late = arrivals.late.min(segment);
            }
            arrivals.original |= segment < self.high;
            arrivals.first_selected.get_or_insert(sent.at);
            arrivals.last_selected = Some(sent.at);
        }
        self.queue.arrive(segment);
        arrivals.selected = true;
        self.delivered = self.delivered.wrapping_add(1);
    }

    /// A segment came later than ones that were sent after it, without having been sent again (`tcp_check_sack_reordering`).
    pub(super) fn check_reordering(&mut self, late: u64) {
        let highest = self.queue.highest();
        if late >= highest {
            return;
        }
        let distance = u32::try_from(highest - late).unwrap_or(u32::MAX);
        self.reordering = self.reordering.max(distance.min(self.settings.max_reordering));
        self.reordering_seen = true;
    }

    /// What is acknowledged leaves the queue (`tcp_clean_rtx_queue`).
    pub(super) fn note_acknowledged(&mut self, arrivals: &mut Arrivals) {
        let now = arrivals.now;
        let (mut oldest, mut newest) = (None, None);
        let mut late = u64::MAX;
        while self.queue.first() < arrivals.first {
            let segment = self.queue.first();
            let (sent, had_arrived) = self.queue.pop();
            if let Some(model) = &mut self.model {
                model.rate.on_delivered(segment, &sent);
            }
            if sent.was_resent() {
                arrivals.resent = true;
            } else if !had_arrived {
                oldest.get_or_insert(sent.at);
                newest = Some(sent.at);
                late = late.min(segment);
                arrivals.original |= segment < self.high;
            }
            if had_arrived {
                continue;
            }
            self.delivered = self.delivered.wrapping_add(1);
            arrivals.note_latest(segment, &sent);
            // Where the echo is older than the last copy, an earlier one has arrived.
            if !sent.was_resent() || arrivals.echo >= Stamp::of(sent.at) {
                self.rack.advance(now, segment, &sent, self.rtt.shortest());
            }
        }
        let (oldest, newest) = if arrivals.resent { (None, None) } else { (oldest, newest) };
        let rtt = self.measure_rtt(arrivals, oldest, newest);
        if arrivals.advanced {
            arrivals.set_timer = true;
            // A hole was filled that nothing was sent again for.
            if late < arrivals.prior_highest {
                self.check_reordering(late);
            }
        } else if let Some(selected) = arrivals.first_selected
            && rtt
            && self.queue.len() > 0
            && now.since(selected) > now.since(self.queue.get(self.queue.first()).at)
        {
            // The timeout is not put off by what was sent before the first segment was sent last.
            arrivals.set_timer = true;
        }
    }

    /// `tcp_ack_update_rtt`. Whether there was a round trip to measure.
    fn measure_rtt(&mut self, arrivals: &Arrivals, oldest: Option<Time>, newest: Option<Time>) -> bool {
        let now = arrivals.now;
        let since = |sent: Option<Time>| sent.map(|at| now.since(at));
        let window_rtt = since(arrivals.last_selected.or(newest));
        let by_stamp = || arrivals.advanced.then(|| Stamp::of(now).since(arrivals.echo));
        let rtt = since(oldest).or_else(|| since(arrivals.first_selected)).or_else(by_stamp);
        let window_rtt = window_rtt.or_else(|| if oldest.is_none() { rtt } else { None });
        if let Some(shortest) = window_rtt {
            self.rtt.note_shortest(shortest);
        }
        let Some(rtt) = rtt else { return false };
        self.rtt.sample(rtt, self.queue.first(), self.queue.next());
        if let Some(rtt) = since(arrivals.last_selected.or(newest)) {
            self.window.sample(now, rtt, self.queue.first(), self.queue.next());
            if let Some(model) = &mut self.model {
                model.note_rtt(rtt);
            }
        }
        true
    }
}
