//! The choice of a provider, and what is offered instead when there is none.
//!
//! The longest offered path that contains the call's path wins (*routed RPC*: the path of the data chooses the server); an offer for all data counts
//! as the shortest. Among equal paths a local provider wins, then the live server with the fewest calls under way from here; ties are
//! broken by a hash that differs from call to call, so that equal providers share the load.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::Time;
use machine::{ServerId, mix};
use tree::Path;

use crate::config::{ABSENT_MAX, CALLS_PER_SERVER_MAX, HINT_BYTES_MAX, HINT_NAMES_MAX, HINTS_MAX};
use crate::error::{Bound, Error};
use crate::executions::Executions;
use crate::providers::Providers;
use crate::{Offer, ProviderId, Registry};

/// Where a call can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The call goes to a client of this server.
    Local(ProviderId),
    /// The call goes to another server.
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
    /// The name of the procedure.
    pub name: &'a str,
    /// The data that the call is about, if any.
    pub path: Option<&'a Path>,
    /// Providers that were asked already.
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
        (None, None) => Error::no_provider(wanted.name, wanted.path),
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

/// What is offered and looks like `name`: this name with the paths for which it is offered, or names that differ from it in few places, or
/// some of its module. What it costs does not grow with what is offered.
pub fn near(registry: &Registry, name: &str) -> Vec<String> {
    let buckets = || registry.buckets().values();
    let with_paths: BTreeSet<String> = buckets()
        .flat_map(|bucket| bucket.named(name).take(HINTS_MAX))
        .take(HINT_NAMES_MAX)
        .map(Offer::to_string)
        .collect();
    if !with_paths.is_empty() {
        return with_paths.into_iter().take(HINTS_MAX).collect();
    }
    if name.len() > HINT_BYTES_MAX {
        return Vec::new();
    }
    let worst = name.len() / 3 + 1;
    let names: BTreeSet<&str> = compared(registry, name).filter(|other| other.len() <= HINT_BYTES_MAX).collect();
    let mut ranked: Vec<_> = names.iter().map(|other| (differing(name, other), *other)).collect();
    ranked.retain(|&(differing, _)| differing <= worst);
    ranked.sort_unstable();
    if ranked.is_empty() {
        let module = module(name);
        ranked = names
            .iter()
            .filter(|other| module.is_some_and(|it| other.starts_with(it)))
            .map(|other| (0, *other))
            .collect();
    }
    ranked.into_iter().take(HINTS_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// The names that `name` is compared with: those of its module before others.
fn compared<'a>(registry: &'a Registry, name: &'a str) -> impl Iterator<Item = &'a str> {
    let of = |prefix| registry.buckets().values().flat_map(move |bucket| bucket.names(prefix));
    module(name).into_iter().chain([""]).flat_map(of).take(HINT_NAMES_MAX)
}

/// The module of a name, with its colon.
fn module(name: &str) -> Option<&str> {
    name.find(':').map(|colon| &name[..=colon])
}

/// How many bytes of the longer one are left between what both begin with and what both end with: looks at each byte twice at most, where a
/// true distance would compare each with each.
fn differing(a: &str, b: &str) -> usize {
    let shorter = a.len().min(b.len());
    let begin = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let end = a.bytes().rev().zip(b.bytes().rev()).take(shorter - begin).take_while(|(x, y)| x == y).count();
    a.len().max(b.len()) - begin - end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_in_what_lies_between_their_common_ends() {
        for (a, b, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("persn", "person", 1),
            ("person", "presom", 5),
            ("aa", "aaa", 1),
            ("same", "same", 0),
        ] {
            assert_eq!((differing(a, b), differing(b, a)), (count, count), "{a} {b}");
        }
    }

    fn offers(names: impl IntoIterator<Item = String>) -> Registry {
        let mut registry = Registry::new(ServerId(1), 1);
        registry.change_own(&[], names.into_iter().map(|name| Offer { name, path: None }).collect());
        registry
    }

    /// However many are offered, and however long their names are.
    #[test]
    fn a_hint_costs_a_bounded_number_of_comparisons() {
        let long = "abcdefghijklmnopqrstuvwxyz".repeat(9);
        let registry = offers((0..2_040).map(|n| format!("mal:{n:05}{long}")));
        let name = format!("mal:00000{}", "z".repeat(long.len()));
        assert_eq!(compared(&registry, &name).count(), HINT_NAMES_MAX);
        assert_eq!(near(&registry, &name), Vec::<String>::new(), "a long name is compared with none");
        assert_eq!(near(&registry, "mal:00000"), Vec::<String>::new(), "and so are long names");
        // The call's own module comes first.
        let registry = offers((0..4_000).map(|n| format!("a:{n}")).chain(["people:add-person".to_owned()]));
        assert_eq!(near(&registry, "people:add-persn"), ["people:add-person"]);
    }

    /// One name with many paths is one name.
    #[test]
    fn each_name_is_compared_once() {
        let mut registry = offers(["car:wash".to_owned(), "car:paint".to_owned()]);
        let path = |n: u64| Path::parse(&format!("/car:cars/car-entry={n}")).expect("a path");
        let wash = |n| Offer { name: "car:buy".to_owned(), path: Some(path(n)) };
        registry.change_own(&[], (0..1_000).map(wash).collect());
        assert_eq!(
            compared(&registry, "car:").collect::<BTreeSet<_>>(),
            BTreeSet::from(["car:buy", "car:paint", "car:wash"])
        );
        assert_eq!(near(&registry, "car:wahs"), ["car:wash"]);
        assert_eq!(near(&registry, "car:buy").len(), HINTS_MAX);
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
