//! `names`: names that DNS leads to one of several services.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use balance::config::address_bits;
use balance::names::{ANSWERS_MAX, NameSpec, SHED_FROM_PERCENT, SITE_WEIGHT_MAX, SITES_MAX, SiteSpec, WireName};
use datapath::{ServedName, Service, VirtualAddress};
use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::reach::Reach;
use super::text::Prefix;
use crate::HostSetup;
use crate::controllers::Flag;
use crate::document::File;
use crate::error::Problems;
use crate::graph::Graph;
use crate::names::{canonical, nearest, reaches};
use crate::quantity::{Length, Percent, Whole};
use crate::read::{Fields, Mapping, Name, Read, expected, one_or_several, one_or_several_texts, section, shown};
use crate::source::At;
use crate::subnets::Subnets;
use crate::tree::{Node, Value};

/// The most names of a file.
const MOST: usize = 1 << 10;
/// For how long an answer may be kept when nothing is said.
const TTL_S: u32 = 30;
/// A day in milliseconds.
const DAY: u64 = 86_400_000;
/// The most answers a second that a prefix may be given.
const LIMIT_MAX: u64 = 1_000_000;
/// The largest weight.
const WEIGHT_MAX: u64 = SITE_WEIGHT_MAX as u64;

section! {
    /// A name whose addresses are those of one of several services, its sites: who asks a name server (DNS) for it gets one by the sites' health and load, and by where he is.
    NameText {
        /// Where name servers are asked for it: an address that no host and no service has, or a list of them. Several names may have the same. Hosts ask there.
        "address" => address: At<AskedAt>,
        /// For how long an answer may be kept, in whole seconds. 30s when not given.
        "ttl" => ttl: Option<Ttl>,
        /// From so much of its capacity in use on, a site's share gets smaller, down to nothing when all is. 80 % when not given.
        "shed-load" => shed_load: Option<Percent>,
        /// How many answers a second clients get from the name servers at these addresses, those of a prefix together (/24, with IPv6 /56); 0: any number. Of several names at
        /// one address the most counts. 1000 when not given.
        "response-limit" => response_limit: Option<Whole<0, LIMIT_MAX>>,
        /// The sites, by name.
        "sites" => sites: At<Mapping<Name, SiteText>>,
    }
}

section! {
    /// A site: a service, and who is sent there.
    SiteText {
        /// The service.
        "service" => service: At<Name>,
        /// Its share among the others; 0: nobody is sent there. 1 when not given.
        "weight" => weight: Option<Whole<0, WEIGHT_MAX>>,
        /// Whether somebody is sent there only when no other site can take them. `false` when not given.
        "backup" => backup: Option<Flag>,
        /// Clients that come here before they go elsewhere: addresses with the lengths of their prefixes, as `[10.1.0.0/16]`. Of all sites' prefixes the longest counts.
        "clients" => clients: Option<Vec<At<Prefix>>>,
    }
}

/// An address, or several.
#[derive(Clone, Debug)]
pub(crate) struct AskedAt(Vec<At<IpAddr>>);

impl Read for AskedAt {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        one_or_several(node, problems).map(Self)
    }
}

impl JsonSchema for AskedAt {
    fn schema_name() -> Cow<'static, str> {
        "NameServers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        one_or_several_texts(&["10.0.0.53", "fd68:6564:646c::53"])
    }
}

/// For how many seconds an answer may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ttl(u32);

impl Read for Ttl {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        const SECOND: Span = Span::from_secs(1);
        if let Value::Scalar(text) = &node.value
            && let Ok(seconds) = text.parse::<u32>()
        {
            let message = format!("`{}` has no unit", shown(text));
            problems.add(node.place, message, "expected a time like `5s`", format!("write `{seconds}s`"));
            return None;
        }
        let Length::<true, DAY>(ttl) = Length::read(node, problems)?;
        if ttl.as_ps() % SECOND.as_ps() != 0 {
            let hint = "write whole seconds, as in `5s`; with `0s` nobody keeps an answer";
            problems.add(
                node.place,
                format!("{ttl} is no whole number of seconds, as DNS has them"),
                "not whole",
                hint,
            );
            return None;
        }
        Some(Self((ttl.as_ps() / SECOND.as_ps()) as u32))
    }
}

impl JsonSchema for Ttl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Length::<true, DAY>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Length::<true, DAY>::json_schema(generator)
    }
}

/// A name of DNS.
#[derive(Clone, Debug)]
pub(crate) struct DnsName {
    text: String,
    wire: WireName,
}

impl Read for DnsName {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        const WHAT: &str = "a name like `www.example.net`";
        let Value::Scalar(text) = &node.value else {
            expected(node, WHAT, problems);
            return None;
        };
        let wire = WireName::parse(text);
        if wire.is_none() {
            problems.add(
                node.place,
                format!("`{}` is no name of DNS", shown(text)),
                "not a name",
                format!(
                    "write {WHAT}: parts of up to 63 letters (a-z), digits, `_`, and `-` between those, with dots between them, 253 in all"
                ),
            );
        }
        Some(Self { text: text.clone(), wire: wire? })
    }
}

