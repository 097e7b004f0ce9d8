//! The fabric file: one YAML file that describes a network and the experiments run on it.
//!
//! Text goes in, a checked [`Fabric`] comes out, or errors that show the line. What a `Fabric` says is consistent: names
//! are unique, links meet nodes that exist, the graph is connected, every host has one link, faults befall controllers that
//! there are.
//!
//! ```text
//! text -> tree (YAML's rules) -> document (keys, units) -> check (against each other) -> Fabric -> Routes
//! ```
//!
//! | key | what it says |
//! |---|---|
//! | `name`, `description` | for results and reports |
//! | `topology` | `{ fat-tree: { k } }` or `{ leaf-spine: { leaves, spines, hosts-per-leaf } }` |
//! | `links` (a map), `hosts` | with `topology`: `rate`, `delay`, `queue` of all links, and in `hosts: { .. }`, `switches: { .. }` what differs; addresses by host |
//! | `nodes`, `links` (a list), `link-defaults` | instead of `topology`: everything by name |
//! | `spread`, `mtu`, `seed` | of the whole network |
//! | `controllers` | `nodes`, `election-timeout`, `shards`, `tls` of the cluster above the network; a file may have them alone |
//! | `experiments` | `traffic` or `cluster` (what is asked of the controllers, `faults`), `vary`, `for`, `warm-up`, `repeat`, `expect`, `report` of each |
//!
//! `fabrics/fat-tree.fabric.yaml` explains each of them; [`schema`] gives all of them with their bounds.
#![forbid(unsafe_code)]

mod addresses;
mod cases;
mod check;
mod claim;
mod cluster;
mod controllers;
mod document;
mod error;
mod expect;
mod experiment;
mod graph;
mod inspect;
mod links;
mod model;
mod names;
mod pattern;
mod quantity;
mod read;
mod routes;
mod schema;
mod source;
mod template;
mod topology;
mod tree;
mod units;
mod words;

pub use check::parse;
pub use error::{Error, Problem};
pub use model::*;
pub use routes::Routes;
pub use schema::schema;
pub use source::Source;
pub use template::{Template, template};
