//! A server's state in the text format of Prometheus (version 0.0.4), base units in the names.

use std::fmt::{Display, Write};

use placement::ShardId;
use store::status::{Counters, DiskStatus, Latencies, RaftRole, Refused, Status};

use super::view::View;

/// Gathers metrics; each family has its HELP and TYPE once, before its samples.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a String takes everything");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let mark = if index == 0 { '{' } else { ',' };
            write!(self.text, "{mark}{label}=\"{}\"", escaped(text)).expect("a String takes everything");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        writeln!(self.text, "{end} {value}").expect("a String takes everything");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// A gauge with a sample for each of `items`.
    fn each<T>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        items: &[T],
        sample: impl FnMut(&T) -> Option<(Vec<(&'static str, String)>, f64)>,
    ) {
        self.family(name, kind, help);
        for (labels, value) in items.iter().filter_map(sample) {
            let labels: Vec<_> = labels.iter().map(|(label, text)| (*label, text.as_str())).collect();
            self.sample(name, &labels, value);
        }
    }
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The page that a scraper reads.
pub(super) fn page(view: &View) -> String {
    let mut page = Page::default();
    let status = &view.status;
    let (server, cluster) = (status.server.to_string(), format!("{:016x}", status.cluster));
    let name = status.map.members().get(&status.server).map_or("", |member| member.name.as_str());
    page.family("heddle_info", "gauge", "Who this is.");
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("node", name), ("server", &server), ("cluster", &cluster)];
    page.sample("heddle_info", &labels, 1);
    let is_ready = u8::from(view.failed_checks().is_empty());
    page.gauge("heddle_ready", "Whether this server can serve requests, writes as well (1), or not (0).", is_ready);
    page.gauge("heddle_members", "Servers of the cluster, as far as is known here.", status.map.members().len());
    page.gauge("heddle_connections", "Open connections of clients and peers.", view.connections);
    page.counter(
        "heddle_connections_displaced_total",
        "Connections closed for others before they had said who they are.",
        view.displaced,
    );
    let timeout = status.election_timeout_us as f64 / 1e6;
    page.gauge("heddle_election_timeout_seconds", "The election timeout in use.", timeout);
    page.counter(
        "heddle_envelopes_dropped_total",
        "Envelopes for peers that could not be sent; Raft repeats what matters.",
        view.dropped_envelopes,
    );
    disk(&mut page, view.disk);
    alarms(&mut page, view);
    refusals(&mut page, view);
    log_writes(&mut page, &view.log_writes);
    page.family("heddle_peers_refused_total", "counter", "Connections refused as a peer's or a joiner's, by reason.");
    for (reason, count) in &view.refused {
        page.sample("heddle_peers_refused_total", &[("reason", reason)], count);
    }
    let protocol = "The version of the protocol that all servers of the cluster speak.";
    page.gauge("heddle_protocol_version", protocol, view.protocol);
    memory(&mut page, view);
    counters(&mut page, &status.counters);
    if let Some(audit) = &view.audit {
        page.counter("heddle_audit_lines_total", "Lines of the audit log.", audit.written);
        page.counter("heddle_audit_lines_lost_total", "Lines that found no room or could not be written.", audit.lost);
        let is_failing = u8::from(audit.is_failing);
        page.gauge("heddle_audit_failing", "Whether the audit log cannot be written now (1).", is_failing);
    }
    groups(&mut page, status);
    let stopped = ("heddle_shard_stopped", "gauge", "Replicas that have stopped (1); the log of the process says why.");
    page.each(stopped, &view.stopped, |replica| {
        let name =
            status.map.shards().get(&replica.shard).map_or_else(|| "meta".to_owned(), |shard| shard.name.clone());
        Some((vec![("shard", name), ("group", replica.shard.to_string())], 1.0))
    });
    peers(&mut page, status);
    process(&mut page);
    page.text
}

fn disk(page: &mut Page, disk: DiskStatus) {
    let DiskStatus { log_bytes, log_segments, snapshot_bytes, log_memory_bytes, content_bytes, is_defragmenting } =
        disk;
    page.gauge("heddle_disk_log_bytes", "Bytes of the log on the disk.", log_bytes);
    page.gauge("heddle_disk_log_segments", "Files of the log on the disk.", log_segments);
    page.gauge("heddle_disk_snapshot_bytes", "Bytes of snapshots on the disk.", snapshot_bytes);
    page.gauge("heddle_log_memory_bytes", "Bytes of the log's entries in memory.", log_memory_bytes);
    page.gauge("heddle_content_bytes", "Bytes of data of all shards here, about.", content_bytes);
    let help = "Whether room on the disk is being given back on request (1) or not (0).";
    page.gauge("heddle_disk_defragmenting", help, u8::from(is_defragmenting));
}

