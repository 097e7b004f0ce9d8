//! The choice of a provider, and the hint when there is none.
//!
//! The longest offered path that contains the call's path wins (*routed RPC*: the path of the data chooses the server); an offer for all data counts
//! as the shortest. Among equal paths a local provider wins, then the live server with the fewest calls under way from here; ties are
//! broken by a hash that differs from call to call, so that equal providers share the load.

use std::collections::{BTreeMap, BTreeSet};

use machine::{ServerId, Time, mix};
use tree::Path;

use crate::config::{ABSENT_MAX, CALLS_PER_SERVER_MAX, HINTS_MAX};
use crate::error::{Bound, Error};
use crate::executions::Executions;
use crate::providers::Providers;
use crate::{Offer, ProviderId, Registry};

/// Where a call can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// To a client of this server.
    Local(ProviderId),
    /// To another server.
    Server(ServerId),
}

/// What a choice goes by, besides the load.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Who offers what.
    pub registry: &'a Registry,
    /// The local ones in detail.
    pub providers: &'a Providers,
    /// The other servers that can be reached.
    pub live: &'a BTreeSet<ServerId>,
}

/// Offers that other servers no longer have, though their buckets here still hold them; each until a time.
#[derive(Clone, Debug, Default)]
pub struct Absent {
    by_server: BTreeMap<ServerId, BTreeMap<Offer, Time>>,
}

impl Absent {
    /// Remembers until `until` that a server does not have an offer. If there is no room for it, the call was one detour too many, no more.
    pub fn note(&mut self, now: Time, server: ServerId, offer: Offer, until: Time) {
        self.by_server.retain(|_, offers| {
            offers.retain(|_, until| *until > now);
            !offers.is_empty()
        });
        if self.by_server.values().map(BTreeMap::len).sum::<usize>() < ABSENT_MAX {
            self.by_server.entry(server).or_default().insert(offer, until);
        }
    }

    /// The server's bucket has changed, so it says itself what it has.
    pub fn forget(&mut self, server: ServerId) {
        self.by_server.remove(&server);
    }

    fn has(&self, now: Time, server: ServerId, offer: &Offer) -> bool {
        self.by_server.get(&server).and_then(|offers| offers.get(offer)).is_some_and(|&until| until > now)
    }
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The procedure.
    pub name: &'a str,
    /// The data.
    pub path: Option<&'a Path>,
    /// Who was asked already.
    pub tried: &'a BTreeSet<Target>,
    /// Differs from call to call.
    pub salt: u64,
}

/// How much each possible provider has to do.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Attempts under way, by server.
    pub under_way: &'a BTreeMap<ServerId, usize>,
    /// What local providers execute.
    pub executions: &'a Executions,
    /// What turned out not to be there.
    pub absent: &'a Absent,
}

/// The best provider, with the offer by which it was chosen.
///
/// # Errors
/// [`Error::NoProvider`], [`Error::Unreachable`], [`Error::Busy`]: of several reasons the one that is most likely to pass.
pub fn choose(now: Time, known: Known<'_>, load: Load<'_>, wanted: Wanted<'_>) -> Result<(Target, Offer), Error> {
    let mut busy = None;
    let mut unreachable = None;
    for offer in levels(wanted.name, wanted.path) {
        if let Some(provider) = local(known.providers, load.executions, &offer, wanted) {
            if load.executions.has_room() {
                return Ok((Target::Local(provider), offer));
            }
            busy = Some(Bound::Executions);
        }
        let mut best = None;
        for (&server, bucket) in known.registry.buckets() {
            let is_tried = wanted.tried.contains(&Target::Server(server));
            if server == known.registry.own() || is_tried || !bucket.offers.contains(&offer) {
                continue;
            }
            let under_way = load.under_way.get(&server).copied().unwrap_or(0);
            if load.absent.has(now, server, &offer) {
            } else if !known.live.contains(&server) {
                unreachable.get_or_insert(server);
            } else if under_way >= CALLS_PER_SERVER_MAX {
                busy = Some(Bound::CallsToServer);
            } else {
                let rank = (under_way, mix(wanted.salt ^ mix(server.0)), server);
                best = Some(best.map_or(rank, |best| rank.min(best)));
            }
        }
        if let Some((.., server)) = best {
            return Ok((Target::Server(server), offer));
        }
    }
    Err(match (busy, unreachable) {
        (Some(what), _) => Error::busy(what),
        (None, Some(server)) => Error::Unreachable { name: wanted.name.to_owned(), server },
        (None, None) => no_provider(known.registry, wanted),
    })
}

