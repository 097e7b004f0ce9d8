//! Networks made by rule, and networks spelled out.

mod bcube;
mod explicit;
mod fat_tree;
mod leaf_spine;

pub(crate) use bcube::{bcube, size as bcube_size};
pub(crate) use explicit::explicit;
pub(crate) use fat_tree::fat_tree;
pub(crate) use leaf_spine::leaf_spine;

use link::LinkSpec;

/// What the two kinds of links of a topology do to packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Specs {
    /// Between a host and a switch.
    pub hosts: LinkSpec,
    /// Between two switches.
    pub switches: LinkSpec,
}
