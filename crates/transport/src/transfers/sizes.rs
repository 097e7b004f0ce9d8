//! How many bytes transfers have: all the same, or drawn from a distribution.
//!
//! A distribution is given by points of its cumulative distribution function, with straight lines between them: sizes between two points are equally likely. The
//! first point's share is that of transfers with exactly its size. Draws are computed in whole numbers, so that every machine has the same ones.

use std::fmt;
use std::str::FromStr;

use machine::{Rng, mix};
use serde::{Serialize, Serializer};

/// The whole of a distribution, in the parts in which shares are counted.
pub const WHOLE: u32 = 1_000_000_000;
/// The most points of a distribution.
pub const POINTS_MAX: usize = 256;
/// The largest transfer, bytes.
pub const BYTES_MAX: u32 = 1_000_000_000;

/// What keeps this randomness apart from that of the moments at which transfers begin.
const LABEL: u64 = 0x7369_7a65_735f_6f66;

/// A point of a cumulative distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Payload of a transfer.
    pub bytes: u32,
    /// The share of transfers that have no more, in parts of [`WHOLE`].
    pub share: u32,
}

/// The sizes of transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Both coordinates rise, or stay; the last share is [`WHOLE`].
    points: Vec<Point>,
}

/// Why points are no distribution. The number is the place of the point, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDistribution {
    /// There is none.
    Empty,
    /// There are more than [`POINTS_MAX`].
    TooMany,
    /// A size is none of 1 to [`BYTES_MAX`] bytes.
    Size(usize),
    /// A size is smaller than the one before.
    SizeFalls(usize),
    /// A share is smaller than the one before.
    ShareFalls(usize),
    /// The last share is not [`WHOLE`], or one is larger.
    NotWhole,
}

impl Sizes {
    /// All have the same size.
    pub fn fixed(bytes: u32) -> Self {
        Self { points: vec![Point { bytes: bytes.clamp(1, BYTES_MAX), share: WHOLE }] }
    }

    /// By points of the cumulative distribution function.
    ///
    /// # Errors
    /// If they do not rise up to the whole.
    pub fn from_points(points: Vec<Point>) -> Result<Self, NoDistribution> {
        if points.len() > POINTS_MAX {
            return Err(NoDistribution::TooMany);
        }
        for (at, point) in points.iter().enumerate() {
            if !(1..=BYTES_MAX).contains(&point.bytes) {
                return Err(NoDistribution::Size(at));
            }
            let Some(before) = at.checked_sub(1).map(|before| points[before]) else { continue };
            if point.bytes < before.bytes {
                return Err(NoDistribution::SizeFalls(at));
            }
            if point.share < before.share {
                return Err(NoDistribution::ShareFalls(at));
            }
        }
        match points.last() {
            None => Err(NoDistribution::Empty),
            Some(last) if last.share != WHOLE => Err(NoDistribution::NotWhole),
            Some(_) => Ok(Self { points }),
        }
    }

    /// Queries of a web search: the cluster's flows in Alizadeh et al., Data Center TCP (SIGCOMM 2010), in packets of 1,460 bytes as pFabric's simulations have them.
    pub fn web_search() -> Self {
        Self::of_packets(&[
            (6, 150),
            (13, 200),
            (19, 300),
            (33, 400),
            (53, 530),
            (133, 600),
            (667, 700),
            (1_333, 800),
            (3_333, 900),
            (6_667, 970),
            (20_000, 1_000),
        ])
    }

    /// Jobs that mine data: the cluster's flows in Greenberg et al., VL2 (SIGCOMM 2009), in packets of 1,460 bytes as pFabric's simulations have them.
    pub fn data_mining() -> Self {
        Self::of_packets(&[
            (1, 500),
            (2, 600),
            (3, 700),
            (7, 800),
            (267, 900),
            (2_107, 950),
            (66_667, 990),
            (666_667, 1_000),
        ])
    }

    /// Points in packets and in thousandths.
    fn of_packets(points: &[(u32, u32)]) -> Self {
        const PACKET: u32 = 1_460;
        let point = |&(packets, share)| Point { bytes: packets * PACKET, share: share * (WHOLE / 1_000) };
        Self { points: points.iter().map(point).collect() }
    }

