//! What went on while a run was measured, step by step: one type for both drivers.

use fabric::Fabric;
use machine::Span;
use serde::{Deserialize, Serialize};

/// A run over its measured time. Each list has a number a step; the last step may be shorter than the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TimeSeries {
    /// Length of a step, seconds.
    pub step_seconds: f64,
    /// In the order of the record's flows; none where connections come and go.
    pub flows: Vec<FlowSeries>,
    /// In the order of the record's links.
    pub links: Vec<LinkSeries>,
}

/// A flow over time; where a pair has several streams, what they did together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowSeries {
    /// Payload delivered in the step, bit/s.
    pub goodput_bps: Vec<u64>,
    /// Congestion window at the end of the step, segments; empty: it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cwnd: Vec<f64>,
    /// Smoothed round-trip time at the end of the step, microseconds, on the mean over the streams of a pair; empty: it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_us: Vec<u64>,
    /// Segments sent again in the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retransmits: Vec<u64>,
    /// Segments that came late in the step (RFC 4737).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reordered: Vec<u64>,
}

/// A direction of a link over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Packets that waited behind the one in transmission, on the mean over the step; empty for a link without a rate.
    pub queue: Vec<f64>,
    /// Packets that were marked in the step (ECN); empty if none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<u64>,
}

/// How a run stood at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    /// Seconds since measuring began.
    pub at: f64,
    pub flows: Vec<FlowMoment>,
    /// Seconds that packets have waited at each direction of a link, all together.
    pub waited: Vec<f64>,
    /// Packets marked at each direction of a link.
    pub marks: Vec<u64>,
}

/// How a flow stood at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FlowMoment {
    pub delivered_bytes: u64,
    pub reordered: u64,
    /// Of a sender that has a window: that, in segments, and the segments sent again.
    pub sender: Option<(f64, u64)>,
    /// Smoothed round-trip time, seconds; `None`: it has none, or not yet.
    pub rtt: Option<f64>,
}

impl TimeSeries {
    /// Puts moments, which ascend, into steps from the first one on: what happened between two of them is taken to have happened evenly.
    pub(crate) fn new(fabric: &Fabric, (step, duration): (Span, Span), moments: &[Moment]) -> Option<Self> {
        let (first, last) = (moments.first()?, moments.last()?);
        let (step, duration) = (step.as_secs_f64(), duration.as_secs_f64().min(last.at - first.at));
        let steps = (duration / step - 1e-6).ceil() as usize;
        let edges: Vec<f64> = (0..=steps).map(|number| first.at + (number as f64 * step).min(duration)).collect();
        let widths: Vec<f64> = edges.windows(2).map(|edge| edge[1] - edge[0]).collect();
        // Growth of something in each step, by what it was at each moment.
        let grown = |value: &dyn Fn(&Moment) -> f64| -> Vec<f64> {
            let at_edges: Vec<f64> = edges.iter().map(|&edge| interpolated(moments, edge, value)).collect();
            at_edges.windows(2).map(|at| (at[1] - at[0]).max(0.0)).collect()
        };
        let flow = |number: usize| {
            let of = move |moment: &Moment| moment.flows[number];
            let bytes = grown(&|moment| of(moment).delivered_bytes as f64);
            let goodput_bps = bytes.iter().zip(&widths).map(|(bytes, width)| (bytes * 8.0 / width) as u64).collect();
            let reordered = whole(&grown(&|moment| of(moment).reordered as f64));
            if last.flows[number].sender.is_none() {
                return FlowSeries { goodput_bps, reordered, ..FlowSeries::default() };
            }
            let cwnd = edges[1..].iter().map(|&edge| rounded(of(latest(moments, edge)).sender.map_or(0.0, |it| it.0)));
            let again = grown(&|moment| of(moment).sender.map_or(0.0, |(_, retransmits)| retransmits as f64));
            let has_rtt = last.flows[number].rtt.is_some();
            let rtt = edges[1..].iter().filter(|_| has_rtt).map(|&edge| of(latest(moments, edge)).rtt.unwrap_or(0.0));
            let rtt_us = rtt.map(|seconds| (seconds * 1e6).round() as u64).collect();
            FlowSeries { goodput_bps, cwnd: cwnd.collect(), rtt_us, retransmits: whole(&again), reordered }
        };
        let link = |number: usize| {
            if fabric.topology.links.iter().nth(number / 2).is_none_or(|link| link.spec.rate_bps.is_none()) {
                return LinkSeries::default();
            }
            let waited = grown(&|moment| moment.waited[number]);
            let queue = waited.iter().zip(&widths).map(|(waited, width)| rounded(waited / width)).collect();
            let marked = last.marks.get(number) > first.marks.get(number);
            let marks = if marked { whole(&grown(&|moment| moment.marks[number] as f64)) } else { Vec::new() };
            LinkSeries { queue, marks }
        };
        Some(Self {
            step_seconds: step,
            flows: (0..first.flows.len()).map(flow).collect(),
            links: (0..first.waited.len()).map(link).collect(),
        })
    }

