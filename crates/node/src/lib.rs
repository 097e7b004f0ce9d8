//! The controllers' process: sockets, disks, certificates, signals around [`store::Server`], and its clients.
//!
//! | module | what it is |
//! |---|---|
//! | `run` | a controller's life, from its data folder to its end |
//! | `event_loop` | its event loop: one thread, in which the server lives |
//! | `peers` | connections to other servers |
//! | `disk` | two threads that write, one for the log and one for snapshots |
//! | `parent_watch` | its end with whoever started it |
//! | `folder` | the data folder: whose it is, and that nobody else uses it |
//! | `descriptors`, `crowd`, `remote`, `refusals` | how many connections there may be, of whom, and who was refused |
//! | `http`, `metrics` | `/metrics`, `/healthz`, `/readyz` |
//! | `token`, `subject`, `logins` | how users log in: tokens, names in certificates, who guesses |
//! | `audit` | who did what, line by line |
//! | `stream`, `tls`, `certificates` | connections of frames, secured |
//! | `caller`, `client`, `load`, `drive` | clients: within an event loop, blocking, very many, and following a script |
//! | `contest` | standing in a queue for a lock, for clients that may block |
//!
//! ```text
//!   sockets --frames--> handle, handle, ... --> poll until it waits --+--> frames --> sockets
//!      ^                                                              +--> writes --> disk threads --+
//!      +------------------------ one wait for all (epoll) <-----------------------------------------+
//! ```
//!
//! All that can be read now is handled before the server is asked for output, so that what goes to one peer, or to the disk, goes together.
//!
//! What this takes of the system is safe code. A thread's priority is not, so whoever runs a controller passes it in:
//! [`ControllerOptions::hasten`].

#![forbid(unsafe_code)]

mod audit;
mod buffers;
mod caller;
pub mod certificates;
mod client;
mod clock;
mod contest;
mod crowd;
mod descriptors;
mod disk;
mod drive;
mod error;
mod event_loop;
mod folder;
mod http;
mod keepalive;
mod load;
mod logins;
mod metrics;
mod owner;
mod parent_watch;
mod peers;
mod refusals;
mod remote;
mod run;
mod secret;
mod stream;
pub mod subject;
mod tls;
mod token;
mod view;

pub use audit::AuditOptions;
pub use client::{Call, Client, Watch};
pub use clock::BootClock;
pub use contest::{Inbox, Releaser, Turn, contend, queue, random_lease};
pub use drive::{Target, drive};
pub use error::Error;
pub use load::{Course, load};
pub use parent_watch::end_with_stdin;
pub use run::{ControllerOptions, DEFAULT_PORT, Ready, check_name, run};
pub use tls::{Tls, TlsFiles};
pub use token::{LoginToken, wall_seconds};
