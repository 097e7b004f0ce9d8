//! How much of the disk a server takes, with the sizes that servers run with: what was written long ago and is not there
//! any more must not stay on the disk for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::bed::{CLIENT, Cluster, Setup, put, recover};
use machine::ServerId;
use machine::nanos::Span;
use placement::{Command, Prefix, Replicas, ShardId, Strategy};
use store::Input;
use store::peer::Item;
use store::protocol::{Admin, Answer, RequestBody};
use store::status::DiskStatus;

const MIB: u64 = 1 << 20;

/// Values of all tests have so many bytes.
const VALUE_BYTES: usize = 64 << 10;

/// What the documentation promises, in bytes.
fn bound(content_bytes: u64) -> u64 {
    3 * content_bytes + 256 * MIB
}

/// Requests that are repeated until they are answered well.
#[derive(Default)]
struct Unanswered {
    requests: BTreeMap<u64, RequestBody>,
    refused: u64,
}

impl Unanswered {
    fn send(&mut self, cluster: &mut Cluster, to: u64, body: RequestBody) {
        self.requests.insert(cluster.send(to, body.clone()), body);
    }

    fn take_answers(&mut self, cluster: &mut Cluster) {
        for ((_, sequence), response) in std::mem::take(&mut cluster.answers) {
            if response.result.is_ok() {
                self.requests.remove(&sequence);
            } else if self.requests.contains_key(&sequence) {
                self.refused += 1;
                assert!(self.refused < 10_000, "{:?}", response.result);
            }
        }
    }

    fn wait(mut self, cluster: &mut Cluster, to: u64) {
        for turn in 0..10_000 {
            cluster.run(Span::from_ms(if turn == 0 { 1 } else { 20 }));
            self.take_answers(cluster);
            if self.requests.is_empty() {
                return;
            }
            for (sequence, body) in &self.requests {
                cluster.send_again(CLIENT, *sequence, to, body.clone());
            }
        }
        panic!("{} writes were not answered", self.requests.len());
    }
}

impl Cluster {
    fn new(servers: u64, strategy: Strategy) -> Self {
        let mut cluster = Self::found(Setup { servers, strategy, ..Setup::default() });
        cluster.timeout_ms = 60_000;
        cluster
    }

    /// Writes values of [`VALUE_BYTES`] until so many bytes are written, in turn under `paths`.
    fn fill_with(&mut self, to: u64, paths: &[String], bytes: u64) {
        let mut unanswered = Unanswered::default();
        for nth in 0..bytes / VALUE_BYTES as u64 {
            let path = &paths[nth as usize % paths.len()];
            unanswered.send(self, to, put(path, vec![nth as u8; VALUE_BYTES]));
            self.run(Span::from_ms(1));
            unanswered.take_answers(self);
        }
        unanswered.wait(self, to);
    }

    /// Asks for something until it is answered well.
    fn demand(&mut self, to: u64, body: RequestBody) {
        let mut unanswered = Unanswered::default();
        unanswered.send(self, to, body);
        unanswered.wait(self, to);
    }

    fn admin(&mut self, to: u64, admin: Admin) {
        self.demand(to, RequestBody::Admin(admin));
    }

    fn disk_status(&self, id: u64) -> DiskStatus {
        self.server(id).disk_status()
    }

    fn used(&self, id: u64) -> u64 {
        self.members[&ServerId(id)].disk.used_bytes()
    }

    fn replicas_bytes(&self, id: u64) -> u64 {
        self.server(id).replicas(self.now).iter().map(|group| group.bytes).sum()
    }
}

fn cars(count: u64) -> Vec<String> {
    (0..count).map(|key| format!("/car:cars/car-entry={key}")).collect()
}

#[test]
fn a_small_content_written_over_and_over_stays_small_on_the_disk() {
    let mut cluster = Cluster::new(1, Strategy::Single);
    cluster.run(Span::from_secs(1));
    cluster.fill_with(1, &cars(32), 400 * MIB);
    let (used, content) = (cluster.used(1), cluster.replicas_bytes(1));
    assert!((2 * MIB..3 * MIB).contains(&content), "{content} bytes of content");
    assert!(used <= bound(content), "{} MiB on the disk for {content} bytes of content", used / MIB);
    assert!(cluster.used_max <= bound(content), "{} MiB at most", cluster.used_max / MIB);
    // And everything is there after a restart.
    cluster.restart(1);
    cluster.run(Span::from_secs(2));
    assert_eq!(cluster.replicas_bytes(1), content);
}

