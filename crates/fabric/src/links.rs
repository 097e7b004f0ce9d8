//! Links as they are written, and what they do to packets. A key of theirs is one row of [`keys!`].

use std::num::NonZeroU32;

use link::LinkSpec;
use machine::Span;
use schemars::{JsonSchema, SchemaGenerator};

use crate::document::NamePair;
use crate::error::Problems;
use crate::names::is_name;
use crate::parameters::{Plain, parameters, plain};
use crate::quantity::{Bytes, Length, Percent, Rate, Whole, WrittenBack};
use crate::read::{Fields, Read, section, shown};
use crate::source::At;
use crate::topologies::Specs;
use crate::tree::{Entry, Node, Value};

/// The queue of a link with a rate that says nothing about it: Linux's default (`txqueuelen`).
const DEFAULT_QUEUE: u32 = 1_000;

/// The longest queue, in packets.
const LONGEST_QUEUE: u64 = 1_000_000;

type Delay = Length<true, 10_000>;
/// Cards wait for microseconds.
type Coalesce = Length<true, 1_000>;
/// Longer than any path is late by; as nanoseconds it has to fit 32 bits.
type Jitter = Length<true, 4_000>;
type Queue = Whole<1, LONGEST_QUEUE>;
type Marks = Whole<0, LONGEST_QUEUE>;
/// No link layer that IP runs over has more.
type Overhead = Bytes<0, 1_024>;

/// On which links a key has an effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// On all.
    EveryLink,
    /// Of `rate` itself: the file gives any link one; a case changes it where there is one.
    LinksThatHaveIt,
    /// On those on which packets take time: nothing waits, and bytes take no time, where there is no rate.
    LinksWithRate,
}

impl On {
    /// Whether it says something about a link that is written so.
    fn is_read(self, spec: &LinkSpec) -> bool {
        self != Self::LinksWithRate || spec.rate_bps.is_some()
    }

    /// Whether a case changes it on such a link.
    fn is_varied(self, spec: &LinkSpec) -> bool {
        self == Self::EveryLink || spec.rate_bps.is_some()
    }
}

