//! Bonds as they are written.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use bond::config::{
    AdSelect, ArpAllTargets, FailOverMac, HashPolicy, LacpRate, Mode, PrimaryReselect, Value as OptionValue,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::MOST_MEMBERS;
use super::layout::resize;
use super::values::{IsOption as _, Millis, ModeText, RebalanceText, ReorderText, Seconds, Switch, Targets, Word};
use super::vary::{change_mode, change_reordering, check_members, check_mode, check_reorder};
use crate::addresses::Mac;
use crate::document::NamePair;
use crate::error::Problems;
use crate::parameters::parameters;
use crate::quantity::Whole;
use crate::read::{Fields, Mapping, Name, Read, Section as _, Text, expected, section, shown};
use crate::source::At;
use crate::tree::{Entry, Node, Value};
use crate::{Fabric, Reordering};

/// How many members.
type Members = Whole<1, MOST_MEMBERS>;

parameters! {
    /// What a case sets at both ends of all bonds.
    #[derive(Copy, Eq, serde::Deserialize)]
    BondSetting, BondAxis of Fabric;

    /// What is at an end besides the kernel's options.
    Own {
        /// Its name, unique at its node. `bond0`, `bond1`, ... when not given.
        "name" => name: Option<At<Name>>;
        /// Who sends, by name or number. `balance-rr` when not given. In `active-backup`, `balance-tlb` and `balance-alb` at
        /// a host, the switch's end needs no bond.
        "mode" => mode: Option<At<ModeText>>, vary {
            /// Mode of every bond.
            "mode": ModeText => Condition #[serde(rename = "bond-mode", with = "crate::model::mode_by_name")] Mode(Mode),
            |text, context, problems| {
                let mode = text.value.0;
                check_mode(context.graph(), mode, text.place, problems).then_some(mode)
            },
            |fabric, mode| change_mode(fabric, *mode)
        };
        /// Puts arrivals back in order. `off` when not given.
        "reorder" => reorder: Option<At<ReorderText>>, vary {
            /// Whether bonds put arrivals back in order. `on` is as the file says, where it says so.
            "reorder": ReorderText => Policy Reorder(Reordering),
            |text, context, problems| check_reorder(context.graph(), text.place, problems).then_some(text.value.into()),
            |fabric, reordering| change_reordering(fabric, *reordering)
        };
    }

    /// Which links are bonded.
    Which {
        /// The two nodes whose links are the members. Or else `host`.
        "between" => between: Option<At<NamePair>>;
        /// A host, and the node that it is linked to.
        "host" => host: Option<At<Name>>;
        /// How many links, instead of the one that there is. When not given, the parallel links between the two are the
        /// members.
        "members" => members: Option<At<Members>>, vary {
            /// How many members every bond has.
            "members": Members => Condition #[serde(rename = "bond-members")] Members(u32),
            |text, context, problems| {
                let members = text.value.get();
                check_members(context.graph(), members, text.place, problems).then_some(members)
            },
            |fabric, members| resize(&mut fabric.topology, *members as usize)
        };
        /// What is otherwise at one end, by node.
        "ends" => ends: Option<Mapping<Name, EndText>>;
    }
}

