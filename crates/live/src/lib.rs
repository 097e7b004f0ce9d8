//! The clock and the edges of the real machine: a fabric that carries real packets between real programs.
//!
//! A network that is up is one process, the *daemon* ([`daemon::serve`]). It holds a network namespace and a TAP device for each
//! host, and runs all switches and links of the file in a few *workers*. Clients talk to it through an [`Instance`]: they apply files,
//! read counters, and run programs in hosts.
//!
//! ```text
//!  program in h1                                   program in h2
//!       | socket                                        ^
//!  kernel of h1 (namespace)                        kernel of h2
//!       | TAP: frame + virtio-net header                |
//!  ---- worker: classify > link > switch > link > switch > link ----   one process, no lock
//! ```
//!
//! Decisions are those of `vswitch` and `link`, which the simulator uses as well. What is here is when they are asked, and how
//! the bytes come in and go out.
//!
//! It is the only crate of the workspace with `unsafe`: for ioctls and system calls that have no safe wrapper, and for what a child does
//! between fork and exec. [`hasten`] and [`unblock_signals`] are public for that reason: the controllers' process is the crate `node`, which is safe code and does not know this one, and
//! `heddle cluster lock` starts a program. So is [`end_with_parent`]: programs that `heddle iperf` starts must not outlive it.

mod bpf;
pub mod bundle;
pub mod capture;
mod checks;
mod clean;
mod clock;
mod command;
pub mod connections;
mod container;
pub mod control;
mod convergence;
pub mod daemon;
pub mod datagrams;
mod dataplane;
mod device;
mod error;
mod files;
pub mod forward;
mod host;
pub mod image;
mod instance;
mod inventory;
mod kernel_path;
mod log_quota;
mod named_files;
mod namespace;
mod neighbours;
mod net_device;
mod network;
mod owner;
pub mod packet;
mod pages;
pub mod pings;
pub mod port;
mod process;
mod programs;
mod runtime;
mod secret;
pub mod sniffer;
mod subordinate_ids;
mod tap;
mod thread_priority;
pub mod transfers;
mod uplink;
pub mod virtqueue;
mod vm;
pub mod xdp;

pub use clean::{Cleaned, clean};
pub use command::{end_with_parent, unblock_signals};
pub use control::{Applied, Counters, LinksSet, Status};
pub use convergence::{CONVERGENCE_MAX, UnconvergedBond, UnconvergedMember};
pub use daemon::raise_file_limit;
pub use dataplane::{FLOWS_COUNTED_MAX, RING_FRAMES, buffers, default_workers};
pub use device::vhost::{Socketless as SocketlessVhost, message as vhost_message};
pub use error::Error;
pub use instance::{CaptureOptions, CaptureStream, Instance, StartOptions, folder_of};
pub use inventory::{Listed, Presence, inventory};
pub use named_files::{MissingHypervisor, check_named_files, missing_hypervisors};
pub use network::{difference, with_countries};
pub use owner::Owner;
pub use programs::{Phase, ProgramCommand, ProgramState};
pub use runtime::{has_crashed, use_runtime_folder};
pub use tap::VNET_HEADER;
pub use thread_priority::{hasten, raise};
