//! `heddle metrics`: what it takes.

use std::net::SocketAddr;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use super::candidates;
use super::network::NetworkArg;
use super::programs::listen;

#[derive(Debug, Args)]
pub struct Metrics {
    /// The running network, by name; neither this nor --name is needed when only one runs
    #[arg(value_name = "NETWORK", conflicts_with = "name", add = ArgValueCompleter::new(candidates::networks))]
    pub of: Option<String>,
    #[command(flatten)]
    pub network: NetworkArg,
    /// Serve them there, at `/metrics`, until interrupted; they are printed once when not given
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen, value_delimiter = ',')]
    pub listen: Vec<SocketAddr>,
}
