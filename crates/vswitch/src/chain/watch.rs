//! Whether a function does what it is for, by what is handed to it and what it gives back.
//!
//! ```text
//!            handed a packet          nothing for `timeout`: probe        nothing for as long again
//!   idle ---------------------> waits -----------------------------> asked -------------------------> down
//!    ^                            |                                     |                              |  every `PROBE_EVERY`: probe,
//!    +----------------------------+-------------------------------------+------------------------------+  and now and then a packet may try
//!                                   gives anything back, by either port
//! ```
//!
//! Whoever asks late has not looked at what came back either: the machine was busy with something else, and so was the function, maybe. It is probed once more then.
//!
//! A function that drops all that it gets, probes among it, looks down. So packets may try now and then while it is down: the first one that it lets pass ends that.

use machine::{Rebase, Span, Time};

/// How often a function that is down is probed.
const PROBE_EVERY: Span = Span::from_ms(10);

/// A packet may try at each of so many probes.
const TRIED: u32 = 10;

/// How often in a row one that has not been asked in time gets another chance.
const CHANCES: u8 = 5;

/// The watch over one instance of a function.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    timeout: Span,
    state: State,
    /// Whether each of its ports has a carrier.
    has_carrier: [bool; 2],
    /// Whether a packet may try a function that is down.
    may_try: bool,
    /// How many more chances it gets.
    chances: u8,
    /// How often it was probed since it went down.
    probes: u32,
    failures: u64,
    /// When it last went down, and whether that is known by now.
    down_since: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has given back something since it was handed anything.
    Idle,
    /// It was handed something then, and has given nothing back since.
    Waits(Time),
    /// It was probed then.
    Asked(Time),
    /// It is probed again then.
    Down(Time),
}

/// What a watch wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStep {
    /// The function is to be probed.
    Probe,
    /// It has just gone down, and is to be probed.
    Down,
    /// Nothing before this time.
    Wait(Time),
}

impl Watch {
    /// Over an instance that is up. `timeout` as in [`Function`](super::Function).
    pub const fn new(timeout: Span) -> Self {
        Self {
            timeout,
            state: State::Idle,
            has_carrier: [true; 2],
            may_try: false,
            chances: CHANCES,
            probes: 0,
            failures: 0,
            down_since: None,
        }
    }

    /// Whether packets may go there.
    #[inline]
    pub const fn is_up(&self) -> bool {
        !matches!(self.state, State::Down(_)) && self.has_carrier[0] && self.has_carrier[1]
    }

    /// Whether it is a packet's turn to try whether it is still down.
    pub fn tries(&mut self) -> bool {
        let is_silent = matches!(self.state, State::Down(_)) && self.has_carrier == [true; 2];
        is_silent && std::mem::take(&mut self.may_try)
    }

    /// It was handed a packet. When the watch is to be asked, if it has not been told so before.
    #[inline]
    pub fn handed(&mut self, now: Time) -> Option<Time> {
        if self.state != State::Idle {
            return None;
        }
        (self.state, self.chances) = (State::Waits(now), CHANCES);
        Some(now + self.timeout)
    }

    /// It has given back a packet, or a probe. Whether it was down.
    #[inline]
    pub const fn returned(&mut self) -> bool {
        let was_down = matches!(self.state, State::Down(_));
        self.state = State::Idle;
        if was_down {
            self.down_since = None;
        }
        was_down
    }

    /// One of its ports has lost its carrier, or has it back. Whether that takes it down.
    pub fn set_carrier(&mut self, now: Time, egress: bool, up: bool) -> bool {
        let was_up = self.is_up();
        self.has_carrier[usize::from(egress)] = up;
        if self.has_carrier == [true; 2] && !was_up {
            // Whoever is there now is another one, or another run.
            self.state = State::Idle;
            self.down_since = None;
        }
        let goes_down = was_up && !self.is_up();
        if goes_down {
            self.failures += 1;
            self.down_since = Some(now);
        }
        goes_down
    }

    /// What is to be done now. To be asked until it wants to wait.
    pub fn poll(&mut self, now: Time) -> WatchStep {
        match self.state {
            State::Idle => WatchStep::Wait(Time::NEVER),
            _ if self.has_carrier != [true; 2] => WatchStep::Wait(Time::NEVER),
            State::Waits(since) if now >= since + self.timeout => {
                self.state = State::Asked(now);
                WatchStep::Probe
            }
            State::Asked(since) if now > since + self.timeout + self.timeout / 4 && self.chances > 0 => {
                (self.state, self.chances) = (State::Asked(now), self.chances - 1);
                WatchStep::Probe
            }
            State::Asked(since) if now >= since + self.timeout => {
                self.state = State::Down(now + PROBE_EVERY);
                self.failures += 1;
                self.down_since = Some(now);
                self.probes = 0;
                WatchStep::Down
            }
            State::Down(at) if now >= at => {
                self.state = State::Down(now + PROBE_EVERY);
                self.probes = self.probes.wrapping_add(1);
                self.may_try |= self.probes.is_multiple_of(TRIED);
                WatchStep::Probe
            }
            State::Waits(since) | State::Asked(since) => WatchStep::Wait(since + self.timeout),
            State::Down(at) => WatchStep::Wait(at),
        }
    }

