//! `link`: cables of a running network, pulled and plugged in.

use miette::Report;
use serde_json::json;

use super::explain;
use super::instance::{connect, running};
use crate::cli::{Format, Link, LinkState};
use crate::output::{Rows, print_json, put};

/// Takes links down, or up.
pub fn link(args: &Link, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle link --name NETWORK ..`")?)?;
    let set = instance.set_link(&args.a, &args.b, args.number, args.state == LinkState::Up).map_err(explain)?;
    let state = if set.up { "up" } else { "down" };
    match format {
        Format::Table => {
            let was = if set.changed == 0 { " already" } else { "" };
            let is = if set.links.len() == 1 { "is" } else { "are" };
            put(&format!("{} {is} {state}{was}\n", set.links.join(", ")))
        }
        Format::Json => print_json(&set),
        Format::Csv => {
            let mut rows = Rows::new(&["link", "state"]);
            for link in &set.links {
                rows.push([json!(link), json!(state)]);
            }
            put(&rows.render(format))
        }
    }
}
