//! Servers that fail, hang, are overloaded, come back.

use balance::agent::AgentCheck;
use balance::{Ejection, Event, LoadReport, Outcome, Panic, Refusal, Scheduler, Service, ServiceSpec, Unavailable};
use machine::{Span, Step, Time};

use super::{client, number, open, opened, servers, service};

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn events(service: &mut Service, now: Time) -> Vec<Event> {
    let next = |service: &mut Service| match service.poll(now) {
        Step::Do(event) => Some(event),
        Step::Wait(until) => {
            assert!(until > now);
            None
        }
    };
    core::iter::from_fn(|| next(service)).collect()
}

/// Opens connections, and lets those fail in this way that go to this server.
fn fail(service: &mut Service, now: Time, (failing, how): (char, Outcome), count: usize) {
    let mut failed = 0;
    while failed < count {
        let id = open(service, now);
        let fails = number(service, id) == failing;
        failed += usize::from(fails);
        service.close(now, id, false, if fails { how } else { Outcome::Completed });
    }
}

fn unavailable(service: &Service, now: Time) -> Vec<Option<Unavailable>> {
    service.status(now).map(|server| server.unavailable).collect()
}

fn share(service: &mut Service, now: Time, server: char, count: u32) -> usize {
    let mut got = 0;
    for n in 0..count {
        let id = service.open(now, &client(n)).unwrap();
        got += usize::from(number(service, id) == server);
        service.close(now, id, false, Outcome::Completed);
    }
    got
}

#[test]
fn five_failures_in_a_row_eject_a_server_for_a_while() {
    let mut service = service(Scheduler::Rr, &[1, 1, 1]);
    let failing = service.server("s2").unwrap();
    fail(&mut service, at(0), ('2', Outcome::Reset), 4);
    assert_eq!(unavailable(&service, at(0)), [None; 3]);
    fail(&mut service, at(0), ('2', Outcome::Reset), 1);
    assert_eq!(unavailable(&service, at(0)), [None, Some(Unavailable::Ejected), None]);
    assert_eq!(events(&mut service, at(0)), [Event::Ejected { server: failing, until: at(30_000) }]);
    assert_eq!(share(&mut service, at(29_999), '2', 10), 0);
    assert_eq!(share(&mut service, at(30_000), '2', 9), 3);
    assert_eq!(events(&mut service, at(30_000)), [Event::Readmitted(failing)]);
}

/// Checks that get to a server which nobody got to bring it back; those say nothing of what it answers.
#[test]
fn checks_bring_back_who_was_not_to_be_got_to() {
    for (outcome, is_back) in [(Outcome::Refused, true), (Outcome::Reset, false), (Outcome::Error, false)] {
        for was_down in [false, true] {
            let mut service = service(Scheduler::Rr, &[1, 1, 1]);
            let failing = service.server("s2").unwrap();
            fail(&mut service, at(0), ('2', outcome), 5);
            assert_eq!(unavailable(&service, at(0)), [None, Some(Unavailable::Ejected), None], "{outcome:?}");
            if was_down {
                service.set_healthy(at(500), failing, false);
            } else {
                service.set_healthy(at(500), failing, true);
                assert_eq!(share(&mut service, at(600), '2', 9), 0, "one may be chance");
            }
            events(&mut service, at(900));
            service.set_healthy(at(1_000), failing, true);
            let expected = if is_back { vec![Event::Readmitted(failing)] } else { Vec::new() };
            assert_eq!(events(&mut service, at(1_000)), expected, "{outcome:?}");
            assert_eq!(share(&mut service, at(1_000), '2', 9), if is_back { 3 } else { 0 });
        }
    }
}

#[test]
fn a_success_between_failures_forgives_them() {
    let mut service = service(Scheduler::Rr, &[1]);
    for _ in 0..10 {
        fail(&mut service, at(0), ('1', Outcome::Reset), 4);
        let id = open(&mut service, at(0));
        service.close(at(0), id, false, Outcome::Completed);
    }
    assert_eq!(unavailable(&service, at(0)), [None]);
}

