//! What a flow has done with a packet, as `ovs-ofctl` reads and prints it.

use std::fmt::{self, Write as _};
use std::ops::Range;

use topology::PortId;
use wire::ethertype;

use super::context::Context;
use super::error::{FlowError, nearest, shown};
use super::key::VLAN_PRESENT;
use super::match_field::{Form, Masked, MatchField, Needs, number};
use super::meter::Meter;
use super::ports::Ports;
use super::scan::{Pair, Scan};
use super::tracking::TrackAction;

/// Tables of a switch.
pub const TABLES: u8 = 254;

/// Actions of one list. A list is carried out for each packet, by whoever carries the others.
const ACTIONS_MAX: usize = 64;

/// Bytes of a packet that go to a controller when a flow does not say how many: all of them.
const CONTROLLER_ALL: u16 = u16::MAX;

/// One action of `OpenFlow` 1.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// The packet leaves by this port, unless it has come in by it.
    Output(PortId),
    /// It goes back by the port that it has come in by.
    InPort,
    /// It goes where the routes say.
    Normal,
    /// It leaves by the ports of the tree that spans the network, but for the one that it has come in by.
    Flood,
    /// It leaves by all ports but for the one that it has come in by.
    All,
    /// It is shown to the control machine, as many bytes of it.
    Controller(u16),
    /// Bits of a field are written.
    Set(&'static MatchField, Masked),
    /// It gets an 802.1Q tag with VLAN 0 and priority 0.
    PushVlan,
    /// It loses its outermost 802.1Q tag.
    PopVlan,
    /// The VLAN of its tag is written; it gets one if it has none.
    VlanId(u16),
    /// The priority of its tag is written; it gets one if it has none.
    VlanPriority(u8),
    /// It gets an entry on its label stack, and this ethertype.
    PushMpls(u16),
    /// It loses the uppermost entry of its label stack, and gets this ethertype.
    PopMpls(u16),
    /// The time to live of its label stack is one less; if none is left, it goes no further.
    DecMplsTtl,
    /// The time to live of what is behind the uppermost entry of its label stack becomes that of the entry.
    CopyTtlIn,
    /// The time to live of the uppermost entry of its label stack becomes that of what is behind it.
    CopyTtlOut,
    /// Its time to live is one less; if none is left, it goes no further.
    DecTtl,
    /// This group says.
    Group(u32),
    /// It is shown to connection tracking.
    Track(Box<TrackAction>),
    /// What is known of its connection is forgotten.
    ForgetConnection,
}

/// What a flow has done with packets: the instructions of `OpenFlow` 1.3, in the order in which they are carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The meter that is asked first whether the packet comes too fast.
    pub meter: Option<u32>,
    /// Actions that are carried out at once.
    pub apply: Vec<FlowAction>,
    /// Whether the packet's action set is emptied.
    pub clear: bool,
    /// Actions that are written into the packet's action set.
    pub write: Vec<FlowAction>,
    /// Bits of the metadata that are written: value and mask.
    pub metadata: Option<(u64, u64)>,
    /// The table in which the packet is looked up next.
    pub goto_table: Option<u8>,
}

/// Actions that write a field, in the words of `OpenFlow` 1.0 and of Open vSwitch.
pub const MODIFIERS: [(&str, &str); 13] = [
    ("mod_dl_src", "dl_src"),
    ("mod_dl_dst", "dl_dst"),
    ("mod_nw_src", "nw_src"),
    ("mod_nw_dst", "nw_dst"),
    ("mod_nw_tos", "nw_tos"),
    ("mod_nw_ecn", "nw_ecn"),
    ("mod_nw_ttl", "nw_ttl"),
    ("mod_tp_src", "tp_src"),
    ("mod_tp_dst", "tp_dst"),
    ("set_mpls_label", "mpls_label"),
    ("set_mpls_tc", "mpls_tc"),
    ("set_mpls_ttl", "mpls_ttl"),
    ("set_tunnel", "tun_id"),
];

