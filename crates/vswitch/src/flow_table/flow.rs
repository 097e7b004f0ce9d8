//! A flow, as `ovs-ofctl add-flow` reads it.

use std::fmt;
use std::ops::Range;

use machine::Span;
use topology::PortId;

use super::actions::{FlowAction, GROUP_MAX, Instructions, TABLES, whole};
use super::context::Context;
use super::error::FlowError;
use super::key::Slot;
use super::match_field::MatchField;
use super::matching::{Match, MatchReader, unknown_field};
use super::ports::Ports;
use super::scan::{Pair, Scan, TEXT_MAX};

/// The priority of a flow that does not say one.
pub const PRIORITY: u16 = 0x8000;

/// An entry of a flow table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The table that it is in.
    pub table: u8,
    /// Of two entries that match a packet, the one with the higher priority counts.
    pub priority: u16,
    /// A number by which whoever made it knows it.
    pub cookie: u64,
    /// It is removed when it has matched nothing for so long, in seconds; 0: never.
    pub idle_timeout_s: u16,
    /// It is removed so long after it was made, in seconds; 0: never.
    pub hard_timeout_s: u16,
    /// The packets that it is for.
    pub matching: Match,
    /// What becomes of them.
    pub instructions: Instructions,
}

/// Words that stand in front of a match.
const WORDS: [&str; 6] = ["table", "priority", "cookie", "idle_timeout", "hard_timeout", "actions"];

/// What `dump-flows` says of a flow besides: it is passed over, so that what was dumped can be added.
const STATISTICS: [&str; 5] = ["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

/// What is read of a flow before its actions.
#[derive(Debug, Default)]
struct Head<'a> {
    table: Option<u8>,
    priority: Option<u16>,
    cookie: Option<(u64, u64)>,
    idle_timeout_s: u16,
    hard_timeout_s: u16,
    matching: MatchReader<'a>,
    /// The port that is named, and where that stands.
    out_port: Option<(PortId, Range<usize>)>,
    /// The same of a group.
    out_group: Option<(u32, Range<usize>)>,
    /// Where it is said that counters begin anew.
    reset_counts: Option<Range<usize>>,
    /// Where the actions are, if there are any.
    actions: Option<Range<usize>>,
}

impl<'a> Head<'a> {
    fn read(text: &'a str, ports: &Ports) -> Result<Self, FlowError> {
        if text.len() > TEXT_MAX {
            let at = TEXT_MAX - (0..4).find(|back| text.is_char_boundary(TEXT_MAX - back)).unwrap_or(0)..text.len();
            return Err(FlowError::new(at, format!("a flow has at most {TEXT_MAX} bytes"), "write several flows"));
        }
        let mut head = Self::default();
        let mut scan = Scan::new(text);
        loop {
            let start = scan.at();
            let word = text[start..].split(['=', ':', ',', ' ', '\t', '\r', '\n', '(']).next().unwrap_or_default();
            if matches!(word, "actions" | "action") && text[start + word.len()..].starts_with('=') {
                head.actions = Some(start + word.len() + 1..text.len());
                return Ok(head);
            }
            let Some(pair) = scan.pair()? else { return Ok(head) };
            if matches!(pair.word, "actions" | "action") {
                let hint = "write `=` right behind it, and what is done behind that: `actions=drop`";
                return Err(FlowError::new(pair.at, format!("`{}` needs a `=`", pair.word), hint));
            }
            if STATISTICS.contains(&pair.word) && pair.value.is_some() {
                continue;
            }
            if pair.word == "out_port" {
                let (name, at) = pair.needed("out_port=2")?;
                head.out_port = Some((ports.find(name, &at)?, pair.span()));
                continue;
            }
            if pair.word == "reset_counts" {
                pair.alone()?;
                head.reset_counts = Some(pair.at);
                continue;
            }
            if pair.word == "out_group" {
                let (number, at) = pair.needed("out_group=1")?;
                let group = whole(number, &at, u64::from(GROUP_MAX), "out_group=1")? as u32;
                head.out_group = Some((group, pair.span()));
                continue;
            }
            if !head.take(&pair)? && !head.matching.take(&pair, ports)? {
                return Err(unknown_field(pair.word, pair.at, &WORDS));
            }
        }
    }

