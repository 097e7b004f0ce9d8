//! Ids of users and groups that an ordinary user may have besides his own: subuid(5), subgid(5).
//!
//! A user namespace that its maker maps by itself has one user and one group, so no program in it can become another one. With a range of subordinate ids, which newuidmap(1) and newgidmap(1)
//! may map for him, it has as many as the range.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use nix::unistd::{Gid, Uid, User};

/// As many ids as programs of a Linux distribution use, `nobody` (65534) included.
const IDS_MAX: u32 = 65_535;

/// So much of `/etc/subuid` is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Maps ids in the user namespace that a process is about to make. The processes that may do so have to be outside of it, so it is started before.
#[derive(Debug)]
pub struct Mapper(Child);

impl Mapper {
    /// Starts it for the calling process; `None` if its user has no subordinate ids of both kinds.
    pub fn start() -> Option<Self> {
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        let uids = range("/etc/subuid", uid)?;
        let gids = range("/etc/subgid", uid)?;
        Self::spawn((uid, uids), (gid, gids))
    }

    fn spawn((uid, uids): (Uid, Range), (gid, gids): (Gid, Range)) -> Option<Self> {
        /// It goes on when there is a line, and ends when there will be none.
        const SCRIPT: &str =
            "read -r _ && newuidmap \"$1\" 0 \"$2\" 1 1 \"$3\" \"$4\" && newgidmap \"$1\" 0 \"$5\" 1 1 \"$6\" \"$7\"";
        let numbers = [std::process::id(), uid.as_raw(), uids.first, uids.count, gid.as_raw(), gids.first, gids.count];
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "heddle"]).args(numbers.map(|number| number.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok().map(Self)
    }

    /// Has both maps written, now that the namespace is there. Returns whether they are; where newuidmap is missing, or refuses, none is, or that of users alone.
    pub fn map(mut self) -> bool {
        let wrote = self.0.stdin.take().is_some_and(|mut stdin| stdin.write_all(b"\n").is_ok());
        self.0.wait().is_ok_and(|status| wrote && status.success())
    }
}

/// Whether a map of a user namespace (`/proc/PID/uid_map`) has one id and no more.
pub fn has_one(map: &str) -> bool {
    let counts: Option<Vec<u64>> = map.lines().map(|line| line.split_whitespace().nth(2)?.parse().ok()).collect();
    counts.is_some_and(|counts| counts.iter().sum::<u64>() == 1)
}

/// Ids that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
}

/// The first range that a file gives to a user.
fn range(path: &str, uid: Uid) -> Option<Range> {
    if fs::metadata(path).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    first_range(&text, name.as_deref(), uid.as_raw())
}

/// A line is `USER:FIRST:COUNT`, with a user's name or number.
fn first_range(text: &str, name: Option<&str>, uid: u32) -> Option<Range> {
    text.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        let user = fields.next()?;
        if name != Some(user) && user.parse() != Ok(uid) {
            return None;
        }
        let first: u32 = fields.next()?.parse().ok()?;
        let count: u32 = fields.next()?.parse().ok()?;
        let is_sound = fields.next().is_none() && count > 0 && first.checked_add(count - 1).is_some();
        is_sound.then_some(Range { first, count: count.min(IDS_MAX) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_belongs_to_a_name_or_a_number() {
        let text = "# comment\nrita:100000:65536\n1000:200000:10\n\nrita:300000:5\n";
        let of = |name, uid| first_range(text, name, uid).map(|range| (range.first, range.count));
        assert_eq!(of(Some("rita"), 7), Some((100_000, IDS_MAX)));
        assert_eq!(of(None, 1000), Some((200_000, 10)));
        assert_eq!(of(Some("paul"), 7), None);
    }

    #[test]
    fn what_is_no_range_is_passed_over() {
        for line in ["rita", "rita:1", "rita:1:0", "rita:x:9", "rita:1:9:9", "rita:4294967295:2", "rita:-1:5", ":1:9"] {
            let text = format!("{line}\nrita:5:6\n");
            assert_eq!(first_range(&text, Some("rita"), 7), Some(Range { first: 5, count: 6 }), "{line}");
        }
        assert_eq!(first_range("rita:4294967295:1", Some("rita"), 7), Some(Range { first: u32::MAX, count: 1 }));
    }

    #[test]
    fn a_map_is_read_as_the_kernel_prints_it() {
        assert!(has_one("         0       1000          1\n"));
        assert!(!has_one("         0          0 4294967295\n"));
        assert!(!has_one("         0       1000          1\n         1     100000      65535\n"));
        assert!(!has_one("") && !has_one("0 1000\n"));
    }

    /// A program that is not there, or refuses, is no reason not to come up.
    #[test]
    fn who_may_not_map_gets_no_map() {
        let range = Range { first: u32::MAX - 1, count: 1 };
        let mapper = Mapper::spawn((Uid::current(), range), (Gid::current(), range)).expect("sh runs");
        // This process has made no namespace.
        assert!(!mapper.map());
    }
}
