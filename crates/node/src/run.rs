//! A controller's life: from its data folder to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use machine::{Rng, ServerId};
use mio::Poll;
use mio::net::TcpListener;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use placement::{Strategy, TimeoutConfig};
use store::client::ClientConfig;
use store::protocol::{Admin, Answer, Error as RequestError, RequestBody};
use store::{Founding, Server};
use wal::{FORMAT, Identity, Log, Recovered};

use super::audit::{Audit, AuditOptions};
use super::caller::resolve;
use super::client::Client;
use super::clock::{BootClock, random_bits};
use super::descriptors::Shares;
use super::disk::{self, Disk};
use super::event_loop::{EventLoop, LoopParts};
use super::folder::{DataFolder, Joined, Joining, Started};
use super::keepalive::notice_vanished;
use super::secret::Secrets;
use super::{Error, LoginToken, Tls, TlsFiles, http};

/// Where a controller listens by default.
pub const DEFAULT_PORT: u16 = 6640;

/// A server that asks to join is patient for so long: the cluster may be electing, or starting itself.
const JOIN_PATIENCE: Duration = Duration::from_secs(60);

/// One request to join takes so long at most.
const JOIN_ATTEMPT: Duration = Duration::from_secs(1);

/// A cluster that is asked who it is, in passing, has so long to answer.
const CHECK_PATIENCE: Duration = Duration::from_secs(1);

/// How a controller is run.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Its name, unique in the cluster.
    pub node: String,
    /// Its data folder, made if it is not there.
    pub data: PathBuf,
    /// Where it listens for peers and clients: `host:port`. Port 0 has the kernel choose.
    pub listen: String,
    /// Where others reach it, if not where it listens.
    pub advertise: Option<String>,
    /// Servers of the cluster to join; empty: the first start founds a cluster.
    pub join: Vec<String>,
    /// The server whose place it takes when it joins, if any.
    pub replaces: Option<ServerId>,
    /// Where it listens for HTTP, if at all.
    pub http: Option<String>,
    /// The bounds of the election timeout.
    pub election: TimeoutConfig,
    /// Whether it asks first whether it would be elected, before it stands for election.
    pub pre_vote: bool,
    /// How modules are spread over shards in a cluster that this server founds; later `heddle cluster shards` changes it.
    pub strategy: Strategy,
    /// Whether leaders move to where requests come from.
    pub balance_leaders: bool,
    /// Replicas that are emptied if they have stopped, to be filled again by their leaders.
    pub rebuild: BTreeSet<placement::ShardId>,
    /// How reads are made linearizable.
    pub reads: store::Reads,
    /// The token by which it joins, where users are checked.
    pub token: Option<LoginToken>,
    /// What is noted of what clients do.
    pub audit: Option<AuditOptions>,
    /// Certificates. Without them it listens on loopback only.
    pub tls: Option<TlsFiles>,
    /// Bytes that it holds for clients and peers at most, beside its data; at least [`store::budget::MIN_BYTES`].
    pub memory_bytes: usize,
    /// Bytes of data that it may hold, if there is a bound.
    pub quota_bytes: Option<u64>,
    /// What each thread between a write and its answer calls once, when it starts: it may ask the kernel to be run soon after it wakes.
    pub hasten: fn(),
}

/// A controller that has begun to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where others reach it.
    pub advertise: String,
    /// Where it listens for HTTP.
    pub http: Option<SocketAddr>,
    /// The cluster's number.
    pub cluster: u64,
    /// The number of this server.
    pub server: ServerId,
    /// Whether it has been there before, with this folder.
    pub restarted: bool,
}

