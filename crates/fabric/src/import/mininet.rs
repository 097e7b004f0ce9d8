//! Mininet's custom topologies in their simple shape: calls of `addHost`, `addSwitch` and `addLink` with names and numbers that are written out. They are read as text; loops,
//! functions and computed names are not run, and said to be left out.

use std::collections::BTreeMap;

use super::line_of;
use super::network::{Link, Network, text_of};
use crate::addresses::Mac;
use crate::error::Problems;
use crate::read::shown;
use crate::source::{Lines, Place, Source};
use crate::tree::LONGEST_TEXT;
use crate::units;

/// A call with its arguments, as they are written.
struct Call<'a> {
    /// What its value is assigned to.
    target: Option<&'a str>,
    function: &'a str,
    arguments: Vec<&'a str>,
    line: Option<usize>,
}

/// What is known while the text is read.
#[derive(Default)]
struct Reading<'a> {
    /// Variables that are nodes.
    nodes: BTreeMap<&'a str, &'a str>,
    /// Variables that are options of links: `dict(bw=10)`.
    options: BTreeMap<&'a str, Vec<&'a str>>,
}

pub(super) fn read(source: &Source, problems: &mut Problems<'_>) -> Option<Network> {
    if source.text.len() > LONGEST_TEXT {
        let message = format!("the file has {} bytes, more than {LONGEST_TEXT}", source.text.len());
        problems.add(Place { offset: 0, len: 0 }, message, "too long", "leave out what is no topology");
        problems.show_until(0);
        return None;
    }
    let lines = Lines::of(&source.text);
    let (mut network, mut reading) = (Network::default(), Reading::default());
    // Indentation of loops that are open.
    let mut loops: Vec<usize> = Vec::new();
    for (offset, statement) in statements(&source.text) {
        let indent = statement.len() - statement.trim_start().len();
        let line = Some(line_of(&lines, Place { offset: offset + indent, len: 0 }));
        loops.retain(|outer| *outer < indent);
        let text = statement.trim();
        let is_loop = ["for ", "while "].iter().any(|word| text.starts_with(word));
        if is_loop {
            loops.push(indent);
        }
        let calls = ["addHost", "addSwitch", "addLink", "addController", "addNAT"];
        let is_about_us = calls.iter().any(|call| text.contains(&format!("{call}(")));
        if is_about_us && (!loops.is_empty() || text.contains(" for ")) {
            network.note(line, format!("`{}` in a loop, which is not run: write it out", shown(text)));
            continue;
        }
        let Some(call) = call(text, line) else {
            if is_about_us {
                network.note(line, format!("`{}` is not understood", shown(text)));
            }
            continue;
        };
        match call.function.rsplit('.').next().unwrap_or_default() {
            "addHost" | "addNode" => add_node(&call, true, &mut reading, &mut network),
            "addSwitch" => add_node(&call, false, &mut reading, &mut network),
            "addLink" => add_link(&call, &reading, &mut network),
            "addController" => network.leave_out(
                "controllers: switches forward along shortest paths from the first packet on",
                line,
                "the network",
            ),
            "addNAT" => network.note(line, "a way to the outside (`addNAT`)"),
            "dict" => {
                if let Some(target) = call.target {
                    let mut options = call.arguments;
                    if options.len() > OPTIONS_MAX {
                        network.note(line, format!("of `{}`, all but the first {OPTIONS_MAX} options", shown(target)));
                        options.truncate(OPTIONS_MAX);
                    }
                    reading.options.insert(target, options);
                }
            }
            _ => {}
        }
    }
    Some(network)
}

/// So many options one `dict` has: each link that takes them has them all.
const OPTIONS_MAX: usize = 64;

