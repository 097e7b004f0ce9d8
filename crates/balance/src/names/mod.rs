//! Global server load balancing: which site's addresses a name has, by the health and the load of the sites, and by who asks.
//!
//! [`Names`] is an authoritative name server as a state machine. Its driver says what came to which of its addresses, from where, and how the sites do; the answer is
//! bytes.
//!
//! ```text
//!   message -> query, or FORMERR, NOTIMP, BADVERS (`query`)
//!           -> whose name: REFUSED, NXDOMAIN, NODATA (`server`)
//!           -> a site (`name`): healthy ones, primary before backup -> longest prefix of the client -> smooth weighted round robin, loaded ones less
//!           -> its addresses (`reply`)
//! ```
//!
//! An answer has the addresses of one site: clients take any of those that they get, so several sites' would have no shares. Where no site is healthy, all count as
//! healthy (fail open, as with gdnsd and Route 53): a wrong answer is no worse than none, and the checks may be what is wrong.
//!
//! RFC 1035 messages over UDP, RFC 6891 (EDNS), RFC 7871 (client subnet), RFC 2308 (negative answers), RFC 8482 (`ANY`), RFC 9619 (one question). So that nobody is flooded by it
//! in whose name somebody asks, prefixes of clients get so many answers a second (`limit`).

mod limit;
mod name;
mod query;
mod reply;
mod server;
#[cfg(test)]
mod tests;
mod wire_name;

pub use name::{NameCounters, NameView, SiteView};
pub use query::{ClientSubnet, Edns, Query, QueryError};
pub use server::{Names, QueryCounters};
pub use wire_name::WireName;

use std::net::IpAddr;

use crate::service::Service;
use crate::{AddressRange, ServerId};

/// The most sites of a name.
pub const SITES_MAX: usize = 256;

/// The largest weight of a site.
pub const SITE_WEIGHT_MAX: u32 = 65_535;

/// From so much of its capacity on, a site sheds load, when nothing is said.
pub const SHED_FROM_PERCENT: u32 = 80;

/// So many answers a second a prefix of clients gets, when nothing is said.
pub const ANSWERS_MAX: u32 = 1_000;

/// A name, and the sites that it may lead to.
#[derive(Clone, Debug, PartialEq)]
pub struct NameSpec {
    /// As DNS has it.
    pub name: WireName,
    /// Addresses at which name servers are asked for it.
    pub asked_at: Vec<IpAddr>,
    /// For so many seconds an answer may be kept.
    pub ttl_s: u32,
    /// From so much of its capacity on a site gets a smaller share, down to nothing at all of it.
    pub shed_from_percent: u32,
    /// So many answers a second a prefix of clients gets from the name servers; 0: any number. Of several names that are asked for at one address the most counts.
    pub answers_max: u32,
    /// At most [`SITES_MAX`].
    pub sites: Vec<SiteSpec>,
}

/// A site: one of the places where the same is served.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteSpec {
    /// Unique in the name.
    pub name: String,
    /// Where it is.
    pub addresses: Vec<IpAddr>,
    /// Its share among the others; 0: it gets nobody.
    pub weight: u32,
    /// It gets somebody only when no other site can take them.
    pub is_backup: bool,
    /// Prefixes of clients that come to it before others. The longest one of all sites counts.
    pub clients: Vec<AddressRange>,
}

/// How a site does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteState {
    /// Its servers that are to get connections.
    pub servers: u32,
    /// Further ones, which are drained, be it by hand, by their agent or as their weight is 0.
    pub drained: u32,
    /// Those of the first kind that can.
    pub healthy: u32,
    /// How much of its capacity is in use, if that is known; above 100 where more is wanted.
    pub load_percent: Option<u32>,
}

impl SiteState {
    /// That of a service: its load is what its servers have of the connections that they may have, or what their agents report, whichever is more. Connections that are being
    /// opened, as many of each server as `half_open` says, are none yet: whoever makes up addresses would make a site look full.
    pub fn of(service: &Service, now: machine::Time, half_open: impl Fn(ServerId) -> u32) -> Self {
        let (mut state, mut utilisation) = (Self::default(), Shares::default());
        let (mut connections, mut limit) = (0u64, Some(0u64));
        for server in service.site_servers(now) {
            if !server.is_wanted {
                state.drained += 1;
                continue;
            }
            state.servers += 1;
            if !server.is_healthy {
                continue;
            }
            state.healthy += 1;
            connections += u64::from(server.connections.saturating_sub(half_open(server.id)));
            limit = limit.zip(server.connections_max).map(|(sum, max)| sum + u64::from(max));
            utilisation.add(server.utilisation_permille);
        }
        let by_limit = limit.filter(|limit| *limit > 0).map(|limit| (connections * 100 / limit) as u32);
        state.load_percent = by_limit.max(utilisation.mean_percent());
        state
    }

    /// The same site, as another balancer of it knows it: each knows all connections, or a part of them.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            servers: self.servers.max(other.servers),
            drained: self.drained.max(other.drained),
            healthy: self.healthy.max(other.healthy),
            load_percent: self.load_percent.max(other.load_percent),
        }
    }
}

/// A mean of what is known.
#[derive(Default)]
struct Shares {
    sum: u64,
    count: u64,
}

impl Shares {
    fn add(&mut self, permille: Option<u32>) {
        let Some(permille) = permille else { return };
        (self.sum, self.count) = (self.sum + u64::from(permille), self.count + 1);
    }

    fn mean_percent(&self) -> Option<u32> {
        Some((self.sum.checked_div(self.count)? / 10) as u32)
    }
}
