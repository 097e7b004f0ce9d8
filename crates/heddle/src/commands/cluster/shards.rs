//! `cluster shards` and `cluster move-leader`: which data is where, and who leads it.

use std::collections::BTreeSet;

use miette::{Report, miette};
use placement::{Command, Effect, MoveId, Prefix, Replicas, Shard, ShardId};
use serde_json::{Value, json};
use store::protocol::{Admin, RequestBody};
use store::status::Status;

use super::access::Access;
use super::view::{self, View};
use super::{print_outcome, status};
use crate::cli::Format;
use crate::cli::actions::{ShardAction, ShardScope, Strategy};
use crate::output::{Rows, put};

/// Lists the shards.
pub fn list(access: &Access, format: Format) -> Result<(), Report> {
    let view = View::take(access)?;
    put(&rows(&view).render(format))?;
    if format == Format::Table {
        eprintln!("\nStrategy: {}", status::strategy(view.map.strategy()));
    }
    Ok(())
}

/// One row a shard, with everything.
pub fn rows(view: &View) -> Rows {
    let columns = [
        "id", "name", "prefixes", "made", "replicas", "leader", "pinned", "voters", "learners", "entries", "bytes",
        "revision", "moving",
    ];
    let mut rows = Rows::new(&columns);
    for (id, shard) in view.map.shards() {
        let group = view.group(*id);
        let moving = view::moves(&view.map, *id);
        rows.push([
            json!(id.0),
            json!(shard.name),
            json!(view::prefixes(shard)),
            json!(made(shard)),
            json!(replicas_of(view, shard)),
            json!(view.leader(*id).map(|leader| view.name(leader))),
            json!(shard.pinned.map(|pinned| view.name(pinned))),
            json!(group.map(|group| view.names(&group.voters))),
            json!(group.map(|group| view.names(&group.learners)).filter(|names| !names.is_empty())),
            json!(group.map(|group| group.entries)),
            json!(group.map(|group| group.bytes)),
            json!(group.map(|group| group.revision)),
            if moving.is_empty() { Value::Null } else { json!(moving) },
        ]);
    }
    rows
}

/// How a shard came to be, and whether it is about to go.
fn made(shard: &Shard) -> &'static str {
    match shard {
        Shard { deleting: true, .. } => "being deleted",
        Shard { id: ShardId::META | ShardId::DEFAULT, .. } => "always there",
        Shard { automatic: true, .. } => "by strategy",
        _ => "by hand",
    }
}

fn replicas_of(view: &View, shard: &Shard) -> String {
    match &shard.replicas {
        Replicas::All => "all".to_owned(),
        Replicas::Count(number) => number.to_string(),
        Replicas::Servers(servers) => view.names(servers),
    }
}

/// Changes the shards.
pub fn change(access: &Access, action: &ShardAction, format: Format) -> Result<(), Report> {
    match action {
        ShardAction::Create { name, parts, replicas } => create(access, name, parts, replicas, format),
        ShardAction::Delete { name } => delete(access, name, format),
        ShardAction::Move { name, parts } => move_parts(access, name, parts, format),
        ShardAction::Replicas { name, replicas } => set_replicas(access, name, replicas, format),
        ShardAction::Strategy { strategy } => set_strategy(access, *strategy, format),
        ShardAction::Pin { name, server } => pin(access, name, server, format),
        ShardAction::Unpin { name } => {
            let id = view::shard(&access.status()?.map, name)?.id;
            access.place(Command::Unpin { id })?;
            print_outcome(
                format,
                &format!("The load decides who leads {name}"),
                [("shard", json!(name)), ("pinned", json!(null))],
            )
        }
    }
}

/// What was named on the command line, as the map has it.
fn prefixes(parts: &ShardScope) -> BTreeSet<Prefix> {
    let modules = parts.modules.iter().map(|module| Prefix::Module(module.clone()));
    modules.chain(parts.prefixes.iter().map(|path| Prefix::from(path.clone()))).collect()
}

