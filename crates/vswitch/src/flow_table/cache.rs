//! What has been decided about packets, in front of the tables: packets that are alike are decided about once.
//!
//! The first cache knows single flows, by all that is known of their packets. Behind it are *megaflows*: each decision with the bits that it depends on, so that it
//! holds for all packets that agree in those. In front of both stands, for each port, the megaflow that was found last: who sends a burst mostly sends what is decided about alike,
//! be it of ever so many flows. A change of the tables makes none of them wrong at once: each is decided about anew when a packet comes to it, and
//! stays if it has come out the same.

use serde::{Deserialize, Serialize};

use super::classifier::Classifier;
use super::key::{Key, Slot, WORDS};
use super::matching::Match;
use super::walk::{Decision, Inquiry};
use crate::action::Action;

/// Flows that the first cache knows. A power of two.
const FLOWS: usize = 4_096;
/// Places in which a flow may be.
const WAYS: usize = 2;

/// Of flows that find no room there, one in so many takes another one's.
const REFUSED: u32 = 16;

/// Megaflows of one switch.
const MEGAFLOWS_MAX: usize = 1 << 17;

/// Masks that megaflows may have: each is a look-up for a packet that is new. Whoever sends packets that each need another mask empties the cache, and makes it no
/// slower than that.
const MASKS_MAX: usize = 128;

/// Ports whose last megaflow is known; others share with them. A power of two.
const LATELY: usize = 8;
/// What was found last is looked at first as long as so many packets more have agreed with it than have not, of the last ones.
const LUCK_MAX: u8 = 15;
/// While it is not, one packet in so many tries.
const TRIES: u8 = 32;

/// What caches have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Packets that the first cache knew.
    pub exact_hits: u64,
    /// Packets for which a megaflow was found.
    pub megaflow_hits: u64,
    /// Packets that went through the tables.
    pub misses: u64,
    /// Packets that went through the tables since a megaflow was older than the tables.
    pub revalidations: u64,
    /// Megaflows that made room for others.
    pub evictions: u64,
    /// Megaflows that are there.
    pub megaflows: usize,
    /// Masks that they have.
    pub masks: usize,
}

/// A decision that holds for all packets that agree with `matching`.
#[derive(Debug)]
struct Megaflow {
    matching: Match,
    /// The words of its mask in which there is something, a bit each.
    words: u16,
    decision: Decision,
    /// As of which state of the tables; 0: nothing is here.
    epoch: u64,
    /// No other one has had this number.
    serial: u64,
    is_used: bool,
}

impl Megaflow {
    /// Whether a packet agrees. Word by word: a key was written so just before, and the processor waits for what it reads in other pieces.
    #[inline]
    fn is_of(&self, packet: &Key) -> bool {
        let Match { key, mask } = &self.matching;
        let (mut words, mut differ) = (self.words, 0);
        while words != 0 {
            // There are no more bits than words.
            let word = words.trailing_zeros() as usize % WORDS;
            words &= words - 1;
            differ |= packet.0[word] & mask.0[word] ^ key.0[word];
        }
        differ == 0
    }
}

/// A flow in the first cache: all of its key, and the number of its megaflow.
#[derive(Clone, Debug)]
struct ExactFlow {
    key: Key,
    megaflow: u32,
    /// That of the megaflow when it was found: another one may have its place by now.
    serial: u64,
}

/// What is found about a packet.
#[derive(Clone, Copy, Debug)]
pub struct Cached<'a> {
    pub actions: &'a [Action],
    pub inquiries: &'a [Inquiry],
    pub entries: &'a [u32],
    pub counted: &'a [u32],
    pub is_too_long: bool,
}

/// The caches of one switch.
#[derive(Debug, Default)]
pub struct Cache {
    exact: Vec<ExactFlow>,
    classifier: Option<Classifier>,
    megaflows: Vec<Megaflow>,
    free: Vec<u32>,
    /// The place whose megaflow makes room next.
    hand: usize,
    /// How often tables have changed.
    epoch: u64,
    /// The number of the last megaflow.
    serial: u64,
    /// What is decided about now.
    scratch: Decision,
    seed: u64,
    lately: Lately,
    /// How many flows have found no room in the first cache.
    refused: u32,
    counters: CacheCounters,
}