#[test]
fn shards_that_are_idle_hold_on_to_nothing() {
    let mut cluster = Cluster::new(1, Strategy::Distributed);
    cluster.run(Span::from_secs(1));
    let idle: Vec<String> = (0..40).map(|module| format!("/idle{module}:values/value=1")).collect();
    for path in &idle {
        cluster.demand(1, put(path, b"first"));
        cluster.run(Span::from_ms(300));
        cluster.demand(1, put(path, b"second"));
    }
    assert!(cluster.server(1).map().shards().len() > 40);
    cluster.fill_with(1, &cars(16), 320 * MIB);
    let (most, content) = (cluster.used_max, cluster.replicas_bytes(1));
    assert!(most <= bound(content), "{} MiB at most for {content} bytes of content", most / MIB);
    assert!(cluster.disk_status(1).log_memory_bytes <= 64 * MIB);
    cluster.restart(1);
    cluster.run(Span::from_secs(2));
    assert_eq!(cluster.replicas_bytes(1), content);
}

#[test]
fn a_server_that_is_cut_off_holds_on_to_nothing_at_the_others() {
    let mut cluster = Cluster::new(3, Strategy::Single);
    cluster.run(Span::from_secs(3));
    cluster.demand(1, put("/car:cars/car-entry=1", b"first"));
    cluster.cut_off.insert(ServerId(3));
    cluster.run(Span::from_secs(3));
    cluster.fill_with(1, &cars(16), 320 * MIB);
    assert!(cluster.used_max <= bound(cluster.replicas_bytes(1)), "{} MiB at most", cluster.used_max / MIB);
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(6));
    let held = |id| cluster.server(id).digests();
    assert_eq!(held(1), held(3));
    assert!(cluster.used_max <= bound(cluster.replicas_bytes(1)), "{} MiB at most", cluster.used_max / MIB);
}

/// Its entries can't be committed, so no snapshot can take their place.
#[test]
fn a_shard_without_a_majority_holds_on_to_nothing_of_others() {
    let mut cluster = Cluster::new(3, Strategy::Single);
    cluster.run(Span::from_secs(3));
    let prefixes = BTreeSet::from([Prefix::Module("lost".into())]);
    let replicas = Replicas::Servers([ServerId(1), ServerId(2)].into());
    cluster.admin(1, Admin::Placement(Command::CreateShard { name: "lost".into(), prefixes, replicas }));
    cluster.run(Span::from_secs(2));
    cluster.demand(1, put("/lost:values/value=1", b"first"));
    let shard = cluster.server(1).map().shard_named("lost").expect("it was made").id;
    let leader = if cluster.group(1, shard).leader == Some(ServerId(1)) { 1 } else { 2 };
    cluster.cut_off.insert(ServerId(3 - leader));
    cluster.send(leader, put("/lost:values/value=2", b"uncommitted"));
    cluster.run(Span::from_secs(4));
    let last = cluster.group(leader, shard).last;
    assert!(last > cluster.group(leader, shard).commit, "it is there and not committed");
    cluster.fill_with(3, &cars(16), 320 * MIB);
    let content = cluster.replicas_bytes(leader);
    assert!(cluster.used(leader) <= bound(content), "{} MiB", cluster.used(leader) / MIB);
    assert!(cluster.disk_status(leader).log_segments < 9, "{:?}", cluster.disk_status(leader));
    // It is still there after a restart.
    cluster.restart(leader);
    assert_eq!(cluster.group(leader, shard).last, last);
}

#[test]
fn room_is_given_back_when_it_is_asked_for() {
    let mut cluster = Cluster::new(1, Strategy::Single);
    cluster.run(Span::from_secs(1));
    cluster.fill_with(1, &cars(16), 40 * MIB);
    let content = cluster.replicas_bytes(1);
    assert!(cluster.disk_status(1).log_bytes > 30 * MIB, "{:?}", cluster.disk_status(1));
    cluster.admin(1, Admin::Defragment);
    cluster.run(Span::from_secs(1));
    let status = cluster.disk_status(1);
    assert!(!status.is_defragmenting && status.log_bytes < 4 * MIB, "{status:?}");
    assert!(cluster.used(1) < 3 * content + 4 * MIB);
    // Again, with nothing to do.
    cluster.admin(1, Admin::Defragment);
    cluster.run(Span::from_secs(1));
    assert!(!cluster.disk_status(1).is_defragmenting);
    cluster.restart(1);
    cluster.run(Span::from_secs(2));
    assert_eq!(cluster.replicas_bytes(1), content);
}

