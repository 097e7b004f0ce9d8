//! Which of the newest numbers have come.

/// Numbers behind the highest one that came whose arrival is remembered. What is older when it comes again is not known to be a
/// duplicate; at 10,000 a second it is older than six seconds.
pub(crate) const REMEMBERED: usize = 1 << 16;

/// How a number came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Before all that were sent after it.
    InOrder,
    /// After one that was sent later (RFC 4737, type-P-reordered).
    Late,
    /// It came before.
    Again,
}

/// What has come.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Bits of the numbers that came, modulo [`REMEMBERED`].
    came: Box<[u64]>,
    highest: Option<u64>,
}

impl Seen {
    pub(crate) fn new() -> Self {
        Self { came: vec![0; REMEMBERED / 64].into(), highest: None }
    }

    /// The highest number that came.
    pub(crate) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Notes a number.
    pub(crate) fn note(&mut self, number: u64) -> Arrival {
        let window = REMEMBERED as u64;
        let is_late = match self.highest {
            Some(highest) if number > highest => {
                let fresh = (number - highest).min(window);
                (0..fresh).for_each(|back| self.set(number - back, false));
                false
            }
            Some(highest) if highest - number >= window => return Arrival::Late,
            Some(_) => true,
            None => false,
        };
        if self.came[Self::word(number)] >> (number % 64) & 1 == 1 {
            return Arrival::Again;
        }
        self.set(number, true);
        self.highest = self.highest.max(Some(number));
        if is_late { Arrival::Late } else { Arrival::InOrder }
    }

    fn set(&mut self, number: u64, came: bool) {
        let (word, bit) = (&mut self.came[Self::word(number)], 1 << (number % 64));
        if came {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    const fn word(number: u64) -> usize {
        (number as usize / 64) % (REMEMBERED / 64)
    }
}
