//! Faults of the file, at their times.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fabric::{Fault, FaultAction, Target};
use machine::Span;

use super::nodes::Nodes;

/// A fault of the leader waits so long for one; then it is injected into the first node that runs.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// Has the faults happen, and returns when the last one is over: what happened, one line each.
pub(super) fn run(nodes: &mut Nodes, faults: &[Fault], module: &str) -> Result<Vec<String>, String> {
    let mut running = Running {
        nodes,
        module,
        started: Instant::now(),
        paused: BTreeMap::new(),
        parted: BTreeMap::new(),
        happened: Vec::new(),
    };
    for (at, index, begins) in moments(faults) {
        let due = running.started + Duration::from_nanos(at.as_ns());
        sleep(due.saturating_duration_since(Instant::now()));
        let action = &faults[index].action;
        if begins { running.begin(index, action)? } else { running.end(index, action)? }
    }
    Ok(running.happened)
}

/// When each fault begins and ends, in order; what ends at a moment ends before another begins.
fn moments(faults: &[Fault]) -> Vec<(Span, usize, bool)> {
    let mut moments = Vec::new();
    for (index, fault) in faults.iter().enumerate() {
        moments.push((fault.at, index, true));
        if matches!(fault.action, FaultAction::Pause { .. } | FaultAction::Partition { .. }) {
            moments.push((fault.end(), index, false));
        }
    }
    moments.sort_by_key(|&(at, index, begins)| (at, begins, index));
    moments
}

struct Running<'a> {
    nodes: &'a mut Nodes,
    module: &'a str,
    started: Instant,
    /// By the fault's index: whom it has stopped.
    paused: BTreeMap<usize, Vec<usize>>,
    /// By the fault's index: who does not hear whom.
    parted: BTreeMap<usize, Vec<Vec<u32>>>,
    happened: Vec<String>,
}

impl Running<'_> {
    fn begin(&mut self, index: usize, action: &FaultAction) -> Result<(), String> {
        match action {
            FaultAction::Kill(target) => {
                let whom = self.choose(*target)?;
                for &number in &whom {
                    self.nodes.kill(number);
                }
                self.note(&whom, "killed");
            }
            FaultAction::Restart(target) => {
                let mut restarted = Vec::new();
                for number in self.choose(*target)? {
                    if self.nodes.restart(number)? {
                        restarted.push(number);
                    }
                }
                self.note(&restarted, "restarted");
            }
            FaultAction::Pause { target, .. } => {
                let whom = self.choose(*target)?;
                whom.iter().try_for_each(|&number| self.nodes.pause(number))?;
                self.note(&whom, "paused");
                self.paused.insert(index, whom);
            }
            FaultAction::Partition { groups, .. } => {
                self.parted.insert(index, groups.clone());
                self.part();
                let named = |group: &Vec<u32>| group.iter().map(|n| format!("n{n}")).collect::<Vec<_>>().join(" ");
                self.note_text(&format!("parted: {}", groups.iter().map(named).collect::<Vec<_>>().join(" | ")));
            }
        }
        Ok(())
    }

    fn end(&mut self, index: usize, action: &FaultAction) -> Result<(), String> {
        if let Some(whom) = self.paused.remove(&index) {
            let still = |number: &usize| self.paused.values().flatten().any(|other| other == number);
            let whom: Vec<usize> = whom.into_iter().filter(|number| !still(number)).collect();
            whom.iter().try_for_each(|&number| self.nodes.go_on(number))?;
            self.note(&whom, "goes on");
        }
        if matches!(action, FaultAction::Partition { .. }) {
            self.parted.remove(&index);
            self.part();
            self.note_text("joined again");
        }
        Ok(())
    }

    fn part(&self) {
        self.nodes.part(&self.parted.values().cloned().collect::<Vec<_>>());
    }

    /// The target of a fault. Where nobody leads, the first node that runs is as good.
    fn choose(&self, target: Target) -> Result<Vec<usize>, String> {
        if !matches!(target, Target::Leader | Target::Follower) {
            return self.nodes.choose(target, self.module);
        }
        let until = Instant::now() + LEADER_PATIENCE;
        let leader = loop {
            match self.nodes.leader_now(self.module) {
                None if Instant::now() < until => sleep(Duration::from_millis(5)),
                found => break found,
            }
        };
        let running = self.nodes.running();
        let found = match (target, leader) {
            (Target::Leader, Some(leader)) => Some(leader),
            (_, leader) => running.into_iter().find(|&number| Some(number) != leader),
        };
        Ok(found.into_iter().collect())
    }

    fn note(&mut self, whom: &[usize], what: &str) {
        if !whom.is_empty() {
            let names = whom.iter().map(|&number| self.nodes.name(number)).collect::<Vec<_>>().join(", ");
            self.note_text(&format!("{names} {what}"));
        }
    }

    fn note_text(&mut self, text: &str) {
        self.happened.push(format!("{:.2} s: {text}", self.started.elapsed().as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_at_a_moment_ends_before_another_begins() {
        let pause = |at: u64| Fault {
            at: Span::from_ms(at),
            action: FaultAction::Pause { target: Target::Node(1), duration: Span::from_ms(10) },
        };
        let kill = Fault { at: Span::from_ms(5), action: FaultAction::Kill(Target::Leader) };
        let order: Vec<(usize, bool)> = moments(&[pause(0), kill, pause(10)]).into_iter().map(|m| (m.1, m.2)).collect();
        assert_eq!(order, [(0, true), (1, true), (0, false), (2, true), (2, false)]);
    }
}
