//! `metrics`: what a running network counts, as Prometheus reads it.

mod family;
mod network;
mod services;

use std::sync::Arc;

use live::{Counters, Instance};
use miette::{Report, miette};
use requests::page::{PageServer, PageSpec};

use super::instance::{connect, running};
use super::serve::{announce, explain};
use super::signals;
use crate::cli::{Format, Metrics};
use crate::output::put;
use family::{Labels, older, render};

/// What is served, and as what: `OpenMetrics` 1.0 for who asks for it, as Prometheus does; for others its older text format, which a browser shows as well.
const PAGE: PageSpec = PageSpec {
    path: "/metrics",
    asked_for: ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    otherwise: "text/plain; version=0.0.4; charset=utf-8",
};

/// Prints them, or serves them until it is asked to end.
pub fn metrics(args: &Metrics, format: Format) -> Result<(), Report> {
    let name = running(args.of.as_deref().or(args.network.name.as_deref()), "`heddle metrics NETWORK`")?;
    if args.listen.is_empty() {
        if format != Format::Table {
            return Err(miette!(
                help = "`heddle show counters` and `heddle show services` print JSON and CSV",
                "metrics are text of OpenMetrics"
            ));
        }
        let counters = connect(&name)?.counters().map_err(super::explain)?;
        return put(&page(&name, &counters));
    }
    let ending = Arc::default();
    signals::await_end(&ending)?;
    let server = PageServer::open(&args.listen).map_err(|error| explain(&error))?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    announce(&addresses, format);
    let make = |is_open: bool| {
        // Another process may have the network's name by now, or none.
        let instance = Instance::connect(&name).map_err(|error| error.to_string())?;
        let instance = instance.ok_or_else(|| format!("no network {name} is running"))?;
        let page = page(&name, &instance.counters().map_err(|error| error.to_string())?);
        Ok(if is_open { page } else { older(&page) })
    };
    server.run(ending, PAGE, make).map_err(|error| explain(&error))
}

/// What a network with this name has counted.
fn page(name: &str, counters: &Counters) -> String {
    let network: Labels = vec![("network", name.to_owned())];
    let parts = [
        network::links,
        network::hosts,
        network::switches,
        network::bonds,
        network::workers,
        services::chains,
        services::services,
        services::names,
    ];
    render(parts.iter().flat_map(|part| part(&network, counters)).collect())
}

#[cfg(test)]
mod tests;
