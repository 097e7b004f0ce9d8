//! Networks made by rule, and networks spelled out. A rule is one row of [`topologies!`] and a module beside the others.

mod bcube;
mod explicit;
mod fat_tree;
mod leaf_spine;

pub(crate) use explicit::explicit;

use link::LinkSpec;
use schemars::JsonSchema;
use topology::Topology;

use crate::error::Problems;
use crate::names::{did_you_mean, one_of};
use crate::read::{Read, expected, shown};
use crate::source::Place;
use crate::tree::{Node, Value};

/// What the two kinds of links of a topology do to packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Specs {
    /// Between a host and a switch.
    pub hosts: LinkSpec,
    /// Between two switches.
    pub switches: LinkSpec,
    /// Where the file says something about links between switches alone.
    pub switches_place: Option<Place>,
}

/// A rule by which a network is made, as the file writes it.
trait Rule {
    /// Makes the network; `None` if it would be too large, which has been noted.
    fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology>;
}

/// The networks made by rule. A row has what the network is, its key, what stands behind it, and an example of that for messages.
macro_rules! topologies {
    ($($(#[doc = $doc:literal])* $key:literal => $variant:ident($text:ty), $example:literal;)*) => {
        /// A network made by rule.
        #[derive(Clone, Debug, JsonSchema)]
        #[schemars(rename = "Topology", deny_unknown_fields)]
        pub(crate) enum TopologyText {
            $($(#[doc = $doc])* #[schemars(rename = $key)] $variant($text),)*
        }

        impl TopologyText {
            const KEYS: &[&str] = &[$($key),*];
            const EXAMPLES: &[&str] = &[$(concat!("{ ", $key, ": ", $example, " }")),*];

            /// What stands behind a key.
            fn of(key: &str, value: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                match key {
                    $($key => <$text>::read(value, problems).map(Self::$variant),)*
                    _ => None,
                }
            }

            /// Makes the network; `None` if it would be too large, which has been noted.
            pub fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology> {
                match self {
                    $(Self::$variant(rule) => rule.lay_out(specs, problems),)*
                }
            }
        }
    };
}

topologies! {
    /// k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches, k^3/4 hosts.
    "fat-tree" => FatTree(fat_tree::FatTreeText), "{ k: 4 }";
    /// Every leaf linked to every spine.
    "leaf-spine" => LeafSpine(leaf_spine::LeafSpineText), "{ .. }";
    /// n^(k+1) servers that forward, with k+1 ports each, and (k+1) n^k switches of n ports.
    "bcube" => Bcube(bcube::BcubeText), "{ n: 4, k: 1 }";
}

impl Read for TopologyText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        match entries {
            [entry] if Self::KEYS.contains(&entry.key.as_str()) => return Self::of(&entry.key, &entry.value, problems),
            [entry] => problems.add(
                entry.key_place,
                format!("`{}` is not a topology", shown(&entry.key)),
                "unknown",
                did_you_mean(&entry.key, Self::KEYS),
            ),
            _ => expected(node, &format!("one topology: {}", one_of(Self::EXAMPLES.iter().copied())), problems),
        }
        None
    }
}