/// Words of actions and instructions, for hints.
pub const WORDS: [&str; 29] = [
    "meter",
    "output",
    "normal",
    "drop",
    "in_port",
    "flood",
    "all",
    "controller",
    "group",
    "set_field",
    "push_vlan",
    "pop_vlan",
    "strip_vlan",
    "mod_vlan_vid",
    "mod_vlan_pcp",
    "push_mpls",
    "pop_mpls",
    "dec_mpls_ttl",
    "copy_ttl_in",
    "copy_ttl_out",
    "dec_ttl",
    "ct",
    "ct_clear",
    "goto_table",
    "write_actions",
    "clear_actions",
    "write_metadata",
    "apply_actions",
    "resubmit",
];

/// Fields that can be written, and which packets have them. ARP's addresses are matched by the same names, and not written.
pub fn needs_of_set(field: &MatchField) -> Option<Needs> {
    let needs = match field.name {
        "dl_src" | "dl_dst" | "tun_id" => Needs::Nothing,
        "dl_vlan" | "dl_vlan_pcp" | "vlan_vid" => Needs::Vlan,
        "nw_src" | "nw_dst" => Needs::Ipv4,
        "ipv6_src" | "ipv6_dst" => Needs::Ipv6,
        "nw_tos" | "ip_dscp" | "nw_ecn" | "nw_ttl" => Needs::Ip,
        "tp_src" | "tp_dst" => Needs::Transport,
        "tcp_src" | "tcp_dst" => Needs::Tcp,
        "udp_src" | "udp_dst" => Needs::Udp,
        "mpls_label" | "mpls_tc" | "mpls_ttl" => Needs::Mpls,
        "nd_target" => Needs::Neighbour,
        "nd_sll" => Needs::Solicitation,
        "nd_tll" => Needs::Advertisement,
        _ => return None,
    };
    Some(needs)
}

impl FlowAction {
    /// Which packets an action is for; of others it changes nothing.
    pub fn needs(&self) -> Needs {
        match self {
            Self::Set(field, _) => needs_of_set(field).unwrap_or(Needs::Nothing),
            Self::DecTtl | Self::Track(_) => Needs::Ip,
            Self::PopVlan => Needs::Vlan,
            Self::PopMpls(_) | Self::DecMplsTtl | Self::CopyTtlIn | Self::CopyTtlOut => Needs::Mpls,
            Self::ForgetConnection
            | Self::PushVlan
            | Self::PushMpls(_)
            | Self::VlanId(_)
            | Self::VlanPriority(_)
            | Self::Output(_)
            | Self::InPort
            | Self::Normal
            | Self::Flood
            | Self::All
            | Self::Controller(_)
            | Self::Group(_) => Needs::Nothing,
        }
    }

    /// Actions of one kind take each other's place in an action set. The rank in which they are carried out there (`OpenFlow` 1.3.5, section 5.10), and which field is
    /// written.
    pub const fn kind(&self) -> (u8, &'static str) {
        match self {
            Self::CopyTtlIn => (0, ""),
            Self::PopVlan => (1, ""),
            Self::PopMpls(_) => (2, ""),
            Self::PushMpls(_) => (3, ""),
            Self::PushVlan => (4, ""),
            Self::CopyTtlOut => (5, ""),
            Self::DecTtl => (6, ""),
            Self::DecMplsTtl => (7, ""),
            Self::VlanId(_) => (8, "dl_vlan"),
            Self::VlanPriority(_) => (8, "dl_vlan_pcp"),
            Self::Set(field, _) => (8, field.name),
            Self::Group(_) => (9, ""),
            // They stand in no action set.
            Self::Track(_) => (11, "ct"),
            Self::ForgetConnection => (11, "ct_clear"),
            Self::Output(_) | Self::InPort | Self::Normal | Self::Flood | Self::All | Self::Controller(_) => {
                (Self::OUTPUT, "")
            }
        }
    }

