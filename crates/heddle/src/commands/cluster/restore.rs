//! `cluster restore`: a new, empty cluster gets the content of a backup.
//!
//! The file is read twice: first to be sure that it is whole, then to write it. What was written is read back and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use machine::ServerId;
use miette::{Report, miette};
use placement::{Command, Effect, Map, PREFIXES_PER_SHARD_MAX, Prefix, Replicas, Shard, ShardId, Strategy};
use serde_json::json;
use store::alarm::{Alarms, size_text};
use store::backup::{BackupError, Content, Part, Reader};
use store::protocol::RequestBody;
use tree::{Change, Entry, Transaction};

use super::access::Access;
use super::backup::{at_rest, progress, read_shard};
use super::view::View;
use super::{alarms, count, print_outcome, shards};
use crate::cli::{Format, actions};

/// Shards have to be made first, on all their servers: that takes longer than a request. Unless `--timeout` says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Read from the file at once.
const BLOCK_BYTES: usize = 1 << 20;

/// A transaction has so many changes at most, and about so many bytes.
const CHANGES_MAX: usize = 512;
const CHANGE_BYTES: usize = 1 << 20;

/// What a backup was found to hold.
struct BackupContents {
    map: Map,
    /// Bytes of each shard, as servers count them.
    bytes: BTreeMap<ShardId, u64>,
    /// Modules with data in `default`.
    modules: BTreeSet<String>,
}

/// Restores a backup.
pub fn restore(args: &actions::Access, file: &Path, quiet: bool, format: Format) -> Result<(), Report> {
    let found = check(file, quiet)?;
    let mut access = Access::open(args)?;
    access.timeout = args.timeout_or(PATIENCE);
    let view = View::take(&access)?;
    empty(&view)?;
    fits(&access, &view, &found)?;
    let contents = fill(&access, file, &found, quiet).map_err(|report| {
        let hint = report.help().map_or_else(String::new, |help| format!(" ({help})"));
        miette!(
            help = "stop the new cluster's controllers, empty their data folders, start them and restore again",
            "the cluster holds a part of the backup only: {report}{hint}"
        )
    })?;
    let (entries, shards) = (contents.values().map(|it| it.entries).sum::<u64>(), contents.len() as u64);
    let (of_entries, of_shards) = (count(entries, "entry"), count(shards, "shard"));
    let sentence = format!("Restored {of_entries} in {of_shards}; all of it was read back and compared");
    print_outcome(format, &sentence, [("entries", json!(entries)), ("shards", json!(shards))])
}

/// Reads the whole file and checks all of it.
fn check(file: &Path, quiet: bool) -> Result<BackupContents, Report> {
    let mut map = None;
    let (mut modules, mut bytes) = (BTreeSet::new(), BTreeMap::<ShardId, u64>::new());
    parts(file, quiet, "check", |part| {
        if let Part::Entries(shard, entries) = &part {
            *bytes.entry(*shard).or_default() += entries.iter().map(|entry| entry.bytes() as u64).sum::<u64>();
        }
        match part {
            Part::Head(head) => map = Some(head.1),
            Part::Entries(ShardId::DEFAULT, entries) => {
                let named = entries.iter().filter_map(|entry| entry.at.path.module());
                for module in named {
                    if !modules.contains(module) {
                        modules.insert(module.to_owned());
                    }
                }
            }
            Part::Entries(..) | Part::ShardEnd(..) | Part::End => {}
        }
        Ok(())
    })?;
    Ok(BackupContents { map: map.expect("a backup without a head is refused"), bytes, modules })
}

/// Hands the parts of a backup to `each`.
fn parts(
    path: &Path,
    quiet: bool,
    what: &'static str,
    mut each: impl FnMut(Part) -> Result<(), Report>,
) -> Result<(), Report> {
    let failed = |error: std::io::Error| miette!("cannot read {}: {error}", path.display());
    let wrong = |error: BackupError| {
        let text = format!("{}: {error}", path.display());
        match text.split_once("; hint: ") {
            Some((text, hint)) => miette!(help = hint.to_owned(), "{text}"),
            None => miette!("{text}"),
        }
    };
    let mut file = File::open(path).map_err(failed)?;
    let bar = progress(quiet, what, file.metadata().map_err(failed)?.len());
    let (mut reader, mut waiting, mut block) = (Reader::new(), Vec::new(), vec![0; BLOCK_BYTES]);
    loop {
        let read = match file.read(&mut block) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            outcome => outcome.map_err(failed)?,
        };
        waiting.extend_from_slice(&block[..read]);
        let mut taken = 0;
        while let Some((part, took)) = reader.next(&waiting[taken..]).map_err(wrong)? {
            taken += took;
            bar.inc(took as u64);
            each(part)?;
        }
        waiting.drain(..taken);
        if read == 0 {
            bar.finish_and_clear();
            return reader.finish().map_err(wrong);
        }
    }
}

