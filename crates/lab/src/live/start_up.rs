//! How long the programs of a run may take to start, and that they have.
//!
//! Each flow has programs of its own, which are started one after the other: some milliseconds apart, on a busy machine more. The window begins when
//! the first flow's warm-up is over, so that no flow has ended when it ends. So that none has yet to begin, the warm-up is longer where there are many.

use std::time::{Duration, Instant};

use super::flow::{FlowFailure, LiveFlow};

/// How much is left of the warm-up for a flow that starts now.
///
/// # Errors
/// If it is over, so that the flow would not have begun when the window does.
pub(crate) fn left(flow: &LiveFlow, warm: Instant) -> Result<Duration, FlowFailure> {
    warm.checked_duration_since(Instant::now()).ok_or_else(|| FlowFailure {
        flow: format!("{} -> {}", flow.from, flow.to),
        host: flow.from.clone(),
        message: "the warm-up was over before it could be started: a longer `warm-up` leaves more time for that"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_starts_too_late_says_so() {
        let flow = LiveFlow { from: "h1".to_owned(), to: "h2".to_owned(), address: String::new(), port: 1 };
        let now = Instant::now();
        assert!(left(&flow, now + Duration::from_secs(60)).unwrap() > Duration::ZERO);
        let failure = left(&flow, now.checked_sub(Duration::from_millis(1)).unwrap()).unwrap_err();
        assert_eq!((failure.flow.as_str(), failure.host.as_str()), ("h1 -> h2", "h1"));
    }
}
