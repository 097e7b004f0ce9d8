//! `flow`, `group`, `meter`: tables of flows of a running network.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use fabric::{Fabric, FlowCommand, FlowInput, find_switch, selection, table_changes};
use live::control::{FlowEntry, GroupCounters, MeterEntry, SwitchConnections, SwitchFlows};
use live::{Error, Instance};
use miette::{Context as _, IntoDiagnostic, Report, miette};
use serde_json::json;
use topology::{NodeId, Topology};
use vswitch::flow_table::{self, FlowError, PRIORITY, Ports};

use super::explain;
use super::instance::{connect, definition, running};
use super::trace::host_names;
use crate::cli::{Flow, FlowAction, FlowsShown, Format, Group, GroupAction, GroupsShown, Meter, MeterAction};
use crate::output::{Rows, fitting, print_json, put, with_hyphens};

/// Changes or shows flows.
pub fn flow(args: &Flow, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle flow --name NETWORK ..`")?)?;
    let change = |switch: &str, command, texts: &[String]| change(&instance, switch, command, texts, format);
    match &args.action {
        FlowAction::Add(flows) => change(&flows.switch, (FlowCommand::Add, false), &flows.flows),
        FlowAction::Mod(flows) => change(&flows.switch, (FlowCommand::Modify, flows.strict), &flows.flows),
        FlowAction::Del(flows) => {
            change(&flows.switch, (FlowCommand::Delete, flows.strict), &all_if_none(&flows.flows))
        }
        FlowAction::Show(FlowsShown { switch, flows, names, no_names }) => {
            let wanted = flows.as_deref().unwrap_or_default();
            let now = definition(&instance)?;
            if let Some(switch) = switch {
                let node = find_switch(&now.topology, switch).map_err(|error| explain(error.into()))?;
                selection((&now.topology, node), wanted)?;
            }
            let mut all = instance.flows(switch.as_deref(), wanted).map_err(explain)?;
            if format == Format::Table && are_named(*names, *no_names) {
                name_ports(&mut all, &now.topology);
            }
            put(&self::flows(&all, switch.as_deref(), format))
        }
    }
}

/// Changes or shows groups.
pub fn group(args: &Group, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle group --name NETWORK ..`")?)?;
    let change = |switch: &str, command, texts: &[String]| change(&instance, switch, (command, false), texts, format);
    match &args.action {
        GroupAction::Add(groups) => change(&groups.switch, FlowCommand::AddGroup, &groups.groups),
        GroupAction::Mod(groups) => change(&groups.switch, FlowCommand::ModifyGroup, &groups.groups),
        GroupAction::Del(groups) => change(&groups.switch, FlowCommand::DeleteGroup, &all_if_none(&groups.groups)),
        GroupAction::Stats(shown) => show_group_counters(&groups_shown(&instance, shown)?, format),
        GroupAction::Show(shown) => {
            let switch = shown.switch.as_deref();
            let now = definition(&instance)?;
            let nothing = || Ok(no_groups(switch, &now.topology));
            let mut all = groups_shown(&instance, shown)?;
            if format == Format::Table && are_named(false, false) {
                name_ports(&mut all, &now.topology);
            }
            show_groups(&all, &nothing, format)
        }
    }
}

