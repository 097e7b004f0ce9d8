//! The `cluster:` block of an experiment: what is asked of the controllers, and the faults that are injected.

use std::borrow::Cow;

use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::controllers::{Nodes, fits};
use crate::error::Problems;
use crate::names::one_of;
use crate::overrides::{controllers_settings, load_settings};
use crate::parameters::{parameters, plain};
use crate::quantity::{Bytes, Length, Whole};
use crate::read::{Fields, Read, expected, section};
use crate::shards::nodes;
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::{
    Axis, ClusterLoad, Controllers, ControllersSetting, ElectionEnd, Fault, FaultAction, Operation, Role, Target,
};

/// The longest value, in bytes.
const LONGEST_VALUE: u64 = 1 << 20;
/// The most clients of one run.
const MOST_CLIENTS: u64 = 1_024;
/// The most faults of one run.
const MOST_FAULTS: usize = 1_000;
/// A day in milliseconds.
const DAY: u64 = 24 * 3_600_000;

type ValueBytes = Bytes<0, LONGEST_VALUE>;
type Clients = Whole<1, MOST_CLIENTS>;

parameters! {
    /// What a case sets in the load on the controllers.
    #[derive(Copy, Eq)]
    LoadSetting, LoadAxis of ClusterLoad;

    /// What is asked of the controllers, and the faults that are injected meanwhile.
    ClusterText {
        /// In this order: `create`, `read`, `update`, `delete`, `rpc` (the routed `add-person`); or `election` alone.
        /// The first four when not given.
        "operations" => operations: Option<At<Vec<At<Operation>>>>;
        /// How often each operation is asked in a run, by all clients together. 500 when not given; of elections, 1.
        "requests" => requests: Option<Whole<1, 10_000_000>>;
        /// How many clients ask at once. 1 when not given.
        "clients" => clients: Option<Clients>, vary {
            /// How many clients ask the controllers at once.
            "clients": Clients => Condition Clients(u32), plain, |load, clients| load.clients = *clients
        };
        /// Who is asked: `leader` (when not given), `follower`, or `any`.
        "at" => at: Option<At<Role>>, vary {
            /// Which controller is asked.
            "at": Role => Policy At(Role), plain, |load, role| load.at = *role
        };
        /// Bytes of each value. 200 when not given.
        "value" => value: Option<ValueBytes>, vary {
            /// Bytes of each value.
            "value": ValueBytes => Condition Value(u32), plain, |load, bytes| load.value_bytes = *bytes
        };
        /// Of elections: who is killed. `leader` when not given.
        "kill" => kill: Option<At<Target>>;
        /// Of elections: what ends them, the first `write` (when not given), or that another node is `leader`. Simulated
        /// only, the latter.
        "until" => until: Option<At<ElectionEnd>>;
        /// The faults that are injected into the controllers, and when, since the start of the load.
        "faults" => faults: Option<At<Vec<At<FaultText>>>>;
    }
}

section! {
    /// A fault of controllers: one of `kill`, `restart`, `pause`, `partition`.
    FaultText {
        /// When, since the start of the load.
        "at" => at: At<Length<true, DAY>>,
        /// SIGKILL: `leader`, `follower`, `all`, or a node's number.
        "kill" => kill: Option<At<Target>>,
        /// Killed nodes start again: `all`, or a node's number.
        "restart" => restart: Option<At<Target>>,
        /// SIGSTOP, and SIGCONT when `for` is over.
        "pause" => pause: Option<At<Target>>,
        /// No message passes from one of these groups of nodes to another: `[[1], [2, 3]]`.
        "partition" => partition: Option<At<Groups>>,
        /// How long a pause or a partition lasts.
        "for" => duration: Option<At<Length<false, DAY>>>,
    }
}

