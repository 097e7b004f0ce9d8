//! Mean, spread and confidence of a few runs.
//!
//! The confidence interval is Student's: mean +- t * s / sqrt(n), with t the 0.995 quantile of the t distribution with
//! n - 1 degrees of freedom (two-sided 99 %) and s the sample standard deviation (divisor n - 1). Quantiles of the
//! samples are linear between closest ranks (Hyndman and Fan 1996, type 7: what R and `NumPy` do by default).

use fabric::Statistic;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// What the intervals cover.
pub const CONFIDENCE: f64 = 0.99;

/// A set of samples in short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// How many pairs; 0 if only two means are compared.
    pub n: u32,
    /// Mean of `a - b`.
    pub mean: f64,
    /// Half the width of its 99 % confidence interval (Student's t over the pairs' differences). `None` for one pair.
    pub interval: Option<f64>,
    /// The mean difference as a fraction of the mean of `b`. `None` if that is near nothing: its own interval holds zero, or the difference is more than
    /// ten times as much.
    pub relative: Option<f64>,
    /// `interval` as a fraction of the mean of `b`.
    pub relative_interval: Option<f64>,
}

/// As a fraction of a base, no difference is larger: that base is near nothing, and a fraction of it says nothing.
pub const RELATIVE_MAX: f64 = 10.0;

/// Two sets of samples that do not form pairs, by their ranks (Mann and Whitney, 1947): it looks at which are larger, not at by how much.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RankTest {
    /// Samples of `a`.
    pub a: u32,
    /// Samples of `b`.
    pub b: u32,
    /// The share of pairs of one of `a` and one of `b` in which that of `a` is larger; where both are the same, a half counts.
    pub a_larger: f64,
    /// With which probability samples of one distribution lie so far apart at least, if each is independent of all others.
    pub p: f64,
}

/// Compares two sets of samples; `None` if one of them is empty. By the normal approximation, which takes some ten samples of each, corrected for ties and
/// continuity.
pub fn rank_test(a: &[f64], b: &[f64]) -> Option<RankTest> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let [of_a, of_b] = [a, b].map(|samples| samples.len() as f64);
    let (all, pairs) = (of_a + of_b, of_a * of_b);
    let mut sorted: Vec<(f64, bool)> = a.iter().map(|at| (*at, true)).chain(b.iter().map(|at| (*at, false))).collect();
    sorted.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let (mut rank_sum, mut before, mut ties) = (0.0, 0.0, 0.0);
    for equal in sorted.chunk_by(|(one, _), (other, _)| one.total_cmp(other).is_eq()) {
        let count = equal.len() as f64;
        let of_a = equal.iter().filter(|(_, is_of_a)| *is_of_a).count() as f64;
        rank_sum += of_a * (before + f64::midpoint(count, 1.0));
        ties += count * count * count - count;
        before += count;
    }
    // U: in how many pairs that of `a` is larger.
    let larger = rank_sum - of_a * f64::midpoint(of_a, 1.0);
    let variance = pairs / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    let apart = ((larger - pairs / 2.0).abs() - 0.5).max(0.0);
    let probability = if variance > 0.0 { 2.0 * Normal::standard().cdf(-apart / variance.sqrt()) } else { 1.0 };
    Some(RankTest { a: a.len() as u32, b: b.len() as u32, a_larger: larger / pairs, p: probability.min(1.0) })
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

/// A statistic of `samples`; `None` if there are none.
pub fn of(samples: &[f64], statistic: Statistic) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    Some(match statistic {
        Statistic::Min => min,
        Statistic::Mean => mean(samples)?.clamp(min, max),
        Statistic::P50 => quantile(&sorted, 0.5),
        Statistic::P90 => quantile(&sorted, 0.9),
        Statistic::P99 => quantile(&sorted, 0.99),
        Statistic::P999 => quantile(&sorted, 0.999),
        Statistic::Max => max,
    })
}

/// The median, and between which of the samples the median of their distribution lies with [`CONFIDENCE`] at least, whatever that is: from the k-th smallest to the
/// k-th largest, outside of which it lies as often as fewer than k of n coins show one side. With fewer than eight samples, from the least to the greatest is
/// less than that. `None` without samples.
pub fn median_interval(samples: &[f64]) -> Option<(f64, (f64, f64))> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (mut outside, mut coins, mut k) = (0.0, 0.5_f64.powf(n as f64), 0);
    while k + 1 < n.div_ceil(2) && 2.0 * (outside + coins) <= 1.0 - CONFIDENCE {
        outside += coins;
        coins *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let at = k.saturating_sub(1);
    Some((quantile(&sorted, 0.5), (*sorted.get(at)?, *sorted.get(n - 1 - at)?)))
}

/// Compares pairs: `a[i]` was measured under the same conditions as `b[i]`. `None` without pairs.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Difference> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let summary = summarise(&differences)?;
    let base = summarise(&b[..differences.len()])?;
    Some(difference(summary.n, summary.mean, summary.interval, (base.mean, base.interval)))
}

/// Compares two means where samples do not form pairs: without an interval.
pub fn unpaired(a: f64, b: f64) -> Difference {
    difference(0, a - b, None, (b, None))
}

