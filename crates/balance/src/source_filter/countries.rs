//! Which addresses are in which country: a list as text, a range a line.
//!
//! ```text
//! 1.0.0.0/24,AU                 a prefix, and a country by its two letters (ISO 3166-1)
//! 1.0.1.0,1.0.3.255,CN          the first and the last address
//! # a comment; so is what stands behind a country
//! ```

use std::net::IpAddr;

use super::ranges::{AddressRange, Overlap, Ranges};

/// A country, by its two letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Country([u8; 2]);

impl Country {
    /// Reads two letters.
    pub fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_alphabetic).then(|| Self(letters.map(|letter| letter.to_ascii_uppercase())))
    }
}

/// What is wrong with a list of countries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct CountryError {
    /// From 1 on.
    pub line: usize,
    /// What was expected.
    pub problem: &'static str,
}

/// A list of countries that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountryList(Ranges<Country>);

impl CountryList {
    /// Reads a list.
    ///
    /// # Errors
    /// The first line that is wrong, or that overlaps another one.
    pub fn parse(text: &str) -> Result<Self, CountryError> {
        let (mut ranges, mut lines) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem| CountryError { line: number + 1, problem };
            ranges.push(read(line).map_err(wrong)?);
            lines.push(number + 1);
        }
        let overlaps = |Overlap { number }| CountryError {
            line: lines[number],
            problem: "these addresses overlap those of another line, and neither are within the others",
        };
        Ranges::new(&ranges).map(Self).map_err(overlaps)
    }

    pub(super) const fn ranges(&self) -> &Ranges<Country> {
        &self.0
    }
}

fn read(line: &str) -> Result<(AddressRange, Country), &'static str> {
    let mut fields = line.split(',').map(|field| field.trim().trim_matches('"'));
    let first = fields.next().unwrap_or_default();
    let second = fields.next().ok_or("expected a prefix and a country, as in `1.0.0.0/24,AU`")?;
    let (range, country) = match second.parse::<IpAddr>() {
        Ok(last) => {
            let range = first.parse().ok().and_then(|first| AddressRange::new(first, last));
            (range, fields.next().unwrap_or_default())
        }
        Err(_) => (AddressRange::parse(first), second),
    };
    let range =
        range.ok_or("expected a prefix, as in `1.0.0.0/24,AU`, or two addresses, as in `1.0.0.0,1.0.0.255,AU`")?;
    Ok((range, Country::parse(country).ok_or("expected a country by its two letters, as in `1.0.0.0/24,AU`")?))
}

#[cfg(test)]
mod tests {
    use super::super::{CountryRules, Denied, SourceFilter};
    use super::*;
    use crate::config::address_bits;

    const LIST: &str =
        "# made up\n10.0.0.0/8,AA\n10.1.0.0,10.1.255.255,bb,more\n\n\"10.1.2.0/24\",\"CC\"\nfd00::/8,AA\n";

    #[test]
    fn countries_and_prefixes_decide_together() {
        let list = CountryList::parse(LIST).expect("it is a list");
        let ranges =
            |texts: &[&str]| texts.iter().map(|text| AddressRange::parse(text).expect(text)).collect::<Vec<_>>();
        let countries = |texts: &[&str]| texts.iter().map(|text| Country::parse(text).expect(text)).collect::<Vec<_>>();
        let filter = |allow: &[&str], deny: &[&str], rules: Option<(&[&str], &[&str])>| {
            let filter = SourceFilter::new(&ranges(allow), &ranges(deny)).expect("prefixes");
            let rules = rules.map(|(allow, deny)| CountryRules { allow: countries(allow), deny: countries(deny) });
            rules.map_or_else(|| filter.clone(), |rules| filter.clone().with_countries(&list, &rules))
        };
        let (address, country) = (Err(Denied::Address), Err(Denied::Country));
        for (filter, expected) in [
            (filter(&[], &[], None), [Ok(()); 5]),
            (filter(&[], &["10.1.0.0/16"], None), [Ok(()), address, address, Ok(()), Ok(())]),
            (filter(&["10.1.2.0/24"], &["10.1.0.0/16"], None), [address, address, Ok(()), address, address]),
            (filter(&["fd00::/8"], &[], None), [address, address, address, Ok(()), address]),
            (filter(&[], &[], Some((&[], &["BB"]))), [Ok(()), country, Ok(()), Ok(()), Ok(())]),
            (filter(&[], &[], Some((&["cc"], &[]))), [country, country, Ok(()), country, country]),
            (filter(&["10.0.0.7"], &["10.1.2.3"], Some((&[], &["AA"]))), [Ok(()), Ok(()), address, country, Ok(())]),
        ] {
            let clients = ["10.0.0.7", "10.1.0.1", "10.1.2.3", "fd00::1", "192.0.2.1"];
            let found = clients.map(|client| filter.check(address_bits(client.parse().expect("an address"))));
            assert_eq!(found, expected, "{filter:?}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [
            ("10.0.0.0/8", 1),
            ("\n10.0.0.0/8,Germany", 2),
            ("10.0.0.1/8,DE", 1),
            ("10.0.0.9,10.0.0.1,DE", 1),
            ("10.0.0.0,fd00::1,DE", 1),
            ("network,country", 1),
            ("10.0.0.0/8,DE\n10.0.0.0,11.0.0.0,AT\n10.9.0.0,12.0.0.0,CH", 3),
        ] {
            let error = CountryList::parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
        }
        assert_eq!(CountryList::parse(""), Ok(CountryList::default()));
    }
}
