//! Packets that a function of a chain translates where they leave their host: switches see them with what it writes.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use miette::Report;
use serde::Serialize;
use topology::NodeId;
use vswitch::chain::Function;
use vswitch::{Action, FlowKey};
use wire::{ethertype, protocol};

use crate::commands::path::{Course, HOP_LIMIT, Network, Routing, follow, mac_words};

/// What a function has written into a packet before switches see it.
#[derive(Debug, Serialize)]
pub struct Translated {
    /// The function.
    by: String,
    /// The host that the packet comes from.
    from: String,
    /// Of what it writes as their source.
    #[serde(skip_serializing_if = "Option::is_none")]
    nw_src: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tp_src: Option<u16>,
    nw_dst: String,
    tp_dst: u16,
    dl_dst: String,
}

impl Translated {
    pub fn words(&self) -> String {
        let Self { by, from, nw_src, tp_src, nw_dst, tp_dst, dl_dst } = self;
        let written = match (nw_src, tp_src) {
            (Some(nw_src), Some(tp_src)) => format!("nw_src={nw_src}, tp_src={tp_src}"),
            (Some(nw_src), None) => format!("nw_src={nw_src}"),
            (None, _) => format!("nw_dst={nw_dst}, tp_dst={tp_dst}, dl_dst={dl_dst}"),
        };
        format!("The function `{by}` has translated it where it left {from}: {written}\n")
    }

    /// The packet as it was written, with what the function has written into it.
    pub fn packet(&self, written: &str) -> String {
        let mut packet = String::with_capacity(written.len());
        for field in written.split(|c: char| c == ',' || c.is_whitespace()).filter(|field| !field.is_empty()) {
            let (name, _) = field.split_once('=').unwrap_or((field, ""));
            let _ = match name {
                // Stand at its end.
                "nw_src" | "ip_src" | "ipv4_src" | "ipv6_src" | "tp_src" | "tcp_src" | "udp_src"
                    if self.nw_src.is_some() =>
                {
                    Ok(())
                }
                "nw_dst" | "ip_dst" | "ipv4_dst" | "ipv6_dst" => write!(packet, "{name}={},", self.nw_dst),
                "tp_dst" | "tcp_dst" | "udp_dst" => write!(packet, "{name}={},", self.tp_dst),
                _ => write!(packet, "{field},"),
            };
        }
        if let Some(nw_src) = &self.nw_src {
            let name = if nw_src.contains(':') { "ipv6_src" } else { "nw_src" };
            let _ = write!(packet, "{name}={nw_src},");
        }
        if let Some(tp_src) = self.tp_src {
            let _ = write!(packet, "tp_src={tp_src},");
        }
        let _ = write!(packet, "dl_dst={}", self.dl_dst);
        packet
    }
}

/// What becomes of a packet for such an address.
pub enum Outcome {
    /// It goes on to this host, as this.
    To(NodeId, FlowKey, Translated),
    /// It goes no further than its host, for this reason.
    Lost(String),
    /// What is written into it where cannot be said of a single switch.
    Unclear(String),
}

