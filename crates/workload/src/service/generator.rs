//! The clients of a service: when the next request begins, what it asks for, and what came of it.
//!
//! ```text
//!                 poll: Do(Start), Wait(until)
//!   Generator <---------------------------------> a driver: sockets and a clock, or a simulator
//!                 handle(Finished)
//! ```
//!
//! *Closed loop*: so many clients, each of which asks again when it has its answer and has thought about it. *Open loop*: requests begin at moments that do not
//! depend on answers. If they cannot, since all connections are taken, they begin late, and their latency counts from when they should have begun: a server
//! that stops for a second is seen by all who would have come in that second (what Gil Tene calls coordinated omission is not left out).

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use machine::{Control, Rng, Span, Step, Time};

use super::distribution::Distribution;
use super::measured::{Failure, Measured, Outcome};
use super::mix::{Requests, WorkloadSpec};
use super::target::Target;

/// The most clients, and the most requests under way.
pub const SLOTS_MAX: u32 = 100_000;

/// A client of a closed loop that got no connection waits for so long: it does not try as fast as it is refused.
const PAUSE: Span = Span::from_ms(10);

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// By clients that wait for their answers.
    Closed {
        /// How many.
        clients: u32,
        /// How long each thinks between an answer and its next request, in nanoseconds.
        think: Option<Distribution>,
        /// Their first requests are spread over this time.
        ramp: Span,
    },
    /// By themselves.
    Open {
        /// So many in a thousand seconds.
        rate_milli: u64,
        /// At random (a Poisson process), or evenly.
        is_poisson: bool,
        /// So many may be under way; others begin late.
        in_flight_max: u32,
    },
}

impl Arrivals {
    /// How many requests may be under way.
    pub const fn slots(self) -> u32 {
        match self {
            Self::Closed { clients, .. } => clients,
            Self::Open { in_flight_max, .. } => in_flight_max,
        }
    }
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorSpec {
    /// What is asked for.
    pub workload: WorkloadSpec,
    /// When.
    pub arrivals: Arrivals,
    /// Before the measured time.
    pub warm_up: Span,
    /// The measured time.
    pub lasts: Span,
}

/// A request that begins now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The connection that it has to itself until it is [`Finished`].
    pub slot: u32,
    /// What it asks for.
    pub target: Target,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which.
    pub slot: u32,
    /// How.
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    intended: Time,
    started: Time,
}

/// Clients under way.
#[derive(Debug)]
pub struct Generator {
    requests: Requests,
    arrivals: Arrivals,
    times: Rng,
    slots: Vec<Option<UnderWay>>,
    in_flight: u32,
    /// Of a closed loop: clients that think, by when they ask.
    thinking: BinaryHeap<Reverse<(Time, u32)>>,
    /// Of an open loop: slots that nobody has, and when the next request should begin.
    free: Vec<u32>,
    next: Time,
    ends: Time,
    /// Whether what should have begun before the end, and found a connection free then, has begun.
    is_closed: bool,
    measured: Measured,
    is_completed: bool,
}

impl Generator {
    /// Clients that begin at time zero.
    ///
    /// # Panics
    /// If there are no clients, or more than [`SLOTS_MAX`]; if the rate is zero.
    pub fn new(spec: &GeneratorSpec, seed: u64) -> Self {
        let slots = spec.arrivals.slots();
        assert!((1..=SLOTS_MAX).contains(&slots), "a load has one client at least and {SLOTS_MAX} at most");
        let begins = Time::ZERO + spec.warm_up;
        let ends = begins + spec.lasts;
        let rng = Rng::new(seed);
        let mut generator = Self {
            requests: Requests::new(&spec.workload, rng.fork(0).bits()),
            arrivals: spec.arrivals,
            times: rng.fork(1),
            slots: vec![None; slots as usize],
            in_flight: 0,
            thinking: BinaryHeap::new(),
            free: Vec::new(),
            next: Time::ZERO,
            ends,
            is_closed: false,
            measured: Measured::new(begins, ends),
            is_completed: false,
        };
        match spec.arrivals {
            Arrivals::Closed { clients, ramp, .. } => {
                let first = |client: u32| Time::ZERO + ramp * u64::from(client) / u64::from(clients);
                generator.thinking = (0..clients).map(|client| Reverse((first(client), client))).collect();
            }
            Arrivals::Open { rate_milli, .. } => {
                assert!(rate_milli > 0, "an open loop has a rate");
                generator.free = (0..slots).rev().collect();
                generator.next = generator.after(Time::ZERO);
            }
        }
        generator
    }

