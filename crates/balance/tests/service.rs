//! A service from outside: connections come and go, and somebody gets them.

mod changes;
mod failures;
mod ipvs;
mod properties;

use balance::{Client, Outcome, Scheduler, ServerId, ServerSpec, Service, ServiceSpec};
use machine::Time;

/// `s1` to `sN` with these weights.
pub fn servers(weights: &[u32]) -> Vec<ServerSpec> {
    let server = |(n, &weight)| {
        let address = [10, 0, 0, n as u8 + 1].into();
        ServerSpec { weight, ..ServerSpec::new(format!("s{}", n + 1), address, 80) }
    };
    weights.iter().enumerate().map(server).collect()
}

pub fn service(scheduler: Scheduler, weights: &[u32]) -> Service {
    Service::new(Time::ZERO, ServiceSpec::new(scheduler, servers(weights)), 1).unwrap()
}

pub fn client(n: u32) -> Client {
    Client { address: u128::from(n), port: 1_024 + n as u16 }
}

pub fn open(service: &mut Service, now: Time) -> ServerId {
    service.open(now, &client(1)).unwrap()
}

/// Who gets the next connections, as digits.
pub fn opened(service: &mut Service, count: usize) -> String {
    (0..count)
        .map(|_| {
            let id = open(service, Time::ZERO);
            number(service, id)
        })
        .collect()
}

/// The digit of a server's name.
pub fn number(service: &Service, id: ServerId) -> char {
    service.name(id).unwrap().chars().last().unwrap()
}

pub fn close(service: &mut Service, id: ServerId) {
    service.close(Time::ZERO, id, false, Outcome::Completed);
}