#[test]
fn silence_says_nothing_where_nobody_ever_answers() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    let time_out = |service: &mut Service| {
        for _ in 0..20 {
            let id = open(service, at(0));
            service.close(at(0), id, false, Outcome::TimedOut);
        }
    };
    time_out(&mut service);
    assert_eq!(unavailable(&service, at(0)), [None; 2]);
    let first = service.server("s1").unwrap();
    service.answered(at(0), first, Span::from_ms(1));
    time_out(&mut service);
    assert!(unavailable(&service, at(0)).contains(&Some(Unavailable::Ejected)));
}

#[test]
fn a_silent_client_does_not_make_its_server_slow_if_it_is_known_to_be() {
    let mut service = service(Scheduler::Learned, &[1, 1]);
    for name in ["s1", "s2"] {
        let id = service.server(name).unwrap();
        service.answered(at(2), id, Span::from_ms(2));
    }
    let silent = open(&mut service, at(2));
    service.withdrawn(silent);
    // It has one connection more than the other, and is no slower.
    let other = open(&mut service, at(5_000));
    assert_ne!(silent, other);
    service.asked(at(5_000), other);
    assert_eq!(open(&mut service, at(5_900)), silent, "the other has not answered for long");
}

#[test]
fn no_more_than_half_of_the_servers_are_ejected() {
    let mut service = service(Scheduler::Rr, &[1; 4]);
    for failing in ['1', '2', '3'] {
        fail(&mut service, at(0), (failing, Outcome::Reset), 5);
    }
    let out = unavailable(&service, at(0)).into_iter().flatten().count();
    assert_eq!(out, 2);
    assert!(!service.is_panic());
}

#[test]
fn a_server_that_fails_more_often_than_the_others_is_ejected() {
    let mut service = service(Scheduler::Rr, &[1; 6]);
    for round in 0..1_200 {
        let id = open(&mut service, at(round * 10));
        let fails = number(&service, id) == '6' && round % 4 == 0;
        let outcome = if fails { Outcome::Error } else { Outcome::Completed };
        service.close(at(round * 10), id, false, outcome);
    }
    let out: Vec<_> = service.status(at(12_000)).filter(|server| server.unavailable.is_some()).collect();
    assert_eq!(out.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["s6"]);
}

/// Handshakes with both servers, one every `ms` milliseconds from then on; those of `silent` are not answered. When it is ejected.
fn handshakes(service: &mut Service, (from, ms, count): (u64, u64, u64), silent: char) -> Option<u64> {
    let begun = (0..count).map(|number| from + number * ms);
    for now in begun {
        let id = open(service, at(now));
        service.handshake(at(now), id, false);
        if number(service, id) != silent {
            let handshake = Span::from_us(100);
            service.heard(at(now) + handshake, id, Some(handshake));
        }
        if events(service, at(now)).iter().any(|event| matches!(event, Event::Ejected { .. })) {
            return Some(now - from);
        }
    }
    None
}

#[test]
fn who_falls_silent_is_out_before_a_tenth_of_a_second() {
    let mut service = service(Scheduler::Rr, &[1, 1, 1]);
    assert_eq!(handshakes(&mut service, (0, 1, 1_000), '-'), None);
    let after = handshakes(&mut service, (2_000, 1, 1_000), '2').expect("it is out");
    assert!((50..70).contains(&after), "{after} ms");
    assert_eq!(unavailable(&service, at(2_999)), [None, Some(Unavailable::Ejected), None]);
    let why = service.status(at(2_999)).find_map(|server| server.ejected_because).expect("it is known");
    assert!(why.to_string().contains("segments waited, and nothing had come from it for 5"), "{why}");
    // It comes back, and is out again if nothing has changed; each time for longer.
    assert_eq!(events(&mut service, at(40_000)).len(), 1);
    assert!(handshakes(&mut service, (40_000, 1, 1_000), '2').is_some());
    assert_eq!(handshakes(&mut service, (120_000, 1, 2_000), '-'), None);
}

