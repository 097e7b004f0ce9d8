//! `show services`, `service`: who serves, and what is said about servers while they do.

use fabric::{Fabric, socket_address};
use live::Instance;
use live::control::{EjectionStatus, ServerChange, ServerStatus, ServiceStatus};
use miette::Report;
use serde_json::{Value, json};

use super::explain;
use super::instance::{connect, readings, running};
use crate::cli::{Format, Service, ServiceAction};
use crate::output::{Rows, print_json, put};

/// One row for each server of each service, and one for what no server has got.
pub fn services(instance: &Instance, format: Format) -> Result<Rows, Report> {
    let (before, after, seconds) = readings(instance, |counters| !counters.services.is_empty())?;
    Ok(rows(&before.services, &after.services, seconds, format))
}

/// The same of a file, which says what there is.
pub fn services_of_file(fabric: &Fabric) -> Rows {
    let mut rows = Rows::new(&["service", "address", "protocol", "scheduler", "forward", "servers"]);
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
    rows
}

fn rows(before: &[ServiceStatus], after: &[ServiceStatus], seconds: f64, format: Format) -> Rows {
    let mut rows = Rows::new(&COLUMNS).with_rare(&RARE).with_spare(&SPARE);
    for service in after {
        let was = before.iter().find(|was| was.service == service.service);
        for server in &service.servers {
            let was = was.and_then(|was| was.servers.iter().find(|was| was.server == server.server));
            let mut row = server_row(service, was, server, seconds);
            // Why is too long for a table's cell.
            if let (Format::Table, Some(why)) = (format, why(server)) {
                let state = server.out.as_deref().unwrap_or("up");
                rows.remark(format!("{}: {} is {state}: {why}", service.service, server.server));
                row[COLUMNS.len() - 1] = Value::Null;
            }
            rows.push(row);
        }
        if !["", "user-space"].contains(&service.path.as_str()) {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            [row[0], row[4]] = [
                json!(service.service),
                json!(format!("path: {}, {} packets by the kernel", service.path, service.by_kernel)),
            ];
            rows.push(row);
        }
        for balancer in &service.balancers {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            let state = format!("balancer: {}", balancer.role.name());
            [row[0], row[3], row[4], row[6]] =
                [json!(service.service), json!(balancer.balancer), json!(state), json!(balancer.connections)];
            rows.push(row);
        }
        for (what, count) in service.counters.named().into_iter().filter(|(_, count)| *count > 0) {
            let mut row = [const { Value::Null }; COLUMNS.len()];
            [row[0], row[4], row[9]] = [json!(service.service), json!(what), json!(count)];
            rows.push(row);
        }
    }
    rows
}

/// Columns that a table has only where somebody reports something.
const RARE: [&str; 3] = ["cpu-%", "memory-%", "why"];

/// Columns that a terminal of 80 characters has no room for, those first that say what stands in the file.
const SPARE: [&str; 9] =
    ["scheduler", "forward", "memory-%", "cpu-%", "inactive", "in-mbit/s", "out-mbit/s", "weight", "latency-ms"];

const COLUMNS: [&str; 17] = [
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
];

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
        json!(server.out.as_deref().unwrap_or("up")),
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
    ]
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

/// Changes a server of a running service.
pub fn service(args: &Service, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle service --name NETWORK ..`")?)?;
    let (at, change, done) = match &args.action {
        ServiceAction::Drain { at } => (at, ServerChange::Drain(true), "drains".to_owned()),
        ServiceAction::Enable { at } => (at, ServerChange::Drain(false), "gets connections".to_owned()),
        ServiceAction::Weight { at, weight } => (at, ServerChange::Weight(*weight), format!("has weight {weight}")),
    };
    instance.change_server(&at.service, &at.server, change).map_err(explain)?;
    match format {
        Format::Table => put(&format!("{}: {} {done}\n", at.service, at.server)),
        Format::Json => print_json(&json!({ "service": at.service, "server": at.server, "done": done })),
        Format::Csv => {
            let mut rows = Rows::new(&["service", "server", "done"]);
            rows.push([json!(at.service), json!(at.server), json!(done)]);
            put(&rows.render(format))
        }
    }
}
