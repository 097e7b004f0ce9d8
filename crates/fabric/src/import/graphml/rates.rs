//! What an edge says of its rate, its delay and its losses, where that is certain.

use super::attributes::Attributes;
use crate::import::directions::Keys;
use crate::import::network::Network;
use crate::units;

/// Attributes that say an edge's delay, the first one that it has.
pub(super) const DELAYS: [&str; 2] = ["delay", "latency"];

/// Attributes that say its rate with a unit.
const RATES: [&str; 3] = ["bandwidth", "capacity", "rate"];

/// What carriers call links, and bits a second that these carry.
const CARRIERS: [(&str, f64); 11] = [
    ("fe", 1e8),
    ("fast ethernet", 1e8),
    ("fastethernet", 1e8),
    ("gigabit ethernet", 1e9),
    ("gige", 1e9),
    ("t1", 1.544e6),
    ("ds1", 1.544e6),
    ("e1", 2.048e6),
    ("e3", 34.368e6),
    ("t3", 44.736e6),
    ("ds3", 44.736e6),
];

/// A rate in the unit in which one writes it: `10Gbit`.
fn in_words(bps: f64) -> String {
    let bps = bps.round();
    let in_unit = |(unit, size): (&str, f64)| (bps >= size).then(|| format!("{}{unit}bit", bps / size));
    // What is rounded on the way is written out.
    let exact = |text: &String| units::rate(text).is_ok_and(|rate| rate.to_string() == format!("{bps}"));
    let units = [("G", 1e9), ("M", 1e6), ("k", 1e3)];
    units.into_iter().find_map(in_unit).filter(exact).unwrap_or_else(|| format!("{bps}bit"))
}

/// The keys of an edge's direction.
pub(super) fn keys_of(data: &mut Attributes, line: Option<usize>, network: &mut Network) -> Keys {
    let mut keys = Vec::new();
    keys.extend(rate(data, line, network).map(|rate| ("rate", rate)));
    match data.take_first(&DELAYS) {
        Some(text) if units::span(&text).is_ok() => keys.push(("delay", text)),
        Some(text) => network.leave_out("delays whose unit is not known", line, &text),
        None => {}
    }
    match data.take("jitter") {
        Some(text) if units::span(&text).is_ok() => keys.push(("jitter", text)),
        Some(text) => network.leave_out("jitter whose unit is not known", line, &text),
        None => {}
    }
    if let Some(text) = data.take("loss") {
        let number = text.parse::<f64>().ok();
        match number {
            Some(0.0) => {}
            // As Mininet has it. Less than one may be a share of one.
            Some(percent) if (1.0..=100.0).contains(&percent) => keys.push(("loss", format!("{percent}%"))),
            None if units::share(&text).is_ok_and(|ppb| ppb <= 1_000_000_000) => keys.push(("loss", text)),
            _ => network.leave_out("losses that are no share from 0% to 100%, or do not say of what", line, &text),
        }
    }
    keys
}

fn rate(data: &mut Attributes, line: Option<usize>, network: &mut Network) -> Option<String> {
    let raw = data.get("linkspeedraw").and_then(|text| text.parse::<f64>().ok()).filter(|bps| *bps >= 1.0);
    if let Some(raw) = raw.map(in_words).filter(|text| is_rate(text)) {
        // The others say the same of it.
        for key in ["linkspeedraw", "linkspeed", "linkspeedunits"] {
            data.take(key);
        }
        take_label(data);
        return Some(raw);
    }
    if data.has_any(&["linkspeed"]) && data.has_any(&["linkspeedunits"]) {
        let speed = data.take("linkspeed").zip(data.take("linkspeedunits"));
        let text = speed.map(|(speed, unit)| format!("{speed}{unit}bit")).filter(|text| is_rate(text));
        if text.is_none() {
            network.leave_out(UNKNOWN, line, "edges");
        }
        take_label(data);
        return text;
    }
    if let Some(text) = data.take("bw") {
        if text.parse::<f64>().is_ok_and(|mbit| mbit > 0.0) && is_rate(&format!("{text}Mbit")) {
            network.convert("`bw` of edges is in Mbit/s, as Mininet has it", line, &text);
            return Some(format!("{}Mbit", text.parse::<f64>().unwrap_or_default()));
        }
        return known(text, line, network);
    }
    if let Some(text) = data.take_first(&RATES) {
        return known(text, line, network);
    }
    let label = data.get("linklabel")?.to_owned();
    let Some(rate) = of_label(&label) else {
        data.take("linklabel");
        network.leave_out("`LinkLabel` of edges, where it is not certain what rate it says", line, &label);
        return None;
    };
    data.take("linklabel");
    network.convert("rates of edges that only a `LinkLabel` says", line, &format!("{label} is {rate}"));
    Some(rate)
}