fn create(access: &Access, name: &str, parts: &ShardScope, replicas: &str, format: Format) -> Result<(), Report> {
    let map = access.status()?.map;
    let replicas = view::replicas(&map, replicas)?;
    for prefix in prefixes(parts) {
        let owner = map.shards().values().find(|shard| !shard.automatic && shard.prefixes.contains(&prefix));
        if let Some(owner) = owner {
            return Err(miette!(
                help = "make it without that, and take it there with `heddle cluster shards move`",
                "{prefix} belongs to shard {} already: nothing was changed",
                owner.name
            ));
        }
    }
    let command = Command::CreateShard { name: name.to_owned(), prefixes: prefixes(parts), replicas };
    let Effect::Shard { id, moves } = access.place(command)? else {
        unreachable!("a shard that is made has a number");
    };
    let converged =
        wait_converged(access, |status| status.map.shards().contains_key(&id) && has_moved(status, &moves))?;
    let data = [("shard", json!(name)), ("id", json!(id.0)), ("moved", json!(converged))];
    let sentence = match (parts_in_words(parts), converged) {
        (None, _) => format!("Shard {name} ({id}) is there, and owns nothing yet"),
        (Some(parts), true) => format!("Shard {name} ({id}) is there, and owns {parts}"),
        (Some(parts), false) => format!("Shard {name} ({id}) is there; {parts} is on its way to it"),
    };
    print_outcome(format, &sentence, data)
}