/// What is not as on a link that nobody said anything about.
fn given<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// The keys of links. A row has the key with its description, what reads it, on which links it has an effect, what it sets there and what a link has of it;
/// what is noted where it is written in vain; and its axis of `vary`. `rate` comes first, since others depend on it.
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])*
        $key:literal => $field:ident: $text:ty, $on:ident, $set:expr, $get:expr
        $(, in vain: $message:literal, $label:literal)?, vary {
            #[doc = $axis_doc:literal]
            $axis_key:literal => #[$variant_attribute:meta] $variant:ident($value:ty)
        };
    )*) => {
        parameters! {
            /// What a case sets on links.
            #[derive(Copy, Eq, serde::Deserialize)]
            LinkSetting, LinkAxis of LinkSpec;

            /// What a link does to packets, in each direction.
            LinkText {
                $(
                    $(#[doc = $doc])*
                    $key => $field: Option<At<$text>>, vary {
                        #[doc = $axis_doc]
                        $axis_key: $text => Condition #[$variant_attribute] $variant($value),
                        |text, context, problems| {
                            let is_of_use =
                                On::$on == On::EveryLink || context.some_link_has_a_rate(text.place, problems);
                            if is_of_use { plain(text, context, problems) } else { None }
                        },
                        |spec, value| {
                            let set: fn(&mut LinkSpec, $value) = $set;
                            if On::$on.is_varied(spec) {
                                set(spec, *value);
                            }
                        }
                    };
                )*
            }
        }

        impl LinkText {
            /// What is written here, and where nothing is, what `defaults` say.
            fn or(&self, defaults: &Self) -> Self {
                Self { $($field: self.$field.as_ref().or(defaults.$field.as_ref()).cloned(),)* }
            }

            fn spec(&self) -> LinkSpec {
                let mut spec = LinkSpec::default();
                $(
                    let set: fn(&mut LinkSpec, $value) = $set;
                    if let Some(text) = self.$field.as_ref().filter(|_| On::$on.is_read(&spec)) {
                        set(&mut spec, text.value.plain());
                    }
                )*
                spec
            }

            /// What a link does that does `spec`, where this is written in place of what it has, and the keys are gone that `is_gone` names.
            pub fn change(&self, spec: &LinkSpec, is_gone: impl Fn(&str) -> bool) -> LinkSpec {
                let mut changed = LinkSpec::default();
                $(
                    let get: fn(&LinkSpec) -> Option<$value> = $get;
                    let set: fn(&mut LinkSpec, $value) = $set;
                    let value = match &self.$field {
                        Some(text) => Some(text.value.plain()),
                        None => get(spec).filter(|_| !is_gone($key)),
                    };
                    if let Some(value) = value.filter(|_| On::$on.is_read(&changed)) {
                        set(&mut changed, value);
                    }
                )*
                changed
            }

            /// What a link does on the way back from now on: of that alone this is written, and `both` of both directions, of which the one there is `forth` now. Keys in
            /// which the two differed before stay as they are, unless `is_gone` names them; all others are as on the way there. What `is_off` names is not there on the way back.
            pub fn change_back(
                &self,
                (before, before_back): (&LinkSpec, &LinkSpec),
                (both, forth): (&Self, &LinkSpec),
                (is_gone, is_off): (impl Fn(&str) -> bool, impl Fn(&str) -> bool),
            ) -> LinkSpec {
                let mut changed = LinkSpec::default();
                $(
                    let get: fn(&LinkSpec) -> Option<$value> = $get;
                    let set: fn(&mut LinkSpec, $value) = $set;
                    // What needs a rate does not differ where only the way back has one.
                    let differs = get(before_back) != get(before) && (On::$on.is_read(before) || both.$field.is_none());
                    let value = match (&self.$field, &both.$field) {
                        _ if is_off($key) => None,
                        (Some(text), _) => Some(text.value.plain()),
                        (None, _) if differs && !is_gone($key) => get(before_back),
                        (None, Some(text)) => Some(text.value.plain()),
                        (None, None) => get(forth),
                    };
                    if let Some(value) = value.filter(|_| On::$on.is_read(&changed)) {
                        set(&mut changed, value);
                    }
                )*
                changed
            }

            /// Notes what is written in vain on a link without a rate.
            fn note_idle(&self, problems: &mut Problems<'_>) {
                $($(
                    if let Some(text) = &self.$field {
                        problems.add(text.place, $message, $label, concat!("add `rate:`, or remove `", $key, ":`"));
                    }
                )?)*
            }
        }

        /// The keys of links, and what each of them says.
        pub(crate) const KEYS: &[(&str, &str)] = &[$(($key, concat!($($doc),*)),)*];

        /// Whether a key says nothing of a link without a rate.
        pub(crate) fn needs_rate(key: &str) -> bool {
            [$(($key, On::$on)),*].contains(&(key, On::LinksWithRate))
        }

        /// What a link does, key by key as the file writes it. Keys that say nothing are left out.
        pub fn link_keys(spec: &LinkSpec) -> Vec<(&'static str, String)> {
            let mut keys = Vec::new();
            $(
                let get: fn(&LinkSpec) -> Option<$value> = $get;
                keys.extend(get(spec).map(|value| ($key, <$text>::written(value))));
            )*
            keys
        }
    };
}

