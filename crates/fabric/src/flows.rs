//! Flows and groups of switches, as `ovs-ofctl` writes them.
//!
//! ```yaml
//! flows:
//!   leaf1:
//!     - priority=10,tcp,tp_dst=80,actions=drop
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use machine::{Time, mix};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use topology::{NodeId, Topology};
use vswitch::flow_table::{
    Flow, FlowError, FlowTables, Group, Match, Meter, Ports, Selection, TableChange, parse_modification, parse_packet,
};
use vswitch::{NormalPipeline, Pipeline, Pipelines, Seeds};

use crate::Fabric;
use crate::document::File;
use crate::error::{Error, Problems};
use crate::names::nearest;
use crate::read::{Mapping, Name, Read, expected, shown};
use crate::source::{At, Place, Source};
use crate::tree::{Node, Value};

/// Flows and groups of a whole file.
const MOST: usize = 200_000;

/// What the tables of a switch have when it starts, besides the flow that each has: `priority=0 actions=NORMAL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchTables {
    /// In the order of the file.
    pub meters: Vec<Meter>,
    /// In the order of the file.
    pub groups: Vec<Group>,
    /// In the order of the file: a later one takes the place of an earlier one with the same table, priority and match.
    pub flows: Vec<Arc<Flow>>,
}

impl SwitchTables {
    /// What makes new tables these.
    pub fn changes(&self) -> Vec<TableChange> {
        let normal = std::iter::once(TableChange::Add(Arc::new(Flow::normal())));
        let meters = self.meters.iter().cloned().map(TableChange::AddMeter);
        let groups = self.groups.iter().cloned().map(TableChange::AddGroup);
        normal.chain(meters).chain(groups).chain(self.flows.iter().cloned().map(TableChange::Add)).collect()
    }
}

impl Serialize for SwitchTables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written {
            #[serde(skip_serializing_if = "Vec::is_empty")]
            meters: Vec<String>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            groups: Vec<String>,
            flows: Vec<String>,
        }
        let groups = self.groups.iter().map(ToString::to_string).collect();
        let meters = self.meters.iter().map(ToString::to_string).collect();
        Written { meters, groups, flows: self.flows.iter().map(ToString::to_string).collect() }.serialize(serializer)
    }
}

impl Fabric {
    /// What switches do that have tables, or VLANs; to be made anew when `flow_tables` or `switches` change. `seed` is where their hashes start.
    pub fn pipelines(&self, seeds: Seeds) -> Pipelines {
        self.pipelines_with(self.flow_tables.iter().map(|(id, tables)| (*id, tables.changes())).collect(), seeds)
    }

    /// The same, if these switches have tables, which new ones become by these changes.
    ///
    /// # Panics
    /// Where a pipeline is made, if a change cannot be.
    pub fn pipelines_with(&self, tables: BTreeMap<NodeId, Vec<TableChange>>, seeds: Seeds) -> Pipelines {
        // RSTP closes ports, and tags are a matter of ports: who has either looks at each packet.
        let has_ports = self.has_vlans() || self.has_rstp();
        if tables.is_empty() && !has_ports {
            return Pipelines::default();
        }
        Pipelines::new_at(move |now, topology, switch| match tables.get(&switch) {
            Some(changes) => Some(Box::new(tables_of(now, topology, switch, seeds, changes)) as Box<dyn Pipeline>),
            None => has_ports.then(|| Box::new(NormalPipeline) as Box<dyn Pipeline>),
        })
    }
}

fn tables_of(now: Time, topology: &Topology, switch: NodeId, seeds: Seeds, changes: &[TableChange]) -> FlowTables {
    let own = |seed| mix(seed ^ mix(u64::from(switch.0)));
    let seeds = Seeds { choices: own(seeds.choices), tables: own(seeds.tables) };
    FlowTables::new(now, Ports::of(topology, switch), seeds, changes).expect("changes were checked")
}

/// A flow, a group or a meter as written.
#[derive(Clone, Debug)]
pub(crate) struct FlowText(String);

impl Read for FlowText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::Scalar(text) = &node.value {
            return Some(Self(text.clone()));
        }
        expected(node, "a flow, group or meter in one line: `tcp,tp_dst=80,actions=drop`", problems);
        None
    }
}

