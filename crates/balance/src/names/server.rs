//! A name server: whose names it answers for, and with what.

use std::net::IpAddr;

use machine::{Rebase, Span, Time};
use serde::{Deserialize, Serialize};

use super::limit::AnswerLimit;
use super::name::{Name, NameView};
use super::query::{IN, Query, QueryError, kind};
use super::reply::{self, Rcode, Reply};
use super::{NameSpec, SiteState};

/// All names that are answered for, at whatever addresses they are asked.
#[derive(Clone, Debug, Default)]
pub struct Names {
    all: Vec<Name>,
    counters: QueryCounters,
    /// Nobody asks where there are no names.
    limit: Option<AnswerLimit>,
}

/// What is counted of messages that were not for a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueryCounters {
    /// All messages.
    pub messages: u64,
    /// Queries for names of others, and for what is not the internet's, or is a transfer.
    pub refused: u64,
    /// Queries for names below one of the file that there are not.
    pub name_error: u64,
    /// What could not be read.
    pub malformed: u64,
    /// Other operations than queries.
    pub not_implemented: u64,
    /// Queries with extensions of another version.
    pub bad_version: u64,
    /// Responses, and what is too short: they are not answered.
    pub ignored: u64,
    /// Answers with fewer addresses than there are.
    pub truncated: u64,
    /// Queries that are not answered, since their clients' prefix has had as many answers as it may have.
    #[serde(default)]
    pub rate_limited: u64,
}

impl QueryCounters {
    /// Each with its name.
    pub const fn named(&self) -> [(&'static str, u64); 9] {
        let Self {
            messages,
            refused,
            name_error,
            malformed,
            not_implemented,
            bad_version,
            ignored,
            truncated,
            rate_limited,
        } = *self;
        [
            ("messages", messages),
            ("refused", refused),
            ("name-error", name_error),
            ("malformed", malformed),
            ("not-implemented", not_implemented),
            ("bad-version", bad_version),
            ("ignored", ignored),
            ("truncated", truncated),
            ("rate-limited", rate_limited),
        ]
    }
}

/// What becomes of a query.
enum ZoneMatch {
    /// The name, and where it begins in the question's.
    Name(usize, usize),
    /// Nothing is there, but the zone of this name is.
    Below(usize, usize),
    /// It is somebody else's.
    Nobody,
}

impl Names {
    /// These names. `seed` is where the hash of the table starts in which clients are remembered.
    pub fn new(specs: Vec<NameSpec>, seed: u64) -> Self {
        let limit = (!specs.is_empty()).then(|| AnswerLimit::new(seed));
        Self { all: specs.into_iter().map(Name::new).collect(), counters: QueryCounters::default(), limit }
    }

    /// Names of another file: what is counted of those that stay is kept.
    pub fn take_over(&mut self, old: &Self) {
        self.counters = old.counters;
        if self.limit.is_some() && old.limit.is_some() {
            self.limit.clone_from(&old.limit);
        }
        for name in &mut self.all {
            if let Some(old) = old.all.iter().find(|old| old.spec.name == name.spec.name) {
                name.take_over(old);
            }
        }
    }

    /// How each name stands, in the order of the file.
    pub fn views(&self) -> impl Iterator<Item = NameView<'_>> {
        self.all.iter().map(Name::view)
    }

    /// What it has counted.
    pub const fn counters(&self) -> QueryCounters {
        self.counters
    }

    /// Answers a datagram from `source` that came to the address `asked_at`. `states` says how the sites of a name do, by the name's number: as many as it has, in their order.
    /// `None`: nothing is answered.
    pub fn answer(
        &mut self,
        now: Time,
        (asked_at, source): (IpAddr, IpAddr),
        message: &[u8],
        states: impl FnOnce(usize) -> Vec<SiteState>,
    ) -> Option<Vec<u8>> {
        self.counters.messages += 1;
        let query = Query::parse(message);
        if query == Err(QueryError::NotAQuery) {
            self.counters.ignored += 1;
            return None;
        }
        if !self.may_answer(now, asked_at, source) {
            self.counters.rate_limited += 1;
            return None;
        }
        let query = match query {
            Ok(query) => query,
            Err(QueryError::NotAQuery) => return None,
            Err(QueryError::Malformed { id, flags }) => {
                self.counters.malformed += 1;
                return Some(reply::error(id, flags, Rcode::Malformed));
            }
            Err(QueryError::NotImplemented { id, flags }) => {
                self.counters.not_implemented += 1;
                return Some(reply::error(id, flags, Rcode::NotImplemented));
            }
            Err(QueryError::BadVersion(query)) => {
                self.counters.bad_version += 1;
                return Some(Reply::empty(Rcode::BadVersion).emit(&query).0);
            }
        };
        let is_of_here = query.class == IN && !kind::TRANSFERS.contains(&query.record);
        let found = if is_of_here { self.find(asked_at, &query) } else { ZoneMatch::Nobody };
        let answer = match found {
            ZoneMatch::Nobody => {
                self.counters.refused += 1;
                Reply::empty(Rcode::Refused).emit(&query).0
            }
            ZoneMatch::Below(number, zone_at) => {
                self.counters.name_error += 1;
                let ttl_s = self.all[number].spec.ttl_s;
                Reply { zone_at: Some(zone_at), ttl_s, ..Reply::empty(Rcode::NameError) }.emit(&query).0
            }
            ZoneMatch::Name(number, zone_at) => self.answer_name((number, zone_at), source, &query, states),
        };
        Some(answer)
    }

