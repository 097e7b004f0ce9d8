//! Requests that cannot be read: who sent one is told what is wrong with it, and the connection goes on.
//!
//! Whether a path is one is known while the message is decoded. The decoder of the wire format stops there, and does not say why; so a
//! message that it does not take is read a second time, by [`Reader`], which keeps the words of the type that refused its bytes.

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};

use super::{ClientMessage, FrameError, decode};

/// What comes before a request's body: the variant of [`ClientMessage`], session, sequence.
type Head = (u32, u64, u64);

/// [`ClientMessage::Request`] on the wire.
const REQUEST: u32 = 0;

/// Longest reason that is given, in bytes.
const REASON_BYTES_MAX: usize = 512;

/// Why bytes are no message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They are a request with this sequence, and something in it is wrong.
    Request {
        /// The request's.
        sequence: u64,
        /// What is wrong.
        reason: String,
    },
    /// It cannot even be said which request that is.
    Frame(FrameError),
}

/// The message of a client in a frame's body.
///
/// # Errors
/// [`Unreadable`].
pub fn decode_client(body: &[u8]) -> Result<ClientMessage, Unreadable> {
    decode(body).map_err(|error| match postcard::take_from_bytes::<Head>(body) {
        Ok(((REQUEST, _, sequence), _)) => {
            let reason = reason::<ClientMessage>(body).unwrap_or_else(|| error.to_string());
            Unreadable::Request { sequence, reason: format!("the request cannot be read: {reason}") }
        }
        _ => Unreadable::Frame(error),
    })
}

/// What is wrong with the bytes of a message; `None` if nothing is.
fn reason<T: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader { rest: bytes };
    let outcome = T::deserialize(&mut reader);
    let Reason(mut text) = match (outcome, reader.rest.len()) {
        (Ok(_), 0) => return None,
        (Ok(_), more) => Reason(format!("{more} bytes too many")),
        (Err(reason), _) => reason,
    };
    let end = (0..=REASON_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    Some(text)
}

/// What a type says of a value that it does not take.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

impl de::Error for Reason {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads postcard's wire format (<https://postcard.jamesmunns.com/wire-format>).
struct Reader<'de> {
    rest: &'de [u8],
}

impl<'de> Reader<'de> {
    fn take(&mut self, length: usize) -> Result<&'de [u8], Reason> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(Reason("it ends in the midst".into()));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Reason> {
        Ok(self.take(1)?[0])
    }

    /// Seven bits a byte, the lowest first.
    fn varint<T: TryFrom<u128>>(&mut self) -> Result<T, Reason> {
        let mut value = 0_u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return T::try_from(value).map_err(|_| Reason(format!("{value} is too large a number")));
            }
        }
        Err(Reason("a number without an end".into()))
    }

    /// Negative numbers stand between the others: 0, -1, 1, -2, ...
    fn zigzag(&mut self) -> Result<i128, Reason> {
        let value: u128 = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn string(&mut self) -> Result<&'de str, Reason> {
        let length = self.varint()?;
        std::str::from_utf8(self.take(length)?).map_err(|error| Reason(format!("a text that is not UTF-8: {error}")))
    }
}

