//! Whatever happens: nothing is lost, nobody who is out gets anything, and the same calls give the same choices.

use balance::{LoadReport, Outcome, Persistence, Scheduler, ServerId, Service, ServiceSpec, Unavailable};
use machine::{Rebase as _, Span, Step, Time};
use proptest::prelude::*;

use super::{client, servers};

#[derive(Clone, Debug)]
enum Op {
    /// A client opens a connection.
    Open(u32),
    /// One of the open connections, by number.
    Idle(usize),
    Answer(usize, u64),
    Close(usize, u8),
    Report(usize, u32),
    Healthy(usize, bool),
    Drain(usize, bool),
    Weight(usize, u32),
    /// Which servers are specified, as bits, and the scheduler.
    Apply(u8, usize),
    Advance(u64),
    Rebase,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0_u32..50).prop_map(Op::Open),
        2 => any::<usize>().prop_map(Op::Idle),
        6 => (any::<usize>(), 0_u64..2_000).prop_map(|(n, ms)| Op::Answer(n, ms)),
        8 => (any::<usize>(), 0_u8..6).prop_map(|(n, outcome)| Op::Close(n, outcome)),
        2 => (0_usize..8, 0_u32..1_200).prop_map(|(n, share)| Op::Report(n, share)),
        1 => (0_usize..8, any::<bool>()).prop_map(|(n, is_healthy)| Op::Healthy(n, is_healthy)),
        1 => (0_usize..8, any::<bool>()).prop_map(|(n, is_drained)| Op::Drain(n, is_drained)),
        1 => (0_usize..8, 0_u32..70_000).prop_map(|(n, weight)| Op::Weight(n, weight)),
        1 => (any::<u8>(), 0_usize..15).prop_map(|(bits, scheduler)| Op::Apply(bits, scheduler)),
        4 => (0_u64..20_000).prop_map(Op::Advance),
        1 => Just(Op::Rebase),
    ]
}

fn spec(bits: u8, scheduler: usize) -> ServiceSpec {
    let mut all = servers(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        bits >> (number - 1) & 1 == 1
    });
    for server in &mut all {
        server.connections_max = Some(6);
        server.connections_resume = Some(4);
    }
    let mut spec = ServiceSpec::new(Scheduler::ALL[scheduler], all);
    spec.slow_start = Span::from_secs(5);
    spec.blackout = Span::from_secs(1);
    spec.hash_fallback = bits & 1 == 1;
    spec.persistence = (bits & 2 == 2).then(|| Persistence { clients_max: 16, ..Persistence::default() });
    spec
}

struct Run {
    service: Service,
    now: Time,
    open: Vec<(ServerId, bool)>,
    choices: Vec<Option<ServerId>>,
}

impl Run {
    fn server(&self, number: usize) -> Option<ServerId> {
        self.service.server(&format!("s{}", number + 1))
    }

    fn step(&mut self, op: &Op) {
        let now = self.now;
        match *op {
            Op::Open(n) => {
                while let Step::Do(_) = self.service.poll(now) {}
                let all: Vec<_> = self.service.status(now).map(|server| (server.id, server.unavailable)).collect();
                let is_bound = self.service.spec().persistence.is_some();
                let is_panic = self.service.is_panic();
                let chosen = self.service.open(now, &client(n)).ok();
                self.choices.push(chosen);
                let Some(id) = chosen else { return };
                self.open.push((id, false));
                let why = all.iter().find(|(other, _)| *other == id).unwrap().1;
                let may = match why {
                    None => true,
                    Some(Unavailable::Draining) => is_bound,
                    Some(Unavailable::Down | Unavailable::Ejected) => is_panic,
                    Some(Unavailable::Overloaded) => is_bound || is_panic || all.iter().all(|(_, why)| why.is_some()),
                    Some(Unavailable::Full) => false,
                };
                assert!(may, "{why:?}, and got one more");
            }
            Op::Idle(n) if !self.open.is_empty() => {
                let count = self.open.len();
                let (id, is_idle) = &mut self.open[n % count];
                if !core::mem::replace(is_idle, true) {
                    self.service.idle(now, *id);
                }
            }
            Op::Answer(n, ms) if !self.open.is_empty() => {
                let (id, _) = self.open[n % self.open.len()];
                self.service.answered(now, id, Span::from_ms(ms));
            }
            Op::Close(n, outcome) if !self.open.is_empty() => {
                let (id, is_idle) = self.open.swap_remove(n % self.open.len());
                let outcomes = [
                    Outcome::Completed,
                    Outcome::Error,
                    Outcome::Reset,
                    Outcome::Refused,
                    Outcome::TimedOut,
                    Outcome::Expired,
                ];
                self.service.close(now, id, is_idle, outcomes[usize::from(outcome)]);
            }
            Op::Idle(_) | Op::Answer(..) | Op::Close(..) => {}
            Op::Report(n, share) => {
                let report = LoadReport { cpu_permille: Some(share), ..LoadReport::default() };
                if let Some(id) = self.server(n) {
                    self.service.report(now, id, report);
                }
            }
            Op::Healthy(n, is_healthy) => {
                if let Some(id) = self.server(n) {
                    self.service.set_healthy(now, id, is_healthy);
                }
            }
            Op::Drain(n, is_drained) => {
                if let Some(id) = self.server(n) {
                    self.service.drain(now, id, is_drained);
                }
            }
            Op::Weight(n, weight) => {
                if let Some(id) = self.server(n) {
                    self.service.set_weight(now, id, weight);
                }
            }
            Op::Apply(bits, scheduler) => self.service.apply(now, spec(bits, scheduler)).unwrap(),
            Op::Advance(ms) => self.now += Span::from_ms(ms),
            Op::Rebase => {
                self.now.rebase(Span::from_secs(10));
                self.service.rebase(Span::from_secs(10));
            }
        }
    }

