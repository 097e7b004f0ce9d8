//! What `tc` does to a device, as keys of its link.

use crate::units;

/// Keys of a link that do what a command of `tc` with netem or tbf does, as the file has them; `None` if it is none of those.
pub fn link_keys(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().filter(|word| *word != "sudo").collect();
    if !matches!(words[..], ["tc", "qdisc", "add" | "replace" | "change", ..]) {
        return None;
    }
    let at = words.iter().position(|word| ["netem", "tbf"].contains(word))?;
    let mut keys = Vec::new();
    let mut words = words[at + 1..].iter().copied().peekable();
    while let Some(word) = words.next() {
        match word {
            "delay" if words.peek().is_some() => {
                keys.extend(words.next().and_then(time).map(|time| format!("delay: {time}")));
                keys.extend(words.peek().copied().and_then(time).map(|time| format!("jitter: {time}")));
            }
            "loss" | "drop" | "duplicate" | "corrupt" | "reorder" => {
                let key = if word == "drop" { "loss" } else { word };
                let _ = words.next_if_eq(&"random");
                keys.extend(words.next().and_then(share).map(|share| format!("{key}: {share}")));
            }
            "rate" => keys.extend(words.next().and_then(rate).map(|rate| format!("rate: {rate}"))),
            _ => {}
        }
    }
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// A plain number is of microseconds to tc.
fn time(text: &str) -> Option<String> {
    let text = if text.parse::<f64>().is_ok() { format!("{text}us") } else { text.replace("msec", "ms") };
    units::span(&text).is_ok().then_some(text)
}

fn share(text: &str) -> Option<String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number.parse::<f64>().ok().map(|_| format!("{number}%"))
}

fn rate(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.to_lowercase().as_str() {
        "bit" | "" => "bit",
        "kbit" => "kbit",
        "mbit" => "Mbit",
        "gbit" => "Gbit",
        _ => return None,
    };
    (!number.is_empty()).then(|| format!("{number}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::link_keys;

    #[test]
    fn what_tc_says_is_said_in_keys_of_links() {
        for (command, keys) in [
            ("tc qdisc add dev h1-eth0 root netem delay 10ms", Some("delay: 10ms")),
            (
                "sudo tc qdisc replace dev h1-eth0 root handle 1: netem limit 9 delay 10ms 2ms 25% loss random 1.5% rate 5mbit",
                Some("delay: 10ms, jitter: 2ms, loss: 1.5%, rate: 5Mbit"),
            ),
            (
                "tc qdisc add dev eth0 root netem delay 100 duplicate 1 corrupt 2% reorder 3%",
                Some("delay: 100us, duplicate: 1%, corrupt: 2%, reorder: 3%"),
            ),
            ("tc qdisc add dev x root tbf rate 10Mbit burst 15k latency x", Some("rate: 10Mbit")),
            ("tc qdisc show", None),
            ("tc qdisc add dev x root netem", None),
            ("echo netem delay 10ms", None),
        ] {
            assert_eq!(link_keys(command).as_deref(), keys, "{command}");
        }
    }
}
