//! How a failure is printed: what went wrong, the causes that this does not say already, and what to do.

use std::error::Error;
use std::fmt;

use miette::{Diagnostic, MietteHandler, MietteHandlerOpts, ReportHandler};

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
        let handler = if says_its_causes(error) { &self.alone } else { &self.with_causes };
        handler.debug(error, f)
    }
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
    fn a_cause_is_printed_once() {
        let complete = lab::load(std::path::Path::new("no folder of results")).unwrap_err();
        assert!(complete.source().is_some() && says_its_causes(&complete), "{complete}");
        assert!(!says_its_causes(&Short(std::io::Error::other("the disk is gone"))));
    }
}