impl JsonSchema for DnsName {
    fn schema_name() -> Cow<'static, str> {
        "DnsName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\\.?$" })
    }
}

/// Reads the names of a file.
pub(crate) fn names(
    file: &File,
    (graph, setups): (&Graph, &BTreeMap<String, HostSetup>),
    services: &[Service],
    problems: &mut Problems<'_>,
) -> Vec<ServedName> {
    let Some(section) = &file.names else { return Vec::new() };
    if section.value.0.len() > MOST {
        let message = format!("{} names are more than {MOST}", section.value.0.len());
        problems.add(section.place, message, "too many", "use several networks");
        return Vec::new();
    }
    let written = file.services.iter().flat_map(|services| &services.value.0);
    let written: Vec<&str> = written.map(|(name, _)| name.value.0.as_str()).collect();
    let reach = Reach::new(&graph.topology, Subnets::new(&graph.topology, setups));
    let mut names: Vec<ServedName> = Vec::new();
    let mut resolvers = Resolvers::of(graph, setups);
    for (name, text) in &section.value.0 {
        let before = problems.noted();
        check_name(graph, (&names, &written), name, problems);
        let asked_at = asked_at((graph, &reach), services, &text.value, problems);
        check_below(&names, (name, &asked_at), problems);
        check_resolvers(&mut resolvers, &text.value, problems);
        let (sites, of_services) = sites(services, &written, &text.value, problems);
        let spec = NameSpec {
            name: name.value.wire.clone(),
            asked_at,
            ttl_s: text.value.ttl.map_or(TTL_S, |ttl| ttl.0),
            shed_from_percent: text.value.shed_load.map_or(SHED_FROM_PERCENT, |share| share.0 / 10_000_000),
            answers_max: text.value.response_limit.map_or(ANSWERS_MAX, Whole::get),
            sites,
        };
        if problems.noted() == before && spec.sites.len() == text.value.sites.value.0.len() {
            names.push(ServedName { spec, services: of_services });
        }
    }
    names
}

/// Notes a name that programs find elsewhere first.
fn check_name(
    graph: &Graph,
    (names, services): (&[ServedName], &[&str]),
    name: &At<DnsName>,
    problems: &mut Problems<'_>,
) {
    let text = &name.value.text;
    let is_it = |other: &str| canonical(other) == canonical(text);
    let (message, hint) = if graph.topology.nodes.iter().any(|node| is_it(&node.name)) {
        (format!("there is a node `{text}` already"), "give it another name: hosts find the node by that")
    } else if services.iter().any(|service| is_it(service)) {
        (format!("there is a service `{text}` already"), "give it another name: hosts find the service by that")
    } else if names.iter().any(|other| other.spec.name == name.value.wire) {
        (format!("there is a name `{text}` already"), "add the sites to that one")
    } else if let Some(whom) = reaches(text) {
        (format!("by the name `{text}` programs reach {whom}"), "give it another name")
    } else {
        return;
    };
    problems.add(name.place, message, "there already", hint);
}

/// Notes a name that is not known where one above it is asked for, or the other way round.
fn check_below(names: &[ServedName], (name, asked_at): (&At<DnsName>, &[IpAddr]), problems: &mut Problems<'_>) {
    let own = &name.value.wire;
    let apart = |upper: &[IpAddr], lower: &[IpAddr]| upper.iter().find(|address| !lower.contains(address)).copied();
    let found = names.iter().find_map(|other| {
        let spec = &other.spec;
        let (above, below, at) = if own.is_below(&spec.name) {
            (&spec.name, own, apart(&spec.asked_at, asked_at))
        } else if spec.name.is_below(own) {
            (own, &spec.name, apart(asked_at, &spec.asked_at))
        } else {
            return None;
        };
        Some((above.to_string(), below.to_string(), at?))
    });
    if let Some((above, below, at)) = found {
        let message =
            format!("{at}, where `{above}` is asked for, does not know `{below}`, and says that it does not exist");
        let hint = "give both names the same `address`: resolvers go by the first answer that is no refusal, and ask nobody else";
        problems.add(name.place, message, "known elsewhere", hint);
    }
}

/// Which name servers resolvers in hosts ask.
struct Resolvers {
    /// As many as all hosts ask, without the one behind an uplink, and a host that asks no more.
    most: Option<(usize, String)>,
    asked: Vec<IpAddr>,
}

impl Resolvers {
    fn of(graph: &Graph, setups: &BTreeMap<String, HostSetup>) -> Self {
        /// glibc's MAXNS (resolv.conf(5)); musl has the same.
        const ASKED: usize = 3;
        let asked = |name: &String| match setups.get(name) {
            Some(setup) if setup.files.iter().any(|file| file.path == RESOLV_CONF) => None,
            Some(setup) => Some(ASKED - usize::from(setup.uplink.is_some())),
            None => Some(ASKED),
        };
        let hosts = graph.topology.end_hosts().map(|(_, node)| &node.name);
        let most = hosts.filter_map(|name| Some((asked(name)?, name.clone()))).min_by_key(|(most, _)| *most);
        Self { most, asked: Vec::new() }
    }
}

