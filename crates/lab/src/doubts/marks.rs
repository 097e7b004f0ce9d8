//! Links that mark packets, and senders that understand it: one without the other.

use fabric::{Case, Experiment, Fabric};
use transport::linux::CongestionControl;
use transport::{TransportKind, TransportSpec};

use super::cases::{CASES_MAX, of_case};
use super::doubt::Doubt;

/// Whether any link marks packets in a case.
fn is_marked(fabric: &Fabric, case: &Case) -> bool {
    let changed = fabric.with(&case.overrides);
    changed.topology.links.iter().any(|link| link.specs().any(|spec| spec.ecn_packets.is_some()))
}

/// Links mark, and no sender of the whole file understands that.
pub(super) fn unheard(fabric: &Fabric) -> Option<Doubt> {
    let mut traffic = Vec::new();
    for experiment in &fabric.experiments {
        let cases = experiment.cases();
        let marking = cases.into_iter().take(CASES_MAX).filter(|case| is_marked(fabric, case));
        traffic.extend(marking.filter_map(|case| Some((experiment.name.clone(), case.work.traffic()?.clone()))));
    }
    let understands =
        |transport: &TransportSpec| transport.kind == TransportKind::Linux && transport.linux.asks_for_ecn();
    let (first, _) = traffic.first()?;
    (!traffic.iter().any(|(_, traffic)| understands(&traffic.transport))).then(|| Doubt {
        place: vec!["experiments".to_owned(), first.clone()],
        message: "links mark packets (`ecn`), and no sender understands that: none is marked".to_owned(),
        hint: "`sysctl: { tcp_ecn: 1 }` has senders ask for it, as `congestion-control: dctcp` does by itself",
    })
}

/// Senders that live on marks, where no link makes any: noted at the first case of an experiment.
pub(super) fn missing(fabric: &Fabric, experiment: &Experiment) -> Option<Doubt> {
    let is_dctcp = |case: &Case| {
        case.work.traffic().is_some_and(|traffic| {
            let TransportSpec { kind, linux, .. } = &traffic.transport;
            *kind == TransportKind::Linux && linux.congestion_control == CongestionControl::Dctcp
        })
    };
    let cases = experiment.cases();
    let case = cases.iter().take(CASES_MAX).find(|case| is_dctcp(case) && !is_marked(fabric, case))?;
    Some(Doubt {
        place: vec!["experiments".to_owned(), experiment.name.clone()],
        message: format!("`dctcp` answers to marks, and no link makes any{}: it does what `reno` does", of_case(case)),
        hint: "give links an `ecn` below their `queue`, as in `links: { ecn: 20 }`",
    })
}
