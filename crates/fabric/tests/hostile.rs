//! Whatever the text is: no panic, no long wait, and errors that lie within it.
#![allow(clippy::format_collect, clippy::format_push_string, reason = "texts of tests are short")]

use fabric::{Source, parse};
use proptest::prelude::*;
use topology::Routes;

/// Parses; what is accepted must also be fit for use.
fn survives(text: String) {
    let source = Source { name: "hostile.fabric.yaml".to_owned(), text };
    match parse(&source) {
        Ok(fabric) => {
            let cases: usize = fabric.experiments.iter().map(|experiment| experiment.cases().len()).sum();
            assert!(cases <= 2_000_000);
            if fabric.topology.nodes.len() < 200 {
                let _ = Routes::compute(&fabric.topology);
            }
        }
        Err(error) => {
            for problem in error.problems() {
                assert!(problem.span.offset() + problem.span.len() <= source.text.len(), "{problem:?}");
                assert!(source.text.is_char_boundary(problem.span.offset()));
                assert!(problem.line >= 1 && problem.column >= 1 && !problem.hint.is_empty());
                assert!(!problem.code().is_empty(), "{problem:?}");
            }
            // Rendering reads the text at the marked places. Colours are the program's own.
            let rendered = format!("{:?}", miette::Report::new(error));
            assert!(!rendered.is_empty() && !rendered.contains(['\r', '\u{7}', '\u{9b}', '\u{202e}', '\u{feff}']));
        }
    }
}

const SEEDS: [&str; 6] = [
    include_str!("../../../fabrics/explicit.fabric.yaml"),
    include_str!("../../../fabrics/fat-tree.fabric.yaml"),
    include_str!("../../../fabrics/quickstart.fabric.yaml"),
    include_str!("../../../fabrics/controllers.fabric.yaml"),
    include_str!("../../../fabrics/paper/3-fabric-multipath.fabric.yaml"),
    include_str!("../../../fabrics/bonds.fabric.yaml"),
];

/// What mutations put in: YAML's own characters, numbers at the edge, keys in the wrong place.
const PIECES: [&str; 42] = [
    ":",
    "\n",
    "  ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "&a ",
    "*a",
    "<<: ",
    "!!int ",
    "|\n",
    "#",
    "\t",
    "0",
    "-1",
    "4294967296",
    "18446744073709551616",
    "1e308",
    "nan",
    "~",
    "µ",
    "\u{feff}",
    "\r",
    "hosts",
    "nodes",
    "k: 6",
    "pairs",
    "kill: 9",
    "[[1], [2]]",
    "election",
    "cluster: {",
    "\u{1f9f5}",
    "\u{7}",
    "\\e[1m",
    "\u{202e}",
    "0x10",
    ">= 1 Mbit/s",
    "repeat: { until: 5 %, at-most: 9 }",
];

proptest! {
    #[test]
    fn any_text(text in "\\PC{0,400}") {
        survives(text);
    }

    #[test]
    fn text_of_pieces(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..80)) {
        survives(pieces.concat());
    }

    #[test]
    fn mutated_files(
        seed in prop::sample::select(&SEEDS[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(&PIECES[..])), 1..6),
    ) {
        let mut chars: Vec<char> = seed.chars().collect();
        for (at, cut, piece) in edits {
            let at = at.index(chars.len().max(1)).min(chars.len());
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, piece.chars());
        }
        survives(chars.into_iter().collect());
    }
}

#[test]
fn deep_nesting_in_every_form() {
    for text in [
        "[".repeat(150_000),
        "{a: ".repeat(70_000),
        "- ".repeat(130_000),
        "? ".repeat(130_000),
        (0..1_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect(),
        format!("topology: {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        "!!map ".repeat(100_000),
        "&a ".repeat(100_000),
    ] {
        survives(text);
    }
}

/// What took quadratic time would not end here.
#[test]
fn a_million_bytes_of_anything_end() {
    let unknown_links = "  - between: [x, y]\n".repeat(4_000);
    let nodes: String = (0..1_000).map(|i| format!("  n{i}: switch\n")).collect();
    let unknown_links = format!("nodes:\n  h: host\n{nodes}links:\n{unknown_links}");
    let pairs = format!("[{}]", vec!["[h1,q9]"; 20_000].join(",\n  "));
    for text in [
        (0..10_000).map(|i| format!("k{i}: 0\n")).collect(),
        unknown_links,
        format!(
            "topology: {{ fat-tree: {{ k: 48 }} }}\nexperiments: {{ a: {{ traffic: {{ pattern: {{ pairs: {pairs} }} }} }} }}\n"
        ),
        format!("name: {}\n", "x".repeat(1_000_000)),
        format!("description: |\n{}", "  µµµµµµµµ\n".repeat(50_000)),
        "a".repeat(1 << 20),
        "\t".repeat(15_999) + "x",
        format!("{}: x", "µ".repeat(7_000)),
        "#".repeat(1 << 20),
    ] {
        survives(text);
    }
}

#[test]
fn the_seeds_are_sound() {
    for text in SEEDS {
        assert!(parse(&Source { name: "x".to_owned(), text: text.to_owned() }).is_ok(), "{text}");
    }
}

#[test]
fn windows_line_ends_and_byte_order_marks() {
    let text = SEEDS[2].replace('\n', "\r\n");
    assert!(parse(&Source { name: "x".to_owned(), text: format!("\u{feff}{text}") }).is_ok());
    survives(format!("\u{feff}{}", text.replace("100Mbit", "100Mb")));
}
