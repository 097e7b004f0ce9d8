//! `cluster add`, `remove`, `replace`: servers come and go.

use std::time::Duration;

use machine::ServerId;
use miette::{Report, miette};
use placement::access::Invitation;
use placement::{AccessCommand, Command, Map, ShardId};
use serde_json::json;
use store::protocol::{Admin, Answer, RequestBody};

use super::access::Access;
use super::view::{self, View};
use super::{count, print_outcome, users};
use crate::cli::Format;

/// What nobody knows who could put it into a command.
const SAME_OPTIONS: &str =
    "If the others were started with --election-timeout, --reads, --no-pre-vote or --quota, give it the same";

/// A server that was invited has to join within this.
const INVITED_FOR: Duration = Duration::from_secs(3_600);

/// Says how to start a further server.
pub fn add(access: &Access, name: Option<&str>, listen: Option<&str>, format: Format) -> Result<(), Report> {
    if let Some(name) = name {
        node::check_name(name).map_err(super::explain)?;
    }
    let map = access.status()?.map;
    let name = match name {
        Some(taken) if map.member_named(taken).is_some() => {
            return Err(miette!(
                help = format!("choose another name; a server that takes its place: heddle cluster replace {taken}"),
                "there is a server {taken} already"
            ));
        }
        Some(name) => name.to_owned(),
        None => free_name(&map),
    };
    let is_guessed = listen.is_none();
    let listen = listen.map_or_else(|| free_address(&map), str::to_owned);
    let command = format!("heddle controller --node {name} --listen {listen} --join {}", join(&map, None));
    let command = invite(access, &name, None)? + &command + &access.certificates();
    print_outcome(format, &command, [("name", json!(name)), ("listen", json!(listen)), ("command", json!(command))])?;
    if format == Format::Table {
        let guessed = if is_guessed {
            " Its port is the next behind those of the members: two that have not joined yet need two."
        } else {
            ""
        };
        eprintln!(
            "\nRun this on the machine of {name}: it joins by itself, and gets replicas of all shards that are on all servers.{guessed} {SAME_OPTIONS}"
        );
    }
    Ok(())
}

/// Says how to start a server in another's place.
pub fn replace(
    access: &Access,
    old: &str,
    name: Option<&str>,
    listen: Option<&str>,
    format: Format,
) -> Result<(), Report> {
    if let Some(name) = name {
        node::check_name(name).map_err(super::explain)?;
    }
    let view = View::take(access)?;
    let old = view::server(&view.map, old)?;
    let name = name.unwrap_or(&old.name);
    if let Some(taken) = view.map.member_named(name).filter(|taken| taken.id != old.id) {
        return Err(miette!(
            help = "choose another name, or leave it out: the new one may have the old one's",
            "there is a server {} already",
            taken.name
        ));
    }
    if view.map.members().len() == 1 {
        return Err(miette!(
            help = "add one first: heddle cluster add",
            "{} is the only server of this cluster: all data is there, and nobody else could let a new one in",
            old.name
        ));
    }
    let listen = listen.unwrap_or(&old.address);
    let join = join(&view.map, Some(old.id));
    let command = format!("heddle controller --node {name} --listen {listen} --join {join} --replace {}", old.id);
    let command = invite(access, name, Some(old.id))? + &command + &access.certificates();
    let data =
        [("old", json!(old.name)), ("name", json!(name)), ("listen", json!(listen)), ("command", json!(command))];
    print_outcome(format, &command, data)?;
    if format == Format::Table {
        let first =
            if view.is_live(old.id) { format!("{} is running: stop it first. ", old.name) } else { String::new() };
        eprintln!(
            "\n{first}Run this on the machine of the new server, with an empty data folder: it takes the place of {} in one step. {SAME_OPTIONS}",
            old.name
        );
        let stuck = stuck(&view, old.id);
        if !stuck.is_empty() {
            eprintln!(
                "Too few servers of {} are running without it: the new one is let in as soon as enough of them run",
                stuck.join(", ")
            );
        }
    }
    Ok(())
}

/// Where users are checked, what the new server shows to be let in: a token for this name, once, within an hour.
fn invite(access: &Access, name: &str, replaces: Option<ServerId>) -> Result<String, Report> {
    let Answer::Identity { is_enabled: true, .. } = access.ask(RequestBody::WhoAmI)? else { return Ok(String::new()) };
    let (secret, token) = users::draw(Some(INVITED_FOR));
    let invitation = Invitation { token, replaces };
    let command = AccessCommand::Invite { server: name.to_owned(), invitation };
    access.place(Command::Access { revision: None, command })?;
    Ok(format!("HEDDLE_TOKEN={} ", secret.reveal()))
}

/// Shards without a majority of running voters when this server is down.
fn stuck(view: &View, down: ServerId) -> Vec<String> {
    let is_stuck = |shard: &&placement::Shard| {
        let Some(group) = view.group(shard.id).filter(|group| group.voters.contains(&down)) else { return false };
        let live = group.voters.iter().filter(|voter| **voter != down && view.is_live(**voter)).count();
        live * 2 <= group.voters.len()
    };
    view.map.shards().values().filter(is_stuck).map(|shard| shard.name.clone()).collect()
}

