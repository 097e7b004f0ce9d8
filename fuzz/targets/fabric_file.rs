//! The fabric file: text in, a fabric or errors out. A small fabric also gets its routes, and its schema-checked experiments their
//! cases.
#![no_main]

use fabric::Source;
use libfuzzer_sys::{Corpus, fuzz_target};
use topology::Routes;

/// Routes of more hosts take too long to be tried a thousand times a second.
const HOSTS_MAX: u32 = 64;

fuzz_target!(|text: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(text) else { return Corpus::Reject };
    let source = Source { name: "fuzz.fabric.yaml".into(), text: text.into() };
    match fabric::parse(&source) {
        Ok(fabric) => {
            assert!(fabric.topology.hosts as usize <= fabric.topology.nodes.len());
            if fabric.topology.hosts <= HOSTS_MAX {
                let routes = Routes::compute(&fabric.topology);
                for (id, _) in fabric.topology.switches() {
                    for (host, _) in fabric.topology.hosts() {
                        assert!(!routes.next_hops(id, host).is_empty(), "a checked fabric is connected");
                    }
                }
            }
        }
        Err(error) => {
            assert!(!error.problems().is_empty(), "an error says what is wrong");
            let _ = error.to_string();
        }
    }
    Corpus::Keep
});