    fn take(&mut self, pair: &Pair<'_>) -> Result<bool, FlowError> {
        let number = |most: u64, example: &str| {
            let (text, at) = pair.needed(example)?;
            whole(text, &at, most, example)
        };
        match pair.word {
            "table" => self.table = Some(number(u64::from(TABLES - 1), "table=1")? as u8),
            "priority" => self.priority = Some(number(u64::from(u16::MAX), "priority=100")? as u16),
            "idle_timeout" => self.idle_timeout_s = number(u64::from(u16::MAX), "idle_timeout=60")? as u16,
            "hard_timeout" => self.hard_timeout_s = number(u64::from(u16::MAX), "hard_timeout=60")? as u16,
            "cookie" => {
                let (text, at) = pair.needed("cookie=0x1")?;
                let (value, mask) = text.split_once('/').unwrap_or((text, "-1"));
                let value = whole(value, &(at.start..at.start + value.len()), u64::MAX, "cookie=0x1")?;
                let mask_at = at.end - mask.len().min(at.len())..at.end;
                let mask = if mask == "-1" { u64::MAX } else { whole(mask, &mask_at, u64::MAX, "cookie=0x1/-1")? };
                self.cookie = Some((value & mask, mask));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Flow {
    /// Reads a flow. Names of ports are those of this switch.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse(text: &str, ports: &Ports) -> Result<Self, FlowError> {
        let head = Head::read(text, ports)?;
        let Some(actions) = head.actions else {
            let end = text.trim_end().len();
            return Err(FlowError::new(end..end, "the flow has no actions", "write `actions=..` at its end"));
        };
        if let Some((_, at)) = head.out_port {
            let hint = "`out_port` says which flows are shown or removed; write `actions=output:..` at the end";
            return Err(FlowError::new(at, "a flow has no `out_port`", hint));
        }
        if let Some((_, at)) = head.out_group {
            let hint = "`out_group` says which flows are shown or removed; write `actions=group:..` at the end";
            return Err(FlowError::new(at, "a flow has no `out_group`", hint));
        }
        let matching = head.matching.finish()?;
        let table = head.table.unwrap_or(0);
        let context = Context::of(ports, Some(matching));
        let instructions = Instructions::parse(&text[actions.clone()], context, table);
        let instructions = instructions.map_err(|error| error.shifted(actions.start))?;
        if let Some((_, mask)) = head.cookie.filter(|(_, mask)| *mask != u64::MAX) {
            let hint = "masks are for `heddle flow del` and `heddle flow mod`";
            return Err(FlowError::new(0..text.len(), format!("a flow's cookie has no mask, as {mask:#x}"), hint));
        }
        Ok(Self {
            table,
            priority: head.priority.unwrap_or(PRIORITY),
            cookie: head.cookie.map_or(0, |(value, _)| value),
            idle_timeout_s: head.idle_timeout_s,
            hard_timeout_s: head.hard_timeout_s,
            matching,
            instructions,
        })
    }

    /// The flow that each switch starts with: what no other one is for goes along the routes.
    pub fn normal() -> Self {
        Self {
            table: 0,
            priority: 0,
            cookie: 0,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            matching: Match::default(),
            instructions: Instructions { apply: vec![FlowAction::Normal], ..Instructions::default() },
        }
    }

    /// Whether two flows cannot be in one table: whichever comes later takes the other's place.
    pub fn is_same_entry(&self, other: &Self) -> bool {
        (self.table, self.priority, &self.matching) == (other.table, other.priority, &other.matching)
    }

    /// How long it lives without packets, if it ends.
    pub(super) fn idle_timeout(&self) -> Option<Span> {
        (self.idle_timeout_s > 0).then(|| Span::from_secs(u64::from(self.idle_timeout_s)))
    }

    /// How long it lives, if it ends.
    pub(super) fn hard_timeout(&self) -> Option<Span> {
        (self.hard_timeout_s > 0).then(|| Span::from_secs(u64::from(self.hard_timeout_s)))
    }

    /// Its match and actions, as they stand at the end of a line of `ovs-ofctl dump-flows`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write_rule(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let matching = self.matching.to_string();
        if self.priority != PRIORITY {
            write!(f, "priority={}", self.priority)?;
            f.write_str(if matching.is_empty() { " " } else { "," })?;
        }
        f.write_str(&matching)?;
        f.write_str(if matching.is_empty() { "" } else { " " })?;
        write!(f, "actions={}", self.instructions)
    }
}

impl fmt::Display for Flow {
    /// As it can be read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cookie != 0 {
            write!(f, "cookie={:#x}, ", self.cookie)?;
        }
        if self.table != 0 {
            write!(f, "table={}, ", self.table)?;
        }
        if self.idle_timeout_s != 0 {
            write!(f, "idle_timeout={}, ", self.idle_timeout_s)?;
        }
        if self.hard_timeout_s != 0 {
            write!(f, "hard_timeout={}, ", self.hard_timeout_s)?;
        }
        self.write_rule(f)
    }
}

