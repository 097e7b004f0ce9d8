//! Live captures: what crosses links of the running network, for whoever looks at it with `heddle capture`.
//!
//! ```text
//!  worker: graph shows a packet --> Observer: filter, cut --> bounded queue --> a thread for each capture: by time --> pcapng --> client
//! ```
//!
//! A worker waits for nobody: what finds the queue full is counted as lost. While nobody captures, packets pass nothing of this
//! ([`datapath::Graph::observe`]).

mod filter;
mod kinds;
mod observer;
pub mod pcapng;
mod session;
mod target;

pub use filter::{Filter, FilterError};
pub use kinds::FrameKinds;
pub use observer::{Direction, Interface, Observer};
pub use session::Session;
pub use target::{Target, TargetError};

/// The longest part of a frame that is captured, bytes: as of tcpdump.
pub const SNAPLEN_MAX: u32 = 262_144;
