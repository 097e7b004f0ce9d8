//! How much of the disk a server takes, with the sizes that servers run with: what was written long ago and is not there
//! any more must not stay on the disk for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::{Control, Rng, ServerId, Span, Step, Time};
use placement::{Command, Prefix, Replicas, ShardId, Strategy};
use store::protocol::{Admin, ClientMessage, Request, RequestBody, ServerMessage};
use store::status::{DiskStatus, GroupStatus};
use store::{ClientId, Config, Founding, Input, Output, Server};
use tree::{Change, Location, Path, Transaction};
use wal::{Log, MemoryDisk};

const CLUSTER: u64 = 7;
const MIB: u64 = 1 << 20;

/// Values of all tests have so many bytes.
const VALUE_BYTES: usize = 64 << 10;

/// What the documentation promises, in bytes.
fn bound(content_bytes: u64) -> u64 {
    3 * content_bytes + 256 * MIB
}

struct Member {
    server: Server,
    disk: MemoryDisk,
    wake: Time,
}

struct Cluster {
    now: Time,
    members: BTreeMap<ServerId, Member>,
    queue: VecDeque<(ServerId, Input)>,
    /// Whom nothing reaches.
    cut_off: BTreeSet<ServerId>,
    unanswered: BTreeMap<u64, RequestBody>,
    sequence: u64,
    refused: u64,
    /// The most that a disk ever held.
    used_max: u64,
    /// Disks may be full.
    is_full: bool,
}

fn identity(id: ServerId) -> wal::Identity {
    wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: id, name: format!("n{id}") }
}

fn start(id: ServerId, disk: &MemoryDisk, now: Time) -> Server {
    let (log, recovered) = Log::recover(disk, wal::Config::default()).unwrap();
    let config = Config::new(CLUSTER, id, format!("n{id}"));
    Server::open(config, log, recovered, disk, BTreeMap::new(), Rng::new(id.0), now).unwrap()
}

fn put(path: &str, value: &[u8]) -> RequestBody {
    let at = Location::config(Path::parse(path).unwrap());
    RequestBody::Write(Transaction::of(Change::Put { at, value: value.to_vec().into() }))
}

impl Cluster {
    fn new(servers: u64, strategy: Strategy) -> Self {
        let names = (1..=servers).map(ServerId).map(|id| (id, (format!("n{id}"), format!("10.0.0.{id}:1")))).collect();
        let founding =
            Founding { cluster: CLUSTER, servers: names, strategy, protocol: store::protocol::VERSION, secret: None };
        let mut members = BTreeMap::new();
        for id in (1..=servers).map(ServerId) {
            let mut disk = MemoryDisk::new();
            let (mut log, _) = Log::recover(&disk, wal::Config::default()).unwrap();
            log.identify(identity(id)).unwrap();
            founding.write(&mut log);
            disk.carry_out(&log.take_batch().expect("there is something to write")).unwrap();
            let server = start(id, &disk, Time::ZERO);
            members.insert(id, Member { server, disk, wake: Time::ZERO });
        }
        Self {
            now: Time::ZERO,
            members,
            queue: VecDeque::new(),
            cut_off: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            sequence: 0,
            refused: 0,
            used_max: 0,
            is_full: false,
        }
    }

