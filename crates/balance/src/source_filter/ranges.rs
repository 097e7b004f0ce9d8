//! Ranges of addresses, some of them within others: the smallest one that an address is in counts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::address_bits;

/// IPv4 addresses are the numbers below this one.
const IPV4_END: u128 = 1 << 32;

/// A range of addresses, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: u128,
    last: u128,
}

/// Two ranges overlap of which neither lies within the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two ranges of addresses overlap, and neither lies within the other")]
pub struct Overlap {
    /// The one that begins later, by its number among those that were given.
    pub number: usize,
}

impl AddressRange {
    /// From one address to another one of the same family. `None`: of another family, or lower.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        let (low, high) = (address_bits(first), address_bits(last));
        if first.is_ipv4() != last.is_ipv4() || low > high {
            return None;
        }
        // Numbers of IPv6 that are IPv4's are nobody's addresses there (RFC 4291, 2.5.5.1).
        let low = if first.is_ipv4() { low } else { low.max(IPV4_END) };
        (low <= high).then_some(Self { first: low, last: high })
    }

    /// The addresses that begin as `address` does, in its first bits. `None`: there are not so many, or others are set.
    pub fn prefix(address: IpAddr, length: u8) -> Option<Self> {
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let rest = width.checked_sub(u32::from(length))?;
        let hosts = u128::MAX.checked_shr(128 - rest).unwrap_or(0);
        let bits = address_bits(address);
        if bits & hosts != 0 {
            return None;
        }
        let last = bits | hosts;
        let last = if address.is_ipv4() { IpAddr::V4((last as u32).into()) } else { IpAddr::V6(last.into()) };
        Self::new(address, last)
    }

    /// Whether an address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        (self.first..=self.last).contains(&address_bits(address))
    }

    /// How many first bits all of its addresses have in common: of a prefix, its length.
    pub fn common_bits(&self) -> u32 {
        (self.first ^ self.last).leading_zeros() - self.unused_bits()
    }

    /// How many first bits of an address say whether it is in this prefix or not: those of the prefix, or those up to the first one that differs. None of an address of
    /// the other family.
    pub fn bits_that_decide(&self, address: IpAddr) -> u32 {
        if address.is_ipv4() != (self.last < IPV4_END) {
            return 0;
        }
        let differs = (address_bits(address) ^ self.first).leading_zeros() - self.unused_bits();
        self.common_bits().min(differs + 1)
    }

    /// Bits before an address of its family.
    const fn unused_bits(&self) -> u32 {
        if self.last < IPV4_END { 96 } else { 0 }
    }

    /// Reads `10.0.0.0/8`, or an address alone.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.trim().parse().ok()?;
        match length {
            Some(length) => Self::prefix(address, length.trim().parse().ok()?),
            None => Self::new(address, address),
        }
    }
}

/// As its prefix, if it is one: `10.0.0.0/8`.
impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first: IpAddr = if self.last < IPV4_END {
            Ipv4Addr::from_bits(self.first as u32).into()
        } else {
            // The addresses before these are IPv4's.
            Ipv6Addr::from_bits(if self.first == IPV4_END { 0 } else { self.first }).into()
        };
        write!(formatter, "{first}/{}", self.common_bits())
    }
}

