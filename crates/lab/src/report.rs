//! Results for people and programs: tables for a terminal, a page, data, and the folder that holds them.

mod bonds;
mod charts;
mod cluster;
mod comparisons;
mod data;
mod distributions;
mod drivers;
mod files;
pub mod graph;
mod html;
mod latency;
mod layout;
mod lines;
mod network;
mod over_time;
mod page;
pub mod quantity;
mod schedulers;
mod side_by_side;
mod svg;
mod table;
#[cfg(test)]
mod tests;

pub use self::comparisons::Comparisons;
pub use self::files::{REPORT, SUMMARY, load, load_finished, set_aside};
pub use self::side_by_side::{ExperimentOfBoth, Row, Side, SideBySide};
