//! Connections that come and go: what their traffic can't have, and how many there may be.

use machine::Span;
use transport::TransportKind;
use transport::transfers::RUN_MAX;

use crate::error::Problems;
use crate::experiment::{transports, varied_streams};
use crate::overrides::traffic_settings;
use crate::parameters::Plain as _;
use crate::source::At;
use crate::traffic::{TrafficSetting, TrafficText, TransfersText};
use crate::{Axis, Traffic, Transfers};

impl TransfersText {
    pub(crate) fn transfers(&self) -> Transfers {
        Transfers { size: self.size.value.plain(), every: self.every.value.0 }
    }
}

/// Whether transfers can be had: TCP has them, one connection each. Notes it if not.
pub(crate) fn check(text: &At<TrafficText>, axes: &[Axis], problems: &mut Problems<'_>) -> bool {
    let Some(transfers) = &text.value.transfers else {
        let varies = traffic_settings(axes)
            .any(|setting| matches!(setting, TrafficSetting::TransferSize(_) | TrafficSetting::TransferInterval(_)));
        if varies {
            problems.add(
                text.place,
                "transfers are varied, and the traffic has none",
                "needs `transfers`",
                "add `transfers: { size: 20kB, every: 10ms }` to the traffic",
            );
        }
        return !varies;
    };
    if transports(&text.value, axes).contains(&TransportKind::Udp) {
        problems.add(
            transfers.place,
            "`udp` has no connections that could come and go",
            "only with TCP",
            "write another `transport`, or remove `transfers`",
        );
        return false;
    }
    let streams = text.value.streams;
    if varied_streams(axes).any(|streams| streams > 1) || streams.is_some_and(|streams| streams.get() > 1) {
        problems.add(
            transfers.place,
            "transfers of a pair of hosts begin one by one, not in several streams",
            "with streams",
            "remove `streams`, and begin them more often (`every`)",
        );
        return false;
    }
    true
}

/// What is known of each transfer of a run is kept: there are not too many of them in a run of so many pairs that takes so long.
pub(crate) fn check_number(
    text: &At<TrafficText>,
    traffic: &Traffic,
    axes: &[Axis],
    (pairs, length): (u64, Span),
    problems: &mut Problems<'_>,
) {
    let (Some(text), Some(transfers)) = (&text.value.transfers, &traffic.transfers) else { return };
    let varied = traffic_settings(axes).filter_map(|setting| match setting {
        TrafficSetting::TransferInterval(every) => Some(*every),
        _ => None,
    });
    let every = varied.min().unwrap_or(transfers.every);
    let each = length.as_ps().div_ceil(every.as_ps());
    let all = pairs.saturating_mul(each);
    if all > RUN_MAX {
        problems.add(
            text.place,
            format!("{each} transfers in {length} of each of {pairs} pairs are {all} in a run, more than {RUN_MAX}"),
            "too many transfers",
            "begin them less often (`every`), measure for a shorter time, or use a pattern with fewer pairs",
        );
    }
}
