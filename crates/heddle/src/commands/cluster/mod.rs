//! `cluster`: clients of the controllers.

mod bench;

use live::cluster::{Client, Tls};
use miette::Report;

use crate::Ending;
use crate::cli::{Cluster, Endpoints, Format};

/// Does what is asked of the cluster.
pub fn cluster(command: &Cluster, format: Format) -> Result<Ending, Report> {
    match command {
        Cluster::Bench(args) => bench::bench(args, format),
    }
}

/// A failure of a controller or a client of it, with its hint, as a report.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
pub fn explain(error: live::cluster::Error) -> Report {
    match error.hint() {
        Some(hint) => miette::miette!(help = hint, "{error}"),
        None => miette::miette!("{error}"),
    }
}

/// The certificates, read.
fn tls(connection: &Endpoints) -> Result<Option<Tls>, Report> {
    connection.tls.files().map(|files| Tls::load(&files)).transpose().map_err(explain)
}

/// A client of the cluster.
fn connect(connection: &Endpoints) -> Result<Client, Report> {
    Client::connect(&connection.endpoints, tls(connection)?.as_ref()).map_err(explain)
}