/// An integer's method, by how it is read.
macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty: $read:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
            let value = self.$read()?;
            visitor.$visit(<$type>::try_from(value).map_err(|_| Reason(format!("{value} is too large a number")))?)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = Reason;

    numbers! {
        deserialize_i16 visit_i16 i16: zigzag;
        deserialize_i32 visit_i32 i32: zigzag;
        deserialize_i64 visit_i64 i64: zigzag;
        deserialize_u16 visit_u16 u16: number;
        deserialize_u32 visit_u32 u32: number;
        deserialize_u64 visit_u64 u64: number;
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Reason> {
        Err(Reason("the wire format does not say of what type a value is".into()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        self.deserialize_any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            other => Err(Reason(format!("{other} is neither true (1) nor false (0)"))),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_i8(self.byte()?.cast_signed())
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        let bytes = self.take(4)?.try_into().expect("four bytes");
        visitor.visit_f32(f32::from_le_bytes(bytes))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        let bytes = self.take(8)?.try_into().expect("eight bytes");
        visitor.visit_f64(f64::from_le_bytes(bytes))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_str(self.string()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_borrowed_str(self.string()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_borrowed_str(self.string()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        let length = self.varint()?;
        visitor.visit_borrowed_bytes(self.take(length)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            other => Err(Reason(format!("{other} is neither something (1) nor nothing (0)"))),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        let left = self.varint()?;
        visitor.visit_seq(Items { reader: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_seq(Items { reader: self, left: length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Reason> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        let left = self.varint()?;
        visitor.visit_map(Items { reader: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Reason> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Reason> {
        visitor.visit_enum(self)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

impl Reader<'_> {
    fn number(&mut self) -> Result<u128, Reason> {
        self.varint()
    }
}

/// What follows in a sequence, a tuple, a structure or a map.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = Reason;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Reason> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

impl<'de> de::MapAccess<'de> for Items<'_, 'de> {
    type Error = Reason;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Reason> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Reason> {
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> de::EnumAccess<'de> for &mut Reader<'de> {
    type Error = Reason;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Reason> {
        let variant: u32 = self.varint()?;
        Ok((seed.deserialize(variant.into_deserializer())?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Reader<'de> {
    type Error = Reason;

    fn unit_variant(self) -> Result<(), Reason> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Reason> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Reason> {
        de::Deserializer::deserialize_tuple(self, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Reason> {
        de::Deserializer::deserialize_tuple(self, fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use placement::ShardId;
    use proptest::prelude::*;
    use tree::{Change, Condition, Expect, Location, Path, Transaction};

    use super::*;
    use crate::protocol::{Admin, Consistency, Request, RequestBody};

    fn at(path: &str) -> Location {
        Location::config(Path::parse(path).expect("a path"))
    }

    fn bytes(body: RequestBody) -> Vec<u8> {
        let request = Request { session: 1 << 40, sequence: 300, acknowledged: 299, timeout_ms: 5_000, body };
        postcard::to_allocvec(&ClientMessage::Request(request)).expect("it can be encoded")
    }

    /// Requests with a path `/car:cars` in each place where there may be one.
    fn with_paths() -> Vec<RequestBody> {
        let (here, path) = (at("/car:cars"), at("/car:cars").path);
        let conditions = vec![Condition { at: here.clone(), expect: Expect::Absent }];
        let put = Change::Put { at: at("/car:cars"), value: b"v".into() };
        vec![
            RequestBody::Get { at: here.clone(), consistency: Consistency::Stale },
            RequestBody::List {
                at: at("/"),
                after: Some(path.clone()),
                limit: 7,
                consistency: Consistency::Linearizable,
            },
            RequestBody::Write(Transaction { conditions, changes: Vec::new() }),
            RequestBody::Write(Transaction { conditions: Vec::new(), changes: vec![put] }),
            RequestBody::Watch { at: here, from: BTreeMap::from([(ShardId(3), 9)]) },
            RequestBody::Offer { offers: vec![("a:b".into(), None), ("a:c".into(), Some(path.clone()))] },
            RequestBody::Call { name: "a:b".into(), path: Some(path), input: vec![1, 2, 3], idempotent: true },
        ]
    }

    #[test]
    fn a_bad_path_is_told_of_wherever_it_stands() {
        for body in with_paths() {
            let good = bytes(body.clone());
            assert!(decode_client(&good).is_ok() && reason::<ClientMessage>(&good).is_none(), "{body:?}");
            let mut bad = good;
            let place = bad.windows(9).position(|window| window == b"/car:cars").expect("it is in it");
            bad[place + 4] = b' ';
            let Err(Unreadable::Request { sequence: 300, reason }) = decode_client(&bad) else { panic!("{body:?}") };
            assert!(reason.contains("at byte 4 of the path: expected") && reason.contains("hint: "), "{reason}");
        }
    }

    #[test]
    fn a_request_of_a_kind_that_nobody_knows_is_answered() {
        let mut unknown = bytes(RequestBody::Admin(Admin::Status));
        let kind = unknown.len() - 2;
        unknown[kind] = 100;
        let Err(Unreadable::Request { reason, .. }) = decode_client(&unknown) else { panic!("it is no request") };
        assert!(reason.contains("variant"), "{reason}");
        let mut long = bytes(RequestBody::Unwatch { watch: 1 });
        long.extend([0; 5]);
        let Err(Unreadable::Request { reason, .. }) = decode_client(&long) else { panic!("it is too long") };
        assert!(reason.ends_with("5 bytes too many"), "{reason}");
    }

    #[test]
    fn what_has_no_sequence_is_no_request() {
        for bytes in [&b""[..], &[0], &[0, 0xff], &[1, 2, 3], &[0xff; 40], b"GET / HTTP/1.1"] {
            assert!(matches!(decode_client(bytes), Err(Unreadable::Frame(_))), "{bytes:?}");
        }
    }

    proptest! {
        /// What is a message has nothing wrong with it.
        #[test]
        fn the_two_readers_agree(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0_u8..10) {
            if let Some(first) = bytes.first_mut() {
                *first %= 2;
            }
            if let Some(body) = bytes.get_mut(5) {
                *body = kind;
            }
            let reason = reason::<ClientMessage>(&bytes);
            prop_assert!(decode::<ClientMessage>(&bytes).is_err() || reason.is_none(), "{:?}", reason);
        }

        #[test]
        fn a_request_with_one_byte_changed_is_read_the_same(which in 0_usize..7, place in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = bytes(with_paths().swap_remove(which));
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let reason = reason::<ClientMessage>(&bytes);
            prop_assert!(decode::<ClientMessage>(&bytes).is_err() || reason.is_none(), "{:?}", reason);
        }
    }
}
