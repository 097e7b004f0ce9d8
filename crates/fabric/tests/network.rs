//! A network with something more in its file.

use fabric::{Error, Fabric, Problem, Source, parse};

/// Reads a network's text with what stands behind it.
pub fn read(network: &str, more: &str) -> Result<Fabric, Error> {
    parse(&Source { name: "net.fabric.yaml".into(), text: format!("{network}{more}") })
}

/// Line and column of each problem, what it says, and its hint.
pub fn problems(network: &str, more: &str) -> Vec<String> {
    let error = read(network, more).expect_err("it has a problem");
    let line =
        |problem: &Problem| format!("{}:{} {} ({})", problem.line, problem.column, problem.message, problem.hint);
    error.problems().iter().map(line).collect()
}

/// What each problem marks, what it says, and its hint.
pub fn said(source: &Source) -> String {
    let error = parse(source).expect_err(&source.text);
    let said = error.problems().iter().map(|problem| {
        let marked = &source.text[problem.span.offset()..][..problem.span.len()];
        format!("[{marked}] {}; {}", problem.message, problem.hint)
    });
    said.collect::<Vec<_>>().join("\n")
}