    fn drain(&mut self, id: ServerId) {
        loop {
            let member = self.members.get_mut(&id).expect("a member");
            let output = match member.server.poll(self.now) {
                Step::Wait(at) => {
                    member.wake = at;
                    return;
                }
                Step::Do(output) => output,
            };
            match output {
                Output::Peer { to, envelope } if !self.cut_off.contains(&id) && !self.cut_off.contains(&to) => {
                    self.queue.push_back((to, Input::Peer { from: id, envelope }));
                }
                Output::Disk(write) => {
                    let result = member.disk.carry_out(&write);
                    assert!(result.is_ok() || self.is_full, "{result:?}");
                    self.used_max = self.used_max.max(member.disk.used_bytes());
                    let failed = |error| Input::WriteFailed { write: write.id, error };
                    self.queue.push_back((id, result.map_or_else(failed, |()| Input::Written(write.id))));
                }
                Output::Client { message: ServerMessage::Response(response), .. } => {
                    if let Some(body) = self.unanswered.remove(&response.sequence)
                        && response.result.is_err()
                    {
                        self.refused += 1;
                        assert!(self.refused < 10_000, "{:?}", response.result);
                        self.unanswered.insert(response.sequence, body);
                    }
                }
                Output::Stop(reason) => panic!("{reason}"),
                _ => {}
            }
        }
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            for id in self.members.keys().copied().collect::<Vec<_>>() {
                if self.members[&id].wake <= self.now {
                    self.members.get_mut(&id).unwrap().server.handle(self.now, Input::Tick);
                    self.drain(id);
                }
            }
            while let Some((id, input)) = self.queue.pop_front() {
                self.members.get_mut(&id).unwrap().server.handle(self.now, input);
                self.drain(id);
            }
            self.now += Span::from_ms(1);
        }
    }

    fn ask(&mut self, to: u64, sequence: u64, body: RequestBody) {
        let request = Request { session: 1, sequence, acknowledged: sequence, timeout_ms: 60_000, body };
        let input = Input::Client { client: ClientId(1), message: ClientMessage::Request(request) };
        self.queue.push_back((ServerId(to), input));
    }

    /// Writes values of [`VALUE_BYTES`] until so many bytes are written, in turn under `paths`.
    fn write(&mut self, to: u64, paths: &[String], bytes: u64) {
        let values = bytes / VALUE_BYTES as u64;
        for nth in 0..values {
            let path = &paths[nth as usize % paths.len()];
            let body = put(path, &vec![nth as u8; VALUE_BYTES]);
            self.sequence += 1;
            self.unanswered.insert(self.sequence, body.clone());
            self.ask(to, self.sequence, body);
            self.run(Span::from_ms(1));
        }
        for turn in 0..10_000 {
            self.run(Span::from_ms(if turn == 0 { 1 } else { 20 }));
            if self.unanswered.is_empty() {
                return;
            }
            for (sequence, body) in self.unanswered.clone() {
                self.ask(to, sequence, body);
            }
        }
        panic!("{} writes were not answered", self.unanswered.len());
    }

    /// Asks for something until it is answered well.
    fn demand(&mut self, to: u64, body: RequestBody) {
        self.sequence += 1;
        self.unanswered.insert(self.sequence, body);
        self.write(to, &[], 0);
    }

    fn admin(&mut self, to: u64, admin: Admin) {
        self.demand(to, RequestBody::Admin(admin));
    }

    fn group(&self, id: u64, shard: u64) -> GroupStatus {
        let groups = self.members[&ServerId(id)].server.replicas(self.now);
        groups.into_iter().find(|group| group.shard == ShardId(shard)).expect("it has a replica")
    }

    fn disk_status(&self, id: u64) -> DiskStatus {
        self.members[&ServerId(id)].server.disk_status()
    }

    fn used(&self, id: u64) -> u64 {
        self.members[&ServerId(id)].disk.used_bytes()
    }

    fn content(&self, id: u64) -> u64 {
        self.members[&ServerId(id)].server.replicas(self.now).iter().map(|group| group.bytes).sum()
    }

    fn restart(&mut self, id: u64) {
        let id = ServerId(id);
        let disk = self.members.remove(&id).expect("a member").disk;
        let server = start(id, &disk, self.now);
        self.members.insert(id, Member { server, disk, wake: self.now });
    }
}

fn cars(count: u64) -> Vec<String> {
    (0..count).map(|key| format!("/car:cars/car-entry={key}")).collect()
}

