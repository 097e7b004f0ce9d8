//! The clients that are connected to this server and offer procedures.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{BUCKET_BYTES_MAX, OFFERS_MAX};
use crate::{Error, Offer, ProviderId};

/// Offers of the local providers. Always: an offer is listed as long as somebody has it.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    by_offer: BTreeMap<Offer, BTreeSet<ProviderId>>,
    /// How often an offer is in `by_offer`, over all providers.
    entries: usize,
}

impl Providers {
    /// What all of them offer together: the server's bucket.
    pub fn offers(&self) -> BTreeSet<Offer> {
        self.by_offer.keys().cloned().collect()
    }

    /// Adds offers of a provider.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::TooManyOffers`]; then nothing changes.
    pub fn add(&mut self, provider: ProviderId, offers: Vec<Offer>) -> Result<(), Error> {
        offers.iter().try_for_each(Offer::check)?;
        let fresh: BTreeSet<_> = offers.into_iter().filter(|offer| !self.has(provider, offer)).collect();
        // The bound of a bucket holds for the entries too: a thousand clients with the same offers must not take a thousand times the memory.
        let entries = self.entries + fresh.len();
        let bytes = self.by_offer.keys().chain(&fresh).map(Offer::bytes).sum::<usize>();
        if entries > OFFERS_MAX || bytes > BUCKET_BYTES_MAX {
            return Err(Error::TooManyOffers { offers: entries as u64, bytes: bytes as u64 });
        }
        self.entries = entries;
        for offer in fresh {
            self.by_offer.entry(offer).or_default().insert(provider);
        }
        Ok(())
    }

    /// What a provider offers now.
    pub fn offers_of(&self, provider: ProviderId) -> Vec<Offer> {
        self.offers().into_iter().filter(|offer| self.has(provider, offer)).collect()
    }

    fn has(&self, provider: ProviderId, offer: &Offer) -> bool {
        self.by_offer.get(offer).is_some_and(|providers| providers.contains(&provider))
    }

    /// Takes offers of a provider away.
    pub fn withdraw(&mut self, provider: ProviderId, offers: &[Offer]) {
        for offer in offers {
            let Some(providers) = self.by_offer.get_mut(offer) else { continue };
            self.entries -= usize::from(providers.remove(&provider));
            if providers.is_empty() {
                self.by_offer.remove(offer);
            }
        }
    }

    /// Takes all offers of a provider away.
    pub fn remove(&mut self, provider: ProviderId) {
        let entries = &mut self.entries;
        self.by_offer.retain(|_, providers| {
            *entries -= usize::from(providers.remove(&provider));
            !providers.is_empty()
        });
    }

    /// Who has this offer.
    pub fn of<'a>(&'a self, offer: &Offer) -> impl Iterator<Item = ProviderId> + 'a {
        self.by_offer.get(offer).into_iter().flatten().copied()
    }
}
