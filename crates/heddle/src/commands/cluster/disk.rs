//! `cluster defrag` and the disks in `cluster status -v`: what servers take on their disks, and giving room back.

use miette::{Report, miette};
use placement::Member;
use serde_json::json;
use store::protocol::{Admin, Answer, RequestBody};
use store::status::DiskStatus;

use super::access::Access;
use super::view::{self, View};
use crate::cli::Format;
use crate::output::{Rows, harmless, put};

/// What each server takes on its disk, as far as it answers.
pub fn rows(access: &Access, view: &View) -> Rows {
    let mut rows = Rows::new(&["server", "log-bytes", "log-segments", "snapshot-bytes", "log-in-memory", "data-bytes"]);
    let disks = access.ask_each(view.up(), &Admin::Disk, |answer| match answer {
        Answer::Disk(disk) => Some(disk),
        _ => None,
    });
    for member in view.up() {
        let disk = disks.get(&member.id).and_then(|disk| disk.as_ref().ok());
        rows.push([
            json!(member.name),
            json!(disk.map(|disk| disk.log_bytes)),
            json!(disk.map(|disk| disk.log_segments)),
            json!(disk.map(|disk| disk.snapshot_bytes)),
            json!(disk.map(|disk| disk.log_memory_bytes)),
            json!(disk.map(|disk| disk.content_bytes)),
        ]);
    }
    rows
}

/// Has servers give back all room on their disks that they can, while they go on, and waits until they have.
pub fn defragment(access: &Access, server: Option<&str>, format: Format) -> Result<(), Report> {
    let map = access.status()?.map;
    let members: Vec<Member> = match server {
        Some(server) => vec![view::server(&map, server)?.clone()],
        None => map.members().values().cloned().collect(),
    };
    let mut rows = Rows::new(&["server", "log-bytes-before", "log-bytes", "snapshot-bytes-before", "snapshot-bytes"]);
    let mut failures = Vec::new();
    // One after the other, on purpose: a server that writes a snapshot of all its data is slower meanwhile, and the others are
    // a majority that is not.
    for member in &members {
        match defragment_one(access, member) {
            Ok((before, after)) => rows.push([
                json!(member.name),
                json!(before.log_bytes),
                json!(after.log_bytes),
                json!(before.snapshot_bytes),
                json!(after.snapshot_bytes),
            ]),
            Err(reason) => failures.push(format!("{} at {}: {reason}", member.name, member.address)),
        }
    }
    let are_some_done = failures.len() < members.len();
    if are_some_done {
        put(&rows.render(format))?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    let others = if are_some_done { "; the others are done" } else { "" };
    Err(miette!(
        help =
            "`heddle cluster status` shows which servers are up; a server of an older version has to be upgraded first",
        "not everywhere: {}{others}",
        failures.join("; ")
    ))
}

/// Has one server do it, and waits until it is done; what it took before and after.
fn defragment_one(access: &Access, member: &Member) -> Result<(DiskStatus, DiskStatus), String> {
    let before = ask(access, member, Admin::Defragment)?;
    let is_done = || Ok(ask(access, member, Admin::Disk).ok().filter(|disk| !disk.is_defragmenting));
    let after = access.wait(is_done).map_err(|report| report.to_string())?;
    let late = || "it is not done yet, and goes on by itself: `heddle cluster status -v` shows how far it is, --timeout waits longer";
    after.map(|after| (before, after)).ok_or_else(|| late().to_owned())
}

fn ask(access: &Access, member: &Member, admin: Admin) -> Result<DiskStatus, String> {
    match access.ask_at(&member.address, RequestBody::Admin(admin)) {
        Ok(Answer::Disk(disk)) => Ok(disk),
        Ok(_) => Err("it says something else".to_owned()),
        Err(error) => Err(harmless(&error.to_string())),
    }
}
