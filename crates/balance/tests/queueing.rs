//! Queues in front of servers, and clients that know nothing of each other: what each scheduler makes of them.
//!
//! The two cases are those that `HAProxy` was measured with: *unequal*, servers of 2, 2, 2 and 10 ms; *antagonist*, four of 2 ms, one of which is ten times
//! slower from 1.5 s to 3.5 s; servers work on one request at a time. *Parallel* is as unequal, but servers work on four at once, each four times as long; *wide*
//! has equal ones that work on forty at once, 100 ms each; *crowd* is unequal, 2,400 a second come from 1.5 s to 2.5 s, more than servers can work on, and what is measured
//! is what comes later than 5 s, in 8 s. In two more the same server fails in this time: it resets connections at once, or it takes them and never answers, and clients
//! give up after half a second. Service times are exponential, connections come at random, 1,100 a second for 5 s.

use std::collections::VecDeque;
use std::fmt::Write as _;

use balance::{Client, Ejection, LoadReport, Outcome, Overload, Scheduler, ServerId, Service, ServiceSpec, Threshold};
use machine::{Calendar, Rng, Span, Time};

use crate::service::servers;

/// Connections a second.
const RATE: u64 = 1_100;
const DURATION: Span = Span::from_secs(5);
/// How often agents report.
const REPORTS: Span = Span::from_ms(50);

#[derive(Clone, Copy, Debug, Default)]
enum Event {
    #[default]
    Arrival,
    Departure {
        server: usize,
        came: Time,
    },
    TimeOut {
        server: usize,
    },
    Reports,
}

/// A server with its queue.
struct Queue {
    id: ServerId,
    mean: Span,
    /// On how many requests it can work, and on how many it does.
    workers: usize,
    busy: usize,
    /// When each of its connections came on which it does not work yet.
    waiting: VecDeque<Time>,
    /// For how long it has worked since the last report.
    worked: Span,
}

/// What becomes of the servers' speed.
#[derive(Clone, Copy)]
enum Case {
    Unequal,
    Antagonist,
    Parallel,
    Wide,
    Crowd,
    Resets,
    Hangs,
}

impl Case {
    fn means_ms(self) -> [u64; 4] {
        match self {
            Self::Unequal | Self::Crowd => [2, 2, 2, 10],
            Self::Parallel => [8, 8, 8, 40],
            Self::Wide => [100; 4],
            Self::Antagonist | Self::Resets | Self::Hangs => [2; 4],
        }
    }

    /// On how many requests each server works at once.
    fn workers(self) -> usize {
        match self {
            Self::Parallel => 4,
            Self::Wide => 40,
            _ => 1,
        }
    }

    /// Whether the last server is in trouble now.
    fn is_trouble(now: Time) -> bool {
        (Time::from_ns(1_500_000_000)..Time::from_ns(3_500_000_000)).contains(&now)
    }

    /// Connections a second.
    fn rate(self, now: Time) -> u64 {
        let comes_crowd = (Time::from_ns(1_500_000_000)..Time::from_ns(2_500_000_000)).contains(&now);
        if matches!(self, Self::Crowd) && comes_crowd { 2_400 } else { RATE }
    }

    fn duration(self) -> Span {
        if matches!(self, Self::Crowd) { Span::from_secs(8) } else { DURATION }
    }

    /// From when on what comes is measured.
    fn measured_from(self) -> Time {
        Time::ZERO + if matches!(self, Self::Crowd) { Span::from_secs(5) } else { Span::ZERO }
    }

    /// By how much the last server is slower now.
    fn slowdown(self, now: Time) -> u64 {
        if matches!(self, Self::Antagonist) && Self::is_trouble(now) { 10 } else { 1 }
    }
}

struct World {
    case: Case,
    service: Service,
    queues: Vec<Queue>,
    calendar: Calendar<Event>,
    arrivals: Rng,
    work: Rng,
    latencies: Vec<Span>,
    failed: u32,
}

