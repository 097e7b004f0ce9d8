//! What is wrong with a command line, in the form of all other errors: what it is, and what to do about it.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, ValueEnum};
use miette::{Report, miette};

use crate::cli::{Cli, ShowTopic};
use crate::output::harmless;

/// The error of a command line as others are shown; `None`: it is none, or one that clap explains at length, as with all of its help.
pub fn explain(error: &clap::Error, line: &[OsString]) -> Option<Report> {
    let words = |kind: ContextKind| words(error.get(kind));
    let word = |kind: ContextKind| words(kind).into_iter().next().unwrap_or_default();
    let (usage, command) = usage(&word(ContextKind::Usage));
    let listed = format!("`{command} --help` lists what there is");
    // The last one is the nearest.
    let meant = |kind: ContextKind| words(kind).last().map(|near| format!("did you mean `{near}`?"));
    let argument = word(ContextKind::InvalidArg);
    let value = word(ContextKind::InvalidValue);
    let (message, hint) = match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            let missing = words(ContextKind::InvalidArg).iter().map(|word| choice(word)).collect::<Vec<_>>();
            let missing = missing.join(" and ");
            (format!("`{command}` needs {missing}"), format!("`{usage}`; `{command} --help` says more"))
        }
        ErrorKind::InvalidSubcommand => {
            let said = word(ContextKind::InvalidSubcommand);
            let of = command.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
            let behind = behind(line, &said);
            let known = state_behind(&of, &said, &behind).or_else(|| elsewhere(&of, &said, &behind));
            let known = known.or_else(|| meant(ContextKind::SuggestedSubcommand));
            let known = known.or_else(|| in_node(&of, &said));
            (format!("there is no command `{said}`"), known.unwrap_or(listed))
        }
        ErrorKind::UnknownArgument => {
            let message = if argument.starts_with('-') {
                format!("`{command}` has no option `{argument}`")
            } else {
                format!("`{command}` takes no `{argument}` there")
            };
            let near = shell_of(&command, &argument, line).or_else(|| iperf_of(&command, &argument, line));
            let near = near.or_else(|| meant(ContextKind::SuggestedArg));
            let near = near.or_else(|| near_option(&command, &argument));
            (message, near.unwrap_or(format!("`{usage}`; {listed}")))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let known = words(ContextKind::ValidValue);
            let hint = if known.is_empty() { "write one behind it".to_owned() } else { one_of(&known) };
            (format!("`{argument}` has no value"), hint)
        }
        ErrorKind::InvalidValue
            if is_topic(&words(ContextKind::ValidValue)) && elsewhere("show", &value, &[]).is_some() =>
        {
            (format!("`heddle show` has no `{value}`"), elsewhere("show", &value, &[]).unwrap_or_default())
        }
        ErrorKind::InvalidValue => {
            let known = one_of(&words(ContextKind::ValidValue));
            let hint =
                meant(ContextKind::SuggestedValue).map_or_else(|| known.clone(), |meant| format!("{meant} {known}"));
            (format!("`{value}` can't be `{argument}`"), hint)
        }
        ErrorKind::ValueValidation => {
            // The standard library's words are about digits.
            let number = error.source().and_then(|why| why.downcast_ref::<ParseIntError>()).map(ParseIntError::kind);
            let why = match number {
                Some(IntErrorKind::PosOverflow) => ": it is too large".to_owned(),
                Some(_) => ": expected a whole number".to_owned(),
                None => error.source().map(|why| format!(": {why}")).unwrap_or_default(),
            };
            (format!("`{value}` can't be `{argument}`{why}"), String::new())
        }
        ErrorKind::ArgumentConflict => {
            let others = words(ContextKind::PriorArg);
            let message = if others.is_empty() || others == [argument.as_str()] {
                format!("`{argument}` cannot be given twice")
            } else {
                format!("`{argument}` cannot be used with {}", quoted(&others, " and "))
            };
            (message, format!("`{usage}`; leave one of them out"))
        }
        _ => return None,
    };
    let message = harmless(&message);
    Some(if hint.is_empty() { miette!("{message}") } else { miette!(help = harmless(&hint), "{message}") })
}

