//! The claims of an experiment: which metric, in which cases, against what.

use crate::claim;
use crate::document::{Claim, ExpectText};
use crate::error::Problems;
use crate::experiment::Context;
use crate::names::{did_you_mean, one_of};
use crate::read::{Mapping, Text, shown};
use crate::source::{At, Place};
use crate::words::Words;
use crate::{Axis, DriverKind, Expectation, Metric, Operation, Published, Setting, Work, vary};

/// The axes of an experiment, and what their values mean.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    pub axes: &'a [Axis],
    pub context: &'a Context<'a>,
}

/// Reads all claims; what can't be read is noted.
pub(crate) fn expectations(
    expect: Option<&Mapping<Metric, ExpectText>>,
    work: &Work,
    axes: &Axes<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Expectation> {
    let mut all = Vec::new();
    for (metric, claims) in expect.into_iter().flat_map(|mapping| &mapping.0) {
        if !is_measured(metric, work, problems) {
            continue;
        }
        match &claims.value {
            ExpectText::All(text) => all.extend(expectation(metric.value, None, text, axes, problems)),
            ExpectText::One(claim) => {
                all.extend(expectation(metric.value, claim.only.as_ref(), &claim.is, axes, problems));
            }
            ExpectText::Some(claims) => {
                for Claim { only, is } in claims.iter().map(|claim| &claim.value) {
                    all.extend(expectation(metric.value, only.as_ref(), is, axes, problems));
                }
            }
        }
    }
    all
}

/// Reads all figures of others; what can't be read is noted.
pub(crate) fn published(
    published: Option<&Mapping<Metric, ExpectText>>,
    work: &Work,
    axes: &Axes<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Published> {
    let mut all = Vec::new();
    for (metric, figures) in published.into_iter().flat_map(|mapping| &mapping.0) {
        if !is_measured(metric, work, problems) {
            continue;
        }
        let mut add = |only, text| all.extend(figure(metric.value, only, text, axes, problems));
        match &figures.value {
            ExpectText::All(text) => add(None, text),
            ExpectText::One(claim) => add(claim.only.as_ref(), &claim.is),
            ExpectText::Some(claims) => claims.iter().for_each(|claim| add(claim.value.only.as_ref(), &claim.value.is)),
        }
    }
    all
}

fn figure(
    metric: Metric,
    only: Option<&Mapping<Text, Text>>,
    text: &At<Text>,
    axes: &Axes<'_>,
    problems: &mut Problems<'_>,
) -> Option<Published> {
    let labels = only.into_iter().flat_map(|mapping| &mapping.0);
    let only = labels.filter_map(|(key, value)| label(key, value, axes, problems)).collect();
    let value = claim::figure(metric, &text.value.0);
    if value.is_none() {
        problems.add(
            text.place,
            format!("`{}` is no figure of `{}`", shown(&text.value.0), metric.word()),
            "not a figure",
            format!("write it as in {}, without the comparison", claim::example(metric)),
        );
    }
    Some(Published { metric, only, value: value? })
}

/// The metrics of the table, in order.
pub(crate) fn report(text: Option<&Vec<At<Metric>>>, work: &Work, problems: &mut Problems<'_>) -> Vec<Metric> {
    let mut known: Vec<Metric> = Vec::new();
    for metric in text.into_iter().flatten() {
        if known.contains(&metric.value) {
            problems.add(
                metric.place,
                format!("`{}` is in `report` twice", metric.value.word()),
                "twice",
                "remove one",
            );
        } else if is_measured(metric, work, problems) {
            known.push(metric.value);
        }
    }
    known
}

/// Whether an experiment that does `work` yields the metric; notes it if not.
pub(crate) fn is_measured(metric: &At<Metric>, work: &Work, problems: &mut Problems<'_>) -> bool {
    let place = metric.place;
    match (work, metric.value) {
        (Work::Traffic(traffic), metric) if metric.is_of_requests() && traffic.requests.is_some() => true,
        (Work::Traffic(traffic), metric) if metric.is_of_flows() && traffic.requests.is_some() => unmeasured(
            metric,
            "is of flows, this experiment has requests",
            "write `requests-per-second` or `response-p99`",
            place,
            problems,
        ),
        (_, metric @ (Metric::RequestRate | Metric::Response(_))) => unmeasured(
            metric,
            "is of requests to a service, this experiment has none",
            "add `requests: { to: SERVICE }` to its `traffic`",
            place,
            problems,
        ),
        (Work::Traffic(_), metric) if metric.is_of_cluster() => unmeasured(
            metric,
            "is of controllers, this experiment has traffic",
            "write `goodput-mean`",
            place,
            problems,
        ),
        (Work::Traffic(traffic), metric) if metric.is_of_a_rate() && traffic.rate_pps.is_none() => unmeasured(
            metric,
            "is of datagrams at a constant rate, this experiment has none",
            "add `transport: udp` and `rate: 10 kpps` to its `traffic`",
            place,
            problems,
        ),
        (Work::Traffic(traffic), metric) if metric.is_of_transfers() && traffic.transfers.is_none() => unmeasured(
            metric,
            "is of transfers, this experiment has none",
            "add `transfers: { size: 20kB, every: 10ms }` to its `traffic`",
            place,
            problems,
        ),
        (Work::Cluster(_), metric) if !metric.is_of_cluster() => unmeasured(
            metric,
            "is of traffic, this experiment asks the controllers",
            "write `create-mean`",
            place,
            problems,
        ),
        (Work::Cluster(load), Metric::Latency(operation, _) | Metric::Throughput(operation))
            if !load.operations.contains(&operation) =>
        {
            let asked = one_of(load.operations.iter().copied().map(Operation::word));
            let hint = format!("this experiment asks for {asked} only: add to its `operations`");
            unmeasured(metric.value, "is of an operation that is not asked", &hint, place, problems)
        }
        _ => true,
    }
}

fn unmeasured(metric: Metric, why: &str, hint: &str, place: Place, problems: &mut Problems<'_>) -> bool {
    problems.add(place, format!("`{}` {why}", metric.word()), "is not measured", hint);
    false
}

fn expectation(
    metric: Metric,
    only: Option<&Mapping<Text, Text>>,
    text: &At<Text>,
    axes: &Axes<'_>,
    problems: &mut Problems<'_>,
) -> Option<Expectation> {
    let mut driver = None;
    let mut labels = Vec::new();
    for (key, value) in only.into_iter().flat_map(|mapping| &mapping.0) {
        if key.value.0 == "driver" {
            driver = driver_of(value, problems);
        } else {
            labels.extend(label(key, value, axes, problems));
        }
    }
    let bound = claim::bound(metric, &text.value.0);
    if bound.is_none() {
        problems.add(
            text.place,
            format!("`{}` can't be held against `{}`", shown(&text.value.0), metric.word()),
            "not a claim",
            format!("write {}", claim::example(metric)),
        );
    }
    let line = problems.line(text.place);
    Some(Expectation { metric, only: labels, driver, bound: bound?, text: text.value.0.clone(), line })
}

fn driver_of(value: &At<Text>, problems: &mut Problems<'_>) -> Option<DriverKind> {
    let found = DriverKind::WORDS.iter().find(|(word, _)| *word == value.value.0);
    if found.is_none() {
        let text = shown(&value.value.0);
        problems.add(value.place, format!("`{text}` is not a driver"), "unknown", "write `sim` or `live`");
    }
    found.map(|&(_, driver)| driver)
}

/// An axis and one of its values as written.
fn label(key: &At<Text>, value: &At<Text>, axes: &Axes<'_>, problems: &mut Problems<'_>) -> Option<(String, String)> {
    let Some(axis) = axes.axes.iter().find(|axis| axis.key == key.value.0) else {
        let known: Vec<&str> = axes.axes.iter().map(|axis| axis.key.as_str()).chain(["driver"]).collect();
        let text = shown(&key.value.0);
        problems.add(
            key.place,
            format!("`{text}` is not varied in this experiment"),
            "unknown axis",
            did_you_mean(&text, &known),
        );
        return None;
    };
    let text = value.value.0.as_str();
    // As written, or else by what it sets: `24` is `24B`.
    let same_text = axis.values.iter().find(|(label, _)| label == text);
    let same_setting = || {
        let meant: Setting = vary::setting(&axis.key, text, axes.context)?;
        axis.values.iter().find(|(_, setting)| *setting == meant)
    };
    let Some((label, _)) = same_text.or_else(same_setting) else {
        /// More values are not read anyway.
        const SHOWN: usize = 12;
        let values = one_of(axis.values.iter().take(SHOWN).map(|(text, _)| text.as_str()));
        let text = shown(&value.value.0);
        problems.add(
            value.place,
            format!("`{}` never is `{text}`", axis.key),
            "not among its values",
            format!("write {values}, as under `vary`"),
        );
        return None;
    };
    Some((key.value.0.clone(), label.clone()))
}