/// A first segment that was lost is sent again, and answered.
#[test]
fn one_handshake_without_an_answer_says_nothing() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    assert_eq!(handshakes(&mut service, (0, 1, 100), '-'), None);
    let second = service.server("s2").expect("it is there");
    service.handshake(at(100), second, false);
    for now in 101..1_100 {
        service.heard(at(now), service.server("s1").expect("it is there"), None);
    }
    service.handshake(at(1_100), second, true);
    service.handshake(at(1_100), second, false);
    assert_eq!(events(&mut service, at(1_101)), [], "what is answered at once waits for nobody");
    service.heard(at(1_101), second, Some(Span::from_ms(1)));
    assert_eq!(handshakes(&mut service, (1_200, 1, 100), '-'), None);
}

#[test]
fn who_is_far_away_may_take_its_time() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    let mut asked = Vec::new();
    // Every answer takes 120 ms, and a new handshake begins each millisecond.
    for now in 0..2_000 {
        let id = open(&mut service, at(now));
        service.handshake(at(now), id, false);
        asked.push(id);
        if now >= 120 {
            service.heard(at(now), asked[now as usize - 120], Some(Span::from_ms(120)));
        }
        // Nobody has been heard yet in the beginning: that says nothing, either.
        assert_eq!(events(&mut service, at(now)), [], "{now}");
    }
    // When one says nothing any more, that takes four times as long to see.
    let begun = 2_000..4_000;
    let out = begun.clone().find(|&now| {
        let id = open(&mut service, at(now));
        service.handshake(at(now), id, false);
        if number(&service, id) == '1' {
            service.heard(at(now), id, Some(Span::from_ms(120)));
        }
        events(&mut service, at(now)).iter().any(|event| matches!(event, Event::Ejected { .. }))
    });
    assert!((2_480..2_600).contains(&out.expect("it is out")), "{out:?}");
}

/// What all leave unanswered is nobody's fault: a cut link before all of them, or a client whose segments no kernel takes.
#[test]
fn when_all_fall_silent_nobody_is_blamed() {
    let mut service = service(Scheduler::Rr, &[1, 1, 1]);
    assert_eq!(handshakes(&mut service, (0, 1, 300), '-'), None);
    for now in 300..3_000 {
        let id = open(&mut service, at(now));
        service.handshake(at(now), id, false);
    }
    assert_eq!(events(&mut service, at(3_000)), []);
}

#[test]
fn who_is_out_for_silence_is_back_with_the_first_packet_that_comes_from_it() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    let out = handshakes(&mut service, (0, 1, 1_000), '2').expect("it is out, though it was never heard");
    let second = service.server("s2").expect("it is there");
    assert_eq!(unavailable(&service, at(out)), [None, Some(Unavailable::Ejected)]);
    service.heard(at(out + 1), second, None);
    assert_eq!(unavailable(&service, at(out + 1)), [None, None]);
    assert_eq!(events(&mut service, at(out + 1)), [Event::Readmitted(second)]);
    // For failures that were seen it takes its time.
    fail(&mut service, at(out + 2), ('2', Outcome::Reset), 5);
    service.heard(at(out + 3), second, None);
    assert_eq!(unavailable(&service, at(out + 3)), [None, Some(Unavailable::Ejected)]);
    // Those who ask how a site does hear that its time is over, though nobody has opened a connection since.
    let healthy = |service: &Service, now| balance::names::SiteState::of(service, now, |_| 0).healthy;
    assert_eq!((healthy(&service, at(out + 100)), healthy(&service, at(out + 100_000))), (1, 2));
}

/// A balancer that got no processor for a second has heard nobody meanwhile.
#[test]
fn whoever_stood_still_himself_blames_nobody() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    assert_eq!(handshakes(&mut service, (0, 1, 100), '-'), None);
    for round in 1..20 {
        // What came in meanwhile is first handshakes, then answers to them.
        let now = at(round * 1_000);
        let opened: Vec<_> = (0..100).map(|_| open(&mut service, now)).collect();
        for id in &opened {
            service.handshake(now, *id, false);
        }
        assert_eq!(events(&mut service, now), []);
        for id in opened {
            service.heard(now, id, Some(Span::ZERO));
        }
    }
}

#[test]
fn a_service_whose_answers_go_other_ways_takes_nobody_for_silent() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    for now in 0..5_000 {
        let id = open(&mut service, at(now));
        service.handshake(at(now), id, false);
    }
    assert_eq!(events(&mut service, at(5_000)), []);
}

