//! A checked file as JSON for people and their programs: quantities have their units, and keys the names that the file gives them.

use machine::Span;
use serde_json::{Map, Value};

use crate::Fabric;
use crate::units::in_thousands;

/// What is a time, in picoseconds.
const TIMES: &[&str] = &[
    "arp_interval",
    "at",
    "delay",
    "delayed_ack",
    "downdelay",
    "duration",
    "every",
    "fixed",
    "for",
    "gap",
    "interval",
    "link-coalesce",
    "link-delay",
    "link-jitter",
    "max",
    "mean",
    "miimon",
    "min",
    "peer_notif_delay",
    "rto_min",
    "time_series",
    "timeout",
    "transfer-interval",
    "updelay",
    "warm_up",
];

/// What has the names of nodes for keys.
const BY_NODE: &[&str] = &["flow_tables", "setups", "switches"];

/// A fabric as JSON. Times, rates, sizes and shares are texts as in a file: `50us`, `1Gbit`, `1448B`, `0.1%`; keys have hyphens.
pub fn in_units(fabric: &Fabric) -> Value {
    converted(serde_json::to_value(fabric).expect("a fabric is plain data"))
}

fn converted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(converted).collect(),
        Value::Object(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let (key, value) = match value {
                    Value::Object(by_node) if BY_NODE.contains(&key.as_str()) => (key, each_converted(by_node)),
                    value => entry(key, converted(value)),
                };
                (key.replace('_', "-"), value)
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Values whose keys are names, and stay as they are.
fn each_converted(by_name: Map<String, Value>) -> Value {
    by_name.into_iter().map(|(name, value)| (name, converted(value))).collect()
}

/// How a key and its value are written. What is not there stays so.
fn entry(key: String, value: Value) -> (String, Value) {
    if let ("mac", Value::Array(bytes)) = (key.as_str(), &value) {
        let bytes: Vec<String> = bytes.iter().filter_map(Value::as_u64).map(|byte| format!("{byte:02x}")).collect();
        return (key, bytes.join(":").into());
    }
    let (name, unit) = match key.as_str() {
        time if TIMES.contains(&time) => (time, "ps"),
        "link-rate" => ("link-rate", "bps"),
        name => match name.rsplit_once('_') {
            Some((name, unit @ ("bps" | "pps" | "ns" | "ppb" | "bytes" | "packets"))) => (name, unit),
            _ => return (key, value),
        },
    };
    let Some(number) = value.as_u64() else { return (name.to_owned(), value) };
    let written = match unit {
        "ps" => Span::from_ps(number).to_string(),
        "ns" => Span::from_ns(number).to_string(),
        "bps" => in_thousands(number, "bit", &["bit", "kbit", "Mbit", "Gbit", "Tbit"]) + "bit",
        "pps" => in_thousands(number, "pps", &["pps", "kpps", "Mpps"]) + "pps",
        "ppb" => format!("{}%", number as f64 / 1e7),
        "bytes" => format!("{number}B"),
        _ => return (name.to_owned(), value),
    };
    (name.to_owned(), written.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, parse};

    #[test]
    fn quantities_have_their_units() {
        let text = "topology: { leaf-spine: { leaves: 1, spines: 1, hosts-per-leaf: 2 } }\n\
                    links: { rate: 2.5Gbit, delay: 50us, queue: 7, overhead: 24B, loss: 0.1%, jitter: 1us, coalesce: 16us }\n\
                    experiments:\n  a:\n    traffic: { pattern: random, transport: udp, rate: 10kpps, segment: 1000B }\n    \
                    vary: { links.delay: [1ms] }\n    for: 1500ms\n    warm-up: 1s\n";
        let fabric = parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a sound file");
        let value = in_units(&fabric);
        let spec = &value["links"][0]["spec"];
        for (key, written) in [
            ("rate", "2.5Gbit"),
            ("delay", "50us"),
            ("overhead", "24B"),
            ("loss", "0.1%"),
            ("jitter", "1us"),
            ("coalesce", "16us"),
        ] {
            assert_eq!(spec[key], written, "{spec}");
        }
        assert_eq!(spec["queue"], 7);
        let experiment = &value["experiments"][0];
        assert_eq!((&experiment["for"], &experiment["warm-up"]), (&"1500ms".into(), &"1s".into()));
        assert_eq!(experiment["traffic"]["rate"], "10kpps");
        assert_eq!(experiment["traffic"]["transport"]["segment"], "1000B");
        assert_eq!(experiment["vary"][0]["values"][0][1]["link-delay"], "1ms");
        assert_eq!(value["nodes"][0]["kind"]["host"]["mac"], "02:00:0a:00:01:01");
    }

    fn keys<'a>(value: &'a Value, all: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(key, value)| {
                all.push(key);
                keys(value, all);
            }),
            Value::Array(items) => items.iter().for_each(|item| keys(item, all)),
            _ => {}
        }
    }

    #[test]
    fn keys_have_hyphens_and_names_stay() {
        let text = "nodes: { h_ns: { kind: host, sysctls: { net.ipv4.tcp_sack: 0 }, programs: { w_b: sleep 1 } }, h2: host, s_1: switch }\n\
                    links: [{ between: [h_ns, s_1] }, { between: [h2, s_1] }]\n\
                    switches: { s_1: { mac-age: 20s } }\n\
                    flows: { s_1: ['in_port=1,actions=normal'] }\n\
                    experiments: { a: { traffic: { pattern: random }, for: 1s, time-series: 100ms } }\n";
        let fabric = parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a sound file");
        let value = in_units(&fabric);
        assert!(value["flow-tables"]["s_1"].is_object() && value["switches"]["s_1"].is_object(), "{value}");
        assert_eq!(value["setups"]["h_ns"]["programs"][0]["name"], "w_b");
        assert_eq!(value["experiments"][0]["time-series"], "100ms");
        let mut all = Vec::new();
        keys(&value, &mut all);
        all.retain(|key| key.contains('_') && !["h_ns", "s_1"].contains(key));
        assert_eq!(all, [""; 0]);
    }
}