/// Runs a controller until it has to end (SIGTERM, SIGINT), or it has to stop. It is to be called before any thread
/// is made: signals are taken for the whole process.
///
/// `ready` is called once, when it listens.
///
/// # Errors
/// Whatever kept it from starting (nothing is lost or changed then, and nothing stays that was made for it), or [`Error::Stopped`].
pub fn run(options: &ControllerOptions, ready: impl FnOnce(&Ready)) -> Result<(), Error> {
    check_name(&options.node)?;
    let signals = take_signals()?;
    let shares = Shares::take()?;
    let tls = options.tls.as_ref().map(Tls::load).transpose()?;
    let listen = single(&options.listen)?;
    if tls.is_none() && !listen.ip().is_loopback() {
        return Err(Error::NotLoopback { address: listen });
    }
    check_join(options, listen)?;
    let http = options.http.as_deref().map(|address| http_address(address, tls.as_ref())).transpose()?;
    let folder = DataFolder::open(&options.data)?;
    check_log_is_there(&folder)?;
    let (log, recovered) = Log::recover(&folder, wal::Config::default())
        .map_err(|error| Error::Log { path: folder.path().to_owned(), reason: error.to_string() })?;
    if recovered.discarded_tail_bytes > 0 {
        tracing::info!(
            "{} bytes of an unfinished write, which nobody saw confirmed, left out",
            recovered.discarded_tail_bytes
        );
    }
    let taken = |source| Error::Listen { address: listen, option: "--listen", source };
    let listener = TcpListener::bind(listen).map_err(taken)?;
    notice_vanished(&listener);
    let http = http.map(http::listen).transpose()?;
    let listen = listener.local_addr().map_err(taken)?;
    let advertise = advertised(options, listen)?;
    // Whoever cannot keep it takes no place in a cluster.
    let audit = options.audit.clone().map(Audit::open).transpose()?;
    let restarted = recovered.identity.is_some();
    let mut secrets = Secrets::open(folder.path())?;
    let begun = begin(options, tls.as_ref(), (&folder, &mut secrets), &advertise, log, recovered, &signals)?;

    let poll = Poll::new().map_err(Error::system("make an event loop"))?;
    let waker = Arc::new(EventLoop::waker(&poll).map_err(Error::system("make an event loop"))?);
    let (asker, questions) = mpsc::channel();
    let http = match http {
        Some(listener) => {
            let is_open = listener.local_addr().is_ok_and(|address| !address.ip().is_loopback());
            Some(http::start(listener, tls.as_ref().filter(|_| is_open), shares.http, asker, Arc::clone(&waker))?)
        }
        None => None,
    };
    let clock = BootClock::start();
    let rng = Rng::new(random_bits());
    let mut config = store::Config::new(begun.cluster, begun.server, options.node.as_str());
    config.address.clone_from(&advertise);
    config.election = options.election;
    config.pre_vote = options.pre_vote;
    config.rebuild.clone_from(&options.rebuild);
    config.balance_leaders = options.balance_leaders;
    config.reads = options.reads;
    config.memory_bytes = options.memory_bytes.max(store::budget::MIN_BYTES);
    config.quota_bytes = options.quota_bytes;
    let memory_bytes = config.memory_bytes;
    // Of the wall clock, which is later at each start unless it was set back; the registry then finds out.
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    config.secret = Some(secrets.own().clone());
    config.incarnation = since_1970.map_or(1, |span| span.as_nanos() as u64);
    let mut server = Server::open(config, begun.log, begun.recovered, &folder, begun.members, rng.fork(1), clock.now())
        .map_err(|error| Error::Log { path: folder.path().to_owned(), reason: error.to_string() })?;
    check_secret(&mut server, &secrets, begun.cluster)?;
    note_rebuilt(&server, &options.rebuild);
    let disk = Disk::start(folder.path(), &waker, options.hasten)?;
    let audit = audit.map(|start| start(begun.server)).transpose()?;
    let (cluster, id) = (begun.cluster, begun.server);
    let parts = LoopParts {
        memory_bytes,
        poll,
        waker,
        listener,
        signals,
        questions,
        disk,
        server,
        clock,
        tls,
        audit,
        shares,
        secrets,
        rng: rng.fork(2),
        cluster,
        name: options.node.clone(),
        address: advertise.clone(),
        metrics: http.map(|bound| reached(bound, &advertise)),
    };
    let event_loop = EventLoop::new(parts)?;
    folder.keep();
    ready(&Ready { listen, advertise, http, cluster, server: id, restarted });
    (options.hasten)();
    event_loop.run()
}

/// Says of each replica that was to be emptied whether it was: the option may have stayed in a unit file.
fn note_rebuilt(server: &Server, asked: &BTreeSet<placement::ShardId>) {
    for shard in asked {
        if server.emptied_replicas().contains(shard) {
            tracing::info!("the replica of shard {shard} has stopped: it is emptied, and its leader fills it again");
        } else {
            tracing::info!("--rebuild {shard}: there is nothing to rebuild, the replica has not stopped");
        }
    }
}

