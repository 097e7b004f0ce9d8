//! `transfers`: the ends of connections that come and go, as `run` starts them in hosts. The sender says one line of JSON at its end.

use std::time::Duration;

use live::transfers::{Receiving, Sending};
use machine::Span;
use miette::{IntoDiagnostic, Report};

use super::explain;
use crate::cli::Transfers;
use crate::output::put;

/// Sends, or receives.
pub fn transfers(end: &Transfers) -> Result<(), Report> {
    match *end {
        Transfers::Send { ref sizes, every_ps, seed, origin_ns, warm_up_ps, for_ps, segment, to } => {
            let sizes = sizes.clone();
            let [every, warm_up, duration] = [every_ps, warm_up_ps, for_ps].map(Span::from_ps);
            let origin = Duration::from_nanos(origin_ns);
            let end = Span::from_ps(warm_up_ps.saturating_add(duration.as_ps()));
            let sending = Sending { to, sizes, every, seed, origin, measured: warm_up..end, segment };
            let sent = live::transfers::send(&sending).map_err(explain)?;
            put(&(serde_json::to_string(&sent).into_diagnostic()? + "\n"))
        }
        Transfers::Receive { port, patience_ms } => {
            let receiving = Receiving { port, patience: Duration::from_millis(patience_ms) };
            live::transfers::receive(&receiving, std::io::stdout()).map_err(explain)
        }
    }
}
