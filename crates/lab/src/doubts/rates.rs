//! Goodput that is expected of flows, and that the links of their hosts cannot carry: all of what a host sends or gets passes those, whatever path it takes.

use std::collections::BTreeSet;

use fabric::{Bound, Case, Expectation, Experiment, Fabric, Metric};
use topology::{NodeId, Topology};

use super::cases::{is_drawn, is_meant, of_case};
use super::doubt::Doubt;
use crate::plan::pairs_of;

/// A window may begin and end with a packet that is counted whole.
const MARGIN: f64 = 1.05;

/// What of an experiment is expected in vain, in so many of its cases at most.
pub(super) fn expected_in_vain(fabric: &Fabric, experiment: &Experiment, cases_max: usize) -> Vec<Doubt> {
    let cases = experiment.cases();
    let doubt = |expectation: &Expectation| {
        let wanted = match expectation.bound {
            Bound::AtLeast(wanted) => wanted,
            Bound::Within { of, by } => of - by,
            Bound::AtMost(_) => return None,
        };
        let vain = |case: &Case| {
            let most = Most::of(&fabric.with(&case.overrides), case)?.of_metric(expectation.metric)?;
            (wanted > most * MARGIN).then_some(most)
        };
        let mut meant = cases.iter().filter(|case| is_meant(expectation, case)).take(cases_max);
        let (case, most) = meant.find_map(|case| Some((case, vain(case)?)))?;
        let of_case = of_case(case);
        let metric = expectation.metric.word();
        Some(Doubt {
            place: ["experiments", &experiment.name, "expect", metric].map(str::to_owned).to_vec(),
            message: format!(
                "`{metric} {}` will be missed{of_case}: the links of the flows' hosts carry {} Mbit/s at most",
                expectation.text,
                (most / 1e4).round() / 100.0
            ),
            hint: "expect less, or give those links a higher `rate`",
        })
    };
    // Others need no look at each case's links.
    let of_goodput = |expectation: &&Expectation| {
        matches!(expectation.metric, Metric::GoodputMean | Metric::GoodputMin | Metric::GoodputMax | Metric::GoodputSum)
    };
    experiment.expect.iter().filter(of_goodput).filter_map(doubt).collect()
}

/// The most that flows can have, in bit/s.
struct Most {
    mean: f64,
    min: f64,
    max: f64,
    sum: f64,
}

impl Most {
    /// Of a case whose packets cross the links of this network.
    fn of(fabric: &Fabric, case: &Case) -> Option<Self> {
        let traffic = case.work.traffic().filter(|it| it.switched_by.is_heddle() && it.requests.is_none())?;
        let topology = &fabric.topology;
        let pairs = pairs_of(fabric, case, fabric.seed).ok().filter(|pairs| !pairs.is_empty())?;
        let (out, into) = (|host| rate(topology, host, true), |host| rate(topology, host, false));
        if is_drawn(&traffic.pattern) {
            // Which pairs there will be is not known: each flow has what the best one may have.
            let hosts = || topology.end_hosts().map(|(host, _)| host);
            let best = hosts().map(out).fold(0.0, f64::max).min(hosts().map(into).fold(0.0, f64::max));
            return Some(Self { mean: best, min: best, max: best, sum: best * pairs.len() as f64 });
        }
        let of_flow = |&(from, to): &(NodeId, NodeId)| out(from).min(into(to));
        let senders: BTreeSet<NodeId> = pairs.iter().map(|(from, _)| *from).collect();
        let receivers: BTreeSet<NodeId> = pairs.iter().map(|(_, to)| *to).collect();
        let [sent, got] = [senders.into_iter().map(out).sum::<f64>(), receivers.into_iter().map(into).sum()];
        let sum = pairs.iter().map(of_flow).sum::<f64>().min(sent).min(got);
        let mean = sum / pairs.len() as f64;
        let min = pairs.iter().map(of_flow).fold(mean, f64::min);
        Some(Self { mean, min, max: pairs.iter().map(of_flow).fold(0.0, f64::max), sum })
    }

