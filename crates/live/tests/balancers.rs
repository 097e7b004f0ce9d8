//! Balancers at hosts: real connections outlive one of them, and keepalived takes part in an election.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::bed::{self, Bed, Holding, Running};
use datapath::BalancerRole;
use live::Instance;
use live::control::ServiceStatus;

fn network(service: &str) -> String {
    format!(
        "\
name: balancers
nodes: {{ h1: host, h2: host, h3: host, lb1: host, lb2: host, s1: switch, s2: switch }}
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [h3, s2]
  - between: [lb1, s1]
  - between: [lb2, s2]
  - between: [s1, s2]
services:
  web: {{ address: ['10.1.0.80:80', '[fd68:6564:646c::80]:80'], servers: [h2, h3], scheduler: rr, forward: full-nat, {service} }}
"
    )
}

fn status(network: &Instance) -> ServiceStatus {
    network.counters().unwrap().services.into_iter().next().expect("it is in the file")
}

fn role(network: &Instance, balancer: &str) -> BalancerRole {
    let balancers = status(network).balancers;
    balancers.iter().find(|it| it.balancer == balancer).expect("it is in the file").role
}

fn asked(network: &Instance, address: &str, times: &str) -> Vec<String> {
    let answers = bed::output(network.command("h1", bed::program(), ["ask", address, times]));
    answers.lines().map(str::to_owned).collect()
}

/// Whichever of two is gone, connections go on at the other one, and new ones find it.
#[test]
fn connections_outlive_their_balancer() {
    let Some(bed) = Bed::new() else { return };
    for (name, service) in [("both-active", "at: [lb1, lb2]"), ("one-active", "at: [lb1, lb2], vrrp: { router: 51 }")] {
        let network = bed.up(name, &network(service));
        let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
        bed::wait_until("a balancer is active", || role(&network, "lb1") == BalancerRole::Active);
        let mut held: Vec<(Holding, String)> = (0..8)
            .map(|number| {
                let address = if number % 2 == 0 { "10.1.0.80:80" } else { "[fd68:6564:646c::80]:80" };
                let mut client = Holding::open(&network, "h1", address);
                let server = client.ask();
                (client, server)
            })
            .collect();
        assert_eq!(
            bed::output(network.command("h1", bed::program(), ["ask-from", "10.1.0.80:80", "1"])).trim(),
            "10.1.0.80"
        );
        bed::ping(&network, "h1", &[], 2, "web");
        bed::wait_until("both have all", || status(&network).balancers.iter().all(|it| it.connections >= 8));
        for (balancer, switch, other) in [("lb1", "s1", "lb2"), ("lb2", "s2", "lb1")] {
            network.set_link(balancer, switch, None, false).unwrap();
            for (client, server) in &mut held {
                assert_eq!(client.ask(), *server, "{name}");
            }
            assert_eq!(role(&network, balancer), BalancerRole::Down);
            bed::wait_until("the other one is active", || role(&network, other) == BalancerRole::Active);
            assert_eq!(asked(&network, "web:80", "4").iter().filter(|name| name.starts_with('h')).count(), 4, "{name}");
            network.set_link(balancer, switch, None, true).unwrap();
            bed::wait_until("it is back", || {
                matches!(role(&network, balancer), BalancerRole::Active | BalancerRole::Backup)
            });
        }
        for (client, _) in held {
            assert!(client.ends(), "{name}");
        }
        let web = status(&network);
        assert!(web.servers.iter().all(|server| server.failed == 0) && web.counters.invalid == 0, "{web:?}");
        assert!(web.balancers.iter().all(|balancer| balancer.malformed == 0 && balancer.adopted > 0), "{web:?}");
        network.down().unwrap();
    }
}

