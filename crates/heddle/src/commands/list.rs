//! `list`: which networks run, and what is left of those that do not any more.

use std::time::Duration;

use live::{Listed, Presence};
use miette::Report;
use serde_json::{Value, json};

use super::explain;
use crate::cli::Format;
use crate::natural;
use crate::output::{Rows, put};

/// Lists them; what a crash left is named on standard error, with the way to remove it.
pub fn list(format: Format) -> Result<(), Report> {
    let mut networks = live::inventory().map_err(explain)?;
    networks.sort_by(|a, b| natural::compare(&a.name, &b.name));
    if networks.is_empty() && format == Format::Table {
        eprintln!("no network is running; `heddle up FILE` starts one");
        return Ok(());
    }
    let uptime = if format == Format::Table { "uptime" } else { "uptime-s" };
    let mut rows = Rows::new(&["name", "state", "fabric", "file", "hosts", "switches", "links", uptime, "pid", "user"])
        .with_spare(&["pid", "links", "switches", "hosts", "fabric"]);
    let user = user();
    for network in &networks {
        rows.push(row(network, &user, format));
    }
    put(&rows.render(format))?;
    networks.iter().filter_map(remark).for_each(|remark| eprintln!("{remark}"));
    Ok(())
}

fn row(Listed { name, presence }: &Listed, user: &str, format: Format) -> [Value; 10] {
    let unknown = |state: &str, pid: Option<i32>| {
        let null = || Value::Null;
        [json!(name), json!(state), null(), null(), null(), null(), null(), null(), json!(pid), json!(user)]
    };
    match presence {
        Presence::Up(status) => {
            let up = Duration::from_millis(status.uptime_ms);
            [
                json!(name),
                json!(if status.ephemeral { "run" } else { "up" }),
                json!(status.fabric),
                json!(status.file),
                json!(status.host_count),
                json!(status.switches),
                json!(status.links),
                if format == Format::Table { json!(rounded(up)) } else { json!(up.as_secs()) },
                json!(status.pid),
                json!(user),
            ]
        }
        Presence::Silent { pid, .. } => unknown("silent", Some(*pid)),
        Presence::Crashed { pid, .. } => unknown("crashed", *pid),
    }
}

/// What is to be done about a network, if anything is.
fn remark(Listed { name, presence }: &Listed) -> Option<String> {
    match presence {
        Presence::Up(_) => None,
        Presence::Silent { pid, reason } => Some(format!("{name}: process {pid}: {reason}")),
        Presence::Crashed { processes, .. } => {
            let left = match processes {
                0 => "it left files behind".to_owned(),
                1 => "1 program still runs in its hosts".to_owned(),
                many => format!("{many} programs still run in its hosts"),
            };
            Some(format!("{name}: its process has died, and {left}; `heddle clean` removes that"))
        }
    }
}

/// Whose networks they are: nobody else's are in the runtime folder.
fn user() -> String {
    let uid = nix::unistd::geteuid();
    nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// A time by its two largest units: `3 d 4 h`, `12 min 5 s`.
fn rounded(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let (unit, name) = units[first];
    let (whole, rest) = (seconds / unit, seconds % unit);
    match units.get(first + 1).map(|(unit, name)| (rest / unit, name)) {
        Some((part, smaller)) if part > 0 => format!("{whole} {name} {part} {smaller}"),
        _ => format!("{whole} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_by_their_two_largest_units() {
        let shown = [0, 59, 60, 725, 7_200, 7_261, 273_600].map(|seconds| rounded(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "1 min", "12 min 5 s", "2 h", "2 h 1 min", "3 d 4 h"]);
    }

    #[test]
    fn what_a_crash_left_is_said_with_the_way_out() {
        let network =
            |processes| Listed { name: "lab".into(), presence: Presence::Crashed { pid: Some(7), processes } };
        for (processes, said) in [(0, "left files"), (1, "1 program still runs"), (3, "3 programs still run")] {
            let remark = remark(&network(processes)).unwrap();
            assert!(
                remark.starts_with("lab: ") && remark.contains(said) && remark.contains("heddle clean"),
                "{remark}"
            );
        }
    }
}