/// No file of a snapshot that was given up stays behind.
#[test]
fn a_disk_without_room_is_not_filled_by_what_is_given_up() {
    let mut cluster = Cluster::new(1, Strategy::Single);
    cluster.run(Span::from_secs(1));
    cluster.fill_with(1, &cars(16), 4 * MIB);
    let snapshots = |cluster: &Cluster| {
        let files = cluster.members[&ServerId(1)].disk.files();
        files.keys().filter(|file| file.as_str().starts_with("snapshot-")).count()
    };
    for _ in 0..3 {
        let disk = &mut cluster.members.get_mut(&ServerId(1)).expect("a member").disk;
        disk.fill_after(Some(disk.used_bytes() + 200_000));
        cluster.is_disk_full = true;
        cluster.admin(1, Admin::Defragment);
        cluster.run(Span::from_ms(200));
        cluster.members.get_mut(&ServerId(1)).expect("a member").disk.fill_after(None);
        cluster.is_disk_full = false;
        cluster.run(Span::from_secs(1));
        assert!(snapshots(&cluster) <= 2, "{}", snapshots(&cluster));
        cluster.fill_with(1, &cars(16), MIB);
    }
    assert_eq!(snapshots(&cluster), 2, "of meta and of the shard");
}

/// A batch that found no room is written again as it was: what came since is in the next one, and is answered with that.
#[test]
fn what_came_while_the_disk_was_full_is_answered_when_it_is_written() {
    let mut cluster = Cluster::new(3, Strategy::Single);
    cluster.run(Span::from_secs(3));
    let replicas = Replicas::Servers([ServerId(1)].into());
    cluster.admin(1, Admin::Placement(Command::SetReplicas { id: ShardId::DEFAULT, replicas }));
    cluster.run(Span::from_secs(3));
    let disk = |cluster: &mut Cluster| std::mem::take(&mut cluster.members.get_mut(&ServerId(1)).unwrap().disk);
    let set_room = |cluster: &mut Cluster, room: Option<u64>| {
        let mut full = disk(cluster);
        full.fill_after(room.map(|room| full.used_bytes() + room));
        cluster.members.get_mut(&ServerId(1)).unwrap().disk = full;
        cluster.is_disk_full = room.is_some();
    };
    set_room(&mut cluster, Some(1_000));
    // By another server: this one refuses its own clients.
    let last = cluster.group(1, ShardId::DEFAULT).last;
    cluster.send(2, put("/car:cars/car-entry=1", vec![7; MIB as usize]));
    cluster.run(Span::from_ms(5));
    let later = cluster.send(2, put("/car:cars/car-entry=2", "later"));
    cluster.run(Span::from_ms(5));
    assert_eq!(cluster.group(1, ShardId::DEFAULT).last, last + 2);
    set_room(&mut cluster, None);
    cluster.stick_disks(|_, _| true);
    cluster.run(Span::from_ms(200));
    // The batch of the first is written, that of the second is not.
    let again = &mut cluster.stuck.as_mut().unwrap().writes;
    let at = again.iter().position(|(id, write)| *id == ServerId(1) && write.lane == wal::Lane::Log).unwrap();
    let (id, write) = again.remove(at);
    cluster.members.get_mut(&id).unwrap().disk.carry_out(&write).unwrap();
    cluster.queue.push_back((id, Input::Written(write.id)));
    cluster.run(Span::from_ms(5));
    assert_eq!(cluster.answer(later), None);
    cluster.free_disks();
    cluster.run(Span::from_ms(5));
    assert!(matches!(cluster.answer(later), Some(Ok(Answer::Written { .. }))));
    cluster.restart(1);
    assert_eq!(cluster.get(1, "/car:cars/car-entry=2").as_deref(), Some("later"));
}

/// An entry that no program knows stands at the end of a replica's log.
fn spoil(cluster: &mut Cluster, id: u64, shard: ShardId) {
    let disk = &mut cluster.members.get_mut(&ServerId(id)).expect("it runs").disk;
    let (mut log, recovered) = recover(disk);
    let group = &recovered.groups[&shard.0];
    let last = group.entries.last().expect("there is an entry");
    let (index, data) = (last.index + 1, b"this is no command"[..].into());
    log.append(shard.0, &[wal::Entry { index, term: last.term, data, ..wal::Entry::default() }]).unwrap();
    log.hard_state(shard.0, wal::HardState { commit: index, ..group.hard_state });
    while let Some(write) = log.take_batch() {
        disk.carry_out(&write).unwrap();
        log.done(write.id);
    }
}

/// Logs that are trimmed soon.
fn small_logs(config: &mut store::Config) {
    config.log_disk_bytes = 20 * MIB;
    config.log_memory_bytes = 8 * MIB;
    config.snapshot_log_bytes = 4 * MIB;
    config.keep_log_bytes = MIB;
}

