//! Which shard owns a path: an index over the shards' prefixes.

use std::collections::BTreeMap;

use tree::Path;

use crate::{Prefix, Shard, ShardId};

/// The longest prefix of a path, by binary search.
///
/// Paths sort so that a subtree is one range, so the prefixes of a path are found from the last one that does not sort
/// behind it: it is the longest itself, or it lies beside the path within the longest, to which its `around` links lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Routes {
    modules: BTreeMap<String, ShardId>,
    paths: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    prefix: Path,
    owner: ShardId,
    /// Where the innermost entry stands that contains this one.
    around: Option<usize>,
}

impl Routes {
    /// The index of these shards.
    pub(crate) fn new<'a>(shards: impl Iterator<Item = &'a Shard>) -> Self {
        let mut routes = Self::default();
        for shard in shards {
            for prefix in &shard.prefixes {
                match prefix {
                    Prefix::Everything => {}
                    Prefix::Module(module) => drop(routes.modules.insert(module.clone(), shard.id)),
                    Prefix::Path(path) => {
                        routes.paths.push(Entry { prefix: path.clone(), owner: shard.id, around: None });
                    }
                }
            }
        }
        routes.paths.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        let mut open: Vec<usize> = Vec::new();
        for at in 0..routes.paths.len() {
            while open.last().is_some_and(|&outer| !routes.paths[outer].prefix.contains(&routes.paths[at].prefix)) {
                open.pop();
            }
            routes.paths[at].around = open.last().copied();
            open.push(at);
        }
        routes
    }

    /// The owner of a path.
    pub(crate) fn of(&self, path: &Path) -> ShardId {
        self.within(path, self.paths.partition_point(|entry| entry.prefix <= *path)).unwrap_or_else(|| {
            let module = path.module().and_then(|module| self.modules.get(module));
            module.copied().unwrap_or(ShardId::DEFAULT)
        })
    }

    /// The owner by the longest path prefix among the first `end` entries.
    fn within(&self, path: &Path, end: usize) -> Option<ShardId> {
        let mut next = end.checked_sub(1);
        while let Some(entry) = next.map(|at| &self.paths[at]) {
            if entry.prefix.contains(path) {
                return Some(entry.owner);
            }
            next = entry.around;
        }
        None
    }

    /// The owner of the module's top-level nodes.
    pub(crate) fn of_module(&self, module: &str) -> ShardId {
        self.modules.get(module).copied().unwrap_or(ShardId::DEFAULT)
    }

    /// The owner of a prefix's own part: what no longer prefix within it claims.
    pub(crate) fn of_prefix(&self, prefix: &Prefix) -> ShardId {
        match prefix {
            Prefix::Everything => ShardId::DEFAULT,
            Prefix::Module(module) => self.of_module(module),
            Prefix::Path(path) => self.of(path),
        }
    }

    /// Owners of prefixes around `prefix`, without itself: innermost first, `default` last.
    pub(crate) fn around(&self, prefix: &Prefix) -> Vec<ShardId> {
        let mut owners = Vec::new();
        if let Prefix::Path(path) = prefix {
            let mut next = self.paths.partition_point(|entry| entry.prefix < *path).checked_sub(1);
            while let Some(entry) = next.map(|at| &self.paths[at]) {
                if entry.prefix.contains(path) {
                    owners.push(entry.owner);
                }
                next = entry.around;
            }
            owners.extend(path.module().and_then(|module| self.modules.get(module)));
        }
        owners.push(ShardId::DEFAULT);
        owners
    }

    /// The outermost paths strictly within `prefix` that have owners of their own.
    pub(crate) fn inside(&self, prefix: &Prefix) -> Vec<Path> {
        let mut found: Vec<Path> = Vec::new();
        for entry in &self.paths {
            let itself = matches!(prefix, Prefix::Path(path) if *path == entry.prefix);
            let covered = found.last().is_some_and(|outer| outer.contains(&entry.prefix));
            if prefix.contains(&entry.prefix) && !itself && !covered {
                found.push(entry.prefix.clone());
            }
        }
        found
    }

    /// Owners of anything at or below `path`, each once, sorted.
    pub(crate) fn under(&self, path: &Path) -> Vec<ShardId> {
        let mut owners = vec![self.of(path)];
        if path.is_root() {
            owners.extend(self.modules.values());
            owners.extend(self.paths.iter().map(|entry| entry.owner));
        } else {
            let start = self.paths.partition_point(|entry| entry.prefix < *path);
            let below = self.paths[start..].iter().take_while(|entry| path.contains(&entry.prefix));
            owners.extend(below.map(|entry| entry.owner));
        }
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}
