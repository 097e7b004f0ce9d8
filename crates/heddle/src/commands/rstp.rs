//! `show rstp`: ports of switches, by RSTP.

use live::Instance;
use live::control::SwitchBridge;
use miette::{Report, miette};
use serde_json::{Value, json};

use super::explain;
use crate::cli::Format;
use crate::output::Rows;

/// The ports of a switch that speaks RSTP, or of all that do.
pub fn bridges(instance: &Instance, switch: Option<&str>, format: Format) -> Result<Rows, Report> {
    let all = instance.bridges().map_err(explain)?;
    let rows = bridge_rows(&all, switch, format);
    if let Some(name) = switch.filter(|name| !all.iter().any(|bridge| bridge.switch == *name)) {
        let help = if all.is_empty() {
            "no switch does: `switches: { s1: { rstp: true } }` in the file has all of them speak it".to_owned()
        } else {
            let names: Vec<&str> = all.iter().map(|bridge| bridge.switch.as_str()).collect();
            format!("there are {}", names.join(", "))
        };
        return Err(miette!(help = help, "there is no switch `{name}` that speaks RSTP"));
    }
    Ok(rows)
}

/// One row for each port of each switch, or of one. A table leaves out what seldom matters, and says who is the root.
fn bridge_rows(all: &[SwitchBridge], switch: Option<&str>, format: Format) -> Rows {
    let is_table = format == Format::Table;
    let mut head = vec!["switch", "port", "to", "role", "state", "cost", "designated", "in", "out", "bad"];
    if !is_table {
        head.extend([
            "bridge",
            "root",
            "root-path-cost",
            "root-port",
            "topology-changes",
            "priority",
            "designated-port",
            "edge",
            "guarded",
            "stp",
            "up",
        ]);
    }
    let mut rows = Rows::new(&head)
        .with_spare(&["bad", "cost", "out", "in"])
        .or_say("No switch speaks RSTP: `switches: { s1: { rstp: true } }` in the file has all of them do.");
    // Other bridges have no name here.
    let name_of = |id: &str| {
        let own = all.iter().find(|bridge| bridge.status.bridge == id);
        own.map_or_else(|| id.to_owned(), |bridge| bridge.switch.clone())
    };
    for SwitchBridge { switch, peers, status } in
        all.iter().filter(|bridge| switch.is_none_or(|it| it == bridge.switch))
    {
        if is_table {
            rows.remark(match status.root_port {
                Some(port) => format!(
                    "{switch} ({}): the root is {}, by port {port}, cost {}; topology changes: {}",
                    status.bridge,
                    name_of(&status.root),
                    status.root_path_cost,
                    status.topology_changes
                ),
                None => {
                    format!("{switch} ({}): the root; topology changes: {}", status.bridge, status.topology_changes)
                }
            });
        }
        for (port, peer) in status.ports.iter().zip(peers) {
            let counters = port.counters;
            let role = match (port.is_guarded, port.is_edge, port.is_stp) {
                _ if !is_table => json!(port.role),
                (true, ..) => json!("guarded"),
                (_, true, _) => json!("edge"),
                (.., true) => json!(format!("{} (stp)", json!(port.role).as_str().unwrap_or_default())),
                _ => json!(port.role),
            };
            let mut row = vec![
                json!(switch),
                json!(port.port),
                json!(peer),
                role,
                json!(port.state),
                json!(port.cost),
                match (is_table, port.has_link) {
                    // It is of no link any more.
                    (true, false) => Value::Null,
                    (true, true) => json!(name_of(&port.designated_bridge)),
                    (false, _) => json!(port.designated_bridge),
                },
                json!(counters.received),
                json!(counters.sent),
                json!(counters.bad + counters.guarded),
            ];
            if !is_table {
                row.extend([
                    json!(status.bridge),
                    json!(status.root),
                    json!(status.root_path_cost),
                    json!(status.root_port),
                    json!(status.topology_changes),
                    json!(port.priority),
                    json!(port.designated_port),
                    json!(port.is_edge),
                    json!(port.is_guarded),
                    json!(port.is_stp),
                    json!(port.has_link),
                ]);
            }
            rows.push_row(row);
        }
    }
    rows
}