impl World {
    fn new(case: Case, scheduler: Scheduler, weights: &[u32; 4], ejection: Option<Ejection>, seed: u64) -> Self {
        let mut spec = ServiceSpec::new(scheduler, servers(weights));
        spec.ejection = ejection;
        let overload = Some(Threshold::new(8_000, 2_000));
        spec.overload = Overload { cpu_permille: None, run_queue_permille: overload, ..Overload::default() };
        spec.blackout = Span::from_ms(500);
        let service = Service::new(Time::ZERO, spec, seed).unwrap();
        let queue = |(n, ms): (usize, u64)| Queue {
            id: service.server(&format!("s{}", n + 1)).unwrap(),
            mean: Span::from_ms(ms),
            workers: case.workers(),
            busy: 0,
            waiting: VecDeque::new(),
            worked: Span::ZERO,
        };
        let queues = case.means_ms().into_iter().enumerate().map(queue).collect();
        let mut calendar = Calendar::new();
        calendar.push(Time::ZERO, Event::Arrival);
        calendar.push(Time::ZERO + REPORTS, Event::Reports);
        let rng = Rng::new(seed);
        Self { case, service, queues, calendar, arrivals: rng.fork(1), work: rng.fork(2), latencies: vec![], failed: 0 }
    }

    fn run(&mut self) {
        while let Some((now, event)) = self.calendar.pop() {
            match event {
                Event::Arrival => self.arrive(now),
                Event::Departure { server, came } => self.depart(now, server, came),
                Event::TimeOut { server } => self.fail(now, server, Outcome::TimedOut),
                Event::Reports => self.report(now),
            }
        }
    }

    fn arrive(&mut self, now: Time) {
        let next = now + self.arrivals.exponential(Span::from_secs(1) / self.case.rate(now));
        if next < Time::ZERO + self.case.duration() {
            self.calendar.push(next, Event::Arrival);
        }
        let client = Client { address: u128::from(self.arrivals.bits() as u32), port: 1 };
        let id = self.service.open(now, &client).unwrap();
        let server = self.queues.iter().position(|queue| queue.id == id).unwrap();
        match self.case {
            Case::Resets if server == 3 && Case::is_trouble(now) => return self.fail(now, server, Outcome::Reset),
            Case::Hangs if server == 3 && Case::is_trouble(now) => {
                return self.calendar.push(now + Span::from_ms(500), Event::TimeOut { server });
            }
            _ => {}
        }
        self.queues[server].waiting.push_back(now);
        self.begin(now, server);
    }

    fn fail(&mut self, now: Time, server: usize, outcome: Outcome) {
        self.failed += 1;
        self.service.close(now, self.queues[server].id, false, outcome);
    }

    /// Begins to work on the next request, if the server can.
    fn begin(&mut self, now: Time, server: usize) {
        let slowdown = if server == 3 { self.case.slowdown(now) } else { 1 };
        let queue = &mut self.queues[server];
        if queue.busy == queue.workers {
            return;
        }
        let Some(came) = queue.waiting.pop_front() else { return };
        queue.busy += 1;
        let work = self.work.exponential(queue.mean * slowdown);
        queue.worked = queue.worked + work / queue.workers as u64;
        self.calendar.push(now + work, Event::Departure { server, came });
    }

    fn depart(&mut self, now: Time, server: usize, came: Time) {
        let queue = &mut self.queues[server];
        queue.busy -= 1;
        let latency = now.since(came);
        if came >= self.case.measured_from() {
            self.latencies.push(latency);
        }
        self.service.answered(now, queue.id, latency);
        self.service.close(now, queue.id, false, Outcome::Completed);
        self.begin(now, server);
    }

