//! The controllers' processes and their data folders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabric::{Controllers, ElectionTimeout, Replicas, ShardPlan, ShardSpec, Target};
use machine::{ServerId, Span};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use node::{Client, Tls, TlsFiles, certificates};
use placement::{Command as Change, Prefix, ShardId};
use store::client::ClientConfig;
use store::protocol::{Admin, Answer, RequestBody};
use store::status::{RaftRole, Status};
use tempfile::TempDir;
use workload::{Cars, Layout, container};

use super::relay::Relay;

/// A cluster has so long to do what it was asked, besides some election timeouts.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at something that takes its time.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// One question to one node.
const QUESTION: Duration = Duration::from_secs(1);
/// So much of a controller's log is shown when something fails.
const LOG_TAIL_BYTES: u64 = 2_000;
/// Where data folders are made: on a disk, while /tmp may be in memory.
const ON_DISK: &str = "/var/tmp";

/// What the names of data folders begin with; the number of the process that they belong to follows.
const FOLDER: &str = "heddle-controllers-";

/// A cluster of processes. They end with it.
pub(super) struct Nodes {
    program: PathBuf,
    controllers: Controllers,
    members: Vec<Node>,
    relay: Option<Relay>,
    tls: Option<NodesTls>,
    /// Entries below this number may exist.
    entries_used: u32,
    folder: TempDir,
}

/// How connections to them are secured.
struct NodesTls {
    clients: Tls,
    nodes: TlsFiles,
}

struct Node {
    name: String,
    /// Where it listens.
    listen: String,
    /// Where the others, and clients, reach it.
    address: String,
    child: Option<Child>,
    paused: bool,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Node {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.paused = false;
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let Some(child) = &self.child else { return Ok(()) };
        kill(Pid::from_raw(child.id().cast_signed()), signal)
            .map_err(|error| format!("{signal} to {}: {error}", self.name))
    }

    fn answers(&self) -> bool {
        self.child.is_some() && !self.paused
    }
}

impl Nodes {
    /// Starts them one after the other, until all are members.
    pub fn start(program: &Path, controllers: &Controllers, relayed: bool) -> Result<Self, String> {
        let on_disk = Path::new(ON_DISK);
        let parent = if on_disk.is_dir() { on_disk.to_owned() } else { std::env::temp_dir() };
        sweep(&parent);
        let prefix = format!("{FOLDER}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent);
        let folder = folder.map_err(|error| format!("no data folder in {}: {error}", parent.display()))?;
        let host = own_host();
        let listen = free_addresses(host, controllers.nodes as usize)?;
        let relay =
            relayed.then(|| Relay::start(host, &listen)).transpose().map_err(|error| format!("relay: {error}"))?;
        let reached = relay.as_ref().map_or_else(|| listen.clone(), |relay| relay.addresses().to_vec());
        let nodes = listen.into_iter().zip(reached).enumerate().map(|(i, (listen, address))| Node {
            name: format!("n{}", i + 1),
            listen,
            address,
            child: None,
            paused: false,
        });
        let mut cluster = Self {
            program: program.to_owned(),
            controllers: controllers.clone(),
            members: nodes.collect(),
            relay,
            tls: None,
            entries_used: 0,
            folder,
        };
        if controllers.tls {
            cluster.tls = Some(cluster.certify(host)?);
        }
        for number in 0..cluster.members.len() {
            cluster.spawn(number)?;
            if let Err(error) = cluster.wait_for_members(number + 1) {
                return Err(cluster.explain(&error));
            }
        }
        if let ShardPlan::List(shards) = &controllers.shards.clone() {
            cluster.make_shards(shards)?;
        }
        Ok(cluster)
    }

    fn certify(&self, host: Ipv4Addr) -> Result<NodesTls, String> {
        let folder = self.folder.path().join("tls");
        certificates::make(&folder, &[host.to_string()]).map_err(|error| error.to_string())?;
        let files = TlsFiles {
            certificate: folder.join("client.pem"),
            key: folder.join("client.key"),
            authority: folder.join("ca.pem"),
        };
        let clients = Tls::load(&files).map_err(|error| error.to_string())?;
        let file = |name: String| folder.join(name);
        let [certificate, key, authority] =
            [file(format!("{host}.pem")), file(format!("{host}.key")), file("ca.pem".into())];
        Ok(NodesTls { clients, nodes: TlsFiles { certificate, key, authority } })
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{}.log", self.members[number].name))
    }

    /// Starts the process of a node, on the data that it has.
    fn spawn(&mut self, number: usize) -> Result<(), String> {
        let node = &self.members[number];
        let log = File::options().create(true).append(true).open(self.log(number));
        let log = log.map_err(|error| format!("{}: {error}", self.log(number).display()))?;
        let mut command = Command::new(&self.program);
        command.args(["controller", "--until-stdin-closes", "--node", &node.name, "--listen", &node.listen]);
        command.args(["--advertise", &node.address, "--election-timeout", &self.election_timeout()]);
        command.arg("--data").arg(self.folder.path().join(&node.name));
        if self.controllers.shards == ShardPlan::Distributed {
            command.args(["--shards", "distributed"]);
        }
        if !self.controllers.pre_vote {
            command.arg("--no-pre-vote");
        }
        if number > 0 {
            command.args(["--join", &self.members[0].address]);
        }
        if let Some(NodesTls { nodes, .. }) = &self.tls {
            command.arg("--tls-cert").arg(&nodes.certificate).arg("--tls-key").arg(&nodes.key);
            command.arg("--tls-ca").arg(&nodes.authority);
        }
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::piped()).stdout(log).stderr(errors).spawn();
        let child = child.map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        self.members[number].child = Some(child);
        Ok(())
    }

