//! `up`, `down`, `show`, `exec`, `clean`: running networks.

use std::os::unix::process::CommandExt;
use std::path::Path;

use fabric::{Fabric, Overrides, Source};
use live::{Instance, StartOptions};
use miette::{Report, miette};
use serde_json::json;

use super::explain;

use super::{describe, file, measure};
use crate::cli::{Daemon, Down, Exec, Format, Show, Up, What};
use crate::output::{Rows, print_json};

/// Starts a network, or changes the running one to match the file.
pub fn up(args: &Up, format: Format) -> Result<(), Report> {
    let (source, fabric) = file::read(&args.file.file)?;
    let name = args.name.as_deref().unwrap_or(&fabric.name);
    let (instance, started) = match Instance::connect(name).map_err(explain)? {
        Some(instance) => (instance, false),
        None => (
            Instance::start(&StartOptions {
                name: name.to_owned(),
                ephemeral: false,
                program: measure::this_program()?,
            })
            .map_err(explain)?,
            true,
        ),
    };
    let applied = match instance.apply(&source, &Overrides::default()) {
        Ok(applied) => applied,
        Err(error) => {
            // What this command started and could not fill does not stay.
            if started {
                instance.down().map_err(explain)?;
            }
            return Err(explain(error));
        }
    };
    if format == Format::Json {
        return print_json(&applied);
    }
    println!("{name} is up: {applied}");
    eprintln!("Next: heddle exec {} -- COMMAND, heddle show counters, heddle down", fabric.nodes[0].name);
    Ok(())
}

/// Stops one network, or all.
pub fn down(args: &Down) -> Result<(), Report> {
    let names = if args.all { Instance::list().map_err(explain)? } else { vec![running(args.name.as_deref())?] };
    for name in names {
        connect(&name)?.down().map_err(explain)?;
        println!("{name} is down");
    }
    Ok(())
}

/// Shows one aspect of a running network or a file.
pub fn show(args: &Show, format: Format) -> Result<(), Report> {
    let rows = match &args.from {
        Some(path) if Path::new(path).is_file() => of_file(&file::read(Path::new(path))?.1, args.what, path)?,
        name => of_instance(&connect(&running(name.as_deref())?)?, args.what)?,
    };
    print!("{}", rows.render(format));
    Ok(())
}

fn of_file(fabric: &Fabric, what: What, path: &str) -> Result<Rows, Report> {
    match what {
        What::Nodes => Ok(describe::nodes(fabric)),
        What::Links => Ok(describe::links(fabric)),
        What::Flows | What::Counters => {
            Err(miette!(help = format!("heddle up {path}"), "flows and counters are those of a running network"))
        }
    }
}

fn of_instance(instance: &Instance, what: What) -> Result<Rows, Report> {
    let status = instance.status().map_err(explain)?;
    let source = Source { name: status.file.clone(), text: status.text.clone() };
    let fabric = fabric::parse(&source)?.with(&status.overrides);
    Ok(match what {
        What::Nodes => describe::nodes(&fabric),
        What::Links => describe::links(&fabric),
        What::Flows => flows(&fabric, &instance.counters().map_err(explain)?),
        What::Counters => counters(&instance.counters().map_err(explain)?),
    })
}

/// One row for each switch and destination, as `ovs-ofctl dump-flows` has one for each entry.
fn flows(fabric: &Fabric, counters: &live::Counters) -> Rows {
    let routes = fabric::Routes::compute(fabric);
    let mut rows = Rows::new(&["switch", "to", "ports", "packets"]);
    for entry in &counters.forwarded {
        let (Some(switch), Some(host)) = (fabric.node(&entry.switch), fabric.node(&entry.host)) else { continue };
        let ports: Vec<String> = routes.next_hops(switch, host).iter().map(|port| port.0.to_string()).collect();
        rows.push([json!(entry.switch), json!(entry.host), json!(ports.join(" ")), json!(entry.packets)]);
    }
    rows
}

/// One row for each direction of each link, and one for what each host's port would not take.
fn counters(counters: &live::Counters) -> Rows {
    let mut rows = Rows::new(&["from", "to", "packets", "bytes", "drops", "queue-peak"]);
    for link in &counters.links {
        for (from, to, counted) in [(&link.a, &link.b, link.forward), (&link.b, &link.a, link.backward)] {
            rows.push([
                json!(from),
                json!(to),
                json!(counted.packets),
                json!(counted.bytes),
                json!(counted.drops),
                json!(counted.queue_peak),
            ]);
        }
    }
    for port in &counters.ports {
        let traffic = port.traffic;
        let port_name = json!(format!("{}:eth0", port.host));
        let (packets, bytes) = (json!(traffic.received_packets), json!(traffic.received_bytes));
        rows.push([json!(port.host), port_name, packets, bytes, json!(traffic.drops), json!(null)]);
    }
    rows
}

/// Becomes a program in a host.
pub fn exec(args: &Exec) -> Result<(), Report> {
    let instance = connect(&running(args.name.as_deref())?)?;
    let mut command = instance.command(&args.host, &args.command[0], &args.command[1..]).map_err(explain)?;
    let error = command.exec();
    Err(miette!("cannot run {} in {}: {error}", args.command[0], args.host))
}

/// Removes what crashed networks left behind.
pub fn clean(format: Format) -> Result<(), Report> {
    let cleaned = live::clean().map_err(explain)?;
    if format == Format::Json {
        return print_json(&cleaned);
    }
    println!("{cleaned}");
    Ok(())
}

/// The process behind `up`.
pub fn daemon(args: &Daemon) -> Result<(), Report> {
    live::daemon::serve(&live::daemon::Options { instance: args.instance.clone(), ephemeral: args.ephemeral }).map_err(explain)?;
    Ok(())
}

fn connect(name: &str) -> Result<Instance, Report> {
    Instance::connect(name).map_err(explain)?.ok_or_else(|| miette!(help = "heddle up FILE starts one", "no network called {name} is running"))
}

/// The network that is meant when the command line may leave it out.
fn running(name: Option<&str>) -> Result<String, Report> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let mut names = Instance::list().map_err(explain)?;
    match names.len() {
        0 => Err(miette!(help = "heddle up FILE starts one", "no network is running")),
        1 => Ok(names.remove(0)),
        _ => Err(miette!(help = "say which one", "several networks are running: {}", names.join(", "))),
    }
}
