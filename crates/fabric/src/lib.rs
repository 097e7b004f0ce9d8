//! The fabric file: one YAML file that describes a network and the experiments run on it.
//!
//! Text goes in, a checked [`Fabric`] comes out, or errors that show the line. What a `Fabric` says is consistent: names
//! are unique, links meet nodes that exist, the graph is connected, every host has one link.
//!
//! ```text
//! text -> tree (YAML's rules) -> document (keys, units) -> check (against each other) -> Fabric -> Routes
//! ```
#![forbid(unsafe_code)]

mod cases;
mod check;
mod claim;
mod document;
mod error;
mod experiment;
mod graph;
mod inspect;
mod links;
mod model;
mod names;
mod pattern;
mod read;
mod routes;
mod schema;
mod source;
mod template;
mod topology;
mod tree;
mod units;

pub use check::parse;
pub use error::{Error, Problem};
pub use model::*;
pub use routes::Routes;
pub use schema::schema;
pub use source::Source;
pub use template::{Template, template};