/// Logical lines, each from its indentation on: what is within brackets or quotes goes on on the next one. Comments are left out.
fn statements(text: &str) -> Vec<(usize, &str)> {
    let mut statements = Vec::new();
    let (mut start, mut depth, mut quote, mut comment_at) = (0, 0_u32, None::<&str>, None::<usize>);
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let c = rest.chars().next().unwrap_or('\n');
        let width = c.len_utf8();
        if let Some(end) = quote {
            if c == '\\' {
                at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
            if rest.starts_with(end) || (c == '\n' && end.len() == 1) {
                quote = None;
                at += if c == '\n' { 0 } else { end.len() };
                continue;
            }
        } else if comment_at.is_some() && c != '\n' {
        } else {
            match c {
                '"' | '\'' => {
                    let triple = if c == '"' { "\"\"\"" } else { "'''" };
                    let mark = if rest.starts_with(triple) { triple } else { &triple[..1] };
                    quote = Some(mark);
                    at += mark.len();
                    continue;
                }
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                '#' => comment_at = Some(at),
                ';' if depth == 0 => {
                    statements.push((start, &text[start..at]));
                    start = at + 1;
                }
                '\n' if depth == 0 => {
                    statements.push((start, &text[start..comment_at.unwrap_or(at)]));
                    (start, comment_at) = (at + 1, None);
                }
                // A comment within brackets stands among the arguments, which are cut at it.
                '\n' => comment_at = None,
                _ => {}
            }
        }
        at += width;
    }
    statements.push((start, &text[start..comment_at.unwrap_or(text.len())]));
    statements.retain(|(_, statement)| !statement.trim().is_empty());
    statements
}

/// `x = self.addHost( 'h1', ip='10.0.0.1' )`.
fn call(text: &str, line: Option<usize>) -> Option<Call<'_>> {
    let open = text.find('(')?;
    let before = &text[..open];
    let (target, function) = match before.rsplit_once('=') {
        Some((target, function)) => (Some(target.trim()), function.trim()),
        None => (None, before.trim()),
    };
    let is_path = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.') && !text.is_empty();
    if !is_path(function) || target.is_some_and(|target| !is_path(target)) {
        return None;
    }
    let end = text.rfind(')').filter(|end| *end > open)?;
    Some(Call { target, function, arguments: arguments(&text[open + 1..end]), line })
}

