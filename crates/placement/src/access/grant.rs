//! What a role may do, and what a request needs.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tree::{Datastore, Location, Path};

use crate::Refusal;

/// Longest name of an RPC in a grant, in bytes.
const RPC_LEN_MAX: usize = 256;

/// One kind of thing that can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// Read values, lists, and have conditions on them.
    Read,
    /// Create and change values.
    Write,
    /// Take values away.
    Delete,
    /// Be told of changes; needs [`Operation::Read`] as well, since values are told.
    Watch,
    /// Call an RPC.
    Call,
    /// Offer an RPC.
    Offer,
    /// See the cluster's servers, shards and state.
    Status,
    /// Add, replace and remove servers.
    Members,
    /// Make, move and delete shards.
    Shards,
    /// Choose who leads shards.
    Leaders,
    /// Read all content of shards, as backups do.
    Backup,
    /// Change roles and users: whoever may do that can come to everything else.
    Users,
}

impl Operation {
    /// All, in their order.
    pub const ALL: [Self; 12] = [
        Self::Read,
        Self::Write,
        Self::Delete,
        Self::Watch,
        Self::Call,
        Self::Offer,
        Self::Status,
        Self::Members,
        Self::Shards,
        Self::Leaders,
        Self::Backup,
        Self::Users,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Watch => "watch",
            Self::Call => "call",
            Self::Offer => "offer",
            Self::Status => "status",
            Self::Members => "members",
            Self::Shards => "shards",
            Self::Leaders => "leaders",
            Self::Backup => "backup",
            Self::Users => "users",
        }
    }

    /// Whether it is about data.
    pub const fn is_of_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Delete | Self::Watch)
    }

    /// Whether it is about RPCs.
    pub const fn is_of_rpcs(self) -> bool {
        matches!(self, Self::Call | Self::Offer)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|operation| operation.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no operation: expected some of {names}")
        })
    }
}

/// What a grant is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// A path and what is below it.
    Data {
        /// The datastore; none means both.
        datastore: Option<Datastore>,
        /// The path that the grant begins at.
        path: Path,
    },
    /// Remote procedures.
    Rpc {
        /// One RPC (`people:add-person`), all of a module (`people:`), or all (empty).
        name: String,
        /// Only those that are routed to this path or below it; none: all, routed or not.
        path: Option<Path>,
    },
    /// The cluster itself.
    Cluster,
}

impl Scope {
    /// Whether all that is needed lies within. A subtree does if its root does; many grants never make up for one that covers it,
    /// since there is always room for one more path between them.
    pub(crate) fn covers(&self, need: &Need<'_>) -> bool {
        match (self, need) {
            (Self::Data { datastore, path }, Need::Data { at, .. }) => {
                datastore.is_none_or(|datastore| datastore == at.datastore) && path.contains(&at.path)
            }
            (Self::Rpc { name, path }, Need::Rpc { name: wanted, path: routed, .. }) => {
                let is_named = if name.is_empty() || name.ends_with(':') {
                    wanted.starts_with(name.as_str())
                } else {
                    name == wanted
                };
                let is_routed = path.as_ref().is_none_or(|path| routed.is_some_and(|routed| path.contains(routed)));
                is_named && is_routed
            }
            (Self::Cluster, Need::Cluster(_)) => true,
            (Self::Data { .. } | Self::Rpc { .. } | Self::Cluster, _) => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { datastore: None, path } => write!(f, "{path}"),
            Self::Data { datastore: Some(datastore), path } => write!(f, "{path} of {datastore}"),
            Self::Rpc { name, path } => {
                write!(f, "rpc {}", if name.is_empty() { "*" } else { name })?;
                path.as_ref().map_or(Ok(()), |path| write!(f, " at {path}"))
            }
            Self::Cluster => f.write_str("the cluster"),
        }
    }
}

/// What a role may do on one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What it is for.
    pub scope: Scope,
    /// The operations that it allows.
    pub operations: BTreeSet<Operation>,
}

impl Grant {
    /// Whether operations and scope fit each other.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.operations.is_empty() {
            return Err(Refusal::access("a grant without an operation", "name one, such as read"));
        }
        let fits = |operation: &Operation| match &self.scope {
            Scope::Data { .. } => operation.is_of_data(),
            Scope::Rpc { .. } => operation.is_of_rpcs(),
            Scope::Cluster => !operation.is_of_data() && !operation.is_of_rpcs(),
        };
        if let Some(operation) = self.operations.iter().find(|operation| !fits(operation)) {
            return Err(Refusal::access(
                &format!("{operation} is nothing that can be done to {}", self.scope),
                "read, write, delete and watch need a path; call and offer the name of an RPC; the others nothing",
            ));
        }
        match &self.scope {
            Scope::Rpc { name, .. } if name.len() > RPC_LEN_MAX || name.chars().any(char::is_control) => {
                Err(Refusal::access(
                    "that is no name of an RPC",
                    "it looks like people:add-person, or people: for all of a module",
                ))
            }
            Scope::Rpc { .. } | Scope::Data { .. } | Scope::Cluster => Ok(()),
        }
    }
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// Something of data; for a subtree, all of it.
    Data {
        /// The operation that is asked for.
        operation: Operation,
        /// The location that is accessed.
        at: &'a Location,
    },
    /// Something of an RPC.
    Rpc {
        /// The operation that is asked for.
        operation: Operation,
        /// The name that is asked for.
        name: &'a str,
        /// The path that routes it.
        path: Option<&'a Path>,
    },
    /// Something of the cluster.
    Cluster(Operation),
}

impl Need<'_> {
    /// What is to be done.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Data { operation, .. } | Self::Rpc { operation, .. } | Self::Cluster(operation) => *operation,
        }
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { operation, at } => write!(f, "{operation} {at}"),
            Self::Rpc { operation, name, path } => {
                write!(f, "{operation} {}", name.escape_debug())?;
                path.map_or(Ok(()), |path| write!(f, " at {path}"))
            }
            Self::Cluster(operation) => write!(f, "use the operation `{operation}` of the cluster"),
        }
    }
}
