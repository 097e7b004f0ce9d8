//! `datagrams`: the ends of a flow, as `run` starts them in hosts. Each says one line of JSON at its end.

use std::time::Duration;

use live::datagrams::stream::{self, Sinking, Streaming};
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
        Datagrams::Stream { streams, window, bytes, for_ms, to } => {
            let lasts = Duration::from_millis(for_ms);
            let streaming = Streaming { to, streams, window, bytes: usize::from(bytes), lasts };
            serde_json::to_string(&stream::send(&streaming).map_err(explain)?)
        }
        Datagrams::Sink { port, window, warm_up_ms, for_ms, patience_ms } => {
            let [warm_up, measured, patience] = [warm_up_ms, for_ms, patience_ms].map(Duration::from_millis);
            let sinking = Sinking { port, window, warm_up, measured, patience };
            serde_json::to_string(&stream::receive(&sinking, std::io::stdout()).map_err(explain)?)
        }
    };
    put(&(line.into_diagnostic()? + "\n"))
}
