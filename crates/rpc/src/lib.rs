//! A registry of remote procedures (RPCs) and their providers, and the path of a call to its provider.
//!
//! ```text
//!  clients' connections                 this server                                   other servers
//!   Offer, Withdraw ------> providers --> own bucket --> registry <== Status, Envelope ==> registry
//!   Call -----------------> broker: longest path, local first, least busy
//!   Deliver <-------------- executions <---------- attempts ======= Call, Result, NotHere ==> broker
//!   Answer <--------------- ends each call within its timeout
//! ```
//!
//! What always holds:
//!
//! - Each server alone writes its own bucket; a bucket with a higher [`Version`] replaces a lower one, so registries that can talk become equal.
//! - Each call is answered exactly once, within its timeout.
//! - A call that may have been executed is tried again only if its caller said that it is idempotent.
//! - A call that came from another server is never passed on: it is delivered here, or it is [`Message::NotHere`]. So there are no loops.
//! - A message that the network doubles is executed once.
//! - Nothing grows beyond the bounds in [`config`], whatever arrives.
//!
//! The gossip is the one of the controller cluster of the first paper (there: the remote RPC registry of `OpenDaylight`).
#![forbid(unsafe_code)]

mod broker;
pub mod config;
mod error;
mod event;
mod executions;
mod message;
mod offer;
mod providers;
mod registry;
mod route;
mod rpc;
mod seen;

pub use self::rpc::Rpc;
pub use config::Config;
pub use error::{Bound, Error, Loss};
pub use event::{Call, CallId, Counters, DeliveryId, Input, Output, Status};
pub use message::{AttemptId, Message, Verdict};
pub use offer::{Bucket, Offer, ProviderId, Version};
pub use registry::{Heard, Registry};
pub use tree::{Bytes, Path};
