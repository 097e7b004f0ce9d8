//! Which site of a name somebody is sent to.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{NameSpec, SiteSpec, SiteState};
use crate::source_filter::AddressRange;

/// A name that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub spec: NameSpec,
    /// By site.
    sites: Vec<SiteTurns>,
    counters: NameCounters,
}

/// What is kept of a site.
#[derive(Clone, Copy, Debug, Default)]
struct SiteTurns {
    /// How far its turn has come, of IPv4 and of IPv6: whoever asks for both takes one turn of each, which must not make every second one a site's.
    turns: [i64; 2],
    /// Answers with its addresses.
    answers: u64,
}

/// What is counted of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NameCounters {
    /// Queries.
    pub queries: u64,
    /// Those that were answered with addresses of a site.
    pub answered: u64,
    /// Those of them that a backup got.
    pub failed_over: u64,
    /// Those of them that had no healthy site.
    pub failed_open: u64,
    /// Queries for records that the name does not have.
    pub no_data: u64,
}

impl NameCounters {
    /// What became of queries, each with its name.
    pub const fn named(&self) -> [(&'static str, u64); 5] {
        let Self { queries, answered, failed_over, failed_open, no_data } = *self;
        [
            ("queries", queries),
            ("answered", answered),
            ("failed-over", failed_over),
            ("failed-open", failed_open),
            ("no-data", no_data),
        ]
    }
}

/// A name as it stands.
#[derive(Clone, Copy, Debug)]
pub struct NameView<'a> {
    /// What it is.
    pub spec: &'a NameSpec,
    /// What it has counted.
    pub counters: NameCounters,
    sites: &'a [SiteTurns],
}

/// A site as it stands.
#[derive(Clone, Copy, Debug)]
pub struct SiteView<'a> {
    /// What it is.
    pub spec: &'a SiteSpec,
    /// Answers with its addresses.
    pub answers: u64,
}

impl<'a> NameView<'a> {
    /// Its sites, in the order of the file.
    pub fn sites(&self) -> impl Iterator<Item = SiteView<'a>> {
        self.spec.sites.iter().zip(self.sites).map(|(spec, turns)| SiteView { spec, answers: turns.answers })
    }
}

/// Which sites are asked, those first that are better: primary ones that have room, backups that do, and then any that is healthy, however loaded. If there is none,
/// all count as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Primary,
    Backup,
    LoadedPrimary,
    LoadedBackup,
    DeadPrimary,
    DeadBackup,
}

impl Tier {
    const ALL: [Self; 6] =
        [Self::Primary, Self::Backup, Self::LoadedPrimary, Self::LoadedBackup, Self::DeadPrimary, Self::DeadBackup];

    const fn is_backup(self) -> bool {
        matches!(self, Self::Backup | Self::LoadedBackup | Self::DeadBackup)
    }

    /// The share of a site in it; nothing if it is not in it.
    fn share(self, site: &SiteSpec, state: &SiteState, shed_from_percent: u32) -> i64 {
        if site.is_backup != self.is_backup() {
            return 0;
        }
        let weight = i64::from(site.weight);
        match self {
            Self::Primary | Self::Backup if state.healthy > 0 => weight * room(state, shed_from_percent),
            Self::LoadedPrimary | Self::LoadedBackup if state.healthy > 0 => weight,
            Self::DeadPrimary | Self::DeadBackup => weight,
            Self::Primary | Self::Backup | Self::LoadedPrimary | Self::LoadedBackup => 0,
        }
    }
}

/// How much of its share a site gets, in thousandths: all of it up to where it sheds load, nothing when its capacity is used up.
fn room(state: &SiteState, shed_from_percent: u32) -> i64 {
    const WHOLE: i64 = 1_000;
    let load = state.load_percent.unwrap_or(0);
    if load < shed_from_percent.min(100) {
        return WHOLE;
    }
    let (left, span) = (100u32.saturating_sub(load), 100u32.saturating_sub(shed_from_percent));
    (i64::from(left) * WHOLE).checked_div(i64::from(span)).unwrap_or(0)
}

