//! Results for people and programs: tables for a terminal, a page, data, and the folder that holds them.

mod bonds;
mod charts;
mod cluster;
mod comparisons;
mod drivers;
mod files;
pub mod graph;
mod html;
mod latency;
mod layout;
mod network;
mod over_time;
mod page;
pub mod quantity;
mod svg;
mod table;
#[cfg(test)]
mod tests;

pub use self::comparisons::Comparisons;
pub use self::files::{REPORT, SUMMARY, load, set_aside};
