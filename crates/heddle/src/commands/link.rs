//! `link`: cables of a running network, pulled and plugged in, and what they do to packets.

use std::fmt::Write as _;

use fabric::{ChangedLink, Fabric, LinkChange, NoSuchLink, begins_at, find_links, link_ends, link_keys_both, turn};
use live::{Instance, Status};
use miette::{Report, miette};
use serde_json::json;
use topology::{LinkId, Side, Topology};

use super::explain;
use super::instance::{connect, definition, definitions, running};
use super::show;
use crate::cli::{Format, Link, LinkAction, LinkArg};
use crate::output::{Rows, fitting, harmless, print_json, put};

/// Takes links down or up, changes or shows them.
pub fn link(args: &Link, format: Format) -> Result<(), Report> {
    let connect = || connect(&running(args.network.name.as_deref(), "`heddle link --name NETWORK ..`")?);
    match &args.action {
        LinkAction::Down(link) => set_carrier(&connect()?, link, false, format),
        LinkAction::Up(link) => set_carrier(&connect()?, link, true, format),
        LinkAction::Show(link) => {
            let instance = connect()?;
            let now = definition(&instance)?;
            show_links(&instance, ends(&now.topology, link)?, format)
        }
        LinkAction::Set(link) => {
            let (link, keys) = link.parts();
            // What is wrong with them is wrong with any network.
            if let Some(word) = keys.iter().find(|key| is_carrier(key)) {
                return Err(carrier_is_no_key(&link, word));
            }
            let change = LinkChange::parse(&keys)?;
            change_links(&connect()?, &link, &change, format)
        }
    }
}

/// The nodes at both ends of links, and which of parallel ones is meant.
type LinkEnds<'a> = (&'a str, &'a str, Option<u32>);

/// Both ends of what is named by its nodes, by the name that `show links` prints, or by a node that has one link.
fn ends<'a>(topology: &'a Topology, link: &'a LinkArg) -> Result<LinkEnds<'a>, Report> {
    let is_node = |name: &str| topology.node(name).is_some();
    let number = match link.b.as_deref() {
        None => None,
        // In `leaf1-spine1 2` it is no node.
        Some(b) if !is_node(&link.a) && !is_node(b) && b.parse::<u32>().is_ok() => b.parse().ok(),
        Some(b) => return Ok((&link.a, b, link.number)),
    };
    match link_ends(topology, &link.a) {
        Some((a, b, of_name)) if !is_node(&link.a) || (is_node(a) && is_node(b)) => Ok((a, b, of_name.or(number))),
        _ => match &links_of_node(topology, &link.a)[..] {
            [(_, peer)] if link.b.is_none() => Ok((&link.a, peer, None)),
            links => Err(nameless(topology, &link.a, links)),
        },
    }
}

/// The links of a node, those of all of its interfaces: their names, and the nodes at their other ends.
fn links_of_node<'a>(topology: &'a Topology, name: &str) -> Vec<(String, &'a str)> {
    let Some(node) = topology.node(name) else { return Vec::new() };
    let ends = topology.interfaces_of(node).flat_map(|interface| &topology.nodes[interface].ports);
    let peer = |&(link, side): &(LinkId, Side)| {
        let peer = topology.owner(topology.links[link].end(side.other()).node);
        (topology.numbered_link_name(link), topology.nodes[peer].name.as_str())
    };
    ends.map(peer).collect()
}

/// So many links of a node are named.
const LINKS_NAMED: usize = 6;

/// Why a single word is no link.
fn nameless(topology: &Topology, word: &str, links: &[(String, &str)]) -> Report {
    if let Err(error @ NoSuchLink::Node { .. }) = find_links(topology, word, word, None) {
        return explain(error.into());
    }
    let named: Vec<String> = links.iter().take(LINKS_NAMED).map(|(name, _)| format!("`{name}`")).collect();
    let more = if links.len() > LINKS_NAMED { ", and more (`heddle show links`)" } else { "" };
    miette!(help = format!("name one: {}{more}", named.join(", ")), "`{word}` is a node, and has {} links", links.len())
}