/// Refuses a cluster that holds something.
fn empty(view: &View) -> Result<(), Report> {
    let groups = view.map.shards().keys().filter(|id| **id != ShardId::META).filter_map(|id| view.group(*id));
    let entries: u64 = groups.map(|group| group.entries).sum();
    let made: Vec<&str> = (view.map.shards().values())
        .filter(|shard| shard.id > ShardId::DEFAULT)
        .map(|shard| shard.name.as_str())
        .collect();
    if entries == 0 && made.is_empty() {
        return Ok(());
    }
    let shards = if made.is_empty() { String::new() } else { format!(" and the shards {}", made.join(", ")) };
    Err(miette!(
        help =
            "restore into a new one: `heddle controller --data DIR --listen HOST:PORT` starts it, --endpoints names it",
        "this cluster is not empty: it has {}{shards}",
        count(entries, "entry")
    ))
}

/// Refuses a backup that cannot be within the quotas of the servers that are up.
fn fits(access: &Access, view: &View, found: &BackupContents) -> Result<(), Report> {
    let quota = |alarms: Result<Alarms, String>| alarms.ok().and_then(|alarms| alarms.quota_bytes);
    let quotas = alarms::ask(access, view).into_iter().filter_map(|(id, said)| Some((id, quota(said)?))).collect();
    let Some(Lack { server, bytes, quota }) = lack(&view.map, &quotas, &found.map, &found.bytes) else { return Ok(()) };
    let (bytes, quota) = (size_text(bytes), size_text(quota));
    let whose = match server {
        Some(server) => {
            format!("server {} would hold {bytes} of it, and may hold less than {quota}", view.name(server))
        }
        None => format!("with all its replicas it takes {bytes}, and all servers together may hold less than {quota}"),
    };
    Err(miette!(
        help = "start the controllers of this cluster with a higher --quota, or with --quota none, and restore again",
        "the backup is larger than the quota: {whose}; nothing was written"
    ))
}

/// Where there is no room: at one server, or at all together.
#[derive(Debug, PartialEq, Eq)]
struct Lack {
    server: Option<ServerId>,
    bytes: u64,
    quota: u64,
}

/// Where there is certainly too little room for these shards. Which servers get a shard that only some of them hold is the cluster's
/// business, so of those only the sum counts.
fn lack(here: &Map, quotas: &BTreeMap<ServerId, u64>, old: &Map, bytes_of: &BTreeMap<ShardId, u64>) -> Option<Lack> {
    let servers = here.members().len() as u64;
    let (mut everywhere, mut all) = (0_u64, 0_u64);
    for (shard, bytes) in bytes_of {
        let replicas = match old.shards().get(shard).map(|shard| &shard.replicas) {
            Some(Replicas::Count(count)) => u64::from(*count),
            Some(Replicas::Servers(named)) => named.len() as u64,
            Some(Replicas::All) | None => servers,
        };
        let replicas = replicas.clamp(1, servers.max(1));
        everywhere += if replicas == servers { *bytes } else { 0 };
        all = all.saturating_add(bytes.saturating_mul(replicas));
    }
    let smallest = quotas.iter().min_by_key(|(_, quota)| **quota);
    if let Some((server, quota)) = smallest.filter(|(_, quota)| everywhere >= **quota) {
        return Some(Lack { server: Some(*server), bytes: everywhere, quota: *quota });
    }
    let quota = quotas.values().fold(0_u64, |sum, quota| sum.saturating_add(*quota));
    (quotas.len() as u64 == servers && all >= quota).then_some(Lack { server: None, bytes: all, quota })
}

/// Makes the shards, writes everything, reads it back.
fn fill(
    access: &Access,
    file: &Path,
    found: &BackupContents,
    quiet: bool,
) -> Result<BTreeMap<ShardId, Content>, Report> {
    make_shards(access, found)?;
    let map = same_map(access)?;
    let mut written: BTreeMap<ShardId, Content> = BTreeMap::new();
    parts(file, quiet, "restore", |part| {
        let Part::Entries(_, entries) = part else { return Ok(()) };
        let mut by_shard: BTreeMap<ShardId, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            by_shard.entry(map.route(&entry.at.path)).or_default().push(entry);
        }
        for (shard, entries) in by_shard {
            written.entry(shard).or_default().add(&entries);
            write(access, entries)?;
        }
        Ok(())
    })?;
    let now = at_rest(access)?.map;
    let ids: Vec<ShardId> = now.shards().keys().copied().filter(|id| *id != ShardId::META).collect();
    let bar = progress(quiet, "compare", written.values().map(|content| content.bytes).sum());
    for id in &ids {
        let mut content = Content::default();
        read_shard(access, *id, |entries| {
            content.add(&entries);
            bar.inc(entries.iter().map(|entry| entry.value.bytes.len() as u64).sum());
            true
        })?;
        if content != written.get(id).copied().unwrap_or_default() {
            return Err(miette!("shard {id} holds something else than was written: does anybody else write to it?"));
        }
    }
    bar.finish_and_clear();
    pin(access, &found.map)?;
    Ok(ids.into_iter().map(|id| (id, written.get(&id).copied().unwrap_or_default())).collect())
}