/// What to write where a node stands in the place of a command, as Mininet has it: `h1 ping h2`. Which nodes there are, a network would have to say; most are called so.
fn in_node(of: &str, said: &str) -> Option<String> {
    let letters = said.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_node = letters.len() < said.len() && !letters.is_empty() && letters.len() <= NODE_LETTERS_MAX;
    if !of.is_empty() || !is_node || !letters.bytes().all(|letter| letter.is_ascii_lowercase()) {
        return None;
    }
    Some(match letters {
        "s" | "leaf" | "spine" => format!("`heddle flow show {said}`, `heddle port show {said}`"),
        _ => format!(
            "a host's programs are run by `heddle exec {said} COMMAND`; `heddle ping {said} HOST`, `heddle shell {said}`"
        ),
    })
}

/// Hosts and switches have names of a few letters and a number.
const NODE_LETTERS_MAX: usize = 8;

/// The option of a command that is written nearly so: clap sees no swapped letters in short ones.
fn near_option(command: &str, said: &str) -> Option<String> {
    let mut of = &Cli::command();
    for word in command.split_whitespace().skip(1) {
        of = of.find_subcommand(word)?;
    }
    let options: Vec<&str> = of.get_arguments().filter_map(clap::Arg::get_long).collect();
    let near = fabric::nearest(said.strip_prefix("--")?, options)?;
    Some(format!("did you mean `--{near}`?"))
}

/// What is done by another command than that in which it is looked for: what it is looked for in (empty: the program itself), by which words (those of other tools, too), and where it is.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    ("", &["status", "ps", "networks"], "heddle list"),
    ("", &["start", "deploy", "create"], "heddle up FILE"),
    ("", &["stop", "destroy", "delete", "remove", "rm", "kill", "exit", "quit"], "heddle down"),
    ("", &["restart", "reload", "redeploy", "apply"], "heddle up FILE"),
    ("", &["validate", "verify", "lint"], "heddle check FILE"),
    ("", &["pingall", "pingallfull", "pingpair"], "heddle ping --all"),
    ("", &["iperfudp"], "heddle iperf HOST HOST --udp"),
    ("", &["nodes", "hosts", "switches", "net", "dump", "inspect"], "heddle show nodes"),
    ("", &["links"], "heddle show links"),
    ("", &["ports", "interfaces", "interface", "intfs", "ifconfig"], "heddle port show"),
    ("", &["dpctl", "ovs-ofctl"], "heddle flow show"),
    ("", &["netem"], "heddle link set NODE NODE delay=10ms"),
    ("", &["init"], "heddle new NAME"),
    ("", &["save", "convert"], "heddle import FILE"),
    ("", &["routes"], "heddle show routes"),
    ("", &["flows"], "heddle show flows"),
    ("", &["dump-flows"], "heddle flow show SWITCH"),
    ("", &["add-flow", "add-flows"], "heddle flow add SWITCH FLOW"),
    ("", &["del-flows"], "heddle flow del SWITCH"),
    ("", &["add-port"], "heddle port add SWITCH NAME DEVICE"),
    ("", &["del-port"], "heddle port del SWITCH NAME"),
    ("", &["ovs-vsctl"], "heddle port show"),
    ("", &["arp"], "heddle exec HOST ip neigh"),
    ("", &["groups"], "heddle group show"),
    ("", &["meters"], "heddle show meters"),
    ("", &["counters", "stats", "top"], "heddle show counters --watch"),
    ("", &["services"], "heddle show services"),
    ("", &["programs"], "heddle show programs"),
    ("", &["bonds"], "heddle show bonds"),
    ("", &["chains", "chain"], "heddle show chains"),
    ("", &["macs", "mac", "fdb"], "heddle show macs"),
    ("", &["traceroute"], "heddle path HOST HOST"),
    ("", &["tcpdump", "sniff", "tshark"], "heddle capture NODE"),
    ("", &["console", "attach", "xterm", "bash"], "heddle shell HOST"),
    ("", &["ssh"], "heddle shell HOST"),
    ("program", &["list", "ls", "show", "status", "ps"], "heddle show programs"),
    ("program", &["log", "logs"], "heddle logs HOST PROGRAM"),
    ("service", &["list", "ls", "show", "status"], "heddle show services"),
    ("service", &["undrain"], "heddle service enable SERVICE SERVER"),
    ("link", &["list", "ls", "status"], "heddle show links"),
    ("port", &["status"], "heddle port show"),
    ("port", &["down", "up"], "heddle link down NODE NODE"),
    ("flow", &["dump", "dump-flows", "status"], "heddle flow show"),
    ("group", &["dump", "status"], "heddle group show"),
    ("meter", &["dump", "status"], "heddle meter show"),
    ("show", &["hosts", "host", "switches", "switch", "addresses", "guests", "vms"], "heddle show nodes"),
    ("show", &["arp", "neigh", "neighbors", "neighbours"], "heddle exec HOST ip neigh"),
    ("show", &["ip", "addr", "address", "ips"], "heddle show nodes"),
    ("show", &["ports", "port", "interfaces", "interface", "intfs", "intf", "devices"], "heddle port show"),
    ("show", &["groups", "group"], "heddle group show"),
    ("show", &["networks", "network", "fabrics"], "heddle list"),
    ("show", &["topology", "graph"], "heddle graph"),
    ("show", &["stats", "statistics", "traffic"], "heddle show counters"),
    ("show", &["logs", "log"], "heddle logs"),
    ("show", &["path", "paths"], "heddle path HOST HOST"),
];