/// As `ip link set` has them.
fn is_carrier(word: &str) -> bool {
    matches!(word, "up" | "down")
}

fn carrier_is_no_key(link: &LinkArg, word: &str) -> Report {
    let ends = [Some(link.a.clone()), link.b.clone(), link.number.map(|number| number.to_string())];
    let ends: Vec<String> = ends.into_iter().flatten().filter(|end| end != word).collect();
    miette!(
        help = format!("`heddle link {word} {}`", ends.join(" ")),
        "`{word}` is no key of a link: cables are plugged in and pulled by commands of their own"
    )
}

fn set_carrier(instance: &Instance, link: &LinkArg, up: bool, format: Format) -> Result<(), Report> {
    let now = definition(instance)?;
    let (a, b, number) = ends(&now.topology, link)?;
    let set = instance.set_link(a, b, number, up).map_err(explain)?;
    let state = if set.up { "up" } else { "down" };
    match format {
        Format::Table => {
            let was = if set.changed == 0 { " already" } else { "" };
            let is = if set.links.len() == 1 { "is" } else { "are" };
            put(&format!("{} {is} {state}{was}\n", set.links.join(", ")))
        }
        Format::Json => print_json(&set),
        Format::Csv => {
            let mut rows = Rows::new(&["link", "state"]);
            for link in &set.links {
                rows.push([json!(link), json!(state)]);
            }
            put(&rows.render(format))
        }
    }
}

/// Changes links, and shows what they do then.
fn change_links(instance: &Instance, link: &LinkArg, change: &LinkChange, format: Format) -> Result<(), Report> {
    let now = definition(instance)?;
    if let Some(word) = link.b.as_deref().filter(|word| is_carrier(word) && now.topology.node(word).is_none()) {
        return Err(carrier_is_no_key(link, word));
    }
    let ends = ends(&now.topology, link)?;
    if !change.is_empty() {
        for link in links_of(&now, ends)? {
            let does = &now.topology.links[link];
            let does = (does.spec, does.back);
            let seen = if begins_at(&now.topology, link, ends.0) { does } else { turn(&does) };
            change.of(&seen, now.topology.has_host(link))?;
        }
        let (a, b, number) = ends;
        instance.change_link(a, b, number, change).map_err(explain)?;
    }
    show_links(instance, ends, format)
}

fn links_of(fabric: &Fabric, (a, b, number): LinkEnds<'_>) -> Result<Vec<LinkId>, Report> {
    find_links(&fabric.topology, a, b, number).map_err(|error| explain(error.into()))
}

/// Shows what the links do: as a table, in the words that set it; else as `show links` does.
fn show_links(instance: &Instance, names: LinkEnds<'_>, format: Format) -> Result<(), Report> {
    let (made_of, now) = definitions(instance)?;
    let Status { changed_links: changed, file, .. } = instance.status().map_err(explain)?;
    // Of a network in a word, that is what says it.
    let file = if file.starts_with("--topo") { harmless(&file) } else { "the file".to_owned() };
    let links = links_of(&now, names)?;
    let counters = instance.counters().map_err(explain)?;
    if format != Format::Table {
        return put(&show::links(&now, Some(&counters), |link| links.contains(&link), format).render(format));
    }
    let mut lines = String::new();
    for link in links {
        let [before, after] = [&made_of, &now].map(|fabric| link_keys_both(&fabric.topology.links[link]));
        let is_up = counters.links.get(usize::from(link)).is_none_or(|link| link.up);
        let ends = [Side::A, Side::B].map(|side| now.topology.links[link].end(side).node);
        let ends = ends.map(|node| now.topology.nodes[node].name.as_str());
        let does = if after.is_empty() { "as fast as the machine goes".to_owned() } else { by_direction(&after, ends) };
        let state = if is_up { "up" } else { "down" };
        let _ = write!(lines, "{} is {state}: {does}", now.topology.numbered_link_name(link));
        let otherwise = otherwise(&before, &after);
        if !otherwise.is_empty() {
            let _ = write!(lines, "; {file} says {}", by_direction(&otherwise, ends));
        }
        let waiting = waiting(&made_of, &changed, link)?;
        if !waiting.is_empty() {
            let _ = write!(lines, "; with a rate again {}", words(&waiting));
        }
        lines.push('\n');
    }
    put(&fitting(&lines))
}