    const fn of_metric(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::GoodputMean => Some(self.mean),
            Metric::GoodputMin => Some(self.min),
            Metric::GoodputMax => Some(self.max),
            Metric::GoodputSum => Some(self.sum),
            _ => None,
        }
    }
}

/// What all links of a host carry together from it, or to it; infinite where one has no rate.
fn rate(topology: &Topology, host: NodeId, is_from: bool) -> f64 {
    let ports = topology.interfaces_of(host).flat_map(|interface| &topology.nodes[interface].ports);
    let rates = ports.map(|&(link, side)| {
        let from = if is_from { side } else { side.other() };
        topology.links[link].spec_from(from).rate_bps.map_or(f64::INFINITY, |rate| rate as f64)
    });
    rates.sum()
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use super::*;

    /// Two hosts at one switch, the second one with 20 Mbit/s.
    fn doubts_of(experiment: &str) -> Vec<(Vec<String>, String)> {
        let text = format!(
            "nodes: {{ h1: host, h2: host, h3: host, s1: switch }}\n\
             links: [{{ between: [h1, s1], rate: 100Mbit }}, {{ between: [h2, s1], rate: 20Mbit }}, {{ between: [h3, s1] }}]\n\
             experiments: {{ a: {{ for: 1s, repeat: 5, {experiment} }} }}\n"
        );
        let fabric = fabric::parse(&Source { name: "net".to_owned(), text }).unwrap();
        let found = expected_in_vain(&fabric, &fabric.experiments[0], 9);
        found.into_iter().map(|doubt| (doubt.place, doubt.message)).collect()
    }

    #[test]
    fn more_than_links_of_hosts_carry_is_expected_in_vain() {
        let found = |pairs: &str, expect: &str| {
            doubts_of(&format!("traffic: {{ pattern: {{ pairs: [{pairs}] }} }}, expect: {{ {expect} }}"))
        };
        let [(place, message)] = &found("[h1, h2]", "goodput-mean: '>= 40 Mbit/s'")[..] else { panic!("one") };
        assert_eq!(place.join("."), "experiments.a.expect.goodput-mean");
        assert!(message.starts_with("`goodput-mean >= 40 Mbit/s` will be missed: "), "{message}");
        assert!(message.ends_with("carry 20 Mbit/s at most"), "{message}");
        for (pairs, expect, is_vain) in [
            ("[h1, h2]", "goodput-mean: '>= 19 Mbit/s'", false),
            ("[h1, h2]", "goodput-mean: '<= 40 Mbit/s'", false),
            ("[h2, h1]", "goodput-min: '40 Mbit/s +- 10 %'", true),
            ("[h1, h3]", "goodput-mean: '>= 99 Mbit/s'", false),
            ("[h1, h3], [h1, h2]", "goodput-mean: '>= 70 Mbit/s'", true),
            ("[h1, h3], [h1, h2]", "goodput-max: '>= 70 Mbit/s'", false),
            ("[h1, h2], [h3, h2]", "goodput-sum: '>= 30 Mbit/s'", true),
            ("[h1, h2], [h3, h2]", "goodput-mean: '>= 15 Mbit/s'", true),
        ] {
            assert_eq!(!found(pairs, expect).is_empty(), is_vain, "{pairs}: {expect}");
        }
        assert!(doubts_of("traffic: { pattern: permutation }, expect: { goodput-mean: '>= 99 Mbit/s' }").is_empty());
        assert_eq!(doubts_of("traffic: { pattern: random }, expect: { goodput-mean: '>= 1 Gbit/s' }"), []);
    }

    #[test]
    fn the_rate_is_that_of_the_case() {
        let of_both = "traffic: { pattern: { pairs: [[h1, h2]] } }, vary: { links.h2-s1.rate: [20Mbit, 80Mbit] }, ";
        let [(_, message)] = &doubts_of(&format!("{of_both} expect: {{ goodput-mean: '>= 40 Mbit/s' }}"))[..] else {
            panic!("one")
        };
        assert!(message.contains("in the case links.h2-s1.rate 20Mbit"), "{message}");
    }
}
