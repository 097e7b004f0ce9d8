//! What all of them have in common: nodes by their names there, links with what they do, and what is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Imported, Note, NoteKind, latin};
use crate::check::parse_made;
use crate::escape::escaped;
use crate::names::{canonical, is_name, reaches};
use crate::source::Source;

/// So many notes fit an error.
const NOTES_MAX: usize = 4;

/// The line of the file that is made on which the first node stands.
const FIRST_NODE_LINE: usize = 4;

/// The longest name of a node.
const NAME_MAX: usize = 63;

/// A network as another tool has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// Its name there.
    pub name: Option<String>,
    /// The MTU of all links, if it is said, and one that a fabric file can have.
    pub mtu: Option<u64>,
    nodes: Vec<Node>,
    by_key: BTreeMap<String, usize>,
    links: Vec<Link>,
    notes: Vec<Note>,
    /// Whether hosts that do not forward are known not to, and not only not to say so.
    says_who_forwards: bool,
    /// What many nodes or links have and is left out: in which lines, and of which.
    left_out: BTreeMap<String, LeftOut>,
}

/// What many nodes or links have that is not so here.
#[derive(Clone, Debug, Default)]
struct LeftOut {
    lines: BTreeSet<usize>,
    who: BTreeSet<String>,
    kind: NoteKind,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Its name there.
    name: String,
    is_host: bool,
    /// Keys and values as the fabric file has them, of a host.
    keys: Vec<(&'static str, String)>,
    /// Those that stand in the place of `interfaces`, if these do not fit.
    without_interfaces: Vec<(&'static str, String)>,
}

impl Node {
    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(other, _)| *other == key)
    }

    /// Takes away what stands at these places of its line and can go alone, routes and [`ALONE`]: each in the words of a note, with what was wrong there.
    fn take(&mut self, line: &str, wrong: &[(usize, String)]) -> Vec<(String, String)> {
        let mut taken = Vec::new();
        for at in (0..self.keys.len()).rev() {
            let (key, all) = self.keys[at].clone();
            let Some(begin) = line.find(&format!("{key}: {all}")).map(|begin| begin + key.len() + ": ".len()) else {
                continue;
            };
            let why = |from: usize, len: usize| {
                let (_, why) = wrong.iter().find(|(at, _)| (from..from + len).contains(at))?;
                Some(why.clone())
            };
            let Some(first) = why(begin, all.len()) else { continue };
            if ALONE.contains(&key) {
                self.keys.remove(at);
                taken.push((format!("`{key}: {all}`"), first));
            } else if key == "routes" {
                let (mut rest, mut from) = (Vec::new(), begin + 1);
                for route in all.trim_matches(['[', ']']).split(", ") {
                    match why(from, route.len()) {
                        Some(why) => taken.push((format!("the route `{}`", route.trim_matches('"')), why)),
                        None => rest.push(route),
                    }
                    from += route.len() + ", ".len();
                }
                if rest.is_empty() {
                    self.keys.remove(at);
                } else {
                    self.keys[at].1 = format!("[{}]", rest.join(", "));
                }
            }
        }
        taken
    }
}

/// So often keys of a host are taken one by one, and then all of them: each time the whole file is read.
const TAKEN_MAX: usize = 8;

/// Keys of a host of which the others do not depend.
const ALONE: [&str; 3] = ["files", "programs", "sysctls"];

/// What is left out of nodes that may route.
pub(super) fn routes_nothing(who: &str) -> String {
    format!(
        "{who} are switches, which forward frames along shortest paths and route nothing; between subnets, write a host that forwards, with an address for each link, as `r1: {{ kind: host, forward: true, interfaces: {{ h1: {{ ipv4: 10.0.1.254/24 }}, h2: {{ ipv4: 10.0.2.254/24 }} }} }}`"
    )
}

