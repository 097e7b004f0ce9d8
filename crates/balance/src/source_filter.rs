//! The firewall in front of a service: which clients may open connections, by their addresses and by the countries that those are in.
//!
//! The longest prefix of `allow` and `deny` that a client's address has decides. An address that has none is decided by its country, if there is a list of countries; and
//! else it may, unless there is a list of those who may. Addresses are numbers as [`address_bits`](crate::config::address_bits) gives them.

mod countries;
mod ranges;

pub use countries::{Country, CountryError, CountryList};
pub use ranges::{AddressRange, Overlap};

use ranges::Ranges;

/// Why a client may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Its address is of `deny`, or not of `allow`.
    Address,
    /// Its country is of those that are denied, or not of those that are allowed.
    Country,
}

/// Which countries may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountryRules {
    /// These, and nobody else if there are any.
    pub allow: Vec<Country>,
    /// All but these.
    pub deny: Vec<Country>,
}

/// Which clients may open connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFilter {
    /// Whether an address may.
    addresses: Ranges<bool>,
    /// Whether there is a list of those that may.
    allows_some: bool,
    /// By address, whether its country may; and whether an address of no country may.
    countries: Option<(Ranges<bool>, bool)>,
}

impl SourceFilter {
    /// Addresses that may and that may not. A range in both is denied.
    ///
    /// # Errors
    /// If two ranges overlap of which neither lies within the other: prefixes never do.
    pub fn new(allow: &[AddressRange], deny: &[AddressRange]) -> Result<Self, Overlap> {
        let all: Vec<_> =
            allow.iter().map(|range| (*range, true)).chain(deny.iter().map(|range| (*range, false))).collect();
        Ok(Self { addresses: Ranges::new(&all)?, allows_some: !allow.is_empty(), countries: None })
    }

    /// The same, with countries.
    #[must_use]
    pub fn with_countries(self, list: &CountryList, rules: &CountryRules) -> Self {
        let may = |country: Country| {
            !rules.deny.contains(&country) && (rules.allow.is_empty() || rules.allow.contains(&country))
        };
        Self { countries: Some((list.ranges().map(may), rules.allow.is_empty())), ..self }
    }

    /// Whether a client with this address may open a connection.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self, address: u128) -> Result<(), Denied> {
        if let Some(may) = self.addresses.find(address) {
            return if may { Ok(()) } else { Err(Denied::Address) };
        }
        if let Some((countries, otherwise)) = &self.countries {
            // A list of addresses that may is no list of all that may where there is one of countries, too.
            return if countries.find(address).unwrap_or(*otherwise) { Ok(()) } else { Err(Denied::Country) };
        }
        if self.allows_some { Err(Denied::Address) } else { Ok(()) }
    }
}