impl Read for Target {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "leader" => Some(Self::Leader),
            Value::Scalar(text) if text == "follower" => Some(Self::Follower),
            Value::Scalar(text) if text == "all" => Some(Self::All),
            Value::Scalar(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Nodes::read(node, problems).map(|number| Self::Node(number.get()))
            }
            _ => {
                expected(node, "`leader`, `follower`, `all` or a node's number", problems);
                None
            }
        }
    }
}

impl JsonSchema for Target {
    fn schema_name() -> Cow<'static, str> {
        "Target".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "enum": ["leader", "follower", "all"] },
            generator.subschema_for::<Nodes>(),
        ] })
    }
}

/// The sides of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Groups(pub Vec<Vec<u32>>);

impl Read for Groups {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let what = "two groups of nodes or more, like `[[1], [2, 3]]`";
        let Value::List(items) = &node.value else {
            expected(node, what, problems);
            return None;
        };
        if items.len() < 2 || items.iter().any(|item| !matches!(&item.value, Value::List(list) if !list.is_empty())) {
            expected(node, what, problems);
            return None;
        }
        let groups: Vec<Vec<u32>> = items.iter().map(|item| nodes(item, problems)).collect::<Option<_>>()?;
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = groups.iter().flatten().find(|number| !seen.insert(**number)) {
            problems.add(
                node.place,
                format!("node {twice} is in two groups"),
                "on both sides",
                "a node is in one group at most",
            );
            return None;
        }
        Some(Self(groups))
    }
}

impl JsonSchema for Groups {
    fn schema_name() -> Cow<'static, str> {
        "Groups".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let group = json_schema!({ "type": "array", "items": generator.subschema_for::<Nodes>(), "minItems": 1 });
        json_schema!({ "type": "array", "items": group, "minItems": 2 })
    }
}

/// Checks a load against the controllers and the experiment's axes. `None`: it has a problem, which has been noted.
pub(crate) fn load(
    text: &At<ClusterText>,
    controllers: &Controllers,
    axes: &[Axis],
    duration: Option<Span>,
    problems: &mut Problems<'_>,
) -> Option<ClusterLoad> {
    let (before, place, text) = (problems.noted(), text.place, &text.value);
    let operations = operations(text.operations.as_ref(), problems)?;
    let election = operations == [Operation::Election];
    check_kill(text, election, problems);
    check_until(text, election, problems);
    let (least, most) = sizes(controllers, axes);
    let faults = faults(text.faults.as_ref(), least, duration, problems);
    let load = ClusterLoad {
        operations,
        requests: text.requests.map_or(if election { 1 } else { 500 }, Whole::get),
        clients: text.clients.map_or(1, Whole::get),
        at: text.at.as_ref().map_or(Role::Leader, |at| at.value),
        value_bytes: text.value.map_or(200, |value| value.0),
        victim: text.kill.as_ref().map_or(Target::Leader, |kill| kill.value),
        until: text.until.as_ref().map_or(ElectionEnd::Write, |until| until.value),
        faults,
    };
    let at = text.at.as_ref().map_or(place, |at| at.place);
    check_sizes(&load, axes, (least, most), (place, at), problems);
    check_shards(controllers, axes, least, place, problems);
    (problems.noted() == before).then_some(load)
}

/// The smallest and the largest cluster among the cases.
fn sizes(controllers: &Controllers, axes: &[Axis]) -> (u32, u32) {
    varied_nodes(axes)
        .fold(None, |range: Option<(u32, u32)>, nodes| match range {
            None => Some((nodes, nodes)),
            Some((least, most)) => Some((least.min(nodes), most.max(nodes))),
        })
        .unwrap_or((controllers.nodes, controllers.nodes))
}

/// The numbers of controllers that cases have, where that varies.
fn varied_nodes(axes: &[Axis]) -> impl Iterator<Item = u32> {
    controllers_settings(axes)
        .filter_map(|setting| if let ControllersSetting::Nodes(nodes) = setting { Some(*nodes) } else { None })
}