fn parts_in_words(parts: &ShardScope) -> Option<String> {
    let words: Vec<String> = prefixes(parts).iter().map(Prefix::to_string).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn has_moved(status: &Status, moves: &[MoveId]) -> bool {
    !moves.iter().any(|id| status.map.moves().contains_key(id))
}

/// Waits; says that it goes on by itself if it takes longer than `--timeout`.
fn wait_converged(access: &Access, wanted: impl FnMut(&Status) -> bool) -> Result<bool, Report> {
    let converged = access.wait_until(wanted)?;
    if !converged {
        eprintln!("It goes on by itself: `heddle cluster shards` shows how far it is");
    }
    Ok(converged)
}

fn delete(access: &Access, name: &str, format: Format) -> Result<(), Report> {
    let status = access.status()?;
    let id = view::shard(&status.map, name)?.id;
    access.place(Command::DeleteShard { id })?;
    let gone = wait_converged(access, |status| !status.map.shards().contains_key(&id))?;
    let sentence = if gone { format!("Shard {name} is gone") } else { format!("Shard {name} is being deleted") };
    print_outcome(format, &sentence, [("shard", json!(name)), ("gone", json!(gone))])
}

fn move_parts(access: &Access, name: &str, parts: &ShardScope, format: Format) -> Result<(), Report> {
    let Some(words) = parts_in_words(parts) else {
        return Err(miette!(help = "name modules with --module, paths with --prefix", "there is nothing to move"));
    };
    let status = access.status()?;
    let to = view::shard(&status.map, name)?.id;
    let moved = move_prefixes(access, prefixes(parts), to)?;
    let sentence =
        if moved { format!("{words} is in shard {name}") } else { format!("{words} is on its way to {name}") };
    print_outcome(format, &sentence, [("shard", json!(name)), ("moved", json!(moved))])
}

/// Moves prefixes to a shard; whether they have arrived.
pub fn move_prefixes(access: &Access, prefixes: impl IntoIterator<Item = Prefix>, to: ShardId) -> Result<bool, Report> {
    let mut moves = Vec::new();
    for prefix in prefixes {
        if let Effect::Move(id) = access.place(Command::BeginMove { prefix, to })? {
            moves.push(id);
        }
    }
    // A server whose map is old may not know of the moves yet; once it knows the last one it knows of all.
    let before = access.status()?.map.version();
    wait_converged(access, |status| status.map.version() >= before && has_moved(status, &moves))
}

fn set_replicas(access: &Access, name: &str, replicas: &str, format: Format) -> Result<(), Report> {
    let status = access.status()?;
    let id = view::shard(&status.map, name)?.id;
    let replicas = view::replicas(&status.map, replicas)?;
    access.place(Command::SetReplicas { id, replicas: replicas.clone() })?;
    let arrived = access.wait(|| {
        let view = View::take(access)?;
        let wanted = view.map.desired_replicas(id);
        let has = |group: &store::status::GroupStatus| {
            wanted.voters.iter().eq(&group.voters) && wanted.learners.iter().eq(&group.learners)
        };
        let is_set = view.map.shards().get(&id).is_some_and(|shard| shard.replicas == replicas);
        Ok((is_set && view.group(id).is_some_and(has)).then_some(view))
    })?;
    let voters = arrived.as_ref().map(|view| view.names(&view.map.desired_replicas(id).voters));
    let sentence = if let Some(voters) = &voters {
        format!("{name} is held by {voters}")
    } else {
        eprintln!("It goes on by itself: `heddle cluster shards` shows how far it is");
        format!("{name} is on its way to its new replicas")
    };
    print_outcome(
        format,
        &sentence,
        [("shard", json!(name)), ("voters", json!(voters)), ("converged", json!(arrived.is_some()))],
    )
}

fn set_strategy(access: &Access, strategy: Strategy, format: Format) -> Result<(), Report> {
    let (strategy, sentence) = match strategy {
        Strategy::Single => (placement::Strategy::Single, "Everything is in `default`, but for shards made by hand"),
        Strategy::Distributed => {
            (placement::Strategy::Distributed, "Each module gets a shard of its own when it is first written")
        }
    };
    access.place(Command::SetStrategy { strategy })?;
    // Shards that the other strategy made go away; a shard that is being deleted is not automatic's any more to wait for.
    let converged = wait_converged(access, |status| {
        let leaving = status.map.shards().values().any(|shard| shard.deleting);
        status.map.strategy() == strategy && !leaving
    })?;
    print_outcome(format, sentence, [("strategy", json!(status::strategy(strategy))), ("converged", json!(converged))])
}

fn pin(access: &Access, name: &str, server: &str, format: Format) -> Result<(), Report> {
    let status = access.status()?;
    let id = view::shard(&status.map, name)?.id;
    let member = view::server(&status.map, server)?;
    access.place(Command::Pin { id, server: member.id })?;
    let leads = access.wait(|| Ok((View::take(access)?.leader(id) == Some(member.id)).then_some(())))?.is_some();
    let verb = if leads { "leads" } else { "will lead" };
    let sentence = format!("{} {verb} {name}, whatever the load", member.name);
    print_outcome(format, &sentence, [("shard", json!(name)), ("pinned", json!(member.name)), ("leads", json!(leads))])
}

/// Lets a server lead a shard.
pub fn move_leader(access: &Access, shard: &str, server: &str, format: Format) -> Result<(), Report> {
    let status = access.status()?;
    let shard = view::shard(&status.map, shard)?;
    let member = view::server(&status.map, server)?;
    if let Some(pinned) = shard.pinned.filter(|pinned| *pinned != member.id) {
        return Err(miette!(
            help = format!("heddle cluster shards pin {} {}, or unpin it", shard.name, member.name),
            "{} is pinned to server {pinned}",
            shard.name
        ));
    }
    let holders = status.map.desired_replicas(shard.id).voters;
    if !holders.contains(&member.id) {
        return Err(miette!(
            help = "`heddle cluster shards` shows who has one; `heddle cluster shards replicas` changes it",
            "{} has no voting replica of {}, so it cannot lead it",
            member.name,
            shard.name
        ));
    }
    let leads = access.wait(|| {
        access.ask(RequestBody::Admin(Admin::MoveLeader { shard: shard.id, to: member.id }))?;
        // A transfer takes about a round trip; one that came to nothing is asked for again.
        for _ in 0..10 {
            if View::take(access)?.leader(shard.id) == Some(member.id) {
                return Ok(Some(()));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(None)
    })?;
    if leads.is_none() {
        return Err(miette!(
            help = "is it live, and not far behind? `heddle cluster status` shows it",
            "{} did not become the leader of {} within {:?}",
            member.name,
            shard.name,
            access.timeout
        ));
    }
    let data = [("shard", json!(shard.name)), ("leader", json!(member.name))];
    print_outcome(format, &format!("{} leads {}", member.name, shard.name), data)
}
