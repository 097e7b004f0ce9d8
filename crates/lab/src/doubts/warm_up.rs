//! Experiments without a warm-up, of which live TCP has one all the same.

use fabric::{Case, Experiment, Fabric};

use super::cases::CASES_MAX;
use super::doubt::Doubt;
use crate::live_times::{LiveTimes, is_whole_seconds, live_times};
use crate::plan::{pairs_of, runs_both_ways};

/// Several flows of live TCP take time to start, simulated ones begin at once: what is measured of both is not alike. Who writes `warm-up: 0s` knows.
pub fn unlike_warm_up(fabric: &Fabric) -> Vec<Doubt> {
    let without = fabric.experiments.iter().enumerate().filter(|(_, experiment)| !experiment.is_warm_up_given);
    without.filter_map(|(number, experiment)| of_experiment(fabric, number, experiment)).collect()
}

fn of_experiment(fabric: &Fabric, number: usize, experiment: &Experiment) -> Option<Doubt> {
    let warms_up = |case: &Case| {
        let pairs = is_whole_seconds(case).then(|| pairs_of(fabric, case, fabric.seed).ok()).flatten()?;
        let times = live_times(experiment, case, pairs.len()).filter(|times| times.start_late)?;
        runs_both_ways(fabric, number, case).then_some(times)
    };
    let LiveTimes { warm_up, .. } = experiment.cases().iter().take(CASES_MAX).find_map(warms_up)?;
    Some(Doubt {
        place: vec!["experiments".to_owned(), experiment.name.clone()],
        message: format!(
            "live TCP warms up for {warm_up} s, since several flows take time to start, and simulated runs do not warm up"
        ),
        hint: "write a `warm-up` of a second or more, so that live and simulated runs measure the same, or `warm-up: 0s` if it is meant",
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fabric::Source;

    use super::unlike_warm_up;

    #[test]
    fn several_flows_of_live_tcp_without_a_warm_up_are_doubted() {
        let found = |links: &str, traffic: &str, times: &str| {
            let text = format!(
                "topology: {{ leaf-spine: {{ leaves: 2, spines: 2, hosts-per-leaf: 2 }} }}\nlinks: {links}\n\
                 experiments: {{ a: {{ traffic: {{ {traffic} }}, {times} }} }}\n"
            );
            let doubts = unlike_warm_up(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            doubts.into_iter().map(|doubt| (doubt.place.join("."), doubt.message)).collect::<Vec<_>>()
        };
        let (links, stride) = ("{ rate: 50Mbit, delay: 1ms }", "pattern: stride(2)");
        let said =
            "live TCP warms up for 1 s, since several flows take time to start, and simulated runs do not warm up";
        assert_eq!(found(links, stride, "for: 1s"), [("experiments.a".to_owned(), said.to_owned())]);
        for (links, traffic, times) in [
            (links, stride, "for: 1s, warm-up: 1s"),
            // Meant, or another doubt's.
            (links, stride, "for: 1s, warm-up: 0s"),
            (links, stride, "for: 1s, warm-up: 500ms"),
            (links, "pattern: { pairs: [[h1, h2]] }", "for: 1s"),
            (links, "pattern: stride(2), transport: udp, rate: 1 Mbit/s", "for: 1s"),
            (links, "pattern: stride(2), transfers: { size: 20kB, every: 10ms }", "for: 1s"),
            // Only live.
            ("{}", stride, "for: 1s"),
        ] {
            assert_eq!(found(links, traffic, times), [], "{links} {traffic} {times}");
        }
    }

    #[test]
    fn files_of_the_project_are_not_doubted() {
        let fabrics = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics");
        let (mut folders, mut count) = (vec![fabrics], 0);
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(".fabric.yaml") {
                    let name = path.display().to_string();
                    let text = std::fs::read_to_string(&path).unwrap();
                    let fabric = fabric::parse(&Source { name: name.clone(), text }).unwrap();
                    assert_eq!(unlike_warm_up(&fabric), [], "{name}");
                    count += 1;
                }
            }
        }
        assert!(count > 20, "{count} files");
    }
}