/// Connections that began with a SYN cookie go on at the other balancer, with their numbers translated as before, and end there.
#[test]
fn connections_that_began_with_a_cookie_outlive_their_balancer() {
    let Some(bed) = Bed::new() else { return };
    for (name, service) in [
        ("both-active-cookies", "at: [lb1, lb2], half-open: 0"),
        ("one-active-cookies", "at: [lb1, lb2], vrrp: { router: 51 }, half-open: 0"),
    ] {
        let network = bed.up(name, &network(service));
        let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
        bed::wait_until("a balancer is active", || role(&network, "lb1") == BalancerRole::Active);
        let mut held: Vec<(Holding, String)> = (0..8)
            .map(|number| {
                let address = if number % 2 == 0 { "10.1.0.80:80" } else { "[fd68:6564:646c::80]:80" };
                let mut client = Holding::open(&network, "h1", address);
                let server = client.ask();
                (client, server)
            })
            .collect();
        bed::wait_until("both have all", || status(&network).balancers.iter().all(|it| it.connections >= 8));
        for (balancer, switch, other) in [("lb1", "s1", "lb2"), ("lb2", "s2", "lb1")] {
            network.set_link(balancer, switch, None, false).unwrap();
            for (client, server) in &mut held {
                assert_eq!(client.ask(), *server, "{name}");
            }
            bed::wait_until("the other one is active", || role(&network, other) == BalancerRole::Active);
            assert_eq!(asked(&network, "web:80", "4").iter().filter(|name| name.starts_with('h')).count(), 4, "{name}");
            network.set_link(balancer, switch, None, true).unwrap();
            bed::wait_until("it is back", || {
                matches!(role(&network, balancer), BalancerRole::Active | BalancerRole::Backup)
            });
        }
        for (client, _) in held {
            assert!(client.ends(), "{name}");
        }
        let web = status(&network);
        assert!(web.counters.by_cookie >= 16 && web.counters.invalid == 0, "{web:?}");
        assert!(web.balancers.iter().all(|balancer| balancer.malformed == 0 && balancer.adopted > 0), "{web:?}");
        network.down().unwrap();
    }
}

/// keepalived is a backup while the balancer advertises, takes over when that is gone, and gives way when it is back; the balancer gives way to it where it has the higher priority.
#[test]
fn keepalived_takes_part() {
    let Some(bed) = Bed::new() else { return };
    let program =
        ["/usr/sbin/keepalived", "/sbin/keepalived"].into_iter().find(|path| std::path::Path::new(path).exists());
    let Some(program) = program else {
        eprintln!("keepalived is not installed: not tried");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, priority) in [("keepalived-lower", 100), ("keepalived-higher", 250)] {
        let network = bed.up(name, &network("at: [lb1], vrrp: { router: 51, interval: 100ms, partners: lb2 }"));
        bed::wait_until("the balancer is active", || role(&network, "lb1") == BalancerRole::Active);
        let states = folder.path().join(name);
        let configuration = folder.path().join(format!("{name}.conf"));
        let text = format!(
            "global_defs {{\n  vrrp_notify_fifo {}\n}}\nvrrp_instance web {{\n  version 3\n  state BACKUP\n  interface eth0\n  virtual_router_id 51\n  \
             priority {priority}\n  advert_int 0.1\n  virtual_ipaddress {{\n    10.1.0.80\n  }}\n}}\n",
            states.display()
        );
        std::fs::write(&configuration, text).unwrap();
        nix::unistd::mkfifo(&states, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let pid = folder.path().join(format!("{name}.pid"));
        let arguments = [
            "--dont-fork".to_owned(),
            "--vrrp".to_owned(),
            "--log-console".to_owned(),
            format!("--use-file={}", configuration.display()),
            format!("--pid={}", pid.display()),
            format!("--vrrp_pid={}.vrrp", pid.display()),
        ];
        let mut command = network.command("lb2", program, &arguments).unwrap();
        let mut keepalived = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(std::fs::File::open(&states).unwrap()).lines().map_while(Result::ok);
        // `INSTANCE "web" BACKUP 100`
        let mut wait_for = |state: &str| {
            let found = said.find(|line| line.starts_with("INSTANCE") && line.contains(state));
            assert!(found.is_some(), "keepalived has ended without being {state}");
        };
        wait_for("BACKUP");
        if priority == 100 {
            network.set_link("lb1", "s1", None, false).unwrap();
            wait_for("MASTER");
            network.set_link("lb1", "s1", None, true).unwrap();
            wait_for("BACKUP");
            bed::wait_until("the balancer is active", || role(&network, "lb1") == BalancerRole::Active);
        } else {
            wait_for("MASTER");
            bed::wait_until("the balancer has given way", || role(&network, "lb1") == BalancerRole::Backup);
        }
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(keepalived.id().cast_signed()),
            nix::sys::signal::Signal::SIGTERM,
        )
        .unwrap();
        keepalived.wait().unwrap();
        network.down().unwrap();
    }
}
