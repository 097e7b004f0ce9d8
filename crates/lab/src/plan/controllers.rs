//! What controllers can be put through, by which driver, and about how long it takes.

use fabric::{ClusterLoad, Controllers, ElectionEnd, ElectionTimeout, FaultAction, Operation, ShardPlan};

/// About what one request takes, in seconds: for estimates.
const REQUEST_SECONDS: f64 = 1e-3;
/// About what it takes until a cluster is ready, in seconds a node: for estimates.
const START_SECONDS: f64 = 0.5;

/// Why what is asked of these controllers cannot be run at all, if it can't.
pub(crate) fn why_never(controllers: &Controllers, load: &ClusterLoad) -> Option<&'static str> {
    if controllers.tls && has_partitions(load) {
        return Some("who talks to whom cannot be told apart under TLS, which a partition needs: write `tls: false`");
    }
    (why_not_live(controllers, load).is_some() && why_not_simulated(controllers, load).is_some()).then_some(
        "`delay` and `until: leader` are simulated only, and faults, routed RPCs and lists of shards are run live only",
    )
}

/// Why what is asked of these controllers is not run live, if it is not.
pub(crate) fn why_not_live(controllers: &Controllers, load: &ClusterLoad) -> Option<&'static str> {
    if controllers.delay.is_some() {
        return Some("a `delay` between controllers is simulated; live ones have the delays of the network");
    }
    (load.until == ElectionEnd::Leader)
        .then_some("`until: leader` is simulated; live, elections end with the first write")
}

/// Why what is asked of these controllers is not simulated, if it is not.
pub(crate) fn why_not_simulated(controllers: &Controllers, load: &ClusterLoad) -> Option<&'static str> {
    if !load.faults.is_empty() {
        return Some("faults are run live");
    }
    if load.operations.contains(&Operation::Rpc) {
        return Some("routed RPCs are run live");
    }
    matches!(controllers.shards, ShardPlan::List(_)).then_some("lists of shards are run live")
}

/// Whether some controllers are kept from others.
pub(crate) fn has_partitions(load: &ClusterLoad) -> bool {
    load.faults.iter().any(|fault| matches!(fault.action, FaultAction::Partition { .. }))
}

/// About how long a run takes, in seconds: for progress and `heddle plan`.
pub(crate) fn seconds_of(controllers: &Controllers, load: &ClusterLoad) -> f64 {
    let start = START_SECONDS * f64::from(controllers.nodes);
    if load.is_election() {
        let timeout = match controllers.election {
            ElectionTimeout::Fixed(timeout) => timeout,
            ElectionTimeout::Measured { min, .. } => min,
        };
        // Between one and two timeouts, and about one until the restarted node has caught up.
        return start + f64::from(load.requests) * (1.5 * timeout.as_secs_f64() + 1.0);
    }
    let asked = f64::from(load.requests) * load.operations.len() as f64;
    start + asked * REQUEST_SECONDS
}