/// What becomes of a packet from a host for an address that a chain's function has; `None`: no function has it.
pub fn translated(
    (network, routing): (&Network, &Routing<'_>),
    (sender, to): (Option<NodeId>, IpAddr),
    key: &FlowKey,
) -> Result<Option<Outcome>, Report> {
    let fabric = &network.fabric;
    let topology = &fabric.topology;
    let bits = balance::config::address_bits(to);
    let mut aliases = fabric.chains.aliases().into_iter();
    let has_it = aliases.any(|it| it.is_ipv6 == to.is_ipv6() && (it.addresses.0..=it.addresses.1).contains(&bits));
    if !has_it {
        return Ok(None);
    }
    let of_function = format!("{to} is an address of a function of a chain");
    let Some((sender, own)) = sender.and_then(|sender| Some((sender, topology.address(sender)?))) else {
        let why =
            format!("{of_function}, which writes another one where a packet leaves its host: `nw_src=` says which");
        return Ok(Some(Outcome::Unclear(why)));
    };
    let Some((_, mac)) = routing.resolve(to) else { return Ok(None) };
    let sent = FlowKey { eth_src: own.mac, eth_dst: mac, ..*key };
    let course = follow(network, (sender, None), (&sent, HOP_LIMIT), true)?;
    if let Some((_, why)) = course.lost.as_ref().filter(|(at, _)| *at == sender) {
        return Ok(Some(Outcome::Lost(why.clone())));
    }
    match (translator(&course), course.delivered) {
        (Some(function), Some(host)) if course.by_flows.is_empty() => {
            let ended = course.ended;
            let written = written(function, &topology.nodes[sender].name, &ended);
            Ok(Some(Outcome::To(host, ended, written)))
        }
        _ => Ok(Some(Outcome::Unclear(format!("{of_function}; `heddle path` follows it from its host")))),
    }
}

/// What becomes of a packet between two hosts whose source a function of a chain writes anew where it leaves the first one; `None`: none does.
pub fn with_other_source(
    (network, routing): (&Network, &Routing<'_>),
    (sender, to): (NodeId, IpAddr),
    key: &FlowKey,
) -> Result<Option<(FlowKey, Translated)>, Report> {
    let topology = &network.fabric.topology;
    if network.fabric.chains.chains.is_empty() {
        return Ok(None);
    }
    let (Some(own), Some((_, mac))) = (topology.address(sender), routing.resolve(to)) else { return Ok(None) };
    let src = match (key.src, to) {
        (0, IpAddr::V4(_)) => own.ipv4.to_bits().into(),
        (0, IpAddr::V6(_)) => own.ipv6.to_bits(),
        (src, _) => src,
    };
    let sent = FlowKey { eth_src: own.mac, eth_dst: mac, src, ..*key };
    let course = follow(network, (sender, None), (&sent, HOP_LIMIT), true)?;
    let by_flow = |action: &Action| matches!(action, Action::Set(_));
    let is_changed_later = course.by_flows.iter().any(|(_, actions)| actions.iter().any(by_flow));
    // A trace says itself who drops it there.
    let is_lost_there = course.lost.as_ref().is_some_and(|(at, _)| *at == sender);
    let Some(function) = translator(&course).filter(|_| !is_changed_later && !is_lost_there) else { return Ok(None) };
    let ended = course.ended;
    if (ended.src, ended.src_port) == (sent.src, sent.src_port)
        || (ended.dst, ended.dst_port) != (sent.dst, sent.dst_port)
    {
        return Ok(None);
    }
    let written = Translated {
        nw_src: Some(address(&ended, ended.src)),
        tp_src: has_ports(&ended).then_some(ended.src_port),
        ..written(function, &topology.nodes[sender].name, &ended)
    };
    Ok(Some((FlowKey { src: ended.src, src_port: ended.src_port, ..*key }, written)))
}

/// The function that translates a packet, if there is one and it is where that leaves its host.
fn translator<'a>(course: &Course<'a>) -> Option<&'a Function> {
    let translates = |function: &Function| function.built_in().is_some_and(|built_in| built_in.nat().is_some());
    let mut where_it_is = course.legs.iter().enumerate().flat_map(|(leg, it)| {
        it.passed.iter().filter(|(_, function)| translates(function)).map(move |(_, function)| (leg, *function))
    });
    match (where_it_is.next(), where_it_is.next()) {
        (Some((0, function)), None) => Some(function),
        _ => None,
    }
}

fn written(by: &Function, from: &str, ended: &FlowKey) -> Translated {
    Translated {
        by: by.name.clone(),
        from: from.to_owned(),
        nw_src: None,
        tp_src: None,
        nw_dst: address(ended, ended.dst),
        tp_dst: ended.dst_port,
        dl_dst: mac_words(ended.eth_dst),
    }
}

/// What ICMP has there are no ports.
const fn has_ports(key: &FlowKey) -> bool {
    matches!(key.protocol, protocol::TCP | protocol::UDP)
}

fn address(key: &FlowKey, bits: u128) -> String {
    if key.ethertype == ethertype::IPV6 {
        IpAddr::V6(bits.into()).to_string()
    } else {
        Ipv4Addr::from_bits(bits as u32).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_replaces_what_was() {
        let of = |name: &str| name.to_owned();
        let translated = Translated {
            by: of("nat"),
            from: of("h3"),
            nw_src: None,
            tp_src: None,
            nw_dst: of("10.0.1.1"),
            tp_dst: 80,
            dl_dst: of("02:00:00:00:00:01"),
        };
        assert_eq!(
            translated.packet("in_port=1,tcp,nw_src=10.0.1.3,nw_dst=10.0.9.1,tp_dst=8080"),
            "in_port=1,tcp,nw_src=10.0.1.3,nw_dst=10.0.1.1,tp_dst=80,dl_dst=02:00:00:00:00:01"
        );
        assert_eq!(translated.packet("tcp nw_dst=10.0.9.1"), "tcp,nw_dst=10.0.1.1,dl_dst=02:00:00:00:00:01");
        let translated = Translated { nw_src: Some(of("10.0.9.1")), tp_src: Some(4000), ..translated };
        assert_eq!(
            translated.packet("tcp,nw_src=10.0.1.3,nw_dst=10.0.1.1,tp_src=4000"),
            "tcp,nw_dst=10.0.1.1,nw_src=10.0.9.1,tp_src=4000,dl_dst=02:00:00:00:00:01"
        );
    }
}
