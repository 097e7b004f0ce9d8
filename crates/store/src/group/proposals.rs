//! Proposals of a replica that wait, or that are in the log and not applied.

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::nanos::{Span, Time};

use crate::effects::{Asker, Effects, Miss};

/// No batch counts as under way for longer: a disk that once stood still for a minute does not make clients wait.
const PATIENCE_MAX: Span = Span::from_ms(100);

/// Proposals of this replica that wait, or that are in the log and not applied.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    pub(super) waiting: Vec<(Bytes, Asker)>,
    /// The index of the newest entry of the last batch.
    pub(super) last: u64,
    /// When what waits goes at the latest.
    pub(super) due: Time,
    /// How long a batch counts as under way.
    pub(super) patience: Span,
    /// In the log, by index: the term it was proposed in, who waits, and its bytes.
    pub(super) logged: BTreeMap<u64, (u64, Asker, usize)>,
    /// Bytes of proposals in whose place others were made, before anybody noticed that they were lost.
    pub(super) replaced_bytes: usize,
}

impl Proposals {
    /// How long this server's disk takes for a write, about.
    pub(super) fn set_disk_latency(&mut self, latency: Span) {
        self.patience = (latency * 2).min(PATIENCE_MAX);
    }

    /// One has become an entry.
    pub(super) fn note(&mut self, index: u64, term: u64, asker: Asker, bytes: usize) {
        if let Some((_, _, replaced)) = self.logged.insert(index, (term, asker, bytes)) {
            self.replaced_bytes += replaced;
        }
    }

    /// Bytes of those that were replaced since this was asked last: they wait for nothing any more.
    pub(super) fn take_replaced_bytes(&mut self) -> usize {
        std::mem::take(&mut self.replaced_bytes)
    }

    /// The entry at this index is applied: in which term it was proposed here, and who waits for it. Those at lower indices were of a leader
    /// that lost them.
    pub(super) fn applied(&mut self, index: u64, effects: &mut Effects) -> Option<(u64, Asker)> {
        while let Some(lost) = self.logged.first_entry().filter(|lost| *lost.key() < index) {
            let (_, asker, bytes) = lost.remove();
            effects.released_bytes += bytes;
            effects.answers.push((asker, Err(Miss::NotLeader)));
        }
        let (term, asker, bytes) = self.logged.remove(&index)?;
        effects.released_bytes += bytes;
        Some((term, asker))
    }

    /// Leadership was lost: whoever waits for an entry of a term that is not kept asks elsewhere.
    pub(super) fn give_up(&mut self, is_kept: impl Fn(u64) -> bool, effects: &mut Effects) {
        self.logged.retain(|_, (term, asker, bytes)| {
            let stays = is_kept(*term);
            if !stays {
                effects.released_bytes += *bytes;
                effects.answers.push((*asker, Err(Miss::NotLeader)));
            }
            stays
        });
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|(data, asker)| counted(data, *asker));
        let logged = self.logged.values().map(|(_, _, bytes)| *bytes);
        self.replaced_bytes + waiting.chain(logged).sum::<usize>()
    }
}

/// Bytes that are counted for who asked; what the group proposes by itself was counted for nobody.
pub(super) fn counted(data: &Bytes, asker: Asker) -> usize {
    if asker == Asker::Nobody { 0 } else { data.len() }
}

pub(super) fn give_up(refused: Vec<(Bytes, Asker)>, why: Miss, effects: &mut Effects) {
    for (data, asker) in refused {
        effects.released_bytes += counted(&data, asker);
        effects.answers.push((asker, Err(why)));
    }
}