impl JsonSchema for FlowText {
    fn schema_name() -> Cow<'static, str> {
        "Flow".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["priority=10,tcp,tp_dst=80,actions=drop"] })
    }
}

/// Texts by switch.
pub(crate) type BySwitch = At<Mapping<Name, Vec<At<FlowText>>>>;

/// A section of texts by switch, in the order in which they are added.
#[derive(Clone, Copy)]
enum TableSection {
    Meters,
    Groups,
    Flows,
}

/// Reads the flows, groups and meters of all switches.
pub(crate) fn flow_tables(
    file: &File,
    topology: &Topology,
    problems: &mut Problems<'_>,
) -> BTreeMap<NodeId, SwitchTables> {
    let mut all: BTreeMap<NodeId, SwitchTables> = BTreeMap::new();
    // Where each switch's texts are, as its changes come.
    let mut places: BTreeMap<NodeId, Vec<Place>> = BTreeMap::new();
    let sections = [
        (&file.meters, TableSection::Meters),
        (&file.groups, TableSection::Groups),
        (&file.flows, TableSection::Flows),
    ];
    let count = |text: &BySwitch| text.value.0.iter().map(|(_, list)| list.value.len()).sum::<usize>();
    if let Some(section) = sections.iter().filter_map(|(section, _)| section.as_ref()).find(|it| count(it) > MOST) {
        let message = format!("{} are more than {MOST}", count(section));
        problems.add(section.place, message, "too many", "add others with `heddle flow add`");
        return all;
    }
    for (section, kind) in sections {
        for (name, list) in section.iter().flat_map(|section| &section.value.0) {
            let Some(switch) = switch_of(topology, name, problems) else { continue };
            let ports = Ports::of(topology, switch);
            let tables = all.entry(switch).or_default();
            for text in &list.value {
                let text_of_it = &text.value.0;
                let read = match kind {
                    TableSection::Meters => Meter::parse(text_of_it).map(|meter| tables.meters.push(meter)),
                    TableSection::Groups => Group::parse(text_of_it, &ports).map(|group| tables.groups.push(group)),
                    TableSection::Flows => {
                        Flow::parse(text_of_it, &ports).map(|flow| tables.flows.push(Arc::new(flow)))
                    }
                };
                match read {
                    Ok(()) => places.entry(switch).or_default().push(text.place),
                    Err(error) => note(text, &error, problems),
                }
            }
        }
    }
    if problems.is_empty() {
        for (switch, tables) in &all {
            let empty = FlowTables::new(Time::ZERO, Ports::default(), 0.into(), &[]).expect("nothing is refused");
            if let Err((number, error)) = empty.check(&tables.changes()) {
                // The first change is of no text.
                problems.add(places[switch][number.saturating_sub(1)], error.to_string(), "here", error.hint());
            }
        }
    }
    all
}

fn switch_of(topology: &Topology, name: &At<Name>, problems: &mut Problems<'_>) -> Option<NodeId> {
    match find_switch(topology, &name.value.0) {
        Ok(switch) => Some(switch),
        Err(error) => {
            problems.add(name.place, error.to_string(), "unknown switch", error.hint);
            None
        }
    }
}

/// A switch that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no switch `{name}`")]
pub struct NoSuchSwitch {
    /// What it was called.
    pub name: String,
    /// Which there are.
    pub hint: String,
}

/// The switch of this name.
///
/// # Errors
/// If there is none.
pub fn find_switch(topology: &Topology, name: &str) -> Result<NodeId, NoSuchSwitch> {
    let found = topology.node(name).filter(|node| !topology.is_host(*node));
    found.ok_or_else(|| {
        let names = || topology.switches().map(|(_, node)| node.name.as_str());
        let hint = match (nearest(name, names()), names().next()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(first)) => format!("one of the switches is `{first}`"),
            (None, None) => "there are none".to_owned(),
        };
        NoSuchSwitch { name: shown(name), hint }
    })
}

/// What a change of a running switch's tables does, each with texts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowCommand {
    /// Adds flows.
    Add,
    /// Gives flows other actions.
    Modify,
    /// Removes flows.
    Delete,
    /// Adds groups.
    AddGroup,
    /// Gives groups other buckets.
    ModifyGroup,
    /// Removes groups by their numbers, and the flows that name them; without a text, all.
    DeleteGroup,
    /// Adds meters.
    AddMeter,
    /// Gives meters other bands.
    ModifyMeter,
    /// Removes meters by their numbers, and the flows that name them; without a text, all.
    DeleteMeter,
}