impl SiteSpec {
    fn has_family(&self, is_ipv6: bool) -> bool {
        self.addresses.iter().any(|address| address.is_ipv6() == is_ipv6)
    }

    /// The length of the longest prefix of it that a client has.
    fn prefix_of(&self, client: IpAddr) -> Option<u32> {
        self.clients.iter().filter(|prefix| prefix.has(client)).map(AddressRange::common_bits).max()
    }
}

impl Name {
    pub fn new(spec: NameSpec) -> Self {
        let sites = vec![SiteTurns::default(); spec.sites.len()];
        Self { spec, sites, counters: NameCounters::default() }
    }

    /// The same name in another file: sites are known by their names.
    pub fn take_over(&mut self, old: &Self) {
        self.counters = old.counters;
        for (site, turns) in self.spec.sites.iter().zip(&mut self.sites) {
            if let Some(at) = old.spec.sites.iter().position(|was| was.name == site.name) {
                turns.answers = old.sites[at].answers;
            }
        }
    }

    pub fn view(&self) -> NameView<'_> {
        NameView { spec: &self.spec, counters: self.counters, sites: &self.sites }
    }

    /// Whether some site has addresses of this family, and may get somebody.
    pub fn has_family(&self, is_ipv6: bool) -> bool {
        self.spec.sites.iter().any(|site| site.weight > 0 && site.has_family(is_ipv6))
    }

    pub fn count_query(&mut self, is_answered: bool) {
        self.counters.queries += 1;
        if is_answered {
            self.counters.answered += 1;
        } else {
            self.counters.no_data += 1;
        }
    }

    /// The site whose addresses of this family a client gets. `None` if no site has any.
    pub fn choose(&mut self, is_ipv6: bool, client: IpAddr, states: &[SiteState]) -> Option<usize> {
        for tier in Tier::ALL {
            let shares: Vec<i64> = self
                .spec
                .sites
                .iter()
                .zip(states)
                .map(|(site, state)| {
                    let is_in = site.has_family(is_ipv6);
                    if is_in { tier.share(site, state, self.spec.shed_from_percent) } else { 0 }
                })
                .collect();
            if let Some(chosen) = self.choose_among(&shares, is_ipv6, client) {
                self.sites[chosen].answers += 1;
                self.counters.failed_over += u64::from(tier.is_backup());
                self.counters.failed_open += u64::from(matches!(tier, Tier::DeadPrimary | Tier::DeadBackup));
                return Some(chosen);
            }
        }
        None
    }

    /// Of sites that have a share, the one whose turn it is among those with the longest prefix of the client: smooth weighted round robin, as nginx has it.
    fn choose_among(&mut self, shares: &[i64], is_ipv6: bool, client: IpAddr) -> Option<usize> {
        let prefixes: Vec<Option<u32>> = self.spec.sites.iter().map(|site| site.prefix_of(client)).collect();
        let with_share = || shares.iter().enumerate().filter(|(_, share)| **share > 0).map(|(at, _)| at);
        let longest = with_share().map(|at| prefixes[at]).max()?;
        let candidates: Vec<usize> = with_share().filter(|at| prefixes[*at] == longest).collect();
        let family = usize::from(is_ipv6);
        let mut total = 0;
        for at in &candidates {
            self.sites[*at].turns[family] += shares[*at];
            total += shares[*at];
        }
        // Of equal ones the first.
        let chosen = candidates.into_iter().rev().max_by_key(|at| self.sites[*at].turns[family])?;
        self.sites[chosen].turns[family] -= total;
        Some(chosen)
    }

    /// How many bits somebody has to have with this client in common to be sent where it is (RFC 7871, 7.2.1): as many as tell it from each prefix that it does not have, and
    /// all of those that it has.
    pub fn scope(&self, client: IpAddr) -> u8 {
        let prefixes = self.spec.sites.iter().flat_map(|site| &site.clients);
        prefixes.map(|prefix| prefix.bits_that_decide(client)).max().unwrap_or(0) as u8
    }
}