/// Reads which flows are to have other instructions, and which: as `ovs-ofctl mod-flows` does. Without a table, those of table 0.
///
/// # Errors
/// With the place of the mistake.
pub fn parse_modification(text: &str, ports: &Ports, strict: bool) -> Result<(Selection, Instructions), FlowError> {
    let flow = Flow::parse(text, ports)?;
    let Head { actions, reset_counts, .. } = Head::read(text, ports)?;
    if let Some(at) = reset_counts {
        let hint = "`heddle flow add` of a flow with the same match and priority has its counters begin anew";
        return Err(FlowError::new(at, "counters of flows that get other actions go on", hint));
    }
    let actions = actions.map_or(text.len(), |at| at.start);
    let head = text[..actions].trim_end_matches('=').trim_end_matches("actions").trim_end_matches("action");
    // What is a mistake in a choice of flows is one here as well.
    let selection = Selection::parse(head, ports, strict)?;
    Ok((Selection { table: Some(flow.table), ..selection }, flow.instructions))
}

/// Reads the fields of a packet, for a trace of it.
///
/// # Errors
/// With the place of the mistake.
pub fn parse_packet(text: &str, ports: &Ports) -> Result<Match, FlowError> {
    let head = Head::read(text, ports)?;
    let mut scan = Scan::new(text);
    while let Some(pair) = scan.pair()? {
        let is_of_flows = WORDS.contains(&pair.word) || STATISTICS.contains(&pair.word);
        if is_of_flows || matches!(pair.word, "action" | "out_port" | "out_group" | "reset_counts") {
            let message = format!("a packet has no `{}`: flows have", pair.word);
            let hint = "name what the packet has, as in `in_port=h1,tcp,nw_dst=10.0.0.2,tp_dst=80`";
            return Err(FlowError::new(pair.at, message, hint));
        }
        refuse_mask(&pair)?;
    }
    let mut packet = head.matching.finish()?;
    let names_bottom = packet.mask.get(Slot::MPLS) & MPLS_BOTTOM != 0;
    if packet.key.is_labelled() && !names_bottom {
        // Who names one label means that there is one.
        packet.key.add(Slot::MPLS, MPLS_BOTTOM);
        packet.mask.add(Slot::MPLS, MPLS_BOTTOM);
    }
    Ok(packet)
}