/// Changes or shows meters.
pub fn meter(args: &Meter, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle meter --name NETWORK ..`")?)?;
    let change = |switch: &str, command, texts: &[String]| change(&instance, switch, (command, false), texts, format);
    match &args.action {
        MeterAction::Add(meters) => change(&meters.switch, FlowCommand::AddMeter, &meters.meters),
        MeterAction::Mod(meters) => change(&meters.switch, FlowCommand::ModifyMeter, &meters.meters),
        MeterAction::Del(meters) => change(&meters.switch, FlowCommand::DeleteMeter, &all_if_none(&meters.meters)),
        MeterAction::Show(shown) => {
            let switch = shown.switch.as_deref();
            let mut all = instance.flows(switch, "").map_err(explain)?;
            if let Some(number) = number(shown, flow_table::Meter::parse_number)? {
                for of in &mut all {
                    of.meters.retain(|meter| meter.id == number);
                }
                if all.iter().all(|of| of.meters.is_empty()) {
                    return Err(is_missing("meter", number, shown));
                }
            }
            put(&meters(&all, switch, format))
        }
    }
}

/// What switches have, with the one group that is asked for, or all.
fn groups_shown(instance: &Instance, shown: &GroupsShown) -> Result<Vec<SwitchFlows>, Report> {
    let switch = shown.switch.as_deref();
    let mut all = instance.flows(switch, "").map_err(explain)?;
    let Some(number) = number(shown, flow_table::Group::parse_number)? else { return Ok(all) };
    for SwitchFlows { groups, group_counters, .. } in &mut all {
        // They stand in one order.
        let mut ids = group_counters.iter().map(|group| group.id);
        groups.retain(|_| ids.next() == Some(number));
        group_counters.retain(|group| group.id == number);
    }
    all.retain(|of| !of.groups.is_empty());
    if all.is_empty() { Err(is_missing("group", number, shown)) } else { Ok(all) }
}

/// The number of the group or meter that is asked for.
fn number(shown: &GroupsShown, parse: impl Fn(&str) -> Result<Option<u32>, FlowError>) -> Result<Option<u32>, Report> {
    let Some(text) = &shown.number else { return Ok(None) };
    parse(text).map_err(|FlowError { message, hint, .. }| miette!(help = hint, "{message}"))
}

/// What is said where a switch has no group or meter of this number.
fn is_missing(what: &str, number: u32, shown: &GroupsShown) -> Report {
    let switch = shown.switch.as_deref().unwrap_or_default();
    miette!(
        help = format!("`heddle {what} show {switch}` lists those that there are"),
        "{switch} has no {what} {number}"
    )
}

/// Whether ports are shown by name: on a terminal, as by ovs-ofctl, unless somebody says otherwise.
pub fn are_named(names: bool, no_names: bool) -> bool {
    names || (!no_names && lab::terminal::columns().is_some())
}

/// Gives ports of flows and groups their names, by which they are understood as well.
pub fn name_ports(all: &mut [SwitchFlows], topology: &Topology) {
    for SwitchFlows { switch, entries, groups, .. } in all {
        let Ok(node) = find_switch(topology, switch) else { continue };
        let ports = Ports::of(topology, node);
        for entry in entries {
            entry.matching = ports.named_in(&entry.matching);
            entry.actions = ports.named_in(&entry.actions);
        }
        for group in groups {
            *group = ports.named_in(group);
        }
    }
}

/// Without a text all are meant, which an empty text says.
fn all_if_none(texts: &[String]) -> Vec<String> {
    if texts.is_empty() { vec![String::new()] } else { texts.to_vec() }
}

/// Bytes of flows in a file or on standard input: as JSON, they fit a request to a network.
const INPUT_MAX: u64 = 5 << 20;

/// What stands on the command line, or, for `-` and for the name of a file, its lines that are neither empty nor comments, nor the name of a switch, which
/// stands above the flows that `flow show` prints.
fn inputs(words: &[String], fabric: &Fabric) -> Result<Vec<FlowInput>, Report> {
    let topology = &fabric.topology;
    let mut inputs = Vec::new();
    for word in words {
        let (name, text) = if word == "-" {
            ("standard input", read("standard input", std::io::stdin())?)
        } else if is_file(word) {
            if !Path::new(word).is_file() {
                return Err(miette!(
                    help = "a flow is written as in 'tcp,tp_dst=80,actions=drop'",
                    "there is no file {word}, and a flow it is not"
                ));
            }
            let file = File::open(word).into_diagnostic().wrap_err_with(|| format!("cannot read {word}"))?;
            (word.as_str(), read(word, file)?)
        } else {
            inputs.push(FlowInput::of_command_line(host_names::with_addresses(fabric, word)?));
            continue;
        };
        let text = host_names::with_known_addresses(fabric, &text);
        let is_heading = |input: &FlowInput| {
            let heading = input.text().strip_suffix(':');
            heading.is_some_and(|name| find_switch(topology, name).is_ok())
        };
        let (headings, flows): (Vec<_>, Vec<_>) = FlowInput::lines(name, text).into_iter().partition(is_heading);
        if headings.len() > 1 {
            return Err(miette!(
                help = "give each switch its own: `heddle flow show SWITCH | heddle flow add SWITCH -`",
                "{name} has flows of {} switches",
                headings.len()
            ));
        }
        inputs.extend(flows);
    }
    Ok(inputs)
}

/// Whether a word is the name of a file, and no flow: it has a folder or an ending, and nothing that flows say.
fn is_file(word: &str) -> bool {
    !word.contains(['=', ',']) && word.contains(['/', '.'])
}

fn read(name: &str, from: impl Read) -> Result<String, Report> {
    let mut all = String::new();
    from.take(INPUT_MAX + 1)
        .read_to_string(&mut all)
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot read {name}"))?;
    if all.len() as u64 > INPUT_MAX {
        return Err(miette!(
            help = "give them in several commands: `split -C 4m FLOWS part.; for part in part.*; do heddle flow add SWITCH - < $part; done`",
            "{name} has more than {INPUT_MAX} bytes, as many as a network takes at once"
        ));
    }
    Ok(all)
}

fn change(
    instance: &Instance,
    switch: &str,
    command: (FlowCommand, bool),
    words: &[String],
    format: Format,
) -> Result<(), Report> {
    let now = definition(instance)?;
    let inputs = inputs(words, &now)?;
    let node = find_switch(&now.topology, switch).map_err(|error| explain(Error::from(error)))?;
    // Here it can be shown where a mistake is.
    table_changes((&now.topology, node), command, &inputs)?;
    let texts: Vec<String> = inputs.iter().map(|input| input.text().to_owned()).collect();
    let does = |wanted: FlowCommand| inputs.iter().any(|input| input.command(command).0.0 == wanted);
    let had_normal = does(FlowCommand::Delete) && has_normal(instance, switch)?;
    let changed = instance.change_flows(switch, command, &texts).map_err(explain)?;
    if had_normal && !has_normal(instance, switch)? {
        eprintln!(
            "note: {switch} forwards nothing by its routes any more: the entry that does is gone as well (hint: heddle flow add {switch} priority=0,actions=NORMAL)"
        );
    }
    let is_for_controller = |text: &String| text.to_ascii_lowercase().contains("controller");
    if matches!(command.0, FlowCommand::Add | FlowCommand::Modify) && texts.iter().any(is_for_controller) {
        eprintln!(
            "note: no controller listens at {switch}: what is for it is seen by nobody (`heddle capture` and `heddle trace` show packets)"
        );
    }
    let (what, done) = match command.0 {
        FlowCommand::Add if does(FlowCommand::Modify) || does(FlowCommand::Delete) => ("flow", "changed"),
        FlowCommand::Add => ("flow", "added"),
        FlowCommand::Modify => ("flow", "changed"),
        FlowCommand::Delete => ("flow", "removed"),
        FlowCommand::AddGroup => ("group", "added"),
        FlowCommand::ModifyGroup => ("group", "changed"),
        FlowCommand::DeleteGroup => ("group", "removed"),
        FlowCommand::AddMeter => ("meter", "added"),
        FlowCommand::ModifyMeter => ("meter", "changed"),
        FlowCommand::DeleteMeter => ("meter", "removed"),
    };
    match format {
        Format::Table => put(&format!("{switch}: {changed} {what}{} {done}\n", if changed == 1 { "" } else { "s" })),
        Format::Json => print_json(&json!({ "switch": switch, "changed": changed })),
        Format::Csv => {
            let mut rows = Rows::new(&["switch", "changed"]);
            rows.push([json!(switch), json!(changed)]);
            put(&rows.render(format))
        }
    }
}

/// Whether any packet is forwarded at a switch as if it had no table.
fn has_normal(instance: &Instance, switch: &str) -> Result<bool, Report> {
    let all = instance.flows(Some(switch), "").map_err(explain)?;
    Ok(all.iter().flat_map(|of| &of.entries).any(|entry| entry.actions.contains("NORMAL")))
}

/// What is said where no switch has any flow, and what gives a switch some.
pub const NO_TABLES: &str = "No switch has tables of flows: `flows: { s1: ['actions=normal'] }` in the file gives it some, or `heddle flow add SWITCH ..`; routes are in `heddle show routes`.";

/// `No switch has`, or that the one that was asked for has none.
fn none_has(switch: Option<&str>) -> String {
    switch.map_or_else(|| "No switch has".to_owned(), |switch| format!("{switch} has no"))
}

/// What is said where no switch has a group, with a command that makes one of ports that are there: where a switch hashes, rather those to other switches.
fn no_groups(switch: Option<&str>, topology: &Topology) -> String {
    let asked = switch.and_then(|name| find_switch(topology, name).ok());
    // The first one of those with the most ports.
    let ports_of = |node: &NodeId| Reverse(topology.nodes[*node].ports.len());
    let most_ports = || topology.switches().map(|(node, _)| node).min_by_key(ports_of);
    let Some(node) = asked.or_else(most_ports) else { return format!("{} groups.", none_has(switch)) };
    let name = &topology.nodes[node].name;
    let mut ports: Vec<(bool, usize, &str)> = topology
        .peers(node)
        .enumerate()
        .map(|(port, peer)| {
            let owner = topology.owner(peer);
            (topology.is_host(peer), port, topology.nodes[owner].name.as_str())
        })
        .collect();
    ports.sort_unstable();
    ports.truncate(2);
    // Of two links to one node, its name would be one.
    let is_named = ports.first().map(|port| port.2) != ports.last().map(|port| port.2) || ports.len() == 1;
    let buckets = ports.iter().map(|(_, port, peer)| {
        format!(",bucket=output:{}", if is_named { (*peer).to_owned() } else { port.to_string() })
    });
    let buckets: String = buckets.collect();
    format!("{} groups: `heddle group add {name} group_id=1,type=select{buckets}` makes one.", none_has(switch))
}

/// What is said where no switch has a meter.
fn no_meters(switch: Option<&str>) -> String {
    let at = switch.unwrap_or("SWITCH");
    format!("{} meters: `heddle meter add {at} meter=1,pktps,band=type=drop,rate=500` makes one.", none_has(switch))
}

/// What is said where a switch that was asked for has no flows.
fn no_tables(switch: Option<&str>) -> String {
    let Some(at) = switch else { return NO_TABLES.to_owned() };
    format!(
        "{at} has no tables of flows: `flows: {{ {at}: ['actions=normal'] }}` in the file gives it some, or `heddle flow add {at} ..`; routes are in `heddle show routes`."
    )
}

/// Lines, or what is said where there are none: through a pipe on standard error, since what reads there takes lines for flows.
fn or_say(lines: &str, nothing: &str) -> String {
    match lines {
        "" if lab::terminal::columns().is_none() => {
            eprintln!("{nothing}");
            String::new()
        }
        "" => fitting(&format!("{nothing}\n")),
        lines => fitting(lines),
    }
}

/// Flows as `ovs-ofctl dump-flows` prints them, or as rows.
pub fn flows(all: &[SwitchFlows], switch: Option<&str>, format: Format) -> String {
    if format == Format::Table {
        let mut lines = String::new();
        for SwitchFlows { switch, entries, .. } in all {
            let _ = writeln!(lines, "{switch}:");
            lines.extend(entries.iter().map(dump));
        }
        return or_say(&lines, &no_tables(switch));
    }
    let mut rows = Rows::new(&[
        "switch",
        "table",
        "priority",
        "match",
        "actions",
        "packets",
        "bytes",
        "cookie",
        "idle-timeout-s",
        "hard-timeout-s",
        "duration-s",
        "idle-s",
    ]);
    for (switch, entry) in all.iter().flat_map(|flows| flows.entries.iter().map(move |entry| (&flows.switch, entry))) {
        rows.push([
            json!(switch),
            json!(entry.table),
            json!(entry.priority),
            json!(entry.matching),
            json!(entry.actions),
            json!(entry.packets),
            json!(entry.bytes),
            json!(format!("{:#x}", entry.cookie)),
            json!(entry.idle_timeout_s),
            json!(entry.hard_timeout_s),
            json!(entry.duration_ms as f64 / 1e3),
            json!(entry.idle_ms as f64 / 1e3),
        ]);
    }
    rows.render(format)
}

/// A line of `ovs-ofctl dump-flows`.
fn dump(entry: &FlowEntry) -> String {
    let (s, ms) = (entry.duration_ms / 1_000, entry.duration_ms % 1_000);
    let mut line = format!(
        " cookie={:#x}, duration={s}.{ms:03}s, table={}, n_packets={}, n_bytes={}, ",
        entry.cookie, entry.table, entry.packets, entry.bytes
    );
    for (word, timeout_s) in [("idle_timeout", entry.idle_timeout_s), ("hard_timeout", entry.hard_timeout_s)] {
        if timeout_s > 0 {
            let _ = write!(line, "{word}={timeout_s}, ");
        }
    }
    let mut matched = Vec::new();
    if entry.priority != PRIORITY {
        matched.push(format!("priority={}", entry.priority));
    }
    if !entry.matching.is_empty() {
        matched.push(entry.matching.clone());
    }
    let space = if matched.is_empty() { "" } else { " " };
    let _ = writeln!(line, "{}{space}actions={}", matched.join(","), entry.actions);
    line
}

/// Connections as `ovs-appctl dpctl/dump-conntrack` prints them, or as rows.
pub fn connections(all: &[SwitchConnections], format: Format) -> String {
    if format == Format::Json {
        return format!("{:#}\n", with_hyphens(json!(all)));
    }
    if format == Format::Table {
        let mut lines = String::new();
        for SwitchConnections { switch, counters, connections } in all {
            let _ = writeln!(lines, "{switch}:");
            for connection in connections {
                let _ = writeln!(lines, " {}", connection.text);
            }
            let left = (counters.connections as usize).saturating_sub(connections.len());
            if left > 0 {
                let _ = writeln!(lines, " and {left} more");
            }
        }
        return or_say(
            &lines,
            "No switch tracks connections: flows with `ct` do, and those that have come are kept here.",
        );
    }
    let mut rows = Rows::new(&["switch", "connection", "expires-s"]);
    for SwitchConnections { switch, connections, .. } in all {
        for connection in connections {
            rows.push([json!(switch), json!(connection.text), json!(connection.expires_ms / 1_000)]);
        }
    }
    rows.render(format)
}

fn show_groups(
    all: &[SwitchFlows],
    nothing: &dyn Fn() -> Result<String, Report>,
    format: Format,
) -> Result<(), Report> {
    if format == Format::Table {
        let mut lines = String::new();
        for SwitchFlows { switch, groups, .. } in all.iter().filter(|flows| !flows.groups.is_empty()) {
            let _ = writeln!(lines, "{switch}:");
            for group in groups {
                let _ = writeln!(lines, " {group}");
            }
        }
        let nothing = if lines.is_empty() { nothing()? } else { String::new() };
        return put(&or_say(&lines, &nothing));
    }
    let mut rows = Rows::new(&["switch", "group"]);
    for (switch, group) in all.iter().flat_map(|flows| flows.groups.iter().map(move |group| (&flows.switch, group))) {
        rows.push([json!(switch), json!(group)]);
    }
    put(&rows.render(format))
}

/// Shows what groups have counted as `ovs-ofctl dump-group-stats` prints it, or as rows: one for each group, and one for each of its buckets.
fn show_group_counters(all: &[SwitchFlows], format: Format) -> Result<(), Report> {
    if format == Format::Table {
        let mut lines = String::new();
        for SwitchFlows { switch, group_counters, .. } in all {
            let _ = writeln!(lines, "{switch}:");
            for GroupCounters { id, flows, packets, bytes, duration_ms, buckets } in group_counters {
                let seconds = *duration_ms as f64 / 1e3;
                let _ = write!(
                    lines,
                    " group_id={id},duration={seconds}s,ref_count={flows},packet_count={packets},byte_count={bytes}"
                );
                for (number, (packets, bytes)) in buckets.iter().enumerate() {
                    let _ = write!(lines, ",bucket{number}:packet_count={packets},byte_count={bytes}");
                }
                lines.push('\n');
            }
        }
        return put(&fitting(&lines));
    }
    let mut rows = Rows::new(&["switch", "group", "bucket", "flows", "packets", "bytes", "duration-s"]);
    for SwitchFlows { switch, group_counters, .. } in all {
        for GroupCounters { id, flows, packets, bytes, duration_ms, buckets } in group_counters {
            let of_all = std::iter::once((None, (*packets, *bytes)));
            let of_buckets = buckets.iter().enumerate().map(|(number, counted)| (Some(number), *counted));
            for (bucket, (packets, bytes)) in of_all.chain(of_buckets) {
                let seconds = json!(*duration_ms as f64 / 1e3);
                let flows = json!(bucket.is_none().then_some(flows));
                rows.push([json!(switch), json!(id), json!(bucket), flows, json!(packets), json!(bytes), seconds]);
            }
        }
    }
    put(&rows.render(format))
}

/// Meters as `ovs-ofctl dump-meters` and `meter-stats` print them, or as rows.
pub fn meters(all: &[SwitchFlows], switch: Option<&str>, format: Format) -> String {
    if format == Format::Table {
        let mut lines = String::new();
        for SwitchFlows { switch, meters, .. } in all.iter().filter(|flows| !flows.meters.is_empty()) {
            let _ = writeln!(lines, "{switch}:");
            for meter in meters {
                let _ = write!(lines, " {}\n{}", meter.text, stats(meter));
            }
        }
        return or_say(&lines, &no_meters(switch));
    }
    let mut rows = Rows::new(&[
        "switch",
        "meter",
        "text",
        "flows",
        "packets",
        "bytes",
        "exceeding-packets",
        "exceeding-bytes",
        "duration-s",
    ]);
    for (switch, meter) in all.iter().flat_map(|flows| flows.meters.iter().map(move |meter| (&flows.switch, meter))) {
        let sum = |of: fn(&(u64, u64)) -> u64| json!(meter.bands.iter().map(of).sum::<u64>());
        rows.push([
            json!(switch),
            json!(meter.id),
            json!(meter.text),
            json!(meter.flows),
            json!(meter.packets),
            json!(meter.bytes),
            sum(|band| band.0),
            sum(|band| band.1),
            json!(meter.duration_ms as f64 / 1e3),
        ]);
    }
    rows.render(format)
}

/// The lines of `ovs-ofctl meter-stats` about a meter.
fn stats(meter: &MeterEntry) -> String {
    let MeterEntry { id, text: _, flows, packets, bytes, duration_ms, bands } = meter;
    let (s, ms) = (duration_ms / 1_000, duration_ms % 1_000);
    let mut lines = format!(
        "  meter:{id} flow_count:{flows} packet_in_count:{packets} byte_in_count:{bytes} duration:{s}.{ms:03}s bands:\n"
    );
    for (number, (packets, bytes)) in bands.iter().enumerate() {
        let _ = writeln!(lines, "  {number}: packet_count:{packets} byte_count:{bytes}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_suggested_of_ports_that_are_there() {
        let text = "nodes: { h1: host, h2: host, s1: switch, s2: switch, s3: switch }\nlinks: [{ between: [h1, s1] }, \
                    { between: [h2, s2] }, { between: [s1, s2] }, { between: [s1, s2] }, { between: [s2, s3] }]\n";
        let source = fabric::Source { name: "net".to_owned(), text: text.to_owned() };
        let topology = fabric::parse(&source).expect("a file").topology;
        for (switch, said) in [
            (
                None,
                "No switch has groups: `heddle group add s2 group_id=1,type=select,bucket=output:1,bucket=output:2`",
            ),
            (
                Some("s1"),
                "s1 has no groups: `heddle group add s1 group_id=1,type=select,bucket=output:1,bucket=output:2`",
            ),
            (Some("s3"), "s3 has no groups: `heddle group add s3 group_id=1,type=select,bucket=output:s2`"),
        ] {
            assert_eq!(no_groups(switch, &topology), format!("{said} makes one."));
        }
    }

    #[test]
    fn flows_are_dumped_as_open_vswitch_dumps_them() {
        let entry = FlowEntry {
            priority: 10,
            matching: "tcp,tp_dst=80".to_owned(),
            actions: "output:2".to_owned(),
            duration_ms: 12_034,
            packets: 3,
            bytes: 222,
            ..FlowEntry::default()
        };
        let line = " cookie=0x0, duration=12.034s, table=0, n_packets=3, n_bytes=222, priority=10,tcp,tp_dst=80 actions=output:2\n";
        assert_eq!(dump(&entry), line);
        let all =
            FlowEntry { priority: PRIORITY, actions: "NORMAL".to_owned(), idle_timeout_s: 60, ..FlowEntry::default() };
        let line = " cookie=0x0, duration=0.000s, table=0, n_packets=0, n_bytes=0, idle_timeout=60, actions=NORMAL\n";
        assert_eq!(dump(&all), line);
    }
}