/// What commas part, outside of brackets and quotes. Comments are left out.
fn arguments(text: &str) -> Vec<&str> {
    let (mut all, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    let (mut end, mut in_comment) = (None, false);
    for (at, c) in text.char_indices() {
        if in_comment {
            in_comment = c != '\n';
            // Nothing stands before the comment: what stands behind it is the argument.
            if !in_comment && end.is_some_and(|end: usize| text[start..end].trim().is_empty()) {
                (start, end) = (at + 1, None);
            }
            continue;
        }
        match (quote, c) {
            (None, '#') => {
                in_comment = true;
                if depth == 0 {
                    end.get_or_insert(at);
                }
            }
            (Some(end), c) if c == end => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                all.push(text[start..end.take().unwrap_or(at)].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(text[start..end.unwrap_or(text.len())].trim());
    all.retain(|argument| !argument.is_empty());
    all
}

/// What stands between quotes, if nothing is computed.
fn literal(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote) && !inner.contains('\\')).then_some(inner)
}

/// `name=value`, if it is that.
fn keyword(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    (name.chars().all(|c| c.is_alphanumeric() || c == '_') && !value.starts_with('=')).then(|| (name, value.trim()))
}

fn add_node<'a>(call: &Call<'a>, is_host: bool, reading: &mut Reading<'a>, network: &mut Network) {
    let Some(name) = call.arguments.first().and_then(|first| literal(first)) else {
        return network.note(call.line, "a node whose name is computed: write it out");
    };
    if !network.add_node(name, name, is_host) {
        return network.note(call.line, format!("`{}` is there twice", shown(name)));
    }
    if let Some(target) = call.target {
        reading.nodes.insert(target, name);
    }
    for (option, value) in call.arguments[1..].iter().filter_map(|argument| keyword(argument)) {
        let what = match (option, literal(value)) {
            // Hosts are neighbours whatever their prefix.
            ("ip", Some(address)) if is_host && ipv4(address).is_some() => {
                network.add_key(name, "ipv4", text_of(ipv4(address).unwrap_or_default()));
                continue;
            }
            ("mac", Some(mac)) if is_host && mac.parse::<Mac>().is_ok() => {
                network.add_key(name, "mac", text_of(mac));
                continue;
            }
            _ => option,
        };
        let what = match what {
            "ip" | "mac" => "addresses of hosts that are computed: `ipv4:` and `mac:` of a host set them",
            "defaultRoute" => "routes of hosts: in the file, `routes: [default via ADDRESS]` of a host",
            "cpu" | "cores" | "sched" => "limits of CPU",
            "dpid" | "protocols" | "failMode" | "stp" => "options of Open vSwitch",
            _ => "options of nodes that nothing here stands for",
        };
        network.leave_out(what, call.line, name);
    }
}

/// The address before a prefix.
fn ipv4(text: &str) -> Option<&str> {
    let address = text.split('/').next()?;
    address.parse::<std::net::Ipv4Addr>().ok().map(|_| address)
}

fn add_link<'a>(call: &Call<'a>, reading: &Reading<'a>, network: &mut Network) {
    let positional: Vec<&str> =
        call.arguments.iter().copied().filter(|text| keyword(text).is_none() && !text.starts_with("**")).collect();
    let named = |argument: &&str| {
        let name = reading.nodes.get(argument).copied().or_else(|| literal(argument));
        // `net.get('h1')`, `net['h1']`.
        let inside = || {
            let open = argument.find(['(', '['])?;
            literal(argument[open + 1..].trim_end_matches([')', ']']))
        };
        name.or_else(inside).and_then(|name| network.node(name))
    };
    let ends: Vec<Option<usize>> = positional.iter().take(2).map(named).collect();
    let [Some(a), Some(b)] = ends[..] else {
        return network.note(
            call.line,
            format!("a link between `{}`: no node of that name was read", shown(&positional.join(", "))),
        );
    };
    if a == b {
        return network.note(call.line, "a link from a node to itself");
    }
    if positional.len() > 2 {
        network.leave_out("numbers of ports (ports are numbered in the order of the links)", call.line, "links");
    }
    let mut given: Vec<&str> = Vec::new();
    for argument in &call.arguments {
        match argument.strip_prefix("**") {
            Some(variable) => match reading.options.get(variable.trim()) {
                Some(options) => given.extend(options),
                None => network.note(call.line, format!("options `{}` of a link, which are computed", shown(argument))),
            },
            None => given.push(argument),
        }
    }
    let mut keys = Vec::new();
    for (option, value) in given.into_iter().filter_map(keyword) {
        match link_key(option, value) {
            Ok(Some(key)) => keys.push(key),
            Ok(None) => {}
            Err(why) => network.note(call.line, format!("`{option}={}` of a link: {why}", shown(value))),
        }
    }
    if !keys.iter().any(|(key, _)| *key == "rate") && keys.iter().any(|(key, _)| *key == "queue") {
        keys.retain(|(key, _)| *key != "queue");
        network.note(call.line, "the queue of a link without a rate: nothing waits there");
    }
    network.add_link(Link { ends: (a, b), keys });
}

/// An option of Mininet's `TCLink`, as the fabric file has it.
fn link_key(option: &str, value: &str) -> Result<Option<(&'static str, String)>, &'static str> {
    let text = literal(value).unwrap_or(value);
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    // A plain number is of microseconds to tc.
    let time = || {
        let text = if number.is_some() { format!("{text}us") } else { text.to_owned() };
        units::span(&text).is_ok().then_some(text).ok_or("no time that is written out")
    };
    Ok(match option {
        "bw" => match number {
            Some(0.0) | None => return Err("no rate that is written out"),
            Some(mbit) => Some(("rate", format!("{mbit}Mbit"))),
        },
        "delay" => Some(("delay", time()?)),
        "jitter" => Some(("jitter", time()?)),
        "loss" => match number {
            Some(0.0) => None,
            Some(percent) if percent <= 100.0 => Some(("loss", format!("{percent}%"))),
            _ => return Err("no share that is written out"),
        },
        "max_queue_size" => match text.parse::<u32>() {
            Ok(packets @ 1..=1_000_000) => Some(("queue", packets.to_string())),
            _ => return Err("no number of packets that is written out"),
        },
        "cls" | "intf" | "port1" | "port2" | "intfName1" | "intfName2" | "use_htb" => None,
        "params1" | "params2" => return Err("addresses of further interfaces are `interfaces:` of a host in the file"),
        _ => return Err("nothing here stands for it"),
    })
}
