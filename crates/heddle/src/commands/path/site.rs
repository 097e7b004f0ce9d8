//! To which site a name leads somebody.

use std::net::IpAddr;

use balance::names::{Names, SiteState, WireName};
use datapath::ServedName;
use fabric::Fabric;
use live::control::{NameStatus, SiteStatus};

/// A site of a name, as a host finds it that asks now.
pub struct Site {
    /// The service, by its number in the file.
    pub service: usize,
    /// That it leads there, in words.
    pub words: String,
}

/// The name of `names:` that is written so, by its number in the file, if no node and no service has it.
pub fn name_number(fabric: &Fabric, written: &str) -> Option<usize> {
    let is_another = fabric.topology.node(written).is_some() || fabric.services.iter().any(|it| it.name == written);
    let wanted = WireName::parse(written).filter(|_| !is_another)?;
    fabric.names.iter().position(|name| name.spec.name == wanted)
}

/// Where a name, by its number, leads a client to, as a name server would say to the next one who asks. `statuses`: how names are now; of a network that does not run, all is well.
/// `None`: no site has an address of this family.
pub fn site(
    fabric: &Fabric,
    statuses: &[NameStatus],
    number: usize,
    (is_ipv6, client): (bool, IpAddr),
) -> Option<Site> {
    let name = &fabric.names[number];
    let text = name.spec.name.to_string();
    let status = statuses.iter().find(|status| status.name == text);
    let states: Vec<SiteState> = match status {
        Some(status) => status.sites.iter().map(state).collect(),
        None => name.services.iter().map(|service| all_well(fabric, *service)).collect(),
    };
    let names = Names::new(fabric.names.iter().map(|name: &ServedName| name.spec.clone()).collect(), 0);
    let at = names.site_for(number, is_ipv6, client, &states)?;
    let service = name.services[at];
    let site = &name.spec.sites[at].name;
    let words =
        format!("`{text}` leads {client} to the site `{site}`: the service `{}`", fabric.services[service].name);
    Some(Site { service, words })
}

fn state(site: &SiteStatus) -> SiteState {
    let SiteStatus { servers, drained, healthy, load_percent, .. } = *site;
    SiteState { servers, drained, healthy, load_percent }
}

fn all_well(fabric: &Fabric, service: usize) -> SiteState {
    let servers = fabric.services[service].servers.len() as u32;
    SiteState { servers, healthy: servers, ..SiteState::default() }
}