const UNKNOWN: &str = "rates whose unit is not known";

fn is_rate(text: &str) -> bool {
    units::rate(text).is_ok_and(|rate| rate > 0)
}

fn known(text: String, line: Option<usize>, network: &mut Network) -> Option<String> {
    if is_rate(&text) {
        return Some(text);
    }
    network.leave_out(UNKNOWN, line, &text);
    None
}

/// Takes a label that says a rate, since another attribute says it, too.
fn take_label(data: &mut Attributes) {
    if data.get("linklabel").is_some_and(|label| of_label(label).is_some()) {
        data.take("linklabel");
    }
}

/// The rate that a label says: `OC-48c`, `STM-16`, `10 Gbps`, `10GE`, `T3`; `None`: it says more than that, or something else.
fn of_label(label: &str) -> Option<String> {
    let written = label.trim();
    let label = written.to_lowercase();
    if let Some((_, bps)) = CARRIERS.iter().find(|(name, _)| *name == label) {
        return Some(in_words(*bps));
    }
    // SONET and SDH come in multiples of 51.84 Mbit/s; `c` is one channel of all of them.
    for (name, bps, most) in [("oc", 51.84e6, 3_072), ("stm", 155.52e6, 1_024)] {
        let Some(number) = label.strip_prefix(name) else { continue };
        let number = number.trim_start_matches(['-', ' ']);
        let number = number.strip_suffix('c').unwrap_or(number).parse::<u32>().ok();
        return number.filter(|number| (1..=most).contains(number)).map(|number| in_words(bps * f64::from(number)));
    }
    let digits = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    let (number, unit) = label.split_at(digits);
    let number = if number.is_empty() { 1.0 } else { number.parse::<f64>().ok()? };
    let has_number = digits > 0;
    // With a capital, these may be bytes.
    if written.contains('B') && !label.ends_with("gbe") {
        return None;
    }
    let size = match unit.trim() {
        "ge" | "gbe" | "gige" => 1e9,
        "g" | "gb" | "gbps" | "gb/s" | "gbit" | "gbit/s" | "gbits/s" if has_number => 1e9,
        "m" | "mb" | "mbps" | "mb/s" | "mbit" | "mbit/s" | "mbits/s" if has_number => 1e6,
        "k" | "kb" | "kbps" | "kb/s" | "kbit" | "kbit/s" | "kbits/s" if has_number => 1e3,
        _ => return None,
    };
    let written = in_words(number * size);
    is_rate(&written).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_links_are_rates_where_they_say_nothing_else() {
        for (label, rate) in [
            ("OC-48c", Some("2488.32Mbit")),
            ("OC3", Some("155.52Mbit")),
            ("OC-192", Some("9953.28Mbit")),
            ("STM-16", Some("2488.32Mbit")),
            ("10 Gbps", Some("10Gbit")),
            ("2.5Gb/s", Some("2.5Gbit")),
            ("155Mbps", Some("155Mbit")),
            ("64 kbit/s", Some("64kbit")),
            ("GE", Some("1Gbit")),
            ("10GE", Some("10Gbit")),
            ("T3", Some("44.736Mbit")),
            ("10GBE", Some("10Gbit")),
            ("Gbps", None),
            ("1 GB/s", None),
            ("2x10Gbps", None),
            ("< 2.5 Gbps", None),
            ("10 Gbps (leased)", None),
            ("OC-x", None),
            ("OC-9999", None),
            ("0 Gbps", None),
            ("10", None),
            ("Fibre", None),
            ("1.2.3 Gbps", None),
        ] {
            let read = of_label(label);
            let is_same = |rate: &str| read.as_deref().map(units::rate) == Some(units::rate(rate));
            assert!(rate.map_or(read.is_none(), is_same), "{label}: {read:?}");
        }
    }
}