keys! {
    /// Bits a second. Without it: as fast as the machine goes.
    "rate" => rate: Rate, LinksThatHaveIt, |spec, rate| {
        spec.rate_bps = Some(rate);
        spec.queue_packets.get_or_insert(DEFAULT_QUEUE);
    }, |spec| spec.rate_bps, vary {
        /// Rate of every link that has one.
        "links.rate" => #[serde(rename = "link-rate")] Rate(u64)
    };
    /// Propagation delay. None when not given.
    "delay" => delay: Delay, EveryLink, |spec, delay| spec.delay = delay, |spec| given(spec.delay), vary {
        /// Delay of every link.
        "links.delay" => #[serde(rename = "link-delay")] Delay(Span)
    };
    /// How many packets wait behind the one in transmission. 1000 when not given (Linux's default).
    "queue" => queue: Queue, LinksWithRate, |spec, packets| spec.queue_packets = Some(packets), |spec| spec.queue_packets,
    in vain: "a queue without a rate: nothing ever waits on a link without a rate", "no rate to wait for", vary {
        /// Queue of every link that has one.
        "links.queue" => #[serde(rename = "link-queue")] Queue(u32)
    };
    /// So many packets in the queue: one that finds them there is marked (explicit congestion notification, RFC 3168), if its sender understands that, as TCP with
    /// `sysctl: { tcp_ecn: 1 }` does. 0: none is, as when not given.
    "ecn" => ecn: Marks, LinksWithRate, |spec, packets| spec.ecn_packets = NonZeroU32::new(packets),
    |spec| spec.ecn_packets.map(NonZeroU32::get),
    in vain: "an ecn without a rate: nothing ever waits on a link without a rate", "no rate to wait for", vary {
        /// So many packets in the queue: one that finds them there is marked, on every link that has a rate. 0: none is.
        "links.ecn" => #[serde(rename = "link-ecn")] Ecn(u32)
    };
    /// Bytes that each packet takes on the wire besides its own; Ethernet's preamble, checksum and gap are 24. None when not given.
    "overhead" => overhead: Overhead, LinksWithRate, |spec, bytes| spec.overhead_bytes = bytes,
    |spec| given(spec.overhead_bytes),
    in vain: "an overhead without a rate: bytes take no time on a link without a rate", "no rate to count it at", vary {
        /// Bytes that each packet takes on the wire besides its own, on every link that has a rate.
        "links.overhead" => #[serde(rename = "link-overhead")] Overhead(u32)
    };
    /// How long the card of a host collects what comes to it over the link before it hands that over together, as `rx-usecs` of
    /// ethtool(8): the first packet that comes while none waits begins that time. Each packet is handed over at once when not given. Ends at switches
    /// never wait.
    "coalesce" => coalesce: Coalesce, EveryLink, |spec, span| spec.coalesce_ns = span.as_ns() as u32,
    |spec| given(spec.coalesce()), vary {
        /// How long hosts' cards collect what comes to them, on every link.
        "links.coalesce" => #[serde(rename = "link-coalesce")] Coalesce(Span)
    };
    /// The share of packets that is lost on the way, at random and each by itself, as `loss random` of tc-netem(8). None when not given.
    "loss" => loss: Percent, EveryLink, |spec, ppb| spec.loss_ppb = ppb, |spec| given(spec.loss_ppb), vary {
        /// The share of packets that every link loses at random, also those that have one of their own.
        "links.loss" => #[serde(rename = "link-loss")] Loss(u32)
    };
    /// By how much the delay of a packet is shorter or longer at most, at random, as `delay TIME JITTER` of tc-netem(8). No packet arrives before it was sent, and
    /// none overtakes another. None when not given.
    "jitter" => jitter: Jitter, EveryLink, |spec, span| spec.jitter_ns = span.as_ns() as u32,
    |spec| given(spec.jitter()), vary {
        /// By how much the delay of a packet is shorter or longer at most, on every link.
        "links.jitter" => #[serde(rename = "link-jitter")] Jitter(Span)
    };
    /// The share of packets that come twice, at random and each by itself, as `duplicate` of tc-netem(8): the second one is sent behind the first. None when not
    /// given.
    "duplicate" => duplicate: Percent, EveryLink, |spec, ppb| spec.duplicate_ppb = ppb, |spec| given(spec.duplicate_ppb), vary {
        /// The share of packets that come twice over every link, at random.
        "links.duplicate" => #[serde(rename = "link-duplicate")] Duplicate(u32)
    };
    /// The share of packets of which a bit is flipped on the way, at random and each by itself, as `corrupt` of tc-netem(8): behind the Ethernet header, with no frame
    /// check sequence that would tell, so that receivers find out by the checksums of IP, TCP and UDP. None when not given.
    "corrupt" => corrupt: Percent, EveryLink, |spec, ppb| spec.corrupt_ppb = ppb, |spec| given(spec.corrupt_ppb), vary {
        /// The share of packets of which every link flips a bit, at random.
        "links.corrupt" => #[serde(rename = "link-corrupt")] Corrupt(u32)
    };
    /// The share of packets that don't take the link's delay, at random and each by itself, as `reorder` of tc-netem(8): they overtake those that were sent before. None
    /// when not given.
    "reorder" => reorder: Percent, EveryLink, |spec, ppb| spec.reorder_ppb = ppb, |spec| given(spec.reorder_ppb), vary {
        /// The share of packets that don't take the delay of every link, at random.
        "links.reorder" => #[serde(rename = "link-reorder")] Reordered(u32)
    };
}

