//! Judges a history of a live cluster, as `benches/nemesis` writes it: `judge FILE`, one JSON object a line.
//!
//! It prints `linearizable`, `not linearizable: ...` with the operations that contradict each other, or `not decided ...`;
//! the exit status is 0, 1 or 3, and 2 for a file that is no history.

use std::collections::BTreeMap;
use std::process::ExitCode;

use machine::nanos::Time;
use serde::Deserialize;
use sim::linearizability::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged, check};
use sim::linearizability::{Limits, Operation, Outcome, Verdict};

/// One line of a history.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    client: u32,
    entry: u32,
    /// When it was called, in nanoseconds.
    call: u64,
    /// Nanoseconds; nothing if nobody knows what came of it.
    #[serde(rename = "return")]
    returned: Option<u64>,
    #[serde(rename = "do")]
    action: String,
    #[serde(default)]
    leaf: String,
    #[serde(default)]
    value: u64,
    #[serde(default)]
    other: u64,
    #[serde(rename = "if")]
    condition: Option<ConditionLine>,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    seen: BTreeMap<String, SeenLine>,
    #[serde(default)]
    revision: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionLine {
    leaf: String,
    expect: String,
    #[serde(default)]
    number: u64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeenLine {
    value: u64,
    tag: u64,
}

fn leaf(name: &str) -> Result<Leaf, String> {
    match name {
        "a" => Ok(Leaf::A),
        "b" => Ok(Leaf::B),
        other => Err(format!("there is no leaf `{other}`")),
    }
}

impl Line {
    fn action(&self) -> Result<Action, String> {
        let change = match &*self.action {
            "get" => return Ok(Action::Get(leaf(&self.leaf)?)),
            "list" => return Ok(Action::List),
            "create" => Change::Create(leaf(&self.leaf)?, self.value),
            "put" => Change::Put(leaf(&self.leaf)?, self.value),
            "replace" => Change::Replace(leaf(&self.leaf)?, self.value),
            "put-both" => Change::PutBoth { a: self.value, b: self.other },
            "delete" => Change::Delete,
            "remove" => Change::Remove,
            other => return Err(format!("nobody can `{other}`")),
        };
        let condition = self.condition.as_ref().map(ConditionLine::condition).transpose()?;
        Ok(Action::Write { condition, change })
    }

    fn output(&self, action: Action) -> Result<Output, String> {
        let seen = |name| self.seen.get(name).map(|&SeenLine { value, tag }| Tagged { value, tag });
        match (action, &*self.outcome) {
            (Action::Get(leaf), "seen") => Ok(Output::Leaf(seen(if leaf == Leaf::A { "a" } else { "b" }))),
            (Action::List, "seen") => Ok(Output::Leaves(seen("a"), seen("b"))),
            (Action::Write { .. }, "written") => Ok(Output::Written { revision: self.revision }),
            (Action::Write { .. }, "refused") => Ok(Output::Refused),
            (_, other) => Err(format!("`{}` cannot have the outcome `{other}`", self.action)),
        }
    }

    fn operation(&self) -> Result<Operation<Input, Output>, String> {
        let action = self.action()?;
        let outcome = match self.returned {
            Some(at) if at < self.call => return Err("it returned before it was called".into()),
            Some(at) => Outcome::Returned { at: Time::from_ns(at), output: self.output(action)? },
            None => Outcome::Unknown,
        };
        let input = Input { entry: self.entry, action };
        Ok(Operation { client: self.client, invoked: Time::from_ns(self.call), input, outcome })
    }
}

impl ConditionLine {
    fn condition(&self) -> Result<Condition, String> {
        let expect = match &*self.expect {
            "absent" => Expect::Absent,
            "present" => Expect::Present,
            "tag" => Expect::Tag(self.number),
            "value" => Expect::Value(self.number),
            other => return Err(format!("nothing can be `{other}`")),
        };
        Ok(Condition { leaf: leaf(&self.leaf)?, expect })
    }
}

fn read(text: &str) -> Result<Vec<Operation<Input, Output>>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let operation = |(number, line)| {
        let line = serde_json::from_str::<Line>(line).map_err(|error| error.to_string());
        line.and_then(|line| line.operation()).map_err(|error| format!("line {}: {error}", number + 1))
    };
    let mut history = lines.map(operation).collect::<Result<Vec<_>, _>>()?;
    history.sort_by_key(|operation| operation.invoked);
    Ok(history)
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("judge FILE");
        return ExitCode::from(2);
    };
    #[allow(clippy::disallowed_methods, reason = "the caller of the checker, not the checker")]
    let text = std::fs::read_to_string(&path);
    let history = text.map_err(|error| error.to_string()).and_then(|text| read(&text));
    let history = match history {
        Ok(history) => history,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    let verdict = check(&history, Limits { steps_a_key: 20_000_000 }).verdict;
    println!("{verdict}");
    match verdict {
        Verdict::Linearizable => ExitCode::SUCCESS,
        Verdict::Illegal(_) => ExitCode::FAILURE,
        Verdict::Unknown { .. } => ExitCode::from(3),
    }
}
