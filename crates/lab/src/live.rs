//! Live runs: real traffic between real hosts, over one network that ends with this process.

mod convergence;
mod datagrams;
mod during;
mod flow;
pub mod iperf;
mod other_switch;
mod recorder;
mod requests;
mod runs;
mod start_up;
mod traffic;
mod transfers;
pub(crate) mod tuning;
mod window;

pub(crate) use self::runs::{IPERF3, LiveRuns, look_for_programs, program_of};
