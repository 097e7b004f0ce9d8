//! `datagrams`: the ends of a flow at a constant rate, as `run` starts them in hosts. Each says one line of JSON at its end.

use std::time::Duration;

use live::datagrams::{Receiving, Sending};
use miette::{IntoDiagnostic, Report};

use super::explain;
use crate::cli::Datagrams;
use crate::output::put;

/// Sends, or receives.
pub fn datagrams(end: &Datagrams) -> Result<(), Report> {
    let line = match *end {
        Datagrams::Send { rate, count, bytes, to } => {
            let sending = Sending { to, rate_pps: rate, datagrams: count, bytes: usize::from(bytes) };
            serde_json::to_string(&live::datagrams::send(&sending).map_err(explain)?)
        }
        Datagrams::Receive { port, rate, from, to, patience_ms } => {
            let patience = Duration::from_millis(patience_ms);
            let receiving = Receiving { port, rate_pps: rate, measured: from..to, patience };
            serde_json::to_string(&live::datagrams::receive(&receiving, std::io::stdout()).map_err(explain)?)
        }
    };
    put(&(line.into_diagnostic()? + "\n"))
}
