//! `cluster lease`: values that go away when nobody keeps them alive.

use std::collections::BTreeSet;
use std::time::Duration;

use miette::{Report, miette};
use node::{Error, random_lease};
use placement::ShardId;
use serde_json::{Value, json};
use store::protocol::{Answer, LeaseRequest, LeaseStatus, RequestBody};
use tree::{LeaseId, Path, Refusal};

use super::access::Access;
use super::{count, print_outcome};
use crate::Ending;
use crate::cli::Format;
use crate::cli::recipes::{LeaseAction, LeaseName};
use crate::output::{Rows, print_json, put};

/// Does what is asked of leases.
pub fn lease(access: &Access, action: &LeaseAction, format: Format) -> Result<Ending, Report> {
    match action {
        LeaseAction::Grant { ttl, path, id } => grant(access, *ttl, path, *id, format),
        LeaseAction::Revoke { lease } => revoke(access, lease, format),
        LeaseAction::Ttl { lease } => show(access, lease, format),
        LeaseAction::KeepAlive { lease, once } => keep_alive(access, lease, *once, format),
        LeaseAction::List => list(access, format),
    }
}

fn grant(access: &Access, ttl: Duration, path: &Path, id: Option<LeaseId>, format: Format) -> Result<Ending, Report> {
    let lease = id.unwrap_or_else(random_lease);
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let request = LeaseRequest::Grant { lease, ttl_ms, home: path.clone() };
    match access.try_ask(RequestBody::Lease(request)) {
        Ok(_) => {
            let data = [("lease", json!(lease.to_string())), ("ttl-ms", json!(ttl_ms)), ("home", json!(path.as_str()))];
            print_outcome(format, &lease.to_string(), data)?;
            Ok(Ending::Passed)
        }
        Err(Error::Request(store::protocol::Error::Refused(refusal @ Refusal::LeaseExists { .. }))) => {
            eprintln!("{refusal}");
            Ok(Ending::Missed)
        }
        Err(error) => Err(access.explain(error)),
    }
}

