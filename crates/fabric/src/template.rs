//! New files to start from.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Problems};
use crate::read::{Name, Read};
use crate::source::{Place, Source};
use crate::tree::{Node, Value};

/// What kind of network a new file describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// `fat-tree`
    FatTree,
    /// `leaf-spine`
    #[default]
    LeafSpine,
    /// `bcube`
    Bcube,
    /// `explicit`: nodes and links by name
    Explicit,
}

impl Template {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FatTree, Self::LeafSpine, Self::Bcube, Self::Explicit];

    /// As the command line writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::FatTree => "fat-tree",
            Self::LeafSpine => "leaf-spine",
            Self::Bcube => "bcube",
            Self::Explicit => "explicit",
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Template {
    type Err = String;

    /// # Errors
    /// If it is none of these words; the text says which there are.
    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.word() == word);
        found.ok_or_else(|| "expected fat-tree, leaf-spine, bcube or explicit".to_owned())
    }
}

/// The text of a new fabric file called `name`, with comments.
///
/// # Errors
/// If `name` can't be a name: letters, digits, `-`, `_`, `.`, at most 63 of them, a letter or digit first.
pub fn template(name: &str, kind: Template) -> Result<String, Error> {
    check(name)?;
    let (network, pattern) = match kind {
        Template::FatTree => (FAT_TREE, "stride(8)"),
        Template::LeafSpine => (LEAF_SPINE, "stride(2)"),
        Template::Bcube => (BCUBE, "stride(5)"),
        Template::Explicit => (EXPLICIT, "{ pairs: [[h1, h3], [h2, h4]] }"),
    };
    Ok(with_network(name, network, pattern))
}

/// A file whose name has been checked, with a text about its network and a pattern of traffic.
pub(crate) fn with_network(name: &str, network: &str, pattern: &str) -> String {
    let experiments = EXPERIMENTS.replace("PATTERN", pattern);
    format!("{HEAD}name: \"{name}\"\ndescription: \"\"\n{network}{experiments}")
}

/// Whether text can be the name of a file's network.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    let source = Source { name: "the name".to_owned(), text: name.to_owned() };
    let mut problems = Problems::new(&source);
    let node = Node { place: Place { offset: 0, len: name.len() }, value: Value::Scalar(name.to_owned()) };
    Name::read(&node, &mut problems).map(|_| ()).ok_or_else(|| problems.into_error())
}

const HEAD: &str = "\
# A fabric file: a network and the experiments run on it.
#     heddle check FILE          is everything in it right?
#     heddle run FILE --sim      simulate it
#     heddle run FILE --live     run it with real packets
# `heddle schema` prints a JSON Schema with which editors complete and check it.
";

/// What links do, in a network that has some between switches.
pub(crate) const LINKS: &str = "\
# What every link does, in each direction; leave it out for links as fast as the machine. `hosts: { .. }` and
# `switches: { .. }` in it say otherwise for links at hosts and between switches.
# Also: `loss: 0.1%`, `jitter: 1ms`, `reorder: 1%`, `ecn: 20`, `overhead: 24B`, `coalesce: 125us`.
links: { rate: 100Mbit, delay: 100us, queue: 100 }
";

const FAT_TREE: &str = "
# k pods of k/2 edge (e1, ..) and k/2 aggregation switches (a1, ..), (k/2)^2 core switches (c1, ..), k^3/4 hosts (h1, ..).
topology: { fat-tree: { k: 4 } }

# What every link does, in each direction; leave it out for links as fast as the machine. `hosts: { .. }` and
# `switches: { .. }` in it say otherwise for links at hosts and between switches.
# Also: `loss: 0.1%`, `jitter: 1ms`, `reorder: 1%`, `ecn: 20`, `overhead: 24B`, `coalesce: 125us`.
links: { rate: 100Mbit, delay: 100us, queue: 100 }
";

const LEAF_SPINE: &str = "
# Every leaf switch (leaf1, ..) is linked to every spine switch (spine1, ..); the hosts (h1, ..) hang on the leaves.
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }

# What every link does, in each direction; leave it out for links as fast as the machine. `hosts: { .. }` and
# `switches: { .. }` in it say otherwise for links at hosts and between switches.
# Also: `loss: 0.1%`, `jitter: 1ms`, `reorder: 1%`, `ecn: 20`, `overhead: 24B`, `coalesce: 125us`.
links: { rate: 100Mbit, delay: 100us, queue: 100 }
";

const BCUBE: &str = "
# n^(k+1) servers (h1, ..) with k+1 ports that forward; each of the k+1 levels has n^k switches of n ports (s0.1, .., s1.1, ..).
topology: { bcube: { n: 4, k: 1 } }

# What every link does, in each direction; leave it out for links as fast as the machine.
# Also: `loss: 0.1%`, `jitter: 1ms`, `reorder: 1%`, `ecn: 20`, `overhead: 24B`, `coalesce: 125us`.
links: { rate: 100Mbit, delay: 100us, queue: 100 }
";

const EXPLICIT: &str = "
# Hosts and switches by name. In full: `h1: { kind: host, ipv4: 10.0.0.7, ipv6: .., mac: .. }`.
nodes:
  h1: host
  h2: host
  h3: host
  h4: host
  left: switch
  right: switch
  upper: switch
  lower: switch

# What each link does, in each direction, that doesn't say otherwise.
# Also: `loss: 0.1%`, `jitter: 1ms`, `reorder: 1%`, `ecn: 20`, `overhead: 24B`, `coalesce: 125us`.
link-defaults: { rate: 100Mbit, delay: 100us, queue: 100 }

# A host has one link, several that are a bond (`bonds: [{ host: h1, mode: balance-rr }]`), or several that are none.
links:
  - between: [h1, left]
  - between: [h2, left]
  - between: [h3, right]
  - between: [h4, right]
  - between: [left, upper]
  - between: [upper, right]
  - between: [left, lower]
  - { between: [lower, right], delay: 200us }
";

const EXPERIMENTS: &str = "
# How packets are spread over equal-cost paths: single, ecmp, packet-scatter, packet-scatter-per-destination, packet-scatter-random.
spread: ecmp

experiments:
  spread:
    title: How packets are spread
    # Who talks to whom (random, stride(i), staggered(p, q), permutation, incast(n), all-to-all, pairs), and how
    # (linux: as live hosts do; reno, newreno, sack; udp).
    traffic:
      pattern: PATTERN
      transport: linux
    # One case for each value; with several keys, for each combination.
    vary: { spread: [single, ecmp, packet-scatter] }
    # Each case: `repeat` runs of `for`, after a `warm-up` that doesn't count. `repeat: { until: 5 %, at-most: 30 }` goes
    # on until the 99 % confidence interval of the mean is that narrow.
    warm-up: 1s
    for: 3s
    repeat: 5
    # What must hold; `heddle run` exits with 1 if it doesn't.
    expect:
      goodput-mean: \">= 1 Mbit/s\"
";
