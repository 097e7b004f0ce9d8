//! How sizes and durations vary: fixed, uniform, exponential, Pareto, log-normal.

use core::fmt;

use machine::{Rng, Span};
use serde::Serialize;

use super::logarithm::{exp, exp2, ln, power};
use super::quantity;

/// No value drawn is larger: 4 TiB, or 73 minutes in nanoseconds.
pub const VALUE_MAX: u64 = 1 << 42;

/// A distribution of whole numbers: bytes, or nanoseconds. The same seed draws the same numbers on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Always the same.
    Fixed(u64),
    /// Anything from the one to the other, both included.
    Uniform {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// As between events that know nothing of each other.
    Exponential {
        /// The mean.
        mean: u64,
    },
    /// A heavy tail: of those above `x`, the share that is above `2x` does not depend on `x`. It is cut off at a largest value, as bounded Pareto
    /// distributions are.
    Pareto {
        /// The smallest.
        min: u64,
        /// The exponent of the tail, in thousandths: the smaller, the heavier.
        shape_milli: u32,
        /// The largest.
        max: u64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// The median.
        median: u64,
        /// The standard deviation of the natural logarithm, in thousandths.
        sigma_milli: u32,
    },
}

impl Distribution {
    /// Draws a number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => {
                let count = u128::from(max - min) + 1;
                min + ((u128::from(rng.bits()) * count) >> 64) as u64
            }
            Self::Exponential { mean } => rng.exponential(Span::from_ps(mean)).as_ps().min(VALUE_MAX),
            Self::Pareto { min, shape_milli, max } => {
                let shape = f64::from(shape_milli) / 1e3;
                // The share that the bound cuts off; the rest is drawn from.
                let beyond = power(min as f64 / max as f64, shape);
                let drawn = 1.0 - rng.fraction() * (1.0 - beyond);
                ((min as f64 * power(drawn, -1.0 / shape)) as u64).clamp(min, max)
            }
            Self::Lognormal { median, sigma_milli } => {
                let exponent = f64::from(sigma_milli) / 1e3 * normal(rng);
                ((median as f64 * exp(exponent)) as u64).min(VALUE_MAX)
            }
        }
    }

    /// The mean, for reports and for planning how much load is full load.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(value) => value as f64,
            Self::Uniform { min, max } => f64::midpoint(min as f64, max as f64),
            Self::Exponential { mean } => mean as f64,
            Self::Pareto { min, shape_milli, max } => {
                let (low, high, shape) = (min as f64, max as f64, f64::from(shape_milli) / 1e3);
                if min == max {
                    return low;
                }
                let ratio = low / high;
                if shape_milli == 1_000 {
                    return low * ln(high / low) / (1.0 - ratio);
                }
                low * shape / (shape - 1.0) * (1.0 - power(ratio, shape - 1.0)) / (1.0 - power(ratio, shape))
            }
            Self::Lognormal { median, sigma_milli } => {
                let sigma = f64::from(sigma_milli) / 1e3;
                median as f64 * exp(sigma * sigma / 2.0)
            }
        }
    }

    /// Durations, in nanoseconds: `2ms`, `uniform:1ms,3ms`, `exp:2ms`, `pareto:1ms,1.5,100ms`, `lognormal:2ms,1.0`.
    ///
    /// # Errors
    /// What was expected.
    pub fn durations(text: &str) -> Result<Self, String> {
        Self::parse(text, quantity::time_ns)
    }

    /// Sizes, in bytes: `8MiB`, `uniform:1MiB,4MiB`, `exp:2MiB`, `pareto:1MiB,1.2,64MiB`, `lognormal:1MiB,0.5`.
    ///
    /// # Errors
    /// What was expected.
    pub fn sizes(text: &str) -> Result<Self, String> {
        Self::parse(text, quantity::size)
    }

    fn parse(text: &str, value: fn(&str) -> Result<u64, String>) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or(("fixed", text));
        let parameters: Vec<&str> = rest.split(',').collect();
        let expected = |form: &str| format!("`{text}`: expected {form}");
        match (name, parameters.as_slice()) {
            ("fixed", [fixed]) => Ok(Self::Fixed(value(fixed)?)),
            ("uniform", [min, max]) => {
                let (min, max) = (value(min)?, value(max)?);
                let uniform = Self::Uniform { min, max };
                if min <= max { Ok(uniform) } else { Err(expected("the smaller one first")) }
            }
            ("exp" | "exponential", [mean]) => Ok(Self::Exponential { mean: value(mean)? }),
            ("pareto", [min, shape]) => Self::pareto(text, value(min)?, shape, VALUE_MAX),
            ("pareto", [min, shape, max]) => Self::pareto(text, value(min)?, shape, value(max)?),
            ("lognormal", [median, sigma]) => {
                let sigma_milli = milli(sigma, 5_000).ok_or_else(|| expected("a deviation of 0.001 to 5"))?;
                Ok(Self::Lognormal { median: value(median)?, sigma_milli })
            }
            _ => Err(expected("a value, uniform:MIN,MAX, exp:MEAN, pareto:MIN,SHAPE[,MAX] or lognormal:MEDIAN,SIGMA")),
        }
    }

    fn pareto(text: &str, min: u64, shape: &str, max: u64) -> Result<Self, String> {
        let expected = |form: &str| format!("`{text}`: expected {form}");
        let shape_milli = milli(shape, 100_000).ok_or_else(|| expected("a shape of 0.001 to 100"))?;
        let is_range = min > 0 && min <= max;
        if is_range {
            Ok(Self::Pareto { min, shape_milli, max })
        } else {
            Err(expected("a smallest value above zero, and none below it"))
        }
    }
}