/// What was changed about a link that has no rate, and is of use only with one.
fn waiting(made_of: &Fabric, changed: &[ChangedLink], link: LinkId) -> Result<Vec<(String, String)>, Report> {
    let topology = &made_of.topology;
    let [a, b] = [Side::A, Side::B].map(|side| topology.nodes[topology.links[link].end(side).node].name.as_str());
    let is_it = |other: &&ChangedLink| (&*other.a, &*other.b, other.number) == (a, b, topology.link_number(link));
    let change = changed.iter().find(is_it).map(|changed| &changed.change);
    let keys = change.map(|change| change.waiting(&topology.links[link].spec)).transpose()?.unwrap_or_default();
    Ok(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// What was there before of the keys that differ in any direction, in the order of the file's keys.
fn otherwise(before: &[(String, String)], after: &[(String, String)]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (key, _) in LinkChange::KEYS {
        let back = format!("back.{key}");
        let [was, is] = [before, after].map(|keys| (value(keys, key), value(keys, &back)));
        if was != is {
            found.push(((*key).to_owned(), was.0.unwrap_or("none").to_owned()));
            found.extend(was.1.map(|value| (back, value.to_owned())));
        }
    }
    found
}

fn value<'a>(keys: &'a [(String, String)], key: &str) -> Option<&'a str> {
    keys.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
}

/// Keys and their values with the direction that they are of: `delay=1ms both ways; rate=50Mbit h1 -> s1; rate=10Mbit s1 -> h1`.
fn by_direction(keys: &[(String, String)], [a, b]: [&str; 2]) -> String {
    let [mut both, mut there, mut back] = [const { Vec::new() }; 3];
    for (key, _) in LinkChange::KEYS {
        match (value(keys, key), value(keys, &format!("back.{key}"))) {
            (None, None) => {}
            (Some(value), None) => both.push(format!("{key}={value}")),
            (value, Some(of_back)) => {
                there.push(format!("{key}={}", value.unwrap_or("none")));
                back.push(format!("{key}={of_back}"));
            }
        }
    }
    let parts = [(both, "both ways".to_owned()), (there, format!("{a} -> {b}")), (back, format!("{b} -> {a}"))];
    let parts = parts.iter().filter(|(words, _)| !words.is_empty());
    parts.map(|(words, direction)| format!("{} {direction}", words.join(" "))).collect::<Vec<_>>().join("; ")
}

fn words(keys: &[(String, String)]) -> String {
    keys.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_file_says_otherwise_is_named() {
        let keys = |words: &[(&str, &str)]| -> Vec<(String, String)> {
            words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let before = keys(&[("rate", "1Gbit"), ("delay", "1ms")]);
        let after = keys(&[("rate", "1Gbit"), ("delay", "2ms"), ("loss", "1%")]);
        assert_eq!(words(&otherwise(&before, &after)), "delay=1ms loss=none");
        assert_eq!(words(&otherwise(&after, &after)), "");
        let back = keys(&[("rate", "1Gbit"), ("delay", "1ms"), ("back.rate", "1Mbit")]);
        assert_eq!(
            (words(&otherwise(&back, &before)), words(&otherwise(&before, &back))),
            ("rate=1Gbit back.rate=1Mbit".to_owned(), "rate=1Gbit".to_owned())
        );
        let said = |keys| by_direction(keys, ["h1", "s1"]);
        assert_eq!(said(&before), "rate=1Gbit delay=1ms both ways");
        assert_eq!(said(&back), "delay=1ms both ways; rate=1Gbit h1 -> s1; rate=1Mbit s1 -> h1");
        assert_eq!(said(&keys(&[("back.loss", "1%")])), "loss=none h1 -> s1; loss=1% s1 -> h1");
    }
}