/// The megaflow of the last packet of each port.
#[derive(Debug, Default)]
struct Lately {
    places: [u32; LATELY],
    /// How many more packets have agreed with it than have not.
    luck: u8,
    /// Packets that have not tried.
    untried: u8,
}

impl Lately {
    /// The last megaflow of a packet's port, if it is worth a look.
    #[inline]
    fn get(&mut self, key: &Key) -> Option<u32> {
        if self.luck == 0 {
            self.untried += 1;
            if self.untried < TRIES {
                return None;
            }
            self.untried = 0;
        }
        Some(self.places[place(key)])
    }

    /// Whether that was it.
    #[inline]
    fn learn(&mut self, is_it: bool) {
        self.luck = if is_it { (self.luck + 1).min(LUCK_MAX) } else { self.luck.saturating_sub(1) };
    }
}

/// Where the last megaflow of a packet's port stands.
#[inline]
const fn place(key: &Key) -> usize {
    key.get(Slot::IN_PORT) as usize & (LATELY - 1)
}

impl Cache {
    pub fn new(seed: u64) -> Self {
        let nothing = ExactFlow { key: Key::default(), megaflow: 0, serial: 0 };
        Self { exact: vec![nothing; FLOWS], classifier: Some(Classifier::new(seed)), epoch: 1, seed, ..Self::default() }
    }

    /// The tables have changed.
    pub const fn outdate(&mut self) {
        self.epoch += 1;
    }

    pub fn counters(&self) -> CacheCounters {
        let masks = self.classifier.as_ref().map_or(0, Classifier::masks);
        CacheCounters { megaflows: self.megaflows.len() - self.free.len(), masks, ..self.counters }
    }

