//! What can go wrong with a controller's process, its folder, its certificates, or a client of it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A failure of a controller or of a client of the cluster. [`Error::hint`] says what fixes it, where that is known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder.
    #[error("{}: cannot {step}: {source}", path.display())]
    Path {
        /// The path that the step was for.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses the data folder.
    #[error("{}: another controller (process {holder}) uses this folder", path.display())]
    Locked {
        /// The data folder.
        path: PathBuf,
        /// What the lock file says: a process number.
        holder: String,
    },
    /// The log cannot be used. It says itself what to do.
    #[error("{}: {reason}", path.display())]
    Log {
        /// The data folder.
        path: PathBuf,
        /// Why it was not possible.
        reason: String,
    },
    /// The server has run with this folder, and its log is not there any more.
    #[error(
        "{}: {missing} missing: server {server} of cluster {cluster:016x} has run with this folder, and would start with its \
         votes and its data forgotten; nothing was changed",
        path.display()
    )]
    LogLost {
        /// The data folder.
        path: PathBuf,
        /// The server's cluster.
        cluster: u64,
        /// The number of the server.
        server: machine::ServerId,
        /// What is missing, with its verb.
        missing: &'static str,
    },
    /// The folder's parts are of different servers.
    #[error(
        "{}: `identity` is that of server {found} of cluster {of:016x}, and `STARTED` that of server {server} of cluster \
         {cluster:016x}; nothing was changed",
        path.display()
    )]
    Mixed {
        /// The data folder.
        path: PathBuf,
        /// The cluster of which the folder was.
        cluster: u64,
        /// The server whose it was.
        server: machine::ServerId,
        /// The server that the identity names.
        found: machine::ServerId,
        /// The cluster that it is of.
        of: u64,
    },
    /// The folder belongs to a server of another name.
    #[error("{}: this folder belongs to node `{found}`, not to `{expected}`", path.display())]
    OtherNode {
        /// The data folder.
        path: PathBuf,
        /// The server that the folder belongs to.
        found: String,
        /// Who was to start.
        expected: String,
    },
    /// The folder belongs to a server of another cluster.
    #[error(
        "{}: this folder belongs to cluster {found:016x}, and {addresses} to cluster {expected:016x}; nothing was changed",
        path.display()
    )]
    OtherCluster {
        /// The data folder.
        path: PathBuf,
        /// The cluster that was to be joined.
        expected: u64,
        /// The cluster that the folder belongs to.
        found: u64,
        /// The addresses of the servers that answered.
        addresses: String,
    },
    /// Neither `host:port` nor anything else that can be used as such.
    #[error("`{0}` is no address: expected HOST:PORT, as in 127.0.0.1:6640")]
    Address(String),
    /// A name that resolves to nothing.
    #[error("cannot resolve `{address}`: {source}")]
    Resolve {
        /// The `host:port` that was given.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address is not loopback, and there are no certificates.
    #[error("without certificates a controller listens on loopback only, and {address} is not loopback")]
    NotLoopback {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// Listening everywhere says nothing about how others get here.
    #[error("{address} is no address that others could use")]
    Unspecified {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The port is taken, or this user may not have it.
    #[error("cannot listen at {address} ({option}): {source}")]
    Listen {
        /// The address to listen at.
        address: SocketAddr,
        /// What says so on the command line.
        option: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the cluster's secret.
    #[error("{}: mode {mode:o} lets other users read the cluster's secret, expected 600", path.display())]
    SecretOpen {
        /// The file that cannot be used.
        path: PathBuf,
        /// The mode that it has.
        mode: u32,
    },
    /// The folder does not hold the secret by which the cluster's servers know each other.
    #[error(
        "{}: the secret of cluster {cluster:016x} is not in this file: the other servers would not let server {server} in",
        path.display()
    )]
    SecretLost {
        /// The file that the secret should be in.
        path: PathBuf,
        /// The number of the cluster.
        cluster: u64,
        /// The folder's server.
        server: machine::ServerId,
    },
    /// A name that cannot be a node's.
    #[error("`{0}` cannot name a node: expected 1 to 64 letters, digits, `-`, `_`, `.`, and a letter or `_` first")]
    Name(String),
    /// A certificate or key that cannot be used.
    #[error("{}: not usable as {what}: {reason}", path.display())]
    Certificate {
        /// The file that cannot be used.
        path: PathBuf,
        /// What it is to be, with its option.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A token that cannot be used.
    #[error("the token in {origin} cannot be used: {reason}")]
    Token {
        /// The file, or the variable of the environment.
        origin: String,
        /// Why it was not possible.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate for `{host}`: {reason}")]
    Making {
        /// The host that it was to be made for.
        host: String,
        /// Why it was not possible.
        reason: String,
    },
    /// The cluster did not take this server in.
    #[error("cannot join the cluster at {addresses}: {reason}")]
    Join {
        /// The addresses that it asked.
        addresses: String,
        /// The last answer.
        reason: String,
    },
    /// The folder is that of a server that has asked to join, and nobody says whom.
    #[error("{} is the folder of a server that has begun to join a cluster, and --join is missing", folder.display())]
    JoinMissing {
        /// The data folder.
        folder: PathBuf,
    },
    /// All addresses to join are the server's own.
    #[error("{addresses} after --join is where this controller listens itself: it cannot let itself in")]
    JoinsItself {
        /// The addresses after --join.
        addresses: String,
    },
    /// It ran, and had to stop. The text says what to do.
    #[error("{0}")]
    Stopped(String),
    /// Too few for the disk, the peers and a few clients.
    #[error("this process may open {limit} files, and a controller needs {needed} at least")]
    FewFiles {
        /// What it may.
        limit: u64,
        /// What it needs.
        needed: u64,
    },
    /// A system call that should not fail did.
    #[error("cannot {step}: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A request came to nothing.
    #[error("{0}")]
    Request(#[from] store::protocol::Error),
    /// A request came to nothing, since a server could not be reached.
    #[error("{error}")]
    Unreachable {
        /// The server's address.
        address: String,
        /// What came of the request.
        error: store::protocol::Error,
    },
    /// The client's thread has ended.
    #[error("the client was closed")]
    Closed,
}

impl Error {
    /// What came of a request, if that is what this is about.
    pub const fn request(&self) -> Option<&store::protocol::Error> {
        match self {
            Self::Request(error) | Self::Unreachable { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The step of [`Error::Path`] that failed with one of the controller's own files that is not as it was written.
pub(super) const UNDERSTAND: &str = "understand it";

impl Error {
    /// What fixes it, where that is known: one or two sentences for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Locked { .. } => "give this one another folder with --data, or stop the other",
            Self::OtherNode { found, .. } => {
                return Some(format!("start it with --node {found}, or give this node another folder with --data"));
            }
            Self::OtherCluster { .. } => {
                "leave --join away to go on in the folder's cluster, or give --data another folder to join the other one"
            }
            Self::Address(address) if address.is_empty() => {
                "an address is empty: is a variable of a script not set, or a comma too much?"
            }
            Self::Unspecified { .. } => "say how others reach this server with --advertise HOST:PORT",
            Self::NotLoopback { .. } => {
                "make certificates with `heddle controller certificates --out DIR HOST...`, and give each controller \
                 its --tls-cert, --tls-key and --tls-ca"
            }
            Self::FewFiles { .. } => {
                "raise the limit: `ulimit -Hn` shows it, LimitNOFILE sets it for a service of systemd"
            }
            Self::Listen { source, option, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                return Some(format!("another process has this port: choose another with {option} HOST:PORT"));
            }
            Self::Listen { source, option, .. } if source.kind() == io::ErrorKind::AddrNotAvailable => {
                return Some(format!(
                    "this machine has no such address: {option} takes one of its own, --advertise what others use"
                ));
            }
            Self::Listen { source, option, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                return Some(format!("ports below 1024 are root's: choose a higher one with {option} HOST:PORT"));
            }
            Self::Certificate { .. } => {
                "--tls-cert, --tls-key and --tls-ca name PEM files that belong together, and that this user may read; `heddle controller \
                 certificates --out DIR HOST...` makes DIR/HOST.pem and DIR/HOST.key for each controller, DIR/client.pem and DIR/client.key \
                 for clients, and DIR/ca.pem for all"
            }
            Self::LogLost { .. } => {
                "put the missing files back. If they are lost: where the cluster has other servers, replace this one (`heddle cluster \
                 replace NAME` says how) and start the new one with an empty folder; if it was alone, start a new cluster with an \
                 empty folder and fill it with `heddle cluster restore FILE`"
            }
            Self::SecretOpen { path, .. } => {
                return Some(format!(
                    "chmod 600 {}; if somebody may have read it, found a new cluster",
                    path.display()
                ));
            }
            Self::SecretLost { .. } => {
                "copy the file SECRET from the data folder of another server of the cluster, owner and mode 600 included"
            }
            Self::Mixed { .. } => "put the files of one server back; each server needs a folder of its own",
            Self::JoinsItself { .. } => {
                "say after --join where another server of the cluster listens; without --join the first start founds a cluster"
            }
            Self::JoinMissing { .. } => {
                "give the same --join again; or delete the folder, to found a cluster or to join another"
            }
            Self::Join { .. } => {
                "check the addresses after --join, that a majority of the cluster runs, and that --node is a new name"
            }
            Self::Path { step: UNDERSTAND, .. } => {
                "put this file back as it was. A server that has run does not need it: without it, it starts if its log is whole, and \
                 says what is missing if it is not"
            }
            Self::Path { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "choose a folder of your own with --data, or correct its owner and mode"
            }
            Self::Path { source, .. } if source.kind() == io::ErrorKind::StorageFull => "make room on the disk",
            Self::Path { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                "a part of this path is a file: name a folder, or one that can be made"
            }
            Self::Path { source, step: "make this folder", .. } if source.kind() == io::ErrorKind::NotFound => {
                "no folder can be made there: choose a place on a disk, such as one in your home folder"
            }
            Self::Path { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "this disk cannot be written to: choose a folder on another, or mount it for writing"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// A failed operation on `path`.
    pub(super) fn path(path: impl Into<PathBuf>, step: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Path { path, step, source }
    }

    /// A failed system call.
    pub(super) fn system(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { step, source }
    }
}
