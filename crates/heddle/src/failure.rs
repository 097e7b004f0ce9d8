//! How a failure is printed: what went wrong, the causes that this does not say already, and what to do.

use std::error::Error;
use std::fmt;

use miette::{Diagnostic, MietteDiagnostic, MietteHandler, MietteHandlerOpts, Report, ReportHandler};

use crate::output::harmless;

/// Prints reports. Messages that end in the words of their cause are complete by themselves: the cause is not printed again.
struct Handler {
    with_causes: MietteHandler,
    alone: MietteHandler,
}

/// Has all reports of this program printed so.
pub fn install() {
    let hook = miette::set_hook(Box::new(|_| {
        Box::new(Handler {
            with_causes: MietteHandlerOpts::new().with_cause_chain().build(),
            alone: MietteHandlerOpts::new().without_cause_chain().build(),
        })
    }));
    // It fails only if there is one already.
    debug_assert!(hook.is_ok(), "reports have one way to be printed");
}

impl ReportHandler for Handler {
    fn debug(&self, error: &dyn Diagnostic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(harmless) = without_control_bytes(error) {
            return self.alone.debug(harmless.as_ref(), f);
        }
        let handler = if says_its_causes(error) { &self.alone } else { &self.with_causes };
        f.write_str(&under_one_heading(&format!("{:?}", Rendered { handler, error })))
    }
}

/// A report as it is printed.
struct Rendered<'a> {
    handler: &'a MietteHandler,
    error: &'a dyn Diagnostic,
}

impl fmt::Debug for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handler.debug(self.error, f)
    }
}

/// What is wrong in a file stands below what says that something is: it needs no heading of its own.
fn under_one_heading(text: &str) -> String {
    text.replace("\nError: \n", "\n")
}

/// An error whose words would command the terminal, as those of a file's name or an argument may: with them written out. What shows a file's text does
/// so by itself.
fn without_control_bytes(error: &dyn Diagnostic) -> Option<Report> {
    let mut words = vec![error.to_string()];
    let mut cause = error.source().filter(|_| !says_its_causes(error));
    while let Some(next) = cause {
        words.push(next.to_string());
        cause = Error::source(next);
    }
    let (words, hint) = (words.join(": "), error.help().map(|hint| hint.to_string()));
    let [shown, shown_hint] = [Some(&words), hint.as_ref()].map(|text| text.map(|text| harmless(text)));
    if error.source_code().is_some() || (shown.as_ref() == Some(&words) && shown_hint == hint) {
        return None;
    }
    let mut diagnostic = MietteDiagnostic::new(shown.unwrap_or_default());
    diagnostic.help = shown_hint;
    Some(Report::new(diagnostic))
}

/// Whether an error's own words hold those of all its causes.
fn says_its_causes(error: &dyn Diagnostic) -> bool {
    let own = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        if !own.contains(&next.to_string()) {
            return false;
        }
        cause = Error::source(next);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure that leaves the cause to its cause.
    #[derive(Debug)]
    struct Short(std::io::Error);

    impl fmt::Display for Short {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot read x")
        }
    }

    impl Error for Short {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    impl Diagnostic for Short {}

    #[test]
    fn what_an_argument_says_does_not_reach_the_terminal_as_a_command() {
        let error = Report::new(Short(std::io::Error::other("\u{1b}[2J is gone")));
        let harmless = without_control_bytes(error.as_ref()).expect("it has control bytes");
        assert_eq!(harmless.to_string(), "cannot read x: \\u{1b}[2J is gone");
        assert!(without_control_bytes(Report::new(Short(std::io::Error::other("gone"))).as_ref()).is_none());
    }

    fn shown(error: &fabric::Error) -> String {
        let handler = MietteHandlerOpts::new().build();
        under_one_heading(&format!("{:?}", Rendered { handler: &handler, error }))
    }

    #[test]
    fn problems_of_a_file_have_one_heading() {
        let text = "topology: { tree: { dept: 3 } }\nlinks: { rate: fast }\n";
        let file = fabric::Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() };
        let text = shown(&fabric::parse(&file).expect_err("it has problems"));
        assert!(text.contains("net.fabric.yaml has ") && !text.contains("Error:"), "{text}");
    }

    #[test]
    fn one_mistake_that_was_typed_is_one_error() {
        let word = fabric::topology_of(Some("net"), "tree").expect_err("it has no depth");
        let text = shown(&word);
        assert!(text.contains("`depth` is missing") && text.contains("write it as in `tree,3`"), "{text}");
        let keys = ["rate=fast".to_owned()];
        let change = shown(&fabric::LinkChange::parse(&keys).expect_err("that is no rate"));
        assert!(change.contains("rate=fast"), "{change}");
        let name = shown(&fabric::template("a b", fabric::Template::Explicit).expect_err("it has a space"));
        for text in [text, change, name] {
            assert_eq!(text.matches('\u{d7}').count(), 1, "{text}");
            assert!(!text.contains("has a problem"), "{text}");
        }
        let keys = ["rate=fast".to_owned(), "delay=slow".to_owned()];
        let both = shown(&fabric::LinkChange::parse(&keys).expect_err("those are none"));
        assert!(both.contains("the command line has 2 problems"), "{both}");
    }

    #[test]
    fn a_cause_is_printed_once() {
        let complete = lab::load(std::path::Path::new("no folder of results")).unwrap_err();
        assert!(complete.source().is_some() && says_its_causes(&complete), "{complete}");
        assert!(!says_its_causes(&Short(std::io::Error::other("the disk is gone"))));
    }
}
