//! Commands about services: what they take.

use clap::{Args, Subcommand};

use super::network::GlobalNetworkArg;

#[derive(Debug, Args)]
pub struct Service {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: ServiceAction,
}

#[derive(Debug, Subcommand)]
pub enum ServiceAction {
    /// Give a server no new connections; those that it has go on
    #[command(after_help = "Example: heddle service drain web h5")]
    Drain {
        #[command(flatten)]
        at: ServerArg,
    },
    /// Give a server new connections again
    #[command(after_help = "Example: heddle service enable web h5")]
    Enable {
        #[command(flatten)]
        at: ServerArg,
    },
    /// Give a server another share of the connections
    #[command(after_help = "Example: heddle service weight web h5 3")]
    Weight {
        #[command(flatten)]
        at: ServerArg,
        /// Its share among the others; 0: it gets no new connections
        #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(balance::WEIGHT_MAX)))]
        weight: u32,
    },
}

#[derive(Debug, Args)]
pub struct ServerArg {
    /// The service
    pub service: String,
    /// The server: a host's name
    pub server: String,
}
