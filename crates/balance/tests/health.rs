//! When servers are probed, and what follows of the results.

use std::fmt::Write as _;

use balance::health::{Check, Health, HealthSpec, Input, Output};
use balance::{Scheduler, ServerId};
use machine::{Control as _, Rebase as _, Span, Step, Time};

use crate::service::service;

struct World {
    health: Health<ServerId>,
    now: Time,
    log: String,
    names: Vec<(ServerId, &'static str)>,
}

impl World {
    fn new(change: impl FnOnce(&mut HealthSpec)) -> Self {
        let mut spec = HealthSpec::new(Check::connection());
        spec.interval = Span::from_secs(2);
        spec.fast_interval = Span::from_ms(500);
        spec.down_interval = Span::from_secs(5);
        spec.timeout = Span::from_ms(300);
        spec.jitter_permille = 0;
        change(&mut spec);
        let service = service(Scheduler::Rr, &[1, 1]);
        let names = ["s1", "s2"].map(|name| (service.server(name).unwrap(), name)).into();
        Self { health: Health::new(spec, 3).unwrap(), now: Time::ZERO, log: String::new(), names }
    }

    fn add(&mut self, server: usize) {
        self.health.handle(self.now, Input::Add(self.names[server].0));
    }

    /// Runs until then; `answer` says how a probe ends after 10 ms, if it does.
    fn run(&mut self, seconds: u64, answer: impl Fn(&str, Time) -> Option<bool>) {
        let end = Time::ZERO + Span::from_secs(seconds);
        let mut results: Vec<(Time, Input<ServerId>)> = vec![];
        loop {
            let until = match self.health.poll(self.now) {
                Step::Do(output) => {
                    let (Output::Probe { server, .. } | Output::Up(server) | Output::Down(server)) = output;
                    let (_, name) = self.names.iter().find(|(id, _)| *id == server).unwrap();
                    let ms = self.now.as_ns() / 1_000_000;
                    let what = match output {
                        Output::Probe { probe, .. } => {
                            if let Some(is_good) = answer(name, self.now) {
                                let at = self.now + Span::from_ms(10);
                                results.push((at, Input::Result { server, probe, is_good }));
                            }
                            "probe"
                        }
                        Output::Up(_) => "up",
                        Output::Down(_) => "down",
                    };
                    let _ = writeln!(self.log, "{ms:>6} {name} {what}");
                    continue;
                }
                Step::Wait(until) => until,
            };
            let next = results.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER);
            if until.min(next) >= end {
                self.now = end;
                return;
            }
            self.now = until.min(next);
            if next <= self.now {
                let place = results.iter().position(|(at, _)| *at == next).unwrap();
                let (_, input) = results.remove(place);
                self.health.handle(self.now, input);
            }
        }
    }
}

#[test]
fn a_server_goes_down_and_comes_up() {
    let mut world = World::new(|_| {});
    world.add(0);
    let fails = |now: Time| (Time::from_ns(5_000_000_000)..Time::from_ns(15_000_000_000)).contains(&now);
    // It fails by bad answers at first, then by none.
    let says_so = |now: Time| now < Time::from_ns(8_000_000_000);
    world.run(30, |_, now| if fails(now) { says_so(now).then_some(false) } else { Some(true) });
    insta::assert_snapshot!(world.log);
}

#[test]
fn the_first_failure_of_a_new_server_takes_it_down() {
    let mut world = World::new(|_| {});
    world.add(0);
    world.run(3, |_, _| Some(false));
    assert!(world.log.lines().nth(1).unwrap().ends_with("s1 down"), "{}", world.log);
    assert_eq!(world.health.is_up(world.names[0].0), Some(false));
}

#[test]
fn the_first_success_of_a_server_that_starts_makes_it_up() {
    let mut world = World::new(|_| {});
    world.add(0);
    let listens = Time::from_ns(700_000_000);
    world.run(3, |_, now| Some(now >= listens));
    let probes_before = world.log.lines().filter(|line| line.ends_with("probe")).count();
    // Down by its first failure, up by its first success a probe later, and probed once an interval from then on.
    insta::assert_snapshot!(world.log);
    // What it does from now on counts as that of any other server: three failures, two successes.
    let fails = |now: Time| now < Time::from_ns(8_000_000_000);
    world.run(30, |_, now| Some(!fails(now)));
    let later: Vec<&str> = world.log.lines().skip(probes_before + 2).collect();
    let position = |word: &str| later.iter().position(|line| line.ends_with(word)).unwrap();
    let (down, up) = (position("down"), position("up"));
    assert_eq!(down, 3, "{later:?}");
    let good = later[down + 1..up].iter().filter(|line| {
        let ms: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        ms >= 8_000
    });
    assert_eq!(good.count(), 2, "{later:?}");
}

