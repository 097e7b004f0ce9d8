//! Sites of names that are hardly meant so.

use std::net::IpAddr;

use fabric::Fabric;

use super::doubt::Doubt;

/// Prefixes of `clients` that no host of the file has. Others may, behind a resolver that says so.
pub(super) fn nobodys_prefixes(fabric: &Fabric) -> Vec<Doubt> {
    let own = fabric.topology.hosts().filter_map(|(host, _)| fabric.topology.address(host));
    let own = own.flat_map(|address| [IpAddr::from(address.ipv4), IpAddr::from(address.ipv6)]);
    let further = fabric.setups.values().flat_map(|setup| setup.addresses.iter().map(|further| further.address));
    let hosts: Vec<IpAddr> = own.chain(further).collect();
    let mut found = Vec::new();
    for name in &fabric.names {
        for site in &name.spec.sites {
            let nobodys = site.clients.iter().find(|prefix| !hosts.iter().any(|host| prefix.has(*host)));
            found.extend(nobodys.map(|prefix| Doubt {
                place: ["names", &name.spec.name.to_string(), "sites", &site.name, "clients"].map(str::to_owned).into(),
                message: format!(
                    "no host of the file is in {prefix}, the `clients` of the site `{}` of `{}`: only resolvers that pass on such a prefix get it",
                    site.name, name.spec.name
                ),
                hint: "`heddle show nodes` of the file says which addresses hosts have",
            }));
        }
    }
    found
}

/// Names some of whose sites have services without health checks: those stay healthy, whatever has become of their servers.
pub(super) fn unchecked_sites(fabric: &Fabric) -> impl Iterator<Item = Doubt> {
    fabric.names.iter().filter_map(|name| {
        let sites = name.spec.sites.iter().zip(&name.services);
        let unchecked: Vec<&str> = sites
            .filter(|(_, service)| fabric.services[**service].health.is_none())
            .map(|(site, _)| site.name.as_str())
            .collect();
        // One alone has nobody to give its clients to.
        if unchecked.is_empty() || name.spec.sites.len() < 2 {
            return None;
        }
        let (sites, have) = if unchecked.len() == 1 { ("site", "has") } else { ("sites", "have") };
        Some(Doubt {
            place: vec!["names".to_owned(), name.spec.name.to_string()],
            message: format!(
                "the {sites} {} of `{}` {have} no health check: passive checks leave half of the servers in, so a site stays healthy when all of its servers are dead",
                unchecked.join(", "),
                name.spec.name
            ),
            hint: "give their services `health:`, as in `health: { check: tcp }`",
        })
    })
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    fn found(services: &str, sites: &str) -> Vec<(String, String)> {
        let text = format!(
            "nodes: {{ h1: {{ kind: host, ipv4: 10.7.0.1 }}, h2: {{ kind: host, programs: {{ web: [heddle, serve, ':80'] }} }}, s1: switch }}\n\
             links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n\
             services:\n  east: {{ address: 10.1.0.80:80, servers: [h2]{services} }}\n  \
             west: {{ address: 10.1.0.81:80, servers: [h2], health: {{ check: tcp }} }}\n\
             names: {{ www.example: {{ address: 10.1.0.53, sites: {{ {sites} }} }} }}\n"
        );
        let fabric = fabric::parse(&Source { name: "net".to_owned(), text }).unwrap();
        crate::doubts(&fabric).into_iter().map(|doubt| (doubt.place.join(" "), doubt.message)).collect()
    }

    #[test]
    fn prefixes_without_a_host_are_doubted() {
        let with = |clients: &str| {
            found(
                ", health: { check: tcp }",
                &format!("a: {{ service: east, clients: [{clients}] }}, b: {{ service: west }}"),
            )
        };
        assert_eq!(with("10.7.0.0/16, fd68::/16"), []);
        let [(place, message)] = &with("10.7.0.0/16, 10.9.0.0/16")[..] else { panic!("one doubt") };
        assert_eq!(place, "names www.example sites a clients");
        assert!(message.starts_with("no host of the file is in 10.9.0.0/16"), "{message}");
    }

    #[test]
    fn sites_without_a_health_check_are_doubted() {
        let both = "a: { service: east }, b: { service: west }";
        assert_eq!(found(", health: { check: tcp }", both), []);
        let [(place, message)] = &found("", both)[..] else { panic!("one doubt") };
        assert_eq!(place, "names www.example");
        assert!(message.starts_with("the site a of `www.example` has no health check"), "{message}");
        assert_eq!(found("", "a: { service: east }"), []);
    }
}
