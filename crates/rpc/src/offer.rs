//! Offers, buckets and their versions.

use core::fmt;
use std::collections::BTreeSet;

use machine::ServerId;
use serde::{Deserialize, Serialize};
use tree::Path;

use crate::config::{BUCKET_BYTES_MAX, NAME_BYTES_MAX, OFFERS_MAX};
use crate::error::{Error, shortened};

/// Neither part of a version can lie above this, so that a server can always go beyond what others claim about it.
const VERSION_PART_MAX: u64 = u64::MAX >> 1;

/// A client's connection to this server, as provider of procedures. The driver numbers them and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderId(pub u64);

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A procedure that somebody can execute, for all data or for what lies at and below a path (*routed RPC*).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offer {
    /// Module and procedure, such as `people:add-person`.
    pub name: String,
    /// Calls with this path, or one below it. `None`: calls with any path, and those without one.
    pub path: Option<Path>,
}

impl Offer {
    /// What an offer adds to the size of its bucket, in bytes.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.path.as_ref().map_or(0, |path| path.as_str().len())
    }

    /// Whether this offer takes a call with `path`.
    pub fn takes(&self, path: Option<&Path>) -> bool {
        match (&self.path, path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(offered), Some(path)) => offered.contains(path),
        }
    }

    /// Checks an offer that came from elsewhere.
    ///
    /// # Errors
    /// [`Error::Name`]; a path is valid by its type.
    pub fn check(&self) -> Result<(), Error> {
        check_name(&self.name)
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.path.as_ref().map_or(Ok(()), |path| write!(f, " for {}", path.as_str()))
    }
}

/// A procedure's name: printable, without blanks, of bounded length.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(odd) {
        return Err(Error::Name { name: shortened(name) });
    }
    Ok(())
}

/// How new a bucket is. Versions of one server only rise, over its restarts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Which start of the server: higher at each, such as the time of the start or a counter that is kept on disk.
    pub incarnation: u64,
    /// How many changes since that start.
    pub change: u64,
}

impl Version {
    /// The first version after a start.
    pub fn first(incarnation: u64) -> Self {
        Self { incarnation: incarnation.min(VERSION_PART_MAX), change: 0 }
    }

    /// The version after one more change.
    #[must_use]
    pub fn next(self) -> Self {
        Self { change: self.change + 1, ..self }
    }

    /// A version above this one that starts an incarnation of its own, if one is left.
    #[must_use]
    pub(crate) fn beyond(self) -> Self {
        if self.incarnation < VERSION_PART_MAX { Self::first(self.incarnation + 1) } else { self.next() }
    }

    pub(crate) fn check(self, server: ServerId) -> Result<(), Error> {
        if self.incarnation > VERSION_PART_MAX || self.change > VERSION_PART_MAX {
            return Err(Error::Version { server, version: self });
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.change)
    }
}

/// What one server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// How new this is.
    pub version: Version,
    /// The offers of all providers that are connected to the server.
    pub offers: BTreeSet<Offer>,
}

impl Bucket {
    /// Bytes of all names and paths.
    pub fn bytes(&self) -> usize {
        self.offers.iter().map(Offer::bytes).sum()
    }

    /// Checks a bucket that came from elsewhere.
    ///
    /// # Errors
    /// [`Error::TooManyOffers`], [`Error::Version`], [`Error::Name`]; a path is valid by its type.
    pub fn check(&self, server: ServerId) -> Result<(), Error> {
        self.version.check(server)?;
        let (offers, bytes) = (self.offers.len(), self.bytes());
        if offers > OFFERS_MAX || bytes > BUCKET_BYTES_MAX {
            return Err(Error::TooManyOffers { offers: offers as u64, bytes: bytes as u64 });
        }
        self.offers.iter().try_for_each(Offer::check)
    }

    /// Offers of a procedure: they lie side by side, since a set of offers is sorted by name first.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Offer> {
        let from = Offer { name: name.to_owned(), path: None };
        self.offers.range(from..).take_while(move |offer| offer.name == name)
    }

    /// The names that begin so, each once, however many paths it is offered for.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let mut from = prefix.to_owned();
        let next = core::iter::from_fn(move || {
            let first = Offer { name: core::mem::take(&mut from), path: None };
            let name = self.offers.range(first..).next()?.name.as_str();
            // No name has a character below this one, so that it leads to the next name.
            from = format!("{name}\0");
            Some(name)
        });
        next.take_while(move |name| name.starts_with(prefix))
    }
}
