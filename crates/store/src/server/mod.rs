//! A server of the cluster: its replicas, its peers, its clients, its disk.
//!
//! It is a [`machine::Control`] with one liberty: several inputs may be handled before it is polled. Whatever they bring
//! about leaves together: one envelope a peer, one write for all groups.
//!
//! Tables and the like stand below the server, each by itself; what the server does with them above it.
//!
//! | module | what of a server it is |
//! |---|---|
//! | `state` | the server itself: what it is made of, and what it does with each input |
//! | `io`, `outbox` | inputs and outputs |
//! | `schedule`, `agenda` | what is done when, and for which groups |
//! | `view` | the map as this server knows it, and what follows from it here |
//! | `open` | its beginning: founding a cluster, joining one, recovery from the disk |
//! | `requests` | what clients ask, made into operations |
//! | `operations` | the table of what is being carried out |
//! | `drive`, `read_meter` | carrying it out: at the local replica, or by asking the leader |
//! | `greeting`, `membership` | who may speak as a peer, which version is spoken, on which secret the cluster agrees |
//! | `peers`, `peer_table` | other servers: envelopes, round trips, who is alive, who leads what |
//! | `replicas`, `disk` | local replicas: made and removed as the map says, members changed, snapshots written |
//! | `absent` | replicas that are not running here |
//! | `reclaim` | the log kept short, in memory and on the disk |
//! | `removal` | whether a server may be taken out of the cluster |
//! | `departure` | this server's own removal |
//! | `trust` | what another server's word is worth |
//! | `upkeep`, `meta_leader` | what the leader of meta does for all: moves of prefixes, placement of leaders |
//! | `leasing` | leases of data, at their shard's leader |
//! | `watches`, `watch_table` | clients that are notified of changes |
//! | `places` | who may have how many of the operations, calls and watches |
//! | `memory` | what is held for clients and peers, and what is said when that is too much |
//! | `backups`, `backup` | content that is kept while it is backed up |
//! | `calls`, `broker` | the RPC registry and broker |
//! | `alarms`, `readiness` | what somebody should look at, and what keeps it from serving |
//! | `access`, `gate` | who may ask for what |

mod absent;
mod access;
mod agenda;
mod alarms;
mod backup;
mod backups;
mod broker;
mod calls;
mod departure;
mod disk;
mod drive;
mod gate;
mod greeting;
mod io;
mod leasing;
mod membership;
mod memory;
mod meta_leader;
mod open;
mod operations;
mod outbox;
mod peer_table;
mod peers;
mod places;
mod read_meter;
mod readiness;
mod reclaim;
mod removal;
mod replicas;
mod requests;
mod schedule;
mod state;
mod trust;
mod upkeep;
mod view;
mod watch_table;
mod watches;

pub use crate::id::{ClientId, RequestId};
use io::Asked;
pub use io::{About, Caller, Input, Output, Stop};
pub use membership::Membership;
pub use open::{Founding, OpenError};
pub use places::{Party, Places};
use state::DISK_BACKLOG_MAX;
pub use state::Server;