/// What is done by the file: what it is looked for in, by which words, and what to write there.
const IN_FILE: &[(&str, &[&str], &str)] = &[
    (
        "",
        &["add-br", "add-switch", "addSwitch"],
        "a switch is in the file, `nodes: { s1: switch }`: write it there, then `heddle up FILE`",
    ),
    ("", &["del-br"], "a switch is in the file, under `nodes:`: take it out there, then `heddle up FILE`"),
    (
        "",
        &["add-host", "addHost"],
        "a host is in the file, `nodes: { h1: host }`: write it there, then `heddle up FILE`",
    ),
    (
        "link",
        &["add"],
        "a link is in the file, `links: [{ between: [h1, s1] }]`: write it there, then `heddle up FILE`",
    ),
    (
        "link",
        &["del", "delete", "remove", "rm"],
        "a link is in the file, under `links:`: take it out there, then `heddle up FILE`; `heddle link down NODE NODE` pulls its cable",
    ),
];

/// Where something is that was looked for in a command below the program; `behind` are the words that stand behind it, as far as there are no options among them.
fn elsewhere(command: &str, word: &str, behind: &[String]) -> Option<String> {
    let is_it = |of: &str, words: &[&str]| of == command && words.contains(&word);
    if let Some((_, _, said)) = IN_FILE.iter().find(|(of, words, _)| is_it(of, words)) {
        return Some(with_words(said, behind, &["NODE"]));
    }
    let (_, _, at) = ELSEWHERE.iter().find(|(of, words, _)| is_it(of, words))?;
    Some(format!("`{}`", with_words(at, behind, &["NODE", "HOST", "SWITCH", "FILE", "NAME", "DEVICE", "FLOW"])))
}

/// The command with what stands on the command line in the places of these words in capitals, as far as it goes.
fn with_words(command: &str, words: &[String], places: &[&str]) -> String {
    let mut words = words.iter();
    let filled = command.split(' ').map(|word| {
        let bare = word.trim_end_matches(['`', ';', ':', ',']);
        let own = words.as_slice().first().filter(|_| places.contains(&bare));
        own.map_or_else(
            || word.to_owned(),
            |own| {
                words.next();
                word.replacen(bare, own, 1)
            },
        )
    });
    filled.collect::<Vec<_>>().join(" ")
}

/// The words that stand behind one on the command line; none if there are options among them, of which nobody knows which words are theirs.
fn behind(line: &[OsString], word: &str) -> Vec<String> {
    let words = line.iter().map(|word| word.to_string_lossy().into_owned());
    let behind: Vec<String> = words.skip_while(|other| other != word).skip(1).collect();
    let is_plain = |word: &String| {
        !word.starts_with('-')
            && !word.is_empty()
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "._/:@-".contains(c))
    };
    if behind.iter().all(is_plain) { behind } else { Vec::new() }
}

/// Mininet's order: `link s1 h1 down`.
fn state_behind(of: &str, a: &str, behind: &[String]) -> Option<String> {
    let [b, state] = behind else { return None };
    (of == "link" && ["up", "down"].contains(&state.as_str())).then(|| format!("`heddle link {state} {a} {b}`"))
}

