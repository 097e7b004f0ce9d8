//! Bonds: several links between two nodes that are used as one.

use std::net::IpAddr;

use ::bond::config::{Rebalance, Value};
use ::bond::{Carrier, MemberId, MemberSet};
use datapath::EndSpec;
use machine::Span;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use topology::{BondEnd, BondEndId, NodeKind, TiVec};
use vswitch::HostBond;

use crate::Fabric;

/// What is at one end of a bond. Where that is, [`topology::BondEnd`] says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bond {
    /// What runs there.
    pub end: EndKind,
    /// Mode and options. Where this end is learning, nothing runs with it.
    #[serde(rename = "mode", serialize_with = "mode_of")]
    pub config: ::bond::config::Config,
    /// What the file says for this end besides the mode: from this, a case with another mode makes its `config`.
    #[serde(serialize_with = "by_name", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<BondOption>,
    /// How arrivals are put back in order; `None`: they are handed on as they come.
    pub reorder: Option<ReorderSpec>,
}

/// What runs at one end of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// A bond: a state machine with [`Bond::config`].
    Bonded,
    /// A switch with MAC-learning ports, against a mode that needs no bond there (active-backup, balance-tlb, balance-alb at a
    /// host). It sends to the member on which it last saw an address.
    Learning,
}

/// An option of a bond, by its name in the kernel, with a value that its type allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondOption {
    /// Like `xmit_hash_policy`.
    pub name: &'static str,
    /// One that the option can have, in some mode.
    pub value: Value,
}

/// How a bond puts arrivals back in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderSpec {
    /// How many packets are held at most.
    pub buffer: u32,
    /// How long a packet is held at most.
    pub timeout: Span,
}

impl Default for ReorderSpec {
    /// What `reorder: on` means: on two links of 1 Gbit/s, 512 full frames are 3 ms.
    fn default() -> Self {
        Self { buffer: 512, timeout: Span::from_ms(2) }
    }
}

/// What a case does to the order on arrival, at both ends of all bonds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reordering {
    /// Arrivals are handed on as they come.
    Off,
    /// As the file says; where it says nothing or `off`, with the default.
    On,
    /// With this buffer and timeout.
    With(ReorderSpec),
}

impl Reordering {
    /// What this makes of an end's own setting.
    pub(crate) fn applied_to(self, own: Option<ReorderSpec>) -> Option<ReorderSpec> {
        match self {
            Self::Off => None,
            Self::On => Some(own.unwrap_or_default()),
            Self::With(spec) => Some(spec),
        }
    }
}

impl Bond {
    /// What options call a member: `eth0`, `eth1`, ... in the order of [`topology::BondEnd::ports`], at both ends.
    pub fn member_name(member: usize) -> String {
        format!("eth{member}")
    }

    /// Whether a state machine is at this end.
    pub const fn is_bonded(&self) -> bool {
        matches!(self.end, EndKind::Bonded)
    }
}

impl Fabric {
    /// What is at each end of each bond, whoever is behind it; `seed` is for the modes that draw lots.
    pub fn ends_of_bonds(&self, seed: impl Fn(BondEndId) -> u64) -> TiVec<BondEndId, EndSpec> {
        let ends = self.topology.bonds.iter_enumerated().zip(&self.bonds);
        let spec = |((id, place), end): ((BondEndId, &BondEnd), &Bond)| EndSpec {
            node: place.node,
            partner: place.partner,
            mode: end.config.mode,
            plan: end.is_bonded().then(|| Box::new(self.bond_plan(id, seed(id)))),
            is_external: false,
        };
        ends.map(spec).collect()
    }