/// Makes the shards that the backup's cluster had.
fn make_shards(access: &Access, found: &BackupContents) -> Result<(), Report> {
    let old = &found.map;
    let here = View::take(access)?.map;
    let by_hand = |shard: &&Shard| shard.id > ShardId::DEFAULT && !shard.automatic;
    for shard in old.shards().values().filter(by_hand) {
        let (first, more) = split(&shard.prefixes);
        let replicas = replicas(shard, old, &here);
        let command = Command::CreateShard { name: shard.name.clone(), prefixes: first, replicas };
        let Effect::Shard { id, .. } = access.place(command)? else {
            unreachable!("a shard that is made has a number");
        };
        shards::move_prefixes(access, more, id)?;
    }
    access.place(Command::SetStrategy { strategy: old.strategy() })?;
    for shard in old.shards().values().filter(|shard| shard.automatic) {
        let modules = shard.prefixes.iter().filter_map(|prefix| match prefix {
            Prefix::Module(module) => Some(module.clone()),
            Prefix::Everything | Prefix::Path(_) => None,
        });
        let mut own = None;
        for module in modules {
            own = own.or(ensure(access, module)?);
        }
        if let Some(id) = own {
            shards::move_prefixes(access, shard.prefixes.iter().cloned(), id)?;
            access.place(Command::SetReplicas { id, replicas: replicas(shard, old, &here) })?;
        }
    }
    // What is written first would get its shard while it is written; let it be there before.
    if old.strategy() == Strategy::Distributed {
        for module in &found.modules {
            ensure(access, module.clone())?;
        }
    }
    let kept = old.shards()[&ShardId::DEFAULT].prefixes.iter().filter(|prefix| **prefix != Prefix::Everything);
    shards::move_prefixes(access, kept.cloned(), ShardId::DEFAULT)?;
    Ok(())
}

/// Gives a module a shard of its own, if the strategy does that.
fn ensure(access: &Access, module: String) -> Result<Option<ShardId>, Report> {
    match access.place(Command::EnsureModule { module })? {
        Effect::Shard { id, .. } if id != ShardId::DEFAULT => Ok(Some(id)),
        _ => Ok(None),
    }
}

/// As many prefixes as one command can name, and the rest.
fn split(prefixes: &BTreeSet<Prefix>) -> (BTreeSet<Prefix>, Vec<Prefix>) {
    let first = prefixes.iter().take(PREFIXES_PER_SHARD_MAX).cloned().collect();
    (first, prefixes.iter().skip(PREFIXES_PER_SHARD_MAX).cloned().collect())
}

/// The servers that are to hold a shard here: those of the same names, or as many.
fn replicas(shard: &Shard, old: &Map, here: &Map) -> Replicas {
    let Replicas::Servers(servers) = &shard.replicas else { return shard.replicas.clone() };
    let named = |id| Some(here.member_named(&old.members().get(id)?.name)?.id);
    if let Some(servers) = servers.iter().map(named).collect::<Option<BTreeSet<_>>>() {
        return Replicas::Servers(servers);
    }
    eprintln!("{} was on servers that are not here: any {} will hold it", shard.name, servers.len());
    Replicas::Count(u8::try_from(servers.len()).unwrap_or(u8::MAX))
}

/// The map, once all servers that can be reached have the same.
fn same_map(access: &Access) -> Result<Map, Report> {
    let found = access.wait(|| {
        let view = View::take(access)?;
        let is_old = |status: &store::status::Status| status.map.version() != view.map.version();
        let is_changing = !view.map.moves().is_empty() || view.servers.values().any(is_old);
        Ok((!is_changing).then_some(view.map))
    })?;
    found.ok_or_else(|| miette!("the shards were not made within {:?}", access.timeout))
}

/// Writes entries of one shard.
fn write(access: &Access, entries: Vec<Entry>) -> Result<(), Report> {
    let mut transaction = Transaction::default();
    let mut bytes = 0;
    for Entry { at, value } in entries {
        bytes += at.path.as_str().len() + value.bytes.len();
        // What is there already must not be overwritten.
        transaction.changes.push(Change::Create { at, value: value.bytes });
        if transaction.changes.len() == CHANGES_MAX || bytes >= CHANGE_BYTES {
            access.ask(RequestBody::Write(std::mem::take(&mut transaction)))?;
            bytes = 0;
        }
    }
    if !transaction.changes.is_empty() {
        access.ask(RequestBody::Write(transaction))?;
    }
    Ok(())
}

/// Pins shards to servers of the same names.
fn pin(access: &Access, old: &Map) -> Result<(), Report> {
    let here = access.status()?.map;
    for shard in old.shards().values() {
        let Some(pinned) = shard.pinned.and_then(|id| old.members().get(&id)) else { continue };
        let same = (here.shard_named(&shard.name), here.member_named(&pinned.name));
        let pinned_here = match same {
            (Some(shard), Some(server)) => access.place(Command::Pin { id: shard.id, server: server.id }).is_ok(),
            _ => false,
        };
        if !pinned_here {
            eprintln!(
                "{} was pinned to {}, and is not here: `heddle cluster shards pin` does that",
                shard.name, pinned.name
            );
        }
    }
    Ok(())
}