    /// The rank of outputs among actions of a set.
    pub const OUTPUT: u8 = 10;

    /// Reads one; `None` if it is an instruction, or no word of flows at all.
    fn parse(pair: &Pair<'_>, context: Context<'_>) -> Result<Option<Self>, FlowError> {
        let word = pair.word.to_ascii_lowercase();
        let alone = |action: Self| pair.alone().map(|()| Some(action));
        if let Some((_, field)) = MODIFIERS.iter().find(|(modifier, _)| *modifier == word) {
            let (text, at) = pair.needed("mod_tp_dst:80")?;
            let field = MatchField::find(field).unwrap_or_else(|| unreachable!("each modifier has a field"));
            let masked = field.parse(text, &at)?;
            if masked.mask != field.all() {
                return Err(FlowError::new(at, format!("`{word}` has no mask"), "write the value alone"));
            }
            return Self::Set(field, masked).checked(pair, context).map(Some);
        }
        match word.as_str() {
            "output" => {
                let (text, at) = pair.needed("output:2")?;
                Self::output(text, at, context).map(Some)
            }
            "in_port" => alone(Self::InPort),
            "normal" => alone(Self::Normal),
            "flood" => alone(Self::Flood),
            "all" => alone(Self::All),
            "controller" => match &pair.value {
                None => Ok(Some(Self::Controller(CONTROLLER_ALL))),
                Some((text, at)) => {
                    let bytes = text.strip_prefix("max_len=").unwrap_or(text);
                    let bytes = whole(bytes, at, u64::from(u16::MAX), "controller:128")? as u16;
                    Ok(Some(Self::Controller(bytes)))
                }
            },
            "group" => {
                let (text, at) = pair.needed("group:1")?;
                whole(text, &at, u64::from(GROUP_MAX), "group:1").map(|group| Some(Self::Group(group as u32)))
            }
            "dec_ttl" | "dec_mpls_ttl" | "copy_ttl_in" | "copy_ttl_out" => {
                pair.alone()?;
                let action = match word.as_str() {
                    "dec_ttl" => Self::DecTtl,
                    "dec_mpls_ttl" => Self::DecMplsTtl,
                    "copy_ttl_in" => Self::CopyTtlIn,
                    _ => Self::CopyTtlOut,
                };
                action.checked(pair, context).map(Some)
            }
            "push_mpls" => {
                let (text, at) = pair.needed("push_mpls:0x8847")?;
                let found = number(text).and_then(|number| u16::try_from(number).ok());
                found
                    .filter(|ethertype| ethertype::is_mpls(*ethertype))
                    .map(|ethertype| Some(Self::PushMpls(ethertype)))
                    .ok_or_else(|| {
                        let message = format!("`{}` is no ethertype of MPLS", shown(text));
                        FlowError::new(
                            at,
                            message,
                            "write `push_mpls:0x8847`, or 0x8848 where the label was assigned upstream",
                        )
                    })
            }
            "pop_mpls" => {
                let (text, at) = pair.needed("pop_mpls:0x0800")?;
                let ethertype = whole(text, &at, u64::from(u16::MAX), "pop_mpls:0x0800")? as u16;
                Self::PopMpls(ethertype).checked(pair, context).map(Some)
            }
            "set_field" => Self::set_field(pair, context).map(Some),
            "ct" => Self::Track(Box::new(TrackAction::parse(pair, TABLES)?)).checked(pair, context).map(Some),
            "ct_clear" => alone(Self::ForgetConnection),
            "push_vlan" => {
                let (text, at) = pair.needed("push_vlan:0x8100")?;
                if number(text) != Some(u128::from(ethertype::VLAN)) {
                    let message = format!("`{}` is no tag that there is here", shown(text));
                    return Err(FlowError::new(at, message, "write `push_vlan:0x8100`: tags are those of 802.1Q"));
                }
                Ok(Some(Self::PushVlan))
            }
            "pop_vlan" | "strip_vlan" => {
                pair.alone()?;
                Self::PopVlan.checked(pair, context).map(Some)
            }
            "mod_vlan_vid" => {
                let (text, at) = pair.needed("mod_vlan_vid:5")?;
                whole(text, &at, 0xfff, "mod_vlan_vid:5").map(|vlan| Some(Self::VlanId(vlan as u16)))
            }
            "mod_vlan_pcp" => {
                let (text, at) = pair.needed("mod_vlan_pcp:3")?;
                whole(text, &at, 7, "mod_vlan_pcp:3").map(|priority| Some(Self::VlanPriority(priority as u8)))
            }
            _ if pair.value.is_none() && is_port(pair.word, context.ports) => {
                Self::output(pair.word, pair.at.clone(), context).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn output(text: &str, at: Range<usize>, context: Context<'_>) -> Result<Self, FlowError> {
        let named = match text.to_ascii_lowercase().as_str() {
            "in_port" => Self::InPort,
            "normal" => Self::Normal,
            "flood" => Self::Flood,
            "all" => Self::All,
            "controller" => Self::Controller(CONTROLLER_ALL),
            _ => Self::Output(context.ports.find(text, &at)?),
        };
        match (&named, context.matching.and_then(|matching| matching.in_port())) {
            (Self::Output(out), Some(in_port)) if *out == in_port => Err(FlowError::new(
                at,
                format!("a packet is not sent back by the port that it has come in by, {}", out.0),
                "write `in_port` to send it back",
            )),
            _ => Ok(named),
        }
    }

    fn set_field(pair: &Pair<'_>, context: Context<'_>) -> Result<Self, FlowError> {
        let (text, at) = pair.needed("set_field:80->tcp_dst")?;
        let Some((value, name)) = text.rsplit_once("->") else {
            return Err(FlowError::new(
                at,
                "`set_field` does not say which field",
                "write it as in `set_field:80->tcp_dst`",
            ));
        };
        let name_at = at.end - name.len()..at.end;
        let Some(field) = MatchField::find(name) else {
            let near = MatchField::nearest(name);
            let hint = near.map_or_else(
                || "write it as in `set_field:80->tcp_dst`".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(FlowError::new(name_at, format!("`{}` is no field of packets", shown(name)), hint));
        };
        if needs_of_set(field).is_none() {
            return Err(FlowError::new(
                name_at,
                format!("`{name}` can be matched, but not written"),
                "Ethernet and IP addresses, dl_vlan, dl_vlan_pcp, ip_dscp, nw_ecn, nw_ttl, ports of TCP and UDP, mpls_label, mpls_tc, mpls_ttl, nd_target, nd_sll, nd_tll and tun_id can be written",
            ));
        }
        // The mask of what is written need not be one that can be matched.
        let value_at = at.start..at.start + value.len();
        let masked = field.parse(value, &value_at)?;
        if field.name == "vlan_vid" && masked.value & masked.mask & u128::from(VLAN_PRESENT) == 0 {
            let hint = "write 4096 more, as OpenFlow does, or `mod_vlan_vid`; `pop_vlan` takes a tag away";
            return Err(FlowError::new(value_at, "`vlan_vid` says that there is no tag", hint));
        }
        Self::Set(field, masked).checked(pair, context)
    }

    /// What comes behind the action finds the packet so.
    fn change(&self, context: &mut Context<'_>) {
        match self {
            Self::PushMpls(ethertype) | Self::PopMpls(ethertype) => context.relabel(*ethertype),
            Self::PushVlan => context.retag(VLAN_PRESENT, u16::MAX),
            Self::PopVlan => context.retag(0, u16::MAX),
            Self::VlanId(_) | Self::VlanPriority(_) => context.retag(VLAN_PRESENT, VLAN_PRESENT),
            Self::Output(_)
            | Self::InPort
            | Self::Normal
            | Self::Flood
            | Self::All
            | Self::Controller(_)
            | Self::Set(..)
            | Self::DecMplsTtl
            | Self::CopyTtlIn
            | Self::CopyTtlOut
            | Self::DecTtl
            | Self::Group(_)
            | Self::Track(_)
            | Self::ForgetConnection => {}
        }
    }

    /// Refuses an action that the flow's packets need not have a field for.
    fn checked(self, pair: &Pair<'_>, context: Context<'_>) -> Result<Self, FlowError> {
        context.check(self.needs(), pair)?;
        Ok(self)
    }
}

/// The highest number of a group.
pub const GROUP_MAX: u32 = 0xffff_ff00;

fn is_port(word: &str, ports: &Ports) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) || ports.known().any(|port| ports.peer(port) == Some(word))
}

/// A number of at most `most`.
pub fn whole(text: &str, at: &Range<usize>, most: u64, example: &str) -> Result<u64, FlowError> {
    let wrong = || {
        let message = format!("`{}` is no number up to {most}", shown(text));
        FlowError::new(at.clone(), message, format!("write it as in `{example}`"))
    };
    number(text).filter(|number| *number <= u128::from(most)).map(|number| number as u64).ok_or_else(wrong)
}

impl Instructions {
    /// The groups that actions name.
    pub fn groups(&self) -> impl Iterator<Item = u32> + '_ {
        let actions = self.apply.iter().chain(&self.write);
        actions.filter_map(|action| if let FlowAction::Group(id) = action { Some(*id) } else { None })
    }

    /// Whether packets are shown to a controller.
    pub fn asks_controller(&self) -> bool {
        self.apply.iter().chain(&self.write).any(|action| matches!(action, FlowAction::Controller(_)))
    }

    /// Whether packets leave by this port, as it stands here.
    pub fn sends_by(&self, port: PortId) -> bool {
        self.apply.iter().chain(&self.write).any(|action| *action == FlowAction::Output(port))
    }

    /// Reads what stands behind `actions=`. Places in errors are within `text`.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse(text: &str, mut context: Context<'_>, table: u8) -> Result<Self, FlowError> {
        let mut read = Self::default();
        let mut scan = Scan::new(text);
        let mut is_drop = None;
        let mut count = 0;
        // Instructions that stand in front, by the order in which they are carried out.
        let mut last = (0, "");
        while let Some(pair) = scan.pair()? {
            count += 1;
            let word = pair.word.to_ascii_lowercase();
            if is_drop.is_some() || (word == "drop" && count > 1 + usize::from(read.meter.is_some())) {
                return Err(FlowError::new(pair.span(), "`drop` stands alone", "take away `drop`, or all else"));
            }
            if word == "meter" {
                if count > 1 {
                    let hint = "the meter is asked before anything else is done, and once";
                    return Err(FlowError::new(pair.span(), "`meter` stands in front of all actions", hint));
                }
                read.meter = Some(meter_number(&pair)?);
                continue;
            }
            let rank = match word.as_str() {
                "drop" => {
                    pair.alone()?;
                    is_drop = Some(());
                    continue;
                }
                "clear_actions" => 1,
                "write_actions" => 2,
                "write_metadata" => 3,
                "goto_table" => 4,
                _ => 0,
            };
            if rank < last.0 || (rank == last.0 && rank > 0) {
                return Err(FlowError::new(
                    pair.span(),
                    format!("`{}` can't stand behind `{}`", shown(pair.word), last.1),
                    "the order is: actions, clear_actions, write_actions, write_metadata, goto_table; each once",
                ));
            }
            last = (rank, pair.word);
            read.add(&pair, rank, &mut context, table)?;
        }
        if count == 0 {
            return Err(FlowError::new(0..text.len(), "there are no actions", "write `actions=drop` if that is meant"));
        }
        Ok(read)
    }