#[test]
fn a_small_content_written_over_and_over_stays_small_on_the_disk() {
    let mut cluster = Cluster::new(1, Strategy::Single);
    cluster.run(Span::from_secs(1));
    cluster.write(1, &cars(32), 400 * MIB);
    let (used, content) = (cluster.used(1), cluster.content(1));
    assert!((2 * MIB..3 * MIB).contains(&content), "{content} bytes of content");
    assert!(used <= bound(content), "{} MiB on the disk for {content} bytes of content", used / MIB);
    assert!(cluster.used_max <= bound(content), "{} MiB at most", cluster.used_max / MIB);
    // And everything is there after a restart.
    cluster.restart(1);
    cluster.run(Span::from_secs(2));
    assert_eq!(cluster.content(1), content);
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
    assert!(cluster.members[&ServerId(1)].server.map().shards().len() > 40);
    cluster.write(1, &cars(16), 320 * MIB);
    let (most, content) = (cluster.used_max, cluster.content(1));
    assert!(most <= bound(content), "{} MiB at most for {content} bytes of content", most / MIB);
    assert!(cluster.disk_status(1).log_memory_bytes <= 64 * MIB);
    cluster.restart(1);
    cluster.run(Span::from_secs(2));
    assert_eq!(cluster.content(1), content);
}

#[test]
fn a_server_that_is_cut_off_holds_on_to_nothing_at_the_others() {
    let mut cluster = Cluster::new(3, Strategy::Single);
    cluster.run(Span::from_secs(3));
    cluster.demand(1, put("/car:cars/car-entry=1", b"first"));
    cluster.cut_off.insert(ServerId(3));
    cluster.run(Span::from_secs(3));
    cluster.write(1, &cars(16), 320 * MIB);
    assert!(cluster.used_max <= bound(cluster.content(1)), "{} MiB at most", cluster.used_max / MIB);
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(6));
    let held = |id| cluster.members[&ServerId(id)].server.digests();
    assert_eq!(held(1), held(3));
    assert!(cluster.used_max <= bound(cluster.content(1)), "{} MiB at most", cluster.used_max / MIB);
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
    let shard = cluster.members[&ServerId(1)].server.map().shard_named("lost").expect("it was made").id.0;
    let leader = if cluster.group(1, shard).leader == Some(ServerId(1)) { 1 } else { 2 };
    cluster.cut_off.insert(ServerId(3 - leader));
    cluster.sequence += 1;
    cluster.ask(leader, cluster.sequence, put("/lost:values/value=2", b"uncommitted"));
    cluster.run(Span::from_secs(4));
    let last = cluster.group(leader, shard).last;
    assert!(last > cluster.group(leader, shard).commit, "it is there and not committed");
    cluster.write(3, &cars(16), 320 * MIB);
    let content = cluster.content(leader);
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
    cluster.write(1, &cars(16), 40 * MIB);
    let content = cluster.content(1);
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
    assert_eq!(cluster.content(1), content);
}

/// No file of a snapshot that was given up stays behind.
#[test]
fn a_disk_without_room_is_not_filled_by_what_is_given_up() {
    let mut cluster = Cluster::new(1, Strategy::Single);
    cluster.run(Span::from_secs(1));
    cluster.write(1, &cars(16), 4 * MIB);
    let snapshots = |cluster: &Cluster| {
        let files = cluster.members[&ServerId(1)].disk.files();
        files.keys().filter(|file| file.as_str().starts_with("snapshot-")).count()
    };
    for _ in 0..3 {
        let disk = &mut cluster.members.get_mut(&ServerId(1)).expect("a member").disk;
        disk.fill_after(Some(disk.used_bytes() + 200_000));
        cluster.is_full = true;
        cluster.admin(1, Admin::Defragment);
        cluster.run(Span::from_ms(200));
        cluster.members.get_mut(&ServerId(1)).expect("a member").disk.fill_after(None);
        cluster.is_full = false;
        cluster.run(Span::from_secs(1));
        assert!(snapshots(&cluster) <= 2, "{}", snapshots(&cluster));
        cluster.write(1, &cars(16), MIB);
    }
    assert_eq!(snapshots(&cluster), 2, "of meta and of the shard");
}
