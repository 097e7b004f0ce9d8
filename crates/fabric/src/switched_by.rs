//! Flows that another switch carries, to compare with: what their experiments can't have.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use transport::TransportKind;

use crate::document::NetworkSetting;
use crate::error::Problems;
use crate::experiment::transports;
use crate::overrides::{fabric_settings, traffic_settings};
use crate::parameters::Plain;
use crate::read::Read;
use crate::source::{At, Place};
use crate::traffic::{TrafficSetting, TrafficText};
use crate::tree::Node;
use crate::words::{Words, word_of, words};
use crate::{Axis, Override, SwitchedBy, Traffic};

words!(SwitchedBy, "SwitchedBy", "a switch", {
    "heddle" => SwitchedBy::Heddle,
    "linux-bridge" => SwitchedBy::LinuxBridge,
    "openvswitch" => SwitchedBy::Openvswitch,
});

impl Plain for SwitchedBy {
    type Value = Self;

    fn plain(&self) -> Self {
        *self
    }
}

impl SwitchedBy {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }
}

/// Notes what another switch does not do, and what is not measured of it. `is_shaped`: whether links of the file are; `time_series`: where a step is written.
pub(crate) fn check(
    text: &At<TrafficText>,
    traffic: &Traffic,
    axes: &[Axis],
    (is_shaped, time_series): (bool, Option<Place>),
    problems: &mut Problems<'_>,
) {
    let varied = traffic_settings(axes).filter_map(|setting| match setting {
        TrafficSetting::SwitchedBy(by) => Some(*by),
        _ => None,
    });
    let Some(other) = varied.chain([traffic.switched_by]).find(|by| !by.is_heddle()) else { return };
    let (place, other) = (text.value.switched_by.as_ref().map_or(text.place, |by| by.place), other.word());
    let text = &text.value;
    let refused = [
        (transports(text, axes).contains(&TransportKind::Udp), "UDP", "write another `transport`"),
        (text.transfers.is_some(), "transfers", "remove `transfers`"),
        (text.requests.is_some(), "requests", "remove `requests`"),
        (text.faults.is_some(), "faults of links", "remove `faults`"),
        (time_series.is_some(), "what happens over time", "remove `time-series`"),
    ];
    for (_, what, hint) in refused.into_iter().filter(|(is_there, ..)| *is_there) {
        let message = format!("over `{other}` goes TCP as fast as it goes, and not {what}");
        problems.add(place, message, "not over another switch", hint);
    }
    let is_unshaped = |setting: &Override| matches!(setting, Override::Network(NetworkSetting::Shaping(false)));
    let is_shaping = |setting: &Override| matches!(setting, Override::Network(NetworkSetting::Shaping(true)));
    let is_of_links = |setting: &Override| matches!(setting, Override::Link(_));
    let is_compared = !is_shaped || fabric_settings(axes).any(is_unshaped);
    if !is_compared || fabric_settings(axes).any(is_shaping) || fabric_settings(axes).any(is_of_links) {
        problems.add(
            place,
            format!("links of this network have rates or delays, and those of `{other}` have none"),
            "nothing to compare with",
            "leave out axes of links, and add `shaping: [false]` to `vary`",
        );
    }
}
