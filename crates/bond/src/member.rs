//! One link of a bond: its carrier, and the state that `updelay` and `downdelay` make of it.

use std::fmt;

use machine::{Rebase, Span, Time};

use crate::MEMBERS_MAX;

/// A member: an index below [`MEMBERS_MAX`]. It stays the same while the member is there, and may be given again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u8);

impl MemberId {
    /// The member with this index.
    ///
    /// # Panics
    /// If `index` is not below [`MEMBERS_MAX`].
    pub const fn new(index: usize) -> Self {
        assert!(index < MEMBERS_MAX, "there are 32 members at most");
        Self(index as u8)
    }

    /// The index in a bond's list of members.
    #[inline]
    pub const fn index(self) -> usize {
        // The mask tells the compiler what `new` checked.
        self.0 as usize & (MEMBERS_MAX - 1)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Some members: bit *n* for index *n*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSet(u32);

impl MemberSet {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    /// The set with member `n` where bit `n` is set.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// A bit for each member.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// How many members are in it.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `member` is among them.
    #[inline]
    pub const fn contains(self, member: MemberId) -> bool {
        self.0 >> member.index() & 1 == 1
    }

    /// Adds `member`.
    pub const fn insert(&mut self, member: MemberId) {
        self.0 |= 1 << member.index();
    }

    /// Takes `member` out.
    pub const fn remove(&mut self, member: MemberId) {
        self.0 &= !(1 << member.index());
    }

    /// The members by rising index.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = MemberId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then_some(left.trailing_zeros())?;
            left &= left - 1;
            Some(MemberId::new(next as usize))
        })
    }
}

impl FromIterator<MemberId> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberId>>(members: I) -> Self {
        let mut set = Self::EMPTY;
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

/// What a member's network device says of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The link is there.
    pub up: bool,
    /// Rate in Mbit/s; 0 if it is not known.
    pub speed_mbps: u32,
    /// Both ends may send at once.
    pub full_duplex: bool,
}

impl Carrier {
    /// A link in full duplex.
    pub const fn up(speed_mbps: u32) -> Self {
        Self { up: true, speed_mbps, full_duplex: true }
    }

    /// There is no link.
    pub const DOWN: Self = Self { up: false, speed_mbps: 0, full_duplex: false };
}

/// What the bond makes of a carrier. The driver's four states:
///
/// ```text
///            carrier lost                  downdelay over
///      Up ------------------> Fail --------------------------> Down
///      ^  <------------------  carrier back                     |
///      |                                                        | carrier back
///      |  updelay over, or nobody else is usable                v
///      +---------------------------------------------------- Back ---> Down
///                                                               carrier lost
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The member may be used.
    Up,
    /// Without carrier, but `downdelay` is not over.
    Fail,
    /// The member is not in use.
    Down,
    /// With carrier, but `updelay` is not over.
    Back,
}

/// A member and what is known of it.
#[derive(Clone, Debug)]
pub struct Member {
    pub(crate) name: String,
    /// The address that the device had before it joined.
    pub(crate) permanent_mac: [u8; 6],
    /// The address that the bond gave it.
    pub(crate) mac: [u8; 6],
    pub(crate) carrier: Carrier,
    pub(crate) link: LinkState,
    /// When `Fail` or `Back` ends.
    pub(crate) deadline: Time,
    pub(crate) failures: u32,
    /// When it last became up, joined, or was made active: probing gives it time from there.
    pub(crate) changed_at: Time,
}

impl Member {
    /// The name under which it joined.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's own address.
    pub const fn permanent_mac(&self) -> [u8; 6] {
        self.permanent_mac
    }

    /// The address that the device should have now.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// What its device said last.
    pub const fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// What the bond makes of it.
    pub const fn link(&self) -> LinkState {
        self.link
    }

    /// How often it went down.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it counts as usable: with carrier, or without it for less than `downdelay`.
    pub(crate) const fn is_usable(&self) -> bool {
        matches!(self.link, LinkState::Up | LinkState::Fail)
    }
}

impl Rebase for Member {
    fn rebase(&mut self, by: Span) {
        let Self { name: _, permanent_mac: _, mac: _, carrier: _, link: _, deadline, failures: _, changed_at } = self;
        deadline.rebase(by);
        changed_at.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_bits() {
        let set: MemberSet = [3, 0, 31].map(MemberId::new).into_iter().collect();
        assert_eq!(set.bits(), 1 << 31 | 0b1001);
        assert_eq!(set.iter().map(MemberId::index).collect::<Vec<_>>(), [0, 3, 31]);
        let mut fewer = set;
        fewer.remove(MemberId::new(3));
        assert!(set.contains(MemberId::new(3)) && !fewer.contains(MemberId::new(3)));
        assert_eq!((fewer.len(), MemberSet::EMPTY.is_empty()), (2, true));
    }
}
