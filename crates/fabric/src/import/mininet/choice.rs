//! Which topology of a program is made: what the program itself makes, or else one of those that it names in `topos` or has as classes.

use super::super::python::{Arguments, Machine, Stop, Value, parse};
use super::{attributes, topologies};
use crate::names::nearest;
use crate::read::shown;
use crate::source::Source;

/// What has become of it.
pub enum Choice {
    /// One was made, perhaps with something to be said: at which byte, and what.
    Made(Option<(usize, String)>),
    /// The one that is wanted is not there, which is said at a byte.
    None { at: usize, message: String, hint: String },
}

/// What makes a topology.
struct Maker {
    /// In `topos`, or of its class.
    name: String,
    value: Value,
}

/// Runs the file, and if that makes no network, what it would be made by: what `wanted` names, or the first in `topos`, or the last class.
pub fn run(machine: &mut Machine<'_>, source: &Source, wanted: Option<&str>) -> Result<Choice, Stop> {
    machine.run_block(&parse(topologies::TOPOLOGIES))?;
    let file = machine.begin_file(&source.text);
    machine.run_block(&parse(&source.text))?;
    // Python calls the others only if somebody else does, who may have given values to names before.
    machine.is_all_run = false;
    if machine.library.is_done() {
        return Ok(wanted.map_or(Choice::Made(None), |wanted| Choice::None {
            at: 0,
            message: format!("there is no topology `{wanted}` to choose: the file makes its network by itself"),
            hint: "leave `--topo` out; it is of files that name several topologies, as in `topos = { 'a': A, 'b': B }`"
                .to_owned(),
        }));
    }
    let variables: Vec<Value> = machine.scopes[file].variables.values().cloned().collect();
    let named = named_topologies(machine, file);
    let classes = classes(machine, &variables, &source.text);
    if let Some(wanted) = wanted {
        return match named.iter().chain(&classes).find(|maker| maker.name == wanted) {
            Some(maker) => {
                machine.call(&maker.value, Arguments::default())?;
                Ok(Choice::Made(None))
            }
            None => Ok(no_such(wanted, &named, &classes, &source.text)),
        };
    }
    let functions = variables.iter().filter(|value| matches!(value, Value::Function(_)));
    let makers: Vec<Value> =
        named.iter().chain(&classes).map(|maker| maker.value.clone()).chain(functions.cloned()).collect();
    for (number, maker) in makers.iter().enumerate() {
        machine.call(maker, Arguments::default())?;
        if machine.library.is_done() {
            return Ok(Choice::Made(if number < named.len() {
                one_of_named(&named, number, &source.text)
            } else {
                one_of_classes(machine, maker, (&named, &classes), &source.text)
            }));
        }
    }
    Ok(Choice::Made(None))
}

/// What `mn --custom FILE --topo NAME` makes, in the order of the file.
fn named_topologies(machine: &Machine<'_>, file: usize) -> Vec<Maker> {
    let Some(Value::Dict(topologies)) = machine.scopes[file].variables.get("topos") else { return Vec::new() };
    let named = machine.heap.dicts[*topologies].iter().map(|(name, maker)| Maker {
        name: if let Value::Text(name) = name { name.to_string() } else { String::new() },
        value: maker.clone(),
    });
    named.collect()
}

/// The last one is most likely to be what the others are made for.
fn classes(machine: &Machine<'_>, variables: &[Value], text: &str) -> Vec<Maker> {
    let class = |value: &Value| {
        let Value::Class(at) = value else { return None };
        let is_topology = machine.heap.library_bases(value).iter().any(|base| **base == *"Topo");
        let name = || attributes::name_in(text, machine.heap.classes[*at].text).unwrap_or_default();
        is_topology.then(|| (*at, Maker { name: name(), value: value.clone() }))
    };
    let mut classes: Vec<(usize, Maker)> = variables.iter().filter_map(class).collect();
    classes.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    classes.into_iter().map(|(_, maker)| maker).collect()
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{}`", shown(name))).collect::<Vec<_>>().join(", ")
}

/// That there are others in `topos`; `None`: there are none.
fn one_of_named(named: &[Maker], taken: usize, text: &str) -> Option<(usize, String)> {
    let other = named.iter().enumerate().find(|(number, _)| *number != taken)?.1;
    let others =
        listed(named.iter().enumerate().filter(|(number, _)| *number != taken).map(|(_, it)| it.name.as_str()));
    let (taken, other) = (shown(&named[taken].name), shown(&other.name));
    let said =
        format!("all topologies but `{taken}`, the first in `topos`: {others} (`--topo {other}` takes that one)");
    Some((named_at(text), said))
}

/// That there are other classes, which nothing in the file makes. Those from which it derives are in it.
fn one_of_classes(
    machine: &Machine<'_>,
    taken: &Value,
    (named, classes): (&[Maker], &[Maker]),
    text: &str,
) -> Option<(usize, String)> {
    let Value::Class(at) = taken else { return None };
    if !named.is_empty() {
        return None;
    }
    let of_it = machine.heap.lineage(taken);
    let is_other = |maker: &&Maker| matches!(&maker.value, Value::Class(other) if !of_it.contains(other));
    let others: Vec<&Maker> = classes.iter().filter(is_other).collect();
    let (other, count) = (&others.first()?.name, others.len() + 1);
    let place = machine.heap.classes[*at].text;
    let class = attributes::name_in(text, place)?;
    let said = format!(
        "all topologies but `{class}`, the last of the {count} that nothing in the file makes: `--topo {other}` takes `{other}`"
    );
    Some((place.0, said))
}

/// Where `topos` gets its value.
fn named_at(text: &str) -> usize {
    text.match_indices("topos").map(|(at, _)| at).find(|at| *at == 0 || text[..*at].ends_with('\n')).unwrap_or(0)
}

fn no_such(wanted: &str, named: &[Maker], classes: &[Maker], text: &str) -> Choice {
    let known = || named.iter().chain(classes).map(|maker| maker.name.as_str()).filter(|name| !name.is_empty());
    let hint = match nearest(wanted, known()) {
        Some(near) => format!("did you mean `{}`?", shown(near)),
        None if known().next().is_some() => format!("there are {}", listed(known())),
        None => "it has none: leave `--topo` out".to_owned(),
    };
    let message = format!("there is no topology `{}` in this file", shown(wanted));
    Choice::None { at: if named.is_empty() { 0 } else { named_at(text) }, message, hint }
}
