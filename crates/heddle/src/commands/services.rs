//! `show services`, `service`: who serves, and what is said about servers while they do.

use fabric::{Fabric, socket_address};
use live::Instance;
use live::control::{EjectionStatus, ServerChange, ServerStatus, ServiceStatus};
use miette::Report;
use serde_json::{Map, Value, json};

use super::explain;
use super::instance::{connect, readings, running};
use crate::cli::{Format, Service, ServiceAction};
use crate::output::{Rows, print_json, put};

/// One row for each server of each service; and what is counted of a service as a whole, which a table says below.
pub fn services(instance: &Instance, format: Format) -> Result<Rows, Report> {
    let (before, after, seconds) = readings(instance, |counters| !counters.services.is_empty())?;
    let rows = rows(&before.services, &after.services, seconds, format);
    Ok(if format == Format::Json { rows.with_json(data(&before.services, &after.services, seconds)) } else { rows })
}

const NO_SERVICES: &str =
    "No services: `services: { web: { address: '10.1.0.80:80', servers: [h1, h2] } }` in the file makes one.";

/// The same of a file, which says what there is.
pub fn services_of_file(fabric: &Fabric) -> Rows {
    let columns = ["service", "address", "protocol", "scheduler", "forward", "servers"];
    let mut rows = Rows::new(&columns).or_say(NO_SERVICES);
    for service in &fabric.services {
        let addresses: Vec<String> = service.addresses.iter().map(|at| socket_address(at).to_string()).collect();
        let servers = service.spec.servers.iter().map(|server| match server.weight {
            1 => server.name.clone(),
            weight => format!("{} (weight {weight})", server.name),
        });
        rows.push([
            json!(service.name),
            json!(addresses.join(" ")),
            json!(service.addresses.first().map(datapath::VirtualAddress::protocol_name)),
            json!(service.spec.scheduler.name()),
            json!(service.forwarding.name()),
            json!(servers.collect::<Vec<_>>().join(" ")),
        ]);
    }
    rows.with_json(data_of_file(fabric))
}

/// What JSON has of a file: services, their servers and their balancers, a list each, with those keys of a running network that a file knows.
fn data_of_file(fabric: &Fabric) -> Value {
    let (mut services, mut servers, mut balancers) = (Vec::new(), Vec::new(), Vec::new());
    for service in &fabric.services {
        let (name, spec) = (&service.name, &service.spec);
        let addresses: Vec<String> = service.addresses.iter().map(|at| socket_address(at).to_string()).collect();
        services.push(json!({
            "service": name,
            "addresses": addresses,
            "protocol": service.addresses.first().map(datapath::VirtualAddress::protocol_name),
            "scheduler": spec.scheduler.name(),
            "forward": service.forwarding.name(),
        }));
        let server = |it: &balance::ServerSpec| json!({ "service": name, "server": it.name, "weight": it.weight });
        servers.extend(spec.servers.iter().map(server));
        let balancer =
            |host: &topology::NodeId| json!({ "service": name, "balancer": fabric.topology.nodes[*host].name });
        balancers.extend(service.at.iter().map(balancer));
    }
    json!({ "services": services, "servers": servers, "balancers": balancers })
}

fn rows(before: &[ServiceStatus], after: &[ServiceStatus], seconds: f64, format: Format) -> Rows {
    let mut rows = Rows::new(&COLUMNS).or_say(NO_SERVICES).with_rare(&RARE).with_spare(&SPARE);
    for service in after {
        let was = before.iter().find(|was| was.service == service.service);
        for server in &service.servers {
            let was = was.and_then(|was| was.servers.iter().find(|was| was.server == server.server));
            let mut row = server_row(service, was, server, seconds);
            // Why is too long for a table's cell.
            if let (Format::Table, Some(why)) = (format, why(server)) {
                let state = state(server);
                rows.remark(format!("{}: {} is {state}: {why}", service.service, server.server));
                row[WHY] = Value::Null;
            }
            rows.push(row);
        }
        let has_path = !["", "user-space"].contains(&service.path.as_str());
        if has_path && format == Format::Table {
            rows.remark(format!("{}: {}", service.service, path_in_words(service)));
        } else if has_path {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            [row[0], row[WHY]] = [json!(service.service), json!(path_in_words(service))];
            rows.push(row);
        }
        for balancer in &service.balancers {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            let state = format!("balancer: {}", balancer.role.name());
            [row[0], row[3], row[4], row[KNOWS]] =
                [json!(service.service), json!(balancer.balancer), json!(state), json!(balancer.connections)];
            rows.push(row);
        }
        let counted = service.counters.named().into_iter().filter(|(_, count)| *count > 0);
        if format == Format::Table {
            let counted: Vec<String> = counted.map(|(what, count)| format!("{what} {count}")).collect();
            if !counted.is_empty() {
                rows.remark(format!("{}: {}", service.service, counted.join(", ")));
            }
            continue;
        }
        for (what, count) in counted {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            [row[0], row[COUNTED], row[COUNTED + 1]] = [json!(service.service), json!(what), json!(count)];
            rows.push(row);
        }
    }
    rows
}

