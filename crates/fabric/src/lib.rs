//! The fabric file: one YAML file that describes a network and the experiments run on it.
//!
//! Text goes in, a checked [`Fabric`] comes out, or errors that show the line. What a `Fabric` says is consistent: names
//! are unique, links meet nodes that exist, the graph is connected, every host has one link.
#![forbid(unsafe_code)]

mod model;
mod routes;

pub use model::*;
pub use routes::Routes;
