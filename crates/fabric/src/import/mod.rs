//! Networks of other tools, as fabric files: containerlab's topologies, `GraphML`, and Mininet's programs.
//!
//! What is here as there is written; what is not is left out, and said. Nothing of a file reaches the machine: programs are run as far as they make a network ([`python`]).

mod clab;
mod directions;
mod frr;
mod graphml;
mod latin;
mod mininet;
mod network;
mod python;

use std::path::Path;

use crate::error::{Error, Problems};
use crate::source::{Lines, Place, Source};
use crate::topologies::NODES_AND_LINKS;
use crate::tree::{Entry, Node, Value};

/// A fabric file that was made from another tool's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Its text.
    pub text: String,
    /// What is not in it, and what is otherwise, in the order of the other file.
    pub notes: Vec<Note>,
}

/// Something that is not as in the other file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line that it is about, from 1; `None`: the whole file.
    pub line: Option<usize>,
    /// What is left out, or otherwise.
    pub message: String,
    /// What has become of it.
    pub kind: NoteKind,
}

/// What has become of something that is not as in the other file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoteKind {
    /// It is in the file in another way: nothing is missing.
    Converted,
    /// It is not in the file: Heddle has no such thing, or it is not known what it is.
    #[default]
    LeftOut,
    /// It is not in the file, and hardly meant as it is written.
    Mistake,
}

impl NoteKind {
    /// As it stands before what is said.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Converted => "converted",
            Self::LeftOut => "left out",
            Self::Mistake => "mistake?",
        }
    }
}

/// Gives the text of a file that another one names.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The tools whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Containerlab,
    GraphMl,
    Mininet,
}

/// Makes a fabric file of a topology of containerlab (YAML), of `GraphML` (XML), or of Mininet (Python, which is run as far as it makes nodes and links).
///
/// # Errors
/// If it can't be read as what its name or its beginning says, or there is no network in it. It shows the line.
pub fn import(source: &Source) -> Result<Imported, Error> {
    import_with(source, None, &|_| None)
}

/// The same of one of several topologies, by its name, and with the files that it names: `read` gives the text of one by its path, if it has it.
///
/// # Errors
/// As [`import`], and if there is no such topology.
pub fn import_with(source: &Source, topology: Option<&str>, read: ReadFile<'_>) -> Result<Imported, Error> {
    let mut problems = Problems::new(source);
    if let Some(topology) = topology.filter(|_| format(source) != Format::Mininet) {
        let message = format!("there is no topology `{topology}` to choose: the file has one network");
        problems.add(first_line(&source.text), message, "here", "leave `--topo` out; it is of Mininet's programs");
        return Err(problems.into_error());
    }
    if is_drawing(source.text.trim_start_matches('\u{feff}').trim_start()) {
        refuse_drawing(source, &mut problems);
        return Err(problems.into_error());
    }
    let network = match format(source) {
        Format::Containerlab => clab::read(source, read, &mut problems),
        Format::GraphMl => graphml::read(source, &mut problems),
        Format::Mininet => mininet::read(source, topology, &mut problems),
    };
    if !problems.is_empty() {
        return Err(problems.into_error());
    }
    let network = network.unwrap_or_default();
    if network.is_empty() {
        let place = first_line(&source.text);
        let hint = "containerlab has `topology: { nodes: .., links: .. }`, GraphML `<node>` and `<edge>`, Mininet `addHost`, `addSwitch` and `addLink`";
        problems.add(
            place,
            "there is no network in this file: no two nodes with a link between them",
            "nothing that is known",
            format!("{hint}{}", network.first_notes()),
        );
        return Err(problems.into_error());
    }
    Ok(network.into_file(source))
}

/// Notes that a file is another tool's and not a fabric file, if its name or its first words say so; false: they don't.
pub(crate) fn refuse_text(source: &Source, problems: &mut Problems<'_>) -> bool {
    let text = source.text.trim_start_matches('\u{feff}').trim_start();
    let is_python = text.starts_with("from mininet") || text.starts_with("import mininet");
    let is_python = is_python || (text.starts_with("#!") && text.lines().next().is_some_and(|l| l.contains("python")));
    let is_named = Path::new(&source.name).extension().is_some_and(|end| end.eq_ignore_ascii_case("py"));
    if is_drawing(text) {
        refuse_drawing(source, problems);
        return true;
    }
    let (what, label) = if is_named || is_python {
        ("a program of Python (Mininet's?)", "Python")
    } else if text.starts_with('<') {
        ("XML (GraphML?)", "XML")
    } else {
        return false;
    };
    refuse(source, first_line(&source.text), (what, label), problems);
    true
}

fn refuse_drawing(source: &Source, problems: &mut Problems<'_>) {
    let hint = "a drawing does not say how fast links are, nor what hosts do: name the file that it was drawn from";
    problems.add(first_line(&source.text), "this is a drawing (SVG), and no fabric file", "SVG", hint);
}