/// A flow, a group or a meter that somebody wrote for a running switch, and where it stands.
#[derive(Clone, Debug)]
pub struct FlowInput {
    source: Arc<Source>,
    /// Its bytes in the source.
    at: Range<usize>,
}

impl FlowInput {
    /// One that is a word of a command line.
    pub fn of_command_line(text: String) -> Self {
        let at = 0..text.len();
        Self { source: Arc::new(Source { name: "the command line".to_owned(), text }), at }
    }

    /// The lines of a file, or of what `name` says, that are neither empty nor comments.
    pub fn lines(name: &str, text: String) -> Vec<Self> {
        let source = Arc::new(Source { name: name.to_owned(), text });
        let mut end = 0;
        let lines = source.text.split_inclusive('\n').map(|line| {
            let start = end;
            end += line.len();
            start..start + line.trim_end().len()
        });
        let is_meant = |at: &Range<usize>| {
            let line = source.text[at.clone()].trim_start();
            !line.is_empty() && !line.starts_with('#')
        };
        lines.filter(is_meant).map(|at| Self { source: Arc::clone(&source), at }).collect()
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.source.text[self.at.clone()]
    }

    /// What it does, and which part of its text that is for: among flows that are added, a line may say that it does something else, as in bundles of `ovs-ofctl`.
    pub fn command(&self, (command, is_strict): (FlowCommand, bool)) -> ((FlowCommand, bool), &str) {
        let text = self.text();
        let asked = ((command, is_strict), text);
        if command != FlowCommand::Add {
            return asked;
        }
        let line = text.trim_start();
        let word = line.split_whitespace().next().unwrap_or_default();
        let found = BUNDLE_WORDS.iter().find(|(known, _)| *known == word);
        found.map_or(asked, |(_, command)| (*command, &line[word.len()..]))
    }

    /// Shows where in the source a mistake is, within a text that ends where this one does.
    fn explain(&self, text: &str, error: &FlowError) -> Error {
        flow_error(&self.source, self.at.end - text.len(), error)
    }
}

/// Words in front of flows in a bundle of `ovs-ofctl`.
const BUNDLE_WORDS: [(&str, (FlowCommand, bool)); 5] = [
    ("add", (FlowCommand::Add, false)),
    ("modify", (FlowCommand::Modify, false)),
    ("modify_strict", (FlowCommand::Modify, true)),
    ("delete", (FlowCommand::Delete, false)),
    ("delete_strict", (FlowCommand::Delete, true)),
];

/// Reads changes of a switch's tables; `command` with whether flows are meant by exactly their match and priority.
///
/// # Errors
/// If a text is wrong; the error shows where.
pub fn table_changes(
    (topology, switch): (&Topology, NodeId),
    command: (FlowCommand, bool),
    inputs: &[FlowInput],
) -> Result<Vec<TableChange>, Error> {
    let ports = Ports::of(topology, switch);
    let read = |input: &FlowInput| {
        let ((command, is_strict), text) = input.command(command);
        match command {
            FlowCommand::Add => Flow::parse(text, &ports).map(|flow| TableChange::Add(Arc::new(flow))),
            FlowCommand::Modify => parse_modification(text, &ports, is_strict)
                .map(|(selection, instructions)| TableChange::Modify(selection, instructions)),
            FlowCommand::Delete => Selection::parse(text, &ports, is_strict).map(TableChange::Delete),
            FlowCommand::AddGroup => Group::parse(text, &ports).map(TableChange::AddGroup),
            FlowCommand::ModifyGroup => Group::parse(text, &ports).map(TableChange::ModifyGroup),
            FlowCommand::DeleteGroup => Group::parse_number(text).map(TableChange::DeleteGroup),
            FlowCommand::AddMeter => Meter::parse(text).map(TableChange::AddMeter),
            FlowCommand::ModifyMeter => Meter::parse(text).map(TableChange::ModifyMeter),
            FlowCommand::DeleteMeter => Meter::parse_number(text).map(TableChange::DeleteMeter),
        }
        .map_err(|error| input.explain(text, &error))
    };
    inputs.iter().map(read).collect()
}

