//! `cluster watch`: changes, one line each.

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use miette::{Report, miette};
use node::{Error, Watch};
use placement::ShardId;
use serde_json::{Value, json};
use store::protocol::{Consistency, Error as Refused, RequestBody, WatchEvents};
use tree::{Event, EventKind, Location, Path};

use super::access::Access;
use super::data::{object, shown};
use crate::cli::Format;
use crate::cli::actions::LocationArgs;
use crate::output::put;

/// Follows changes until the cluster ends it, or the user does.
pub fn watch(access: &Access, at: &LocationArgs, from: Option<u64>, format: Format) -> Result<(), Report> {
    let location = at.location();
    let from = from.map_or_else(|| Ok(BTreeMap::new()), |revision| in_its_shard(access, &location.path, revision))?;
    let mut changes = Changes::begin(access, location.clone(), from)?;
    let from = &changes.watch.from;
    let from: Vec<String> = from.iter().map(|(shard, revision)| format!("{revision} of shard {shard}")).collect();
    eprintln!("Watching {location} from revision {}", from.join(", "));
    if format == Format::Csv {
        put("revision,shard,event,path,etag,value\n")?;
    }
    loop {
        put(&lines(&changes.next()?, &location.path, format))?;
    }
}

/// So long nothing may come before somebody is asked whether there is a cluster, and so long the answer may take.
const SILENCE: Duration = Duration::from_secs(2);

/// What changes, for whoever waits for it and would wait for nothing if the cluster were away.
pub struct Changes<'a> {
    access: &'a Access,
    watch: Watch<'a>,
    at: Location,
    is_away: bool,
}

impl<'a> Changes<'a> {
    /// Watches a subtree, from these revisions on (empty: from now).
    pub fn begin(access: &'a Access, at: Location, from: BTreeMap<ShardId, u64>) -> Result<Self, Report> {
        let watch = access.client.watch(at.clone(), from, access.timeout).map_err(|error| access.explain(error))?;
        Ok(Self { access, watch, at, is_away: false })
    }

    /// The next ones. It is said when the cluster goes away, and when it comes back.
    ///
    /// # Errors
    /// The cluster has ended the watch.
    pub fn next(&mut self) -> Result<WatchEvents, Report> {
        loop {
            match self.watch.next_within(SILENCE) {
                Ok(batch) => return Ok(batch),
                Err(RecvTimeoutError::Disconnected) => return Err(ended(self.access, self.watch.end())),
                Err(RecvTimeoutError::Timeout) => self.look(),
            }
        }
    }

    /// Says whether there is somebody who could have something to say, if that is otherwise than before.
    fn look(&mut self) {
        let body = RequestBody::Get { at: self.at.clone(), consistency: Consistency::Linearizable };
        let timeout = SILENCE.min(self.access.timeout);
        let error = self
            .access
            .client
            .request(body, timeout)
            .err()
            .filter(|error| error.request().is_some_and(Refused::is_transient));
        match error {
            Some(error) if !self.is_away => {
                eprintln!("note: {}; it goes on when the cluster is there again", self.access.explain(error));
            }
            None if self.is_away => eprintln!("note: the cluster answers again"),
            _ => return,
        }
        self.is_away = !self.is_away;
    }
}

/// Why there is nothing more to come.
fn ended(access: &Access, why: Option<Error>) -> Report {
    match why {
        Some(Error::Request(Refused::Denied(why))) => {
            miette!(
                help = "a watch needs the right to read all of what it watches",
                "the cluster has ended the watch: {why}"
            )
        }
        Some(error) => access.explain(error).wrap_err("the cluster has ended the watch"),
        None => miette!(help = "begin again; what changed meanwhile has to be read", "the cluster has ended the watch"),
    }
}

/// A revision of the one shard that has everything below a path.
fn in_its_shard(access: &Access, path: &Path, revision: u64) -> Result<BTreeMap<ShardId, u64>, Report> {
    let shards = access.status()?.map.shards_under(path);
    if shards.len() > 1 {
        return Err(miette!(
            help = "`heddle cluster shards` shows which data is in which shard: watch a path within one of them",
            "{path} reaches over several shards, each of which counts its own revisions"
        ));
    }
    Ok(shards.into_iter().map(|shard| (shard, revision)).collect())
}

/// One line an event, and one where events were left out.
fn lines(batch: &WatchEvents, watched: &Path, format: Format) -> String {
    let skipped = batch.skipped.then(|| line(batch, "skipped", (batch.revision, watched), None, format));
    let event = |event: &Event| {
        let at = (event.revision, &event.at.path);
        match &event.kind {
            EventKind::Put { etag, value } => line(batch, "put", at, Some((*etag, value)), format),
            EventKind::Deleted => line(batch, "deleted", at, None, format),
            EventKind::Reset => line(batch, "reset", at, None, format),
        }
    };
    skipped.into_iter().chain(batch.events.iter().map(event)).collect()
}

fn line(
    batch: &WatchEvents,
    what: &str,
    (revision, path): (u64, &Path),
    value: Option<(u64, &[u8])>,
    format: Format,
) -> String {
    let shard = batch.shard;
    let (etag, bytes) = value.unzip();
    let text = bytes.map(|bytes| shown(bytes, usize::MAX)).unwrap_or_default();
    match format {
        Format::Table => format!("{revision} {what} {path} {text}").trim_end().to_owned() + "\n",
        Format::Csv => {
            let etag = etag.map(|etag| etag.to_string()).unwrap_or_default();
            format!("{revision},{shard},{what},{},{etag},{}\n", lab::quoted(path.as_str()), lab::quoted(&text))
        }
        Format::Json => {
            let mut fields = serde_json::Map::new();
            fields.insert("revision".into(), json!(revision));
            fields.insert("shard".into(), json!(shard.0));
            fields.insert("event".into(), json!(what));
            fields.extend(object(path, etag, bytes));
            Value::Object(fields).to_string() + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree::Location;

    #[test]
    fn a_line_an_event_in_each_format() {
        let path = Path::parse("/car:cars/car-entry=1").unwrap();
        let at = Location::config(path.clone());
        let put = EventKind::Put { etag: 7, value: b"a, b".into() };
        let events =
            vec![Event { revision: 7, kind: put, at: at.clone() }, Event { revision: 8, kind: EventKind::Deleted, at }];
        let batch = WatchEvents { watch: 1, shard: ShardId(1), revision: 8, skipped: true, events };
        let watched = Path::parse("/car:cars").unwrap();
        assert_eq!(
            lines(&batch, &watched, Format::Table),
            "8 skipped /car:cars\n7 put /car:cars/car-entry=1 a, b\n8 deleted /car:cars/car-entry=1\n"
        );
        assert_eq!(
            lines(&batch, &watched, Format::Csv),
            "8,1,skipped,/car:cars,,\n7,1,put,/car:cars/car-entry=1,7,\"a, b\"\n8,1,deleted,/car:cars/car-entry=1,,\n"
        );
        let json = lines(&batch, &watched, Format::Json);
        let second: Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
        let expected = json!({
            "revision": 7, "shard": 1, "event": "put", "path": "/car:cars/car-entry=1", "etag": 7, "value": "a, b"
        });
        assert_eq!((json.lines().count(), second), (3, expected));
    }
}
