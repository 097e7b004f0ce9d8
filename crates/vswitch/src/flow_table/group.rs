//! A group of buckets of actions, as `ovs-ofctl add-group` reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use topology::PortId;

use super::actions::{FlowAction, GROUP_MAX, actions, whole, write_actions};
use super::context::Context;
use super::error::{FlowError, nearest, shown};
use super::ports::Ports;
use super::scan::{Scan, TEXT_MAX};

/// Buckets of one group.
const BUCKETS_MAX: usize = 256;

/// What a group does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Each bucket gets a copy.
    All,
    /// One bucket gets it: by the hash of its flow, in proportion to the buckets' weights.
    Select,
    /// The one bucket gets it.
    Indirect,
    /// The first bucket gets it whose port has a carrier.
    FastFailover,
}

const KINDS: [(&str, GroupKind); 5] = [
    ("all", GroupKind::All),
    ("select", GroupKind::Select),
    ("indirect", GroupKind::Indirect),
    ("ff", GroupKind::FastFailover),
    ("fast_failover", GroupKind::FastFailover),
];

/// Actions that are carried out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// How many packets of a `select` group it gets, compared to the other buckets.
    pub weight: u16,
    /// It is used while this port has a carrier.
    pub watch_port: Option<PortId>,
    /// Or while this group has a bucket that is used.
    pub watch_group: Option<u32>,
    /// What is done with what it gets.
    pub actions: Vec<FlowAction>,
}

/// A group of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// By which flows name it.
    pub id: u32,
    /// Which of the buckets get a packet.
    pub kind: GroupKind,
    /// In their order.
    pub buckets: Vec<Bucket>,
}

impl Group {
    /// Reads a group. Names of ports are those of this switch.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse(text: &str, ports: &Ports) -> Result<Self, FlowError> {
        if text.len() > TEXT_MAX {
            let hint = "write several groups";
            return Err(FlowError::new(0..0, format!("a group has at most {TEXT_MAX} bytes"), hint));
        }
        let starts: Vec<usize> = text.match_indices("bucket=").map(|(at, _)| at).collect();
        let head = &text[..starts.first().copied().unwrap_or(text.len())];
        let (mut id, mut kind) = (None, None);
        let mut scan = Scan::new(head);
        while let Some(pair) = scan.pair()? {
            match pair.word {
                "group_id" => {
                    let (text, at) = pair.needed("group_id=1")?;
                    id = Some(whole(text, &at, u64::from(GROUP_MAX), "group_id=1")? as u32);
                }
                "type" => {
                    let (text, at) = pair.needed("type=select")?;
                    let found = KINDS.iter().find(|(word, _)| *word == text);
                    let wrong = || {
                        FlowError::new(
                            at,
                            format!("`{}` is no type of group", shown(text)),
                            "write all, select, indirect or ff",
                        )
                    };
                    kind = Some(found.ok_or_else(wrong)?.1);
                }
                word => {
                    let near = nearest(word, ["group_id", "type", "bucket"]);
                    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                    let hint = format!(
                        "{near}a group is written as in `group_id=1,type=select,bucket=output:1,bucket=output:2`"
                    );
                    return Err(FlowError::new(pair.at, format!("`{}` is no word of groups", shown(word)), hint));
                }
            }
        }
        let missing = |what: &str, example: &str| {
            FlowError::new(0..head.len(), format!("the group has no {what}"), format!("write it as in `{example}`"))
        };
        let id = id.ok_or_else(|| missing("number", "group_id=1"))?;
        // As Open vSwitch: who leaves it out may mean another one than `all`, by which each packet goes out several times.
        let kind = kind.ok_or_else(|| {
            let types = "`type=select` (a packet to one bucket, by its connection), `type=all` (a copy to each), `type=ff` (to the first that is up) or `type=indirect` (the only one)";
            FlowError::new(0..head.len(), "the group has no type", format!("write one of {types}"))
        })?;
        let mut buckets = Vec::new();
        for (number, start) in starts.iter().enumerate() {
            let start = start + "bucket=".len();
            let end = starts.get(number + 1).copied().unwrap_or(text.len());
            buckets.push(Bucket::parse(&text[start..end], kind, ports).map_err(|error| error.shifted(start))?);
        }
        Self { id, kind, buckets }.checked(text)
    }

    /// Reads which group is meant: `group_id=1`, `1`, or all with an empty text.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse_number(text: &str) -> Result<Option<u32>, FlowError> {
        let Some(pair) = Scan::new(text).pair()? else { return Ok(None) };
        let (number, at) = match (pair.word, &pair.value) {
            ("group_id", Some((number, at))) => (*number, at.clone()),
            (number, _) => (number, pair.span()),
        };
        whole(number, &at, u64::from(GROUP_MAX), "group_id=1").map(|id| Some(id as u32))
    }

    /// Groups in an order in which they can be added: each behind those that it names. None leads to itself.
    pub fn in_order_of_names(groups: Vec<Self>) -> Vec<Self> {
        let mut left: BTreeMap<u32, Self> = groups.into_iter().map(|group| (group.id, group)).collect();
        let mut ordered = Vec::with_capacity(left.len());
        let mut to_do: Vec<u32> = left.keys().rev().copied().collect();
        while let Some(id) = to_do.last() {
            let Some(group) = left.get(id) else {
                to_do.pop();
                continue;
            };
            let first: Vec<u32> = group.names().filter(|name| left.contains_key(name)).collect();
            if first.is_empty() {
                ordered.extend(left.remove(id));
            }
            to_do.extend(first);
        }
        ordered
    }

    fn checked(self, text: &str) -> Result<Self, FlowError> {
        let wrong = |message: &str, hint: &str| Err(FlowError::new(0..text.len(), message, hint));
        if self.kind == GroupKind::Indirect && self.buckets.len() != 1 {
            return wrong("a group of type `indirect` has one bucket", "write `type=all`, or one `bucket=..`");
        }
        if self.buckets.len() > BUCKETS_MAX {
            return wrong("a group has at most 256 buckets", "let buckets of one group name others");
        }
        if self.kind == GroupKind::Select
            && self.buckets.iter().all(|bucket| bucket.weight == 0)
            && !self.buckets.is_empty()
        {
            return wrong("no bucket has a weight", "write a weight of 1 or more, or none at all");
        }
        Ok(self)
    }

    /// The groups that it names: in actions, or to watch them.
    pub fn names(&self) -> impl Iterator<Item = u32> + '_ {
        let of_actions = self.buckets.iter().flat_map(|bucket| &bucket.actions).filter_map(|action| match action {
            FlowAction::Group(id) => Some(*id),
            _ => None,
        });
        of_actions.chain(self.buckets.iter().filter_map(|bucket| bucket.watch_group))
    }
}

