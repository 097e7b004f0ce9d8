//! `show macs`, `flush macs`: the addresses that switches know.

use live::control::{MacEntry, SwitchMacs};
use miette::Report;
use serde_json::json;

use super::explain;
use super::instance::{connect, running};
use crate::cli::{Flush, FlushTopic, Format};
use crate::output::{Rows, print_json, put};

/// One row for each address of each switch.
pub fn mac_rows(switches: &[SwitchMacs]) -> Rows {
    let mut rows = Rows::new(&["switch", "port", "to", "vlan", "mac", "age-s"]);
    for (switch, MacEntry { port, host, vlan, mac, age_s }) in
        switches.iter().flat_map(|of| of.entries.iter().map(|entry| (&of.switch, entry)))
    {
        let age = age_s.map_or_else(|| json!("static"), |age| json!(age));
        rows.push([json!(switch), json!(port), json!(host), json!(vlan), json!(mac), age]);
    }
    rows
}

/// Has switches forget what they have learned.
pub fn flush(args: &Flush, format: Format) -> Result<(), Report> {
    let FlushTopic::Macs = args.topic;
    let instance = connect(&running(args.network.name.as_deref(), "`heddle flush macs --name NETWORK ..`")?)?;
    let flushed = instance.flush_macs(args.switch.as_deref()).map_err(explain)?;
    let of = args.switch.as_deref().unwrap_or("all switches");
    match format {
        Format::Table => put(&format!("{of}: {flushed} address{} forgotten\n", if flushed == 1 { "" } else { "es" })),
        Format::Json => print_json(&json!({ "switch": args.switch, "forgotten": flushed })),
        Format::Csv => {
            let mut rows = Rows::new(&["switch", "forgotten"]);
            rows.push([json!(args.switch), json!(flushed)]);
            put(&rows.render(format))
        }
    }
}