/// What JSON has: services, their servers and their balancers, a list each.
fn data(before: &[ServiceStatus], after: &[ServiceStatus], seconds: f64) -> Value {
    let mut servers = Rows::new(COLUMNS.first_chunk::<OF_SERVER>().expect("there are more"));
    let (mut services, mut balancers) = (Vec::new(), Vec::new());
    for service in after {
        let ServiceStatus { service: name, path, by_kernel, kernel_no_room, .. } = service;
        let counters = service.counters.named().into_iter().map(|(what, count)| (what.to_owned(), json!(count)));
        services.push(json!({
            "service": name,
            "addresses": service.addresses,
            "protocol": service.protocol,
            "scheduler": service.scheduler,
            "forward": service.forward,
            "path": path,
            "kernel-packets": by_kernel,
            "kernel-no-room": kernel_no_room,
            "counters": counters.collect::<Map<_, _>>(),
        }));
        let was = before.iter().find(|was| was.service == *name);
        for server in &service.servers {
            let was = was.and_then(|was| was.servers.iter().find(|was| was.server == server.server));
            let row = server_row(service, was, server, seconds);
            servers.push_row(row[..OF_SERVER].to_vec());
        }
        balancers.extend(service.balancers.iter().map(|balancer| {
            let (state, connections) = (balancer.role.name(), balancer.connections);
            json!({ "service": name, "balancer": balancer.balancer, "state": state, "connections": connections })
        }));
    }
    json!({ "services": services, "servers": servers.objects(), "balancers": balancers })
}

/// By which path a service's packets go, and what the kernel's has had no room for.
fn path_in_words(ServiceStatus { path, by_kernel, kernel_no_room, .. }: &ServiceStatus) -> String {
    let full = match kernel_no_room {
        0 => String::new(),
        1 => "; its table was full for 1 connection, which goes by the worker".to_owned(),
        many => format!("; its table was full for {many} connections, which go by the worker"),
    };
    let packets = if *by_kernel == 1 { "packet" } else { "packets" };
    format!("path: {path}, {by_kernel} {packets} by the kernel{full}")
}

/// Columns that a table has only where somebody reports something.
const RARE: [&str; 6] = ["cpu-%", "memory-%", "knows", "why", "counter", "count"];

/// The column of a balancer's connections to the service, be they its own or a peer's. They are not added to those that servers have.
const KNOWS: usize = 17;

/// So many columns, the first ones, are of servers.
const OF_SERVER: usize = KNOWS;

/// Columns that a terminal of 80 characters has no room for, those first that say what stands in the file; and, at the end, one of 40.
const SPARE: [&str; 11] = [
    "scheduler",
    "forward",
    "memory-%",
    "cpu-%",
    "inactive",
    "in-mbit/s",
    "out-mbit/s",
    "weight",
    "latency-ms",
    "failed",
    "connections",
];

/// The column of what is counted of a service as a whole; behind it, how often. A table says it below.
const COUNTED: usize = 18;

const COLUMNS: [&str; 20] = [
    "service",
    "scheduler",
    "forward",
    "server",
    "state",
    "weight",
    "active",
    "inactive",
    "conn/s",
    "connections",
    "failed",
    "latency-ms",
    "in-mbit/s",
    "out-mbit/s",
    "cpu-%",
    "memory-%",
    "why",
    "knows",
    "counter",
    "count",
];

/// The column of why a server is out.
const WHY: usize = 16;