/// The local provider with the least to do for the longest path, for a call of another server.
pub fn choose_local(providers: &Providers, executions: &Executions, wanted: Wanted<'_>) -> Option<ProviderId> {
    levels(wanted.name, wanted.path).find_map(|offer| local(providers, executions, &offer, wanted))
}

fn local(providers: &Providers, executions: &Executions, offer: &Offer, wanted: Wanted<'_>) -> Option<ProviderId> {
    providers
        .of(offer)
        .filter(|&provider| !wanted.tried.contains(&Target::Local(provider)))
        .min_by_key(|&provider| (executions.of(provider), mix(wanted.salt ^ mix(provider.0)), provider))
}

/// All offers that would take a call, the longest path first, the one for all data last.
fn levels(name: &str, path: Option<&Path>) -> impl Iterator<Item = Offer> {
    let mut next = Some(path.cloned());
    let name = name.to_owned();
    core::iter::from_fn(move || {
        let path = next.take()?;
        next = path.as_ref().map(Path::parent);
        Some(Offer { name: name.clone(), path })
    })
}

fn no_provider(registry: &Registry, wanted: Wanted<'_>) -> Error {
    let mut near = BTreeSet::new();
    for bucket in registry.buckets().values() {
        near.extend(bucket.named(wanted.name).take(HINTS_MAX).map(ToString::to_string));
    }
    if near.is_empty() {
        near = near_names(registry, wanted.name);
    }
    let path = wanted.path.map(|path| path.as_str().to_owned());
    Error::NoProvider { name: wanted.name.to_owned(), path, near: near.into_iter().take(HINTS_MAX).collect() }
}

/// Offered names that differ in at most a third of their characters, the nearest ones; or, if the module has others, some of these.
fn near_names(registry: &Registry, name: &str) -> BTreeSet<String> {
    let names: BTreeSet<&str> = registry.buckets().values().flat_map(|b| &b.offers).map(|o| o.name.as_str()).collect();
    let worst = name.len() / 3 + 1;
    let mut ranked: Vec<_> = names
        .iter()
        .filter(|other| other.len().abs_diff(name.len()) <= worst)
        .map(|other| (edits(name, other), *other))
        .filter(|&(edits, _)| edits <= worst)
        .collect();
    ranked.sort_unstable();
    if ranked.is_empty() {
        let module = name.split(':').next();
        ranked = names.iter().filter(|other| other.split(':').next() == module).map(|other| (0, *other)).collect();
    }
    ranked.into_iter().take(HINTS_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// How many bytes must be inserted, removed or replaced to get from `a` to `b` (Levenshtein, 1965).
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_levenshtein_does() {
        for (a, b, count) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("same", "same", 0)]
        {
            assert_eq!((edits(a, b), edits(b, a)), (count, count), "{a} {b}");
        }
    }

    #[test]
    fn levels_go_from_the_path_up_to_all_data() {
        let path = Path::parse("/people:people/person=7").expect("a path");
        let shown: Vec<_> = levels("p:add", Some(&path)).map(|offer| offer.to_string()).collect();
        assert_eq!(shown, ["p:add for /people:people/person=7", "p:add for /people:people", "p:add for /", "p:add"]);
        assert_eq!(levels("p:add", None).count(), 1);
    }

    #[test]
    fn what_is_absent_comes_back_with_the_time_or_the_bucket() {
        let (server, offer) = (ServerId(2), Offer { name: "p:add".to_owned(), path: None });
        let (now, until) = (Time::from_ns(1), Time::from_ns(5));
        let mut absent = Absent::default();
        absent.note(now, server, offer.clone(), until);
        assert!(absent.has(now, server, &offer) && !absent.has(until, server, &offer));
        absent.forget(server);
        assert!(!absent.has(now, server, &offer));
        for n in 0..=ABSENT_MAX {
            absent.note(now, server, Offer { name: n.to_string(), path: None }, until);
        }
        assert_eq!(absent.by_server[&server].len(), ABSENT_MAX);
        absent.note(until, server, offer, Time::from_ns(9));
        assert_eq!(absent.by_server[&server].len(), 1);
    }
}
