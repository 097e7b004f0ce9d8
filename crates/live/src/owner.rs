//! Whose programs and files something is: a host's, or a function's.

use std::fmt;

use fabric::Fabric;

/// A host, or a function of service chains, one of whose instances it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The host's name.
    Host(String),
    /// The function's name, which that of an instance begins with.
    Function(String),
}

impl Owner {
    /// What has the programs of this name.
    pub(crate) fn of(fabric: &Fabric, name: &str) -> Self {
        let node = fabric.topology.node(name);
        let mut functions = fabric.chains.functions.iter();
        let function = node.and_then(|node| {
            functions.find(|function| function.instances().iter().any(|[ingress, _]| *ingress == node))
        });
        function.map_or_else(|| Self::Host(name.to_owned()), |function| Self::Function(function.name.clone()))
    }

    /// Whether it is a function.
    pub(crate) const fn is_function(&self) -> bool {
        matches!(self, Self::Function(_))
    }

    /// Where a key of it is in the file.
    pub(crate) fn key(&self, key: &str) -> Vec<String> {
        let (section, name) = match self {
            Self::Host(name) => ("nodes", name.as_str()),
            Self::Function(name) => ("functions", name.as_str()),
        };
        [section, name, key].map(str::to_owned).into()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(f, "host {name}"),
            Self::Function(name) => write!(f, "function {name}"),
        }
    }
}
