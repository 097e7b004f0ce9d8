//! The workloads: which request comes next.

use core::str::FromStr;

use machine::{Rng, Span};
use serde::Serialize;

use super::distribution::Distribution;
use super::quantity::Share;
use super::target::Target;
use super::tree::Tree;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// Memory of a request whose size is fixed, in bytes.
const SIZE_FIXED: Distribution = Distribution::Fixed(8 * MIB);
/// Memory of a request whose size varies, in bytes: 9 MiB on the mean, and a heavy tail, as videos have.
const SIZE_VARIES: Distribution = Distribution::Pareto { min: 2 * MIB, shape_milli: 1_200, max: 256 * MIB };
/// How long a request works if that is fixed, in nanoseconds.
const DURATION_FIXED: Distribution = Distribution::Fixed(100 * MS);
/// The same if size is not to matter beside it.
const DURATION_LONG: Distribution = Distribution::Fixed(500 * MS);
/// The same if it varies.
const DURATION_VARIES: Distribution = Distribution::Exponential { mean: 100 * MS };
/// How long a dynamic page of the tree is computed.
const DURATION_OF_PAGES: Distribution = Distribution::Exponential { mean: MS };

/// Requests of *htm + memory* that are for an empty page.
const EMPTY_PAGES: Share = Share::percent(60);
/// Requests of *web tree* that are for dynamic pages.
const DYNAMIC_PAGES: Share = Share::percent(30);

/// The seven workloads of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// An empty page: measures what is in front of the servers.
    FineGrain,
    /// Fixed size, fixed duration.
    Fsfd,
    /// Fixed size, duration varies.
    Fsvd,
    /// Size varies, duration fixed and long enough that size does not matter.
    Vsfd,
    /// Both vary.
    Vsvd,
    /// *Fine-grain* and *VSVD* mixed at random, 60 : 40.
    HtmMemory,
    /// Static and dynamic pages with a typical mix.
    WebTree,
}

impl Workload {
    /// All of them, in the study's order.
    pub const ALL: [Self; 7] =
        [Self::FineGrain, Self::Fsfd, Self::Fsvd, Self::Vsfd, Self::Vsvd, Self::HtmMemory, Self::WebTree];

    /// As files and command lines write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FineGrain => "fine-grain",
            Self::Fsfd => "fsfd",
            Self::Fsvd => "fsvd",
            Self::Vsfd => "vsfd",
            Self::Vsvd => "vsvd",
            Self::HtmMemory => "htm-memory",
            Self::WebTree => "web-tree",
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == text);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("`{text}` is no workload: expected one of {}", names()))
    }
}

/// A workload, and what is different in it from the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Which.
    pub workload: Workload,
    /// Memory of each request, in bytes, in place of the workload's own.
    pub size: Option<Distribution>,
    /// How long each works, in nanoseconds, in place of the workload's own.
    pub duration: Option<Distribution>,
    /// Directories of the web tree.
    pub directories: u32,
}

impl WorkloadSpec {
    /// A workload as documented: a tree has a hundred directories.
    pub const fn new(workload: Workload) -> Self {
        Self { workload, size: None, duration: None, directories: 100 }
    }

    /// The distributions of size, in bytes, and of duration, in nanoseconds, of the requests that work.
    pub fn distributions(&self) -> (Distribution, Distribution) {
        let (size, duration) = match self.workload {
            Workload::FineGrain => (Distribution::Fixed(0), Distribution::Fixed(0)),
            Workload::Fsfd => (SIZE_FIXED, DURATION_FIXED),
            Workload::Fsvd => (SIZE_FIXED, DURATION_VARIES),
            Workload::Vsfd => (SIZE_VARIES, DURATION_LONG),
            Workload::Vsvd | Workload::HtmMemory => (SIZE_VARIES, DURATION_VARIES),
            Workload::WebTree => (Distribution::Fixed(0), DURATION_OF_PAGES),
        };
        (self.size.unwrap_or(size), self.duration.unwrap_or(duration))
    }
}

/// The requests of a workload, one after another. The same seed asks for the same.
#[derive(Clone, Debug)]
pub struct Requests {
    workload: Workload,
    size: Distribution,
    duration: Distribution,
    tree: Option<Tree>,
    /// One for each question, so that an answer does not shift the others.
    kinds: Rng,
    sizes: Rng,
    durations: Rng,
}

