//! What a connection costs: opened, answered, closed, by scheduler and number of servers. `cargo run --release -p heddle-balance --example schedulers`.
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::time::Instant;

use balance::{Client, Outcome, Scheduler, ServerSpec, Service, ServiceSpec};
use machine::{Rng, Span, Time};

const CONNECTIONS: u32 = 1_000_000;
/// Connections that are open at any time.
const OPEN: usize = 64;

fn main() {
    println!("{:<14}{:>10}{:>10}{:>10}", "ns, servers", 4, 32, 256);
    for scheduler in Scheduler::ALL {
        print!("{:<14}", scheduler.name());
        for servers in [4, 32, 256] {
            print!("{:>10}", nanoseconds(scheduler, servers));
        }
        println!();
    }
}

fn nanoseconds(scheduler: Scheduler, servers: u32) -> u128 {
    let server = |n: u32| ServerSpec::new(format!("s{n}"), std::net::Ipv4Addr::from(0x0a02_0001 + n).into(), 80);
    let spec = ServiceSpec::new(scheduler, (0..servers).map(server).collect());
    let mut service = Service::new(Time::ZERO, spec, 1).expect("the servers are in order");
    let mut rng = Rng::new(1);
    let mut now = Time::ZERO;
    let mut open = Vec::with_capacity(OPEN);
    let start = Instant::now();
    for _ in 0..CONNECTIONS {
        now += Span::from_us(1);
        let client = Client { address: u128::from(rng.bits() as u32), port: 1 };
        open.push(service.open(now, &client).expect("nobody is out"));
        if open.len() == OPEN {
            let server = open.swap_remove(rng.below(OPEN as u32) as usize);
            service.answered(now, server, Span::from_us(OPEN as u64));
            service.close(now, server, false, Outcome::Completed);
        }
    }
    start.elapsed().as_nanos() / u128::from(CONNECTIONS)
}