/// A packet has one value of a field, where flows may be for several. A mask of all bits says nothing.
fn refuse_mask(pair: &Pair<'_>) -> Result<(), FlowError> {
    let (Some(field), Some((text, at))) = (MatchField::find(pair.word), &pair.value) else { return Ok(()) };
    let Some((value, mask)) = text.split_once('/') else { return Ok(()) };
    if field.parse(text, at)?.mask == field.all() {
        return Ok(());
    }
    let at = at.end - mask.len() - 1..at.end;
    let message = format!("a packet has one `{}`, and no mask", pair.word);
    let hint = format!("write one value, as in `{}={value}`: masks are for flows", pair.word);
    Err(FlowError::new(at, message, hint))
}

/// The bit of an entry of a label stack that says that it is the last one.
const MPLS_BOTTOM: u64 = 1 << 8;

/// Which flows of a table are meant: as `ovs-ofctl del-flows` and `dump-flows` read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Of this table; `None`: of all.
    pub table: Option<u8>,
    /// Whose cookies have these bits: value and mask.
    pub cookie: (u64, u64),
    /// That are for no other packets than these.
    pub matching: Match,
    /// Only the one with exactly this match and priority.
    pub strict: Option<u16>,
    /// Only those with this priority: of those that are shown.
    pub priority: Option<u16>,
    /// Only those that send packets by this port, as it stands in their actions.
    pub out_port: Option<PortId>,
    /// Only those that name this group in their actions.
    pub out_group: Option<u32>,
}

impl Selection {
    /// All flows.
    pub const ALL: Self = Self {
        table: None,
        cookie: (0, 0),
        matching: Match { key: super::key::Key([0; super::key::WORDS]), mask: super::key::Key([0; super::key::WORDS]) },
        strict: None,
        priority: None,
        out_port: None,
        out_group: None,
    };

    /// Reads which flows are meant; an empty text means all. `strict`: the one with exactly this match and priority.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse(text: &str, ports: &Ports, strict: bool) -> Result<Self, FlowError> {
        let selection = Self::parse_shown(text, ports)?;
        match selection.priority {
            Some(_) if !strict => Err(FlowError::new(
                0..text.len(),
                "several flows are not chosen by their priority",
                "take `priority=` away, or say --strict for the one flow with exactly this match and priority",
            )),
            priority => {
                let strict = strict.then(|| priority.unwrap_or(PRIORITY));
                Ok(Self { strict, priority: None, ..selection })
            }
        }
    }

    /// Reads which flows are to be shown: by their priority, too, which nobody changes by that.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse_shown(text: &str, ports: &Ports) -> Result<Self, FlowError> {
        let head = Head::read(text, ports)?;
        if let Some(at) = head.actions {
            return Err(FlowError::new(at, "flows are not chosen by their actions", "take `actions=` away"));
        }
        if let Some(at) = head.reset_counts {
            return Err(FlowError::new(at, "flows are not chosen by `reset_counts`", "take it away"));
        }
        if head.idle_timeout_s != 0 || head.hard_timeout_s != 0 {
            return Err(FlowError::new(0..text.len(), "flows are not chosen by their timeouts", "take them away"));
        }
        Ok(Self {
            table: head.table,
            cookie: head.cookie.unwrap_or((0, 0)),
            matching: head.matching.finish()?,
            strict: None,
            priority: head.priority,
            out_port: head.out_port.map(|(port, _)| port),
            out_group: head.out_group.map(|(group, _)| group),
        })
    }

    /// Whether a flow is one of those.
    pub fn has(&self, flow: &Flow) -> bool {
        let is_in_table = self.table.is_none_or(|table| table == flow.table);
        let is_match = match self.strict {
            Some(priority) => (priority, &self.matching) == (flow.priority, &flow.matching),
            None => self.matching.covers(&flow.matching),
        };
        let sends = self.out_port.is_none_or(|port| flow.instructions.sends_by(port))
            && self.out_group.is_none_or(|group| flow.instructions.groups().any(|id| id == group));
        let is_in_table = is_in_table && self.priority.is_none_or(|priority| priority == flow.priority);
        is_in_table && is_match && sends && flow.cookie & self.cookie.1 == self.cookie.0
    }
}
