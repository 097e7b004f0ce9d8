//! `show macs`, `flush`: the addresses and connections that switches know.

use live::control::{MacEntry, SwitchMacs};
use miette::{Report, miette};
use serde_json::json;

use super::explain;
use super::instance::{connect, running};
use crate::cli::{Flush, FlushTopic, Format};
use crate::output::{Rows, print_json, put};

/// One row for each address of each switch.
pub fn mac_rows(switches: &[SwitchMacs]) -> Rows {
    let mut rows = Rows::new(&["switch", "port", "to", "vlan", "mac", "age-s"])
        .or_say("No switch knows any address: none has a host at its ports, and none has come in.");
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
    let (switch, zone) = (args.switch.as_deref(), args.zone);
    if args.topic == FlushTopic::Macs && zone.is_some() {
        return Err(miette!(help = "leave --zone out, or write `flush connections`", "addresses have no zone"));
    }
    let instance = connect(&running(args.network.name.as_deref(), "`heddle flush .. --name NETWORK`")?)?;
    let (flushed, words) = match args.topic {
        FlushTopic::Macs => (instance.flush_macs(switch), ["address", "addresses"]),
        FlushTopic::Connections => (instance.flush_connections(switch, zone), ["connection", "connections"]),
    };
    let flushed = flushed.map_err(explain)?;
    let of = args.switch.as_deref().unwrap_or("all switches");
    match format {
        Format::Table => put(&format!("{of}: {flushed} {} forgotten\n", words[usize::from(flushed != 1)])),
        Format::Json => print_json(&json!({ "switch": args.switch, "forgotten": flushed })),
        Format::Csv => {
            let mut rows = Rows::new(&["switch", "forgotten"]);
            rows.push([json!(args.switch), json!(flushed)]);
            put(&rows.render(format))
        }
    }
}