    /// Of an open loop: when the request after that of `time` should begin.
    fn after(&mut self, time: Time) -> Time {
        /// Picoseconds in a thousand seconds.
        const THOUSAND_SECONDS_PS: u64 = 1_000_000_000_000_000;
        let Arrivals::Open { rate_milli, is_poisson, .. } = self.arrivals else { return Time::NEVER };
        let mean = Span::from_ps(THOUSAND_SECONDS_PS / rate_milli);
        time + if is_poisson { self.times.exponential(mean) } else { mean }
    }

    /// No more requests begin, and the measured time ends now, if it does not end earlier.
    pub fn stop(&mut self, now: Time) {
        self.ends = self.ends.min(now);
        self.is_closed = true;
        self.measured.shorten(now);
    }

    /// Requests that have begun and not ended.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// When no more requests begin.
    pub const fn ends(&self) -> Time {
        self.ends
    }

    /// Whether all is over: no request begins any more, and none is under way.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.ends && self.in_flight == 0 && (self.is_closed || !self.is_behind())
    }

    /// Whether a request should have begun before the end, and has not.
    fn is_behind(&self) -> bool {
        self.is_open() && self.next < self.ends
    }

    /// What was measured so far.
    pub const fn measured(&self) -> &Measured {
        &self.measured
    }

    /// What was measured. Requests under way are not a part of it: the driver ends them first, by its timeout at the latest.
    pub fn into_measured(mut self) -> Measured {
        self.complete();
        self.measured
    }

    /// Counts what should have begun and has not, once.
    fn complete(&mut self) {
        if self.is_completed {
            return;
        }
        self.is_completed = true;
        let mut unsent = 0;
        while self.is_behind() {
            unsent += u64::from(self.measured.contains(self.next));
            self.next = self.after(self.next);
        }
        self.measured.record_unsent(unsent);
        self.measured.complete();
    }

    const fn is_open(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open { .. })
    }

    /// The next request that should have begun by `now` and for which there is a connection, or when to come back.
    fn due(&mut self, now: Time) -> Result<(u32, Time), Time> {
        if self.is_open() {
            if self.next > now {
                return Err(self.next.min(self.ends));
            }
            // All connections are taken: what ends one of them comes first.
            let slot = self.free.pop().ok_or(self.ends)?;
            let intended = self.next;
            self.next = self.after(intended);
            return Ok((slot, intended));
        }
        match self.thinking.peek() {
            Some(Reverse((ready, slot))) if *ready <= now => {
                let due = (*slot, *ready);
                self.thinking.pop();
                Ok(due)
            }
            Some(Reverse((ready, _))) => Err((*ready).min(self.ends)),
            None => Err(self.ends),
        }
    }
}

impl Control for Generator {
    type Input = Finished;
    type Output = Start;

    fn handle(&mut self, now: Time, finished: Finished) {
        let Finished { slot, outcome } = finished;
        let UnderWay { intended, started } =
            self.slots[slot as usize].take().expect("what has ended has begun, and ends once");
        self.in_flight -= 1;
        self.measured.record(now, intended, started, outcome);
        match self.arrivals {
            Arrivals::Open { .. } => self.free.push(slot),
            Arrivals::Closed { think, .. } => {
                let thinks = think.map_or(Span::ZERO, |think| Span::from_ns(think.draw(&mut self.times)));
                let pauses = match outcome {
                    Outcome::Failed(Failure::Refused | Failure::Unreachable | Failure::Local) => PAUSE,
                    Outcome::Failed(_) | Outcome::Done { .. } => Span::ZERO,
                };
                self.thinking.push(Reverse((now + thinks.max(pauses), slot)));
            }
        }
    }