section! {
    /// What the links of a topology do to packets, in each direction.
    LinkClasses {
        ..all: LinkText,
        /// What links between a host and a switch do otherwise.
        "hosts" => hosts: Option<At<LinkText>>,
        /// What links between two switches do otherwise.
        "switches" => switches: Option<At<LinkText>>,
    }
}

section! {
    /// A link between two nodes.
    LinkEntry {
        /// The two nodes that it joins.
        "between" => between: At<NamePair>,
        /// What is otherwise in the direction from the second node to the first.
        "back" => back: Option<At<LinkText>>,
    }
    ..own: LinkText
}

/// Links of a topology, or one by one.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Links {
    /// With `topology`.
    Classes(Box<LinkClasses>),
    /// With `nodes`.
    List(Vec<At<LinkEntry>>),
}

impl Read for Links {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::List(items) => Some(Self::List(items.iter().filter_map(|item| link(item, problems)).collect())),
            _ => LinkClasses::read(node, problems).map(|classes| Self::Classes(Box::new(classes))),
        }
    }
}

/// One link of a list. Two names alone are what one writes first, in one of many ways.
fn link(node: &Node, problems: &mut Problems<'_>) -> Option<At<LinkEntry>> {
    let (place, message, label, hint) = match &node.value {
        Value::List(items) => {
            let [Node { value: Value::Scalar(a), .. }, Node { value: Value::Scalar(b), .. }] = items.as_slice() else {
                return At::read(node, problems);
            };
            let found = "found a list of 2".to_owned();
            let hint = format!("write `- between: [{}, {}]`", shown(a), shown(b));
            (node.place, format!("a link is a map, {found}"), found, hint)
        }
        Value::Scalar(text) => {
            let found = format!("found `{}`", shown(text));
            let (a, b) = two_names(text).unwrap_or_else(|| ("NODE".to_owned(), "NODE".to_owned()));
            let hint = format!("write `{{ between: [{a}, {b}] }}`");
            (node.place, format!("a link is a map, {found}"), found, hint)
        }
        Value::Map(entries) => {
            let Some((key, (a, b))) = others_ends(entries) else { return At::read(node, problems) };
            let message = format!("there is no key `{}` here", key.key);
            (key.key_place, message, "unknown key".to_owned(), format!("write `between: [{a}, {b}]`"))
        }
        Value::Null => return At::read(node, problems),
    };
    problems.add(place, message, label, hint);
    None
}

/// Keys by which other tools name both ends of a link, in one list or one each.
const OTHERS_ENDS: [&[&str]; 6] =
    [&["endpoints"], &["nodes"], &["ends"], &["from", "to"], &["source", "target"], &["a", "b"]];