/// What hosts have in place of the network's name servers, if the file says so.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Notes the first address at which no host would ask.
fn check_resolvers(resolvers: &mut Resolvers, text: &NameText, problems: &mut Problems<'_>) {
    let Resolvers { most, asked } = resolvers;
    for At { value: address, place, .. } in &text.address.value.0 {
        if asked.contains(address) {
            continue;
        }
        asked.push(*address);
        if let Some((most, host)) = most
            && asked.len() == *most + 1
        {
            let message = if *most < 3 {
                format!(
                    "`{host}` would not ask {address}: resolvers ask three name servers, and one is behind its uplink"
                )
            } else {
                format!(
                    "hosts would not ask {address}: resolvers ask three name servers (MAXNS), and there are three others"
                )
            };
            problems.add(*place, message, "one too many", "give all names the same `address`");
        }
    }
}

/// Where name servers are asked: nobody else is there.
fn asked_at(
    (graph, reach): (&Graph, &Reach<'_>),
    services: &[Service],
    text: &NameText,
    problems: &mut Problems<'_>,
) -> Vec<IpAddr> {
    let mut read: Vec<IpAddr> = Vec::new();
    for At { value: address, place, .. } in &text.address.value.0 {
        if !reach.check_address(*address, *place, problems) {
            continue;
        }
        let has_it = |at: &VirtualAddress| at.ip() == *address;
        let is_source = |service: &Service| {
            let bits = address_bits(*address);
            service.sources.iter().any(|range| {
                range.is_ipv6 == address.is_ipv6() && (range.addresses.0..=range.addresses.1).contains(&bits)
            })
        };
        let owner = super::host_with(graph, *address).map(|host| format!("`{host}`"));
        let of_service = services.iter().find(|service| service.addresses.iter().any(has_it) || is_source(service));
        let owner = owner.or_else(|| of_service.map(|service| format!("the service `{}`", service.name)));
        if let Some(owner) = owner {
            let hint = "take an address that no host and no service has";
            problems.add(*place, format!("{owner} has the address {address}"), "of somebody else", hint);
        } else if read.contains(address) {
            problems.add(*place, format!("{address} is there twice"), "there already", "keep one of them");
        } else {
            read.push(*address);
        }
    }
    read
}

/// The sites, and the number of the service of each.
fn sites(
    services: &[Service],
    written: &[&str],
    text: &NameText,
    problems: &mut Problems<'_>,
) -> (Vec<SiteSpec>, Vec<usize>) {
    let (mut sites, mut numbers): (Vec<SiteSpec>, Vec<usize>) = (Vec::new(), Vec::new());
    let all = &text.sites.value.0;
    let example = "name a service: `sites: { east: { service: web } }`";
    if all.is_empty() && text.sites.sound {
        problems.add(text.sites.place, "a name needs sites", "empty", example);
    } else if all.len() > SITES_MAX {
        let message = format!("{} sites are more than {SITES_MAX}", all.len());
        problems.add(text.sites.place, message, "too many", "use fewer sites, each with more servers");
        return (sites, numbers);
    } else if all.iter().all(|(_, site)| site.value.weight.is_some_and(|weight| weight.get() == 0)) && !all.is_empty() {
        let hint = "give one of them a `weight` above 0";
        problems.add(text.sites.place, "all sites have weight 0, so nobody gets an address", "no share", hint);
    }
    for (name, At { value: site, .. }) in all {
        let wanted = &site.service;
        let Some(number) = services.iter().position(|service| service.name == wanted.value.0) else {
            // One that is there and could not be read has been noted.
            if !written.contains(&wanted.value.0.as_str()) {
                let hint = problems.hint(|| match nearest(&wanted.value.0, written.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if written.is_empty() => {
                        "add it: `services: { web: { address: 10.1.0.80:80, servers: [h1, h2] } }`".to_owned()
                    }
                    None => format!("there are {}", written.join(", ")),
                });
                problems.add(wanted.place, format!("there is no service `{}`", wanted.value.0), "unknown", hint);
            }
            continue;
        };
        if numbers.contains(&number) {
            let message = format!("the service `{}` is another site of it already", wanted.value.0);
            problems.add(wanted.place, message, "there already", "give that one a higher `weight`, or more `clients`");
            continue;
        }
        let mut addresses: Vec<IpAddr> = services[number].addresses.iter().map(VirtualAddress::ip).collect();
        // A service may have several ports of one address.
        let mut known = Vec::new();
        addresses.retain(|address| {
            !known.contains(address) && {
                known.push(*address);
                true
            }
        });
        sites.push(SiteSpec {
            name: name.value.0.clone(),
            addresses,
            weight: site.weight.map_or(1, Whole::get),
            is_backup: site.backup.is_some_and(|flag| flag.0),
            clients: site.clients.iter().flatten().map(|prefix| prefix.value.0).collect(),
        });
        numbers.push(number);
    }
    (sites, numbers)
}
