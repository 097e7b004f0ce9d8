//! What one run measured, on what; and what can be said of several runs' numbers.

pub(crate) mod bonds;
pub(crate) mod carried;
pub(crate) mod cluster_record;
pub(crate) mod cpu;
pub(crate) mod environment;
pub(crate) mod hosts;
pub(crate) mod metric;
pub(crate) mod precision;
pub(crate) mod record;
pub(crate) mod request_record;
pub mod statistics;
pub(crate) mod time_series;
pub(crate) mod tolerance;