/// `c2`, or the next that is free.
fn free_name(map: &Map) -> String {
    let names = (1..).map(|number| format!("c{number}"));
    let free = names.skip(map.members().len()).find(|name| map.member_named(name).is_none());
    free.expect("there are more numbers than servers")
}

/// Where a further server could listen: beside the others if they are all on this machine.
fn free_address(map: &Map) -> String {
    let ports = map.members().values().map(|member| {
        let (host, port) = member.address.rsplit_once(':')?;
        let is_local = host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback());
        if is_local { port.parse::<u16>().ok() } else { None }
    });
    let ports: Option<Vec<u16>> = ports.collect();
    match ports.and_then(|ports| ports.into_iter().max()).and_then(|port| port.checked_add(1)) {
        Some(port) => format!("127.0.0.1:{port}"),
        None => format!("HOST:{}", node::DEFAULT_PORT),
    }
}

/// The addresses that a new server asks to be let in.
fn join(map: &Map, except: Option<ServerId>) -> String {
    let others = map.members().values().filter(|member| Some(member.id) != except);
    others.map(|member| member.address.as_str()).collect::<Vec<_>>().join(",")
}

/// Takes a server out of the cluster.
pub fn remove(access: &Access, server: &str, force: bool, format: Format) -> Result<(), Report> {
    let view = View::take(access)?;
    let member = view::server(&view.map, server)?;
    let endangered = endangered(&view, member.id);
    if !force && !endangered.is_empty() {
        return Err(miette!(
            help = "start the servers that are down, or remove those first; --force removes it all the same, and what only it could \
                    complete is lost",
            "without {} too few servers of {} would be running",
            member.name,
            endangered.join(", ")
        ));
    }
    // The one that was asked may be the one that has to go: it could not say what came of it.
    let others = view.map.members().values().filter(|it| it.id != member.id && view.is_live(it.id));
    let others: Vec<String> = others.map(|it| it.address.clone()).collect();
    let by_others = if others.is_empty() { None } else { Some(access.by_way_of(&others)?) };
    let access = by_others.as_ref().unwrap_or(access);
    let removal = if endangered.is_empty() {
        Admin::Placement(Command::RemoveServer { id: member.id })
    } else {
        Admin::ForceRemove(member.id)
    };
    access.administer(removal).map_err(|report| {
        if force && endangered.contains(&view.map.shards()[&ShardId::META].name) {
            no_majority(&report)
        } else {
            report
        }
    })?;
    let converged = access.wait(|| {
        let view = View::take(access)?;
        let is_left = |shard: &placement::ShardId| {
            view.group(*shard)
                .is_none_or(|group| group.voters.contains(&member.id) || group.learners.contains(&member.id))
        };
        let is_gone = !view.map.members().contains_key(&member.id);
        Ok((is_gone && !view.map.shards().keys().any(is_left)).then_some(view.map.members().len()))
    })?;
    let data = [("removed", json!(member.name)), ("id", json!(member.id.0)), ("converged", json!(converged.is_some()))];
    let left = converged.map_or_else(String::new, |left| format!("; {} left", count(left as u64, "server")));
    if converged.is_none() {
        eprintln!("Its replicas are being taken over by others: `heddle cluster shards` shows how far that is");
    }
    let sentence = format!("{} is no server of this cluster any more{left}", member.name);
    print_outcome(format, &sentence, data)?;
    if format == Format::Table {
        eprintln!("Its data folder is of no more use: it can join again with an empty one only");
    }
    Ok(())
}

/// Of those who run there are too few to agree on anything: force does not help.
fn no_majority(report: &Report) -> Report {
    miette!(
        help = "start a server that is down with its data folder, on another machine if need be (--advertise says where it is \
                then). If the folders are lost: start a new cluster and fill it with the last backup (`heddle cluster restore \
                FILE`); what the servers that run have can be read with --stale",
        "meta, which knows who belongs to the cluster, needs a majority of its voters to change that, with --force, too: {report}"
    )
}

/// Shards of this server that cannot let it go, or would have no majority of running voters without it: a change needs a
/// majority before and after it.
fn endangered(view: &View, leaving: ServerId) -> Vec<String> {
    let is_endangered = |shard: &&placement::Shard| {
        let Some(group) = view.group(shard.id).filter(|group| group.voters.contains(&leaving)) else { return false };
        let has_majority =
            |voters: &[ServerId]| voters.iter().filter(|voter| view.is_live(**voter)).count() * 2 > voters.len();
        let rest: Vec<ServerId> = group.voters.iter().copied().filter(|voter| *voter != leaving).collect();
        !has_majority(&group.voters) || !(rest.is_empty() || has_majority(&rest))
    };
    view.map.shards().values().filter(is_endangered).map(|shard| shard.name.clone()).collect()
}