    fn poll(&mut self, now: Time) -> Step<Start> {
        // A driver that comes late at the end makes up for it, if there is a connection free: nobody had kept the request back.
        self.is_closed |= now >= self.ends && (self.free.is_empty() || !self.is_behind());
        if self.is_closed {
            return Step::Wait(Time::NEVER);
        }
        match self.due(now) {
            Err(until) => Step::Wait(until),
            Ok((slot, intended)) => {
                self.in_flight += 1;
                self.slots[slot as usize] = Some(UnderWay { intended, started: now });
                Step::Do(Start { slot, target: self.requests.draw() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::Calendar;

    use super::super::mix::Workload;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn spec(arrivals: Arrivals) -> GeneratorSpec {
        let workload = WorkloadSpec::new(Workload::FineGrain);
        GeneratorSpec { workload, arrivals, warm_up: Span::ZERO, lasts: Span::from_secs(10) }
    }

    /// Drives clients against servers that take `serve` for each request, which is given the time.
    fn drive(spec: &GeneratorSpec, serve: impl Fn(Time) -> Span) -> Measured {
        let mut generator = Generator::new(spec, 1);
        let mut calendar: Calendar<Option<u32>> = Calendar::new();
        calendar.push(Time::ZERO, None);
        while let Some((now, event)) = calendar.pop() {
            if let Some(slot) = event {
                generator.handle(now, Finished { slot, outcome: Outcome::Done { bytes: 1 } });
            }
            loop {
                match generator.poll(now) {
                    Step::Do(start) => calendar.push(now + serve(now), Some(start.slot)),
                    Step::Wait(Time::NEVER) => break,
                    Step::Wait(until) => {
                        calendar.push(until, None);
                        break;
                    }
                }
            }
        }
        assert!(generator.is_over(at(100_000)), "all requests have ended");
        generator.into_measured()
    }

    fn ms(span: Option<Span>) -> f64 {
        span.expect("there are some").as_secs_f64() * 1e3
    }

    #[test]
    fn clients_of_a_closed_loop_ask_again_when_they_have_thought() {
        let think = Some(Distribution::Fixed(40_000_000));
        let closed = Arrivals::Closed { clients: 5, think, ramp: Span::from_ms(50) };
        let measured = drive(&spec(closed), |_| Span::from_ms(10));
        assert!((measured.per_second() - 100.0).abs() < 1.0, "{}", measured.per_second());
        assert!((ms(measured.latency().max()) - 10.0).abs() < 0.1);
    }

    #[test]
    fn an_open_loop_has_its_rate_whatever_servers_do() {
        for is_poisson in [false, true] {
            let open = Arrivals::Open { rate_milli: 200_000, is_poisson, in_flight_max: 200 };
            let measured = drive(&spec(open), |_| Span::from_ms(100));
            assert!((measured.per_second() / 200.0 - 0.99).abs() < 0.05, "{}", measured.per_second());
            assert_eq!(measured.failures().total(), 0);
        }
    }

    #[test]
    fn who_would_have_come_while_a_server_stood_still_is_not_left_out() {
        let open = Arrivals::Open { rate_milli: 100_000, is_poisson: false, in_flight_max: 1 };
        // It answers at once, but for one second.
        let stopped =
            |now: Time| if now >= at(5_000) && now < at(5_005) { Span::from_secs(1) } else { Span::from_us(10) };
        let measured = drive(&spec(open), stopped);
        // A tenth of all come in that second and wait for half of it on the mean; by when they began, one request was slow.
        assert!(ms(measured.latency().quantile(0.95)) > 400.0, "{measured:?}");
        assert!(ms(measured.service().quantile(0.95)) < 1.0, "{measured:?}");
        assert!((ms(measured.latency().max()) - 1_000.0).abs() < 2.0);
    }

    #[test]
    fn whoever_is_asked_late_at_the_end_makes_up_for_it() {
        let open = |in_flight_max| Arrivals::Open { rate_milli: 100_000, is_poisson: false, in_flight_max };
        let asked_late = |in_flight_max| {
            let mut generator = Generator::new(&spec(open(in_flight_max)), 1);
            let late = generator.ends() + Span::from_ms(3);
            assert!(!generator.is_over(late));
            let mut slots = Vec::new();
            while let Step::Do(start) = generator.poll(late) {
                slots.push(start.slot);
            }
            let count = slots.len();
            for slot in slots {
                generator.handle(late, Finished { slot, outcome: Outcome::Done { bytes: 1 } });
                assert!(matches!(generator.poll(late), Step::Wait(Time::NEVER)), "those who had to wait come too late");
            }
            assert!(generator.is_over(late));
            (count as u64, generator.into_measured().failures().of(Failure::Unsent))
        };
        let (begun, unsent) = asked_late(2_000);
        assert_eq!(unsent, 0);
        assert_eq!(asked_late(100), (100, begun - 100));
    }

    #[test]
    fn what_could_not_begin_has_failed() {
        let open = Arrivals::Open { rate_milli: 100_000, is_poisson: false, in_flight_max: 10 };
        let measured = drive(&spec(open), |_| Span::from_secs(1));
        let unsent = measured.failures().of(Failure::Unsent);
        assert_eq!(unsent + measured.done(), 999, "all that should have begun in ten seconds");
        assert!((898..=900).contains(&unsent), "{unsent}");
    }

    #[test]
    fn the_same_seed_does_the_same() {
        let open = Arrivals::Open { rate_milli: 500_000, is_poisson: true, in_flight_max: 3 };
        let run = || format!("{:?}", drive(&spec(open), |_| Span::from_ms(7)));
        assert_eq!(run(), run());
    }
}
