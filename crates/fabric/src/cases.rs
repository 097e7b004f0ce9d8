//! From an experiment's axes to its cases, and from a case to the fabric it runs on.

use crate::{Case, Experiment, Fabric, Overrides, Setting, Traffic};

impl Experiment {
    /// Every combination of the axes' values, the first axis slowest. One case when nothing varies.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases =
            vec![Case { labels: Vec::new(), traffic: self.traffic.clone(), overrides: Overrides::default() }];
        for axis in &self.vary {
            let combine = |case: &Case| {
                axis.values.iter().map(|(text, setting)| extend(case, &axis.key, text, setting)).collect::<Vec<_>>()
            };
            cases = cases.iter().flat_map(combine).collect();
        }
        cases
    }
}

/// `case` with one more value set.
fn extend(case: &Case, key: &str, text: &str, setting: &Setting) -> Case {
    let mut case = case.clone();
    case.labels.push((key.to_owned(), text.to_owned()));
    apply(setting, &mut case.traffic, &mut case.overrides);
    case
}

fn apply(setting: &Setting, traffic: &mut Traffic, overrides: &mut Overrides) {
    match setting {
        Setting::Pattern(pattern) => traffic.pattern = pattern.clone(),
        Setting::Transport(kind) => traffic.transport.kind = *kind,
        Setting::Window(n) => traffic.transport.window = *n,
        Setting::InitialWindow(n) => traffic.transport.initial_window = *n,
        Setting::DuplicateAckThreshold(n) => traffic.transport.duplicate_ack_threshold = *n,
        Setting::Spread(spread) => overrides.spread = Some(*spread),
        Setting::LinkRate(rate) => overrides.rate_bps = Some(*rate),
        Setting::LinkDelay(delay) => overrides.delay = Some(*delay),
        Setting::LinkQueue(packets) => overrides.queue_packets = Some(*packets),
    }
}

impl Fabric {
    /// The fabric as one case has it. A rate or a queue is changed only on links that have a rate.
    #[must_use]
    pub fn with(&self, overrides: &Overrides) -> Self {
        let mut fabric = self.clone();
        fabric.spread = overrides.spread.unwrap_or(fabric.spread);
        for spec in fabric.links.iter_mut().map(|link| &mut link.spec) {
            spec.delay = overrides.delay.unwrap_or(spec.delay);
            if spec.rate_bps.is_some() {
                spec.rate_bps = overrides.rate_bps.or(spec.rate_bps);
                spec.queue_packets = overrides.queue_packets.or(spec.queue_packets);
            }
        }
        fabric
    }
}