    /// Sizes whose logarithm is distributed normally, cut at 3.5 standard deviations: `median` bytes, and `sigma`, the standard deviation of the natural logarithm, in
    /// thousandths.
    pub fn log_normal(median: u32, sigma: u32) -> Self {
        /// Steps of a quarter of an eighth of a standard deviation.
        const STEPS: i32 = 56;
        const WIDEST: f64 = 3.5;
        let (median, sigma) = (f64::from(median), f64::from(sigma) / 1_000.0);
        let at = |step: i32| WIDEST * f64::from(step) / f64::from(STEPS);
        let beyond = below(-WIDEST);
        let point = |step| Point {
            bytes: (median * exp(sigma * at(step))).round().clamp(1.0, f64::from(BYTES_MAX)) as u32,
            share: ((below(at(step)) - beyond) / (1.0 - 2.0 * beyond) * f64::from(WHOLE)).round() as u32,
        };
        let mut points: Vec<Point> = (-STEPS..=STEPS).map(point).collect();
        if let Some(last) = points.last_mut() {
            last.share = WHOLE;
        }
        Self { points }
    }

    /// The size that all have, if they have.
    pub fn all_the_same(&self) -> Option<u32> {
        let first = self.points.first()?.bytes;
        self.points.iter().all(|point| point.bytes == first).then_some(first)
    }

    /// The mean, bytes.
    pub fn mean(&self) -> f64 {
        let mut sum = 0.0;
        let mut before = Point { share: 0, ..self.points[0] };
        for &point in &self.points {
            let middle = f64::midpoint(f64::from(before.bytes), f64::from(point.bytes));
            sum += middle * f64::from(point.share - before.share) / f64::from(WHOLE);
            before = point;
        }
        sum
    }

    /// The smallest, bytes.
    pub fn smallest(&self) -> u32 {
        self.points.first().map_or(0, |point| point.bytes)
    }

    /// The largest, bytes.
    pub fn largest(&self) -> u32 {
        self.points.last().map_or(0, |point| point.bytes)
    }

    /// The size below which this share lies, in parts of [`WHOLE`].
    fn quantile(&self, share: u32) -> u32 {
        let above = self.points.partition_point(|point| point.share <= share).min(self.points.len() - 1);
        let point = self.points[above];
        let Some(before) = above.checked_sub(1).map(|before| self.points[before]) else { return point.bytes };
        let (wide, high) = (u64::from(point.bytes - before.bytes), u64::from(point.share - before.share));
        if high == 0 {
            return point.bytes;
        }
        before.bytes + (wide * u64::from(share.saturating_sub(before.share)) / high) as u32
    }
}

/// Draws sizes one after the other.
#[derive(Clone, Debug)]
pub struct Draws {
    rng: Rng,
    sizes: Sizes,
}

impl Draws {
    /// For a pair of hosts with this [`super::seed`].
    pub fn new(seed: u64, sizes: Sizes) -> Self {
        Self { rng: Rng::new(mix(seed ^ LABEL)), sizes }
    }

    /// The next one, bytes.
    pub fn next_size(&mut self) -> u32 {
        self.sizes.quantile(self.rng.below(WHOLE))
    }
}

/// A number where all have the same size; else points, `[[bytes, share], ..]` with shares up to 1.
impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.all_the_same() {
            Some(bytes) => serializer.serialize_u32(bytes),
            None => serializer
                .collect_seq(self.points.iter().map(|point| (point.bytes, f64::from(point.share) / f64::from(WHOLE)))),
        }
    }
}

/// Points as one word, for the command line of a program in a host: `10000:500000000,1000000:1000000000`.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, point) in self.points.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}:{}", point.bytes, point.share)?;
        }
        Ok(())
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let point = |word: &str| {
            let (bytes, share) = word.split_once(':')?;
            Some(Point { bytes: bytes.parse().ok()?, share: share.parse().ok()? })
        };
        let points: Option<Vec<Point>> = text.split(',').map(point).collect();
        let points = points.ok_or("expected points BYTES:SHARE, with commas between them")?;
        Self::from_points(points).map_err(|error| format!("no distribution: {error:?}"))
    }
}

/// e to the power of `x`, by sums and products alone: a library's own differs in its last bit from machine to machine.
fn exp(x: f64) -> f64 {
    const HALVINGS: i32 = 10;
    let small = x / f64::from(1 << HALVINGS);
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..16 {
        term *= small / f64::from(n);
        sum += term;
    }
    (0..HALVINGS).fold(sum, |power, _| power * power)
}