fn alarms(page: &mut Page, view: &View) {
    if let Some(quota) = view.alarms.quota_bytes {
        page.gauge("heddle_quota_bytes", "Bytes of data that this server may hold.", quota);
    }
    let name =
        |shard: &ShardId| view.status.map.shards().get(shard).map_or_else(String::new, |shard| shard.name.clone());
    let alarm = ("heddle_alarm", "gauge", "What somebody should look at (1), by kind, shard and other server.");
    page.each(alarm, &view.alarms.alarms, |alarm| {
        let server = alarm.server.map_or_else(String::new, |server| server.to_string());
        let shard = alarm.shard.as_ref().map_or_else(String::new, name);
        Some((vec![("kind", alarm.kind.name().to_owned()), ("shard", shard), ("peer", server)], 1.0))
    });
}

fn refusals(page: &mut Page, view: &View) {
    page.family(
        "heddle_refusals_total",
        "counter",
        "Who was refused what and why: those that were refused most often.",
    );
    for row in &view.refusals {
        let labels = [("host", &row.host), ("client", &row.client), ("what", &row.what), ("reason", &row.reason)];
        page.sample("heddle_refusals_total", &labels.map(|(label, text)| (label, text.as_str())), row.count);
    }
    let help = "Refusals of those that heddle_refusals_total has no room for.";
    page.counter("heddle_refusals_of_others_total", help, view.other_refusals);
}

fn log_writes(page: &mut Page, log_writes: &Latencies) {
    const NAME: &str = "heddle_log_write_seconds";
    page.family(NAME, "histogram", "How long batches took to be written to the log, each with its sync.");
    for (end_us, count) in log_writes.cumulative() {
        page.sample("heddle_log_write_seconds_bucket", &[("le", &(end_us as f64 / 1e6).to_string())], count);
    }
    page.sample("heddle_log_write_seconds_bucket", &[("le", "+Inf")], log_writes.count());
    page.sample("heddle_log_write_seconds_sum", &[], log_writes.total_us as f64 / 1e6);
    page.sample("heddle_log_write_seconds_count", &[], log_writes.count());
}

/// What is held for others.
fn memory(page: &mut Page, view: &View) {
    let usage = &view.memory;
    page.gauge("heddle_memory_limit_bytes", "Bytes that may be held for clients and peers.", usage.limit_bytes);
    page.gauge("heddle_memory_peak_bytes", "The most bytes that were held for clients and peers.", usage.peak_bytes);
    page.family("heddle_memory_bytes", "gauge", "Bytes held for clients and peers, by kind.");
    for (kind, (bytes, _)) in &usage.kinds {
        page.sample("heddle_memory_bytes", &[("kind", kind.name())], bytes);
    }
    page.family("heddle_memory_refused_total", "counter", "What found no room, by kind.");
    for (kind, (_, refused)) in &usage.kinds {
        page.sample("heddle_memory_refused_total", &[("kind", kind.name())], refused);
    }
    page.counter(
        "heddle_unfinished_messages_total",
        "Connections closed since too many held parts of messages.",
        view.unfinished_frames,
    );
}

fn counters(page: &mut Page, counters: &Counters) {
    let Counters {
        requests,
        forwarded,
        proposals,
        applied,
        lease_reads,
        index_reads,
        stale_reads,
        campaigns,
        elected,
        log_writes,
        log_bytes,
        snapshots_written,
        snapshots_sent,
        busy,
        timeouts,
        watch_events,
        watch_skips,
        malformed,
        denied,
        bad_tokens,
        refused,
        changes_refused,
        items_dropped,
        panics,
    } = *counters;
    page.counter("heddle_requests_denied_total", "Requests that their user may not make, or of nobody known.", denied);
    page.counter("heddle_bad_tokens_total", "Requests with a token that is worth nothing.", bad_tokens);
    page.counter("heddle_requests_total", "Requests of clients.", requests);
    page.counter("heddle_requests_forwarded_total", "Requests forwarded to another server.", forwarded);
    page.counter("heddle_requests_busy_total", "Requests refused since too many were waiting.", busy);
    page.counter("heddle_requests_timed_out_total", "Requests that ran out of time.", timeouts);
    page.counter("heddle_proposals_total", "Writes proposed here.", proposals);
    page.counter("heddle_applied_entries_total", "Log entries applied, all groups.", applied);
    page.family("heddle_reads_total", "counter", "Reads, by the way they were served.");
    for (by, value) in [("lease", lease_reads), ("index", index_reads), ("stale", stale_reads)] {
        page.sample("heddle_reads_total", &[("by", by)], value);
    }
    page.counter("heddle_campaigns_total", "Elections begun here.", campaigns);
    page.counter("heddle_elections_won_total", "Elections won here.", elected);
    page.counter("heddle_log_writes_total", "Batches written to the log, each with one sync.", log_writes);
    page.counter("heddle_log_written_bytes_total", "Bytes written to the log.", log_bytes);
    page.counter("heddle_snapshots_written_total", "Snapshots written to the disk.", snapshots_written);
    page.counter("heddle_snapshots_sent_total", "Snapshots sent to other servers.", snapshots_sent);
    page.counter("heddle_watch_events_total", "Changes delivered to watchers.", watch_events);
    page.counter("heddle_watch_skips_total", "Times that a watcher had to skip changes.", watch_skips);
    page.counter("heddle_malformed_total", "Messages of peers that made no sense.", malformed);
    page.family("heddle_peer_messages_refused_total", "counter", "Messages of peers that were refused, by reason.");
    for (why, reason) in Refused::ALL {
        page.sample("heddle_peer_messages_refused_total", &[("reason", reason)], refused.of(why));
    }
    page.counter(
        "heddle_member_changes_refused_total",
        "Committed changes of a shard's members that were not possible.",
        changes_refused,
    );
    page.counter(
        "heddle_peer_items_dropped_total",
        "Items for other servers that were too many at once; Raft repeats what matters.",
        items_dropped,
    );
    page.counter("heddle_replica_panics_total", "Replicas that stopped by an error of this program.", panics);
}

