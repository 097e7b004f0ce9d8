//! Reads [postcard's wire format](https://postcard.jamesmunns.com/wire-format) of bytes that an enemy may have made.
//!
//! What a message costs who reads it is not said by its bytes: a frame of 16 MiB may be one value, or eight million empty texts that
//! take a second and gigabytes. So the entries of all lists and maps of a message are counted against a bound. A list is charged with
//! the length that it claims before its first entry is looked at: what is too much costs nothing, and memory is taken only for entries
//! whose bytes are there.
//!
//! Unlike postcard's own reader this one keeps the words of the type that refused its bytes: nobody has to read them a second time to
//! say what is wrong with them.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

impl de::Error for Malformed {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// How many entries of lists and maps may still be read. One bound may count for several messages.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    left: usize,
    max: usize,
}

impl Entries {
    /// At most so many entries.
    pub const fn at_most(max: usize) -> Self {
        Self { left: max, max }
    }

    /// As many as there are: for bytes that were bounded when they came, as those of a log.
    pub const fn unbounded() -> Self {
        Self::at_most(usize::MAX)
    }

    fn charge(&mut self, count: u64) -> Result<usize, Malformed> {
        let fits = usize::try_from(count).ok().filter(|count| *count <= self.left);
        let Some(count) = fits else {
            let (max, before) = (self.max, self.max - self.left);
            return Err(Malformed(format!(
                "a list or map of {count} entries: all lists and maps together have at most {max} entries, and those before it \
                 {before}"
            )));
        };
        self.left -= count;
        Ok(count)
    }
}

/// The value that bytes are.
///
/// # Errors
/// [`Malformed`], also when something follows the value.
pub fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8], entries: &mut Entries) -> Result<T, Malformed> {
    let mut reader = Reader { rest: bytes, entries };
    let value = T::deserialize(&mut reader)?;
    match reader.rest.len() {
        0 => Ok(value),
        more => Err(Malformed(format!("{more} bytes too many"))),
    }
}

struct Reader<'a, 'de> {
    rest: &'de [u8],
    entries: &'a mut Entries,
}

fn ends() -> Malformed {
    Malformed("it ends in the midst".into())
}

impl<'de> Reader<'_, 'de> {
    fn take(&mut self, length: u64) -> Result<&'de [u8], Malformed> {
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (taken, rest) = split.ok_or_else(ends)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(ends)?;
        self.rest = rest;
        Ok(byte)
    }

    /// Seven bits a byte, the lowest first, for a number of so many bits.
    fn varint(&mut self, bits: u32) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..bits).step_by(7) {
            let byte = self.byte()?;
            let more = u64::from(byte & 0x7f);
            // Of the last byte only some bits fit.
            if bits - shift < 7 && more >> (bits - shift) != 0 {
                return Err(Malformed(format!("a number of more than {bits} bits")));
            }
            value |= more << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("a number without an end".into()))
    }

    /// Negative numbers stand between the others: 0, -1, 1, -2, ...
    fn zigzag(&mut self, bits: u32) -> Result<i64, Malformed> {
        let value = self.varint(bits)?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn bytes(&mut self) -> Result<&'de [u8], Malformed> {
        let length = self.varint(64)?;
        self.take(length)
    }

    fn string(&mut self) -> Result<&'de str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|error| Malformed(format!("a text that is not UTF-8: {error}")))
    }

    /// The length of a list or map.
    fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.varint(64)?;
        self.entries.charge(count)
    }
}

