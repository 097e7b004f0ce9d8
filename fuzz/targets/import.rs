//! Files of other tools: any text is a fabric file that is YAML, or is refused. The first byte says which tool's it is taken for.
#![no_main]

use fabric::Source;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((format, text)) = input.split_first() else { return Corpus::Reject };
    let Ok(text) = std::str::from_utf8(text) else { return Corpus::Reject };
    let name = ["x.clab.yml", "x.graphml", "x.py", "x"][usize::from(format % 4)].to_owned();
    if let Ok(imported) = fabric::import(&Source { name, text: text.to_owned() }) {
        let made = Source { name: "made".to_owned(), text: imported.text };
        // It may have more nodes or links than there may be.
        if let Err(error) = fabric::parse(&made) {
            assert!(error.problems().iter().all(|problem| problem.code() != "yaml"), "{}", made.text);
        }
    }
    Corpus::Keep
});