    /// What the machine of a bond's end is made of. `seed` is for the modes that draw lots.
    ///
    /// # Panics
    /// If there is no such end.
    pub fn bond_plan(&self, id: BondEndId, seed: u64) -> ::bond::end::Plan {
        let Self { topology, bonds, .. } = self;
        let (place, end) = (&topology.bonds[id], &bonds[id]);
        let node = &topology.nodes[place.node];
        let (mac, addresses) = match &node.kind {
            NodeKind::Host(host) => (host.mac, vec![IpAddr::V4(host.ipv4), IpAddr::V6(host.ipv6)]),
            NodeKind::Switch { .. } => {
                // From its names, so that it stays when other nodes come and go.
                let names = node.name.bytes().chain([0]).chain(place.name.bytes());
                let [_, _, mac @ ..] = names.fold(0, |hash, byte| machine::mix(hash ^ u64::from(byte))).to_be_bytes();
                // Locally administered, and of another range than hosts'.
                ([0x02, 0x80 | mac[1] & 0x3f, mac[2], mac[3], mac[4], mac[5]], Vec::new())
            }
        };
        let members = topology.bond_links(id).enumerate().map(|(member, link)| {
            let rate_mbps = topology.links[link].spec.rate_bps.unwrap_or(0) / 1_000_000;
            let carrier = Carrier::up(u32::try_from(rate_mbps).unwrap_or(u32::MAX));
            // The bond takes its first member's address; the others differ from it, and from everybody's.
            let mut own = mac;
            if member > 0 {
                own[1] ^= 0x40 | member as u8;
            }
            (Bond::member_name(member), own, carrier)
        });
        // A switch's MAC-learning ports number nothing.
        let partner = &bonds[place.partner];
        let reorder = end.reorder.filter(|_| partner.is_bonded());
        let reorder = reorder
            .map(|spec| ::bond::reorder::Config { buffer: spec.buffer.next_power_of_two(), timeout: spec.timeout });
        let sends_on_all = partner.is_bonded() && partner.config.mode == ::bond::Mode::BalanceRr;
        let partner_uses =
            if sends_on_all { (0..place.members()).map(MemberId::new).collect() } else { MemberSet::EMPTY };
        let members = members.collect();
        let partner = ::bond::end::Partner::Internal;
        ::bond::end::Plan { config: end.config.clone(), partner, reorder, mac, members, addresses, partner_uses, seed }
    }
}

impl Fabric {
    /// What the bonds of hosts add to their addresses.
    pub fn host_bonds(&self) -> Vec<HostBond> {
        let ends = self.topology.bonds.iter_enumerated().zip(&self.bonds);
        let of_hosts = ends.filter(|((_, place), end)| end.is_bonded() && self.topology.is_host(place.node));
        let bond = |((id, place), end): ((BondEndId, &BondEnd), &Bond)| {
            let is_made = !self.topology.nodes[place.node].is_external();
            let members = if is_made { self.bond_plan(id, 0).members } else { Vec::new() };
            HostBond {
                host: place.node,
                ports: place.ports.clone(),
                members: members.into_iter().map(|(_, mac, _)| mac).collect(),
                announces_members: end.config.answers_by_member(),
            }
        };
        of_hosts.map(bond).collect()
    }
}

fn mode_of<S: Serializer>(config: &::bond::config::Config, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(config.mode.name())
}

/// Values as the kernel writes them, but times are exact.
fn by_name<S: Serializer>(options: &[BondOption], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Time(Span),
        Rebalance { interval: Span, gap: Span },
    }
    let mut map = serializer.serialize_map(Some(options.len()))?;
    for BondOption { name, value } in options {
        let written = match value {
            Value::Time(time) => Written::Time(*time),
            &Value::Rebalance(Some(Rebalance { interval, gap })) => Written::Rebalance { interval, gap },
            Value::Word(_)
            | Value::Number(_)
            | Value::Flag(_)
            | Value::Mac(_)
            | Value::Ipv4(_)
            | Value::Ipv6(_)
            | Value::Rebalance(None) => Written::Text(value.to_string()),
        };
        map.serialize_entry(name, &written)?;
    }
    map.end()
}

/// A mode by its name.
pub(crate) mod mode_by_name {
    use std::borrow::Cow;

    use ::bond::config::Mode;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(mode.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        Cow::<'_, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
