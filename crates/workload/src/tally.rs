//! How long requests took, and how many failed.

use machine::nanos::Span;

/// Requests that came to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// What the first of them was told.
    pub first: Option<String>,
}

impl Failures {
    /// One more.
    pub fn count(&mut self, why: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(why);
    }
}

/// What came of the requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Latencies of those that succeeded, in the order of their answers.
    pub latencies_ns: Vec<u64>,
    /// From the first request to the last answer.
    pub lasted: Span,
    /// Those that did not.
    pub failures: Failures,
}

impl Tally {
    /// A request succeeded after so long.
    pub fn took(&mut self, latency: Span) {
        self.latencies_ns.push(latency.as_ns());
    }

    /// How many have been answered.
    pub const fn answered(&self) -> u64 {
        self.latencies_ns.len() as u64 + self.failures.count
    }

    /// Requests that succeeded, a second.
    pub fn per_second(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.lasted.as_secs_f64().max(1e-9)
    }

    /// Takes in what another run counted, as if it had come after this one.
    pub fn add(&mut self, other: Self) {
        self.latencies_ns.extend(other.latencies_ns);
        self.lasted = self.lasted + other.lasted;
        self.failures.count += other.failures.count;
        self.failures.first = self.failures.first.take().or(other.failures.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_added_up_in_their_order() {
        let run = |latency_ms, why: &str| {
            let mut tally = Tally { lasted: Span::from_secs(2), ..Tally::default() };
            tally.took(Span::from_ms(latency_ms));
            tally.failures.count(|| why.to_owned());
            tally
        };
        let mut all = run(1, "first");
        all.add(run(3, "second"));
        assert_eq!(all.latencies_ns, [1_000_000, 3_000_000]);
        assert_eq!((all.failures.count, all.failures.first.as_deref()), (2, Some("first")));
        assert_eq!((all.answered(), all.per_second()), (4, 0.5));
    }
}