fn operations(text: Option<&At<Vec<At<Operation>>>>, problems: &mut Problems<'_>) -> Option<Vec<Operation>> {
    let Some(text) = text else {
        return Some(vec![Operation::Create, Operation::Read, Operation::Update, Operation::Delete]);
    };
    if !text.sound {
        return None;
    }
    let mut found = Vec::new();
    for At { value, place, .. } in &text.value {
        if found.contains(value) {
            problems.add(*place, format!("`{}` is there twice", value.word()), "the second one", "remove one");
            return None;
        }
        found.push(*value);
    }
    if found.is_empty() {
        problems.add(text.place, "nothing is asked", "empty", "write `operations: [create, read, update, delete]`");
        return None;
    }
    if found.contains(&Operation::Election) && found.len() > 1 {
        problems.add(
            text.place,
            "`election` kills a node, which the other operations would measure as well",
            "besides others",
            "make an experiment of its own: `operations: [election]`",
        );
        return None;
    }
    Some(found)
}

/// Elections kill by themselves; other loads have faults.
fn check_kill(text: &ClusterText, election: bool, problems: &mut Problems<'_>) {
    match (&text.kill, &text.faults) {
        (Some(kill), _) if !election => problems.add(
            kill.place,
            "`kill` is for elections",
            "without `election`",
            "write `faults: [ { at: 1s, kill: leader } ]`",
        ),
        (Some(At { value: Target::All, place, .. }), _) => problems.add(
            *place,
            "with all nodes killed, nobody is left to be elected",
            "all of them",
            "write `kill: leader`",
        ),
        (_, Some(faults)) if election => problems.add(
            faults.place,
            "an experiment with `election` has no faults besides the node that it kills",
            "besides `election`",
            "remove `faults`, or measure other operations",
        ),
        _ => {}
    }
}

/// Only where a leader is killed another one follows it.
fn check_until(text: &ClusterText, election: bool, problems: &mut Problems<'_>) {
    let Some(until) = &text.until else { return };
    let leader_stays = text.kill.as_ref().is_some_and(|kill| kill.value != Target::Leader);
    if !election {
        problems.add(
            until.place,
            "`until` is for elections",
            "without `election`",
            "remove it; `for` makes a run last longer",
        );
    } else if until.value == ElectionEnd::Leader && leader_stays {
        problems.add(
            until.place,
            "the leader stays when another node is killed, and nobody is elected",
            "never comes",
            "write `kill: leader`, or `until: write`",
        );
    }
}

/// Whether there are more faults than one run may have, of nodes or of links; notes it.
pub(crate) fn are_too_many<T>(faults: &At<Vec<T>>, problems: &mut Problems<'_>) -> bool {
    let count = faults.value.len();
    if count > MOST_FAULTS {
        problems.add(
            faults.place,
            format!("{count} faults are more than {MOST_FAULTS}"),
            "too many",
            "repeat a run with fewer: `repeat: 10`",
        );
    }
    count > MOST_FAULTS
}