    /// The site that a client would get addresses of now, of a name by its number; it takes no turn by that. `None`: none has any of this family.
    ///
    /// # Panics
    /// If there is no name with this number.
    pub fn site_for(&self, number: usize, is_ipv6: bool, client: IpAddr, states: &[SiteState]) -> Option<usize> {
        self.all[number].clone().choose(is_ipv6, client, states)
    }

    /// Whether a client may get one more answer from here; if so, it has.
    fn may_answer(&mut self, now: Time, asked_at: IpAddr, client: IpAddr) -> bool {
        let of_here = self.all.iter().filter(|name| name.spec.asked_at.contains(&asked_at));
        let rates = of_here.map(|name| Some(name.spec.answers_max).filter(|rate| *rate > 0));
        let Some(rate) = rates.map(|rate| rate.unwrap_or(u32::MAX)).max() else { return true };
        rate == u32::MAX || self.limit.as_mut().is_none_or(|limit| limit.admit(now, client, rate))
    }

    /// Whose name it is that is asked for at an address.
    fn find(&self, asked_at: IpAddr, query: &Query) -> ZoneMatch {
        let asked = |name: &&(usize, &Name)| name.1.spec.asked_at.contains(&asked_at);
        let at_address = || self.all.iter().enumerate().filter(move |name| asked(&name));
        let zone = at_address()
            .filter_map(|(number, name)| Some((number, query.name.offset_of(&name.spec.name)?)))
            .min_by_key(|(_, zone_at)| *zone_at);
        let is_between = || at_address().any(|(_, name)| name.spec.name.offset_of(&query.name).is_some());
        match zone {
            Some((number, 0)) => ZoneMatch::Name(number, 0),
            // A name has no records of its own that leads to one that has.
            Some((number, zone_at)) if is_between() => ZoneMatch::Name(number, zone_at),
            Some((number, zone_at)) => ZoneMatch::Below(number, zone_at),
            None => ZoneMatch::Nobody,
        }
    }

    fn answer_name(
        &mut self,
        (number, zone_at): (usize, usize),
        source: IpAddr,
        query: &Query,
        states: impl FnOnce(usize) -> Vec<SiteState>,
    ) -> Vec<u8> {
        let name = &mut self.all[number];
        let ttl_s = name.spec.ttl_s;
        let family = match query.record {
            _ if zone_at > 0 => None,
            kind::A => Some(false),
            kind::AAAA => Some(true),
            // One kind of records is enough (RFC 8482, 4.1).
            kind::ANY => Some(!name.has_family(false)),
            _ => None,
        };
        // A prefix of no length is somebody who does not want to be known by it (RFC 7871, 7.1.2): who passes it on is.
        let subnet = query.edns.and_then(|edns| edns.client).filter(|client| client.prefix > 0);
        let client = subnet.map_or(source, |client| client.address);
        let scope = if subnet.is_some() { name.scope(client) } else { 0 };
        let chosen = family.and_then(|is_ipv6| Some((is_ipv6, name.choose(is_ipv6, client, &states(number))?)));
        name.count_query(chosen.is_some());
        let addresses: Vec<IpAddr> = chosen.map_or_else(Vec::new, |(is_ipv6, site)| {
            let all = name.spec.sites[site].addresses.iter();
            all.copied().filter(|address| address.is_ipv6() == is_ipv6).collect()
        });
        let is_authority = query.record == kind::SOA && zone_at == 0;
        let reply = Reply {
            zone_at: Some(zone_at),
            ttl_s,
            addresses: &addresses,
            is_authority,
            scope,
            ..Reply::empty(Rcode::NoError)
        };
        let (bytes, is_truncated) = reply.emit(query);
        self.counters.truncated += u64::from(is_truncated);
        bytes
    }
}

impl Rebase for Names {
    fn rebase(&mut self, by: Span) {
        let Self { all: _, counters: _, limit } = self;
        limit.rebase(by);
    }
}
