//! `sysctl` in traffic: what is set in hosts with Linux's TCP, by the kernel's names and in its units.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use transport::TransportKind;
use transport::linux::{Settings, Sysctl};

use crate::error::Problems;
use crate::experiment::transports;
use crate::names::did_you_mean;
use crate::overrides::traffic_settings;
use crate::parameters::Plain;
use crate::quantity::{Whole, in_range, whole_number};
use crate::read::{Read, expected, shown, value_of};
use crate::source::{At, Place};
use crate::traffic::TrafficText;
use crate::tree::{Entry, Node, Value};
use crate::{Axis, TrafficSetting};

/// Values by the sysctls' names: `{ tcp_dsack: 0, tcp_comp_sack_nr: 0 }`.
#[derive(Clone, Debug)]
pub(crate) struct SysctlText(Vec<(Sysctl, u64)>);

impl SysctlText {
    /// Sets them.
    pub fn apply(&self, settings: &mut Settings) {
        apply(&self.0, settings);
    }
}

/// Gives sysctls their values.
pub(crate) fn apply(values: &[(Sysctl, u64)], settings: &mut Settings) {
    for (sysctl, value) in values {
        sysctl.set(settings, *value);
    }
}

impl Read for SysctlText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) if !entries.is_empty() => entries,
            _ => {
                expected(node, "sysctls with their values like `{ tcp_dsack: 0 }`", problems);
                return None;
            }
        };
        let values: Vec<_> = entries.iter().map(|entry| one(entry, problems)).collect();
        values.into_iter().collect::<Option<_>>().map(Self)
    }
}

/// One sysctl with its value.
fn one(entry: &Entry, problems: &mut Problems<'_>) -> Option<(Sysctl, u64)> {
    let found = Sysctl::ALL.iter().copied().find(|sysctl| sysctl.name() == entry.key);
    let Some(sysctl) = found else {
        problems.add(
            entry.key_place,
            format!("there is no sysctl `{}` here", shown(&entry.key)),
            "unknown sysctl",
            problems.hint(|| unknown_hint(&entry.key)),
        );
        return None;
    };
    let node = value_of(entry, problems)?;
    let (least, most) = sysctl.range().into_inner();
    let value = whole_number(node, (least, most), problems)?;
    in_range(value, least, most, "", node, problems).then_some((sysctl, value))
}

fn unknown_hint(name: &str) -> String {
    if name == "tcp_congestion_control" {
        return "write `congestion-control` in the traffic, beside `sysctl`".to_owned();
    }
    let known: Vec<&str> = Sysctl::ALL.iter().map(|sysctl| sysctl.name()).collect();
    // As sysctl(8) and its files have it.
    did_you_mean(name.strip_prefix("net.ipv4.").unwrap_or(name), &known)
}

impl Plain for SysctlText {
    type Value = Vec<(Sysctl, u64)>;

    fn plain(&self) -> Self::Value {
        self.0.clone()
    }
}

impl JsonSchema for SysctlText {
    fn schema_name() -> Cow<'static, str> {
        "Sysctls".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let property = |&sysctl: &Sysctl| {
            let (least, most) = sysctl.range().into_inner();
            let usual = sysctl.get(&Settings::default());
            let description = format!("{} From {least} to {most}; {usual} when not given.", sysctl.description());
            let schema = json_schema!({
                "type": "integer", "minimum": least, "maximum": most, "description": description,
            });
            (sysctl.name().to_owned(), serde_json::Value::from(schema))
        };
        let properties: serde_json::Map<String, serde_json::Value> = Sysctl::ALL.iter().map(property).collect();
        json_schema!({
            "type": "object",
            "additionalProperties": false,
            "minProperties": 1,
            "properties": properties,
        })
    }
}

/// Notes what is for Linux's TCP where no case has it, and sysctls that no kernel takes together.
pub(crate) fn check(text: &At<TrafficText>, axes: &[Axis], problems: &mut Problems<'_>) {
    let varies = |is: fn(&TrafficSetting) -> bool| traffic_settings(axes).any(is).then_some(text.place);
    let control = text.value.congestion_control.as_ref().map(|control| control.place);
    let sysctl = text.value.sysctl.as_ref().map(|sysctl| sysctl.place);
    let control = control.or(varies(|setting| matches!(setting, TrafficSetting::CongestionControl(_))));
    let sysctl = sysctl.or(varies(|setting| matches!(setting, TrafficSetting::Sysctl(_))));
    let kinds = transports(&text.value, axes);
    if kinds.contains(&TransportKind::Linux) {
        if let Some(place) = sysctl {
            check_reordering(place, text, axes, problems);
        }
        return;
    }
    let of_its_own = match kinds[0] {
        TransportKind::Udp => "has no congestion control",
        _ => "has a congestion control of its own",
    };
    for (key, place, why) in [("congestion-control", control, of_its_own), ("sysctl", sysctl, "has no sysctls")] {
        let Some(place) = place else { continue };
        problems.add(
            place,
            format!("`{}` {why}: `{key}` is for `linux`", kinds[0].name()),
            "only with `linux`",
            format!("write `transport: linux`, or remove `{key}`"),
        );
    }
}

/// The threshold has two names, of which one counts; and a kernel refuses one that is beyond what may be learned.
fn check_reordering(place: Place, text: &At<TrafficText>, axes: &[Axis], problems: &mut Problems<'_>) {
    let given = text.value.sysctl.as_ref().map_or(&[][..], |sysctl| &sysctl.value.0);
    let varied = traffic_settings(axes).filter_map(|setting| match setting {
        TrafficSetting::Sysctl(values) => Some(values.as_slice()),
        _ => None,
    });
    let all: Vec<&[(Sysctl, u64)]> = [given].into_iter().chain(varied).collect();
    let sets_it = all.iter().any(|values| values.iter().any(|(sysctl, _)| *sysctl == Sysctl::Reordering));
    let has_threshold = text.value.duplicate_ack_threshold.is_some()
        || traffic_settings(axes).any(|setting| matches!(setting, TrafficSetting::DuplicateAckThreshold(_)));
    if sets_it && has_threshold {
        problems.add(
            place,
            "`tcp_reordering` and `duplicate-ack-threshold` are the same, and both are given",
            "given twice",
            "remove one of them",
        );
        return;
    }
    let threshold = text.value.duplicate_ack_threshold.map_or(Settings::default().reordering, Whole::get);
    let too_far = all.iter().find_map(|values| {
        let mut settings = Settings { reordering: threshold, ..Settings::default() };
        apply(given, &mut settings);
        apply(values, &mut settings);
        (settings.reordering > settings.max_reordering).then_some(settings)
    });
    if let Some(Settings { reordering, max_reordering, .. }) = too_far {
        problems.add(
            place,
            format!("`tcp_reordering` would be {reordering}, more than `tcp_max_reordering`, {max_reordering}"),
            "beyond the most",
            "raise `tcp_max_reordering` as well",
        );
    }
}