#[test]
fn a_server_that_never_listens_is_probed_as_one_that_is_down() {
    let mut world = World::new(|_| {});
    world.add(0);
    world.run(60, |_, _| Some(false));
    let probes = |from: u64, to: u64| {
        let times = world.log.lines().filter(|line| line.ends_with("probe"));
        let times = times.map(|line| line.split_whitespace().next().unwrap().parse::<u64>().unwrap());
        times.filter(|ms| (from..to).contains(ms)).count()
    };
    assert!((9..=11).contains(&probes(0, 1_000)), "{}", world.log);
    assert!((15..=40).contains(&probes(1_000, 10_000)), "{}", world.log);
    assert_eq!(probes(20_000, 60_000), 8, "{}", world.log);
    let server = world.names[0].0;
    assert!(world.health.is_starting(Time::from_ns(9_999_000_000), server));
    assert!(!world.health.is_starting(world.now, server));
    // However late its first success is, there is nothing that speaks against it.
    world.run(70, |_, _| Some(true));
    let rest: Vec<&str> = world.log.lines().skip_while(|line| !line.ends_with("up")).collect();
    let last = world.log.lines().position(|line| line.ends_with("up")).unwrap();
    assert!(world.log.lines().nth(last - 1).unwrap().trim_start() > "60", "{rest:?}");
}

#[test]
fn late_results_and_those_of_others_say_nothing() {
    let mut world = World::new(|_| {});
    world.add(0);
    let (server, other) = (world.names[0].0, world.names[1].0);
    let Step::Wait(first) = world.health.poll(Time::ZERO) else { panic!("the first probe waits") };
    let Step::Do(Output::Probe { probe, deadline, .. }) = world.health.poll(first) else { panic!("a probe is due") };
    for input in [
        Input::Result { server: other, probe, is_good: false },
        Input::Result { server, probe: probe + 1, is_good: false },
        Input::Remove(other),
    ] {
        world.health.handle(first, input);
    }
    assert_eq!(world.health.poll(first), Step::Wait(deadline));
    world.health.handle(deadline, Input::Result { server, probe, is_good: true });
    assert_eq!(world.health.poll(deadline), Step::Do(Output::Down(server)));
}

#[test]
fn probes_are_spread_and_differ_by_jitter() {
    let mut world = World::new(|spec| spec.jitter_permille = 200);
    (0..2).for_each(|server| world.add(server));
    world.run(200, |_, _| Some(true));
    let times = |name: &str| -> Vec<u64> {
        let lines = world.log.lines().filter(|line| line.contains(name));
        lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
    };
    let (first, second) = (times("s1"), times("s2"));
    assert_ne!(first[0], second[0]);
    let gaps: Vec<_> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (1_599..=2_401).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().min().unwrap() + 400 < *gaps.iter().max().unwrap());
}

#[test]
fn a_removed_server_is_not_probed_and_clocks_are_set_back() {
    let mut world = World::new(|_| {});
    (0..2).for_each(|server| world.add(server));
    world.run(20, |_, _| Some(true));
    world.health.handle(world.now, Input::Remove(world.names[1].0));
    let Step::Wait(before) = world.health.poll(world.now) else { panic!("nothing is due") };
    world.health.rebase(Span::from_secs(15));
    let Step::Wait(after) = world.health.poll(Time::ZERO + Span::from_secs(5)) else { panic!("nothing is due") };
    assert_eq!(after + Span::from_secs(15), before);
    assert_eq!(world.health.is_up(world.names[1].0), None);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let mut spec = HealthSpec::new(Check::connection());
    spec.rise = 0;
    assert_eq!(Health::<ServerId>::new(spec, 1).unwrap_err().to_string(), "health check: rise and fall are 1 at least");
}
