//! `show programs`, `program`: what hosts start with the network.

use fabric::{Fabric, Restart};
use live::{Instance, Phase, ProgramCommand, ProgramState};
use miette::{Report, miette};
use serde_json::json;

use super::explain;
use super::instance::{connect, definition, host, running};
use crate::cli::{Format, Program, ProgramAction};
use crate::natural;
use crate::output::{Rows, put};
use vswitch::chain::OnFailure;

const NO_PROGRAMS: &str =
    "No programs: `programs: { web: python3 -m http.server 80 }` in a host of the file starts one with the network.";

/// One row for each program that hosts start with the network.
pub fn program_rows(states: &[ProgramState]) -> Rows {
    let mut states: Vec<&ProgramState> = states.iter().collect();
    states.sort_by(|a, b| natural::compare(&a.host, &b.host).then_with(|| natural::compare(&a.program, &b.program)));
    let mut rows = Rows::new(&["host", "program", "state", "pid", "for-s", "starts", "last-end", "output"])
        .or_say(NO_PROGRAMS)
        .with_spare(&["pid", "for-s", "starts", "output"]);
    for program in states {
        let state = match program.phase {
            Phase::Running => "running",
            Phase::Waiting => "waiting to restart",
            Phase::Ended => "ended",
            Phase::Stopped => "stopped",
        };
        rows.push([
            json!(program.host),
            json!(program.program),
            json!(state),
            json!(program.pid),
            json!(program.since_ms / 1_000),
            json!(program.starts),
            json!(program.last),
            json!(program.output),
        ]);
    }
    rows
}

/// The same of a file, which says what is started.
pub fn programs_of_file(fabric: &Fabric) -> Rows {
    let mut rows = Rows::new(&["host", "program", "restart", "command"]).or_say(NO_PROGRAMS);
    let mut setups: Vec<_> = fabric.setups.iter().collect();
    setups.sort_by(|(a, _), (b, _)| natural::compare(a, b));
    for (host, setup) in setups {
        for program in &setup.programs {
            let command = match program.run.as_slice() {
                [sh, option, line] if sh == "sh" && option == "-c" => line.clone(),
                words => words.join(" "),
            };
            rows.push([json!(host), json!(program.name), json!(program.restart), json!(command)]);
        }
        if let Some(vm) = &setup.vm {
            let command = format!("{}, {} MiB", vm.hypervisor.name(), vm.memory_bytes >> 20);
            rows.push([json!(host), json!("vm"), json!(Restart::OnFailure), json!(command)]);
        }
    }
    rows
}

/// The programs that are meant by a host's name and a program's, or by one or none of them; at least one.
pub fn programs_meant(
    instance: &Instance,
    of: Option<&str>,
    program: Option<&str>,
) -> Result<Vec<ProgramState>, Report> {
    let mut all = instance.programs().map_err(explain)?;
    if let Some(name) = of {
        host(&definition(instance)?.topology, name)?;
        all.retain(|program| program.host == name);
    }
    if all.is_empty() {
        let whose = of.map_or_else(|| "this network's file".to_owned(), |host| format!("host `{host}`"));
        return Err(miette!(
            help = "`programs: { web: python3 -m http.server 80 }` in a host of the file starts some; what `heddle exec` starts writes to its own terminal",
            "{whose} has no programs"
        ));
    }
    let names: Vec<&str> = all.iter().map(|program| program.program.as_str()).collect();
    let help = format!("there are {}", names.join(", "));
    let is_meant = |state: &&ProgramState| program.is_none_or(|name| name == state.program);
    let found: Vec<ProgramState> = all.iter().filter(is_meant).cloned().collect();
    match program {
        Some(name) if found.is_empty() => Err(miette!(help = help, "there is no program `{name}`")),
        _ => Ok(found),
    }
}

/// Starts, ends or restarts programs of a host, and shows how they do then.
pub fn program(args: &Program, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle program --name NETWORK ..`")?)?;
    let (at, command) = match &args.action {
        ProgramAction::Start { at } => (at, ProgramCommand::Start),
        ProgramAction::Stop { at } => (at, ProgramCommand::Stop),
        ProgramAction::Restart { at } => (at, ProgramCommand::Restart),
    };
    let program = at.program.as_deref();
    programs_meant(&instance, Some(&at.host), program)?;
    let states = instance.command_programs(&at.host, program, command).map_err(explain)?;
    if states.is_empty() {
        return Err(miette!(
            help = "take `uplink:` out of the host in the file, and `heddle up` it again",
            "the uplink of host `{}` runs as long as the file has it",
            at.host
        ));
    }
    put(&program_rows(&states).render(format))?;
    if command == ProgramCommand::Stop {
        for note in without_function(&definition(&instance)?, &at.host) {
            eprintln!("note: {note}");
        }
    }
    Ok(())
}

/// What becomes of the packets of chains whose function a host is, while it passes nothing on.
fn without_function(fabric: &Fabric, host: &str) -> Vec<String> {
    let chains = &fabric.chains;
    let named = |instance: &[topology::NodeId; 2]| fabric.topology.nodes[instance[0]].name.as_str();
    let mut notes = Vec::new();
    for (number, function) in chains.functions.iter().enumerate() {
        let instances: Vec<&str> = function.instances().iter().map(named).collect();
        if !instances.contains(&host) {
            continue;
        }
        let others: Vec<&str> = instances.into_iter().filter(|other| *other != host).collect();
        for chain in chains.chains.iter().filter(|chain| chain.functions.contains(&number)) {
            let becomes = match chain.on_failure {
                OnFailure::Bypass => "they go on without it",
                OnFailure::Block => "they are dropped",
            };
            let when = match &others[..] {
                [] => String::new(),
                others => format!("go to {}; if none of those is up, ", others.join(", ")),
            };
            let (name, function, word) = (&chain.name, &function.name, chain.on_failure.name());
            notes.push(format!(
                "packets of chain {name} for function {function}, once it is seen that it passes none on: {when}{becomes} (on-failure: {word})"
            ));
        }
    }
    notes
}