fn groups(page: &mut Page, status: &Status) {
    let labels = |shard: placement::ShardId| {
        let name = status.map.shards().get(&shard).map_or_else(|| "meta".to_owned(), |shard| shard.name.clone());
        vec![("shard", name), ("group", shard.to_string())]
    };
    let groups = &status.groups;
    let mut gauge = |name: &str, help: &str, value: fn(&store::status::GroupStatus) -> f64| {
        page.each((name, "gauge", help), groups, |group| Some((labels(group.shard), value(group))));
    };
    gauge("heddle_shard_leader", "Whether this server leads the shard (1) or not (0).", |group| {
        f64::from(u8::from(group.role == RaftRole::Leader))
    });
    gauge("heddle_shard_leader_known", "Whether the shard's leader is known here (1) or not (0).", |group| {
        f64::from(u8::from(group.leader.is_some()))
    });
    gauge("heddle_shard_lease", "Whether reads of the shard are served by a lease now (1) or not (0).", |group| {
        f64::from(u8::from(group.lease))
    });
    gauge("heddle_shard_term", "The Raft term.", |group| group.term as f64);
    gauge("heddle_shard_commit_index", "The highest log index that is committed.", |group| group.commit as f64);
    gauge("heddle_shard_applied_index", "The highest log index that is applied.", |group| group.applied as f64);
    gauge("heddle_shard_log_entries", "Entries in the log.", |group| {
        (group.last + 1).saturating_sub(group.first) as f64
    });
    gauge("heddle_shard_values", "Values in the shard.", |group| group.entries as f64);
    gauge("heddle_shard_bytes", "Bytes of data in the shard, about.", |group| group.bytes as f64);
    gauge("heddle_shard_revision", "The data's revision.", |group| group.revision as f64);
    gauge("heddle_shard_voters", "Replicas with a vote.", |group| group.voters.len() as f64);
    gauge("heddle_shard_learners", "Replicas without a vote.", |group| group.learners.len() as f64);
}

fn peers(page: &mut Page, status: &Status) {
    let labels = |server: machine::ServerId| {
        let name = status.map.members().get(&server).map_or_else(String::new, |member| member.name.clone());
        vec![("server", server.to_string()), ("node", name)]
    };
    let up = ("heddle_peer_up", "gauge", "Whether the peer was heard lately (1) or not (0).");
    page.each(up, &status.peers, |peer| Some((labels(peer.server), f64::from(u8::from(peer.live)))));
    let round_trip = ("heddle_peer_round_trip_seconds", "gauge", "Smoothed round trip to the peer.");
    page.each(round_trip, &status.peers, |peer| Some((labels(peer.server), peer.round_trip_us? as f64 / 1e6)));
}

/// Under the names that Prometheus has for processes of every kind.
fn process(page: &mut Page) {
    if let Some(bytes) = resident_bytes() {
        page.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", bytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.gauge("process_open_fds", "Number of open file descriptors.", files.count());
    }
    if let Ok((soft, _)) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE) {
        page.gauge("process_max_fds", "Maximum number of open file descriptors.", soft);
    }
}

/// Memory of this process (`proc_pid_statm(5)`, second field, in pages).
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * page_bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_families_stand_once() {
        let mut page = Page::default();
        let items = [("a\"b\\c\n", 1.5), ("d", 2.0)];
        page.each(("heddle_x", "gauge", "Of x."), &items, |(name, value)| {
            Some((vec![("node", (*name).to_owned()), ("server", "1".into())], *value))
        });
        assert_eq!(
            page.text,
            "# HELP heddle_x Of x.\n# TYPE heddle_x gauge\n\
             heddle_x{node=\"a\\\"b\\\\c\\n\",server=\"1\"} 1.5\nheddle_x{node=\"d\",server=\"1\"} 2\n"
        );
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