/// Reads which flows of a switch are meant, as `ovs-ofctl dump-flows` does.
///
/// # Errors
/// As [`table_changes`].
pub fn selection((topology, switch): (&Topology, NodeId), text: &str) -> Result<Selection, Error> {
    let parsed = Selection::parse_shown(text, &Ports::of(topology, switch));
    parsed.map_err(|error| FlowInput::of_command_line(text.to_owned()).explain(text, &error))
}

/// Reads the fields of a packet that is traced through a switch.
///
/// # Errors
/// As [`table_changes`].
pub fn packet((topology, switch): (&Topology, NodeId), text: &str) -> Result<Match, Error> {
    let parsed = parse_packet(text, &Ports::of(topology, switch));
    parsed.map_err(|error| FlowInput::of_command_line(text.to_owned()).explain(text, &error))
}

/// Shows where in a source a mistake is, within a text that begins at `offset`.
fn flow_error(source: &Source, offset: usize, error: &FlowError) -> Error {
    let mut problems = Problems::new(source);
    let place = Place { offset: offset + error.at.start, len: error.at.len() };
    problems.add(place, &error.message, "here", &error.hint);
    problems.into_error()
}

/// Notes what is wrong with a flow, group or meter, at the place where it is wrong.
fn note(text: &At<FlowText>, error: &FlowError, problems: &mut Problems<'_>) {
    let hint = if text.value.0.contains('=') || text.value.0.contains(',') {
        error.hint.clone()
    } else {
        format!("{}; between [ ], a flow needs quotes: its commas would end it", error.hint)
    };
    let place = problems.place_within(text.place, &text.value.0, &error.at);
    problems.add(place, &error.message, "here", hint);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_shown_at_their_lines() {
        let text = "nodes: { h1: host, h2: host, s1: switch }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
";
        let source = Source { name: "x.fabric.yaml".to_owned(), text: text.to_owned() };
        let topology = crate::parse(&source).expect("it is a file").topology;
        let at = (&topology, find_switch(&topology, "s1").unwrap());
        let text = "# some\n\ntcp,actions=drop\r\n  tcp,actions=drops\n# end";
        let inputs = FlowInput::lines("standard input", text.to_owned());
        assert_eq!(inputs.iter().map(FlowInput::text).collect::<Vec<_>>(), ["tcp,actions=drop", "  tcp,actions=drops"]);
        assert_eq!(table_changes(at, (FlowCommand::Add, false), &inputs[..1]).unwrap().len(), 1);
        for (command, column) in [(FlowCommand::Add, 15), (FlowCommand::AddGroup, 3)] {
            let error = table_changes(at, (command, false), &inputs[1..]).unwrap_err();
            assert_eq!((error.file(), error.problems()[0].line), ("standard input", 4));
            assert_eq!(error.problems()[0].column, column, "{error:?}");
        }
        let text =
            "add tcp,actions=drop\ndelete udp\n  modify_strict priority=3,tcp,actions=normal\ndelete\nudp,actions=1\n";
        let bundle = FlowInput::lines("bundle", text.to_owned());
        let changes = table_changes(at, (FlowCommand::Add, false), &bundle).unwrap();
        assert!(matches!(
            &changes[..],
            [
                TableChange::Add(_),
                TableChange::Delete(_),
                TableChange::Modify(Selection { strict: Some(3), .. }, _),
                TableChange::Delete(Selection::ALL),
                TableChange::Add(_),
            ]
        ));
        let wrong = FlowInput::lines("bundle", "add tcp,actions=drop\n delete tcp,tp_dts=1\n".to_owned());
        let error = table_changes(at, (FlowCommand::Add, false), &wrong).unwrap_err();
        assert_eq!((error.problems()[0].line, error.problems()[0].column), (2, 13));
        assert!(table_changes(at, (FlowCommand::Delete, false), &bundle[3..4]).is_err(), "only where flows are added");
        let error = packet(at, "tcp,priority=1").unwrap_err();
        assert_eq!((error.problems()[0].column, error.problems()[0].hint.contains("--strict")), (5, false));
        let error = selection(at, "tpc").unwrap_err();
        assert_eq!((error.file(), error.problems()[0].column), ("the command line", 1));
        assert!(FlowInput::lines("standard input", String::new()).is_empty());
    }
}