impl Bucket {
    fn parse(text: &str, kind: GroupKind, ports: &Ports) -> Result<Self, FlowError> {
        let mut bucket = Self { weight: 1, watch_port: None, watch_group: None, actions: Vec::new() };
        let (mut scan, mut actions_at) = (Scan::new(text), 0..text.len());
        loop {
            let start = scan.at();
            if let Some(rest) = text[start..].strip_prefix("actions=") {
                actions_at = text.len() - rest.len()..text.len();
                break;
            }
            let Some(pair) = scan.pair()? else {
                actions_at = text.len()..text.len();
                break;
            };
            match pair.word {
                "weight" => {
                    let (text, at) = pair.needed("weight:2")?;
                    bucket.weight = whole(text, &at, u64::from(u16::MAX), "weight:2")? as u16;
                }
                "watch_port" => {
                    let (text, at) = pair.needed("watch_port:1")?;
                    bucket.watch_port = Some(ports.find(text, &at)?);
                }
                "watch_group" => {
                    let (text, at) = pair.needed("watch_group:1")?;
                    bucket.watch_group = Some(whole(text, &at, u64::from(GROUP_MAX), "watch_group:1")? as u32);
                }
                // It is a name for commands that change single buckets.
                "bucket_id" => {}
                _ => {
                    actions_at.start = start;
                    break;
                }
            }
        }
        let Range { start, end } = actions_at;
        let context = Context::of(ports, None);
        bucket.actions = actions(&text[start..end], context).map_err(|error| error.shifted(start))?;
        if kind == GroupKind::FastFailover && bucket.watch_port.is_none() && bucket.watch_group.is_none() {
            let hint = "write it in front of the actions, as in `bucket=watch_port:1,actions=output:1`";
            return Err(FlowError::new(0..text.len(), "a bucket of type `ff` needs a port or a group to watch", hint));
        }
        Ok(bucket)
    }
}

impl fmt::Display for Group {
    /// As `ovs-ofctl dump-groups` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("all", |(word, _)| word);
        write!(f, "group_id={},type={kind}", self.id)?;
        for bucket in &self.buckets {
            f.write_str(",bucket=")?;
            if self.kind == GroupKind::Select {
                write!(f, "weight:{},", bucket.weight)?;
            }
            if let Some(port) = bucket.watch_port {
                write!(f, "watch_port:{},", port.0)?;
            }
            if let Some(group) = bucket.watch_group {
                write!(f, "watch_group:{group},")?;
            }
            f.write_str("actions=")?;
            if bucket.actions.is_empty() {
                f.write_str("drop")?;
            }
            write_actions(f, &bucket.actions, &mut true)?;
        }
        Ok(())
    }
}