#[test]
fn without_passive_checks_nobody_is_ejected() {
    let mut spec = ServiceSpec::new(Scheduler::Rr, servers(&[1, 1]));
    spec.ejection = None;
    let mut service = Service::new(at(0), spec, 1).unwrap();
    fail(&mut service, at(0), ('2', Outcome::Reset), 100);
    assert_eq!(unavailable(&service, at(0)), [None; 2]);
}

#[test]
fn when_too_few_are_left_ejected_ones_are_in() {
    let mut spec = ServiceSpec::new(Scheduler::Rr, servers(&[1; 4]));
    spec.ejection = Some(Ejection { share_max_percent: 100, ..Ejection::default() });
    let mut service = Service::new(at(0), spec, 1).unwrap();
    for failing in ['1', '2'] {
        fail(&mut service, at(0), (failing, Outcome::Reset), 5);
    }
    events(&mut service, at(0));
    assert_eq!(share(&mut service, at(1), '1', 100), 0);
    // Two of four are half; one of four is panic.
    let third = service.server("s3").unwrap();
    service.set_healthy(at(1), third, false);
    assert_eq!(events(&mut service, at(1)), [Event::PanicBegan]);
    assert_eq!(share(&mut service, at(1), '1', 99), 33);
    assert_eq!(share(&mut service, at(1), '3', 99), 0, "health checks find it down");
    service.set_healthy(at(2), third, true);
    assert_eq!(events(&mut service, at(2)), [Event::PanicEnded]);
    assert_eq!(share(&mut service, at(2), '1', 100), 0);
}

#[test]
fn nobody_gets_connections_when_all_are_down_unless_that_is_wanted() {
    let mut service = service(Scheduler::Lc, &[1, 1]);
    for name in ["s1", "s2"] {
        let id = service.server(name).unwrap();
        service.set_healthy(at(0), id, false);
    }
    assert_eq!(service.open(at(0), &client(1)), Err(Refusal::NoServer));
    assert_eq!(service.refused().no_server, 1);
    let panic = Panic { ejected_percent: 50, down_percent: 50 };
    service.apply(at(1), ServiceSpec { panic, ..service.spec().clone() }).unwrap();
    assert!(service.open(at(1), &client(1)).is_ok() && service.is_panic());
}

#[test]
fn an_overloaded_server_gets_nothing_until_it_has_recovered() {
    for scheduler in [Scheduler::Arr, Scheduler::Alc] {
        let mut service = service(scheduler, &[1, 1]);
        let first = service.server("s2").unwrap();
        let report = |service: &mut Service, memory| {
            let report = LoadReport { memory_permille: Some(memory), ..LoadReport::default() };
            service.report(at(0), first, report);
            share(service, at(0), '2', 10)
        };
        assert_ne!(report(&mut service, 899), 0);
        assert_eq!(report(&mut service, 900), 0);
        assert_eq!(events(&mut service, at(0)), [Event::Overloaded(first)]);
        assert_eq!(report(&mut service, 801), 0);
        assert_ne!(report(&mut service, 800), 0);
        assert_eq!(events(&mut service, at(0)), [Event::Recovered(first)]);
    }
}

#[test]
fn all_overloaded_is_as_good_as_none() {
    let mut service = service(Scheduler::Alc, &[1, 1]);
    for name in ["s1", "s2"] {
        let id = service.server(name).unwrap();
        service.report(at(0), id, LoadReport { cpu_permille: Some(1_000), ..LoadReport::default() });
    }
    assert_eq!(opened(&mut service, 4), "2121");
    // The overload of s1 is confirmed no more, and after a while nobody believes it.
    let second = service.server("s2").unwrap();
    for s in 1..30 {
        service.report(at(s * 1_000), second, LoadReport { cpu_permille: Some(1_000), ..LoadReport::default() });
    }
    let id = service.open(at(30_000), &client(1)).unwrap();
    assert_eq!(number(&service, id), '1');
}