    fn report(&mut self, now: Time) {
        if now < Time::ZERO + self.case.duration() {
            self.calendar.push(now + REPORTS, Event::Reports);
        }
        for queue in &mut self.queues {
            let worked = core::mem::take(&mut queue.worked).as_ps() * 1_000 / REPORTS.as_ps();
            let report = LoadReport {
                cpu_permille: Some((worked as u32).clamp(1, 1_000)),
                run_queue_permille: Some((queue.waiting.len() + queue.busy) as u32 * 1_000),
                ..LoadReport::default()
            };
            self.service.report(now, queue.id, report);
        }
    }
}

/// Latencies that half, nine tenths and 99 of a hundred requests have at most, in microseconds.
fn quantiles(case: Case, scheduler: Scheduler, weights: &[u32; 4]) -> [u64; 3] {
    let mut latencies = vec![];
    for seed in 1..=5 {
        let mut world = World::new(case, scheduler, weights, Some(Ejection::default()), seed);
        world.run();
        latencies.extend(world.latencies);
    }
    latencies.sort_unstable();
    [50, 90, 99].map(|percent| latencies[latencies.len() * percent / 100].as_ns() / 1_000)
}

fn table() -> String {
    let mut table = format!(
        "{:<14}{:<28}{:<28}{:<28}{:<28}{}\n",
        "ms",
        "unequal p50 p90 p99",
        "antagonist p50 p90 p99",
        "parallel p50 p90 p99",
        "wide p50 p90 p99",
        "crowd p50 p90 p99"
    );
    let mut line = |name: &str, scheduler, weights| {
        let _ = write!(table, "{name:<14}");
        for case in [Case::Unequal, Case::Antagonist, Case::Parallel, Case::Wide, Case::Crowd] {
            for value in quantiles(case, scheduler, weights) {
                let _ = write!(table, "{:>8}", format!("{}.{}", value / 1_000, value / 100 % 10));
            }
            let _ = write!(table, "    ");
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    };
    // MH is as SH, and without weights WRR is RR, and WLC, SED and NQ are almost LC.
    let schedulers = Scheduler::ALL.into_iter().filter(|scheduler| {
        !matches!(scheduler, Scheduler::Mh | Scheduler::Wrr | Scheduler::Wlc | Scheduler::Sed | Scheduler::Nq)
    });
    for scheduler in schedulers {
        line(scheduler.name(), scheduler, &[1; 4]);
    }
    line("wlc 5:5:5:1", Scheduler::Wlc, &[5, 5, 5, 1]);
    line("sed 5:5:5:1", Scheduler::Sed, &[5, 5, 5, 1]);
    table
}

/// Of a million connections, so many fail.
fn failures(case: Case, scheduler: Scheduler, ejection: Option<Ejection>) -> u64 {
    let (mut failed, mut all) = (0, 0);
    for seed in 1..=3 {
        let mut world = World::new(case, scheduler, &[1; 4], ejection, seed);
        world.run();
        failed += u64::from(world.failed);
        all += u64::from(world.failed) + world.latencies.len() as u64;
    }
    failed * 1_000_000 / all
}

fn table_of_failures() -> String {
    let mut table =
        format!("{:<14}{:>12}{:>12}{:>12}{:>12}\n", "of 1,000,000", "resets", "ejection", "hangs", "ejection");
    let schedulers = [
        Scheduler::Rr,
        Scheduler::Lc,
        Scheduler::P2c,
        Scheduler::PeakEwma,
        Scheduler::Learned,
        Scheduler::Prequal,
        Scheduler::Utilisation,
    ];
    for scheduler in schedulers {
        let _ = write!(table, "{:<14}", scheduler.name());
        for case in [Case::Resets, Case::Hangs] {
            for ejection in [None, Some(Ejection::default())] {
                let _ = write!(table, "{:>12}", failures(case, scheduler, ejection));
            }
        }
        table.push('\n');
    }
    table
}

#[test]
fn schedulers_before_a_server_that_fails() {
    insta::assert_snapshot!(table_of_failures());
}

#[test]
fn schedulers_before_queues() {
    insta::assert_snapshot!(table());
}
