//! Hosts that are made, as a new file changes them.

use std::collections::{BTreeMap, BTreeSet};

use super::Network;
use crate::Error;
use crate::host::{Host, HostSpec};
use crate::neighbours::Moved;

impl Network {
    /// Changes hosts that stay, all or none. Returns what they were.
    pub(super) fn change_hosts(&mut self, changes: Vec<(usize, HostSpec)>) -> Result<Vec<(usize, HostSpec)>, Error> {
        let mut undo = Vec::new();
        for (at, spec) in changes {
            let was = self.hosts[at].spec().clone();
            if was == spec {
                continue;
            }
            undo.push((at, was));
            if let Err(error) = self.hosts[at].change(spec) {
                self.restore(undo);
                return Err(error);
            }
        }
        Ok(undo)
    }

    pub(super) fn restore(&mut self, undo: Vec<(usize, HostSpec)>) {
        for (at, was) in undo {
            if let Err(error) = self.hosts[at].change(was) {
                tracing::error!("a host could not be changed back: {error}");
            }
        }
        for host in &mut self.hosts {
            if let Err(error) = host.complete() {
                tracing::error!("a host could not be changed back: {error}");
            }
        }
    }

    /// Hosts forget neighbours whose addresses are others now, and ask for them again. A kernel would hold on to them for half a minute and longer, and reach nobody.
    pub(super) fn forget_moved(&self, moved: &Moved) {
        if moved.is_empty() {
            return;
        }
        // Those within a namespace of another host are asked with that one.
        let asked = self.hosts.iter().filter(|host| host.spec().within.is_none() && !host.spec().is_function);
        for host in asked {
            if let Err(error) = host.forget(moved) {
                tracing::warn!("{error}: it may hold on to MAC addresses that are no more");
            }
        }
    }

    /// The hosts that stay, by their names: what was another kind of host is made anew, and so is what is in its namespace.
    pub(super) fn known_hosts(&self, specs: &[HostSpec]) -> BTreeMap<String, usize> {
        let wanted: BTreeMap<&str, &HostSpec> = specs.iter().map(|spec| (spec.name.as_str(), spec)).collect();
        let is_kept = |spec: &HostSpec| wanted.get(spec.name.as_str()).is_some_and(|new| spec.is_place_of(new));
        let kept: BTreeMap<&str, usize> = self
            .hosts
            .iter()
            .map(Host::spec)
            .enumerate()
            .filter(|(_, spec)| is_kept(spec))
            .map(|(at, spec)| (spec.name.as_str(), at))
            .collect();
        let has_owner = |at: usize| {
            let within = self.hosts[at].spec().within.as_deref();
            within.is_none_or(|owner| kept.contains_key(owner))
        };
        kept.iter().filter(|(_, at)| has_owner(**at)).map(|(name, at)| ((*name).to_owned(), *at)).collect()
    }

    /// Gives hosts, those that are new and those that stay, what they can have once all of their interfaces are there.
    pub(super) fn complete_hosts(&mut self, made: &mut [Host], specs: &[HostSpec]) -> Result<(), Error> {
        let stay: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let kept = self.hosts.iter_mut().filter(|host| stay.contains(host.spec().name.as_str()));
        made.iter_mut().chain(kept).try_for_each(Host::complete)
    }
}
