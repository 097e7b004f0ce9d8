//! The clients that are connected to this server and offer procedures.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{BUCKET_BYTES_MAX, OFFERS_MAX};
use crate::{Error, Offer, ProviderId};

/// Offers of the local providers. Always: an offer is listed as long as somebody has it, and the two tables agree. What a change costs goes by
/// its own size, not by all that is offered: whoever offers one thing again and again must not have a thousand copied each time.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    by_offer: BTreeMap<Offer, BTreeSet<ProviderId>>,
    by_provider: BTreeMap<ProviderId, BTreeSet<Offer>>,
    /// How often an offer is in `by_offer`, over all providers.
    entries: usize,
    /// Of the names and paths in `by_offer`, each once.
    bytes: usize,
}

impl Providers {
    /// Adds offers of a provider; gives those that nobody had before.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::TooManyOffers`]; then nothing changes.
    pub fn add(&mut self, provider: ProviderId, offers: Vec<Offer>) -> Result<Vec<Offer>, Error> {
        offers.iter().try_for_each(Offer::check)?;
        let own = self.by_provider.get(&provider);
        let added: BTreeSet<_> = offers.into_iter().filter(|it| own.is_none_or(|own| !own.contains(it))).collect();
        let fresh: Vec<_> = added.iter().filter(|offer| !self.by_offer.contains_key(*offer)).cloned().collect();
        // The bound of a bucket holds for the entries too: a thousand clients with the same offers must not take a thousand times the memory.
        let entries = self.entries + added.len();
        let bytes = self.bytes + fresh.iter().map(Offer::bytes).sum::<usize>();
        if entries > OFFERS_MAX || bytes > BUCKET_BYTES_MAX {
            return Err(Error::TooManyOffers { offers: entries as u64, bytes: bytes as u64 });
        }
        (self.entries, self.bytes) = (entries, bytes);
        if added.is_empty() {
            return Ok(fresh);
        }
        for offer in &added {
            self.by_offer.entry(offer.clone()).or_default().insert(provider);
        }
        self.by_provider.entry(provider).or_default().extend(added);
        Ok(fresh)
    }

    /// What a provider offers now.
    pub fn offers_of(&self, provider: ProviderId) -> Vec<Offer> {
        self.by_provider.get(&provider).into_iter().flatten().cloned().collect()
    }

    /// Takes offers of a provider away; gives those that nobody has any more.
    pub fn withdraw(&mut self, provider: ProviderId, offers: &[Offer]) -> Vec<Offer> {
        let Some(own) = self.by_provider.get_mut(&provider) else { return Vec::new() };
        let withdrawn: Vec<_> = offers.iter().filter_map(|offer| own.take(offer)).collect();
        if own.is_empty() {
            self.by_provider.remove(&provider);
        }
        self.forget(provider, withdrawn)
    }

    /// Takes all offers of a provider away; gives those that nobody has any more.
    pub fn remove(&mut self, provider: ProviderId) -> Vec<Offer> {
        let own = self.by_provider.remove(&provider).unwrap_or_default();
        self.forget(provider, own)
    }

    fn forget(&mut self, provider: ProviderId, withdrawn: impl IntoIterator<Item = Offer>) -> Vec<Offer> {
        let mut gone = Vec::new();
        for offer in withdrawn {
            self.entries -= 1;
            let providers = self.by_offer.get_mut(&offer).expect("what a provider has is listed");
            providers.remove(&provider);
            if providers.is_empty() {
                self.by_offer.remove(&offer);
                self.bytes -= offer.bytes();
                gone.push(offer);
            }
        }
        gone
    }

    /// The providers with this offer.
    pub fn of<'a>(&'a self, offer: &Offer) -> impl Iterator<Item = ProviderId> + 'a {
        self.by_offer.get(offer).into_iter().flatten().copied()
    }
}
