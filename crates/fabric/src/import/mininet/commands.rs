//! Commands that a program of Mininet runs in its hosts: those that set up a host are keys of it, those that go on are its programs.

use super::graph::{Change, Node};
use crate::addresses::Mac;

/// Whether what a command does is in the file.
pub fn apply(node: &mut Node, command: &str) -> bool {
    let command = command.trim();
    if command.is_empty() {
        return true;
    }
    // What one line does in turn is several commands.
    if command.contains("&&") || command.contains(';') || command.contains('\n') {
        let parts: Vec<&str> = command.split(['\n', ';']).flat_map(|part| part.split("&&")).collect();
        let mut tried = node.clone();
        let is_set_up = !command.ends_with('&') && parts.iter().all(|part| set_up(&mut tried, part));
        if is_set_up {
            *node = tried;
            return true;
        }
    } else if set_up(node, command) {
        return true;
    }
    let Some(goes_on) = command.strip_suffix('&').filter(|before| !before.ends_with('&')) else { return false };
    let goes_on = goes_on.trim();
    let name = program_name(node, goes_on);
    node.programs.push((name, format!("exec {goes_on}").replace("exec exec ", "exec ")));
    // A line of several commands is a shell's.
    if (goes_on.contains([';', '\n', '|']) || goes_on.contains("&&") || goes_on.starts_with(['(', '{']))
        && let Some((_, run)) = node.programs.last_mut()
    {
        goes_on.clone_into(run);
    }
    true
}

/// A name for a program: that of its file, once.
fn program_name(node: &Node, command: &str) -> String {
    let is_setting =
        |word: &&str| word.contains('=') || ["nohup", "sudo", "exec", "xterm", "-e", "time"].contains(word);
    let mut words = command.split_whitespace();
    let word = words.find(|word| !is_setting(word)).unwrap_or("program");
    let name: String =
        word.rsplit('/').next().unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
    let name = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("program{name}") };
    let name: String = name.to_lowercase().chars().take(24).collect();
    let is_taken = |name: &str| node.programs.iter().any(|(other, _)| other == name);
    if !is_taken(&name) {
        return name;
    }
    (2..=node.programs.len() + 2).map(|number| format!("{name}-{number}")).find(|name| !is_taken(name)).unwrap_or(name)
}

/// Sets up a host as a command of `sysctl`, `ip`, `ifconfig` or `route` does; false if it is none of those that are read here.
fn set_up(node: &mut Node, command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().filter(|word| !["sudo", "-w", "-q"].contains(word)).collect();
    match words[..] {
        [] | ["ifconfig", _, "up"] | ["ip", "link", "set", _, "up"] | ["ip", "link", "set", "dev", _, "up"] => {}
        ["ifconfig", device, "0"]
        | ["ip", "a" | "addr" | "address", "flush", "dev", device]
        | ["ip", "a" | "addr" | "address", "flush", device] => node.changes.push((device.to_owned(), Change::Flush)),
        ["ifconfig", device, "hw", "ether", mac]
        | ["ip", "link", "set", device, "address", mac]
        | ["ip", "link", "set", "dev", device, "address", mac] => return set_mac(node, device, mac),
        ["sysctl", setting] => {
            let Some((key, value)) = setting.split_once('=').filter(|(key, _)| key.starts_with("net.")) else {
                return false;
            };
            if ["net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding"].contains(&key) && value == "1" {
                node.forwards = true;
            } else if key != "net.ipv4.ip_forward" {
                node.sysctls.retain(|(other, _)| other != key);
                node.sysctls.push((key.to_owned(), value.to_owned()));
            }
        }
        ["echo", "1", ">", "/proc/sys/net/ipv4/ip_forward"] | ["echo", "1>", "/proc/sys/net/ipv4/ip_forward"] => {
            node.forwards = true;
        }
        ["ifconfig", device, address, ref rest @ ..] if address.contains('.') => {
            let prefix = match rest {
                [] | ["up"] => "",
                ["netmask", mask] | ["netmask", mask, "up"] => mask,
                _ => return false,
            };
            let Some(address) = with_prefix(address, prefix) else { return false };
            // A device's second name is for a second address.
            let change = match device.split_once(':') {
                Some((device, _)) => (device.to_owned(), Change::Further(address)),
                None => (device.to_owned(), Change::Address(address)),
            };
            node.changes.push(change);
        }
        ["ip", "a" | "addr" | "address", "add" | "replace", address, "dev", device]
        | ["ip", "a" | "addr" | "address", "add" | "replace", address, "brd" | "broadcast", _, "dev", device]
            if !address.contains(':') =>
        {
            node.changes.push((device.to_owned(), Change::Further(address.to_owned())));
        }
        ["ip", "r" | "route", "add" | "replace", to, "via", gateway]
        | ["ip", "r" | "route", "add" | "replace", to, "via", gateway, "dev", _] => add_route(node, to, gateway),
        ["route", "add", "default", "gw", gateway] | ["route", "add", "default", "gw", gateway, _] => {
            add_route(node, "default", gateway);
        }
        ["route", "add", "-net", to, "netmask", mask, "gw", gateway]
        | ["route", "add", "-net", to, "netmask", mask, "gw", gateway, _]
        | ["route", "add", "-net", to, "gw", gateway, "netmask", mask] => {
            let Some(to) = with_prefix(to, mask) else { return false };
            add_route(node, &to, gateway);
        }
        ["route", "add", "-net", to, "gw", gateway] | ["route", "add", "-net", to, "gw", gateway, _] => {
            add_route(node, to, gateway);
        }
        _ => return false,
    }
    true
}

/// False: it is no MAC address.
pub fn set_mac(node: &mut Node, device: &str, mac: &str) -> bool {
    let mac = mac.to_lowercase();
    let is_one = mac.parse::<Mac>().is_ok();
    node.changes.extend(is_one.then(|| (device.to_owned(), Change::Mac(mac))));
    is_one
}

/// Adds a route; the second way to the same place takes the first one's.
pub fn add_route(node: &mut Node, to: &str, gateway: &str) {
    let to = if to == "0.0.0.0/0" { "default" } else { to };
    node.routes.retain(|route| !route.starts_with(&format!("{to} ")));
    node.routes.push(format!("{to} via {gateway}"));
}

/// An address with a prefix, which may be written as a mask.
fn with_prefix(address: &str, mask: &str) -> Option<String> {
    if mask.is_empty() {
        return Some(address.to_owned());
    }
    let bits = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
    let prefix = bits.leading_ones();
    (prefix + bits.trailing_zeros() == u32::BITS).then(|| format!("{address}/{prefix}"))
}
