//! What a process uses, and its children.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// What a process and its children have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessUse {
    /// Ticks of processors.
    pub ticks: u64,
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
}

/// Bytes of a page.
pub(super) fn page_bytes() -> u64 {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    page.and_then(|page| u64::try_from(page).ok()).unwrap_or(4_096)
}

/// The parent of a process, its ticks and its resident pages, of `/proc/PID/stat`. Its name, in brackets, may hold anything.
pub(super) fn parse_stat(stat: &str) -> Option<(u32, u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| -> Option<u64> { fields.get(index)?.parse().ok() };
    // Behind the name: state, ppid, .. utime is the 14th field of all, stime the 15th, rss the 24th (proc(5)).
    let (user, system) = (number(11)?, number(12)?);
    Some((u32::try_from(number(1)?).ok()?, user.saturating_add(system), number(21)?))
}

/// What a process and all below it use now; nothing if it is not there.
pub(super) fn used_by(proc: &Path, process: u32) -> Option<ProcessUse> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir(proc).ok()?.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok();
        if let Some(parsed) = stat.as_deref().and_then(parse_stat) {
            all.insert(id, parsed);
        }
    }
    all.get(&process)?;
    let mut family = HashSet::from([process]);
    // A generation each time, until there are no more.
    loop {
        let before = family.len();
        family.extend(
            all.iter().filter(|(_, (parent, ..))| family.contains(parent)).map(|(id, _)| *id).collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    let mut sum = ProcessUse::default();
    for (_, ticks, pages) in family.iter().filter_map(|id| all.get(id)) {
        sum.ticks = sum.ticks.saturating_add(*ticks);
        sum.memory_bytes = sum.memory_bytes.saturating_add(pages.saturating_mul(page_bytes()));
    }
    Some(sum)
}