    fn add(&mut self, pair: &Pair<'_>, rank: u8, context: &mut Context<'_>, table: u8) -> Result<(), FlowError> {
        match rank {
            1 => {
                pair.alone()?;
                self.clear = true;
            }
            2 => {
                let (text, at) = pair.needed("write_actions(output:2)")?;
                self.write = actions(text, *context).map_err(|error| error.shifted(at.start))?;
                check_set(&self.write, at)?;
            }
            3 => {
                let (text, at) = pair.needed("write_metadata:0x1/0xff")?;
                let field = MatchField::find("metadata").unwrap_or_else(|| unreachable!("it is in the list"));
                let Masked { value, mask } = field.parse(text, &at)?;
                self.metadata = Some((value as u64, mask as u64));
            }
            4 => {
                let (text, at) = pair.needed("goto_table:1")?;
                let to = whole(text, &at, u64::from(TABLES - 1), "goto_table:1")? as u8;
                if to <= table {
                    return Err(FlowError::new(
                        at,
                        format!("table {to} does not come behind this flow's own one, {table}"),
                        "packets go to later tables only, so that they never go in a circle",
                    ));
                }
                self.goto_table = Some(to);
            }
            _ if self.apply.len() == ACTIONS_MAX => return Err(too_many(pair.span())),
            _ => match FlowAction::parse(pair, *context)? {
                Some(action) => {
                    action.change(context);
                    self.apply.push(action);
                }
                None => return Err(unknown_action(pair)),
            },
        }
        Ok(())
    }
}

