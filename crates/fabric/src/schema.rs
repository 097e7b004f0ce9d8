//! The file's JSON Schema, for editors.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::document::File;
use crate::host_setup::{Command, Contents, HostPath, SysctlName, SysctlValue};
use crate::quantity::{Bytes, Length, PacketRate, Percent, Rate, StormRate, Whole};
use crate::read::{Device, Mapping, Name, Text, Written};
use crate::source::At;
use crate::vm::{FilePath, Line, Memory};

/// A JSON Schema (draft 7) of the fabric file, made from the types that read it.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<File>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema.insert("title".to_owned(), "Heddle fabric file".into());
    one_of(&mut schema, "ExperimentText", &["traffic", "cluster"]);
    one_of(&mut schema, "BondText", &["between", "host"]);
    one_of(&mut schema, "LinkFaultText", &["down", "up"]);
    one_of(&mut schema, "FunctionText", &["kind", "at"]);
    one_of(&mut schema, "RuleText", &["allow", "deny"]);
    one_of(&mut schema, "FaultText", &["kill", "restart", "pause", "partition"]);
    schema.into()
}

/// Of these keys, a section has exactly one: what the fields' types can't say.
fn one_of(schema: &mut Schema, section: &str, keys: &[&str]) {
    let choices: Vec<Value> = keys.iter().map(|key| serde_json::json!({ "required": [key] })).collect();
    let definition = schema.pointer_mut(&format!("/definitions/{section}")).and_then(Value::as_object_mut);
    // A section that was renamed must not lose its rule silently.
    let definition = definition.expect("the section is in the schema");
    definition.insert("oneOf".to_owned(), choices.into());
}

/// schemars lets an optional key be null; here a key without a value is an error.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        // In draft 7 whatever stands beside a `$ref` is ignored, so a description needs the list of one to stay.
    }
}

/// The schema of a type of which a name would tell nothing: it stands where the type is used.
macro_rules! schema {
    ([$($generics:tt)*] $type:ty, $name:literal, |$generator:ident| $body:expr) => {
        impl<$($generics)*> JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $body
            }
        }
    };
}

schema!([T: JsonSchema] At<T>, "At", |g| g.subschema_for::<T>());
schema!([T: JsonSchema] Written<T>, "Written", |g| g.subschema_for::<T>());
schema!([K: JsonSchema, V: JsonSchema] Mapping<K, V>, "Mapping", |g| json_schema!({
    "type": "object",
    "propertyNames": g.subschema_for::<K>(),
    "additionalProperties": g.subschema_for::<V>(),
}));
schema!([] Text, "Text", |_g| json_schema!({ "type": ["string", "number", "boolean"] }));
schema!([] Name, "Name", |_g| json_schema!({
    "type": ["string", "number"],
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
}));
schema!([] Device, "Device", |_g| json_schema!({
    "type": ["string", "number"],
    "pattern": "^((xdp:)?[^\\s/:]{1,15}|null:([1-9][0-9]{1,3})?|dpdk:.+|pcap:.+|vhost-user:.*|(vxlan|geneve):.+,vni=.+)$",
}));
schema!([] Command, "Command", |_g| json_schema!({
    "type": ["string", "array"],
    "items": { "type": ["string", "number", "boolean"] },
    "minItems": 1,
    "examples": ["python3 -m http.server 80", ["iperf3", "--server"]],
}));
schema!([] Memory, "Memory", |_g| json_schema!({
    "type": "string",
    "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *[MG](i?B)?$",
    "examples": ["512MiB", "2GiB"],
}));
schema!([] FilePath, "FilePath", |_g| json_schema!({ "type": ["string", "number"] }));
schema!([] Line, "Line", |_g| json_schema!({ "type": ["string", "number"] }));
schema!([] HostPath, "HostPath", |_g| json_schema!({
    "type": "string",
    "pattern": "^(/[^/\\s]+)+$",
    "examples": ["/etc/frr/frr.conf"],
}));
schema!([] Contents, "Contents", |_g| json_schema!({ "type": ["string", "number", "boolean"] }));
schema!([] SysctlName, "SysctlName", |_g| json_schema!({
    "type": "string",
    "pattern": "^net[./]",
    "examples": ["net.ipv4.ip_forward"],
}));
schema!([] SysctlValue, "SysctlValue", |_g| json_schema!({ "type": ["string", "number"] }));
schema!([] Rate, "Rate", |_g| json_schema!({
    "type": "string",
    "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *([kKMGT]?b(it)?|[mgt]bit)(/s|ps)?$",
    "examples": ["1Gbit", "100Mbit", "2.5 Gbit/s"],
}));
schema!([] PacketRate, "PacketRate", |_g| json_schema!({
    "type": "string",
    "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *([kM]?pps|[kMGTmgt]?bit(/s|ps)?)$",
    "examples": ["500 pps", "10 kpps", "10 Mbit/s"],
}));
schema!([] StormRate, "StormRate", |_g| json_schema!({
    "type": "string",
    "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(/s|[kM]?pps|[kMGTmgt]?bit(/s|ps)?)$",
    "examples": ["1000/s", "10 Mbit/s"],
}));
schema!([const ZERO: bool, const MAX_MS: u64] Length<ZERO, MAX_MS>, "Length", |_g| json_schema!({
    "type": ["string", "integer"],
    "pattern": "^(0|[0-9][0-9_]*(\\.[0-9]+)? *(ps|ns|us|\u{b5}s|\u{3bc}s|ms|s|min))$",
    "maximum": 0,
    "examples": ["50us", "1.5ms", "2s"],
}));
schema!([const MIN: u64, const MAX: u64] Bytes<MIN, MAX>, "Bytes", |_g| json_schema!({
    "type": ["string", "integer"],
    "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(B|kB|KB|KiB|MB|MiB)$",
    "minimum": MIN,
    "maximum": MAX,
    "examples": ["1448B", "9KiB"],
}));
schema!([] Percent, "Percent", |_g| json_schema!({
    "type": ["string", "integer"],
    "pattern": "^(0|[0-9][0-9_]*(\\.[0-9]+)? *%)$",
    "maximum": 0,
    "examples": ["0.1%", "3 %"],
}));
schema!([const MIN: u64, const MAX: u64] Whole<MIN, MAX>, "Whole", |_g| json_schema!({
    "type": "integer",
    "minimum": MIN,
    "maximum": MAX,
}));
