//! Several links made into one: which member a frame leaves on, which members may be used, and in which order arrivals are
//! handed on.
//!
//! [`Bond`] is one end: the Linux bonding driver's modes 0 to 6 as a state machine, after the kernel's document
//! (`Documentation/networking/bonding.rst`) and, where frames can be compared, after version 6.1 of the driver. It reads no
//! clock and sends nothing; [`Bond::poll`] says what to send and what to change.
//!
//! ```text
//!  frame ----> Summary ----> Bond::transmit ----> One(member), All(members), None(reason)
//!              (hash)              ^
//!  carrier ----> Bond::carrier     | array of usable members
//!  LACP -------> set_distributing -+---- select: which member is active, which addresses members have
//!  probes -----> receive_frame ----+
//!                                  +----> poll: announcements, probes, events
//! ```
//!
//! | part | where |
//! |---|---|
//! | options and their check | [`config`] |
//! | hash policies | [`hash`] |
//! | which member sends | `transmit` |
//! | which member is active, and which MAC addresses members have | `select` |
//! | probes | `monitor` |
//! | what balance-alb announces to peers | `alb` |
//! | balance that follows load | `balance` |
//! | all of an end together, for drivers | [`end`] |
//! | IEEE 802.1AX | [`lacp`] |
//! | whether the other end is a bond of Heddle | [`peer`] |
//! | resequencing | [`reorder`] |
//!
//! What differs from the driver on purpose:
//!
//! - In balance-rr a failed member's turns are shared by all others; the driver gives them to its successor. While all
//!   members are up the same frame takes the same member.
//! - Carrier changes act at once and `updelay`, `downdelay` are exact; the driver counts both in intervals of `miimon`. A lost
//!   carrier acts at once also on a member that is probed.
//! - In balance-alb peers are spread evenly, IPv6 peers too; the driver assigns IPv4 peers in turn. IPX is not balanced.
//! - The device above may keep its address while the bond's changes (`fail_over_mac=active`): then what passes is rewritten, as in
//!   balance-alb. The driver's device has the bond's.
//! - Options that a mode has no use for are refused; the driver takes some of them without effect. `queue_id` is refused, since
//!   no frame is marked for a queue here; member priorities are missing.
//! - `resend_igmp` reports what was learned from the host's own reports, not what the host's stack knows. As with the driver,
//!   MLD is left to the host.
//!
//! Invariants: a frame goes to members that are there and usable; it is copied in broadcast only; in hashed modes a flow
//! stays on its member until members change.
#![forbid(unsafe_code)]

mod accept;
mod alb;
mod announce;
mod balance;
mod bond;
pub mod config;
pub mod end;
mod frames;
pub mod hash;
pub mod lacp;
mod member;
mod membership;
mod monitor;
pub mod peer;
pub mod reorder;
mod select;
mod summary;
mod transmit;

pub use accept::{Accept, Refusal};
pub use alb::PEERS_MAX;
pub use announce::ADDRESSES_MAX;
pub use balance::{BUCKETS, Remapped};
pub use bond::{ACTIONS_MAX, Action, Bond, Event, JoinError};
pub use config::{Config, HashPolicy, Mode};
pub use end::{End, LearningPorts};
pub use frames::ControlFrame;
pub use member::{Carrier, LinkState, Member, MemberId, MemberSet};
pub use membership::GROUPS_MAX;
pub use summary::{Kind, Summary};
pub use transmit::{DropReason, Framed, Transmit};

/// Members of one bond at most. An index of a member lies below it.
pub const MEMBERS_MAX: usize = 32;