/// An integer's method, by how it is read.
macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty: $read:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
            let value = self.$read(<$type>::BITS)?;
            visitor.$visit(<$type>::try_from(value).map_err(|_| Malformed(format!("{value} is too large a number")))?)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'_, 'de> {
    type Error = Malformed;

    numbers! {
        deserialize_i16 visit_i16 i16: zigzag;
        deserialize_i32 visit_i32 i32: zigzag;
        deserialize_i64 visit_i64 i64: zigzag;
        deserialize_u16 visit_u16 u16: varint;
        deserialize_u32 visit_u32 u32: varint;
        deserialize_u64 visit_u64 u64: varint;
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Malformed> {
        Err(Malformed("the wire format does not say of what type a value is".into()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        self.deserialize_any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            other => Err(Malformed(format!("{other} is neither true (1) nor false (0)"))),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_i8(self.byte()?.cast_signed())
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let bytes = self.take(4)?.try_into().expect("four bytes");
        visitor.visit_f32(f32::from_le_bytes(bytes))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let bytes = self.take(8)?.try_into().expect("eight bytes");
        visitor.visit_f64(f64::from_le_bytes(bytes))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_str(self.string()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_borrowed_str(self.string()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_borrowed_str(self.string()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            other => Err(Malformed(format!("{other} is neither something (1) nor nothing (0)"))),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let left = self.count()?;
        visitor.visit_seq(Items { reader: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Malformed> {
        // Its length is the type's.
        visitor.visit_seq(Items { reader: self, left: length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let left = self.count()?;
        visitor.visit_map(Items { reader: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        visitor.visit_enum(self)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// What follows in a sequence, a tuple, a structure or a map.
struct Items<'r, 'a, 'de> {
    reader: &'r mut Reader<'a, 'de>,
    left: usize,
}

impl Items<'_, '_, '_> {
    /// No more than there are bytes: nothing is made for what is only claimed.
    fn hint(&self) -> usize {
        self.left.min(self.reader.rest.len())
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_, '_, 'de> {
    type Error = Malformed;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'de> de::MapAccess<'de> for Items<'_, '_, 'de> {
    type Error = Malformed;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Malformed> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Malformed> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'de> de::EnumAccess<'de> for &mut Reader<'_, 'de> {
    type Error = Malformed;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Malformed> {
        let variant = self.varint(u32::BITS)? as u32;
        Ok((seed.deserialize(variant.into_deserializer())?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Reader<'_, 'de> {
    type Error = Malformed;

    fn unit_variant(self) -> Result<(), Malformed> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Malformed> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Malformed> {
        de::Deserializer::deserialize_tuple(self, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Malformed> {
        de::Deserializer::deserialize_tuple(self, fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    /// Something of every kind that the wire format has.
    type Everything = (
        (bool, u8, i8, u16, i16),
        (u32, i32, u64, i64, Option<char>),
        (String, Vec<Option<u16>>, BTreeMap<u32, String>, [u8; 3]),
        Result<(), crate::Change>,
    );

    fn read(bytes: &[u8]) -> Result<Everything, Malformed> {
        decode(bytes, &mut Entries::at_most(1_000))
    }

    fn agrees_with_postcard(bytes: &[u8]) {
        let theirs = match postcard::take_from_bytes::<Everything>(bytes) {
            Ok((value, [])) => Some(value),
            Ok(_) | Err(_) => None,
        };
        assert_eq!(read(bytes).ok(), theirs, "{bytes:?}");
    }

    proptest! {
        #[test]
        fn it_reads_what_postcard_reads(
            numbers in any::<((bool, u8, i8, u16, i16), (u32, i32, u64, i64, Option<char>))>(),
            text in ".{0,20}",
            list in vec(any::<Option<u16>>(), 0..10),
            map in btree_map(any::<u32>(), ".{0,3}", 0..5),
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let at = crate::Location::config(crate::Path::parse("/a:b").expect("a path"));
            let value: Everything = (numbers.0, numbers.1, (text, list, map, [1, 2, 3]), Err(crate::Change::Delete { at }));
            let mut bytes = postcard::to_stdvec(&value).expect("it can be written");
            prop_assert_eq!(read(&bytes), Ok(value));
            agrees_with_postcard(&bytes);
            let place = place.index(bytes.len());
            bytes[place] = byte;
            agrees_with_postcard(&bytes);
            agrees_with_postcard(&bytes[..place]);
        }

        #[test]
        fn numbers_end_where_postcard_ends_them(bytes in vec(prop_oneof![Just(0xff), Just(0x80), any::<u8>()], 0..12)) {
            fn same<'de, T: Deserialize<'de> + PartialEq + fmt::Debug>(bytes: &'de [u8]) {
                let theirs = postcard::take_from_bytes::<T>(bytes).ok().filter(|(_, rest)| rest.is_empty());
                let decoded = decode::<T>(bytes, &mut Entries::at_most(0)).ok();
                assert_eq!(decoded, theirs.map(|(value, _)| value), "{bytes:?}");
            }
            same::<u16>(&bytes);
            same::<i16>(&bytes);
            same::<u32>(&bytes);
            same::<i32>(&bytes);
            same::<u64>(&bytes);
            same::<i64>(&bytes);
        }
    }

    #[test]
    fn all_lists_share_one_bound() {
        let bytes = postcard::to_stdvec(&vec![vec![1_u8; 4]; 5]).expect("it can be written");
        let with = |max| decode::<Vec<Vec<u8>>>(&bytes, &mut Entries::at_most(max));
        assert_eq!(with(25), Ok(vec![vec![1; 4]; 5]));
        let Err(Malformed(reason)) = with(24) else { panic!("it is too much") };
        assert!(
            reason.contains("of 4 entries") && reason.contains("at most 24 entries, and those before it 21"),
            "{reason}"
        );
        // What one message has used is used for the next.
        let mut entries = Entries::at_most(40);
        assert!(decode::<Vec<Vec<u8>>>(&bytes, &mut entries).is_ok());
        assert!(decode::<Vec<Vec<u8>>>(&bytes, &mut entries).is_err());
    }

    #[test]
    fn a_claim_takes_no_memory() {
        // Two entries of a thousand.
        let claimed = [0xe8, 0x07, 1, 2];
        assert_eq!(decode::<Vec<u64>>(&claimed, &mut Entries::at_most(1_000)), Err(ends()));
        let endless = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert!(decode::<Vec<u64>>(&endless, &mut Entries::at_most(usize::MAX - 1)).is_err());
        assert!(decode::<&str>(&endless, &mut Entries::at_most(0)).is_err());
    }
}
