//! `cluster defrag` and the disks in `cluster status -v`: what servers take on their disks, and giving room back.

use std::collections::BTreeMap;

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
    for member in view.up() {
        let disk = ask(access, member, Admin::Disk).ok();
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
    let (mut before, mut failures) = (BTreeMap::new(), Vec::new());
    for member in &members {
        match ask(access, member, Admin::Defragment) {
            Ok(disk) => drop(before.insert(member.id, disk)),
            Err(reason) => failures.push(format!("{} at {}: {reason}", member.name, member.address)),
        }
    }
    for member in members.iter().filter(|member| before.contains_key(&member.id)) {
        let (before, after) = (before[&member.id], wait(access, member)?);
        rows.push([
            json!(member.name),
            json!(before.log_bytes),
            json!(after.log_bytes),
            json!(before.snapshot_bytes),
            json!(after.snapshot_bytes),
        ]);
    }
    if !before.is_empty() {
        put(&rows.render(format))?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    let others = if before.is_empty() { "" } else { "; the others are done" };
    Err(miette!(
        help =
            "`heddle cluster status` shows which servers are up; a server of an older version has to be upgraded first",
        "not everywhere: {}{others}",
        failures.join("; ")
    ))
}

/// Waits until a server is done.
fn wait(access: &Access, member: &Member) -> Result<DiskStatus, Report> {
    let done = access.wait(|| Ok(ask(access, member, Admin::Disk).ok().filter(|disk| !disk.is_defragmenting)))?;
    done.ok_or_else(|| {
        miette!(
            help = "it goes on by itself; --timeout waits longer, `heddle cluster status -v` shows how far it is",
            "{} is not done yet",
            member.name
        )
    })
}

fn ask(access: &Access, member: &Member, admin: Admin) -> Result<DiskStatus, String> {
    match access.ask_at(&member.address, RequestBody::Admin(admin)) {
        Ok(Answer::Disk(disk)) => Ok(disk),
        Ok(_) => Err("it says something else".to_owned()),
        Err(error) => Err(harmless(&error.to_string())),
    }
}
