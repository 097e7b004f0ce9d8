//! `cluster backup`: all data and the map of shards, into one file that is there only when it is whole.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use miette::{Report, miette};
use node::Error;
use placement::{Map, Shard, ShardId};
use serde_json::json;
use store::backup::{Content, Head, Writer};
use store::protocol::{Admin, Answer, LeaseRequest, RequestBody};
use tree::{Cursor, Entry};

use super::access::Access;
use super::view::View;
use super::{count, print_outcome};
use crate::cli::{Format, actions};

/// A shard whose server was lost in the midst of it, or data that was moved meanwhile: how often it is begun again.
const TRIES: u32 = 3;

/// Writes a backup.
pub fn backup(args: &actions::Access, file: &Path, force: bool, quiet: bool, format: Format) -> Result<(), Report> {
    if file.exists() && !force {
        return Err(miette!(
            help = "choose another name, or overwrite it with --force",
            "{} is there already",
            file.display()
        ));
    }
    let access = Access::open(args)?;
    let mut partial = Partial::create(file)?;
    let mut contents = None;
    for _ in 0..TRIES {
        contents = take(&access, &mut partial, quiet)?;
        if contents.is_some() {
            break;
        }
    }
    let Some(contents) = contents else {
        return Err(miette!(
            help = "try again when no shards are made, deleted or moved",
            "data was moved between shards each of the {TRIES} times"
        ));
    };
    let bytes = partial.position;
    partial.keep()?;
    let entries: u64 = contents.values().map(|content| content.entries).sum();
    let (file, shards) = (file.display().to_string(), contents.len() as u64);
    let (of_entries, of_shards) = (count(entries, "entry"), count(shards, "shard"));
    let data = [("file", json!(file)), ("shards", json!(shards)), ("entries", json!(entries)), ("bytes", json!(bytes))];
    print_outcome(format, &format!("Wrote {file}: {of_entries} of {of_shards}, {bytes} bytes"), data)
}

/// A bar on standard error, if that is a terminal.
pub fn progress(quiet: bool, what: &'static str, bytes: u64) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    let style = ProgressStyle::with_template("{prefix:>10} [{bar:32}] {percent:>3} %  {bytes}  {eta} left")
        .expect("the template is a constant")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_prefix(what);
    bar
}

/// Writes everything, from the beginning of the file; none if data was moved between shards meanwhile.
fn take(access: &Access, file: &mut Partial, quiet: bool) -> Result<Option<BTreeMap<ShardId, Content>>, Report> {
    let view = at_rest(access)?;
    let shards: Vec<&Shard> = view.map.shards().values().filter(|shard| shard.id != ShardId::META).collect();
    let bytes = shards.iter().filter_map(|shard| view.group(shard.id)).map(|group| group.bytes).sum();
    let bar = progress(quiet, "backup", bytes);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let head = Head {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        taken_unix_s: since_1970.as_secs(),
        cluster: view.cluster,
        map: view.map.encode(),
    };
    let mut out = Vec::new();
    let mut writer = Writer::new(head, &mut out);
    file.rewind_to(0)?;
    file.write(&mut out)?;
    let mut contents = BTreeMap::new();
    for shard in shards {
        let has_leases = may_have_leases(access, shard.id)?;
        contents.insert(shard.id, take_shard(access, file, &mut writer, (shard, has_leases), &bar)?);
    }
    writer.end(&mut out);
    file.write(&mut out)?;
    bar.finish_and_clear();
    Ok(same_places(&view.map, &at_rest(access)?.map).then_some(contents))
}

/// The cluster when nothing is on its way from shard to shard. The map is that of whoever leads meta, or newer.
pub fn at_rest(access: &Access) -> Result<View, Report> {
    let mut moving = false;
    let found = access.wait(|| {
        let view = View::take(access)?;
        let knows = view.leader(ShardId::META).is_some_and(|leader| view.servers.contains_key(&leader));
        moving = !view.map.moves().is_empty() || view.map.shards().values().any(|shard| shard.deleting);
        Ok((knows && !moving).then_some(view))
    })?;
    found.ok_or_else(|| {
        if moving {
            miette!(
                help = "`heddle cluster shards` shows how far it is; --timeout waits longer",
                "data is on its way from one shard to another"
            )
        } else {
            miette!(
                help = "`heddle cluster status` shows who is up; its address has to be within reach from here",
                "the leader of meta, which knows where everything is, cannot be reached"
            )
        }
    })
}

/// Whether the same data is in the same shards.
pub fn same_places(a: &Map, b: &Map) -> bool {
    let places = |map: &Map| map.shards().values().map(|it| (it.id, it.prefixes.clone())).collect::<Vec<_>>();
    places(a) == places(b)
}