fn server_row(
    service: &ServiceStatus,
    was: Option<&ServerStatus>,
    server: &ServerStatus,
    seconds: f64,
) -> [Value; COLUMNS.len()] {
    let rate = |now: u64, was: Option<u64>| now.saturating_sub(was.unwrap_or(now)) as f64 / seconds;
    let hundredths = |value: f64| json!((value * 100.0).round() / 100.0);
    let mbit = |bytes: f64| hundredths(bytes * 8.0 / 1e6);
    let percent = |permille: Option<u32>| json!(permille.map(|share| f64::from(share) / 10.0));
    [
        json!(service.service),
        json!(service.scheduler),
        json!(service.forward),
        json!(server.server),
        json!(state(server)),
        json!(server.weight),
        json!(server.active),
        json!(server.inactive),
        json!(rate(server.opened, was.map(|was| was.opened)).round()),
        json!(server.opened),
        json!(server.failed),
        server.latency.map_or(Value::Null, |latency| hundredths(latency.as_ns() as f64 / 1e6)),
        mbit(rate(server.traffic.in_bytes, was.map(|was| was.traffic.in_bytes))),
        mbit(rate(server.traffic.out_bytes, was.map(|was| was.traffic.out_bytes))),
        percent(server.load.and_then(|load| load.cpu_permille)),
        percent(server.load.and_then(|load| load.memory_permille)),
        json!(why(server)),
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}

/// What a server does: `up`, or why it gets no connections. One whose checks fail since its program has begun just now is not taken for broken.
fn state(server: &ServerStatus) -> &str {
    let is_starting = server.health.as_ref().is_some_and(|it| it.is_down && it.is_starting);
    match server.out.as_deref() {
        Some("down") if is_starting => "starting",
        Some(out) => out,
        None => "up",
    }
}

/// Why a server is out, where somebody knows more than that.
fn why(server: &ServerStatus) -> Option<String> {
    let down = server.health.as_ref().filter(|it| it.is_down);
    if let Some(failure) = down.and_then(|health| health.last_failure.as_ref()) {
        return Some(failure.clone());
    }
    let EjectionStatus { reason, remaining } = server.ejection.as_ref()?;
    let seconds = remaining.as_ns().div_ceil(1_000_000_000);
    Some(format!("{reason}; for {seconds} s more"))
}

/// Changes a server of a running service, and says how it stands then.
pub fn service(args: &Service, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle service --name NETWORK ..`")?)?;
    let (at, change) = match &args.action {
        ServiceAction::Drain { at } => (at, ServerChange::Drain(true)),
        ServiceAction::Enable { at } => (at, ServerChange::Drain(false)),
        ServiceAction::Weight { at, weight } => (at, ServerChange::Weight(*weight)),
    };
    instance.change_server(&at.service, &at.server, change).map_err(explain)?;
    let services = instance.counters().map_err(explain)?.services;
    let service = services.iter().find(|service| service.service == at.service);
    let mut servers = service.into_iter().flat_map(|service| &service.servers);
    let now = servers.find(|server| server.server == at.server).cloned().unwrap_or_default();
    let state = now.out.as_deref().unwrap_or("up");
    if let Some(words) = service.and_then(nobody_serves) {
        eprintln!("{words}");
    }
    match format {
        Format::Table => {
            let unheeded = service.map_or_else(String::new, |service| unheeded(change, &service.scheduler));
            put(&format!("{}: {} {}{unheeded}\n", at.service, at.server, stands(change, &now)))
        }
        Format::Json => {
            print_json(&json!({ "service": at.service, "server": at.server, "state": state, "weight": now.weight }))
        }
        Format::Csv => {
            let mut rows = Rows::new(&["service", "server", "state", "weight"]);
            rows.push([json!(at.service), json!(at.server), json!(state), json!(now.weight)]);
            put(&rows.render(format))
        }
    }
}

/// That no server of a service gets connections any more, and why each does not.
fn nobody_serves(service: &ServiceStatus) -> Option<String> {
    let takes = |server: &ServerStatus| server.out.is_none() && server.weight > 0;
    if service.servers.iter().any(takes) {
        return None;
    }
    let why = |server: &ServerStatus| match server.out.as_deref() {
        Some(out) => format!("{} is {out}", server.server),
        None => format!("the weight of {} is 0", server.server),
    };
    let all: Vec<String> = service.servers.iter().map(why).collect();
    Some(format!("No server of `{}` gets connections now ({}): new ones are refused", service.service, all.join(", ")))
}

/// That a service's scheduler does not look at a weight, of those that give all servers the same.
fn unheeded(change: ServerChange, scheduler: &str) -> String {
    let heeds = match scheduler {
        "rr" => "wrr",
        "lc" => "wlc",
        _ => return String::new(),
    };
    match change {
        ServerChange::Weight(1..) => format!("; `{scheduler}` gives all servers the same, `{heeds}` looks at weights"),
        _ => String::new(),
    }
}

/// How a server stands after a change, in words. What has been asked for need not be all that it takes.
fn stands(change: ServerChange, now: &ServerStatus) -> String {
    let ServerStatus { weight, ref out, .. } = *now;
    let has = match change {
        ServerChange::Drain(true) => return "drains".to_owned(),
        // An agent may have shares in hundredths, and this is as it was asked for.
        ServerChange::Weight(asked) => format!("has weight {asked}"),
        ServerChange::Drain(false) if out.is_none() => return "gets connections".to_owned(),
        ServerChange::Drain(false) => "is enabled".to_owned(),
    };
    match (out.as_deref(), weight, change) {
        (None, ..) => has,
        (Some(_), 0, ServerChange::Weight(_)) => format!("{has}: it gets no new connections"),
        (Some(_), 0, ServerChange::Drain(_)) => {
            format!("{has}, but gets no new connections: its weight is 0 (`heddle service weight`)")
        }
        (Some(out), ..) => format!("{has}, but gets no new connections: it is {out}"),
    }
}

#[cfg(test)]
mod tests {
    use live::control::HealthStatus;

    use super::*;

    #[test]
    fn who_looks_at_no_weights_is_said() {
        assert_eq!(
            unheeded(ServerChange::Weight(5), "rr"),
            "; `rr` gives all servers the same, `wrr` looks at weights"
        );
        assert_eq!(unheeded(ServerChange::Weight(0), "rr"), "", "nobody gives one without weight anything");
        assert_eq!(unheeded(ServerChange::Weight(5), "wrr") + &unheeded(ServerChange::Drain(true), "rr"), "");
    }

    #[test]
    fn a_server_whose_program_begins_is_starting() {
        let health = |is_starting| HealthStatus { is_down: true, is_starting, ..HealthStatus::default() };
        let with = |out: &str, is_starting| {
            let health = Some(health(is_starting));
            state(&ServerStatus { out: Some(out.to_owned()), health, ..ServerStatus::default() }).to_owned()
        };
        assert_eq!([with("down", true), with("down", false), with("draining", true)], ["starting", "down", "draining"]);
        assert_eq!(state(&ServerStatus::default()), "up");
    }

    #[test]
    fn it_is_said_when_nobody_serves() {
        let server = |name: &str, out: Option<&str>, weight| ServerStatus {
            server: name.to_owned(),
            out: out.map(str::to_owned),
            weight,
            ..ServerStatus::default()
        };
        let said = |servers: Vec<ServerStatus>| {
            nobody_serves(&ServiceStatus { service: "web".to_owned(), servers, ..ServiceStatus::default() })
        };
        let down = || server("h4", Some("down"), 1);
        assert_eq!(said(vec![down(), server("h5", None, 1)]), None);
        assert_eq!(
            said(vec![down(), server("h5", Some("draining"), 1), server("h6", None, 0)]).as_deref(),
            Some(
                "No server of `web` gets connections now (h4 is down, h5 is draining, the weight of h6 is 0): new ones are refused"
            )
        );
    }

    #[test]
    fn a_full_table_of_the_kernel_is_said() {
        let path = |kernel_no_room| {
            let path = "kernel".to_owned();
            path_in_words(&ServiceStatus { path, by_kernel: 7, kernel_no_room, ..ServiceStatus::default() })
        };
        assert_eq!(path(0), "path: kernel, 7 packets by the kernel");
        assert!(path(1).ends_with("full for 1 connection, which goes by the worker"));
        assert!(path(12).ends_with("full for 12 connections, which go by the worker"));
    }

    #[test]
    fn a_server_that_still_gets_nothing_is_not_said_to_get_connections() {
        let after = |change: ServerChange, weight: u32, out: Option<&str>| {
            stands(change, &ServerStatus { weight, out: out.map(str::to_owned), ..ServerStatus::default() })
        };
        let (enable, weight) = (ServerChange::Drain(false), ServerChange::Weight);
        assert_eq!(after(enable, 1, None), "gets connections");
        let why = "is enabled, but gets no new connections: ";
        assert_eq!(after(enable, 0, Some("draining")), format!("{why}its weight is 0 (`heddle service weight`)"));
        assert_eq!(after(enable, 1, Some("down")), format!("{why}it is down"));
        assert_eq!(after(weight(3), 3, None), "has weight 3");
        assert_eq!(after(weight(0), 0, Some("draining")), "has weight 0: it gets no new connections");
        let drained = "has weight 3, but gets no new connections: it is draining";
        assert_eq!(after(weight(3), 3, Some("draining")), drained);
    }
}
