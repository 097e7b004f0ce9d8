//! What end hosts cost a machine, as `machine.json` has it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use machine::Span;
use serde::{Deserialize, Serialize};
use sim::PacketCost;

/// A `machine.json` is not read beyond this: that of a run has a line for each of its runs.
const FILE_MAX: u64 = 64 << 20;
/// The most of anything, ns: a second.
const NS_MAX: f64 = 1e9;
const CORES_MAX: u32 = 4_096;

/// What end hosts cost a machine. The time is that of a core, and counts all that a packet needs from one program to the other: programs, kernels,
/// Heddle's workers between them, and what acknowledges it. Half of it is spent when it is sent, half when it has come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostCosts {
    /// How many cores all hosts share.
    pub cores: u32,
    /// For a segment of TCP, or a fragment of a long message of UDP, whatever its length, ns.
    #[serde(alias = "segment_ns")]
    pub segment_ns: f64,
    /// For a datagram that is sent at an even pace, whatever its length, ns.
    #[serde(alias = "datagram_ns")]
    pub datagram_ns: f64,
    /// For each byte of a frame, ns.
    #[serde(alias = "byte_ns")]
    pub byte_ns: f64,
    /// How much later a core begins that had nothing to do, ns.
    #[serde(alias = "wake_up_ns")]
    pub wake_up_ns: f64,
}

/// A file does not say what hosts cost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}", path = path.display())]
pub struct NoHostCosts {
    /// Which one.
    pub path: PathBuf,
    /// What was wrong, and what was expected.
    pub message: String,
}

/// What matters of a `machine.json`.
#[derive(Deserialize)]
struct Machine {
    hosts: Option<HostCosts>,
}

impl HostCosts {
    /// Reads them of a file that `heddle calibrate` has written, or a run that used one.
    ///
    /// # Errors
    /// If the file cannot be read, is no JSON, says nothing of hosts, or says what cannot be.
    pub fn read(path: &Path) -> Result<Self, NoHostCosts> {
        let refused = |message: String| NoHostCosts { path: path.to_owned(), message };
        let mut text = String::new();
        let read = fs::File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
        read.map_err(|error| refused(format!("it cannot be read: {error}")))?;
        if text.len() as u64 > FILE_MAX {
            return Err(refused(format!("it is larger than {FILE_MAX} bytes")));
        }
        let machine: Machine = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        let costs = machine
            .hosts
            .ok_or_else(|| refused("it does not say what hosts cost: expected an object `hosts`".to_owned()))?;
        costs.check().map_err(refused)?;
        Ok(costs)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=CORES_MAX).contains(&self.cores) {
            return Err(format!("`cores` is {}: expected 1 to {CORES_MAX}", self.cores));
        }
        let figures = [
            ("segment-ns", self.segment_ns),
            ("datagram-ns", self.datagram_ns),
            ("byte-ns", self.byte_ns),
            ("wake-up-ns", self.wake_up_ns),
        ];
        match figures.into_iter().find(|(_, figure)| !(0.0..=NS_MAX).contains(figure)) {
            Some((name, figure)) => Err(format!("`{name}` is {figure}: expected 0 to {NS_MAX} nanoseconds")),
            None => Ok(()),
        }
    }

    /// The same for the simulator. `is_paced`: of datagrams at an even pace.
    pub(crate) fn simulated(&self, is_paced: bool) -> sim::HostCosts {
        let packet_ns = if is_paced { self.datagram_ns } else { self.segment_ns };
        let half = PacketCost { packet: span(packet_ns / 2.0), byte: span(self.byte_ns / 2.0) };
        sim::HostCosts { cores: self.cores, sent: half, received: half, wake_up: span(self.wake_up_ns) }
    }
}

fn span(ns: f64) -> Span {
    Span::from_ps((ns * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: HostCosts =
        HostCosts { cores: 2, segment_ns: 3_000.0, datagram_ns: 9_000.0, byte_ns: 0.5, wake_up_ns: 20_000.0 };

    fn read(text: &str) -> Result<HostCosts, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        fs::write(&path, text).unwrap();
        HostCosts::read(&path).map_err(|error| {
            let text = error.to_string();
            assert!(text.contains("machine.json"), "{text}");
            text
        })
    }

    #[test]
    fn what_is_written_is_read() {
        let text = serde_json::json!({ "cpu": "any", "cores": 2, "hosts": COSTS }).to_string();
        assert_eq!(read(&text), Ok(COSTS));
        // Earlier versions wrote underscores.
        let earlier = ["segment-ns", "datagram-ns", "byte-ns", "wake-up-ns"]
            .iter()
            .fold(text, |text, key| text.replace(key, &key.replace('-', "_")));
        assert!(earlier.contains("wake_up_ns"), "{earlier}");
        assert_eq!(read(&earlier), Ok(COSTS));
    }

    #[test]
    fn other_files_are_refused_with_what_was_expected() {
        for (text, expected) in [
            ("name: lab", "line 1"),
            (r#"{ "cpu": "any" }"#, "expected an object `hosts`"),
            (r#"{ "hosts": { "cores": 2 } }"#, "missing field `segment-ns`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let wrong = |costs: HostCosts| read(&serde_json::json!({ "hosts": costs }).to_string()).unwrap_err();
        assert!(wrong(HostCosts { cores: 0, ..COSTS }).contains("`cores` is 0: expected 1 to 4096"));
        assert!(wrong(HostCosts { byte_ns: -1.0, ..COSTS }).contains("`byte-ns` is -1: expected 0 to"));
        assert!(
            HostCosts::read(Path::new("/nowhere/machine.json")).unwrap_err().to_string().contains("cannot be read")
        );
    }

    #[test]
    fn half_is_spent_on_each_side() {
        let costs = COSTS.simulated(false);
        let half = PacketCost { packet: Span::from_ns(1_500), byte: Span::from_ps(250) };
        assert_eq!((costs.sent, costs.received, costs.wake_up), (half, half, Span::from_us(20)));
        assert_eq!(COSTS.simulated(true).sent.packet, Span::from_ns(4_500));
    }
}