fn meter_number(pair: &Pair<'_>) -> Result<u32, FlowError> {
    let (text, at) = pair.needed("meter:1")?;
    let meter = Meter::parse_number(text).map_err(|error| error.shifted(at.start))?;
    meter.ok_or_else(|| FlowError::new(at, "`meter` has no number", "write it as in `meter:1`"))
}

fn too_many(at: Range<usize>) -> FlowError {
    FlowError::new(at, format!("there are more than {ACTIONS_MAX} actions"), "have another table do the others")
}

/// Reads a list of actions without instructions.
///
/// # Errors
/// With the place of the mistake in `text`.
pub fn actions(text: &str, mut context: Context<'_>) -> Result<Vec<FlowAction>, FlowError> {
    let mut actions = Vec::new();
    let mut scan = Scan::new(text);
    let mut is_drop = false;
    while let Some(pair) = scan.pair()? {
        if is_drop || (pair.word.eq_ignore_ascii_case("drop") && !actions.is_empty()) {
            return Err(FlowError::new(pair.span(), "`drop` stands alone", "take away `drop`, or all else"));
        }
        if pair.word.eq_ignore_ascii_case("drop") {
            pair.alone()?;
            is_drop = true;
            continue;
        }
        if actions.len() == ACTIONS_MAX {
            return Err(too_many(pair.span()));
        }
        let action = FlowAction::parse(&pair, context)?.ok_or_else(|| unknown_action(&pair))?;
        action.change(&mut context);
        actions.push(action);
    }
    Ok(actions)
}

