//! `cluster watch`: changes, one line each.

use std::collections::BTreeMap;

use miette::{Report, miette};
use node::Error;
use placement::ShardId;
use serde_json::{Value, json};
use store::protocol::WatchEvents;
use tree::{Event, EventKind, Path};

use super::access::Access;
use super::data::{object, shown};
use crate::cli::Format;
use crate::cli::actions::LocationArgs;
use crate::output::put;

/// Follows changes until the cluster ends it, or the user does.
pub fn watch(access: &Access, at: &LocationArgs, from: Option<u64>, format: Format) -> Result<(), Report> {
    let location = at.location();
    let from = from.map_or_else(|| Ok(BTreeMap::new()), |revision| in_its_shard(access, &location.path, revision))?;
    let mut watch =
        access.client.watch(location.clone(), from, access.timeout).map_err(|error| access.explain(error))?;
    let from: Vec<String> = watch.from.iter().map(|(shard, revision)| format!("{revision} of shard {shard}")).collect();
    eprintln!("Watching {location} from revision {}", from.join(", "));
    if format == Format::Csv {
        put("revision,shard,event,path,etag,value\n")?;
    }
    for batch in watch.by_ref() {
        put(&lines(&batch, &location.path, format))?;
    }
    Err(ended(access, watch.end()))
}

/// Why there is nothing more to come.
pub fn ended(access: &Access, why: Option<Error>) -> Report {
    match why {
        Some(Error::Request(store::protocol::Error::Denied(why))) => {
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
