//! Names that lead to services: how they do.

use balance::names::QueryCounters;
use datapath::Graph;
use machine::Time;

use super::plan::Plan;
use super::pool::Packet;
use crate::control::{NameStatus, SiteStatus};

/// How names do, at `now`, and what name servers have counted besides; none of a worker that has no services.
pub(super) fn names(graph: &mut Graph<Packet>, plan: &Plan, now: Time) -> (Vec<NameStatus>, QueryCounters) {
    let fabric = plan.fabric();
    let states: Vec<_> = (0..fabric.services.len()).map(|service| graph.site_state(now, service)).collect();
    let (views, counters) = graph.names();
    let names = views.into_iter().zip(&fabric.names).map(|(view, name)| {
        let sites = view.sites().zip(&name.services).map(|(site, service)| SiteStatus {
            site: site.spec.name.clone(),
            service: fabric.services[*service].name.clone(),
            weight: site.spec.weight,
            is_backup: site.spec.is_backup,
            servers: states[*service].servers,
            drained: states[*service].drained,
            healthy: states[*service].healthy,
            load_percent: states[*service].load_percent,
            answers: site.answers,
        });
        NameStatus {
            name: view.spec.name.to_string(),
            asked_at: view.spec.asked_at.iter().map(ToString::to_string).collect(),
            ttl_s: view.spec.ttl_s,
            sites: sites.collect(),
            counters: view.counters,
        }
    });
    (names.collect(), counters)
}