/// Whether a text is a picture, as `heddle graph` draws networks.
fn is_drawing(text: &str) -> bool {
    // Comments and a declaration may stand before its element.
    text.starts_with('<')
        && text.split('<').skip(1).take(ELEMENTS_MAX).find(|part| !part.starts_with(['?', '!'])).is_some_and(|part| {
            part.strip_prefix("svg").is_some_and(|rest| rest.starts_with([' ', '>', '\n', '\r', '\t']))
        })
}

/// So many elements of a file are looked at.
const ELEMENTS_MAX: usize = 20;

/// The same of what is YAML: a topology of containerlab has nodes.
pub(crate) fn refuse_tree(root: &Node, source: &Source, problems: &mut Problems<'_>) -> bool {
    let key = |node: &Node, key: &str| match &node.value {
        Value::Map(entries) => entries.iter().position(|entry| entry.key == key),
        _ => None,
    };
    let (Value::Map(entries), Some(at)) = (&root.value, key(root, "topology")) else { return false };
    let topology = &entries[at];
    if key(&topology.value, "nodes").is_none() {
        return false;
    }
    if !source.name.contains(".clab.") && is_fabrics(entries, &topology.value) {
        let hint = format!("leave `topology` out and write {NODES_AND_LINKS}");
        let message = "`nodes:` and `links:` stand at the top level of a fabric file, and not below `topology:`";
        problems.add(topology.key_place, message, "not here", hint);
        return true;
    }
    refuse(source, topology.key_place, ("a topology of containerlab", "containerlab's"), problems);
    true
}

/// Whether what stands in a file, and below its `topology`, is of a fabric file rather than of containerlab's.
fn is_fabrics(entries: &[Entry], topology: &Node) -> bool {
    const CLAB: [&str; 6] = ["name", "prefix", "topology", "mgmt", "settings", "debug"];
    let below = |node: &Node| match &node.value {
        Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect(),
        _ => Vec::new(),
    };
    let is_kind =
        |node: &Node| matches!(&node.value, Value::Scalar(kind) if ["host", "switch"].contains(&kind.as_str()));
    let is_node = |(_, node): &(String, Node)| {
        is_kind(node) || below(node).iter().any(|(key, value)| key == "kind" && is_kind(value))
    };
    let is_link = |link: &Node| below(link).iter().any(|(key, _)| key == "between");
    let of_topology = |(key, value): &(String, Node)| match (key.as_str(), &value.value) {
        ("nodes", _) => below(value).iter().any(is_node),
        ("links", Value::List(links)) => links.iter().any(is_link),
        _ => false,
    };
    entries.iter().any(|entry| !CLAB.contains(&entry.key.as_str())) || below(topology).iter().any(of_topology)
}

/// Notes that a file is a fabric file as it is; false: it is none.
fn refuse_fabric(root: &Node, source: &Source, problems: &mut Problems<'_>) -> bool {
    let Value::Map(entries) = &root.value else { return false };
    let at = |keys: &[&str]| entries.iter().find(|entry| keys.contains(&entry.key.as_str()));
    let is_named = [".fabric.yaml", ".fabric.yml"].iter().any(|end| source.name.to_lowercase().ends_with(end));
    // Nodes stand below `topology:` in containerlab's.
    let known = if is_named { at(&["nodes", "links", "topology"]) } else { at(&["nodes", "links"]) };
    let Some(known) = known.filter(|_| is_named || at(&["topology"]).is_none()) else { return false };
    let hint = format!("`heddle up {}` builds its network; nothing is to be imported", in_shell(&source.name));
    problems.add(known.key_place, "this is a fabric file already", "Heddle's own", hint);
    true
}

fn refuse(source: &Source, place: Place, (what, label): (&str, &str), problems: &mut Problems<'_>) {
    let hint = format!("`heddle import {}` makes {}.fabric.yaml of it", in_shell(&source.name), source.stem());
    problems.add(place, format!("this is {what}, and no fabric file"), label, hint);
}

/// The name of a file as one word of a command.
fn in_shell(name: &str) -> String {
    if name.contains(' ') { format!("'{name}'") } else { name.to_owned() }
}

fn first_line(text: &str) -> Place {
    Place { offset: 0, len: text.lines().next().unwrap_or_default().len() }
}

/// By the end of the name, or else by how it begins.
fn format(source: &Source) -> Format {
    let ends_in = |ends: &[&str]| ends.iter().any(|end| source.name.to_lowercase().ends_with(end));
    let text = source.text.trim_start();
    if ends_in(&[".graphml", ".xml"]) || text.starts_with('<') {
        Format::GraphMl
    } else if ends_in(&[".py"]) || (!ends_in(&[".yml", ".yaml"]) && text.contains("addLink(")) {
        Format::Mininet
    } else {
        Format::Containerlab
    }
}

/// The number of the line at a byte, from 1.
fn line_of(lines: &Lines<'_>, place: Place) -> usize {
    lines.line(place.offset)
}

#[cfg(test)]
mod tests;