/// The faults in the order of their times.
fn faults(
    text: Option<&At<Vec<At<FaultText>>>>,
    nodes: u32,
    run: Option<Span>,
    problems: &mut Problems<'_>,
) -> Vec<Fault> {
    let Some(text) = text else { return Vec::new() };
    if are_too_many(text, problems) {
        return Vec::new();
    }
    let mut faults: Vec<Fault> = text.value.iter().filter_map(|one| fault(one, nodes, run, problems)).collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn fault(text: &At<FaultText>, nodes: u32, run: Option<Span>, problems: &mut Problems<'_>) -> Option<Fault> {
    if !text.sound {
        return None;
    }
    let fault = Fault { at: text.value.at.value.0, action: action(text, problems)? };
    let needed = fault.action.needs_nodes();
    if needed > nodes {
        problems.add(
            text.place,
            format!("this fault needs {needed} controllers, of {nodes}"),
            "more than there are",
            format!("name nodes from 1 to {nodes} only, or raise `nodes`"),
        );
        return None;
    }
    if run.is_some_and(|run| fault.end() > run) {
        let end = fault.end();
        problems.add(
            text.place,
            format!("this fault is over at {end}, after the end of the run"),
            "too late",
            "make `for:` of the experiment longer, or leave it out: runs wait for the last fault",
        );
        return None;
    }
    Some(fault)
}

fn action(text: &At<FaultText>, problems: &mut Problems<'_>) -> Option<FaultAction> {
    const ACTIONS: [&str; 4] = ["kill", "restart", "pause", "partition"];
    let (place, text) = (text.place, &text.value);
    let given = [text.kill.is_some(), text.restart.is_some(), text.pause.is_some(), text.partition.is_some()];
    let given = given.into_iter().filter(|given| *given).count();
    if given != 1 {
        problems.add(
            place,
            format!("a fault is one of {}", one_of(ACTIONS)),
            if given == 0 { "none of them" } else { "several of them" },
            "write one list entry for each: `{ at: 2s, kill: leader }`",
        );
        return None;
    }
    if let Some(target) = text.kill.as_ref().or(text.restart.as_ref()) {
        if let Some(duration) = &text.duration {
            problems.add(
                duration.place,
                "only a pause and a partition have a duration",
                "has no end",
                "a node that was killed stays so until `{ at: 4s, restart: all }`",
            );
            return None;
        }
        return instant(target, text.kill.is_some(), problems);
    }
    let Some(duration) = text.duration.as_ref().map(|duration| duration.value.0) else {
        problems.add(place, "`for` is missing", "how long?", "add `for: 500ms`");
        return None;
    };
    match (&text.pause, &text.partition) {
        (Some(target), _) => Some(FaultAction::Pause { target: target.value, duration }),
        (None, Some(groups)) => Some(FaultAction::Partition { groups: groups.value.0.clone(), duration }),
        (None, None) => unreachable!("one of the four is given"),
    }
}

fn instant(target: &At<Target>, kill: bool, problems: &mut Problems<'_>) -> Option<FaultAction> {
    match target.value {
        target if kill => Some(FaultAction::Kill(target)),
        Target::Leader | Target::Follower => {
            problems.add(
                target.place,
                "a node that was killed is neither leader nor follower",
                "can't be restarted",
                "write `restart: all` for all that were killed, or a node's number",
            );
            None
        }
        target => Some(FaultAction::Restart(target)),
    }
}

/// Whether there are enough nodes to ask and to kill. `places`: of the load, and of who is asked.
fn check_sizes(
    load: &ClusterLoad,
    axes: &[Axis],
    (least, most): (u32, u32),
    places: (Place, Place),
    problems: &mut Problems<'_>,
) {
    let roles: Vec<Role> = load_settings(axes)
        .filter_map(|setting| if let LoadSetting::At(role) = setting { Some(*role) } else { None })
        .collect();
    let asks_follower = if roles.is_empty() { load.at == Role::Follower } else { roles.contains(&Role::Follower) };
    if asks_follower && most < Role::Follower.needs_nodes() {
        problems.add(
            places.1,
            "a single controller has no follower to ask",
            "nobody to ask",
            "raise `nodes`, or write `at: leader`",
        );
    }
    let needed = load.needs_nodes();
    if load.is_election() && least < needed {
        problems.add(
            places.0,
            format!("this election needs {needed} controllers, of {least}: a majority must be left"),
            "too few",
            format!("`nodes: {needed}` or more, also under `vary`"),
        );
    }
}

/// Whether every case has the nodes that its shards name.
fn check_shards(controllers: &Controllers, axes: &[Axis], least: u32, place: Place, problems: &mut Problems<'_>) {
    let mut varies = false;
    for setting in controllers_settings(axes) {
        if let ControllersSetting::Shards(shards) = setting {
            varies = true;
            fits(shards, least, place, problems);
        }
    }
    if !varies && varied_nodes(axes).next().is_some() {
        fits(&controllers.shards, least, place, problems);
    }
}