/// iperf's options: here both ends are named, and both are started.
fn iperf_of(command: &str, option: &str, line: &[OsString]) -> Option<String> {
    if command != "heddle iperf" || !["-c", "-s", "--client", "--server"].contains(&option) {
        return None;
    }
    let words = line.iter().skip(2).map(|word| word.to_string_lossy());
    let hosts: Vec<String> = words
        .take_while(|word| !word.starts_with("--"))
        .filter(|word| !word.starts_with('-'))
        .map(Into::into)
        .collect();
    let (from, to) = match &hosts[..] {
        [to] => ("HOST", to.as_str()),
        [from, to] => (from.as_str(), to.as_str()),
        _ => ("HOST", "HOST"),
    };
    Some(format!("both ends are started by one command, from the first host to the second: `heddle iperf {from} {to}`"))
}

/// A shell's `-c`: `heddle shell` is for somebody who types.
fn shell_of(command: &str, option: &str, line: &[OsString]) -> Option<String> {
    if command != "heddle shell" || option != "-c" {
        return None;
    }
    let words: Vec<String> = line.iter().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    let host = words.iter().find(|word| !word.starts_with('-')).map_or("HOST", String::as_str);
    let said = words.iter().skip_while(|word| *word != "-c").nth(1).map_or("..", String::as_str);
    let quoted = said.replace('\'', "'\\''");
    Some(format!("a command without somebody who types is `heddle exec {host} -- sh -c '{quoted}'`"))
}

/// Whether these are what `heddle show` takes.
fn is_topic(values: &[String]) -> bool {
    let topics = ShowTopic::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    topics.map(|topic| topic.get_name().to_owned()).eq(values.iter().cloned())
}

/// A command line in which the network that is named before the command stands behind it, where commands take it.
pub fn with_network_behind(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut line = line.peekable();
    let mut before: Vec<OsString> = line.next().into_iter().collect();
    let mut network: Vec<OsString> = Vec::new();
    while let Some(option) = line.next_if(|word| word.as_encoded_bytes().starts_with(b"-")) {
        let text = option.to_string_lossy().into_owned();
        let is_network = ["-n", "--name", "--network"].contains(&text.as_str()) || text.starts_with("--name=");
        let takes_value = ["-n", "--name", "--network", "-o", "--output"].contains(&text.as_str());
        let of = if is_network { &mut network } else { &mut before };
        of.push(option);
        of.extend(line.next_if(|_| takes_value));
    }
    before.extend(line.next());
    before.into_iter().chain(network).chain(line).collect()
}

fn words(value: Option<&ContextValue>) -> Vec<String> {
    match value {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        Some(ContextValue::StyledStrs(texts)) => texts.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

fn quoted(words: &[String], between: &str) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
}

fn one_of(words: &[String]) -> String {
    format!("there are {}", words.join(", "))
}

/// One of several in words: `<FILE|--topo <TOPOLOGY>>` is `FILE or --topo TOPOLOGY`.
fn choice(argument: &str) -> String {
    let Some(inner) = argument.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).filter(|it| it.contains('|'))
    else {
        return argument.to_owned();
    };
    inner.replace(['<', '>'], "").split('|').collect::<Vec<_>>().join(" or ")
}