    /// What is decided about a packet with this key. `decide` goes through the tables if nobody knows.
    #[inline]
    pub fn find(&mut self, key: &Key, decide: impl FnOnce(&mut Decision)) -> Cached<'_> {
        if let Some(lately) = self.lately.get(key) {
            let found = self.megaflows.get(lately as usize);
            let is_it = found.is_some_and(|it| it.epoch == self.epoch && it.is_of(key));
            self.lately.learn(is_it);
            if is_it {
                self.counters.megaflow_hits += 1;
                return self.cached(lately);
            }
        }
        let hash = key.hash(self.seed);
        let first = hash as usize & (FLOWS - 1) & !(WAYS - 1);
        let (epoch, megaflows) = (self.epoch, &self.megaflows);
        let is_of_now = |flow: &ExactFlow| {
            megaflows.get(flow.megaflow as usize).is_some_and(|it| (it.epoch, it.serial) == (epoch, flow.serial))
        };
        let known = self.exact[first..first + WAYS].iter().find(|flow| flow.key.is(key) && is_of_now(flow));
        let megaflow = if let Some(known) = known {
            self.counters.exact_hits += 1;
            known.megaflow
        } else {
            // Where flows of now stand already, few of those that come take their place: of more flows than there is room for, each would be gone before it comes again.
            let is_full = self.exact[first..first + WAYS].iter().all(is_of_now);
            let megaflow = self.find_megaflow(key, decide);
            self.refused = if is_full { self.refused.wrapping_add(1) } else { self.refused };
            if !is_full || self.refused.is_multiple_of(REFUSED) {
                // The last one that came moves to the second place.
                self.exact.swap(first, first + 1);
                let serial = self.megaflows[megaflow as usize].serial;
                self.exact[first] = ExactFlow { key: *key, megaflow, serial };
            }
            megaflow
        };
        self.lately.places[place(key)] = megaflow;
        self.cached(megaflow)
    }

    /// What a megaflow says.
    #[inline]
    fn cached(&mut self, megaflow: u32) -> Cached<'_> {
        let Megaflow { decision, is_used, .. } = &mut self.megaflows[megaflow as usize];
        *is_used = true;
        let Decision { actions, inquiries, entries, counted, is_too_long, .. } = &*decision;
        Cached { actions, inquiries, entries, counted, is_too_long: *is_too_long }
    }

    /// The megaflow for a packet, which is made if there is none.
    fn find_megaflow(&mut self, key: &Key, decide: impl FnOnce(&mut Decision)) -> u32 {
        let found = self.classifier.as_ref().and_then(|classifier| classifier.find(key, &mut Key::default()));
        if let Some(found) = found
            && self.megaflows[found as usize].epoch == self.epoch
        {
            self.counters.megaflow_hits += 1;
            return found;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        decide(&mut scratch);
        let Some(found) = found else {
            self.counters.misses += 1;
            let megaflow = self.insert(key, &mut scratch);
            self.scratch = scratch;
            return megaflow;
        };
        self.counters.revalidations += 1;
        let megaflow = &mut self.megaflows[found as usize];
        let mask = &megaflow.matching.mask;
        if scratch.looked_at.is_within(mask) {
            megaflow.epoch = self.epoch;
            std::mem::swap(&mut megaflow.decision, &mut scratch);
            self.scratch = scratch;
            return found;
        }
        self.remove(found);
        let megaflow = self.insert(key, &mut scratch);
        self.scratch = scratch;
        megaflow
    }

    fn insert(&mut self, key: &Key, decision: &mut Decision) -> u32 {
        let mask = decision.looked_at;
        let matching = Match { key: key.masked(&mask), mask };
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.megaflows.len() < MEGAFLOWS_MAX => {
                let decision = Decision::default();
                self.megaflows.push(Megaflow { matching, words: 0, decision, epoch: 0, serial: 0, is_used: false });
                self.megaflows.len() as u32 - 1
            }
            None => self.make_room(),
        };
        self.serial += 1;
        let megaflow = &mut self.megaflows[id as usize];
        (megaflow.matching, megaflow.is_used) = (matching, true);
        megaflow.words = matching.mask.words();
        (megaflow.epoch, megaflow.serial) = (self.epoch, self.serial);
        std::mem::swap(&mut megaflow.decision, decision);
        let Some(classifier) = &mut self.classifier else { return id };
        // One that is older than the tables, and for fewer packets: it would never be found.
        if let Some(old) = classifier.insert(&matching, 0, id)
            && old != id
        {
            self.megaflows[old as usize].epoch = 0;
            self.free.push(old);
        }
        if classifier.masks() > MASKS_MAX {
            self.forget_all_but(id);
        }
        id
    }

    /// The megaflow that has not been used for longest, more or less, makes room.
    fn make_room(&mut self) -> u32 {
        loop {
            self.hand = (self.hand + 1) % self.megaflows.len();
            let megaflow = &mut self.megaflows[self.hand];
            if !std::mem::take(&mut megaflow.is_used) {
                break;
            }
        }
        self.counters.evictions += 1;
        let id = self.hand as u32;
        self.remove(id);
        self.free.pop();
        id
    }

    fn remove(&mut self, id: u32) {
        let matching = self.megaflows[id as usize].matching;
        if let Some(classifier) = &mut self.classifier {
            classifier.remove(&matching, 0);
        }
        self.megaflows[id as usize].epoch = 0;
        self.free.push(id);
    }

    fn forget_all_but(&mut self, id: u32) {
        let mut classifier = Classifier::new(self.seed);
        classifier.insert(&self.megaflows[id as usize].matching, 0, id);
        self.counters.evictions += (self.megaflows.len() - self.free.len()) as u64 - 1;
        self.classifier = Some(classifier);
        self.free = (0..self.megaflows.len() as u32).filter(|other| *other != id).collect();
        self.free.iter().for_each(|other| self.megaflows[*other as usize].epoch = 0);
    }
}