/// Without the cluster's secret nobody lets this server in, unless it is alone and may make another.
fn check_secret(server: &mut Server, secrets: &Secrets, cluster: u64) -> Result<(), Error> {
    let Some(digest) = server.map().secret() else { return Ok(()) };
    if secrets.find(digest).is_some() {
        return Ok(());
    }
    if server.map().members().keys().eq([&server.id()]) {
        tracing::warn!("the cluster's secret is lost: as there is no other server, a new one takes its place");
        server.note_secret_lost();
        return Ok(());
    }
    Err(Error::SecretLost { path: secrets.path().to_owned(), cluster, server: server.id() })
}

/// Whether `name` can name a node: what the cluster's map takes, checked before anything is made.
///
/// # Errors
/// [`Error::Name`].
pub fn check_name(name: &str) -> Result<(), Error> {
    let good = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if good { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

/// Nobody lets himself in: of the addresses to join at least one has to be another server's.
fn check_join(options: &ControllerOptions, listen: SocketAddr) -> Result<(), Error> {
    let own: Vec<&str> = std::iter::once(options.listen.as_str()).chain(options.advertise.as_deref()).collect();
    let is_own = |address: &String| own.contains(&address.as_str()) || address.parse() == Ok(listen);
    if !options.join.is_empty() && options.join.iter().all(is_own) {
        return Err(Error::JoinsItself { addresses: options.join.join(", ") });
    }
    Ok(())
}

/// Where to listen for HTTP: without certificates on loopback only.
fn http_address(address: &str, tls: Option<&Tls>) -> Result<SocketAddr, Error> {
    let address = single(address)?;
    if !address.ip().is_loopback() && tls.is_none() {
        return Err(Error::NotLoopback { address });
    }
    Ok(address)
}

/// The first address behind a `host:port`.
fn single(address: &str) -> Result<SocketAddr, Error> {
    if address.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
        return Err(Error::Address(address.to_owned()));
    }
    let found = resolve(address).map_err(|source| Error::Resolve { address: address.to_owned(), source })?;
    Ok(found[0])
}

/// Where others reach a server.
fn advertised(options: &ControllerOptions, listen: SocketAddr) -> Result<String, Error> {
    match &options.advertise {
        Some(address) if single(address)?.port() == 0 => Err(Error::Address(address.clone())),
        Some(address) => Ok(address.clone()),
        None if listen.ip().is_unspecified() => Err(Error::Unspecified { address: listen }),
        // A name in a certificate stays a name.
        None => {
            let host = options.listen.rsplit_once(':').map_or("", |(host, _)| host);
            Ok(format!("{host}:{}", listen.port()))
        }
    }
}

/// Where others reach what is bound to `bound`, on the host of `advertise`.
fn reached(bound: SocketAddr, advertise: &str) -> String {
    if bound.ip().is_unspecified() {
        let host = advertise.rsplit_once(':').map_or("", |(host, _)| host);
        format!("{host}:{}", bound.port())
    } else {
        bound.to_string()
    }
}

/// Takes the signals that end a controller, and has a file that grows beyond a limit be an error like any other: blocked, its signal
/// does nothing.
fn take_signals() -> Result<SignalFd, Error> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    let step = |errno: nix::Error| Error::System { step: "take signals", source: errno.into() };
    let mut blocked = set;
    blocked.add(Signal::SIGXFSZ);
    blocked.thread_block().map_err(step)?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(step)
}

/// What a server starts from.
struct Begun {
    cluster: u64,
    server: ServerId,
    log: Log,
    recovered: Recovered,
    /// Addresses of others, until the map is there.
    members: BTreeMap<ServerId, String>,
}

