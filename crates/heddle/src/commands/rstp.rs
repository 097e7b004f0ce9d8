//! `show rstp`: ports of switches, by RSTP.

use live::control::SwitchBridge;
use serde_json::json;

use crate::cli::Format;
use crate::output::Rows;

/// One row for each port of each switch. A table leaves out what seldom matters.
pub fn bridge_rows(bridges: &[SwitchBridge], format: Format) -> Rows {
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
    let mut rows = Rows::new(&head);
    for SwitchBridge { switch, peers, status } in bridges {
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
                json!(port.designated_bridge),
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
