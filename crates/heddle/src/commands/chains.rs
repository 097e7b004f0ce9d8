//! `show chains`: what passes each function of each service chain.

use std::collections::BTreeSet;

use fabric::Fabric;
use live::Instance;
use live::control::{ChainCounters, ChainHop, HopCount};
use miette::Report;
use serde_json::{Value, json};

use super::instance::readings;
use crate::output::Rows;

/// One row for what enters each course of each chain, one for each instance of its functions, and one for what leaves it.
pub fn chains(instance: &Instance) -> Result<Rows, Report> {
    let (before, after, seconds) = readings(instance, |counters| !counters.chains.is_empty())?;
    Ok(rows(&before.chains, &after.chains, seconds))
}

const NO_CHAINS: &str = "No chains: `functions: { count: { kind: counter } }` and `chains: { c1: { from: h1, to: h2, functions: [count] } }` in the file make one.";

/// The same of a file, which says what there is.
pub fn chains_of_file(fabric: &Fabric) -> Rows {
    let columns = ["chain", "from", "to", "match", "functions", "directions", "on-failure"];
    let mut rows = Rows::new(&columns).or_say(NO_CHAINS);
    for chain in &fabric.chains.chains {
        let names = |hosts: &[topology::NodeId]| {
            let names = hosts.iter().map(|host| fabric.topology.nodes[*host].name.as_str());
            json!(names.collect::<Vec<_>>().join(" "))
        };
        let functions = chain.functions.iter().map(|at| &fabric.chains.functions[*at]);
        let functions = functions.map(|function| match (function.built_in(), function.instances().len()) {
            (Some(built_in), _) => format!("{}({})", function.name, built_in.kind()),
            (None, 1) => function.name.clone(),
            (None, several) => format!("{} x{several}", function.name),
        });
        rows.push([
            json!(chain.name),
            names(&chain.from),
            names(&chain.to),
            json!(chain.matching.to_string()),
            json!(functions.collect::<Vec<_>>().join(" ")),
            json!(if chain.is_both_ways { "both" } else { "forward" }),
            json!(chain.on_failure.name()),
        ]);
    }
    rows
}

fn rows(before: &[ChainCounters], after: &[ChainCounters], seconds: f64) -> Rows {
    let mut rows = Rows::new(&[
        "chain",
        "course",
        "hop",
        "state",
        "in-pps",
        "out-pps",
        "in-packets",
        "out-packets",
        "lost-before",
        "drops",
        "delay-us",
        "delay-max-us",
        "failures",
        "counted",
    ])
    .or_say(NO_CHAINS)
    .with_rare(&["lost-before", "failures"])
    .with_hidden(&["counted"])
    // Rates, drops and delay are what people look for.
    .with_spare(&["failures", "out-packets", "delay-max-us", "in-packets", "lost-before", "course", "out-pps"]);
    let rate = |now: u64, was: Option<u64>| json!((now.saturating_sub(was.unwrap_or(now)) as f64 / seconds).round());
    let mut said = BTreeSet::new();
    for chain in after {
        let was = before.iter().find(|was| (&was.chain, &was.course) == (&chain.chain, &chain.course));
        let end = |what: &str, packets: u64, was: Option<u64>| -> [Value; 14] {
            let (name, course) = (json!(chain.chain), json!(chain.course));
            let pps = rate(packets, was);
            let packets = json!(packets);
            let mut row = [const { Value::Null }; 14];
            (row[0], row[1], row[2], row[4], row[6]) = (name, course, json!(what), pps, packets);
            row
        };
        rows.push(end("enters", chain.entered, was.map(|was| was.entered)));
        for (number, hop) in chain.hops.iter().enumerate() {
            let was = was.and_then(|was| was.hops.get(number));
            let state = match hop.down_ms {
                _ if hop.built_in.is_some() => json!(hop.built_in),
                _ if hop.up => json!("up"),
                Some(ms) => json!(format!("down for {} s", ms / 1_000)),
                None => json!("down"),
            };
            rows.push([
                json!(chain.chain),
                json!(chain.course),
                json!(hop.function),
                state,
                rate(hop.in_packets, was.map(|was| was.in_packets)),
                rate(hop.out_packets, was.map(|was| was.out_packets)),
                json!(hop.in_packets),
                json!(hop.out_packets),
                // What is under way just now among them.
                json!(hop.in_packets.saturating_sub(hop.arrived_packets)),
                json!(hop.arrived_packets.saturating_sub(hop.out_packets)),
                json!(hop.delay_total_ns.checked_div(hop.timed).map(|ns| ns as f64 / 1e3)),
                json!((hop.timed > 0).then_some(hop.delay_max_ns as f64 / 1e3)),
                if hop.built_in.is_some() { Value::Null } else { json!(hop.failures) },
                counted(hop),
            ]);
            // A table has no room for it in a column. It counts both directions.
            if let Some(counted) = counted_in_words(hop)
                && said.insert((&chain.chain, &hop.function))
            {
                rows.remark(format!("{}: {} has counted: {counted}", chain.chain, hop.function));
            }
        }
        rows.push(end("leaves", chain.left, was.map(|was| was.left)));
        for (what, packets) in [("bypasses", chain.bypassed), ("blocked", chain.blocked), ("for nobody", chain.stray)] {
            if packets > 0 {
                rows.push(end(what, packets, None));
            }
        }
    }
    rows
}

/// What a built-in function has counted, by name.
fn counted(hop: &ChainHop) -> Value {
    if hop.counts.is_empty() {
        return Value::Null;
    }
    let mut counted = serde_json::Map::new();
    for HopCount { name, count, bytes } in &hop.counts {
        counted.insert(name.clone(), json!(count));
        if let Some(bytes) = bytes {
            counted.insert(format!("{name} bytes"), json!(bytes));
        }
    }
    counted.into()
}

/// The same in words.
fn counted_in_words(hop: &ChainHop) -> Option<String> {
    let words = hop.counts.iter().map(|HopCount { name, count, bytes }| {
        bytes.map_or_else(|| format!("{name} {count}"), |bytes| format!("{name} {count} ({bytes} bytes)"))
    });
    let words = words.collect::<Vec<_>>().join(", ");
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_drops_and_delay_fit_into_80_columns() {
        let hop = |function: &str| ChainHop {
            function: function.to_owned(),
            up: false,
            down_ms: Some(125_000),
            in_packets: 12_345_678,
            arrived_packets: 12_345_670,
            out_packets: 12_300_000,
            timed: 1,
            delay_total_ns: 123_456,
            delay_max_ns: 1_234_567,
            failures: 3,
            ..ChainHop::default()
        };
        let counts = vec![HopCount { name: "blocked".to_owned(), count: 12, bytes: Some(840) }];
        let counting = ChainHop { built_in: Some("firewall".to_owned()), counts, ..hop("fw") };
        let chain = ChainCounters {
            chain: "inspect".to_owned(),
            course: "reverse".to_owned(),
            hops: vec![hop("middlebox1"), counting],
            ..ChainCounters::default()
        };
        let chains = [ChainCounters { course: "forward".to_owned(), ..chain.clone() }, chain];
        let table = rows(&chains, &chains, 1.0).table(Some(80));
        let head = table.lines().next().unwrap_or_default();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        for column in ["hop", "state", "in-pps", "out-pps", "drops", "delay-us"] {
            assert!(head.split_whitespace().any(|it| it == column), "{column}: {table}");
        }
        assert_eq!(table.matches("inspect: fw has counted: blocked 12 (840 bytes)\n").count(), 1, "{table}");
    }
}
