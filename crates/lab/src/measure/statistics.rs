//! Mean, spread and confidence of a few runs.
//!
//! The confidence interval is Student's: mean +- t * s / sqrt(n), with t the 0.995 quantile of the t distribution with
//! n - 1 degrees of freedom (two-sided 99 %) and s the sample standard deviation (divisor n - 1). Quantiles of the
//! samples are linear between closest ranks (Hyndman and Fan 1996, type 7: what R and `NumPy` do by default).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What the intervals cover.
pub const CONFIDENCE: f64 = 0.99;

/// A set of samples in short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub n: u32,
    /// The least.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Sample standard deviation (divisor n - 1). `None` for one sample.
    pub standard_deviation: Option<f64>,
    /// Half the width of the 99 % confidence interval of the mean. `None` for one sample.
    pub interval: Option<f64>,
}

/// How two sets of paired samples differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// How many pairs; 0 if only two means are compared.
    pub n: u32,
    /// Mean of `a - b`.
    pub mean: f64,
    /// Half the width of its 99 % confidence interval (Student's t over the pairs' differences). `None` for one pair.
    pub interval: Option<f64>,
    /// The mean difference as a fraction of the mean of `b`. `None` if that is zero.
    pub relative: Option<f64>,
    /// `interval` as a fraction of the mean of `b`.
    pub relative_interval: Option<f64>,
}

/// Describes `samples`; `None` if there are none.
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let mean = mean(samples)?;
    let standard_deviation = standard_deviation(samples, mean);
    Some(Summary {
        n: samples.len() as u32,
        min,
        // Rounding must not push the mean of equal samples past them.
        mean: mean.clamp(min, max),
        max,
        p50: quantile(&sorted, 0.5),
        p99: quantile(&sorted, 0.99),
        standard_deviation,
        interval: standard_deviation.map(|s| half_width(s, samples.len())),
    })
}

/// Compares pairs: `a[i]` was measured under the same conditions as `b[i]`. `None` without pairs.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Difference> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let summary = summarise(&differences)?;
    Some(difference(summary.n, summary.mean, summary.interval, mean(&b[..differences.len()])))
}

/// Compares two means where samples do not form pairs: without an interval.
pub fn unpaired(a: f64, b: f64) -> Difference {
    difference(0, a - b, None, Some(b))
}

fn difference(n: u32, mean: f64, interval: Option<f64>, base: Option<f64>) -> Difference {
    let base = base.filter(|&base| base != 0.0).map(f64::abs);
    Difference {
        n,
        mean,
        interval,
        relative: base.map(|base| mean / base),
        relative_interval: base.and_then(|base| interval.map(|half| half / base)),
    }
}

/// Jain's fairness index (Jain, Chiu, Hawe 1984): 1 when all are equal, 1/n when one has it all. `None` without samples.
///
/// Nobody getting anything is equal shares, so it is 1.
pub fn jain(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let sum: f64 = samples.iter().sum();
    let squares: f64 = samples.iter().map(|x| x * x).sum();
    Some(if squares == 0.0 { 1.0 } else { sum * sum / (samples.len() as f64 * squares) })
}

/// The arithmetic mean; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The `q` quantile of samples in ascending order (type 7); 0 without samples.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let rank = q.clamp(0.0, 1.0) * last as f64;
    let below = sorted[rank.floor() as usize];
    let above = sorted[rank.ceil() as usize];
    below + (above - below) * rank.fract()
}

fn standard_deviation(samples: &[f64], mean: f64) -> Option<f64> {
    let freedom = samples.len().checked_sub(1).filter(|&n| n > 0)?;
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / freedom as f64).sqrt())
}

fn half_width(standard_deviation: f64, n: usize) -> f64 {
    student_t(n as u32 - 1) * standard_deviation / (n as f64).sqrt()
}

/// The two-sided 99 % quantile of Student's t with `freedom` degrees of freedom.
///
/// # Panics
/// If `freedom` is zero.
pub fn student_t(freedom: u32) -> f64 {
    StudentsT::new(0.0, 1.0, f64::from(freedom))
        .expect("at least one degree of freedom")
        .inverse_cdf(0.5 + CONFIDENCE / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, by: f64) {
        assert!((a - b).abs() <= by, "{a} is not within {by} of {b}");
    }

    #[test]
    fn quantiles_of_t_are_those_of_the_printed_tables() {
        // NIST/SEMATECH e-Handbook, 1.3.6.7.2, column 0.995.
        for (freedom, t) in [(1, 63.657), (2, 9.925), (4, 4.604), (9, 3.250), (29, 2.756), (100, 2.626)] {
            close(student_t(freedom), t, 6e-4);
        }
    }

    #[test]
    fn a_summary_of_a_known_sample() {
        // NIST StRD "NumAcc3": 1000000.2, then 1000000.1 and 1000000.3 in turn; certified mean 1000000.2, s = 0.1.
        let samples: Vec<f64> =
            (0..1_001).map(|i| 1_000_000.2 + [0.1, -0.1][i % 2] * f64::from(u8::from(i > 0))).collect();
        let summary = summarise(&samples).unwrap();
        close(summary.mean, 1_000_000.2, 1e-8);
        close(summary.standard_deviation.unwrap(), 0.1, 1e-8);
    }

    #[test]
    fn the_sleep_data_of_student_1908() {
        // Student's own paired example (R's data set `sleep`): mean difference 1.58, t = 4.0621 with 9 degrees of
        // freedom, 99 % interval 0.3159 .. 2.8441.
        let drug1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let drug2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let difference = paired(&drug2, &drug1).unwrap();
        close(difference.mean, 1.58, 1e-12);
        close(difference.interval.unwrap(), 1.2641, 1e-3);
        close(difference.mean / (difference.interval.unwrap() / student_t(9)), 4.0621, 1e-4);
        close(difference.relative.unwrap(), 1.58 / 0.75, 1e-12);
    }

    #[test]
    fn one_sample_has_no_interval() {
        let summary = summarise(&[7.0]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.p99), (1, 7.0, 7.0));
        assert_eq!((summary.interval, summary.standard_deviation), (None, None));
        assert_eq!(summarise(&[]), None);
    }

    #[test]
    fn quantiles_lie_between_closest_ranks() {
        // R: quantile(1:10, c(.5, .99)) = 5.50, 9.91.
        let sorted: Vec<f64> = (1..=10).map(f64::from).collect();
        close(quantile(&sorted, 0.5), 5.5, 1e-12);
        close(quantile(&sorted, 0.99), 9.91, 1e-12);
    }

    #[test]
    fn jain_knows_its_extremes() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), Some(1.0));
        assert_eq!(jain(&[]), None);
        close(jain(&[1.0, 2.0, 3.0]).unwrap(), 36.0 / 42.0, 1e-12);
    }

    #[test]
    fn equal_samples_have_no_spread() {
        let summary = summarise(&[0.1; 3]).unwrap();
        assert_eq!((summary.min, summary.mean, summary.max), (0.1, 0.1, 0.1));
        close(summary.interval.unwrap(), 0.0, 1e-15);
    }
}
