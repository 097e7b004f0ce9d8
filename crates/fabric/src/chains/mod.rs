//! Service chains, and the functions that they lead through.
//!
//! ```yaml
//! functions:
//!   firewall: { at: s1, programs: { nft: exec ./firewall.sh } }
//!   edge: { kind: rate-limit, rate: 10Mbit }
//!   ids: { at: s1, devices: ['vhost-user:', 'vhost-user:'] }
//! chains:
//!   web: { from: h1, to: h2, match: 'tcp,tp_dst=80', functions: [firewall, edge, ids], on-failure: bypass }
//! ```

mod built_in;
mod check;
mod matching;
mod text;

pub(crate) use built_in::source as nat_source;
pub(crate) use check::chains;
pub(crate) use text::{ChainText, FunctionText, Names};

mod functions;

pub use functions::FORWARDER;
pub(crate) use functions::{add as add_functions, only_forwards};