/// A link, as the file has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// The nodes, by number.
    pub ends: (usize, usize),
    /// Keys and values as the fabric file has them.
    pub keys: Vec<(&'static str, String)>,
    /// What is otherwise in the direction from the second node to the first.
    pub back: Vec<(&'static str, String)>,
}

impl Network {
    /// Whether there is no network in it.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Adds a node, which is known by `key` there; false if there is one already.
    pub fn add_node(&mut self, key: &str, name: &str, is_host: bool) -> bool {
        let number = self.nodes.len();
        if self.by_key.contains_key(key) {
            return false;
        }
        self.by_key.insert(key.to_owned(), number);
        self.nodes.push(Node { name: name.to_owned(), is_host, ..Node::default() });
        true
    }

    /// The number of the node that is known by `key`.
    pub fn node(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// What else a host has, in the words of the fabric file. If they do not fit there, all nodes go without.
    pub fn add_key(&mut self, node: &str, key: &'static str, value: String) {
        if let Some(number) = self.node(node)
            && !self.nodes[number].has(key)
        {
            self.nodes[number].keys.push((key, value));
        }
    }

    pub fn is_host(&self, node: usize) -> bool {
        self.nodes[node].is_host
    }

    /// The links of a host as interfaces of their own, and what it has if they do not fit.
    pub fn add_interfaces(&mut self, node: &str, interfaces: String, instead: Vec<(&'static str, String)>) {
        self.add_key(node, "interfaces", interfaces);
        if let Some(number) = self.node(node) {
            self.nodes[number].without_interfaces = instead;
        }
    }

    /// Has hosts of several links forward only if they say so, or the network falls apart.
    pub fn knows_who_forwards(&mut self) {
        self.says_who_forwards = true;
    }

    pub fn add_link(&mut self, link: Link) {
        self.links.push(link);
    }

    /// The first of what was noted, for an error that ends it all: `; line 3: ..; line 5: ..`.
    pub fn first_notes(&self) -> String {
        let text = |Note { line, message, .. }: &Note| match line {
            Some(line) => format!("; line {line}: {message}"),
            None => format!("; {message}"),
        };
        self.notes.iter().take(NOTES_MAX).map(text).collect()
    }

    /// Says that something is left out.
    pub fn note(&mut self, line: Option<usize>, message: impl Into<String>) {
        self.note_as(NoteKind::LeftOut, line, &message.into());
    }

    pub fn note_as(&mut self, kind: NoteKind, line: Option<usize>, message: &str) {
        // A name in it may be of several lines.
        let message = escaped(message).replace('\n', "\\n");
        self.notes.push(Note { line, message, kind });
    }

    /// Leaves something out that a node or link has, or has it otherwise; said once for all of them, with all lines.
    pub fn leave_out(&mut self, what: impl Into<String>, line: Option<usize>, of: &str) {
        let left_out = self.left_out.entry(escaped(&what.into()).into_owned()).or_default();
        left_out.lines.extend(line);
        left_out.who.insert(escaped(of).into_owned());
    }

    /// Says that the file has something that a node has, in another way; said once for all of them, too.
    pub fn convert(&mut self, what: &str, line: Option<usize>, of: &str) {
        self.leave_out(what, line, of);
        if let Some(left_out) = self.left_out.get_mut(&*escaped(what)) {
            left_out.kind = NoteKind::Converted;
        }
    }

    /// The fabric file.
    pub fn into_file(mut self, source: &Source) -> Imported {
        self.keep_what_is_linked();
        self.give_hosts();
        let names = self.names();
        self.leave_out_what_does_not_fit(source, &names);
        self.note_who_forwards(&names);
        let text = self.text(source, &names);
        for (what, LeftOut { lines, who, kind }) in std::mem::take(&mut self.left_out) {
            let said = format!("{what} ({}{})", some_of(&who), further_lines(&lines));
            self.note_as(kind, lines.first().copied(), &said);
        }
        self.notes.sort_by_key(|note| note.line);
        Imported { text, notes: self.notes }
    }

    /// Hosts of which something can't be so in a fabric file go without their keys, and that is said.
    fn leave_out_what_does_not_fit(&mut self, source: &Source, names: &[String]) {
        let mut times = BTreeMap::new();
        // Each time, some nodes lose keys, unless it is about something else.
        while self.nodes.iter().any(|node| !node.keys.is_empty()) {
            // It is a fabric file, whatever the other one is called.
            let made = Source { name: format!("{}.fabric.yaml", source.stem()), text: self.text(source, names) };
            let Err(error) = parse_made(&made) else { return };
            let mut wrong: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
            for problem in error.problems() {
                let number = problem.line.checked_sub(FIRST_NODE_LINE).filter(|number| *number < self.nodes.len());
                if let Some(number) = number.filter(|number| !self.nodes[*number].keys.is_empty()) {
                    let before = made.text.get(..problem.span.offset()).unwrap_or_default();
                    let at = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
                    wrong.entry(number).or_default().push((at, problem.message.clone()));
                }
            }
            if wrong.is_empty() {
                let why = error.problems().first().map_or_else(String::new, |problem| problem.message.clone());
                self.note(None, format!("addresses, programs and sysctls of hosts, which do not fit: {why}"));
                return self.nodes.iter_mut().for_each(|node| node.keys.clear());
            }
            let lines: Vec<&str> = made.text.lines().skip(FIRST_NODE_LINE - 1).collect();
            for (number, wrong) in wrong {
                let times = times.entry(number).or_insert(0);
                *times += 1;
                let name = &names[number];
                let taken =
                    if *times > TAKEN_MAX { Vec::new() } else { self.nodes[number].take(lines[number], &wrong) };
                if taken.is_empty() {
                    self.drop_keys(number, name, &wrong[0].1);
                }
                for (what, why) in taken {
                    self.note(None, format!("of `{name}`, {what}: {why}"));
                }
            }
        }
    }

    /// A host loses its interfaces, or all that it has if it has no other ones.
    fn drop_keys(&mut self, number: usize, name: &str, why: &str) {
        if let Some(at) = self.nodes[number].keys.iter().position(|(key, _)| *key == "interfaces")
            && !self.nodes[number].without_interfaces.is_empty()
        {
            let instead = std::mem::take(&mut self.nodes[number].without_interfaces);
            let was: Vec<_> = self.nodes[number].keys.splice(at..=at, instead).collect();
            let was = was.into_iter().map(|(_, interfaces)| interfaces).collect::<String>();
            let instead = "it has the address of the first one, by all its links";
            return self.note(None, format!("of `{name}`, `interfaces: {was}` ({instead}): {why}"));
        }
        let keys = std::mem::take(&mut self.nodes[number].keys);
        let keys: Vec<String> = keys.iter().map(|(key, value)| format!("`{key}: {value}`")).collect();
        self.note(None, format!("of `{name}`, {}: {why}", keys.join(", ")));
    }

    /// The text of the fabric file, in which nodes have these names.
    fn text(&self, source: &Source, names: &[String]) -> String {
        let mut text = format!("# Made by `heddle import` from {}.\n", comment(&source.name));
        let name = self.name.clone().unwrap_or_else(|| source.stem());
        let name = cleaned(&name, "network");
        let _ = writeln!(text, "name: {}\nnodes:", quoted(&name));
        let neighbours = self.neighbours();
        let may_route = self.may_route();
        for (at, (node, name)) in self.nodes.iter().zip(names).enumerate() {
            let mut keys = Vec::new();
            // With one link there is nobody to pass anything on to, but for a host of another subnet.
            let is_end = |link: &&Link| link.ends.0 == at || link.ends.1 == at;
            let may_forward = node.has("addresses") || self.links.iter().filter(is_end).count() > 1;
            if node.is_host && neighbours[at].len() > 1 && !node.has("forward") && may_route {
                keys.push(("forward", "true"));
            }
            keys.extend(
                node.keys
                    .iter()
                    .map(|(key, value)| (*key, value.as_str()))
                    .filter(|(key, _)| node.is_host && (*key != "forward" || may_forward)),
            );
            let _ = match (node.is_host, keys.is_empty()) {
                (false, _) => writeln!(text, "  {}: switch", quoted(name)),
                (true, true) => writeln!(text, "  {}: host", quoted(name)),
                (true, false) => {
                    let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                    writeln!(text, "  {}: {{ kind: host, {} }}", quoted(name), keys.join(", "))
                }
            };
        }
        text.push_str("links:\n");
        for Link { ends: (a, b), keys, back } in &self.links {
            let _ = write!(text, "  - {{ between: [{}, {}]", quoted(&names[*a]), quoted(&names[*b]));
            for (key, value) in keys {
                let _ = write!(text, ", {key}: {value}");
            }
            if !back.is_empty() {
                let back: Vec<String> = back.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                let _ = write!(text, ", back: {{ {} }}", back.join(", "));
            }
            text.push_str(" }\n");
        }
        // Behind all of it: what is wrong with a node is found by its line.
        if let Some(mtu) = self.mtu {
            let _ = writeln!(text, "mtu: {mtu}");
        }
        text
    }

    /// The nodes to which each one has a link.
    fn neighbours(&self) -> Vec<BTreeSet<usize>> {
        let mut neighbours = vec![BTreeSet::new(); self.nodes.len()];
        for Link { ends: (a, b), .. } in &self.links {
            neighbours[*a].insert(*b);
            neighbours[*b].insert(*a);
        }
        neighbours
    }

    /// Whether hosts of several links that do not say that they forward may do so.
    fn may_route(&self) -> bool {
        !self.says_who_forwards || self.falls_apart()
    }

    /// Whether there are hosts between which no way leads, unless others forward that do not say so.
    fn falls_apart(&self) -> bool {
        let joins = |node: usize| {
            let node = &self.nodes[node];
            !node.is_host || node.has("forward") || node.has("interfaces")
        };
        let mut part: Vec<usize> = (0..self.nodes.len()).collect();
        for Link { ends: (a, b), .. } in self.links.iter().filter(|link| joins(link.ends.0) && joins(link.ends.1)) {
            let (a, b) = (root(&mut part, *a), root(&mut part, *b));
            part[a.max(b)] = a.min(b);
        }
        let neighbours = self.neighbours();
        let mut hosts = Vec::new();
        for node in (0..self.nodes.len()).filter(|node| self.nodes[*node].is_host) {
            let near = neighbours[node].iter().copied().chain([node]).filter(|near| joins(*near));
            let parts: BTreeSet<usize> =
                near.collect::<Vec<_>>().into_iter().map(|near| root(&mut part, near)).collect();
            hosts.push((node, parts));
        }
        let common = |one: &BTreeSet<usize>, other: &BTreeSet<usize>| one.intersection(other).copied().collect();
        let all = hosts.iter().map(|(_, parts)| parts.clone()).reduce(|all, parts| common(&all, &parts));
        let are_apart = |(a, of_a): &(usize, BTreeSet<usize>), (b, of_b): &(usize, BTreeSet<usize>)| {
            of_a.is_disjoint(of_b) && !neighbours[*a].contains(b)
        };
        all.is_some_and(|all| all.is_empty())
            && hosts.iter().enumerate().any(|(at, a)| hosts[at + 1..].iter().any(|b| are_apart(a, b)))
    }

    /// Says which hosts forward without saying so.
    fn note_who_forwards(&mut self, names: &[String]) {
        let neighbours = self.neighbours();
        let forwards = |(at, node): &(usize, &Node)| node.is_host && neighbours[*at].len() > 1 && !node.has("forward");
        let who: BTreeSet<String> =
            self.nodes.iter().enumerate().filter(forwards).map(|(at, _)| names[at].clone()).collect();
        if who.is_empty() || !self.may_route() {
            return;
        }
        let why = if self.says_who_forwards {
            "since the network falls apart without"
        } else {
            "as they have several links, and pass on what is for others"
        };
        let said = format!("hosts have `forward: true`, {why}: {}", some_of(&who));
        self.note_as(NoteKind::Converted, None, &said);
    }

    /// A network of switches alone has nobody who sends.
    fn give_hosts(&mut self) {
        if self.nodes.iter().any(|node| node.is_host) {
            return;
        }
        for switch in 0..self.nodes.len() {
            let name = format!("h-{}", self.nodes[switch].name);
            let host = self.nodes.len();
            self.nodes.push(Node { name, is_host: true, ..Node::default() });
            self.links.push(Link { ends: (host, switch), ..Link::default() });
        }
        let said = "it has no hosts: each switch was given one, on a link without a rate";
        self.note_as(NoteKind::Converted, None, said);
    }

    /// Nodes that nobody reaches are left out: all but those of the largest part.
    fn keep_what_is_linked(&mut self) {
        let mut part: Vec<usize> = (0..self.nodes.len()).collect();
        for Link { ends: (a, b), .. } in &self.links {
            let (a, b) = (root(&mut part, *a), root(&mut part, *b));
            part[a.max(b)] = a.min(b);
        }
        let roots: Vec<usize> = (0..self.nodes.len()).map(|node| root(&mut part, node)).collect();
        let mut sizes = vec![0_usize; self.nodes.len()];
        for root in &roots {
            sizes[*root] += 1;
        }
        // The first one of several.
        let Some(largest) = (0..sizes.len()).rev().max_by_key(|root| sizes[*root]) else { return };
        let is_kept: Vec<bool> = roots.iter().map(|root| *root == largest).collect();
        let gone = self.nodes.iter().zip(&is_kept).filter(|(_, is_kept)| !**is_kept).map(|(node, _)| node.name.clone());
        let gone: BTreeSet<String> = gone.collect();
        if gone.is_empty() {
            return;
        }
        self.note(None, format!("nodes that no link joins to the others: {}", some_of(&gone)));
        let mut next = 0;
        let numbers: Vec<usize> = is_kept
            .iter()
            .map(|is_kept| {
                next += usize::from(*is_kept);
                next.saturating_sub(1)
            })
            .collect();
        let mut kept = is_kept.iter();
        self.nodes.retain(|_| kept.next().copied().unwrap_or(false));
        self.links.retain(|link| is_kept[link.ends.0]);
        for link in &mut self.links {
            link.ends = (numbers[link.ends.0], numbers[link.ends.1]);
        }
    }

    /// Names that nodes can have here, each once.
    fn names(&mut self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let mut numbers = BTreeMap::new();
        let mut renamed = Vec::new();
        let mut names = Vec::new();
        for node in &self.nodes {
            let prefix = if node.is_host { "h" } else { "s" };
            let base = cleaned(&node.name, prefix);
            let base = if node.is_host && reaches(&base).is_some() { format!("{prefix}{base}") } else { base };
            let base: String = base.chars().take(NAME_MAX - 6).collect();
            // Of many that are called the same, each begins behind the one before; there are fewer nodes than numbers.
            let next = numbers.entry(canonical(&base)).or_insert(2_usize);
            let again = (*next..=self.nodes.len() + 2).map(|number| {
                *next = number + 1;
                format!("{base}-{number}")
            });
            let mut candidates = std::iter::once(base.clone()).chain(again);
            let name = candidates.find(|name| !taken.contains(&canonical(name))).unwrap_or_default();
            taken.insert(canonical(&name));
            if name != node.name {
                renamed.push(format!("{} is {name}", node.name));
            }
            names.push(name);
        }
        if !renamed.is_empty() {
            let all: BTreeSet<String> = renamed.into_iter().collect();
            let said = format!("names that are other ones here: {}", some_of(&all));
            self.note_as(NoteKind::Converted, None, &said);
        }
        names
    }
}

/// The least node that is known to be joined to this one.
fn root(part: &mut [usize], mut node: usize) -> usize {
    while part[node] != node {
        part[node] = part[part[node]];
        node = part[node];
    }
    node
}

/// A name with what may stand in one.
fn cleaned(name: &str, prefix: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut clean: String = latin::plain(name.trim()).chars().map(good).take(NAME_MAX).collect();
    if !clean.starts_with(|c: char| c.is_ascii_alphabetic()) {
        clean.insert_str(0, prefix);
    }
    let clean: String = clean.trim_end_matches(['.', '-']).chars().take(NAME_MAX).collect();
    if is_name(&clean) { clean } else { prefix.to_owned() }
}

/// A name that YAML would take for something else has quotes.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&name.to_lowercase().as_str());
    if is_plain { name.to_owned() } else { format!("\"{name}\"") }
}

/// Any text as a value of YAML, on one line.
pub(super) fn text_of(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// On one line, whatever is in it.
fn comment(text: &str) -> String {
    escaped(text).replace(['\n', '\t'], " ")
}

/// Where the same stands behind the first line: `; also in lines 7, 9`.
fn further_lines(lines: &BTreeSet<usize>) -> String {
    const NAMED_MAX: usize = 20;
    let further: Vec<String> = lines.iter().skip(1).take(NAMED_MAX).map(usize::to_string).collect();
    let more = match lines.len().saturating_sub(NAMED_MAX + 1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match further.as_slice() {
        [] => String::new(),
        [one] => format!("; also in line {one}"),
        several => format!("; also in lines {}{more}", several.join(", ")),
    }
}

/// The first ones, and how many more there are.
fn some_of(all: &BTreeSet<String>) -> String {
    const NAMED_MAX: usize = 6;
    let named: Vec<&str> = all.iter().take(NAMED_MAX).map(String::as_str).collect();
    match all.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
