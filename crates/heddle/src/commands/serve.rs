//! `serve`: a server whose requests take memory and time.

use std::sync::Arc;

use machine::Time;
use miette::Report;
use requests::Limits;
use requests::serve::{Mode, ServeConfig, Serving};
use serde_json::json;
use workload::service::{Faults, ServerSpec, Share, WithoutMemory};

use super::signals;
use crate::cli::{Format, Serve, WorkMode};
use crate::output::{harmless, put_best_effort};

/// Serves until it is asked to end.
pub fn serve(args: Serve, format: Format) -> Result<(), Report> {
    let ending = Arc::default();
    signals::await_end(&ending)?;
    let serving = Serving::open(config(args)).map_err(|error| explain(&error))?;
    let addresses: Vec<String> = serving.addresses().iter().map(ToString::to_string).collect();
    announce(&addresses, format);
    serving.run(ending).map_err(|error| explain(&error))
}

/// Says where it listens, now that it does.
pub(super) fn announce(all: &[String], format: Format) {
    put_best_effort(&match format {
        Format::Json => json!({ "listen": all }).to_string() + "\n",
        Format::Csv => format!("listen\n{}\n", all.join("\n")),
        Format::Table => format!("Listening at {}\n", harmless(&all.join(", "))),
    });
}

/// A failure with its hint.
pub(super) fn explain(error: &requests::Error) -> Report {
    let message = harmless(&error.to_string());
    match error.hint() {
        Some(hint) => miette::miette!(help = hint, "{message}"),
        None => miette::miette!("{message}"),
    }
}

fn config(args: Serve) -> ServeConfig {
    let faults = Faults {
        fail: args.fail.unwrap_or(Share::NONE),
        fail_fast: args.fail_fast,
        hang: args.hang.unwrap_or(Share::NONE),
        slow_percent: args.slow.unwrap_or(100),
        from: args.from.unwrap_or_default(),
        until: args.until.unwrap_or(Time::NEVER.since(Time::ZERO)),
    };
    let server = ServerSpec {
        at_a_time: args.at_a_time,
        queue_max: args.queue,
        memory_limit: args.memory_limit,
        without_memory: if args.refuse_memory { WithoutMemory::Refuse } else { WithoutMemory::Wait },
        size: args.size,
        duration: args.duration,
        faults,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ServeConfig {
        listen: args.listen,
        server,
        mode: match args.mode {
            WorkMode::Busy => Mode::Busy,
            WorkMode::Sleep => Mode::Sleep,
        },
        threads: args.threads.map_or(cores, usize::from),
        body_bytes: args.body,
        has_tree: args.tree,
        reports: args.report,
        push: args.push.map(|to| (to, args.push_every)),
        limits: Limits { connections_max: args.connections, grace: args.grace, ..Limits::default() },
        seed: args.seed,
    }
}
