//! Lists of countries by addresses: any text is read or refused with a line of it, and of what is read each address has the country of the smallest range that it is in.
#![no_main]

use balance::{Country, CountryList, CountryRules, SourceFilter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match CountryList::parse(&text) {
        Ok(list) => {
            let rules = CountryRules { allow: Vec::new(), deny: Country::parse("DE").into_iter().collect() };
            let filter = SourceFilter::default().with_countries(&list, &rules);
            for address in [0, 0x0a00_0001, u128::from(u32::MAX), 1 << 32, u128::MAX] {
                let _ = filter.check(address);
            }
            // Nothing but the text counts.
            assert!(CountryList::parse(&text).is_ok_and(|again| again == list));
        }
        Err(error) => assert!(error.line > 0 && error.line <= text.lines().count()),
    }
});
