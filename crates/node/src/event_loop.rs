//! The event loop of a controller: one thread, in which the server lives.
//!
//! | module | what of it |
//! |---|---|
//! | `state` | all that it has at hand |
//! | `serve` | the loop itself |
//! | `accept`, `accepting` | who connects |
//! | `connections` | what each connection is for; the clients |
//! | `greeting`, `handshake` | who is at the other end, and how servers prove who they are |
//! | `access` | clients identified, and what they do noted |
//! | `turns`, `turn_queue`, `partial` | what comes in, a share of each connection at a time |
//! | `outbox`, `waiting` | what goes out, and how much waits |
//! | `half_closed`, `answers` | clients that say nothing more, and read |
//! | `writes` | what goes to the disk |
//! | `requests` | numbers of requests |
//! | `alarms`, `peer_refusals` | what goes to the process's log |

mod accept;
mod accepting;
mod access;
mod alarms;
mod answers;
mod connections;
mod greeting;
mod half_closed;
mod handshake;
mod outbox;
mod partial;
mod peer_refusals;
mod requests;
mod serve;
mod state;
mod turn_queue;
mod turns;
mod waiting;
mod writes;

pub(super) use state::{EventLoop, LoopParts};