#[test]
fn a_replica_that_has_stopped_holds_on_to_nothing() {
    let mut cluster = Cluster::found(Setup { tune: small_logs, ..Setup::default() });
    cluster.timeout_ms = 60_000;
    cluster.run(Span::from_secs(2));
    spoil(&mut cluster, 2, ShardId::META);
    cluster.may_stop.insert(ServerId(2));
    cluster.restart(2);
    cluster.run(Span::from_secs(2));
    let stopped = |cluster: &Cluster| cluster.server(2).stopped_replicas();
    assert_eq!(stopped(&cluster).iter().map(|it| it.shard).collect::<Vec<_>>(), [ShardId::META]);
    cluster.fill_with(1, &cars(16), 120 * MIB);
    let status = cluster.disk_status(2);
    assert!(status.log_bytes < 80 * MIB, "{status:?}");
    // It stays stopped, and says so, until somebody starts the server again.
    let said = stopped(&cluster);
    assert!(said.len() == 1 && said[0].reason.contains("Its log is given up"), "{said:?}");
    cluster.restart(2);
    cluster.run(Span::from_secs(8));
    assert_eq!(stopped(&cluster), []);
    cluster.assert_agreement();
}

/// Seed 18150 of the simulation, hostile: a late message had a replica made anew that had just been taken away.
#[test]
fn a_snapshot_of_a_replica_that_was_made_anew_meanwhile_is_of_no_use() {
    let mut cluster = Cluster::found(Setup { tune: small_logs, ..Setup::default() });
    cluster.timeout_ms = 60_000;
    cluster.run(Span::from_secs(2));
    cluster.make_shard("cars", "/car:cars");
    let id = cluster.server(1).map().shard_named("cars").expect("it was just made").id;
    cluster.stick_disks(|id, lane| id == ServerId(3) && lane == wal::Lane::Snapshot);
    cluster.fill_with(1, &cars(16), 8 * MIB);
    assert!(cluster.stuck.as_ref().is_some_and(|stuck| !stuck.writes.is_empty()));
    let has = |cluster: &Cluster| cluster.server(3).replicas(cluster.now).iter().any(|replica| replica.shard == id);
    for (replicas, there) in [(BTreeSet::from([ServerId(1), ServerId(2)]), false), (BTreeSet::new(), true)] {
        let replicas = if there { Replicas::All } else { Replicas::Servers(replicas) };
        cluster.admin(1, Admin::Placement(Command::SetReplicas { id, replicas }));
        for _ in 0..1_000 {
            if has(&cluster) == there {
                break;
            }
            cluster.run(Span::from_ms(20));
        }
        assert_eq!(has(&cluster), there);
    }
    cluster.free_disks();
    cluster.run(Span::from_secs(5));
    cluster.fill_with(1, &cars(16), 8 * MIB);
    cluster.restart(3);
    cluster.run(Span::from_secs(5));
    cluster.assert_agreement();
    assert!(has(&cluster));
}

/// Seed 27781 of the simulation: the leader lost power while it sent a snapshot, led again at once, and sent another under the same number.
#[test]
fn parts_of_snapshots_from_before_and_after_a_restart_are_not_mixed() {
    let mut cluster = Cluster::new(2, Strategy::Single);
    cluster.run(Span::from_secs(2));
    cluster.make_shard("cars", "/car:cars");
    let id = cluster.server(1).map().shard_named("cars").expect("it was just made").id;
    let replicas = |cluster: &mut Cluster, servers: &[u64]| {
        let replicas = Replicas::Servers(servers.iter().copied().map(ServerId).collect());
        cluster.admin(1, Admin::Placement(Command::SetReplicas { id, replicas }));
        cluster.run(Span::from_secs(2));
    };
    replicas(&mut cluster, &[1]);
    cluster.fill_with(1, &cars(48), 3 * MIB);
    assert!(!cluster.server(2).digests().contains_key(&id) && cluster.group(1, id).bytes > 3 * MIB);

    // The first parts arrive; nobody hears so.
    cluster.is_lost = |item| matches!(item, Item::SnapshotTaken { .. });
    replicas(&mut cluster, &[1, 2]);
    assert_eq!(cluster.group(2, id).applied, 0);
    cluster.fill_with(1, &cars(1), MIB / 16);
    cluster.is_lost = |_| false;
    cluster.restart(1);
    cluster.run(Span::from_secs(8));
    assert!(cluster.group(2, id).applied > 0);
    cluster.assert_agreement();
}
