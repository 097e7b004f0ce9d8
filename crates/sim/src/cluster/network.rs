//! The network between servers and clients: messages are delayed, lost, doubled, overtaken, and cut off in one direction
//! or both.

use machine::nanos::Span;
use machine::{Rng, ServerId};

/// How the network behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// The shortest way, one direction.
    pub delay_min: Span,
    /// What is added on average; single messages take several times as long (an exponential distribution).
    pub delay_more: Span,
    /// Of a thousand messages, so many are lost.
    pub lost_per_mille: u32,
    /// So many arrive twice.
    pub doubled_per_mille: u32,
    /// So many take up to [`Quality::late`] longer, and are overtaken.
    pub late_per_mille: u32,
    /// See there.
    pub late: Span,
}

impl Default for Quality {
    fn default() -> Self {
        Self {
            delay_min: Span::from_us(100),
            delay_more: Span::from_us(150),
            lost_per_mille: 2,
            doubled_per_mille: 5,
            late_per_mille: 10,
            late: Span::from_ms(40),
        }
    }
}

impl Quality {
    /// A network that only delays: at least so long, and on average so much more.
    pub const fn lossless(delay_min: Span, delay_more: Span) -> Self {
        Self { delay_min, delay_more, lost_per_mille: 0, doubled_per_mille: 0, late_per_mille: 0, late: Span::ZERO }
    }
}

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A server.
    Server(ServerId),
    /// A client of this number.
    Client(u32),
}

impl Party {
    /// A bit of its own: servers have the lower half. Beyond 32 of a kind, some share one.
    const fn bit(self) -> u64 {
        match self {
            Self::Server(id) => 1 << (id.0 % 32),
            Self::Client(number) => 1 << (32 + number % 32),
        }
    }
}

/// A set of parties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parties(u64);

impl Parties {
    /// All clients.
    pub const CLIENTS: Self = Self(u64::MAX << 32);

    /// All that are not in it.
    #[must_use]
    pub const fn others(self) -> Self {
        Self(!self.0)
    }

    /// With all of another set.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, party: Party) -> bool {
        self.0 & party.bit() != 0
    }
}

impl FromIterator<Party> for Parties {
    fn from_iter<I: IntoIterator<Item = Party>>(parties: I) -> Self {
        Self(parties.into_iter().fold(0, |set, party| set | party.bit()))
    }
}

/// Nothing gets from one set to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    number: u64,
    from: Parties,
    to: Parties,
}

/// The network.
#[derive(Clone, Debug)]
pub struct Network {
    quality: Quality,
    rng: Rng,
    cuts: Vec<Cut>,
    next_cut: u64,
    /// What it did.
    pub counters: Counters,
}

/// What a network did to messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Handed to it.
    pub messages: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Delivered twice.
    pub doubled: u64,
    /// Much delayed.
    pub late: u64,
    /// Lost in a partition.
    pub cut_off: u64,
}

impl Network {
    /// A network without partitions.
    pub fn new(quality: Quality, rng: Rng) -> Self {
        Self { quality, rng, cuts: Vec::new(), next_cut: 0, counters: Counters::default() }
    }

    /// How long the copies of a message take: none, one, or two.
    pub fn send(&mut self, from: Party, to: Party) -> [Option<Span>; 2] {
        self.counters.messages += 1;
        if self.is_cut(from, to) {
            self.counters.cut_off += 1;
            return [None, None];
        }
        if self.draws(self.quality.lost_per_mille) {
            self.counters.lost += 1;
            return [None, None];
        }
        let doubled = self.draws(self.quality.doubled_per_mille);
        self.counters.doubled += u64::from(doubled);
        [Some(self.delay()), doubled.then(|| self.delay())]
    }

    /// How long a message on a stream takes, as TCP has it: late instead of lost, and nothing once it is cut.
    pub fn send_on_stream(&mut self, from: Party, to: Party) -> Option<Span> {
        self.counters.messages += 1;
        if self.is_cut(from, to) {
            self.counters.cut_off += 1;
            return None;
        }
        Some(self.delay())
    }

    fn delay(&mut self) -> Span {
        let more = -(1.0 - self.rng.fraction()).ln() * self.quality.delay_more.as_ns() as f64;
        let usual = self.quality.delay_min + Span::from_ns(more as u64);
        if !self.draws(self.quality.late_per_mille) {
            return usual;
        }
        self.counters.late += 1;
        usual + Span::from_ns((self.rng.fraction() * self.quality.late.as_ns() as f64) as u64)
    }

    fn draws(&mut self, per_mille: u32) -> bool {
        self.rng.below(1_000) < per_mille
    }

    /// Whether nothing gets from one to the other.
    pub fn is_cut(&self, from: Party, to: Party) -> bool {
        self.cuts.iter().any(|cut| cut.from.has(from) && cut.to.has(to))
    }

    /// Cuts one direction. What is under way still arrives.
    pub fn cut(&mut self, from: Parties, to: Parties) -> u64 {
        self.next_cut += 1;
        self.cuts.push(Cut { number: self.next_cut, from, to });
        self.next_cut
    }

    /// Ends a cut; the others stay.
    pub fn end_cut(&mut self, number: u64) {
        self.cuts.retain(|cut| cut.number != number);
    }

    /// Ends all cuts, and neither loses nor doubles from now on.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.quality = Quality { lost_per_mille: 0, doubled_per_mille: 0, late_per_mille: 0, ..self.quality };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Party = Party::Server(ServerId(1));
    const TWO: Party = Party::Server(ServerId(2));
    const CLIENT: Party = Party::Client(1);

    #[test]
    fn a_cut_has_a_direction_and_an_end() {
        let mut network = Network::new(Quality { lost_per_mille: 0, ..Quality::default() }, Rng::new(1));
        let one: Parties = [ONE].into_iter().collect();
        let out = network.cut(one, one.others());
        assert_eq!(network.send(ONE, TWO), [None, None]);
        assert!(network.send(TWO, ONE)[0].is_some());
        assert!(network.send_on_stream(ONE, CLIENT).is_none());
        let clients = network.cut(Parties::CLIENTS, one);
        network.end_cut(out);
        assert!(network.send(ONE, TWO)[0].is_some());
        assert!(network.is_cut(CLIENT, ONE) && !network.is_cut(CLIENT, TWO) && !network.is_cut(ONE, CLIENT));
        network.end_cut(clients);
        assert!(!network.is_cut(CLIENT, ONE));
    }

    #[test]
    fn messages_meet_with_what_was_asked_for() {
        let quality = Quality { lost_per_mille: 100, doubled_per_mille: 50, late_per_mille: 20, ..Quality::default() };
        let mut network = Network::new(quality, Rng::new(7));
        let mut delays: Vec<Span> = (0..20_000).flat_map(|_| network.send(ONE, TWO)).flatten().collect();
        delays.sort_unstable();
        let Counters { messages, lost, doubled, late, cut_off } = network.counters;
        assert_eq!((messages, cut_off), (20_000, 0));
        assert!((1_800..2_200).contains(&lost) && (750..1_050).contains(&doubled) && (280..480).contains(&late));
        assert!(delays[0] >= quality.delay_min && delays[delays.len() / 2] < Span::from_us(300));
        assert!(delays[delays.len() - 1] > Span::from_ms(30));
    }
}