    /// What was opened and not closed is at exactly one server.
    fn check(&self) {
        for server in self.service.status(self.now) {
            let count = |idle| self.open.iter().filter(|open| **open == (server.id, idle)).count() as u32;
            assert_eq!((server.active, server.inactive), (count(false), count(true)), "{}", server.name);
        }
        let counted: u32 = self.service.status(self.now).map(|server| server.active + server.inactive).sum();
        assert_eq!(counted as usize, self.open.len());
    }
}

/// A clock is set back by this, when it shows twice as much.
const MONTH: Span = Span::from_secs(30 * 24 * 3_600);

/// The choices of a service whose clock begins then; after so many of the operations it is set back by [`MONTH`].
fn run(ops: &[Op], scheduler: usize, now: Time, back_after: Option<usize>) -> Vec<Option<ServerId>> {
    let service = Service::new(now, spec(0xff, scheduler), 7).unwrap();
    let mut run = Run { service, now, open: vec![], choices: vec![] };
    for (number, op) in ops.iter().enumerate() {
        if back_after == Some(number) {
            run.now.rebase(MONTH);
            run.service.rebase(MONTH);
        }
        run.step(op);
        run.check();
    }
    run.choices
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nothing_is_lost_and_nobody_who_is_out_gets_anything(
        ops in proptest::collection::vec(op(), 1..200),
        scheduler in 0_usize..15,
    ) {
        let start = Time::ZERO + Span::from_secs(20);
        let choices = run(&ops, scheduler, start, None);
        prop_assert_eq!(choices, run(&ops, scheduler, start, None), "the same calls, the same choices");
    }

    #[test]
    fn a_clock_that_is_set_back_changes_nothing(
        mut ops in proptest::collection::vec(op(), 1..200),
        scheduler in 0_usize..15,
        at in any::<prop::sample::Index>(),
    ) {
        ops.retain(|op| !matches!(op, Op::Rebase));
        prop_assume!(!ops.is_empty());
        let (start, at) = (Time::ZERO + MONTH * 2, at.index(ops.len()));
        prop_assert_eq!(run(&ops, scheduler, start, None), run(&ops, scheduler, start, Some(at)));
    }

    /// In any long enough run each has its part by weight, to one turn of the whole round.
    #[test]
    fn turns_are_dealt_out_by_weight(weights in proptest::collection::vec(1_u32..20, 1..8)) {
        let mut service = super::service(Scheduler::Wrr, &weights);
        let round: u32 = weights.iter().sum();
        let mut counts = vec![0; weights.len()];
        for _ in 0..round * 10 {
            let id = service.open(Time::ZERO, &client(1)).unwrap();
            counts[super::number(&service, id) as usize - '1' as usize] += 1_u32;
        }
        for (count, weight) in counts.iter().zip(&weights) {
            // The first round may be a part of one, as servers were added one by one.
            prop_assert!(count.abs_diff(weight * 10) <= *weights.iter().max().unwrap(), "{counts:?} of {weights:?}");
        }
    }

    /// One of n leaves: few of those who had another server change it.
    #[test]
    fn maglev_moves_few(weights in proptest::collection::vec(1_u32..4, 3..9), gone in any::<prop::sample::Index>()) {
        let mut service = super::service(Scheduler::Mh, &weights);
        let choose = |service: &mut Service| -> Vec<ServerId> {
            (0..3_000).map(|n| service.open(Time::ZERO, &client(n)).unwrap()).collect()
        };
        let before = choose(&mut service);
        let mut spec = service.spec().clone();
        let gone = spec.servers.remove(gone.index(weights.len()));
        let gone = service.server(&gone.name).unwrap();
        service.apply(Time::ZERO, spec).unwrap();
        let after = choose(&mut service);
        let moved = before.iter().zip(&after).filter(|(before, after)| **before != gone && before != after).count();
        prop_assert!(moved < 450, "{moved} of 3,000 moved that did not have to");
    }
}