/// Goes on where the folder ends; with a new folder, joins or founds a cluster.
fn begin(
    options: &ControllerOptions,
    tls: Option<&Tls>,
    (folder, secrets): (&DataFolder, &mut Secrets),
    advertise: &str,
    log: Log,
    recovered: Recovered,
    signals: &SignalFd,
) -> Result<Begun, Error> {
    check_started(folder, &log, &recovered)?;
    let joining = folder.joining()?;
    let joined = joining.as_ref().and_then(|joining| joining.joined.clone());
    if let Some(identity) = &recovered.identity {
        if identity.name != options.node {
            let (found, expected) = (identity.name.clone(), options.node.clone());
            return Err(Error::OtherNode { path: folder.path().to_owned(), found, expected });
        }
        let (cluster, server) = (identity.cluster as u64, identity.server);
        check_cluster(options, tls, folder, cluster)?;
        if log.is_blank() && joined.is_none() {
            // It stopped in the midst of founding, before anybody knew of it.
            return found(options, (folder, secrets), advertise, log, cluster);
        }
        let members = joined.map(|joined| joined.members).unwrap_or_default();
        if folder.started()?.is_some() {
            return Ok(Begun { cluster, server, log, recovered, members });
        }
        return start(folder, log, identity.clone(), members);
    }
    if options.join.is_empty() && joining.is_none() {
        // Zero is no cluster.
        return found(options, (folder, secrets), advertise, log, random_bits() | 1);
    }
    let joined = match joined {
        Some(joined) => joined,
        None => join(options, tls, (folder, secrets), advertise, joining, signals)?,
    };
    let Joined { cluster, server, members } = joined;
    start(folder, log, identity(cluster, server, &options.node), members)
}

fn identity(cluster: u64, server: ServerId, name: &str) -> Identity {
    Identity { format: FORMAT, cluster: u128::from(cluster), server, name: name.to_owned() }
}

/// A server whose log is gone as a whole may not start.
fn check_log_is_there(folder: &DataFolder) -> Result<(), Error> {
    let Some(Started { cluster, server }) = folder.started()? else { return Ok(()) };
    // A folder that cannot be listed is refused by who reads the log.
    let Ok(files) = wal::Folder::list(folder) else { return Ok(()) };
    if files.iter().any(|(file, bytes)| file.as_str().starts_with("log-") && *bytes > 0) {
        return Ok(());
    }
    let has_identity = files.iter().any(|(file, _)| *file == Identity::file());
    let missing =
        if has_identity { "its log, files `log-...`, is" } else { "`identity` and its log, files `log-...`, are" };
    Err(Error::LogLost { path: folder.path().to_owned(), cluster, server, missing })
}

/// A server whose log is lost may not start.
fn check_started(folder: &DataFolder, log: &Log, recovered: &Recovered) -> Result<(), Error> {
    let Some(Started { cluster, server }) = folder.started()? else { return Ok(()) };
    let path = folder.path().to_owned();
    let missing = match &recovered.identity {
        None => "`identity` and its log, files `log-...`, are",
        Some(_) if log.is_blank() => "its log, files `log-...`, is",
        Some(identity) if (identity.cluster, identity.server) != (u128::from(cluster), server) => {
            let (found, of) = (identity.server, identity.cluster as u64);
            return Err(Error::Mixed { path, cluster, server, found, of });
        }
        Some(_) => return Ok(()),
    };
    Err(Error::LogLost { path, cluster, server, missing })
}

/// What the log has to begin with is on the disk when this returns, and the folder says so: nothing that this server says or confirms
/// from now on may be forgotten.
fn start(
    folder: &DataFolder,
    mut log: Log,
    identity: Identity,
    members: BTreeMap<ServerId, String>,
) -> Result<Begun, Error> {
    let failed = |reason: String| Error::Log { path: folder.path().to_owned(), reason };
    let (cluster, server) = (identity.cluster as u64, identity.server);
    log.identify(identity).map_err(|error| failed(error.to_string()))?;
    while let Some(write) = log.take_batch() {
        disk::carry_out(folder.path(), &write).map_err(|error| failed(error.to_string()))?;
        log.done(write.id);
    }
    folder.set_started(&Started { cluster, server })?;
    drop(log);
    let (log, recovered) = Log::recover(folder, wal::Config::default()).map_err(|error| failed(error.to_string()))?;
    Ok(Begun { cluster, server, log, recovered, members })
}