/// An action set has one action of each kind: a second one would take the first one's place.
fn check_set(actions: &[FlowAction], at: Range<usize>) -> Result<(), FlowError> {
    let kinds = || actions.iter().map(FlowAction::kind);
    if let Some(action) = actions.iter().find(|action| action.kind().0 > FlowAction::OUTPUT) {
        let message = format!("`{}` can't be written into an action set", action.kind().1);
        return Err(FlowError::new(at, message, "write it in front of `write_actions`"));
    }
    let is_twice = kinds().enumerate().any(|(at, kind)| kinds().take(at).any(|other| other == kind));
    if is_twice {
        let hint = "an action set has one output, one group, and one value of each field";
        return Err(FlowError::new(at, "two actions of one kind are written", hint));
    }
    Ok(())
}

fn unknown_action(pair: &Pair<'_>) -> FlowError {
    let word = pair.word.to_ascii_lowercase();
    let words = WORDS.iter().copied().chain(MODIFIERS.iter().map(|(modifier, _)| *modifier));
    let hint = match word.as_str() {
        "resubmit" => "write `goto_table:N` as the last one".to_owned(),
        "apply_actions" => "write its actions without it".to_owned(),
        _ => nearest(&word, words).map_or_else(
            || "write actions like `output:2`, `normal`, `drop`, `mod_dl_dst:..`, `group:1`, `goto_table:1`".to_owned(),
            |near| format!("did you mean `{near}`?"),
        ),
    };
    FlowError::new(pair.at.clone(), format!("`{}` is no action that there is here", shown(pair.word)), hint)
}

