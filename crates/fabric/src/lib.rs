//! The fabric file: one YAML file that describes a network and the experiments run on it.
//!
//! Text goes in, a checked [`Fabric`] comes out, or errors that show the line. What a `Fabric` says is consistent: names
//! are unique, links meet nodes that exist, every host can be reached from every other, faults name controllers that there are.
//!
//! ```text
//! text -> tree (YAML's rules) -> document (keys, units) -> check (against each other) -> Fabric -> Routes
//! ```
//!
//! | key | what it says |
//! |---|---|
//! | `name`, `description` | for results and reports |
//! | `topology` | a network made by rule (`topologies/mod.rs` lists the rules): `{ fat-tree: { k } }`, `{ leaf-spine: { leaves, spines, hosts-per-leaf } }`, ... |
//! | `links` (a map), `hosts` | with `topology`: `rate`, `delay`, `queue` of all links, and in `hosts: { .. }`, `switches: { .. }` what differs; addresses by host |
//! | `nodes`, `links` (a list), `link-defaults` | instead of `topology`: everything by name. A host may have several links, and `forward` |
//! | `bonds` | links between two nodes that are used as one: `between` or `host`, `members`, `mode` and the options of Linux's bonding driver, `reorder`, `rebalance`; `ends` for what differs at one end |
//! | `spread`, `routes`, `mtu`, `seed` | of the whole network |
//! | `flows`, `groups` | what switches do with packets besides forwarding along the routes, as `ovs-ofctl` writes it |
//! | `switches` | their ports: VLANs, devices of the machine, storm control, RSTP; how long learned addresses are known |
//! | `services` | several servers behind one address, and who gets the next connection; names that lead to one of several services |
//! | `functions`, `chains` | what has two ports and passes packets on, and which packets pass which of them on their way |
//! | `controllers` | `nodes`, `election-timeout`, `pre-vote`, `delay`, `shards`, `tls` of the cluster above the network; a file may have them alone |
//! | `experiments` | `traffic` (`faults`: links that go down and up; `requests`: what is asked of a service) or `cluster` (what is asked of the controllers, `faults`), `vary`, `for`, `warm-up`, `time-series`, `repeat` (a number, or `until` the mean is known), `expect`, `report` of each |
//!
//! Files of other tools become fabric files by [`import`]. Outside of files, [`LinkChange`] reads keys of links (`delay=20ms`), and [`topology_of`] makes a file of a network in a word (`tree,3`).
//!
//! `fabrics/fat-tree.fabric.yaml` explains them, `fabrics/bonds.fabric.yaml` the bonds; [`schema`] gives all of them with their bounds.
#![forbid(unsafe_code)]

mod addresses;
mod bonds;
mod cases;
mod chains;
mod check;
mod claim;
mod cluster;
mod controllers;
mod devices;
mod differences;
mod document;
mod error;
mod escape;
mod excerpt;
mod expect;
mod experiment;
mod faults;
mod flows;
mod graph;
mod host_addresses;
mod host_routes;
mod host_setup;
mod import;
mod in_units;
mod interfaces;
mod link_change;
mod links;
mod locate;
mod metric;
mod model;
mod names;
mod one_link;
mod overrides;
mod parallel;
mod parameters;
mod pattern;
mod port_change;
mod quantity;
mod read;
mod repeat;
mod requests;
mod rstp;
mod schema;
mod services;
mod shards;
mod source;
mod subnets;
mod switched_by;
mod switches;
mod sysctl;
mod tables;
mod template;
mod time_series;
mod topologies;
mod topology_word;
mod traffic;
mod transfer_sizes;
mod transfers;
mod tree;
mod units;
mod unknown_keys;
mod vary;
mod vm;
mod window;
mod words;
mod yaml;

pub use bonds::BondSetting;
pub use chains::FORWARDER;
pub use check::{parse, parse_changed};
pub use cluster::LoadSetting;
pub use controllers::ControllersSetting;
pub use differences::{KeyDifference, differences};
pub use document::NetworkSetting;
pub use error::{Error, Problem};
pub use flows::{FlowCommand, FlowInput, NoSuchSwitch, SwitchTables, find_switch, packet, selection, table_changes};
pub use graph::host_hint;
pub use import::{Imported, Note, NoteKind, ReadFile, import, import_with};
pub use in_units::in_units;
pub use link_change::{ChangedLink, Directions, LinkChange, link_keys_both, turn};
pub use links::{LinkSetting, link_keys};
pub use locate::{LocatedProblem, problem_at, problems_at};
pub use metric::{Metric, SizeClass, Unit};
pub use model::*;
pub use names::nearest;
pub use one_link::OneLinkSetting;
pub use overrides::{Override, Overrides, Setting};
pub use parallel::{NoSuchLink, begins_at, find_links, link_ends};
pub use port_change::{AddedPort, ChangedPort, PortChange};
pub use rstp::{RstpPortSettings, RstpSettings};
pub use schema::schema;
pub use services::ServiceSetting;
pub use source::Source;
pub use subnets::{NextHop, Subnets};
pub use switches::SwitchSettings;
pub use template::{Template, template};
pub use topology_word::{topology_of, topology_template, topology_words};
pub use traffic::TrafficSetting;