/// Options of the kernel: a section, and the given ones as a list.
macro_rules! options {
    ($($(#[doc = $doc:literal])* $key:literal = $name:literal => $field:ident: $type:ty,)*) => {
        section! {
            /// The options of a bond, by their names in the Linux kernel.
            Options {
                $($(#[doc = $doc])* $key => $field: Option<At<$type>>,)*
            }
        }

        impl Options {
            /// Those that are written.
            pub fn given(&self) -> Vec<At<Given>> {
                let mut given = Vec::new();
                $(if let Some(At { value, place, sound }) = &self.$field {
                    let value = Given { name: $name, key: $key, value: value.value() };
                    given.push(At { value, place: *place, sound: *sound });
                })*
                given
            }
        }
    };
}

options! {
    /// Which header fields choose the member, in modes that hash. `layer2` when not given.
    "xmit-hash-policy" = "xmit_hash_policy" => policy: Word<HashPolicy>,
    /// In `balance-rr`: packets before the turn passes to the next member; 0 draws one at random. 1 when not given.
    "packets-per-slave" = "packets_per_slave" => packets_per_slave: Whole<0, 65_535>,
    /// The member that is active whenever it can be: `eth0`, `eth1`, ... in the order of the links.
    "primary" = "primary" => primary: Text,
    /// When the primary member becomes active again. `always` when not given.
    "primary-reselect" = "primary_reselect" => primary_reselect: Word<PrimaryReselect>,
    /// In `active-backup`: which MAC address a fail-over moves: the bond's to the new member (`none`, when not given, and `follow`, where
    /// the others have their own), or the bond to the new member's (`active`), which is announced to peers.
    "fail-over-mac" = "fail_over_mac" => fail_over_mac: Word<FailOverMac>,
    /// How often carriers are looked at of which there are no events; 0 is never.
    "miimon" = "miimon" => miimon: Millis,
    /// From carrier to use. None when not given.
    "updelay" = "updelay" => updelay: Millis,
    /// From loss of carrier to giving up. None when not given.
    "downdelay" = "downdelay" => downdelay: Millis,
    /// Between probes by ARP and neighbour solicitations; 0 is no probing.
    "arp-interval" = "arp_interval" => arp_interval: Millis,
    /// Whom to probe by ARP.
    "arp-ip-target" = "arp_ip_target" => arp_ip_target: Targets<Ipv4Addr>,
    /// Whom to probe by neighbour solicitations.
    "ns-ip6-target" = "ns_ip6_target" => ns_ip6_target: Targets<Ipv6Addr>,
    /// Which arrivals count as signs of life: `none`, `active`, `backup`, `all`, `filter`, `filter_active` or
    /// `filter_backup`.
    "arp-validate" = "arp_validate" => arp_validate: Text,
    /// How many targets must answer. `any` when not given.
    "arp-all-targets" = "arp_all_targets" => arp_all_targets: Word<ArpAllTargets>,
    /// Probes without an answer before a member is down. 2 when not given.
    "arp-missed-max" = "arp_missed_max" => arp_missed_max: Whole<1, 255>,
    /// In `802.3ad`: members that must be usable for the bond to have carrier. 0 when not given, which is as 1.
    "min-links" = "min_links" => min_links: Whole<0, MOST_MEMBERS>,
    /// Whether frames that arrive on inactive members are delivered.
    "all-slaves-active" = "all_slaves_active" => all_slaves_active: Switch,
    /// Gratuitous ARPs after a fail-over. 1 when not given.
    "num-grat-arp" = "num_grat_arp" => num_grat_arp: Whole<0, 255>,
    /// Unsolicited neighbour advertisements after a fail-over: the same number as `num-grat-arp`.
    "num-unsol-na" = "num_unsol_na" => num_unsol_na: Whole<0, 255>,
    /// Between such announcements. 0, which is as `miimon`, when not given.
    "peer-notif-delay" = "peer_notif_delay" => peer_notif_delay: Millis,
    /// How often memberships of multicast groups are reported again after a fail-over. 1 when not given.
    "resend-igmp" = "resend_igmp" => resend_igmp: Whole<0, 255>,
    /// In `balance-tlb` and `balance-alb`: between learning frames. 1s when not given.
    "lp-interval" = "lp_interval" => lp_interval: Seconds,
    /// In `balance-tlb` and `balance-alb`: by load; else by hash. `on` when not given.
    "tlb-dynamic-lb" = "tlb_dynamic_lb" => tlb_dynamic_lb: Switch,
    /// How often LACP's partner is asked to speak: each 30 s, or each second. `slow` when not given.
    "lacp-rate" = "lacp_rate" => lacp_rate: Word<LacpRate>,
    /// Whether LACPDUs are sent unasked. `on` when not given.
    "lacp-active" = "lacp_active" => lacp_active: Switch,
    /// Which aggregation is used if there are several. `stable` when not given.
    "ad-select" = "ad_select" => ad_select: Word<AdSelect>,
    /// LACP's system priority. 65535 when not given.
    "ad-actor-sys-prio" = "ad_actor_sys_prio" => ad_actor_sys_prio: Whole<1, 65_535>,
    /// LACP's system identifier. The bond's address when not given.
    "ad-actor-system" = "ad_actor_system" => ad_actor_system: Mac,
    /// The user's part of LACP's port keys. 0 when not given.
    "ad-user-port-key" = "ad_user_port_key" => ad_user_port_key: Whole<0, 1_023>,
    /// In hashed modes: moves buckets of flows from busy members to idle ones. Not an option of the kernel.
    "rebalance" = "rebalance" => rebalance: RebalanceText,
}

/// An option with its value.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// In the kernel.
    pub name: &'static str,
    /// In the file, with `-`.
    pub key: &'static str,
    pub value: OptionValue,
}

/// What is at one end.
#[derive(Clone, Debug)]
pub(crate) struct EndText {
    pub own: Own,
    pub options: Options,
}

impl Read for EndText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let node = with_dashes(node, problems)?;
        let fields = Fields::open(&node, &[Own::keys(), Options::keys()].concat(), problems)?;
        let own = Own::fields(&fields, problems);
        let options = Options::fields(&fields, problems);
        Some(Self { own: own?, options: options? })
    }
}

impl JsonSchema for EndText {
    fn schema_name() -> Cow<'static, str> {
        "BondEnd".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        joined(&[Own::json_schema(generator), Options::json_schema(generator)], "What is at one end of a bond.")
    }
}

