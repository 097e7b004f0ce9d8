//! Whose frames are read next where several ports have some: who has taken more of the worker's time than others has to wait for them.
//!
//! A host that sends as fast as it can, frames of which each costs much (first segments to a service, packets that are dropped), would have most of the time otherwise, and its neighbours
//! would get an answer after all of that. What is not read stays in its device's queue, which is full soon: who floods loses his own frames. It is what a scheduler of
//! processes does: time is counted for each, who was away does not get time for that, and who is last in this count is read first.
//!
//! Who sends mostly what goes nowhere (a flood of first segments that are answered with SYN cookies, what a firewall drops) has the time that nobody else wants: no neighbour whose frames wait, and no
//! program that shares the core with the worker, as the ends of an established connection do on a small machine.

use machine::{Span, Time};

/// So much time somebody may have had before others who have frames waiting. Below that it costs more to look anew than it helps.
const AHEAD: Span = Span::from_us(100);

/// Who has sent mostly what goes nowhere rests so many times as long as reading it took.
const RESTS: u64 = 15;

/// So many frames of one burst that go nowhere are a flood: fewer are somebody who asks whether an address is there, or whose first segment is answered with a cookie.
const FLOOD_MIN: u64 = 16;

/// The longest rest: one long burst is no reason to be forgotten.
const REST_MAX: Span = Span::from_us(10_000);

/// A look at a free core takes less: if the kernel has given the core to another thread meanwhile, it takes as long as that one runs.
const FREE_LOOK: Span = Span::from_us(10);

/// After so many looks in a row at a free core nobody else wants it: the kernel gives a thread that gives way its turn back at once if that one has had less than others.
const FREE_LOOKS: u32 = 32;

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
    /// Looks in a row at which only those had frames who rest, and nobody else wanted the core.
    free_looks: u32,
    /// When the last one of them was; `None`: there was none.
    rested_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    taken: Span,
    /// The last look at which there were frames.
    look: u64,
    /// It is read again then.
    rests_until: Time,
}

impl Turns {
    /// These hosts have frames now.
    #[inline]
    pub(super) fn look(&mut self, hosts: impl Iterator<Item = usize>, now: Time) {
        self.looks += 1;
        let mut least = None;
        for host in hosts {
            if host >= self.hosts.len() {
                self.hosts.resize(host + 1, Turn::default());
            }
            let turn = &mut self.hosts[host];
            if turn.rests_until > now {
                continue;
            }
            // Nobody saves time by having nothing to send.
            if turn.look + 1 < self.looks {
                turn.taken = turn.taken.max(self.least);
            }
            turn.look = self.looks;
            least = Some(least.map_or(turn.taken, |least: Span| least.min(turn.taken)));
        }
        self.least = self.least.max(least.unwrap_or_default());
    }

    /// Whether this host, which has frames, is to be read now. Of those who have frames and do not rest, one is always.
    #[inline]
    pub(super) fn is_next(&self, host: usize) -> bool {
        self.hosts[host].taken <= self.least + AHEAD
    }

    /// Whether a burst of so many frames, of which so many went nowhere, is one of a flood.
    #[inline]
    pub(super) const fn is_flood(stopped: u64, entered: u64) -> bool {
        stopped >= FLOOD_MIN && 2 * stopped > entered
    }

    /// Whether this host is to wait until nobody else wants the core.
    #[inline]
    pub(super) fn rests(&self, host: usize, now: Time) -> bool {
        self.hosts.get(host).is_some_and(|turn| turn.rests_until > now)
    }

    /// What was read of a host since then went mostly nowhere.
    #[cold]
    pub(super) fn rest(&mut self, host: usize, since: Time, now: Time) {
        let rest = Span::from_ns(now.since(since).as_ns().saturating_mul(RESTS)).min(REST_MAX);
        self.hosts[host].rests_until = now + rest;
    }

    /// Only those have frames who rest, and the core was offered to others since the last such look. If nobody wants it, they need not rest.
    #[cold]
    pub(super) fn look_at_resting(&mut self, now: Time) {
        let is_free = self.rested_at.replace(now).is_some_and(|before| now.since(before) < FREE_LOOK);
        self.free_looks = if is_free { self.free_looks + 1 } else { 0 };
        if self.free_looks >= FREE_LOOKS {
            self.end_rests();
        }
    }

    /// Whoever rests is read as all others are.
    fn end_rests(&mut self) {
        self.hosts.iter_mut().for_each(|turn| turn.rests_until = Time::ZERO);
        self.look_away();
    }

    /// Somebody is read: looks at those who rest begin anew.
    #[inline]
    pub(super) const fn look_away(&mut self) {
        (self.free_looks, self.rested_at) = (0, None);
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

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Who is read in so many looks, of hosts that always have frames and take so long each time.
    fn reads(turns: &mut Turns, looks: usize, costs: &[(usize, u64)], now: &mut Time) -> Vec<usize> {
        let mut counts = vec![0; costs.len()];
        for _ in 0..looks {
            turns.look(costs.iter().map(|(host, _)| *host), *now);
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
        turns.look([0, 1].into_iter(), Time::ZERO);
        turns.read(Some(0), Time::ZERO + Span::from_us(1_000_000));
        turns.read(None, Time::ZERO);
        turns.look([0, 1].into_iter(), Time::ZERO);
        assert!(turns.is_next(0) && turns.is_next(1));
    }

    #[test]
    fn a_few_frames_that_go_nowhere_are_no_flood() {
        assert!(Turns::is_flood(64, 64) && Turns::is_flood(16, 31));
        assert!(!Turns::is_flood(0, 0) && !Turns::is_flood(1, 1) && !Turns::is_flood(15, 15));
        assert!(!Turns::is_flood(32, 64), "as many are somebody's connection");
    }

    #[test]
    fn who_rests_is_away_until_its_time_has_come() {
        let mut turns = Turns::default();
        turns.look([0, 1].into_iter(), Time::ZERO);
        let (since, now) = (us(100), us(150));
        turns.rest(1, since, now);
        assert!(!turns.rests(0, now) && turns.rests(1, now));
        assert!(turns.rests(1, us(150 + 749)) && !turns.rests(1, us(150 + 750)));
        turns.rest(1, Time::ZERO, us(1_000_000));
        assert!(!turns.rests(1, us(1_010_000)), "nobody rests longer than that");
    }

    #[test]
    fn a_core_that_nobody_wants_ends_rests() {
        let mut turns = Turns::default();
        turns.look([0].into_iter(), Time::ZERO);
        turns.rest(0, Time::ZERO, us(600));
        // Others have it for a while now and then.
        for look in 0..200_u64 {
            turns.look_at_resting(us(600 + 2 * look + 100 * (look / 20)));
        }
        let now = us(2_100);
        assert!(turns.rests(0, now));
        for look in 0..=u64::from(FREE_LOOKS) {
            turns.look_at_resting(now + Span::from_us(2 * look));
        }
        assert!(!turns.rests(0, now));
        assert_eq!((turns.free_looks, turns.rested_at), (0, None));
    }
}
