//! Specifications that change while connections are open, and clients that are bound or limited.

use balance::{ClientLimit, Outcome, Persistence, Refusal, Scheduler, Service, ServiceSpec, SpecError};
use machine::{Rebase as _, Span, Time};

use super::{client, number, open, opened, servers, service};

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

fn without(service: &Service, name: &str) -> ServiceSpec {
    let mut spec = service.spec().clone();
    spec.servers.retain(|server| server.name != name);
    spec
}

#[test]
fn a_server_that_is_left_out_keeps_its_connections_and_then_is_gone() {
    let mut service = service(Scheduler::Lc, &[1, 1]);
    let id = open(&mut service, at(0));
    assert_eq!(number(&service, id), '2');
    let spec = without(&service, "s2");
    service.apply(at(0), spec).unwrap();
    assert_eq!(opened(&mut service, 3), "111");
    assert_eq!(service.server("s2"), None);
    let left = service.status(at(0)).last().unwrap();
    assert_eq!((&*left.name, left.active), ("s2", 1));
    // One of the same name is another one.
    service.apply(at(0), ServiceSpec::new(Scheduler::Lc, servers(&[1, 1]))).unwrap();
    assert_ne!(service.server("s2"), Some(id));
    assert_eq!(service.status(at(0)).count(), 3);
    service.close(at(0), id, false, Outcome::Completed);
    assert_eq!(service.status(at(0)).count(), 2);
    assert_eq!(service.name(id), None);
    // Whoever gets its place has another identity; what comes late for the old one changes nothing.
    let mut spec = service.spec().clone();
    spec.servers.push(servers(&[1; 3]).pop().unwrap());
    service.apply(at(0), spec).unwrap();
    let third = service.server("s3").unwrap();
    assert!(third.index() == id.index() && third != id);
    service.close(at(0), id, false, Outcome::Reset);
    service.set_healthy(at(0), id, false);
    assert!(service.status(at(0)).all(|server| server.failed == 0 && server.unavailable.is_none()));
}

#[test]
fn those_that_stay_keep_their_counts() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    opened(&mut service, 10);
    service.apply(at(0), ServiceSpec::new(Scheduler::Wlc, servers(&[1, 3, 1]))).unwrap();
    let counts: Vec<_> = service.status(at(0)).map(|server| (server.active, server.weight)).collect();
    assert_eq!(counts, [(5, 1), (5, 3), (0, 1)]);
    // 0/1, then 1/1 of s3 against 5/3 of s2 and so on.
    assert_eq!(opened(&mut service, 3), "332");
}

#[test]
fn a_weight_set_by_hand_holds_until_the_file_has_another() {
    let mut service = service(Scheduler::Wrr, &[1, 1]);
    let first = service.server("s1").unwrap();
    service.set_weight(at(0), first, 3);
    let weight = |service: &Service| service.status(at(0)).next().unwrap().weight;
    service.apply(at(0), service.spec().clone()).unwrap();
    assert_eq!(weight(&service), 3);
    service.apply(at(0), ServiceSpec::new(Scheduler::Wrr, servers(&[2, 1]))).unwrap();
    assert_eq!(weight(&service), 2);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut service = service(Scheduler::Rr, &[1, 1]);
    let mut spec = service.spec().clone();
    spec.servers[0].name = "s2".to_owned();
    assert_eq!(service.apply(at(0), spec), Err(SpecError::Duplicate("s2".to_owned())));
    let mut spec = service.spec().clone();
    spec.servers[0].weight = 65_536;
    assert_eq!(service.apply(at(0), spec).unwrap_err().to_string(), "server `s1`: weight 65536 is more than 65535");
    let mut spec = service.spec().clone();
    (spec.servers[1].connections_max, spec.servers[1].connections_resume) = (Some(1), Some(2));
    let error = service.apply(at(0), spec).unwrap_err().to_string();
    assert_eq!(error, "server `s2`: it would resume above its limit of connections");
    let spec = ServiceSpec { half_life: Span::ZERO, ..service.spec().clone() };
    assert!(service.apply(at(0), spec).unwrap_err().to_string().starts_with("half-life is 0"));
    assert_eq!(opened(&mut service, 4), "2121");
}

#[test]
fn a_bound_client_stays_with_its_server_even_if_that_is_drained() {
    let mut spec = ServiceSpec::new(Scheduler::Rr, servers(&[1, 1, 1]));
    spec.persistence = Some(Persistence { ipv4_prefix: 24, ..Persistence::default() });
    let mut service = Service::new(at(0), spec, 1).unwrap();
    let own = service.open(at(0), &client(0x0a00_0001)).unwrap();
    // Another client of the same network.
    assert_eq!(service.open(at(299), &client(0x0a00_00ff)), Ok(own));
    assert_ne!(service.open(at(299), &client(0x0a00_0101)), Ok(own));
    service.drain(at(300), own, true);
    assert_eq!(service.open(at(598), &client(0x0a00_0001)), Ok(own));
    // The clock is set back, and the client still has its time.
    service.rebase(Span::from_secs(500));
    assert_eq!(service.open(at(397), &client(0x0a00_0001)), Ok(own));
    service.set_healthy(at(398), own, false);
    let other = service.open(at(398), &client(0x0a00_0001)).unwrap();
    assert_ne!(other, own);
    service.set_healthy(at(399), own, true);
    assert_eq!(service.open(at(399), &client(0x0a00_0001)), Ok(other), "bound anew");
    // After its time it is nobody's.
    service.drain(at(399), other, true);
    assert_ne!(service.open(at(800), &client(0x0a00_0001)), Ok(other));
}

#[test]
fn a_client_that_opens_too_many_is_refused() {
    let mut spec = ServiceSpec::new(Scheduler::Rr, servers(&[1]));
    spec.client_limit = Some(ClientLimit { rate: 2, burst: 3, clients_max: 1_000 });
    let mut service = Service::new(at(0), spec, 1).unwrap();
    let opened = |service: &mut Service, s, n| (0..10).filter(|_| service.open(at(s), &client(n)).is_ok()).count();
    assert_eq!(opened(&mut service, 0, 1), 3);
    assert_eq!(opened(&mut service, 0, 2), 3);
    assert_eq!(opened(&mut service, 1, 1), 2);
    assert_eq!(service.open(at(1), &client(1)), Err(Refusal::ClientLimit));
    assert_eq!(service.refused().client_limit, 7 + 7 + 8 + 1);
}

#[test]
fn schedulers_change_under_open_connections() {
    let mut service = service(Scheduler::Rr, &[1, 2, 3]);
    for scheduler in Scheduler::ALL {
        service.apply(at(0), ServiceSpec { scheduler, ..service.spec().clone() }).unwrap();
        for n in 0..50 {
            service.open(at(1), &client(n)).unwrap();
        }
    }
    let active: u32 = service.status(at(1)).map(|server| server.active).sum();
    assert_eq!(active, 50 * Scheduler::ALL.len() as u32);
}