/// A bond.
#[derive(Clone, Debug)]
pub(crate) struct BondText {
    pub which: Which,
    pub both: EndText,
}

impl Read for BondText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let node = with_dashes(node, problems)?;
        let fields = Fields::open(&node, &[Which::keys(), Own::keys(), Options::keys()].concat(), problems)?;
        let which = Which::fields(&fields, problems);
        let own = Own::fields(&fields, problems);
        let options = Options::fields(&fields, problems);
        let which = which?;
        if which.between.is_some() == which.host.is_some() && !has(&node, &["between", "host"]) {
            problems.add(
                node.place,
                "which links? A bond has `between` or `host`",
                "needs one of them",
                "add `between: [h1, s1]`, or `host: h1` for a host and the node that it is linked to",
            );
        } else if let (Some(_), Some(host)) = (&which.between, &which.host) {
            problems.add(
                host.place,
                "a bond has `between` or `host`, not both",
                "besides `between`",
                "keep one of them",
            );
        }
        Some(Self { which, both: EndText { own: own?, options: options? } })
    }
}

impl JsonSchema for BondText {
    fn schema_name() -> Cow<'static, str> {
        "BondText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parts = [Which::json_schema(generator), Own::json_schema(generator), Options::json_schema(generator)];
        joined(&parts, "Several links between two nodes, used as one.")
    }
}

/// Whether one of these keys is there, be it readable or not.
fn has(node: &Node, keys: &[&str]) -> bool {
    matches!(&node.value, Value::Map(entries) if entries.iter().any(|entry| keys.contains(&entry.key.as_str())))
}

/// The map with `_` in its keys made `-`: the kernel writes `xmit_hash_policy`. A key that is there in both ways is noted.
fn with_dashes(node: &Node, problems: &mut Problems<'_>) -> Option<Node> {
    let Value::Map(entries) = &node.value else {
        expected(node, "a map like `{ host: h1, members: 2 }`", problems);
        return None;
    };
    let mut dashed: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = entry.key.replace('_', "-");
        if dashed.iter().any(|other| other.key == key) {
            problems.add(entry.key_place, format!("`{}` is there twice", shown(&key)), "the second one", "remove one");
        } else {
            dashed.push(Entry { key, ..entry.clone() });
        }
    }
    Some(Node { place: node.place, value: Value::Map(dashed) })
}

/// The schema of a section made of others, in which `-` may be written as `_`.
fn joined(parts: &[Schema], description: &str) -> Schema {
    let mut properties = serde_json::Map::new();
    for part in parts {
        let of_part = part.get("properties").and_then(serde_json::Value::as_object);
        for (key, schema) in of_part.into_iter().flatten() {
            properties.insert(key.clone(), schema.clone());
            let kernel = key.replace('-', "_");
            if kernel != *key {
                properties.insert(kernel, schema.clone());
            }
        }
    }
    json_schema!({
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": false,
    })
}
