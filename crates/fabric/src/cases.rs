//! From an experiment's axes to its cases.

use crate::{Case, Experiment, Overrides, Setting, Work};

impl Experiment {
    /// Every combination of the axes' values, the first axis slowest. One case when nothing varies.
    ///
    /// Where the number of controllers varies, combinations without meaning are left out: one node has no follower to ask.
    ///
    /// # Panics
    /// If an axis is of traffic and the experiment asks controllers, or the other way round.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = vec![Case { labels: Vec::new(), work: self.work.clone(), overrides: Overrides::default() }];
        for axis in &self.vary {
            let combine = |case: &Case| {
                axis.values.iter().map(|(text, setting)| extend(case, &axis.key, text, setting)).collect::<Vec<_>>()
            };
            cases = cases.iter().flat_map(combine).collect();
        }
        cases.retain(Case::has_a_meaning);
        cases
    }
}

impl Case {
    /// Whether there is a node to ask among the controllers that it sets. All else has been checked.
    fn has_a_meaning(&self) -> bool {
        match (&self.work, self.overrides.nodes()) {
            (Work::Cluster(load), Some(nodes)) => nodes >= load.at.needs_nodes(),
            (Work::Traffic(_), _) | (Work::Cluster(_), None) => true,
        }
    }
}

/// `case` with one more value set.
fn extend(case: &Case, key: &str, text: &str, setting: &Setting) -> Case {
    let mut case = case.clone();
    case.labels.push((key.to_owned(), text.to_owned()));
    match (setting, &mut case.work) {
        (Setting::Fabric(setting), Work::Traffic(_) | Work::Cluster(_)) => case.overrides.0.push(setting.clone()),
        (Setting::Traffic(setting), Work::Traffic(traffic)) => setting.apply(traffic),
        (Setting::Load(setting), Work::Cluster(load)) => setting.apply(load),
        (Setting::Traffic(_), Work::Cluster(_)) | (Setting::Load(_), Work::Traffic(_)) => {
            panic!("the axis `{key}` is of other work than the experiment's")
        }
    }
    case
}
