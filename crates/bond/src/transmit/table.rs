//! The array of usable members, in the order in which they joined: `number % count` means the same member as in the kernel.

use crate::{MEMBERS_MAX, MemberId, MemberSet};

/// The members that may send.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    members: [MemberId; MEMBERS_MAX],
    count: u32,
    /// The upper bits of 2^64 / count, for [`Table::by_number`].
    reciprocal: u64,
    set: MemberSet,
}

impl Table {
    pub(crate) const EMPTY: Self =
        Self { members: [MemberId::new(0); MEMBERS_MAX], count: 0, reciprocal: 0, set: MemberSet::EMPTY };

    pub(crate) fn new(members: impl Iterator<Item = MemberId>) -> Self {
        let mut table = Self::EMPTY;
        for member in members {
            table.members[table.count as usize] = member;
            table.count += 1;
            table.set.insert(member);
        }
        table.reciprocal =
            u64::MAX.checked_div(u64::from(table.count)).map_or(0, |reciprocal| reciprocal.wrapping_add(1));
        table
    }

    /// The member at `number % count`. The remainder is taken by two multiplications, exact for all 32-bit numbers
    /// (Lemire, Kaser, Kurz: Faster remainder by direct computation, 2019).
    #[inline]
    pub(crate) const fn by_number(&self, number: u32) -> Option<MemberId> {
        if self.count == 0 {
            return None;
        }
        let fraction = self.reciprocal.wrapping_mul(number as u64);
        let remainder = ((fraction as u128 * self.count as u128) >> 64) as usize;
        Some(self.members[remainder & (MEMBERS_MAX - 1)])
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) const fn set(&self) -> MemberSet {
        self.set
    }

    pub(crate) fn as_slice(&self) -> &[MemberId] {
        &self.members[..self.count as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_table_has_nobody() {
        assert_eq!(Table::new(std::iter::empty()).by_number(5), None);
    }

    proptest! {
        #[test]
        fn the_remainder_is_exact(number: u32, count in 1..=MEMBERS_MAX) {
            let table = Table::new((0..count).map(MemberId::new));
            for number in [number, 0, u32::MAX, u32::MAX - number % 64] {
                prop_assert_eq!(table.by_number(number).unwrap().index(), number as usize % count);
            }
        }
    }
}
