//! What to do about a key that is none where it stands: the one that was meant, or the place where it belongs.

use crate::names::{did_you_mean, nearest};
use crate::tree::Entry;

/// Keys that are written in one section and belong into another.
struct Elsewhere {
    /// Keys by which the section is known in which they are none.
    here: &'static [&'static str],
    keys: &'static [&'static str],
    /// What to write instead of `KEY`.
    hint: &'static str,
}

const OF_LINKS: &[&str] = &["rate", "delay", "loss", "jitter", "queue"];
const OF_EXPERIMENTS: &[&str] =
    &["traffic", "vary", "repeat", "for", "warm-up", "time-series", "expect", "published", "report"];
const OF_TRAFFIC: &[&str] = &[
    "pattern",
    "transport",
    "congestion-control",
    "streams",
    "transfers",
    "requests",
    "switched-by",
    "faults",
    "window",
    "initial-window",
    "segment",
];
const OF_PORTS: &[&str] = &["tag", "trunks", "vlan-mode"];

const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        here: &["topology", "experiments"],
        keys: OF_LINKS,
        hint: "`KEY` is of links: `links: { KEY: .. }` beside `topology`, `link-defaults: { KEY: .. }` beside `nodes`",
    },
    Elsewhere {
        here: &["topology", "experiments"],
        keys: OF_EXPERIMENTS,
        hint: "`KEY` is of an experiment: `experiments: { NAME: { KEY: .. } }`",
    },
    Elsewhere {
        here: &["topology", "experiments"],
        keys: OF_TRAFFIC,
        hint: "`KEY` is of an experiment's traffic: `experiments: { NAME: { traffic: { KEY: .. } } }`",
    },
    Elsewhere {
        here: &["traffic", "warm-up"],
        keys: OF_TRAFFIC,
        hint: "`KEY` is of the traffic: `traffic: { KEY: .. }`",
    },
    Elsewhere {
        here: &["traffic", "warm-up"],
        keys: &["spread", "routes", "shaping"],
        hint: "`KEY` is of the file, or varied: `vary: { KEY: [..] }`",
    },
    Elsewhere {
        here: &["pattern", "transport"],
        keys: OF_EXPERIMENTS,
        hint: "`KEY` is of the experiment: write it beside `traffic:`",
    },
    Elsewhere {
        here: &["pattern", "transport"],
        keys: &["duration", "time"],
        hint: "how long runs are measured is `for:` of the experiment, beside `traffic:`",
    },
    Elsewhere {
        here: &["traffic", "warm-up"],
        keys: &["duration", "time"],
        hint: "how long runs are measured is `for: 10s`",
    },
    Elsewhere {
        here: &["ipv4", "programs"],
        keys: OF_LINKS,
        hint: "`KEY` is of links: `links: [{ between: [h1, s1], KEY: .. }]`",
    },
    Elsewhere {
        here: &["ipv4", "programs"],
        keys: OF_PORTS,
        hint: "VLANs are of switches' ports: `switches: { s1: { ports: { h1: { KEY: .. } } } }`",
    },
    Elsewhere { here: &["ports", "mac-age"], keys: OF_PORTS, hint: "`KEY` is of a port: `ports: { h1: { KEY: .. } }`" },
    Elsewhere {
        here: &["ipv4", "programs"],
        keys: &["gateway", "gw", "default-route", "default-gateway", "defaultroute"],
        hint: "write `routes: [default via 10.0.1.254]`, with the router's address",
    },
    Elsewhere {
        here: &["ipv4", "programs"],
        keys: &["cmd", "exec", "command", "commands", "start"],
        hint: "write `programs: { NAME: COMMAND }`: they start with the network",
    },
    Elsewhere {
        here: &["ipv4", "programs"],
        keys: &["binds", "volumes"],
        hint: "write `files: { PATH: TEXT }`: what the host's programs find at that path",
    },
];

/// What to do about a key that a section with these keys does not have.
pub(crate) fn hint(entry: &Entry, known: &[&str]) -> String {
    if entry.key == "back" && known.contains(&"delay") {
        "directions differ on single links, written one by one: `links: [{ between: [h1, s1], back: { rate: 1Mbit } }]`"
            .to_owned()
    } else if entry.key == "mtu" && ["delay", "ipv4", "ports"].iter().any(|here| known.contains(here)) {
        "all of a network have one MTU: `mtu:` stands at the top level of the file".to_owned()
    } else if entry.key == "requests" && known.contains(&"traffic") {
        "requests are traffic: `traffic: { requests: { to: SERVICE } }`".to_owned()
    } else if let Some((node, of_link)) = one_node(&entry.key, known) {
        format!("one link is named by both of its nodes: `links.{node}-NODE.{of_link}`")
    } else if let Some(axis) = axis_of_section(&entry.key, known) {
        format!("did you mean `{axis}`?")
    } else if entry.key == "seed" && is_vary(known) {
        "a seed is the file's, `seed: 7`, or of a run, `heddle run --seed 7`; each repeat of a case draws anew, and there are as many as `repeat:` says"
            .to_owned()
    } else if ["repeat", "for", "warm-up"].contains(&entry.key.as_str()) && is_vary(known) {
        format!("`{}` is of the experiment, and the same for all of its cases: write it beside `vary:`", entry.key)
    } else if entry.key.ends_with(')') {
        // `{ pattern: staggered(0.5, 0.3) }` is two entries to YAML, since a comma ends a value in braces.
        "a value with a comma needs quotes between braces: \"staggered(0.5, 0.3)\"".to_owned()
    } else if let Some(axis) = known.iter().rfind(|key| key.split_once('.').is_some_and(|(_, key)| key == entry.key)) {
        format!("did you mean `{axis}`?")
    } else if let Some(hint) = elsewhere(&entry.key, known) {
        hint
    } else {
        did_you_mean(&entry.key, known)
    }
}

/// Where else a key stands that is none here, and not a slip for one that is.
fn elsewhere(key: &str, known: &[&str]) -> Option<String> {
    if nearest(key, known.iter().copied()).is_some() {
        return None;
    }
    let is_here = |section: &&Elsewhere| section.here.iter().all(|marker| known.contains(marker)) && !is_vary(known);
    ELSEWHERE.iter().filter(is_here).find_map(|section| {
        let key = nearest(key, section.keys.iter().copied())?;
        Some(section.hint.replace("KEY", key))
    })
}

/// The axis that is meant by the way to its key in the file: `traffic.pattern` is varied as `pattern`.
fn axis_of_section<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let within = ["traffic.", "cluster."].iter().find_map(|section| key.strip_prefix(section))?;
    known.iter().copied().find(|axis| *axis == within)
}

/// Whether these are the keys of `vary:`, among which are those of several sections.
fn is_vary(known: &[&str]) -> bool {
    known.contains(&"spread") && known.contains(&"pattern")
}

/// The node and the key of an axis that names one node of a link, where two are wanted: `links.h1.delay`.
fn one_node<'a>(key: &'a str, known: &[&str]) -> Option<(&'a str, &'a str)> {
    let (node, of_link) = key.strip_prefix("links.")?.rsplit_once('.')?;
    let is_axis = known.iter().any(|axis| axis.strip_prefix("links.") == Some(of_link));
    (is_axis && !node.is_empty()).then_some((node, of_link))
}
