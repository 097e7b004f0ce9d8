//! `window` in traffic: so many segments, or what the receiver finds out by itself.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use transport::{ReceiveWindow, TransportKind};

use crate::error::Problems;
use crate::experiment::transports;
use crate::overrides::traffic_settings;
use crate::parameters::Plain;
use crate::quantity::{Whole, in_range};
use crate::read::{Read, expected};
use crate::source::At;
use crate::traffic::TrafficText;
use crate::tree::{Node, Value};
use crate::{Axis, TrafficSetting};

/// What there is when the file says nothing, in segments.
const USUAL: u32 = 256;
/// The most segments.
const MOST: u64 = 1_000_000;

type Segments = Whole<1, MOST>;

/// A number of segments, or `auto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowText(ReceiveWindow);

impl Read for WindowText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let number = match &node.value {
            Value::Scalar(text) if text == "auto" => return Some(Self(ReceiveWindow::Auto)),
            Value::Scalar(text) => text.replace('_', "").parse::<u64>().ok(),
            _ => None,
        };
        let Some(number) = number else {
            expected(node, "a number of segments, or `auto`", problems);
            return None;
        };
        in_range(number, 1, MOST, "", node, problems).then_some(Self(ReceiveWindow::Segments(number as u32)))
    }
}

impl Plain for WindowText {
    type Value = ReceiveWindow;

    fn plain(&self) -> ReceiveWindow {
        self.0
    }
}

impl JsonSchema for WindowText {
    fn schema_name() -> Cow<'static, str> {
        "Window".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "auto" }, generator.subschema_for::<Segments>()] })
    }
}

/// The window of traffic for which the file may say one.
pub(crate) fn of(text: Option<&At<WindowText>>) -> ReceiveWindow {
    text.map_or(ReceiveWindow::Segments(USUAL), |window| window.value.0)
}

/// Notes a window that receivers are to find out which cannot.
pub(crate) fn check(text: &At<TrafficText>, axes: &[Axis], problems: &mut Problems<'_>) {
    let given = text.value.window.as_ref().filter(|window| window.value.0 == ReceiveWindow::Auto);
    let is_auto = |setting: &TrafficSetting| matches!(setting, TrafficSetting::Window(ReceiveWindow::Auto));
    let varied = traffic_settings(axes).any(is_auto).then_some(text.place);
    let Some(place) = given.map(|window| window.place).or(varied) else { return };
    // UDP has no windows.
    let fixed = |kind: &TransportKind| !matches!(kind, TransportKind::Linux | TransportKind::Udp);
    let Some(kind) = transports(&text.value, axes).into_iter().find(fixed) else { return };
    problems.add(
        place,
        format!("receivers with `{}` have a window of so many segments: `window: auto` is for `linux`", kind.name()),
        "only with `linux`",
        "write `transport: linux`, or `window: 256`",
    );
}
