//! Routes of hosts as they are written: as ip-route(8) has them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::addresses::{WithPrefix, width};
use crate::error::Problems;
use crate::model::{HostRoute, InterfaceAddress};
use crate::read::{Read, expected, shown};
use crate::tree::{Node, Value};

/// What a route is to look like.
const FORM: &str = "a route like `default via 10.0.1.254`, or `10.9.0.0/16 via 10.0.1.254 dev eth0 metric 100`";

/// A route of a host.
#[derive(Clone, Debug)]
pub(crate) struct RouteText(pub HostRoute);

impl Read for RouteText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Scalar(text) = &node.value else {
            expected(node, FORM, problems);
            return None;
        };
        let Some(route) = parse(text) else {
            expected(node, FORM, problems);
            return None;
        };
        let (to, begins) = (route.destination, first_of(route.destination));
        let (message, label, hint) = if to.address != begins {
            (
                format!("{to} is no subnet: it has bits behind its prefix"),
                "no subnet",
                format!("write {begins}/{}", to.prefix),
            )
        } else if route.via.is_some_and(|via| width(via) != width(to.address)) {
            (
                format!("the route `{}` has an address of IPv4 and one of IPv6", shown(text)),
                "of both versions",
                "write a route for each version, with a next hop of its own".to_owned(),
            )
        } else {
            return Some(Self(route));
        };
        problems.add(node.place, message, label, hint);
        None
    }
}

impl JsonSchema for RouteText {
    fn schema_name() -> Cow<'static, str> {
        "Route".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["default via 10.0.1.254"] })
    }
}

/// A route as ip-route(8) writes it.
pub(crate) fn parse(text: &str) -> Option<HostRoute> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let (mut via, mut device, mut metric) = (None::<IpAddr>, None, None);
    while let (Some(key), value) = (words.next(), words.next()) {
        let value = value?;
        let is_new = match key {
            "via" => via.replace(value.parse().ok()?).is_none(),
            "dev" => device.replace(value.to_owned()).is_none(),
            "metric" => metric.replace(value.parse().ok()?).is_none(),
            _ => return None,
        };
        if !is_new {
            return None;
        }
    }
    if via.is_none() && device.is_none() {
        return None;
    }
    let destination = if first == "default" {
        let address = match via {
            Some(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        InterfaceAddress { address, prefix: 0 }
    } else {
        let WithPrefix::<IpAddr> { address, prefix } = first.parse().ok()?;
        InterfaceAddress { address, prefix: prefix.unwrap_or_else(|| width(address)) }
    };
    Some(HostRoute { destination, via, device, metric })
}

/// The first address of a subnet.
pub(crate) fn first_of(subnet: InterfaceAddress) -> IpAddr {
    let kept = u32::from(subnet.prefix);
    match subnet.address {
        IpAddr::V4(address) => {
            Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - kept).unwrap_or(0)).into()
        }
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(128 - kept).unwrap_or(0)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_ip_writes_them() {
        for (text, expected) in [
            ("default via 10.0.1.254", "default via 10.0.1.254"),
            (" default  via fd00::1 dev eth1 ", "default via fd00::1 dev eth1"),
            ("default dev eth0", "default dev eth0"),
            ("10.9.0.0/16 via 10.0.1.254 metric 100", "10.9.0.0/16 via 10.0.1.254 metric 100"),
            ("10.9.0.1 via 10.0.1.254", "10.9.0.1/32 via 10.0.1.254"),
            ("fd00:9::/32 dev eth0 via fd00::1", "fd00:9::/32 via fd00::1 dev eth0"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected);
        }
        assert_eq!(parse("default via fd00::1").unwrap().destination.address, IpAddr::from(Ipv6Addr::UNSPECIFIED));
    }

    #[test]
    fn what_is_no_route_is_refused() {
        for text in [
            "",
            "default",
            "10.9.0.0/16",
            "default via",
            "default via h1",
            "default via 10.0.0.1 via 10.0.0.2",
            "default via 10.0.0.1 table 5",
            "10.9.0.0/33 via 10.0.0.1",
            "10.9.0.0/+8 via 10.0.0.1",
            "default via 10.0.0.1 metric -1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