/// Whether a shard may have leases: not as long as some servers speak version 1 of the protocol, which is then said to be invalid to ask.
/// The map that a status brings does not say it.
fn may_have_leases(access: &Access, shard: ShardId) -> Result<bool, Report> {
    match access.try_ask(RequestBody::Lease(LeaseRequest::List { shard, after: None })) {
        Ok(_) => Ok(true),
        Err(Error::Request(store::protocol::Error::Invalid(_))) => Ok(false),
        Err(error) => Err(access.explain(error)),
    }
}

/// Writes one shard as it is at one moment, which is another one if it has to begin again.
fn take_shard(
    access: &Access,
    file: &mut Partial,
    writer: &mut Writer,
    (shard, has_leases): (&Shard, bool),
    bar: &ProgressBar,
) -> Result<Content, Report> {
    let (start, drawn) = (file.position, bar.position());
    let mut tries = 1;
    loop {
        let mut attempt = writer.clone();
        let mut out = Vec::new();
        let mut broken = None;
        // Servers of version 1 of the protocol have no leases.
        let ask = |after| {
            if has_leases {
                Admin::BackupLasting { shard: shard.id, after }
            } else {
                Admin::Backup { shard: shard.id, after }
            }
        };
        let outcome = read_by(access, ask, |entries| {
            bar.inc(entries.iter().map(|it| (it.at.path.as_str().len() + it.value.bytes.len()) as u64).sum());
            attempt.entries(shard.id, entries, &mut out);
            broken = file.write(&mut out).err();
            broken.is_none()
        });
        if let Some(report) = broken {
            return Err(report);
        }
        match outcome {
            Ok(()) => {
                let content = attempt.end_shard(shard.id, &mut out);
                file.write(&mut out)?;
                *writer = attempt;
                return Ok(content);
            }
            Err(error) if tries == TRIES => return Err(error.wrap_err(format!("shard {}", shard.name))),
            Err(error) => eprintln!("shard {} begins again: {error}", shard.name),
        }
        tries += 1;
        file.rewind_to(start)?;
        bar.set_position(drawn);
    }
}

/// Hands all entries of a shard to `each`, in order, as they are at one moment; ends early if that gives `false`.
pub fn read_shard(access: &Access, shard: ShardId, each: impl FnMut(Vec<Entry>) -> bool) -> Result<(), Report> {
    read_by(access, |after| Admin::Backup { shard, after }, each)
}

fn read_by(
    access: &Access,
    ask: impl Fn(Option<Cursor>) -> Admin,
    mut each: impl FnMut(Vec<Entry>) -> bool,
) -> Result<(), Report> {
    let mut after = None;
    loop {
        match access.ask(RequestBody::Admin(ask(after)))? {
            Answer::Chunk { entries, next } => {
                if !each(entries) || next.is_none() {
                    return Ok(());
                }
                after = next;
            }
            other => unreachable!("a backup is answered by a part of it, not by {other:?}"),
        }
    }
}

/// A file under another name until it is whole. It goes away when it is not kept.
struct Partial {
    file: File,
    name: PathBuf,
    whole: PathBuf,
    position: u64,
    kept: bool,
}

impl Partial {
    fn create(whole: &Path) -> Result<Self, Report> {
        let mut name = whole.as_os_str().to_owned();
        name.push(".partial");
        let name = PathBuf::from(name);
        // It holds all that the cluster knows: nobody else's business.
        let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&name);
        let file = opened.map_err(|error| failed(whole, "create", &error))?;
        Ok(Self { file, name, whole: whole.to_owned(), position: 0, kept: false })
    }

    /// Writes and empties `out`.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), Report> {
        self.file.write_all(out).map_err(|error| failed(&self.whole, "write", &error))?;
        self.position += out.len() as u64;
        out.clear();
        Ok(())
    }

    fn rewind_to(&mut self, position: u64) -> Result<(), Report> {
        let outcome = self.file.set_len(position).and_then(|()| self.file.seek(SeekFrom::Start(position)));
        self.position = outcome.map_err(|error| failed(&self.whole, "write", &error))?;
        Ok(())
    }

    /// It is whole: gives it its name, once its content is on the disk.
    fn keep(mut self) -> Result<(), Report> {
        self.file.sync_all().map_err(|error| failed(&self.whole, "write", &error))?;
        std::fs::rename(&self.name, &self.whole).map_err(|error| failed(&self.whole, "create", &error))?;
        self.kept = true;
        let folder = self.whole.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|it| it.sync_all()).map_err(|error| failed(folder, "write", &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // If it stays, its name says what it is.
            let _ = std::fs::remove_file(&self.name);
        }
    }
}

fn failed(path: &Path, step: &str, error: &std::io::Error) -> Report {
    let hint = match error.kind() {
        ErrorKind::NotFound => "make its folder first, or choose another",
        ErrorKind::NotADirectory => "a part of this path is a file: name a folder that is there",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "choose a folder that you may write to",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on the disk, or choose another",
        _ => return miette!("cannot {step} {}: {error}", path.display()),
    };
    miette!(help = hint, "cannot {step} {}: {error}", path.display())
}
