//! `agent`: says how loaded this machine is.

use std::sync::Arc;

use miette::Report;
use requests::agent::{Agent, AgentConfig, Sources, WeightConfig};
use workload::service::Share;

use super::serve::{announce, explain};
use super::signals;
use crate::cli::{self, Format, LoadSource};

/// Reports until it is asked to end.
pub fn agent(args: cli::Agent, format: Format) -> Result<(), Report> {
    let ending = Arc::default();
    signals::await_end(&ending)?;
    let counts = |source| args.load.contains(&source);
    let share = |share: Share| f64::from(share.millionths()) / 1e6;
    let weight = WeightConfig {
        cpu: counts(LoadSource::Cpu),
        memory: counts(LoadSource::Memory),
        pressure: counts(LoadSource::Pressure),
        application: counts(LoadSource::Application),
        up_to: share(args.up_to),
        least_percent: args.least,
        drain_at: args.drain_at.map(share),
        connections_max: args.maxconn,
    };
    let sources = Sources { process: args.process, memory_bytes: args.memory, ..Sources::default() };
    let config = AgentConfig {
        check: args.check,
        http: args.http,
        sockets: args.socket,
        every: args.every,
        push_lasts: args.push_lasts,
        sources,
        weight,
    };
    let sockets: Vec<String> = config.sockets.iter().map(|path| path.display().to_string()).collect();
    let agent = Agent::open(config).map_err(|error| explain(&error))?;
    let addresses: Vec<String> = agent.addresses().iter().map(ToString::to_string).chain(sockets).collect();
    announce(&addresses, format);
    agent.run(ending).map_err(|error| explain(&error))
}