/// The line of usage, and the command that it is of. It is the same whichever network is named.
fn usage(text: &str) -> (String, String) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "Usage:");
    let lines = lines.map(|line| line.strip_prefix("Usage: ").unwrap_or(line));
    let lines = lines.map(|line| line.replace(" --name <NETWORK>", "").replace(" [OPTIONS]", ""));
    let line = lines.collect::<Vec<_>>().join("` or `");
    let is_command = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let command = line.split_whitespace().take_while(is_command).collect::<Vec<_>>().join(" ");
    let command = if command.is_empty() { env!("CARGO_PKG_NAME").to_owned() } else { command };
    (line, command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser as _;

    fn said(line: &str) -> (String, String) {
        let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let report = explain(&error, &words).unwrap_or_else(|| panic!("{line}: {error}"));
        (report.to_string(), report.help().map(|hint| hint.to_string()).unwrap_or_default())
    }

    #[test]
    fn each_says_what_is_wrong_and_what_to_do() {
        for (line, message, hint) in [
            ("heddle run", "`heddle run` needs <FILE>", "`heddle run <FILE>`; `heddle run --help` says more"),
            ("heddle rnu lab", "there is no command `rnu`", "`heddle --help` lists what there is"),
            ("heddle run lab --smi", "`heddle run` has no option `--smi`", "did you mean `--sim`?"),
            ("heddle validate lab", "there is no command `validate`", "`heddle check lab`"),
            ("heddle validate", "there is no command `validate`", "`heddle check FILE`"),
            ("heddle dump", "there is no command `dump`", "`heddle show nodes`"),
            ("heddle destroy", "there is no command `destroy`", "`heddle down`"),
            ("heddle chek lab", "there is no command `chek`", "did you mean `check`?"),
            ("heddle up --topp tree,3", "`heddle up` has no option `--topp`", "did you mean `--topo`?"),
            ("heddle up --bogus", "`heddle up` has no option `--bogus`", "`heddle up --help` lists what there is"),
            ("heddle list more", "`heddle list` takes no `more` there", "`heddle list --help`"),
            ("heddle h1 ping h2", "there is no command `h1`", "`heddle exec h1 COMMAND`; `heddle ping h1 HOST`"),
            ("heddle s1 dump", "there is no command `s1`", "`heddle flow show s1`, `heddle port show s1`"),
            ("heddle show interfaces", "`heddle show` has no `interfaces`", "`heddle port show`"),
            ("heddle show linkz", "`linkz` can't be `<TOPIC>`", "did you mean `links`? there are nodes, links"),
            ("heddle show links -o yaml", "`yaml` can't be `--output <OUTPUT>`", "there are table, json, csv"),
            ("heddle show links -o", "`--output <OUTPUT>` has no value", "there are table, json, csv"),
            ("heddle ping h1 h2 --count x", "`x` can't be `--count <N>`: ", ""),
            ("heddle run f.yaml --sim --live", "`--sim` cannot be used with `--live`", "leave one of them out"),
            ("heddle up", "`heddle up` needs FILE or --topo TOPOLOGY", "`heddle up --help` says more"),
            (
                "heddle ping -n lab",
                "`heddle ping` needs <FROM>",
                "`heddle ping <FROM> <TO>` or `heddle ping --all`; `heddle ping --help`",
            ),
            ("heddle ping h1", "`heddle ping` needs <TO>", "`heddle ping <FROM> <TO>` or `heddle ping --all`; "),
            ("heddle exec -n lab h1", "`heddle exec` needs <COMMAND>", "`heddle exec <HOST> <COMMAND>...`"),
            ("heddle exec h1", "`heddle exec` needs <COMMAND>", "`heddle exec <HOST> <COMMAND>...`"),
            ("heddle program list", "there is no command `list`", "`heddle show programs`"),
            ("heddle program status", "there is no command `status`", "`heddle show programs`"),
            ("heddle service list", "there is no command `list`", "`heddle show services`"),
            ("heddle link list", "there is no command `list`", "`heddle show links`"),
            ("heddle stop", "there is no command `stop`", "`heddle down`"),
            ("heddle show hosts", "`heddle show` has no `hosts`", "`heddle show nodes`"),
            ("heddle show ports", "`heddle show` has no `ports`", "`heddle port show`"),
            ("heddle logs h1 --tail x", "`x` can't be `--tail <LINES>`: expected a whole number", ""),
            (
                "heddle logs h1 --tail 99999999999999999999",
                "`99999999999999999999` can't be `--tail <LINES>`: it is too large",
                "",
            ),
            (
                "heddle run a --seed 18446744073709551616",
                "`18446744073709551616` can't be `--seed <N>`: 18446744073709551615 is the most",
                "",
            ),
            ("heddle run a --seed x", "`x` can't be `--seed <N>`: expected a whole number, not negative", ""),
            ("heddle add-port s1 p1 eth0", "there is no command `add-port`", "`heddle port add s1 p1 eth0`"),
            (
                "heddle add-br s1",
                "there is no command `add-br`",
                "`nodes: { s1: switch }`: write it there, then `heddle up FILE`",
            ),
            ("heddle dump-flows s1", "there is no command `dump-flows`", "`heddle flow show s1`"),
            ("heddle dump-flows", "there is no command `dump-flows`", "`heddle flow show SWITCH`"),
            ("heddle traceroute h1 h2", "there is no command `traceroute`", "`heddle path h1 h2`"),
            ("heddle xterm h1", "there is no command `xterm`", "`heddle shell h1`"),
            ("heddle tcpdump -i h1-eth0", "there is no command `tcpdump`", "`heddle capture NODE`"),
            ("heddle show arp", "`heddle show` has no `arp`", "`heddle exec HOST ip neigh`"),
            ("heddle show ip", "`heddle show` has no `ip`", "`heddle show nodes`"),
            ("heddle link s1 s2 down", "there is no command `s1`", "`heddle link down s1 s2`"),
            ("heddle link s1 s2 up", "there is no command `s1`", "`heddle link up s1 s2`"),
            (
                "heddle link del s1 s2",
                "there is no command `del`",
                "then `heddle up FILE`; `heddle link down s1 s2` pulls",
            ),
            ("heddle link add s1 s2", "there is no command `add`", "`links: [{ between: [h1, s1] }]`: write it there"),
            ("heddle iperf -c h2", "`heddle iperf` has no option `-c`", "`heddle iperf HOST h2`"),
            ("heddle iperf h1 -c h2", "`heddle iperf` has no option `-c`", "`heddle iperf h1 h2`"),
            ("heddle iperf -s", "`heddle iperf` has no option `-s`", "`heddle iperf HOST HOST`"),
            ("heddle shell c1 -c ls", "`heddle shell` has no option `-c`", "`heddle exec c1 -- sh -c 'ls'`"),
            ("heddle cluster gett /a", "there is no command `gett`", "did you mean `get`?"),
        ] {
            let (said, how) = said(line);
            assert!(said.starts_with(message) && how.contains(hint), "{line}: {said}; {how}");
        }
    }

    #[test]
    fn what_is_elsewhere_is_there() {
        // Of what is in the file, each command that is named.
        let in_file = IN_FILE.iter().flat_map(|(of, words, said)| {
            let commands = said.split('`').filter(|text| text.starts_with("heddle "));
            commands.map(move |command| (*of, *words, command))
        });
        for (of, words, at) in ELSEWHERE.iter().copied().chain(in_file) {
            // With two of whatever it takes, it is a command.
            let line = at.split_whitespace().map(|word| if word == word.to_uppercase() { "x" } else { word });
            assert!(Cli::try_parse_from(line).is_ok(), "{at}");
            for word in words {
                let line = ["heddle", of, word].into_iter().filter(|word| !word.is_empty());
                assert!(Cli::try_parse_from(line).is_err(), "{of} {word} is a command");
            }
        }
        for topic in ["link", "node", "flow", "service", "program"] {
            assert!(Cli::try_parse_from(["heddle", "show", topic]).is_ok(), "{topic}");
        }
        for of in ["flow", "group", "meter", "port"] {
            assert!(Cli::try_parse_from(["heddle", of, "list"]).is_ok(), "{of}");
        }
    }

    #[test]
    fn the_network_may_be_named_before_the_command() {
        let behind = |line: &str| {
            let line = with_network_behind(line.split_whitespace().map(OsString::from));
            line.into_iter().map(|word| word.into_string().expect("text")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(behind("heddle -n lab show links"), "heddle show -n lab links");
        assert_eq!(behind("heddle -o json --name=lab -v link show h1"), "heddle -o json -v link --name=lab show h1");
        for same in ["heddle show -n lab links", "heddle", "heddle --help", "heddle exec h1 -- ping -n h2", "heddle -n"]
        {
            assert_eq!(behind(same), same);
        }
        for line in ["heddle -n lab show links", "heddle -n lab service drain web h2", "heddle --name lab exec h1 true"]
        {
            let line = with_network_behind(line.split_whitespace().map(OsString::from));
            assert!(Cli::try_parse_from(line).is_ok());
        }
    }

    /// What Docker's users add by habit changes nothing: a program has the terminal that it is started from, and a network is in the background.
    #[test]
    fn habits_do_no_harm() {
        for line in [
            "heddle exec -it h1 bash",
            "heddle exec -i h1 sh",
            "heddle up -d lab.fabric.yaml",
            "heddle up --detach lab",
            "heddle run lab --out folder",
            "heddle compare lab --output-dir folder",
        ] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_ok(), "{line}");
        }
    }

    #[test]
    fn help_is_left_to_clap() {
        for line in ["heddle --help", "heddle run --help", "heddle --version", "heddle"] {
            let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
            assert!(explain(&error, &[]).is_none(), "{line}");
        }
    }

    #[test]
    fn what_arguments_say_is_not_for_the_terminal() {
        let error = Cli::try_parse_from(["heddle", "\u{1b}[31mup"]).expect_err("there is none");
        let shown = explain(&error, &[]).expect("it is explained").to_string();
        assert!(shown.chars().all(|c| !c.is_control()), "{shown:?}");
    }
}