impl Requests {
    /// From the first one on.
    pub fn new(spec: &WorkloadSpec, seed: u64) -> Self {
        let (size, duration) = spec.distributions();
        let rng = Rng::new(seed);
        let tree = (spec.workload == Workload::WebTree).then(|| Tree::new(spec.directories.max(1)));
        let [kinds, sizes, durations] = [0, 1, 2].map(|label| rng.fork(label));
        Self { workload: spec.workload, size, duration, tree, kinds, sizes, durations }
    }

    /// What is asked for next.
    pub fn draw(&mut self) -> Target {
        match self.workload {
            Workload::FineGrain => Target::Root,
            Workload::HtmMemory if EMPTY_PAGES.draw(&mut self.kinds) => Target::Root,
            Workload::Fsfd | Workload::Fsvd | Workload::Vsfd | Workload::Vsvd | Workload::HtmMemory => {
                let size = self.size.draw(&mut self.sizes).min(super::target::SIZE_MAX);
                Target::Work { size: Some(size), lasts: Some(self.duration()) }
            }
            Workload::WebTree => {
                let page = self.tree.as_ref().expect("it has one").draw(&mut self.sizes);
                if DYNAMIC_PAGES.draw(&mut self.kinds) {
                    return Target::Dynamic { page, lasts: Some(self.duration()) };
                }
                Target::Static(page)
            }
        }
    }

    /// In whole microseconds, as paths have it.
    fn duration(&mut self) -> Span {
        let drawn_us = Span::from_us(self.duration.draw(&mut self.durations) / 1_000);
        drawn_us.min(super::target::DURATION_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(workload: Workload) -> Vec<Target> {
        let mut requests = Requests::new(&WorkloadSpec::new(workload), 7);
        (0..20_000).map(|_| requests.draw()).collect()
    }

    #[test]
    fn names_are_read() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        assert!("VSVD".parse::<Workload>().unwrap_err().contains("fine-grain, fsfd"));
    }

    #[test]
    fn what_is_fixed_is_fixed_and_what_varies_varies() {
        for (workload, size_varies, duration_varies) in [
            (Workload::Fsfd, false, false),
            (Workload::Fsvd, false, true),
            (Workload::Vsfd, true, false),
            (Workload::Vsvd, true, true),
        ] {
            let all = requests(workload);
            let works = all.iter().map(|target| match target {
                Target::Work { size: Some(size), lasts: Some(lasts) } => (*size, *lasts),
                other => panic!("{workload:?}: {other:?}"),
            });
            let (sizes, durations): (Vec<_>, Vec<_>) = works.unzip();
            assert_eq!(sizes.iter().any(|size| *size != sizes[0]), size_varies, "{workload:?}");
            assert_eq!(durations.iter().any(|it| *it != durations[0]), duration_varies, "{workload:?}");
        }
        assert!(requests(Workload::FineGrain).iter().all(|target| *target == Target::Root));
    }

    #[test]
    fn mixtures_are_as_documented() {
        let share =
            |workload, is: fn(&Target) -> bool| requests(workload).iter().filter(|it| is(it)).count() as f64 / 2e4;
        let empty = share(Workload::HtmMemory, |target| *target == Target::Root);
        let dynamic = share(Workload::WebTree, |target| matches!(target, Target::Dynamic { .. }));
        assert!((empty - 0.6).abs() < 0.02 && (dynamic - 0.3).abs() < 0.02, "{empty} {dynamic}");
    }

    #[test]
    fn a_size_of_ones_own_does_not_shift_durations() {
        let spec = WorkloadSpec::new(Workload::Vsvd);
        let own = WorkloadSpec { size: Some(Distribution::Fixed(5)), ..spec };
        let (mut usual, mut own) = (Requests::new(&spec, 1), Requests::new(&own, 1));
        for _ in 0..100 {
            let (Target::Work { lasts: a, .. }, Target::Work { lasts: b, size }) = (usual.draw(), own.draw()) else {
                panic!("they work")
            };
            assert_eq!((a, size), (b, Some(5)));
        }
    }
}
