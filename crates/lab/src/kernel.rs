//! What the kernel of this machine lacks for live runs.

use fabric::DriverKind;

use crate::error::Error;
use crate::linux_limits::congestion_control;
use crate::plan::Plan;

/// The congestion controls that the kernel has. It lists those that it has loaded.
const CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Refuses live runs of a plan whose hosts are to have a congestion control that the machine's kernel does not have: the first one would fail after all that was simulated. What
/// it has is not always known; hosts look again.
///
/// # Errors
/// If it lacks one.
pub fn check_kernel(plan: &Plan) -> Result<(), Error> {
    let known = std::fs::read_to_string(CONGESTION_CONTROLS).unwrap_or_default();
    if known.is_empty() { Ok(()) } else { check_congestion_controls(plan, &known) }
}

fn check_congestion_controls(plan: &Plan, known: &str) -> Result<(), Error> {
    let known: Vec<&str> = known.split_whitespace().collect();
    for run in plan.runs.iter().filter(|run| run.driver == DriverKind::Live) {
        let Some(traffic) = plan.cases[run.at.0].1[run.at.1].work.traffic() else { continue };
        let control = congestion_control(&traffic.transport).name();
        if !known.contains(&control) {
            return Err(Error::NoCongestionControl {
                experiment: run.experiment.clone(),
                case: run.labels.to_string(),
                control,
                known: known.join(", "),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use super::*;
    use crate::options::Options;
    use crate::plan::plan;

    #[test]
    fn live_runs_that_the_kernel_has_no_congestion_control_for_are_refused() {
        let text = "topology: { single: { hosts: 2 } }\nlinks: { rate: 1Gbit, queue: 100, ecn: 20 }\nexperiments:\n  \
                    a: { traffic: { pattern: stride(1) }, vary: { congestion-control: [cubic, dctcp] } }\n";
        let fabric = fabric::parse(&Source { name: "net".to_owned(), text: text.to_owned() }).unwrap();
        let refused = |drivers: &[DriverKind], cases: &[&str], known: &str| {
            let cases = cases.iter().map(ToString::to_string).collect();
            let options = Options { drivers: drivers.to_vec(), cases, ..Options::default() };
            check_congestion_controls(&plan(&fabric, &options).unwrap(), known).err().map(|error| error.to_string())
        };
        let (both, few) = ([DriverKind::Live, DriverKind::Sim], "reno cubic\n");
        let said = "experiment \"a\" (dctcp) cannot run live here: this kernel has no congestion control `dctcp`, only reno, cubic";
        assert_eq!(refused(&both, &[], few).as_deref(), Some(said));
        assert_eq!(refused(&both[..1], &["dctcp"], few).as_deref(), Some(said));
        assert_eq!(refused(&both, &["cubic"], few), None);
        assert_eq!(refused(&both[1..], &[], few), None);
        assert_eq!(refused(&both, &[], "reno cubic dctcp\n"), None);
    }
}