/// The share of a normal distribution below `z`: 1/2 + φ(z) (z + z³/3 + z⁵/15 + ...).
fn below(z: f64) -> f64 {
    const DENSITY: f64 = 0.398_942_280_401_432_7;
    let (mut sum, mut term) = (z, z);
    for n in 1..100 {
        term *= z * z / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + DENSITY * exp(-z * z / 2.0) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(sizes: &Sizes, count: usize) -> Vec<u32> {
        let mut draws = Draws::new(7, sizes.clone());
        (0..count).map(|_| draws.next_size()).collect()
    }

    /// The share of draws of at most so many bytes.
    fn share(drawn: &[u32], bytes: u32) -> f64 {
        drawn.iter().filter(|&&size| size <= bytes).count() as f64 / drawn.len() as f64
    }

    #[test]
    fn draws_follow_the_points() {
        let sizes = Sizes::web_search();
        let drawn = drawn(&sizes, 100_000);
        for point in &sizes.points {
            let seen = share(&drawn, point.bytes);
            let expected = f64::from(point.share) / f64::from(WHOLE);
            assert!((seen - expected).abs() < 0.01, "{point:?}: {seen}");
        }
        assert_eq!(drawn.iter().min(), Some(&8_760), "what the first point says is its size, and nothing is smaller");
        let mean = drawn.iter().map(|&size| f64::from(size)).sum::<f64>() / drawn.len() as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.02, "{mean} of {}", sizes.mean());
        // 1.6 MB, as those who use it say.
        assert!((1.6e6..1.8e6).contains(&sizes.mean()) && sizes.largest() == 29_200_000);
        assert!((7e6..13e6).contains(&Sizes::data_mining().mean()), "{}", Sizes::data_mining().mean());
    }

    #[test]
    fn a_log_normal_distribution_has_its_median_and_its_tail() {
        let sizes = Sizes::log_normal(20_000, 1_500);
        let drawn = drawn(&sizes, 100_000);
        for (z, expected) in [(-2.0, 0.022_750), (-1.0, 0.158_655), (0.0, 0.5), (1.0, 0.841_345), (3.0, 0.998_650)] {
            let seen = share(&drawn, (20_000.0 * exp(1.5 * z)) as u32);
            assert!((seen - expected).abs() < 0.005, "{z}: {seen}");
            assert!((below(z) - expected).abs() < 1e-6);
        }
        for x in [-12.0, -1.0, 0.0, 0.5, 12.0] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() < 1e-9, "{x}");
        }
        assert_eq!(Sizes::log_normal(500, 0).all_the_same(), Some(500));
        // As wide as the file may have it, it stays within bounds.
        assert_eq!(Sizes::log_normal(BYTES_MAX, 4_000).largest(), BYTES_MAX);
    }

    #[test]
    fn sizes_do_not_move_the_moments() {
        let moments = |seed| {
            let mut starts = super::super::Starts::new(seed, machine::Span::from_ms(1));
            [starts.next_start(), starts.next_start()]
        };
        let before = moments(3);
        drawn(&Sizes::web_search(), 10);
        assert_eq!(moments(3), before);
        assert_eq!(drawn(&Sizes::fixed(1_234), 3), [1_234; 3]);
        let mut other = Draws::new(8, Sizes::web_search());
        let other: Vec<u32> = (0..5).map(|_| other.next_size()).collect();
        assert_ne!(drawn(&Sizes::web_search(), 5), other);
    }

    #[test]
    fn sizes_go_through_a_command_line_and_back() {
        for sizes in [Sizes::fixed(1), Sizes::data_mining(), Sizes::log_normal(20_000, 700)] {
            assert_eq!(sizes.to_string().parse(), Ok(sizes));
        }
        for wrong in ["", "1", "1:", "5:1000000000,4:1000000000", "5:1", "0:1000000000", "1:2000000000"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_distribution_is_said() {
        let point = |(bytes, share)| Point { bytes, share };
        let refused = |points: &[(u32, u32)]| Sizes::from_points(points.iter().copied().map(point).collect()).err();
        assert_eq!(refused(&[]), Some(NoDistribution::Empty));
        assert_eq!(refused(&[(1, 0); POINTS_MAX + 1]), Some(NoDistribution::TooMany));
        assert_eq!(refused(&[(0, WHOLE)]), Some(NoDistribution::Size(0)));
        assert_eq!(refused(&[(2, 1), (1, WHOLE)]), Some(NoDistribution::SizeFalls(1)));
        assert_eq!(refused(&[(1, 2), (2, 1), (2, WHOLE)]), Some(NoDistribution::ShareFalls(1)));
        assert_eq!(refused(&[(1, 2), (2, WHOLE - 1)]), Some(NoDistribution::NotWhole));
        assert_eq!(refused(&[(5, 0), (5, WHOLE)]), None);
    }
}
