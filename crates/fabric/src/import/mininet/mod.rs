//! Networks of Mininet: programs of Python, which are run as far as they make nodes and links. What they do with the network afterwards is said to be left out, and where it is here.

mod attributes;
mod choice;
mod commands;
mod devices;
mod graph;
mod hosts;
mod library;
mod links;
mod nodes;
mod options;
mod topologies;
mod traffic_control;

use self::choice::Choice;
use self::library::Mininet;
use super::line_of;
use super::network::Network;
use super::python::{Fault, Machine, Mistake, Undefined, mistake};
use crate::error::Problems;
use crate::source::{Lines, Place, Source};
use crate::tree::LONGEST_TEXT;

/// Reads a program; `topology` is the one that is made of several, as with `mn --topo`.
pub(super) fn read(source: &Source, topology: Option<&str>, problems: &mut Problems<'_>) -> Option<Network> {
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
    let ended = choice::run(&mut machine, source, topology);
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
        Ok(Choice::Made(note)) => {
            if let Some((at, said)) = note {
                mininet.note(at, said);
            }
        }
        Ok(Choice::None { at, message, hint }) => {
            let line = source.text.get(at..).unwrap_or_default().lines().next().unwrap_or_default();
            problems.add(Place { offset: at, len: line.len() }, message, "here", hint);
            return None;
        }
        Err(stop) => mininet.end_early(stop, at),
    }
    mininet.note_number();
    let graph = mininet.chosen();
    let mut network = mininet.network;
    network.knows_who_forwards();
    graph.unwrap_or_default().fill(&mut network);
    Some(network)
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

#[cfg(test)]
mod interface_tests;
#[cfg(test)]
mod tests;