    fn election_timeout(&self) -> String {
        let shown = |span: Span| format!("{}us", span.as_ps() / 1_000_000);
        match self.controllers.election {
            ElectionTimeout::Fixed(timeout) => shown(timeout),
            ElectionTimeout::Measured { min, max } => format!("{}..{}", shown(min), shown(max)),
        }
    }

    /// How long it may take until something that needs leaders has happened.
    pub fn patience(&self) -> Duration {
        let timeout = match self.controllers.election {
            ElectionTimeout::Fixed(timeout) => timeout,
            ElectionTimeout::Measured { max, .. } => max,
        };
        PATIENCE + Duration::from_nanos(timeout.as_ns()) * 6
    }

    /// Whether these are such controllers, all well, with or without a relay.
    pub fn are(&self, controllers: &Controllers, relayed: bool) -> bool {
        self.controllers == *controllers && self.relay.is_some() == relayed && self.members.iter().all(Node::answers)
    }

    /// How to secure connections to them, if that is wanted.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref().map(|tls| &tls.clients)
    }

    /// How many there are, killed ones too.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Where a node is reached.
    pub fn address(&self, number: usize) -> &str {
        &self.members[number].address
    }

    /// Its name.
    pub fn name(&self, number: usize) -> &str {
        &self.members[number].name
    }

    /// Nodes that run, from 0.
    pub fn running(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|&number| self.members[number].answers()).collect()
    }

    /// Entries below this may exist.
    pub fn entries_used(&self) -> u32 {
        self.entries_used
    }

    /// Entries below `end` may exist.
    pub fn use_entries(&mut self, end: u32) {
        self.entries_used = self.entries_used.max(end);
    }

    /// A client that asks these nodes, the first one first.
    pub fn client(&self, numbers: &[usize], config: ClientConfig) -> Result<Client, String> {
        let endpoints: Vec<String> = numbers.iter().map(|&number| self.members[number].address.clone()).collect();
        Client::with_config(&endpoints, self.tls(), config).map_err(|error| error.to_string())
    }

    /// What one node knows of the cluster, if it says so in time.
    pub fn status(&self, number: usize) -> Option<Status> {
        let config = ClientConfig { go_to_leader: false, ..ClientConfig::default() };
        let client = self.client(&[number], config).ok()?;
        match client.request(RequestBody::Admin(Admin::Status), QUESTION) {
            Ok(Answer::Status(status)) => Some(*status),
            _ => None,
        }
    }

    /// Looks again and again until `look` finds something.
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> Result<T, String> {
        let until = Instant::now() + self.patience();
        loop {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            if Instant::now() > until {
                return Err(format!("within {} s {what}", self.patience().as_secs()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until so many nodes are members and hold all shards.
    fn wait_for_members(&mut self, members: usize) -> Result<(), String> {
        let last = members - 1;
        let until = Instant::now() + self.patience();
        loop {
            let is_ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
            if self.members[last].child.as_mut().is_some_and(is_ended) {
                return Err(format!("{} has ended while starting", self.members[last].name));
            }
            if (0..members).all(|number| self.status(number).is_some_and(|status| is_whole(&status, members))) {
                return Ok(());
            }
            if Instant::now() > until {
                let seconds = self.patience().as_secs();
                return Err(format!("within {seconds} s {} has not become a voter", self.members[last].name));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// A request to the cluster as a whole.
    fn manage(&self, change: Change) -> Result<(), String> {
        let client = self.client(&self.running(), ClientConfig::default())?;
        let request = RequestBody::Admin(Admin::Placement(change));
        client.request(request, self.patience()).map(|_| ()).map_err(|error| error.to_string())
    }

    fn make_shards(&self, shards: &[ShardSpec]) -> Result<(), String> {
        for shard in shards {
            let replicas = replicas(&shard.replicas);
            if shard.name == "default" {
                self.manage(Change::SetReplicas { id: ShardId::DEFAULT, replicas })?;
                continue;
            }
            let modules = shard.modules.iter().map(|module| Prefix::Module(module.clone()));
            let paths = shard.prefixes.iter().map(|prefix| {
                tree::Path::parse(prefix).map(Prefix::Path).map_err(|error| format!("{prefix}: {error}"))
            });
            let prefixes = modules.map(Ok).chain(paths).collect::<Result<_, String>>()?;
            self.manage(Change::CreateShard { name: shard.name.clone(), prefixes, replicas })?;
        }
        Ok(())
    }

    /// Writes something below the containers of these modules, and waits until their shards have converged.
    pub fn make_ready(&self, modules: &[&str]) -> Result<(), String> {
        let client = self.client(&self.running(), ClientConfig::default())?;
        for &module in modules {
            let change = tree::Change::Put { at: container(module), value: Cars::numbered(0).value(1) };
            let write = RequestBody::Write(tree::Transaction::of(change));
            client.request(write, self.patience()).map_err(|error| format!("the first write: {error}"))?;
        }
        let paths: Vec<_> = modules.iter().map(|module| container(module).path).collect();
        self.wait("shards have not converged", |nodes| {
            let statuses: Vec<Status> = nodes.running().into_iter().map(|n| nodes.status(n)).collect::<Option<_>>()?;
            let have_converged = paths.iter().all(|path| {
                let mut leaders = statuses.iter().map(|status| status.leaders.get(&status.map.route(path)));
                let first = leaders.next().flatten();
                first.is_some() && leaders.all(|leader| leader == first)
            });
            (have_converged && statuses.iter().all(|status| status.map.moves().is_empty())).then_some(())
        })
    }

    /// The node that leads the shard of a module, as the leader itself says.
    pub fn leader_now(&self, module: &str) -> Option<usize> {
        let leads = |number: usize| {
            let status = self.status(number)?;
            let shard = status.map.route(&container(module).path);
            let group = status.groups.iter().find(|group| group.shard == shard)?;
            (group.role == RaftRole::Leader).then_some((group.term, number))
        };
        self.running().into_iter().filter_map(leads).max().map(|(_, number)| number)
    }

    /// The same; waits until there is one.
    pub fn leader(&self, module: &str) -> Result<usize, String> {
        self.wait("nobody leads the shard", |nodes| nodes.leader_now(module))
    }

    /// Has the leader of a module's shard stay where it is, while requests come from elsewhere.
    pub fn pin_leader(&self, module: &str) -> Result<usize, String> {
        if self.members.len() == 1 {
            return Ok(0);
        }
        let leader = self.leader(module)?;
        let status = self.status(leader).ok_or("the leader does not answer")?;
        let change = Change::Pin { id: status.map.route(&container(module).path), server: status.server };
        self.manage(change)?;
        Ok(leader)
    }

    /// Which nodes these are, now.
    pub fn choose(&self, target: Target, module: &str) -> Result<Vec<usize>, String> {
        Ok(match target {
            Target::Leader => vec![self.leader(module)?],
            Target::Follower => {
                let leader = self.leader(module)?;
                self.running().into_iter().find(|&number| number != leader).into_iter().collect()
            }
            Target::All => (0..self.members.len()).collect(),
            Target::Node(number) => vec![number as usize - 1],
        })
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: usize) {
        self.members[number].kill();
    }

    /// Starts a node that was killed; `false` if it runs.
    pub fn restart(&mut self, number: usize) -> Result<bool, String> {
        let is_gone = self.members[number].child.is_none();
        if is_gone {
            self.spawn(number)?;
        }
        Ok(is_gone)
    }

    /// SIGSTOP.
    pub fn pause(&mut self, number: usize) -> Result<(), String> {
        self.members[number].paused = self.members[number].child.is_some();
        self.members[number].signal(Signal::SIGSTOP)
    }

    /// SIGCONT.
    pub fn go_on(&mut self, number: usize) -> Result<(), String> {
        self.members[number].paused = false;
        self.members[number].signal(Signal::SIGCONT)
    }

    /// Lets no message pass between the groups of each partition, whose nodes are numbered from 1; all others pass.
    pub fn part(&self, partitions: &[Vec<Vec<u32>>]) {
        self.relay.as_ref().expect("a cluster with partitions has a relay").part(partitions);
    }

    /// Ends all that faults began: every node runs and hears the others.
    pub fn heal(&mut self) -> Result<(), String> {
        if let Some(relay) = &self.relay {
            relay.part(&[]);
        }
        for number in 0..self.members.len() {
            self.go_on(number)?;
            self.restart(number)?;
        }
        Ok(())
    }

    /// Waits until every node has what the leader of each shard has.
    pub fn wait_until_caught_up(&self) -> Result<(), String> {
        self.wait("not every node has caught up", |nodes| {
            let all = 0..nodes.members.len();
            let statuses: Vec<Status> = all.map(|number| nodes.status(number)).collect::<Option<_>>()?;
            let mut committed: BTreeMap<ShardId, u64> = BTreeMap::new();
            for group in statuses.iter().flat_map(|status| &status.groups) {
                let commit = committed.entry(group.shard).or_default();
                *commit = (*commit).max(group.commit);
            }
            let knows_leader = |status: &Status| status.groups.iter().all(|group| group.leader.is_some());
            let applied = statuses.iter().flat_map(|status| &status.groups).all(|g| g.applied >= committed[&g.shard]);
            (applied && statuses.iter().all(knows_leader)).then_some(())
        })
    }

    /// Resident memory of the node that has the most.
    pub fn resident_max_bytes(&self) -> Option<u64> {
        let resident = |node: &Node| {
            let text = std::fs::read_to_string(format!("/proc/{}/status", node.child.as_ref()?.id())).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
        };
        self.members.iter().filter_map(resident).max()
    }

    /// A failure with the last words of each controller.
    pub fn explain(&mut self, message: &str) -> String {
        let mut text = message.to_owned();
        for number in 0..self.members.len() {
            let name = self.members[number].name.clone();
            let ended = match self.members[number].child.as_mut().map(Child::try_wait) {
                Some(Ok(Some(status))) => format!(" ({status})"),
                _ => String::new(),
            };
            if let Some(tail) = tail(&self.log(number)).filter(|tail| !tail.is_empty()) {
                let _ = write!(text, "\n{name}{ended}: {tail}");
            }
        }
        text
    }
}

/// Whether all members vote in every shard that is held by all.
fn is_whole(status: &Status, members: usize) -> bool {
    let whole = |group: &store::status::GroupStatus| group.voters.len() == members && group.leader.is_some();
    status.map.members().len() == members && !status.groups.is_empty() && status.groups.iter().all(whole)
}

fn replicas(replicas: &Replicas) -> placement::Replicas {
    match replicas {
        Replicas::All => placement::Replicas::All,
        Replicas::Count(count) => placement::Replicas::Count(u8::try_from(*count).unwrap_or(u8::MAX)),
        // Nodes join in their order, and the cluster numbers its servers from 1.
        Replicas::Nodes(nodes) => placement::Replicas::Servers(nodes.iter().map(|&n| ServerId(u64::from(n))).collect()),
    }
}

/// Removes data folders of processes that were killed before they could do so.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            // Another user's, or somebody else was faster: neither matters.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// An address of loopback that no other cluster has. Connections come from 127.0.0.1, whose ports the kernel gives to anybody: one of
/// this address that was free stays free until its node listens, and while a killed node is away.
fn own_host() -> Ipv4Addr {
    static CLUSTERS: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    // Not those near 127.0.0.1, which people use.
    Ipv4Addr::new(127, high | 0x40, low, 2 + (CLUSTERS.fetch_add(1, Ordering::Relaxed) % 250) as u8)
}

/// Addresses that nobody listens at now. All are held at once, so that they differ.
fn free_addresses(host: Ipv4Addr, count: usize) -> Result<Vec<String>, String> {
    let listeners = (0..count).map(|_| TcpListener::bind((host, 0))).collect::<Result<Vec<_>, _>>();
    let addresses = listeners.and_then(|all| all.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>());
    let addresses = addresses.map_err(|error| format!("no free port on loopback: {error}"))?;
    Ok(addresses.into_iter().map(|address| address.to_string()).collect())
}

fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    fn start(program: &Path, pre_vote: bool) -> String {
        let (election, shards) = (ElectionTimeout::default(), ShardPlan::Single);
        let controllers = Controllers { nodes: 1, election, pre_vote, delay: None, shards, tls: false };
        Nodes::start(program, &controllers, false).err().expect("it cannot start")
    }

    #[test]
    fn a_controller_that_does_not_start_is_reported_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("heddle");
        let mut file = File::options().create(true).write(true).truncate(true).mode(0o755).open(&program).unwrap();
        file.write_all(b"#!/bin/sh\necho the disk is full >&2\nexit 2\n").unwrap();
        drop(file);
        let error = start(&program, true);
        assert!(error.starts_with("n1 has ended while starting"), "{error}");
        assert!(error.ends_with("n1 (exit status: 2): the disk is full"), "{error}");
        assert!(start(&folder.path().join("nosuch"), true).contains("nosuch cannot be started: "));
    }

    #[test]
    fn a_controller_is_started_without_pre_vote() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("heddle");
        let mut file = File::options().create(true).write(true).truncate(true).mode(0o755).open(&program).unwrap();
        file.write_all(b"#!/bin/sh\necho \"$@\" >&2\nexit 2\n").unwrap();
        drop(file);
        assert!(start(&program, false).contains(" --no-pre-vote"));
        assert!(!start(&program, true).contains("--no-pre-vote"));
    }

    #[test]
    fn folders_of_dead_processes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{FOLDER}{}-abc", std::process::id());
        // No process has this number: Linux counts to 2^22.
        let names = [own.as_str(), "heddle-controllers-4194305-abc", "heddle-controllers-", "other-4194305-abc"];
        for name in names {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        sweep(folder.path());
        let left = names.map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn addresses_differ() {
        let mut addresses = free_addresses(own_host(), 9).unwrap();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 9);
    }
}
