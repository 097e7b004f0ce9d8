//! A service from outside: connections come and go, and somebody gets them.

use balance::{Client, Outcome, Scheduler, ServerId, ServerSpec, Service, ServiceSpec};
use machine::Time;

fn service(scheduler: Scheduler, servers: usize) -> Service {
    let servers = (1..=servers).map(|n| ServerSpec::new(format!("s{n}"), [10, 0, 0, n as u8].into(), 80)).collect();
    Service::new(Time::ZERO, ServiceSpec::new(scheduler, servers), 1).unwrap()
}

fn open(service: &mut Service) -> ServerId {
    service.open(Time::ZERO, &Client { address: 1, port: 1 }).unwrap()
}

fn opened(service: &mut Service, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            let id = open(service);
            service.name(id).unwrap().to_owned()
        })
        .collect()
}

#[test]
fn turns_go_round_beginning_with_the_server_that_came_last() {
    let mut service = service(Scheduler::Rr, 3);
    assert_eq!(opened(&mut service, 4), ["s3", "s2", "s1", "s3"]);
}

#[test]
fn the_fewest_connections_win() {
    let mut service = service(Scheduler::Lc, 3);
    let first = open(&mut service);
    assert_eq!(opened(&mut service, 2), ["s2", "s1"]);
    service.close(Time::ZERO, first, false, Outcome::Completed);
    assert_eq!(opened(&mut service, 1), ["s3"]);
}
