//! How a server is, for those who watch over it.

use store::alarm::Alarms;
use store::budget::Usage;
use store::status::{DiskStatus, Latencies, ReadyCheck, RefusalCount, Status, StoppedReplica, Unready};

use super::audit::Figures;

/// How a server is.
pub(super) struct View {
    pub status: Status,
    /// What keeps it from serving, as the server itself knows.
    pub unready: Vec<Unready>,
    /// Replicas that have stopped.
    pub stopped: Vec<StoppedReplica>,
    /// The disk does not take writes now, and why.
    pub disk_trouble: Option<String>,
    pub disk: DiskStatus,
    pub alarms: Alarms,
    pub dropped_envelopes: u64,
    /// Connections that were closed since too many held parts of messages.
    pub unfinished_frames: u64,
    pub memory: Usage,
    pub connections: usize,
    /// Of the audit log, if there is one.
    pub audit: Option<Figures>,
    /// Connections that had to go for another one before they had said who they are.
    pub displaced: u64,
    /// Refusals by host and client, and how many there is no counter for.
    pub refusals: Vec<RefusalCount>,
    pub other_refusals: u64,
    /// How long writes to the log took.
    pub log_writes: Latencies,
    /// The version of the protocol that all servers speak.
    pub protocol: u32,
    /// Refusals of peers and joiners, by reason.
    pub refused: Vec<(&'static str, u64)>,
}

impl View {
    /// What keeps it from serving: what the driver knows of the disk as well.
    pub fn failed_checks(&self) -> Vec<Unready> {
        let mut failed = self.unready.clone();
        let knows_disk = failed.iter().any(|unready| unready.check == ReadyCheck::Disk);
        if let Some(reason) = self.disk_trouble.clone().filter(|_| !knows_disk) {
            failed.push(Unready { check: ReadyCheck::Disk, reason });
        }
        failed
    }
}
