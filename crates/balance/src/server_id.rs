//! How a server of a service is known.

/// A server of a [`crate::Service`]. It stays the same as long as the server has connections or stands in the specification; afterwards it names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    slot: u16,
    /// Counts the servers that have had this slot.
    generation: u16,
}

impl ServerId {
    pub(crate) const fn new(slot: usize, generation: u16) -> Self {
        Self { slot: slot as u16, generation }
    }

    /// A small number that no other server of the service has at the same time, for tables of the driver.
    pub const fn index(self) -> usize {
        self.slot as usize
    }

    pub(crate) const fn generation(self) -> u16 {
        self.generation
    }
}
