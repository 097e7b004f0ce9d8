//! The name in a certificate: the common name of its subject (RFC 5280, 4.1), by which a user logs in.
//!
//! The certificate was verified before; this only finds the name in it, without believing any length in it.

/// Longest name that is looked at, in bytes; no user has a longer one.
const NAME_LEN_MAX: usize = 128;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const INTEGER: u8 = 0x02;
/// `[0] EXPLICIT Version`, which may be missing.
const VERSION: u8 = 0xa0;
/// `UTF8String`, `PrintableString`, `IA5String`.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];
/// The object identifier 2.5.4.3, `id-at-commonName`.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The common name of a certificate's subject. None if it has none, or more than one: whose it is would be a guess.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let (mut fields, _) = expect(SEQUENCE, expect(SEQUENCE, certificate)?.0)?;
    if let Some((_, rest)) = expect(VERSION, fields) {
        fields = rest;
    }
    let (_, fields) = expect(INTEGER, fields)?;
    // Signature, issuer, validity.
    let (_, fields) = expect(SEQUENCE, fields)?;
    let (_, fields) = expect(SEQUENCE, fields)?;
    let (_, fields) = expect(SEQUENCE, fields)?;
    let (mut subject, _) = expect(SEQUENCE, fields)?;
    let mut found = None;
    while !subject.is_empty() {
        let (mut attributes, rest) = expect(SET, subject)?;
        subject = rest;
        while !attributes.is_empty() {
            let (attribute, rest) = expect(SEQUENCE, attributes)?;
            attributes = rest;
            let (kind, value) = expect(OBJECT_IDENTIFIER, attribute)?;
            if kind == COMMON_NAME && found.replace(text(value)?).is_some() {
                return None;
            }
        }
    }
    found
}

fn text(bytes: &[u8]) -> Option<String> {
    let (tag, content, rest) = element(bytes)?;
    if !STRINGS.contains(&tag) || !rest.is_empty() || content.len() > NAME_LEN_MAX {
        return None;
    }
    std::str::from_utf8(content).ok().map(str::to_owned)
}

/// The content of an element with this tag, and what follows it.
fn expect(wanted: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// Tag and content of an element of DER (X.690, 8.1), and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, mut bytes) = bytes.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let digits = usize::from(first & 0x7f);
        if !(1..=4).contains(&digits) {
            return None;
        }
        let (number, rest) = bytes.split_at_checked(digits)?;
        length = number.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        bytes = rest;
    }
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[&str]) -> Vec<u8> {
        let mut parameters = CertificateParams::new(vec!["host.example.org".to_owned()]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(DnType::OrganizationName, "weavers");
        for name in names {
            parameters.distinguished_name.push(DnType::CommonName, *name);
        }
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_name_is_the_subjects() {
        assert_eq!(common_name(&certificate(&["ann"])).as_deref(), Some("ann"));
        assert_eq!(common_name(&certificate(&["größer"])).as_deref(), Some("größer"));
        assert_eq!(common_name(&certificate(&[])), None);
        assert_eq!(common_name(&certificate(&["a".repeat(200).as_str()])), None);
    }

    #[test]
    fn damaged_bytes_are_no_name_and_no_panic() {
        let whole = certificate(&["ann"]);
        for cut in 0..whole.len() {
            common_name(&whole[..cut]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0x84, 0x85, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                common_name(&damaged);
            }
        }
        // Two names in one subject: a second attribute like the first.
        let at = whole.windows(3).rposition(|bytes| bytes == COMMON_NAME).unwrap();
        assert_eq!(whole[at + 5..at + 8], *b"ann");
    }
}
