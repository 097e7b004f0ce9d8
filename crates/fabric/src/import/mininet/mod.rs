//! Networks of Mininet: programs of Python, which are run as far as they make nodes and links. What they do with the network afterwards is said to be left out, and where it is here.

mod attributes;
mod commands;
mod graph;
mod library;
mod links;
mod nodes;
mod options;
mod topologies;
mod traffic_control;

use self::library::Mininet;
use super::line_of;
use super::network::Network;
use super::python::{Arguments, Fault, Machine, Mistake, Stop, Undefined, Value, mistake, parse};
use crate::error::Problems;
use crate::source::{Lines, Place, Source};
use crate::tree::LONGEST_TEXT;

pub(super) fn read(source: &Source, problems: &mut Problems<'_>) -> Option<Network> {
    if source.text.len() > LONGEST_TEXT {
        let message = format!("the file has {} bytes, more than {LONGEST_TEXT}", source.text.len());
        problems.add(Place { offset: 0, len: 0 }, message, "too long", "leave out what is no topology");
        problems.show_until(0);
        return None;
    }
    // Python would not run it either: what it makes would be something else than what is meant.
    if let Some(Mistake { at, message, hint }) = mistake(&source.text) {
        let hint = format!("{hint}; `python3 -m py_compile {}` says whether Python takes it then", source.name);
        let place = Place { offset: at.start, len: at.len() };
        problems.add(place, format!("this is no Python: {message}"), "here", hint);
        return None;
    }
    let mut mininet = Mininet::new(source);
    let mut machine = Machine::new(&mut mininet);
    let ended = run(&mut machine, source);
    if let Some((at, fault)) = machine.raised.take() {
        refuse_fault(at, &fault, source, problems);
        return None;
    }
    if let Some(undefined) = machine.undefined.take() {
        let nearest = machine.nearest_name(&undefined.name);
        refuse_undefined(&undefined, nearest, source, problems);
        return None;
    }
    let at = machine.at;
    match ended {
        Ok(taken) => {
            if let Some((at, said)) = taken.and_then(|taken| taken.words(&source.text)) {
                mininet.note(at, said);
            }
        }
        Err(stop) => mininet.end_early(stop, at),
    }
    mininet.note_number();
    let graph = mininet.chosen();
    let mut network = mininet.network;
    graph.unwrap_or_default().fill(&mut network);
    Some(network)
}

/// One of several topologies, which nothing in the file makes; each by the bytes of its class.
struct Taken {
    class: (usize, usize),
    others: Vec<(usize, usize)>,
}

impl Taken {
    /// Which of them this is, and where; `None`: there is no other one.
    fn words(&self, text: &str) -> Option<(usize, String)> {
        let class = attributes::name_in(text, self.class)?;
        let other = attributes::name_in(text, *self.others.first()?)?;
        let count = self.others.len() + 1;
        let said = format!(
            "all topologies but `{class}`, the last of the {count} that nothing in the file makes: `topos = {{ 'lab': {other} }}` in its last line takes `{other}`"
        );
        Some((self.class.0, said))
    }
}

/// Python ends where a name has no value: what it would have made is something else than what is meant.
fn refuse_undefined(undefined: &Undefined, nearest: Option<String>, source: &Source, problems: &mut Problems<'_>) {
    let Undefined { name, at, defined_at } = undefined;
    let lines = Lines::of(&source.text);
    let line = |offset| line_of(&lines, Place { offset, len: 0 });
    // A host is what links lack.
    let is_end = source.text.lines().nth(line(at.start) - 1).is_some_and(|text| text.contains("addLink"));
    let example = if is_end { format!("`{name} = net.addHost('{name}')`") } else { format!("`{name} = ..`") };
    let hint = match (defined_at.map(line), nearest.filter(|nearest| *nearest != **name)) {
        (Some(defined), _) if defined > line(at.start) => {
            format!("it gets its value in line {defined}: write that line before this one")
        }
        (Some(_), _) => format!("it gets its value by this line: give it one before, as {example} does"),
        (None, Some(nearest)) => format!("did you mean `{nearest}`? Else give it a value before, as {example} does"),
        (None, None) => format!("give it a value before, as {example} does, or import it"),
    };
    let message = format!("Python would end here with NameError: name '{name}' is not defined");
    problems.add(Place { offset: at.start, len: at.len() }, message, "has no value here", hint);
}

/// The same of any other error with which Python ends.
fn refuse_fault(at: usize, fault: &Fault, source: &Source, problems: &mut Problems<'_>) {
    let Fault { message, word, nearest, known } = fault;
    let line = source.text.get(at..).unwrap_or_default().lines().next().unwrap_or_default();
    let place = match line.find(word.as_str()) {
        Some(before) => Place { offset: at + before, len: word.len() },
        None => Place { offset: at, len: line.len() },
    };
    let hint = match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? {known}"),
        None => known.clone(),
    };
    problems.add(place, format!("Python would end here with {message}"), "here", hint.trim());
}

/// Runs the file, and if that makes no network, what it would be made by. Returns the topologies, if one of several was chosen.
fn run(machine: &mut Machine<'_>, source: &Source) -> Result<Option<Taken>, Stop> {
    machine.run_block(&parse(topologies::TOPOLOGIES))?;
    let file = machine.begin_file(&source.text);
    machine.run_block(&parse(&source.text))?;
    let variables: Vec<Value> = machine.scopes[file].variables.values().cloned().collect();
    let named = |machine: &Machine<'_>, name: &str| machine.scopes[file].variables.get(name).cloned();
    // Python calls these only if somebody else does, who may have given values to names before.
    machine.is_all_run = false;
    // What `mn --custom FILE --topo NAME` makes.
    let mut makers = Vec::new();
    if let Some(Value::Dict(topologies)) = named(machine, "topos") {
        makers.extend(machine.heap.dicts[topologies].iter().map(|(_, maker)| maker.clone()));
    }
    let is_topology = |machine: &Machine<'_>, value: &Value| {
        matches!(value, Value::Class(_)) && machine.heap.library_bases(value).iter().any(|base| **base == *"Topo")
    };
    // The last one is most likely to be what the others are made for.
    let mut classes: Vec<&Value> = variables.iter().filter(|value| is_topology(machine, value)).collect();
    classes
        .sort_by_key(|class| if let Value::Class(at) = class { std::cmp::Reverse(*at) } else { std::cmp::Reverse(0) });
    let is_named = !makers.is_empty();
    makers.extend(classes.iter().map(|class| (*class).clone()));
    makers.extend(variables.iter().filter(|value| matches!(value, Value::Function(_))).cloned());
    for maker in makers {
        if machine.library.is_done() {
            break;
        }
        machine.call(&maker, Arguments::default())?;
        if let Value::Class(taken) = maker
            && !is_named
            && machine.library.is_done()
        {
            // Those from which it derives are in it.
            let of_it = machine.heap.lineage(&maker);
            let others = classes.iter().filter_map(|class| if let Value::Class(at) = class { Some(*at) } else { None });
            let others = others.filter(|other| !of_it.contains(other));
            let text = |class: usize| machine.heap.classes[class].text;
            return Ok(Some(Taken { class: text(taken), others: others.map(text).collect() }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