/// A number of thousandths, from one to `max`.
fn milli(text: &str, max: u32) -> Option<u32> {
    let number: f64 = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))?;
    let milli = (number * 1e3 + 0.5) as u32;
    (1..=max).contains(&milli).then_some(milli)
}

/// A number from the standard normal distribution: the direction of a random point, by Marsaglia's polar method, and a radius of its own.
fn normal(rng: &mut Rng) -> f64 {
    const UNIT: u64 = 1 << 40;
    loop {
        let (x, y) = (2.0 * rng.fraction() - 1.0, 2.0 * rng.fraction() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            let exponential = rng.exponential(Span::from_ps(UNIT)).as_ps() as f64 / UNIT as f64;
            return x * (2.0 * exponential / square).sqrt();
        }
    }
}

impl fmt::Display for Distribution {
    /// In the units that values are counted in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(value) => write!(f, "{value}"),
            Self::Uniform { min, max } => write!(f, "uniform:{min},{max}"),
            Self::Exponential { mean } => write!(f, "exp:{mean}"),
            Self::Pareto { min, shape_milli, max } => write!(f, "pareto:{min},{},{max}", f64::from(*shape_milli) / 1e3),
            Self::Lognormal { median, sigma_milli } => {
                write!(f, "lognormal:{median},{}", f64::from(*sigma_milli) / 1e3)
            }
        }
    }
}

/// The numbers 1 to `n`, each drawn as often as one divided by it (Zipf's law with exponent 1), or to another power.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// The shares up to and with each, in units of 2^-32.
    up_to: Vec<u32>,
}

impl Zipf {
    /// # Panics
    /// If there is nothing to draw from.
    pub fn new(n: u32, exponent: f64) -> Self {
        assert!(n > 0, "there is one at least");
        let weight = |rank: u32| exp2(-exponent * super::logarithm::log2(f64::from(rank)));
        let total: f64 = (1..=n).map(weight).sum();
        let mut sum = 0.0;
        let up_to = (1..=n).map(|rank| {
            sum += weight(rank);
            (sum / total * f64::from(u32::MAX)) as u32
        });
        Self { up_to: up_to.collect() }
    }

    /// Draws an index from zero on.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let drawn = (rng.bits() >> 32) as u32;
        (self.up_to.partition_point(|&up_to| up_to < drawn) as u32).min(self.up_to.len() as u32 - 1)
    }
}

