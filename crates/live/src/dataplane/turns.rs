//! Whose frames are read next where several ports have some: who has taken more of the worker's time than others has to wait for them.
//!
//! A host that sends as fast as it can, frames of which each costs much (first segments to a service, packets that are dropped), would have most of the time otherwise, and its neighbours
//! would get an answer after all of that. What is not read stays in its device's queue, which is full soon: who floods loses his own frames. It is what a scheduler of
//! processes does: time is counted for each, who was away does not get time for that, and who is last in this count is read first.

use machine::{Span, Time};

/// So much time somebody may have had before others who have frames waiting. Below that it costs more to look anew than it helps.
const AHEAD: Span = Span::from_us(100);

/// The time that each host's ports have taken.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By the host's number.
    hosts: Vec<Turn>,
    /// How often it was looked who has frames.
    looks: u64,
    /// Of those who had frames at the last look, what who had had the least had had; never less than before.
    least: Span,
    /// Who is read, since when.
    reading: Option<(usize, Time)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    taken: Span,
    /// The last look at which there were frames.
    look: u64,
}

impl Turns {
    /// These hosts have frames.
    #[inline]
    pub(super) fn look(&mut self, hosts: impl Iterator<Item = usize>) {
        self.looks += 1;
        let mut least = None;
        for host in hosts {
            if host >= self.hosts.len() {
                self.hosts.resize(host + 1, Turn::default());
            }
            let turn = &mut self.hosts[host];
            // Nobody saves time by having nothing to send.
            if turn.look + 1 < self.looks {
                turn.taken = turn.taken.max(self.least);
            }
            turn.look = self.looks;
            least = Some(least.map_or(turn.taken, |least: Span| least.min(turn.taken)));
        }
        self.least = self.least.max(least.unwrap_or_default());
    }

    /// Whether this host, which has frames, is to be read now. Of those who have frames, one is always.
    #[inline]
    pub(super) fn is_next(&self, host: usize) -> bool {
        self.hosts[host].taken <= self.least + AHEAD
    }

    /// A host is being read since then; `None`: nobody is.
    #[inline]
    pub(super) fn read(&mut self, host: Option<usize>, at: Time) {
        if let Some((before, since)) = self.reading.take() {
            self.hosts[before].taken = self.hosts[before].taken + at.since(since);
        }
        self.reading = host.map(|host| (host, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is read in so many looks, of hosts that always have frames and take so long each time.
    fn reads(turns: &mut Turns, looks: usize, costs: &[(usize, u64)], now: &mut Time) -> Vec<usize> {
        let mut counts = vec![0; costs.len()];
        for _ in 0..looks {
            turns.look(costs.iter().map(|(host, _)| *host));
            let before: usize = counts.iter().sum();
            for (count, (host, cost)) in counts.iter_mut().zip(costs) {
                if turns.is_next(*host) {
                    turns.read(Some(*host), *now);
                    *now += Span::from_us(*cost);
                    *count += 1;
                }
            }
            assert!(counts.iter().sum::<usize>() > before, "nobody was read");
            turns.read(None, *now);
        }
        counts
    }

    #[test]
    fn who_takes_long_is_read_as_much_less_often() {
        let (mut turns, mut now) = (Turns::default(), Time::ZERO);
        let counts = reads(&mut turns, 10_000, &[(0, 200), (7, 10)], &mut now);
        let times = [counts[0] * 200, counts[1] * 10];
        assert!(times[0].abs_diff(times[1]) <= 500, "{times:?}");
    }

    #[test]
    fn who_is_alone_is_always_read() {
        let (mut turns, mut now) = (Turns::default(), Time::ZERO);
        assert_eq!(reads(&mut turns, 100, &[(3, 500)], &mut now), [100]);
    }

    #[test]
    fn who_was_away_gets_no_time_for_that() {
        let (mut turns, mut now) = (Turns::default(), Time::ZERO);
        reads(&mut turns, 1_000, &[(0, 50), (1, 50)], &mut now);
        reads(&mut turns, 1_000, &[(0, 50)], &mut now);
        // Host 1 had half a second less than the other one, and is read as often as it from now on.
        let counts = reads(&mut turns, 1_000, &[(0, 50), (1, 50)], &mut now);
        assert!(counts[0].abs_diff(counts[1]) <= 5, "{counts:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_costs_nobody_anything() {
        let mut turns = Turns::default();
        turns.look([0, 1].into_iter());
        turns.read(Some(0), Time::ZERO + Span::from_us(1_000_000));
        turns.read(None, Time::ZERO);
        turns.look([0, 1].into_iter());
        assert!(turns.is_next(0) && turns.is_next(1));
    }
}
