//! `connections`: says how the TCP connections of the host stand in which it runs, as often as `run` asks.

use miette::Report;

use super::explain;

/// Answers on stdout what is asked on stdin, until that ends.
pub fn connections(ports: &[u16]) -> Result<(), Report> {
    live::connections::answer(ports, std::io::stdin().lock(), std::io::stdout()).map_err(explain)
}
