//! What the runs ran on: a figure without it cannot be compared with another's.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use fabric::DriverKind;
use serde::{Deserialize, Serialize};

use super::hosts::HostCosts;
use crate::labels::Labels;

/// The machine, the programs, the command; and how long things took. Kept apart from the samples, which say the same
/// on every machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Environment {
    /// When the runs ended, UTC: `2026-11-21 10:28:00`.
    pub date: String,
    /// The processor's name.
    pub cpu: String,
    /// How many of its threads this process may use.
    pub cores: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// This program's version, with the commit that it is made of.
    pub version: String,
    /// What carried live traffic: iperf3's first line about itself, or which of heddle's own programs; only with live runs.
    pub iperf3: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Of which text of the file and which options the runs are, as a number; empty where no file was run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub made_from: String,
    /// What simulated hosts cost it; absent where they cost nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostCosts>,
    /// How fast the simulator was.
    pub simulator: Option<SimulatorSpeed>,
    /// How long each run took, in the order of the records.
    pub timings: Vec<Timing>,
}

/// How long a run took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timing {
    /// The experiment's name.
    pub experiment: String,
    /// The case.
    pub labels: Labels,
    /// Which repetition, from 1.
    pub repeat: u32,
    /// Who drove it.
    pub driver: DriverKind,
    /// By the clock on the wall.
    pub wall_seconds: f64,
    /// CPU time of the thread that ran it; simulated runs only.
    pub cpu_seconds: Option<f64>,
}

/// How fast the simulator was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SimulatorSpeed {
    /// One packet or ACK over one link is one packet-hop.
    pub packet_hops: u64,
    /// CPU time of all simulated runs together, set-up of each run included.
    pub cpu_seconds: f64,
    /// Packet-hops a second on one core.
    pub per_second: f64,
}

impl Environment {
    /// Looks at this machine. What cannot be found out stays empty.
    pub fn look(iperf3: Option<String>, version: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            date: date(SystemTime::now()),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: format!("{} {}", read("/proc/sys/kernel/ostype").trim(), read("/proc/sys/kernel/osrelease").trim()),
            version: version.to_owned(),
            iperf3,
            command: std::env::args().collect(),
            made_from: String::new(),
            hosts: None,
            simulator: None,
            timings: Vec::new(),
        }
    }
}

fn memory_bytes(meminfo: &str) -> u64 {
    field(meminfo, "MemTotal")
        .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib.saturating_mul(1024))
}

/// The first `key : value` of a file in /proc.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// Date and time of day, UTC.
pub(crate) fn date(time: SystemTime) -> String {
    civil(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date and time of day, UTC. Days to civil date after Howard Hinnant's `civil_from_days`.
fn civil(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Count from 1 March of the year 0, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", time / 3_600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(civil(0), "1970-01-01 00:00:00");
        assert_eq!(civil(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(civil(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(civil(1_795_257_480), "2026-11-21 10:38:00");
    }

    #[test]
    fn fields_of_proc_files() {
        let text = "processor\t: 0\nmodel name\t: A CPU: fast\nmodel name\t: B\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A CPU: fast"));
        assert_eq!(field(text, "vendor"), None);
        assert_eq!(memory_bytes("MemTotal:       24 kB\n"), 24_576);
    }

    #[test]
    fn this_machine_has_cores_and_a_kernel() {
        let here = Environment::look(None, "0.1.0 (abc1234, 2026-11-26)");
        assert_eq!(here.version, "0.1.0 (abc1234, 2026-11-26)");
        assert!(here.cores > 0 && here.kernel.len() > 5 && here.memory_bytes > 0, "{here:?}");
    }
}
