//! Packets for an address that only a function of a chain has: switches see them with what that writes where they leave their host.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use miette::Report;
use serde::Serialize;
use topology::NodeId;
use vswitch::FlowKey;
use vswitch::chain::Function;
use wire::ethertype;

use crate::commands::path::{HOP_LIMIT, Network, Routing, follow, mac_words};

/// What a function has written into a packet before switches see it.
#[derive(Debug, Serialize)]
pub struct Translated {
    /// The function.
    by: String,
    /// The host that the packet comes from.
    from: String,
    nw_dst: String,
    tp_dst: u16,
    dl_dst: String,
}

impl Translated {
    pub fn words(&self) -> String {
        let Self { by, from, nw_dst, tp_dst, dl_dst } = self;
        format!(
            "The function `{by}` has translated it where it left {from}: nw_dst={nw_dst}, tp_dst={tp_dst}, dl_dst={dl_dst}\n"
        )
    }

    /// The packet as it was written, with what the function has written into it.
    pub fn packet(&self, written: &str) -> String {
        let mut packet = String::with_capacity(written.len());
        for field in written.split(|c: char| c == ',' || c.is_whitespace()).filter(|field| !field.is_empty()) {
            let (name, _) = field.split_once('=').unwrap_or((field, ""));
            let _ = match name {
                "nw_dst" | "ip_dst" | "ipv4_dst" | "ipv6_dst" => write!(packet, "{name}={},", self.nw_dst),
                "tp_dst" | "tcp_dst" | "udp_dst" => write!(packet, "{name}={},", self.tp_dst),
                _ => write!(packet, "{field},"),
            };
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
    if let Some((_, why)) = course.lost.filter(|(at, _)| *at == sender) {
        return Ok(Some(Outcome::Lost(why)));
    }
    let translates = |function: &Function| function.built_in().is_some_and(|built_in| built_in.nat().is_some());
    let mut where_it_is = course.legs.iter().enumerate().flat_map(|(leg, it)| {
        it.passed.iter().filter(|(_, function)| translates(function)).map(move |(_, function)| (leg, *function))
    });
    let (first, more) = (where_it_is.next(), where_it_is.next());
    match (first, more, course.delivered) {
        (Some((0, function)), None, Some(host)) if course.by_flows.is_empty() => {
            let ended = course.ended;
            let written = Translated {
                by: function.name.clone(),
                from: topology.nodes[sender].name.clone(),
                nw_dst: destination(&ended),
                tp_dst: ended.dst_port,
                dl_dst: mac_words(ended.eth_dst),
            };
            Ok(Some(Outcome::To(host, ended, written)))
        }
        _ => Ok(Some(Outcome::Unclear(format!("{of_function}; `heddle path` follows it from its host")))),
    }
}

fn destination(key: &FlowKey) -> String {
    if key.ethertype == ethertype::IPV6 {
        IpAddr::V6(key.dst.into()).to_string()
    } else {
        Ipv4Addr::from_bits(key.dst as u32).to_string()
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
            nw_dst: of("10.0.1.1"),
            tp_dst: 80,
            dl_dst: of("02:00:00:00:00:01"),
        };
        assert_eq!(
            translated.packet("in_port=1,tcp,nw_src=10.0.1.3,nw_dst=10.0.9.1,tp_dst=8080"),
            "in_port=1,tcp,nw_src=10.0.1.3,nw_dst=10.0.1.1,tp_dst=80,dl_dst=02:00:00:00:00:01"
        );
        assert_eq!(translated.packet("tcp nw_dst=10.0.9.1"), "tcp,nw_dst=10.0.1.1,dl_dst=02:00:00:00:00:01");
    }
}
