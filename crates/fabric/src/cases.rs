//! From an experiment's axes to its cases, and from a case to the fabric it runs on.

use crate::bonds;
use crate::{Case, ClusterLoad, Experiment, Fabric, Overrides, Setting, Traffic, Work};

impl Experiment {
    /// Every combination of the axes' values, the first axis slowest. One case when nothing varies.
    ///
    /// Where the number of controllers varies, combinations without meaning are left out: one node has no follower to ask.
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
        match (&self.work, self.overrides.nodes) {
            (Work::Cluster(load), Some(nodes)) => nodes >= load.at.needs_nodes(),
            _ => true,
        }
    }
}

/// `case` with one more value set.
fn extend(case: &Case, key: &str, text: &str, setting: &Setting) -> Case {
    let mut case = case.clone();
    case.labels.push((key.to_owned(), text.to_owned()));
    override_fabric(setting, &mut case.overrides);
    match &mut case.work {
        Work::Traffic(traffic) => change_traffic(setting, traffic),
        Work::Cluster(load) => change_load(setting, load),
    }
    case
}

fn change_traffic(setting: &Setting, traffic: &mut Traffic) {
    match setting {
        Setting::Pattern(pattern) => traffic.pattern = pattern.clone(),
        Setting::Transport(kind) => traffic.transport.kind = *kind,
        Setting::Streams(n) => traffic.streams = *n,
        Setting::Window(n) => traffic.transport.window = *n,
        Setting::InitialWindow(n) => traffic.transport.initial_window = *n,
        Setting::DuplicateAckThreshold(n) => traffic.transport.duplicate_ack_threshold = *n,
        _ => {}
    }
}

fn change_load(setting: &Setting, load: &mut ClusterLoad) {
    match setting {
        Setting::At(role) => load.at = *role,
        Setting::Clients(n) => load.clients = *n,
        Setting::Value(bytes) => load.value_bytes = *bytes,
        _ => {}
    }
}

fn override_fabric(setting: &Setting, overrides: &mut Overrides) {
    match setting {
        Setting::Spread(spread) => overrides.spread = Some(*spread),
        Setting::Routes(rerouting) => overrides.rerouting = Some(*rerouting),
        Setting::LinkRate(rate) => overrides.rate_bps = Some(*rate),
        Setting::LinkDelay(delay) => overrides.delay = Some(*delay),
        Setting::LinkQueue(packets) => overrides.queue_packets = Some(*packets),
        Setting::BondMode(mode) => overrides.bond_mode = Some(*mode),
        Setting::BondMembers(n) => overrides.bond_members = Some(*n),
        Setting::Reorder(reordering) => overrides.reorder = Some(*reordering),
        Setting::Nodes(n) => overrides.nodes = Some(*n),
        Setting::Shards(shards) => overrides.shards = Some(shards.clone()),
        Setting::ElectionTimeout(timeout) => overrides.election = Some(*timeout),
        Setting::PreVote(asks_first) => overrides.pre_vote = Some(*asks_first),
        Setting::MessageDelay(delay) => overrides.message_delay = Some(*delay),
        _ => {}
    }
}

/// Gives all bonds what a case says. Options of the file that a mode has no use for are left out in it.
fn change_bonds(fabric: &mut Fabric, overrides: &Overrides) {
    if let Some(members) = overrides.bond_members {
        bonds::resize(&mut fabric.topology, members as usize);
    }
    let topology = &fabric.topology;
    for (id, bond) in fabric.bonds.iter_mut_enumerated() {
        if let Some(mode) = overrides.bond_mode {
            bond.config = bonds::configured(mode, &bond.options);
            let end = &topology.bonds[id];
            bond.end = bonds::learns(topology, end.node, topology.bonds[end.partner].node, mode);
        }
        if let Some(reordering) = overrides.reorder {
            bond.reorder = reordering.applied_to(bond.reorder);
        }
    }
}

impl Fabric {
    /// The fabric as one case has it. A rate or a queue is changed only on links that have a rate.
    #[must_use]
    pub fn with(&self, overrides: &Overrides) -> Self {
        let mut fabric = self.clone();
        fabric.spread = overrides.spread.unwrap_or(fabric.spread);
        fabric.rerouting = overrides.rerouting.unwrap_or(fabric.rerouting);
        for spec in fabric.topology.links.iter_mut().map(|link| &mut link.spec) {
            spec.delay = overrides.delay.unwrap_or(spec.delay);
            if spec.rate_bps.is_some() {
                spec.rate_bps = overrides.rate_bps.or(spec.rate_bps);
                spec.queue_packets = overrides.queue_packets.or(spec.queue_packets);
            }
        }
        change_bonds(&mut fabric, overrides);
        if let Some(controllers) = &mut fabric.controllers {
            controllers.nodes = overrides.nodes.unwrap_or(controllers.nodes);
            controllers.election = overrides.election.unwrap_or(controllers.election);
            controllers.pre_vote = overrides.pre_vote.unwrap_or(controllers.pre_vote);
            controllers.delay = overrides.message_delay.or(controllers.delay);
            if let Some(shards) = &overrides.shards {
                controllers.shards.clone_from(shards);
            }
        }
        fabric
    }
}