/// The first server of a new cluster. What the cluster begins with is on the disk when this returns.
fn found(
    options: &ControllerOptions,
    (folder, secrets): (&DataFolder, &Secrets),
    advertise: &str,
    mut log: Log,
    cluster: u64,
) -> Result<Begun, Error> {
    let server = ServerId(1);
    let identity = identity(cluster, server, &options.node);
    let failed = |error: wal::Error| Error::Log { path: folder.path().to_owned(), reason: error.to_string() };
    log.identify(identity.clone()).map_err(failed)?;
    let servers = BTreeMap::from([(server, (options.node.clone(), advertise.to_owned()))]);
    Founding {
        cluster,
        servers,
        strategy: options.strategy,
        protocol: store::protocol::VERSION,
        secret: Some(secrets.own().digest),
    }
    .write(&mut log);
    let begun = start(folder, log, identity, BTreeMap::new())?;
    tracing::info!("founded cluster {cluster:016x}");
    Ok(begun)
}

/// Has the cluster take this server in. What was asked and answered is in the folder, so that it is one server however
/// often it starts in the midst of this.
fn join(
    options: &ControllerOptions,
    tls: Option<&Tls>,
    (folder, secrets): (&DataFolder, &mut Secrets),
    advertise: &str,
    joining: Option<Joining>,
    signals: &SignalFd,
) -> Result<Joined, Error> {
    let mut joining = joining.unwrap_or_else(|| Joining { nonce: random_bits(), joined: None });
    folder.set_joining(&joining)?;
    let addresses = options.join.join(", ");
    if options.join.is_empty() {
        return Err(Error::JoinMissing { folder: folder.path().to_owned() });
    }
    let client = Client::connect(&options.join, tls)?;
    if let Some(token) = &options.token {
        client.log_in(token.clone())?;
    }
    let give_up = Instant::now() + JOIN_PATIENCE;
    loop {
        let body = RequestBody::Admin(Admin::Join {
            name: options.node.clone(),
            address: advertise.to_owned(),
            nonce: joining.nonce,
            replaces: options.replaces,
        });
        match client.request(body, JOIN_ATTEMPT) {
            Ok(answer @ (Answer::Joined { .. } | Answer::Admitted { .. })) => {
                folder.keep();
                let (cluster, server, members) = match answer {
                    Answer::Admitted { cluster, server, members, secret } => {
                        // Before it is noted that it has joined: otherwise it would not ask again.
                        secret.map_or(Ok(()), |secret| secrets.admit(secret.bytes))?;
                        (cluster, server, members)
                    }
                    Answer::Joined { cluster, server, members } => (cluster, server, members),
                    _ => unreachable!("it is one of the two"),
                };
                tracing::info!("joined cluster {cluster:016x} as server {server}");
                let joined = Joined { cluster, server, members };
                joining.joined = Some(joined.clone());
                folder.set_joining(&joining)?;
                return Ok(joined);
            }
            Ok(other) => unreachable!("a request to join is not answered by {other:?}"),
            // The server that it replaces may be needed until another one of its shard is there again.
            Err(Error::Request(error) | Error::Unreachable { error, .. })
                if (error.is_transient() || matches!(error, RequestError::Needed(_))) && Instant::now() < give_up =>
            {
                // It may have been carried out: the next start has to ask as the same server.
                folder.keep();
                if signals.read_signal().is_ok_and(|signal| signal.is_some()) {
                    return Err(Error::Join {
                        addresses,
                        reason: "it was told to end before somebody had answered".to_owned(),
                    });
                }
                tracing::warn!("asks {addresses} to join: {error}");
            }
            Err(Error::Request(error) | Error::Unreachable { error, .. }) => {
                return Err(Error::Join { addresses, reason: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
}

/// If somebody answers where `--join` points, it has to be of the folder's cluster. Nobody has to: the whole cluster may
/// be starting.
fn check_cluster(
    options: &ControllerOptions,
    tls: Option<&Tls>,
    folder: &DataFolder,
    cluster: u64,
) -> Result<(), Error> {
    if options.join.is_empty() {
        return Ok(());
    }
    let config = ClientConfig { single_attempt: true, ..ClientConfig::default() };
    let client = Client::with_config(&options.join, tls, config)?;
    match client.request(RequestBody::Admin(Admin::Status), CHECK_PATIENCE) {
        Ok(Answer::Status(status)) if status.cluster != cluster => Err(Error::OtherCluster {
            path: folder.path().to_owned(),
            expected: status.cluster,
            found: cluster,
            addresses: options.join.join(", "),
        }),
        _ => Ok(()),
    }
}
