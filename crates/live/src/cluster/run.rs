//! A controller's life: from its data folder to its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use machine::{Rng, ServerId};
use mio::Poll;
use mio::net::TcpListener;
use nix::sys::signal::{SigHandler, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use placement::{ElectionTimeoutConfig, Strategy};
use store::client::ClientConfig;
use store::protocol::{Admin, Answer, RequestBody};
use store::{Founding, Server};
use wal::{FORMAT, Identity, Log, Recovered};

use super::caller::resolve;
use super::client::Client;
use super::clock::{BootClock, random_bits};
use super::disk::Disk;
use super::folder::{DataFolder, Joined, Joining};
use super::node::{Node, Parts};
use super::{Error, Tls, TlsFiles, http};

/// Where a controller listens unless told otherwise.
pub const DEFAULT_PORT: u16 = 6640;

/// A server that asks to join is patient for so long: the cluster may be electing, or starting itself.
const JOIN_PATIENCE: Duration = Duration::from_secs(60);

/// One request to join takes so long at most.
const JOIN_ATTEMPT: Duration = Duration::from_secs(5);

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
    /// Where it listens for HTTP, if at all.
    pub http: Option<String>,
    /// The bounds of the election timeout.
    pub election: ElectionTimeoutConfig,
    /// How modules are spread over shards in a cluster that this server founds; later `heddle cluster shards` changes it.
    pub strategy: Strategy,
    /// Whether leaders move to where requests come from.
    pub balance_leaders: bool,
    /// Certificates. Without them it listens on loopback only.
    pub tls: Option<TlsFiles>,
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
    /// Its own.
    pub server: ServerId,
    /// Whether it has been there before, with this folder.
    pub restarted: bool,
}

/// Runs a controller until it is told to end (SIGTERM, SIGINT) or has to. It is to be called before any thread is made: signals are
/// taken for the whole process.
///
/// `ready` is called once, when it listens.
///
/// # Errors
/// Whatever kept it from starting (nothing is lost or changed then), or [`Error::Stopped`].
pub fn run(options: &ControllerOptions, ready: impl FnOnce(&Ready)) -> Result<(), Error> {
    placement_name(&options.node)?;
    let signals = take_signals()?;
    let tls = options.tls.as_ref().map(Tls::load).transpose()?;
    let listen = single(&options.listen)?;
    if tls.is_none() && !listen.ip().is_loopback() {
        return Err(Error::NotLoopback { address: listen });
    }
    let folder = DataFolder::open(&options.data)?;
    let (log, recovered) = Log::recover(&folder, wal::Config::default())
        .map_err(|error| Error::Log { path: folder.path().to_owned(), reason: error.to_string() })?;
    if recovered.discarded_tail_bytes > 0 {
        tracing::info!("{} bytes of an unfinished write, of which nobody was told, left out", recovered.discarded_tail_bytes);
    }
    let listener = TcpListener::bind(listen).map_err(|source| Error::Listen { address: listen, source })?;
    let listen = listener.local_addr().map_err(|source| Error::Listen { address: listen, source })?;
    let advertise = advertised(options, listen)?;
    let restarted = recovered.identity.is_some();
    let begun = begin(options, tls.as_ref(), &folder, &advertise, log, recovered)?;

    let poll = Poll::new().map_err(Error::system("make an event loop"))?;
    let waker = Arc::new(Node::waker(&poll).map_err(Error::system("make an event loop"))?);
    let (asker, questions) = mpsc::channel();
    let http = match &options.http {
        Some(address) => {
            let address = single(address)?;
            let is_open = !address.ip().is_loopback();
            if is_open && tls.is_none() {
                return Err(Error::NotLoopback { address });
            }
            Some(http::start(address, tls.as_ref().filter(|_| is_open), asker, Arc::clone(&waker))?)
        }
        None => None,
    };
    let clock = BootClock::start();
    let mut rng = Rng::new(random_bits());
    let mut config = store::Config::new(begun.cluster, begun.server, options.node.as_str());
    config.election = options.election;
    config.balance_leaders = options.balance_leaders;
    // Of the wall clock, which is later at each start unless it was set back; the registry then finds out.
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    config.incarnation = since_1970.map_or(1, |span| span.as_nanos() as u64);
    let server = Server::open(config, begun.log, begun.recovered, &folder, begun.members, rng.fork(1), clock.now())
        .map_err(|error| Error::Log { path: folder.path().to_owned(), reason: error.to_string() })?;
    let moved = server.map().members().get(&begun.server).filter(|member| member.address != advertise).cloned();
    let disk = Disk::start(folder.path(), &waker)?;
    let (cluster, id) = (begun.cluster, begun.server);
    let name = options.node.clone();
    let parts = Parts { poll, waker, listener, signals, questions, disk, server, clock, tls, rng: rng.fork(2), cluster, name };
    let mut node = Node::new(parts)?;
    if let Some(member) = moved {
        tracing::info!("reached at {advertise} now, at {} before", member.address);
        let address = advertise.clone();
        let command = placement::Command::UpdateAddress { id, address, metrics: http.map(|it| it.to_string()) };
        node.ask(Admin::Placement(command));
    }
    ready(&Ready { listen, advertise, http, cluster, server: id, restarted });
    drop(rng.bits());
    node.run()
}