/// All leases and their parts, with the shards that they are in.
fn all(access: &Access) -> Result<Vec<(ShardId, LeaseStatus)>, Report> {
    let map = access.status()?.map;
    let mut found = Vec::new();
    for shard in map.shards().keys().copied().filter(|shard| *shard != ShardId::META) {
        let mut after = None;
        loop {
            let request = RequestBody::Lease(LeaseRequest::List { shard, after });
            let Answer::Leases { leases, more } = access.ask(request)? else { unreachable!("leases were asked for") };
            after = leases.last().map(|status| status.lease);
            found.extend(leases.into_iter().map(|status| (shard, status)));
            if !more || after.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// Where the lease is asked for: its home.
fn home(access: &Access, name: &LeaseName) -> Result<Option<Path>, Report> {
    if name.at.is_some() {
        return Ok(name.at.clone());
    }
    let found = all(access)?.into_iter().find(|(_, status)| status.lease == name.lease);
    if found.is_none() {
        none(name.lease);
    }
    Ok(found.map(|(_, status)| status.home))
}

fn none(lease: LeaseId) {
    eprintln!("There is no lease {lease}");
}

/// What came of a request by one path of a lease; nothing, if there is no such lease.
fn ask(access: &Access, request: LeaseRequest) -> Result<Option<Answer>, Report> {
    match access.try_ask(RequestBody::Lease(request)) {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Request(store::protocol::Error::Refused(Refusal::NoLease { .. }))) => Ok(None),
        Err(error) => Err(access.explain(error)),
    }
}

/// Every part of a lease, beginning with the one at its home; none if that has ended.
fn parts(access: &Access, lease: LeaseId, home: Path) -> Result<Vec<(Path, LeaseStatus)>, Report> {
    let (mut found, mut known, mut waiting) = (Vec::new(), BTreeSet::from([home.clone()]), vec![home]);
    while let Some(at) = waiting.pop() {
        let Some(Answer::Leases { leases, .. }) = ask(access, LeaseRequest::Show { lease, at: at.clone() })? else {
            if found.is_empty() {
                break;
            }
            continue;
        };
        for status in leases {
            waiting.extend(status.parts.iter().filter(|path| known.insert((*path).clone())).cloned());
            found.push((at.clone(), status));
        }
    }
    Ok(found)
}

fn revoke(access: &Access, name: &LeaseName, format: Format) -> Result<Ending, Report> {
    let Some(home) = home(access, name)? else { return Ok(Ending::Missed) };
    let parts = parts(access, name.lease, home)?;
    if parts.is_empty() {
        none(name.lease);
        return Ok(Ending::Missed);
    }
    let values: u64 = parts.iter().map(|(_, status)| status.values.len() as u64).sum();
    // The home comes last: should anything fail, it leads to what is left.
    for (at, _) in parts.into_iter().rev() {
        ask(access, LeaseRequest::Revoke { lease: name.lease, at })?;
    }
    let data = [("lease", json!(name.lease.to_string())), ("values", json!(values))];
    print_outcome(format, &format!("Revoked lease {}: {} deleted", name.lease, count(values, "value")), data)?;
    Ok(Ending::Passed)
}

fn show(access: &Access, name: &LeaseName, format: Format) -> Result<Ending, Report> {
    let Some(home) = home(access, name)? else { return Ok(Ending::Missed) };
    let parts = parts(access, name.lease, home)?;
    let Some((_, first)) = parts.first() else {
        none(name.lease);
        return Ok(Ending::Missed);
    };
    let left_ms = parts.iter().map(|(_, status)| status.left_ms).min().unwrap_or(0);
    let values: Vec<&str> = parts.iter().flat_map(|(_, status)| &status.values).map(|at| at.path.as_str()).collect();
    match format {
        Format::Table => {
            let mut text = format!("{left_ms} ms of {} ms left, home {}\n", first.ttl_ms, first.home);
            for value in values {
                text.push_str(value);
                text.push('\n');
            }
            put(&text)?;
        }
        Format::Json => print_json(&json!({
            "lease": name.lease.to_string(),
            "ttl-ms": first.ttl_ms,
            "left-ms": left_ms,
            "home": first.home.as_str(),
            "values": values,
        }))?,
        Format::Csv => {
            let mut rows = Rows::new(&["lease", "ttl-ms", "left-ms", "home", "value"]);
            for value in values {
                let lease = name.lease.to_string();
                rows.push([
                    json!(lease),
                    json!(first.ttl_ms),
                    json!(left_ms),
                    json!(first.home.as_str()),
                    json!(value),
                ]);
            }
            put(&rows.render(format))?;
        }
    }
    Ok(Ending::Passed)
}

fn keep_alive(access: &Access, name: &LeaseName, once: bool, format: Format) -> Result<Ending, Report> {
    let Some(home) = home(access, name)? else { return Ok(Ending::Missed) };
    let mut parts: BTreeSet<Path> = BTreeSet::new();
    loop {
        let Some(Answer::Kept { ttl_ms, parts: more }) =
            ask(access, LeaseRequest::KeepAlive { lease: name.lease, at: home.clone() })?
        else {
            none(name.lease);
            return Ok(Ending::Missed);
        };
        parts.extend(more);
        for at in parts.clone() {
            match ask(access, LeaseRequest::KeepAlive { lease: name.lease, at: at.clone() })? {
                Some(Answer::Kept { parts: more, .. }) => parts.extend(more),
                _ => drop(parts.remove(&at)),
            }
        }
        let data = [("lease", json!(name.lease.to_string())), ("ttl-ms", json!(ttl_ms))];
        print_outcome(format, &format!("lease {} lives for {ttl_ms} ms from now", name.lease), data)?;
        if once {
            return Ok(Ending::Passed);
        }
        std::thread::sleep(Duration::from_millis(ttl_ms / 4));
    }
}

fn list(access: &Access, format: Format) -> Result<Ending, Report> {
    let mut rows = Rows::new(&["lease", "ttl-ms", "left-ms", "shard", "home", "values"]);
    for (shard, status) in all(access)? {
        let values: Value = match format {
            Format::Json => status.values.iter().map(|at| json!(at.path.as_str())).collect(),
            _ => json!(status.values.len()),
        };
        let lease = json!(status.lease.to_string());
        rows.push([
            lease,
            json!(status.ttl_ms),
            json!(status.left_ms),
            json!(shard.0),
            json!(status.home.as_str()),
            values,
        ]);
    }
    put(&rows.render(format))?;
    Ok(Ending::Passed)
}

/// A time to live that a lease can have, as it is said to the store.
pub fn ttl(time: Duration) -> Result<machine::nanos::Span, Report> {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if (tree::leases::LEASE_TTL_MIN_MS..=tree::leases::LEASE_TTL_MAX_MS).contains(&ms) {
        return Ok(machine::nanos::Span::from_ms(ms));
    }
    Err(miette!(help = "choose one from 1s to 720h", "--ttl of {ms} ms is out of bounds"))
}