    /// How often it has gone down.
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// Since when it is down.
    pub const fn down_since(&self) -> Option<Time> {
        self.down_since
    }
}

impl Rebase for Watch {
    fn rebase(&mut self, by: Span) {
        let Self { timeout: _, state, has_carrier: _, may_try: _, chances: _, probes: _, failures: _, down_since } =
            self;
        if let State::Waits(at) | State::Asked(at) | State::Down(at) = state {
            at.rebase(by);
        }
        if let Some(at) = down_since {
            at.rebase(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Span = Span::from_ms(20);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn whoever_asks_late_probes_once_more() {
        let mut watch = Watch::new(TIMEOUT);
        watch.handed(at(0));
        assert_eq!(watch.poll(at(90)), WatchStep::Probe);
        assert_eq!(watch.poll(at(130)), WatchStep::Probe, "nobody has looked for 40 ms");
        assert_eq!(watch.poll(at(130)), WatchStep::Wait(at(150)));
        assert_eq!(watch.poll(at(150)), WatchStep::Down);
        // But not for ever.
        watch.returned();
        watch.handed(at(200));
        let late = (0..10).find(|n| watch.poll(at(300 + 100 * n)) == WatchStep::Down);
        assert_eq!(late, Some(u64::from(CHANCES) + 1));
    }

    #[test]
    fn silence_is_probed_and_then_a_failure() {
        let mut watch = Watch::new(TIMEOUT);
        assert_eq!(watch.poll(at(0)), WatchStep::Wait(Time::NEVER));
        assert_eq!((watch.handed(at(5)), watch.handed(at(6))), (Some(at(25)), None));
        assert_eq!(watch.poll(at(24)), WatchStep::Wait(at(25)));
        assert_eq!(watch.poll(at(25)), WatchStep::Probe);
        assert_eq!(watch.poll(at(25)), WatchStep::Wait(at(45)));
        assert!(watch.is_up());
        assert_eq!(watch.poll(at(45)), WatchStep::Down);
        assert_eq!((watch.is_up(), watch.failures(), watch.down_since()), (false, 1, Some(at(45))));
        assert_eq!(watch.poll(at(50)), WatchStep::Wait(at(55)));
        for probe in 1..=10 {
            assert!(!watch.tries());
            assert_eq!(watch.poll(at(45 + 10 * probe)), WatchStep::Probe);
        }
        assert_eq!([watch.tries(), watch.tries()], [true, false], "one packet may try in a tenth of a second");
        assert!(watch.returned(), "it comes back by whatever it gives back");
        assert_eq!((watch.is_up(), watch.tries(), watch.down_since()), (true, false, None));
        assert_eq!(watch.poll(at(156)), WatchStep::Wait(Time::NEVER));
    }

    #[test]
    fn whoever_gives_something_back_is_up() {
        let mut watch = Watch::new(TIMEOUT);
        for now in (0..200).step_by(10) {
            watch.handed(at(now));
            assert!(matches!(watch.poll(at(now)), WatchStep::Wait(_)));
            assert!(!watch.returned());
        }
        watch.handed(at(300));
        assert_eq!(watch.poll(at(320)), WatchStep::Probe);
        assert!(!watch.returned(), "the answer to a probe counts as well");
        assert_eq!(watch.failures(), 0);
    }

    #[test]
    fn a_port_without_a_carrier_takes_it_down_at_once() {
        let mut watch = Watch::new(TIMEOUT);
        assert!(watch.set_carrier(at(1), true, false));
        assert!(!watch.set_carrier(at(2), false, false), "it is down already");
        assert!(!watch.is_up() && !watch.tries());
        watch.set_carrier(at(3), false, true);
        assert!(!watch.is_up());
        watch.set_carrier(at(4), true, true);
        assert_eq!((watch.is_up(), watch.failures()), (true, 1));
    }

    #[test]
    fn it_goes_on_when_the_clock_is_set_back() {
        let mut watch = Watch::new(TIMEOUT);
        watch.handed(at(1_000));
        watch.rebase(Span::from_ms(900));
        assert_eq!(watch.poll(at(119)), WatchStep::Wait(at(120)));
        assert_eq!(watch.poll(at(120)), WatchStep::Probe);
    }
}