    /// When each step ends, seconds since measuring began, in a run that is measured so long.
    pub fn ends(&self, seconds: f64) -> impl Iterator<Item = f64> {
        let step = self.step_seconds;
        (1..=self.steps()).map(move |number| (number as f64 * step).min(seconds))
    }

    /// How many steps it has.
    pub fn steps(&self) -> usize {
        let flows = self.flows.iter().map(|flow| flow.goodput_bps.len());
        flows.chain(self.links.iter().map(|link| link.queue.len())).max().unwrap_or_default()
    }
}

/// What something was at a time between two moments.
fn interpolated(moments: &[Moment], at: f64, value: &dyn Fn(&Moment) -> f64) -> f64 {
    let after = moments.partition_point(|moment| moment.at <= at);
    match (after.checked_sub(1).map(|before| &moments[before]), moments.get(after)) {
        (Some(before), Some(after)) => {
            let share = (at - before.at) / (after.at - before.at);
            (value(after) - value(before)).mul_add(share, value(before))
        }
        (Some(one), None) | (None, Some(one)) => value(one),
        (None, None) => 0.0,
    }
}

/// The moment next to a time.
fn latest(moments: &[Moment], at: f64) -> &Moment {
    let nearest = moments.iter().min_by(|a, b| (a.at - at).abs().total_cmp(&(b.at - at).abs()));
    nearest.expect("there is a moment at least")
}

/// Whole numbers whose sums up to any place are those of the fractions, rounded.
fn whole(fractions: &[f64]) -> Vec<u64> {
    let (mut sum, mut given) = (0.0, 0);
    let mut next = |fraction: &f64| {
        sum += fraction;
        let whole = (sum.round() as u64).saturating_sub(given);
        given += whole;
        whole
    };
    fractions.iter().map(&mut next).collect()
}

/// Two decimals: samples stay short.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn moment(at: f64, delivered_bytes: u64, sender: Option<(f64, u64)>, waited: f64) -> Moment {
        Moment {
            at,
            flows: vec![FlowMoment {
                delivered_bytes,
                reordered: delivered_bytes / 1_000,
                sender,
                rtt: sender.map(|(cwnd, _)| cwnd * 1e-3),
            }],
            waited: vec![waited, 0.0],
            marks: vec![0, delivered_bytes / 1_000],
        }
    }

    #[test]
    fn moments_become_steps() {
        let fabric = testing::tree(1, 1, 2, true);
        // A moment that was missed, one that came late, and a last step that is shorter.
        let moments = [
            moment(2.0, 1_000, Some((10.0, 3)), 5.0),
            moment(2.1, 2_000, Some((20.0, 3)), 5.1),
            moment(2.3, 4_000, Some((40.0, 6)), 5.1),
            moment(2.4, 4_000, Some((5.0, 6)), 6.1),
            moment(2.46, 4_600, Some((6.0, 7)), 6.1),
        ];
        let series = TimeSeries::new(&fabric, (Span::from_ms(100), Span::from_ms(450)), &moments).unwrap();
        let FlowSeries { goodput_bps, cwnd, rtt_us, retransmits, reordered } = &series.flows[0];
        assert_eq!(reordered, &[1, 1, 1, 0, 0]);
        assert_eq!(rtt_us, &[20_000, 40_000, 40_000, 5_000, 6_000]);
        assert_eq!((&series.links[0].marks[..], &series.links[1].marks[..]), (&[][..], &[1, 1, 1, 0, 0][..]));
        let about = |bps: f64, most: f64| (bps - most).abs() <= 1.0;
        let expected = [80_000.0, 80_000.0, 80_000.0, 0.0, 80_000.0];
        assert!(
            goodput_bps.iter().zip(expected).all(|(bps, expected)| about(*bps as f64, expected)),
            "{goodput_bps:?}"
        );
        assert_eq!(
            (cwnd.as_slice(), retransmits.as_slice()),
            (&[20.0, 40.0, 40.0, 5.0, 6.0][..], &[0, 2, 1, 0, 1][..])
        );
        assert_eq!(series.links[0].queue, [1.0, 0.0, 0.0, 10.0, 0.0]);
        assert_eq!(series.ends(0.45).collect::<Vec<_>>().last(), Some(&0.45));
        assert_eq!(series.steps(), 5);
    }

    #[test]
    fn without_windows_or_moments() {
        let fabric = testing::tree(1, 1, 2, true);
        let moments = [moment(0.0, 0, None, 0.0), moment(0.1, 100, None, 0.0)];
        let series = TimeSeries::new(&fabric, (Span::from_ms(100), Span::from_ms(100)), &moments).unwrap();
        let FlowSeries { goodput_bps, cwnd, rtt_us, .. } = &series.flows[0];
        assert_eq!((goodput_bps.len(), cwnd.len(), rtt_us.len()), (1, 0, 0));
        assert_eq!(TimeSeries::new(&fabric, (Span::from_ms(100), Span::from_ms(100)), &[]), None);
    }
}