/// Compares two sets of samples that do not form pairs: `a` minus `b`, with an interval by Welch's method if each has two samples at least.
pub fn independent(a: &Summary, b: &Summary) -> Difference {
    let variance = |it: &Summary| Some((it.standard_deviation?.powi(2) / f64::from(it.n), f64::from(it.n) - 1.0));
    let interval = variance(a).zip(variance(b)).map(|((of_a, free_a), (of_b, free_b))| {
        let both = of_a + of_b;
        // Welch and Satterthwaite's degrees of freedom.
        let freedom = both * both / (of_a * of_a / free_a + of_b * of_b / free_b);
        if both > 0.0 { t_quantile(freedom.max(1.0)) * both.sqrt() } else { 0.0 }
    });
    difference(0, a.mean - b.mean, interval, (b.mean, b.interval))
}

/// `base`: the mean of what it is held against, and half the width of its interval.
fn difference(n: u32, mean: f64, interval: Option<f64>, (base, of_base): (f64, Option<f64>)) -> Difference {
    let base = base.abs();
    let is_something = base > of_base.unwrap_or(0.0) && mean.abs() <= RELATIVE_MAX * base;
    let base = is_something.then_some(base);
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
    t_quantile(f64::from(freedom))
}

fn t_quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom").inverse_cdf(0.5 + CONFIDENCE / 2.0)
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
        // What the first drug did may have been nothing.
        assert_eq!((difference.relative, difference.relative_interval), (None, None));
    }

    #[test]
    fn samples_without_pairs_are_compared_after_welch() {
        // R: t.test(x, y, conf.level = 0.99) of the sleep data without pairs: 17.776 degrees of freedom, -0.8637 .. 4.0237.
        let drug1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let drug2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let difference = independent(&summarise(&drug2).unwrap(), &summarise(&drug1).unwrap());
        close(difference.mean, 1.58, 1e-12);
        close(difference.interval.unwrap(), 2.4437, 2e-2);
        let one = summarise(&[1.0]).unwrap();
        assert_eq!(independent(&one, &one).interval, None);
        let same = summarise(&[1.0, 1.0]).unwrap();
        assert_eq!((independent(&same, &same).mean, independent(&same, &same).interval), (0.0, Some(0.0)));
    }

    #[test]
    fn a_difference_is_no_fraction_of_nothing() {
        let relative = |a: &[f64], b: &[f64]| paired(a, b).unwrap().relative;
        assert_eq!(relative(&[103.0, 104.0], &[100.0, 100.0]), Some(0.035));
        assert_eq!(relative(&[5.0, 5.0], &[0.0, 0.0]), None);
        assert_eq!(relative(&[5.0, 5.0, 5.0], &[0.0, 1.0, 0.0]), None, "its interval holds zero");
        assert_eq!((relative(&[111.0], &[10.0]), relative(&[110.0], &[10.0])), (None, Some(10.0)));
        assert_eq!((unpaired(1.0, 0.0).relative, unpaired(1.5, 1.0).relative), (None, Some(0.5)));
    }

    #[test]
    fn ranks_of_known_samples() {
        // SciPy's example of mannwhitneyu: ages at which diabetes was found, U = 17, p = 0.111 347 by the normal approximation.
        let (men, women) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        let test = rank_test(&men, &women).unwrap();
        assert_eq!((test.a, test.b), (5, 4));
        close(test.a_larger, 17.0 / 20.0, 1e-12);
        close(test.p, 0.111_346_886_533_140_41, 1e-9);
        close(rank_test(&women, &men).unwrap().p, test.p, 1e-12);
        // Printed tables of U for 20 and 20 samples, two-sided: 105 at 1 %, 127 at 5 %. All of b but one move in steps of one through a, and the one makes up the rest.
        for (u, p) in [(105_u32, 0.01), (127, 0.05)] {
            let a: Vec<f64> = (0..20).map(f64::from).collect();
            // Each of b is larger than so many of a.
            let below = |at: u32| f64::from((400 - u) / 20 + u32::from(at < (400 - u) % 20)) - 0.5;
            let b: Vec<f64> = (0..20).map(|at| below(at) + f64::from(at) * 1e-3).collect();
            let test = rank_test(&a, &b).unwrap();
            close(test.a_larger, f64::from(u) / 400.0, 1e-12);
            close(test.p, p, p / 10.0);
        }
    }

    #[test]
    fn ranks_say_how_many_are_larger() {
        let mut rng = machine::Rng::new(5);
        for shift in 0..6 {
            let mut draw = |by: u32, n: usize| (0..n).map(|_| f64::from(rng.below(40) + by)).collect::<Vec<f64>>();
            let (a, b) = (draw(shift, 150), draw(0, 90));
            let share = |of_a: f64, of_b: f64| {
                f64::midpoint(f64::from(u8::from(of_a > of_b)), f64::from(u8::from(of_a >= of_b)))
            };
            let larger: f64 = a.iter().flat_map(|of_a| b.iter().map(move |of_b| share(*of_a, *of_b))).sum();
            close(rank_test(&a, &b).unwrap().a_larger, larger / (150.0 * 90.0), 1e-12);
        }
    }

    #[test]
    fn ranks_of_nothing_and_of_what_is_the_same() {
        assert_eq!(rank_test(&[], &[1.0]), None);
        assert_eq!(rank_test(&[1.0], &[]), None);
        let same = rank_test(&[2.0; 30], &[2.0; 40]).unwrap();
        assert_eq!((same.a_larger, same.p), (0.5, 1.0));
        let apart = rank_test(&[2.0; 30], &[1.0; 40]).unwrap();
        assert!(apart.p < 1e-9 && apart.a_larger > 0.999, "{apart:?}");
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