#[test]
fn a_server_that_comes_back_begins_slowly() {
    let mut spec = ServiceSpec::new(Scheduler::Lc, servers(&[1, 1]));
    spec.slow_start = Span::from_secs(10);
    let mut service = Service::new(at(0), spec, 1).unwrap();
    assert_eq!(
        share(&mut service, at(0), '2', 10),
        10,
        "nobody is slow at the start, and the first of equals is taken"
    );
    let second = service.server("s2").unwrap();
    service.set_healthy(at(0), second, false);
    service.set_healthy(at(1_000), second, true);
    // It has fewer connections than the other all the time, which would give it all.
    let first = service.server("s1").unwrap();
    assert_eq!(service.open(at(1_000), &client(1)), Ok(first));
    let shares = [1_000, 3_500, 6_000, 8_500, 11_000].map(|ms| share(&mut service, at(ms), '2', 1_000));
    assert!((50..150).contains(&shares[0]) && (200..300).contains(&shares[1]), "{shares:?}");
    assert!((450..550).contains(&shares[2]) && (700..800).contains(&shares[3]), "{shares:?}");
    assert_eq!(shares[4], 1_000);
}

#[test]
fn an_agent_sets_weight_limit_and_state() {
    let mut service = service(Scheduler::Wrr, &[4, 4]);
    let first = service.server("s1").unwrap();
    let check = |service: &mut Service, text: &str| {
        service.agent_check(at(0), first, &AgentCheck::parse(text.as_bytes()).unwrap());
    };
    check(&mut service, "50%");
    assert_eq!(share(&mut service, at(0), '1', 30), 10);
    check(&mut service, "100% drain");
    assert_eq!(share(&mut service, at(0), '1', 30), 0);
    assert_eq!(unavailable(&service, at(0)), [Some(Unavailable::Draining), None]);
    check(&mut service, "ready down # disk full");
    assert_eq!(unavailable(&service, at(0)), [Some(Unavailable::Down), None]);
    check(&mut service, "up maxconn:2");
    let ids: Vec<_> = (0..6).map(|_| open(&mut service, at(0))).collect();
    assert_eq!(ids.iter().filter(|&&id| id == first).count(), 2);
    assert_eq!(unavailable(&service, at(0)), [Some(Unavailable::Full), None]);
    check(&mut service, "maxconn:0");
    assert_eq!(unavailable(&service, at(0)), [None, None]);
}

#[test]
fn a_silent_agent_makes_a_server_unknown_not_idle() {
    let mut spec = ServiceSpec::new(Scheduler::Utilisation, servers(&[1, 1, 1]));
    spec.blackout = Span::ZERO;
    let mut service = Service::new(at(0), spec, 1).unwrap();
    let report = |service: &mut Service, now, name, cpu, requests| {
        let id = service.server(name).unwrap();
        let report =
            LoadReport { cpu_permille: Some(cpu), requests_per_kilosecond: Some(requests), ..LoadReport::default() };
        service.report(now, id, report);
    };
    // 100 and 300 requests a second at full use, and one of which nobody knows: it is taken for the median.
    report(&mut service, at(0), "s1", 500, 50_000);
    report(&mut service, at(0), "s2", 500, 150_000);
    let shares = ['1', '2', '3'].map(|server| share(&mut service, at(100), server, 700) / 10);
    assert_eq!(shares, [10, 30, 30]);
    // Long after, nothing is known of anybody.
    let shares = ['1', '2', '3'].map(|server| share(&mut service, at(9_000), server, 600) / 10);
    assert_eq!(shares, [20, 20, 20]);
}

#[test]
fn errors_cost_a_server_its_share() {
    let mut spec = ServiceSpec::new(Scheduler::Utilisation, servers(&[1, 1]));
    spec.blackout = Span::ZERO;
    let mut service = Service::new(at(0), spec, 1).unwrap();
    for (name, errors) in [("s1", 0), ("s2", 50_000)] {
        let id = service.server(name).unwrap();
        let report = LoadReport {
            application_permille: Some(500),
            requests_per_kilosecond: Some(100_000),
            errors_per_kilosecond: Some(errors),
            ..LoadReport::default()
        };
        service.report(at(0), id, report);
    }
    // 100 / 0.5 to 100 / (0.5 + 0.5).
    assert_eq!(share(&mut service, at(10), '2', 300), 100);
}