/// What holds for the addresses of ranges: from each of these addresses on, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges<T>(Vec<(u128, Option<T>)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + PartialEq> Ranges<T> {
    /// Of two that are the same, the later one counts.
    ///
    /// # Errors
    /// Which one overlaps another one without being within it.
    pub fn new(ranges: &[(AddressRange, T)]) -> Result<Self, Overlap> {
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        // Those that others are within come before them.
        order.sort_by_key(|number| (ranges[*number].0.first, std::cmp::Reverse(ranges[*number].0.last), *number));
        let mut made = Self::default();
        // Those that go on where the next one begins, each within the one before it.
        let mut open: Vec<(u128, T)> = Vec::new();
        for number in order {
            let (AddressRange { first, last }, value) = ranges[number];
            while let Some((end, _)) = open.last().filter(|(end, _)| *end < first) {
                let next = end + 1;
                open.pop();
                made.begin(next, open.last().map(|(_, value)| *value));
            }
            if open.last().is_some_and(|(end, _)| *end < last) {
                return Err(Overlap { number });
            }
            open.push((last, value));
            made.begin(first, Some(value));
        }
        while let Some((end, _)) = open.pop() {
            if let Some(next) = end.checked_add(1) {
                made.begin(next, open.last().map(|(_, value)| *value));
            }
        }
        Ok(made)
    }

    fn begin(&mut self, at: u128, value: Option<T>) {
        if self.0.last().is_some_and(|(last, _)| *last == at) {
            self.0.pop();
        }
        if self.0.last().map_or(value.is_some(), |(_, held)| *held != value) {
            self.0.push((at, value));
        }
    }

    /// What holds for an address.
    pub fn find(&self, address: u128) -> Option<T> {
        let behind = self.0.partition_point(|(first, _)| *first <= address);
        self.0[..behind].last().and_then(|(_, value)| *value)
    }

    /// The same ranges with other values.
    pub fn map<U: Copy + PartialEq>(&self, value: impl Fn(T) -> U) -> Ranges<U> {
        let mut made = Ranges::default();
        self.0.iter().for_each(|(first, held)| made.begin(*first, held.map(&value)));
        made
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> AddressRange {
        AddressRange::parse(text).expect(text)
    }

    proptest! {
        /// What is found is what the longest of all prefixes says that an address has; of the same ones the last.
        #[test]
        fn the_longest_prefix_counts(prefixes in prop::collection::vec((any::<u8>(), 24..=32_u8, 0..9_u8), 0..40)) {
            let all: Vec<(AddressRange, u8)> = prefixes.iter().map(|(low, length, value)| {
                let bits = u32::from(*low) & u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
                (AddressRange::prefix(IpAddr::V4(bits.into()), *length).expect("a prefix"), *value)
            }).collect();
            let ranges = Ranges::new(&all).expect("prefixes are within each other");
            for address in 0..400 {
                let of = all.iter().enumerate().filter(|(_, (range, _))| (range.first..=range.last).contains(&address));
                let longest = of.min_by_key(|(number, (range, _))| (range.last - range.first, std::cmp::Reverse(*number)));
                prop_assert_eq!(ranges.find(address), longest.map(|(_, (_, value))| *value), "{}", address);
            }
            prop_assert!(ranges.0.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        }
    }

    #[test]
    fn ranges_are_read_or_refused() {
        assert_eq!(range("10.0.0.0/8"), AddressRange { first: 0x0a00_0000, last: 0x0aff_ffff });
        assert_eq!(range("10.0.0.1"), range("10.0.0.1/32"));
        assert_eq!(range("fd00::/8").last, u128::MAX >> 8 | 0xfd << 120);
        assert_eq!(range("0.0.0.0/0"), AddressRange { first: 0, last: u32::MAX.into() });
        // All of IPv6 is nothing of IPv4.
        assert_eq!(range("::/0"), AddressRange { first: IPV4_END, last: u128::MAX });
        for wrong in ["10.0.0.1/8", "10.0.0.0/33", "fd00::1/64", "10.0.0", "", "/8", "10.0.0.0/", "::/96"] {
            assert_eq!(AddressRange::parse(wrong), None, "{wrong}");
        }
        let (four, six) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!((AddressRange::new(four, six), AddressRange::new(four, Ipv4Addr::UNSPECIFIED.into())), (None, None));
    }

    #[test]
    fn ranges_that_cross_are_refused() {
        let crossing = |a: (u8, u8), b: (u8, u8)| {
            let range = |(first, last): (u8, u8)| {
                let address = |low| IpAddr::V4(Ipv4Addr::new(10, 0, 0, low));
                (AddressRange::new(address(first), address(last)).expect("a range"), true)
            };
            Ranges::new(&[range(a), range(b)]).map(|_| ())
        };
        assert_eq!(crossing((1, 9), (5, 20)), Err(Overlap { number: 1 }));
        assert_eq!(crossing((5, 20), (1, 9)), Err(Overlap { number: 0 }));
        assert_eq!(crossing((1, 9), (10, 20)), Ok(()));
        assert_eq!(crossing((1, 9), (1, 9)), Ok(()));
    }
}