/// Both ends of a link without `between`, as other tools write them, and the key that it begins with.
fn others_ends(entries: &[Entry]) -> Option<(&Entry, (String, String))> {
    if entries.iter().any(|entry| entry.key == "between") {
        return None;
    }
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let text = |node: &Node| match &node.value {
        Value::Scalar(text) => node_of(text),
        _ => None,
    };
    OTHERS_ENDS.iter().find_map(|keys| match keys {
        [list] => {
            let entry = find(list)?;
            let Value::List(items) = &entry.value.value else { return None };
            let [a, b] = items.as_slice() else { return None };
            Some((entry, (text(a)?, text(b)?)))
        }
        [a, b] => {
            let (a, b) = (find(a)?, find(b)?);
            Some((a, (text(&a.value)?, text(&b.value)?)))
        }
        _ => None,
    })
}

/// The two names in a text like `h1 s1`, `h1, s1`, `h1-s1` or `h1:eth0 -- s1:eth1`; `None`: it is not said where the one ends.
fn two_names(text: &str) -> Option<(String, String)> {
    let is_between = |c: char| c.is_whitespace() || ",<>".contains(c);
    let words = text.split(is_between).filter(|word| !word.trim_matches('-').is_empty());
    let words: Vec<&str> = words.collect();
    let (a, b) = match words.as_slice() {
        [a, b] => (*a, *b),
        [one] => ["--", "-", ":"].iter().find_map(|mark| {
            let (a, b) = one.split_once(mark)?;
            (!b.contains(mark)).then_some((a, b))
        })?,
        _ => return None,
    };
    Some((node_of(a)?, node_of(b)?))
}

/// The node of an end that may name its interface as well: `h1:eth0`.
fn node_of(end: &str) -> Option<String> {
    let node = end.split(':').next().unwrap_or_default();
    is_name(node).then(|| node.to_owned())
}

/// What a link does that is written as `own` where `defaults` hold.
pub(crate) fn merged(own: &LinkText, defaults: Option<&LinkText>) -> LinkSpec {
    match defaults {
        None => own.spec(),
        Some(defaults) => own.or(defaults).spec(),
    }
}

/// What a link does on the way back, of which this is written besides what holds for both directions.
pub(crate) fn merged_back(own: &LinkText, back: &LinkText, defaults: Option<&LinkText>) -> LinkSpec {
    merged(&back.or(own), defaults)
}

/// Notes what is written in vain for a link on which nothing takes time. `sound`: all that is written about it could be read, its rate and delay among it.
pub(crate) fn note_idle(own: &LinkText, spec: LinkSpec, sound: bool, problems: &mut Problems<'_>) {
    if sound && spec.rate_bps.is_none() {
        own.note_idle(problems);
    }
    if let Some(text) = &own.reorder
        && sound
        && spec.reorder_ppb > 0
        && spec.delay == Span::ZERO
    {
        problems.add(
            text.place,
            "a reorder without a delay: no packet is under way for so long that another could overtake it",
            "no delay that some would not take",
            "add `delay:`, or remove `reorder:`",
        );
    }
}

/// Notes what is written in vain about a link between two switches.
pub(crate) fn note_no_card(own: &LinkText, problems: &mut Problems<'_>) {
    if let Some(text) = &own.coalesce {
        problems.add(
            text.place,
            "a coalesce between two switches: only hosts have cards that collect what comes to them",
            "no host at either end",
            "remove `coalesce:`, or write it for the links of hosts",
        );
    }
}

/// The links of a topology; `sound`: all of it could be read.
pub(crate) fn classes(classes: &LinkClasses, sound: bool, problems: &mut Problems<'_>) -> Specs {
    let all = &classes.all;
    let mut class = |own: Option<&At<LinkText>>| match own {
        None => all.spec(),
        Some(At { value: own, .. }) => {
            let spec = merged(own, Some(all));
            note_idle(own, spec, sound, problems);
            spec
        }
    };
    let specs = Specs {
        hosts: class(classes.hosts.as_ref()),
        switches: class(classes.switches.as_ref()),
        switches_place: classes.switches.as_ref().map(|text| text.place),
    };
    if let Some(switches) = &classes.switches {
        note_no_card(&switches.value, problems);
    }
    if specs.hosts.rate_bps.is_none() && specs.switches.rate_bps.is_none() {
        note_idle(all, specs.hosts, sound, problems);
    }
    specs
}
