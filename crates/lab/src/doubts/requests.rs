//! Requests that hardly ask a scheduler: it chooses a server once a connection.

use fabric::{Experiment, Fabric, Setting, TrafficSetting, Work};

use super::doubt::Doubt;

/// Clients that keep their connections, before several servers.
pub(super) fn kept_connections(fabric: &Fabric, experiment: &Experiment) -> Option<Doubt> {
    let Work::Traffic(traffic) = &experiment.work else { return None };
    let load = traffic.requests.as_deref().filter(|load| !load.new_connections)?;
    let service = fabric.services.iter().find(|service| service.name == load.service)?;
    let settings = experiment.vary.iter().flat_map(|axis| &axis.values).map(|(_, setting)| setting);
    let is_varied = |setting: &Setting| matches!(setting, Setting::Traffic(TrafficSetting::NewConnections(_)));
    if service.servers.len() < 2 || settings.into_iter().any(is_varied) {
        return None;
    }
    Some(Doubt {
        place: ["experiments", &experiment.name, "traffic", "requests"].map(str::to_owned).into(),
        message: format!(
            "clients keep their connections: the scheduler of `{}` chooses a server once for each of them, and not for each request",
            load.service
        ),
        hint: "`new-connections: true` opens a connection for each request",
    })
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use super::*;

    #[test]
    fn connections_that_stay_are_doubted_before_several_servers() {
        let found = |servers: &str, keys: &str, vary: &str| {
            let text = format!(
                "nodes: {{ h1: host, h2: host, h3: host, s1: switch }}\n\
                 links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}, {{ between: [h3, s1] }}]\n\
                 services: {{ web: {{ address: 10.1.0.80:80, servers: [{servers}] }} }}\n\
                 experiments: {{ a: {{ traffic: {{ requests: {{ to: web{keys} }} }}, vary: {{ {vary} }}, for: 1s, repeat: 5 }} }}\n"
            );
            let fabric = fabric::parse(&Source { name: "net".to_owned(), text }).unwrap();
            kept_connections(&fabric, &fabric.experiments[0]).map(|doubt| doubt.message)
        };
        let said = found("h2, h3", "", "services.scheduler: [rr, lc]").expect("they stay");
        assert!(said.contains("the scheduler of `web` chooses a server once"), "{said}");
        assert_eq!(found("h2", "", ""), None);
        assert_eq!(found("h2, h3", ", new-connections: true", ""), None);
        assert_eq!(found("h2, h3", "", "requests.new-connections: [true, false]"), None);
    }
}