impl fmt::Display for FlowAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(port) => write!(f, "output:{}", port.0),
            Self::InPort => f.write_str("IN_PORT"),
            Self::Normal => f.write_str("NORMAL"),
            Self::Flood => f.write_str("FLOOD"),
            Self::All => f.write_str("ALL"),
            Self::Controller(bytes) => write!(f, "CONTROLLER:{bytes}"),
            Self::DecTtl => f.write_str("dec_ttl"),
            Self::PushMpls(ethertype) => write!(f, "push_mpls:{ethertype:#06x}"),
            Self::PopMpls(ethertype) => write!(f, "pop_mpls:{ethertype:#06x}"),
            Self::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Self::CopyTtlIn => f.write_str("copy_ttl_in"),
            Self::CopyTtlOut => f.write_str("copy_ttl_out"),
            Self::PushVlan => write!(f, "push_vlan:{:#06x}", ethertype::VLAN),
            Self::PopVlan => f.write_str("pop_vlan"),
            Self::Track(track) => write!(f, "{track}"),
            Self::ForgetConnection => f.write_str("ct_clear"),
            Self::VlanId(vlan) => write!(f, "mod_vlan_vid:{vlan}"),
            Self::VlanPriority(priority) => write!(f, "mod_vlan_pcp:{priority}"),
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Set(field, masked) => {
                let modifier = MODIFIERS.iter().find(|(_, name)| *name == field.name);
                if let Some((modifier, _)) = modifier.filter(|_| masked.mask == field.all()) {
                    write!(f, "{modifier}:")?;
                    return field.write_value(f, masked.value);
                }
                f.write_str("set_field:")?;
                match field.form {
                    // What is written has no kinds of fragments.
                    Form::Fragment => field.write_value(f, masked.value)?,
                    _ => field.write(f, *masked)?,
                }
                write!(f, "->{}", field.name)
            }
        }
    }
}

/// Writes actions with commas between them.
pub fn write_actions(f: &mut fmt::Formatter<'_>, actions: &[FlowAction], is_first: &mut bool) -> fmt::Result {
    for action in actions {
        if !std::mem::take(is_first) {
            f.write_char(',')?;
        }
        write!(f, "{action}")?;
    }
    Ok(())
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { meter, apply, clear, write, metadata, goto_table } = self;
        let mut is_first = meter.is_none();
        if let Some(meter) = meter {
            write!(f, "meter:{meter}")?;
        }
        write_actions(f, apply, &mut is_first)?;
        let mut comma =
            |f: &mut fmt::Formatter<'_>| if std::mem::take(&mut is_first) { Ok(()) } else { f.write_char(',') };
        if *clear {
            comma(f)?;
            f.write_str("clear_actions")?;
        }
        if !write.is_empty() {
            comma(f)?;
            f.write_str("write_actions(")?;
            write_actions(f, write, &mut true)?;
            f.write_char(')')?;
        }
        if let Some((value, mask)) = metadata {
            comma(f)?;
            write!(f, "write_metadata:{value:#x}")?;
            if *mask != u64::MAX {
                write!(f, "/{mask:#x}")?;
            }
        }
        if let Some(table) = goto_table {
            comma(f)?;
            write!(f, "goto_table:{table}")?;
        }
        match (is_first, meter) {
            (true, None) => f.write_str("drop"),
            _ => Ok(()),
        }
    }
}
