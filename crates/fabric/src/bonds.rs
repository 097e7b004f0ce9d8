//! The `bonds:` block: as it is written, and what it says.
//!
//! Options have the names of the Linux kernel's bonding document, with `-` or `_`; their values are the kernel's names or
//! numbers, times may have units. Which options fit which mode is known to the crate `bond`.

mod ends;
mod layout;
mod targets;
mod text;
mod values;
mod vary;

pub(crate) use layout::{bonds, names_host};
pub use text::BondSetting;
pub(crate) use text::{BondAxis, BondText};

/// The most members that a file can give a bond: [`bond::MEMBERS_MAX`] is the most that one can have.
pub(crate) const MOST_MEMBERS: u64 = 8;
/// The most bonds of a file. With them, no node has more ports than a `PortId` can tell apart.
const MOST_BONDS: usize = 4_096;
