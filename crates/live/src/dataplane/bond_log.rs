//! What ends of bonds tell in the log, and how much of it: a partner that lies, or whose greetings are forged, can have a bond change its
//! mind at each of its frames.

use bond::Event;
use bond::end::Output;
use machine::{Span, Time};
use topology::BondEndId;

use super::edge::Edge;
use super::flight::Due;

/// Lines of one end in a minute. A bond of eight members that comes up, or loses all of them and has them back, needs half of them.
const LINES_MAX: u32 = 60;
const MINUTE: Span = Span::from_secs(60);

/// The lines of one end in this minute, which begins with the first of them.
#[derive(Debug)]
pub struct Quota {
    until: Time,
    lines: u32,
    left_out: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { until: Time::ZERO, lines: 0, left_out: 0 }
    }
}

impl Quota {
    /// Whether one more line may be written at `now`; it is counted if not.
    pub fn take(&mut self, now: Time) -> bool {
        if now >= self.until && self.left_out == 0 {
            (self.until, self.lines) = (now + MINUTE, 0);
        }
        let may = self.lines < LINES_MAX;
        if may {
            self.lines += 1;
        } else {
            self.left_out += 1;
        }
        may
    }

    /// When it is to be told that lines were left out.
    pub const fn due(&self) -> Time {
        if self.left_out == 0 { Time::NEVER } else { self.until }
    }

    /// How many lines were left out in a minute that is over at `now`; they are told once.
    pub fn settle(&mut self, now: Time) -> Option<u64> {
        (now >= self.due()).then(|| std::mem::take(&mut self.left_out))
    }
}

impl Edge {
    fn bond_name(&self, index: BondEndId) -> String {
        let topology = &self.plan.fabric().topology;
        let end = &topology.bonds[index];
        format!("{} of {}", end.name, topology.nodes[end.node].name)
    }

    /// Writes into the log what an end of a bond has to tell.
    #[cold]
    pub(super) fn log_of_bond(&mut self, now: Time, index: BondEndId, output: &Output) {
        if let Output::Event(event @ Event::Remapped(_)) = output {
            // That is how load is followed, several times a second if the file wants it.
            return tracing::debug!("{}: {event:?}", self.bond_name(index));
        }
        self.log_what_was_left_out(now, index);
        let Some(quota) = &mut self.state.quotas[index] else { return };
        let due = quota.due();
        if !quota.take(now) {
            if due == Time::NEVER {
                self.state.flight.add_timer(quota.due().max(now), Due::Log(index));
            }
            return;
        }
        let name = self.bond_name(index);
        match output {
            Output::Event(event) => tracing::info!("{name}: {event:?}"),
            Output::Lacp(event) => tracing::info!("{name}: {event}"),
            Output::Peer(agreed) => tracing::info!("{name}: agreed with its peer: {agreed:?}"),
            Output::Send { .. } => {}
        }
    }

    /// Says what the log does not, once the minute is over.
    pub(super) fn log_what_was_left_out(&mut self, now: Time, index: BondEndId) {
        let Some(quota) = &mut self.state.quotas[index] else { return };
        if let Some(lines) = quota.settle(now) {
            tracing::warn!(
                "{}: {lines} more changes in a minute are not in this log: its partner changes its mind too often",
                self.bond_name(index)
            );
        }
    }

    /// Sees to it that it is told what the logs of another plan's workers left out.
    pub(super) fn start_logs(&mut self) {
        for (index, quota) in self.state.quotas.iter_enumerated() {
            let due = quota.as_ref().map_or(Time::NEVER, Quota::due);
            if due != Time::NEVER {
                self.state.flight.add_timer(due, Due::Log(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn no_minute_has_more_lines_than_allowed_and_each_of_the_others_is_told_of() {
        let mut quota = Quota::default();
        let (mut lines, mut told) = (0, 0);
        for second in 0..600 {
            told += quota.settle(at(second)).unwrap_or(0);
            for _ in 0..32 {
                lines += u64::from(quota.take(at(second)));
            }
        }
        assert_eq!(lines, 600);
        assert_eq!(quota.due(), at(600));
        told += quota.settle(at(600)).unwrap_or(0);
        assert_eq!(lines + told, 600 * 32);
        assert_eq!((quota.due(), quota.settle(at(700))), (Time::NEVER, None));
    }

    #[test]
    fn who_says_little_is_heard_in_full() {
        let mut quota = Quota::default();
        assert!((0..1_000).all(|nth| quota.take(at(nth * 2)) && quota.settle(at(nth * 2)).is_none()));
    }
}