/// An index, each drawn as often as its weight says.
pub(super) fn weighted(weights: &[u32], rng: &mut Rng) -> usize {
    let mut drawn = rng.below(weights.iter().sum());
    for (index, weight) in weights.iter().enumerate() {
        if drawn < *weight {
            return index;
        }
        drawn -= weight;
    }
    unreachable!("it lies below their sum")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::*;

    fn drawn(distribution: &Distribution) -> Vec<u64> {
        let mut rng = Rng::new(3);
        (0..40_000).map(|_| distribution.draw(&mut rng)).collect()
    }

    #[test]
    fn what_is_drawn_has_the_mean_that_it_should() {
        for text in
            ["2ms", "uniform:1ms,3ms", "exp:2ms", "pareto:1ms,1.5,100ms", "pareto:1ms,1,100ms", "lognormal:2ms,0.8"]
        {
            let distribution = Distribution::durations(text).expect("it is one");
            let all = drawn(&distribution);
            let mean = all.iter().map(|&it| it as f64).sum::<f64>() / all.len() as f64;
            assert!((mean / distribution.mean() - 1.0).abs() < 0.05, "{text}: {mean} {}", distribution.mean());
        }
    }

    #[test]
    fn tails_are_as_heavy_as_they_should_be() {
        let all = drawn(&Distribution::sizes("pareto:1000,1.2,1000000").expect("it is one"));
        assert!(all.iter().all(|it| (1_000..=1_000_000).contains(it)));
        let above = |x: u64| all.iter().filter(|&&it| it > x).count() as f64 / all.len() as f64;
        // 10^-1.2, and the bound takes some of it.
        assert!((above(10_000) - 0.0628).abs() < 0.004, "{}", above(10_000));
        let all = drawn(&Distribution::Lognormal { median: 1_000_000, sigma_milli: 1_000 });
        let above = |x: u64| all.iter().filter(|&&it| it > x).count() as f64 / all.len() as f64;
        assert!((above(1_000_000) - 0.5).abs() < 0.01 && (above(2_718_281) - 0.158_7).abs() < 0.01);
    }

    #[test]
    fn the_same_seed_draws_the_same_numbers_for_ever() {
        let draw = |text| Distribution::sizes(text).expect("it is one").draw(&mut Rng::new(1));
        let texts = ["uniform:0,1000000", "exp:1000000", "pareto:1000,1.2", "lognormal:1000000,1"];
        assert_eq!(texts.map(draw), [811_612, 208_732, 4_019, 5_370_404]);
    }

    #[test]
    fn ranks_follow_zipf() {
        let zipf = Zipf::new(100, 1.0);
        let mut rng = Rng::new(5);
        let mut seen = [0_u32; 100];
        for _ in 0..100_000 {
            seen[zipf.draw(&mut rng) as usize] += 1;
        }
        let first = f64::from(seen[0]);
        assert!(
            (first / f64::from(seen[1]) - 2.0).abs() < 0.1 && (first / f64::from(seen[9]) - 10.0).abs() < 1.0,
            "{seen:?}"
        );
        assert!(seen.iter().all(|&times| times > 0));
        assert_eq!(Zipf::new(1, 1.0).draw(&mut rng), 0);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for wrong in [
            "",
            "exp",
            "exp:",
            "uniform:3ms,1ms",
            "pareto:0ms,1",
            "pareto:1ms,0",
            "pareto:2ms,1,1ms",
            "lognormal:1ms",
            "gauss:1ms,1",
            "lognormal:1ms,nan",
            "pareto:1ms,inf",
            "exp:1ms,2",
        ] {
            assert!(Distribution::durations(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,40}") {
            let _ = Distribution::durations(&text);
        }

        #[test]
        fn what_was_read_draws_within_bounds(name in "exp|uniform|pareto|lognormal|fixed", numbers in prop::collection::vec("[0-9]{1,6}(\\.[0-9]{1,3})?(ns|us|ms|s|m)?", 1..4), seed: u64) {
            if let Ok(distribution) = Distribution::durations(&format!("{name}:{}", numbers.join(","))) {
                prop_assert!(distribution.draw(&mut Rng::new(seed)) <= VALUE_MAX);
                prop_assert!(distribution.mean() >= 0.0);
            }
        }
    }
}
