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
use crate::output::{Rows, put};

/// What each server takes on its disk, as far as it answers.
pub fn rows(access: &Access, view: &View) -> Rows {
    let mut rows = Rows::new(&["server", "log-bytes", "log-segments", "snapshot-bytes", "log-in-memory", "data-bytes"]);
    for (id, member) in view.map.members().iter().filter(|(id, _)| view.servers.contains_key(*id)) {
        let disk = ask(access, member, Admin::Disk);
        rows.push([
            json!(view.name(*id)),
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
    let mut before = BTreeMap::new();
    for member in &members {
        let Some(disk) = ask(access, member, Admin::Defragment) else {
            return Err(miette!(
                help = "`heddle cluster status` shows which servers are up; a server of an older version has to be upgraded first",
                "{} at {} does not answer",
                member.name,
                member.address
            ));
        };
        before.insert(member.id, disk);
    }
    let mut rows = Rows::new(&["server", "log-bytes-before", "log-bytes", "snapshot-bytes-before", "snapshot-bytes"]);
    for member in &members {
        let (before, after) = (before[&member.id], wait(access, member)?);
        rows.push([
            json!(member.name),
            json!(before.log_bytes),
            json!(after.log_bytes),
            json!(before.snapshot_bytes),
            json!(after.snapshot_bytes),
        ]);
    }
    put(&rows.render(format))
}

/// Waits until a server is done.
fn wait(access: &Access, member: &Member) -> Result<DiskStatus, Report> {
    let done = access.wait(|| Ok(ask(access, member, Admin::Disk).filter(|disk| !disk.is_defragmenting)))?;
    done.ok_or_else(|| {
        miette!(
            help = "it goes on by itself; --timeout waits longer, `heddle cluster status -v` shows how far it is",
            "{} is not done yet",
            member.name
        )
    })
}

fn ask(access: &Access, member: &Member, admin: Admin) -> Option<DiskStatus> {
    match access.ask_at(&member.address, RequestBody::Admin(admin)) {
        Some(Answer::Disk(disk)) => Some(disk),
        _ => None,
    }
}
