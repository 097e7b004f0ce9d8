//! Names of hosts and services in a packet's fields, where addresses are expected: `tcp,nw_dst=h2,tp_dst=80`.

use fabric::{Fabric, host_hint};
use miette::{Report, miette};
use topology::HostAddress;

use crate::commands::path::mac_words;

/// What kind of address a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mac,
    Ipv4,
    Ipv6,
}

/// Fields that have an address.
const FIELDS: [(&str, Kind); 15] = [
    ("nw_src", Kind::Ipv4),
    ("nw_dst", Kind::Ipv4),
    ("ip_src", Kind::Ipv4),
    ("ip_dst", Kind::Ipv4),
    ("ipv4_src", Kind::Ipv4),
    ("ipv4_dst", Kind::Ipv4),
    ("arp_spa", Kind::Ipv4),
    ("arp_tpa", Kind::Ipv4),
    ("ipv6_src", Kind::Ipv6),
    ("ipv6_dst", Kind::Ipv6),
    ("nd_target", Kind::Ipv6),
    ("dl_src", Kind::Mac),
    ("dl_dst", Kind::Mac),
    ("eth_src", Kind::Mac),
    ("eth_dst", Kind::Mac),
];

/// The packet or the flow with addresses in place of names.
///
/// # Errors
/// If a name stands for an IPv4 address, and no host or service has it. Words in place of other addresses are left to who reads those: they may be
/// hexadecimal digits.
pub fn with_addresses(fabric: &Fabric, text: &str) -> Result<String, Report> {
    replaced(fabric, text, |name, kind| {
        let is_name = kind == Kind::Ipv4 && name.starts_with(|c: char| c.is_alphabetic());
        if !is_name {
            return Ok(());
        }
        Err(miette!(
            help = host_hint(&fabric.topology, name),
            "there is no host or service `{name}` with an IPv4 address"
        ))
    })
}

/// The same of many flows, in which words that are no names are left to who reads the flows, and says in which line they are.
pub fn with_known_addresses(fabric: &Fabric, text: &str) -> String {
    replaced(fabric, text, |_, _| Ok(())).unwrap_or_else(|_| text.to_owned())
}

fn replaced(fabric: &Fabric, text: &str, unknown: impl Fn(&str, Kind) -> Result<(), Report>) -> Result<String, Report> {
    let mut made = String::with_capacity(text.len());
    // Between fields stand commas or spaces, and none in a value.
    for word in text.split_inclusive(|c: char| c == ',' || c.is_whitespace()) {
        let field = word.trim_end_matches(|c: char| c == ',' || c.is_whitespace());
        let of_address = field.split_once('=').and_then(|(key, name)| {
            let (_, kind) = FIELDS.iter().find(|(field, _)| *field == key)?;
            Some((key, name, *kind))
        });
        match of_address.map(|(key, name, kind)| (key, name, kind, address_of(fabric, name, kind))) {
            Some((key, _, _, Some(address))) => made.extend([key, "=", &address, &word[field.len()..]]),
            Some((_, name, kind, None)) => {
                unknown(name, kind)?;
                made.push_str(word);
            }
            None => made.push_str(word),
        }
    }
    Ok(made)
}

/// The address of a host, or that of a service at which clients ask it.
fn address_of(fabric: &Fabric, name: &str, kind: Kind) -> Option<String> {
    let of_host = |address: &HostAddress| match kind {
        Kind::Mac => mac_words(address.mac),
        Kind::Ipv4 => address.ipv4.to_string(),
        Kind::Ipv6 => address.ipv6.to_string(),
    };
    let host = fabric.topology.node(name).and_then(|node| fabric.topology.address(node));
    if let Some(address) = host {
        return Some(of_host(address));
    }
    let service = fabric.services.iter().find(|service| service.name == name)?;
    let mut addresses = service.addresses.iter().map(|at| fabric::socket_address(at).ip());
    let address = match kind {
        Kind::Mac => None,
        Kind::Ipv4 => addresses.find(std::net::IpAddr::is_ipv4),
        Kind::Ipv6 => addresses.find(std::net::IpAddr::is_ipv6),
    };
    address.map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_addresses() {
        let text = "nodes: { h1: host, h2: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
services: { web: { address: '10.1.0.80:80', servers: [h2] } }
";
        let fabric = fabric::parse(&fabric::Source { name: "net".to_owned(), text: text.to_owned() });
        let fabric = fabric.expect("a network");
        let h2 = fabric.topology.address(fabric.topology.node("h2").expect("a host")).expect("it has some").clone();
        let read = |packet: &str| with_addresses(&fabric, packet).expect("names that there are");
        assert_eq!(read("tcp,nw_dst=h2,tp_dst=80"), format!("tcp,nw_dst={},tp_dst=80", h2.ipv4));
        assert_eq!(read("ipv6_dst=h2"), format!("ipv6_dst={}", h2.ipv6));
        assert_eq!(read("dl_dst=h2,in_port=h1"), format!("dl_dst={},in_port=h1", mac_words(h2.mac)));
        assert_eq!(read("tcp,nw_dst=web"), "tcp,nw_dst=10.1.0.80");
        // Flows have actions behind a space or a comma.
        let flow = format!("ip,nw_src={} actions=drop", h2.ipv4);
        assert_eq!(read("ip,nw_src=h2 actions=drop"), flow);
        let known = with_known_addresses(&fabric, "ip,nw_src=h2 actions=drop\nip,nw_src=h9,actions=drop\n");
        assert_eq!(known, format!("{flow}\nip,nw_src=h9,actions=drop\n"));
        for same in ["tcp,nw_dst=10.0.0.0/8", "dl_dst=aa:bb:cc:dd:ee:ff", "ipv6_dst=fe80::1", "icmp", ""] {
            assert_eq!(read(same), same);
        }
        let unknown = with_addresses(&fabric, "tcp,nw_dst=h9").expect_err("there is none");
        assert!(unknown.to_string().contains("no host or service `h9`"), "{unknown}");
        assert!(unknown.help().is_some_and(|hint| hint.to_string().contains("`h1`")), "{unknown:?}");
    }
}
