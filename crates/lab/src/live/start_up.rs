//! How long the programs of a run may take to start, and that they have.
//!
//! Each flow has programs of its own, which are started one after the other: some milliseconds apart, on a busy machine more. The window begins when
//! the first flow's warm-up is over, so that no flow has ended when it ends. So that none has yet to begin, the warm-up is longer where there are many.

use std::time::{Duration, Instant};

use machine::Span;

use super::flow::{FlowFailure, LiveFlow};

/// How long flows may take to start: all of them, and each.
const ALL: Span = Span::from_ms(200);
const EACH: Span = Span::from_ms(25);

/// The warm-up of all flows, if the file has them warm up so long: a half of it is for starting them, and if that is not enough, it is longer.
/// `others_took`: how long it has just taken to start as many other programs, as far as that is known. On a busy machine it says more than constants do.
pub(crate) fn warm_up(flows: usize, asked: Span, others_took: Duration) -> Span {
    let others_took = Span::from_ns(others_took.as_nanos() as u64);
    let starting = if flows > 1 { ALL + (EACH * flows as u64).max(others_took * 2) } else { Span::ZERO };
    asked.max(asked / 2 + starting)
}

/// iperf3 takes whole seconds: a fraction counts as one.
pub(crate) fn whole_seconds(span: Span) -> u64 {
    span.as_ps().div_ceil(1_000_000_000_000)
}

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
    fn many_flows_warm_up_for_longer() {
        let ms = |flows, asked| warm_up(flows, Span::from_ms(asked), Duration::from_millis(300)).as_ns() / 1_000_000;
        assert_eq!([ms(1, 0), ms(1, 100)], [0, 100]);
        // 250 may take 6,450 ms; the others as long as they may where as many programs took 300 ms.
        assert_eq!([ms(2, 0), ms(16, 1_000), ms(16, 2_000), ms(250, 2_000)], [800, 1_300, 2_000, 7_450]);
    }

    #[test]
    fn seconds_are_whole() {
        let seconds = [0, 1, 999, 1_000, 1_001].map(|ms| whole_seconds(Span::from_ms(ms)));
        assert_eq!(seconds, [0, 1, 1, 1, 2]);
    }

    #[test]
    fn who_starts_too_late_says_so() {
        let flow = LiveFlow { from: "h1".to_owned(), to: "h2".to_owned(), address: String::new(), port: 1 };
        let now = Instant::now();
        assert!(left(&flow, now + Duration::from_secs(60)).unwrap() > Duration::ZERO);
        let failure = left(&flow, now.checked_sub(Duration::from_millis(1)).unwrap()).unwrap_err();
        assert_eq!((failure.flow.as_str(), failure.host.as_str()), ("h1 -> h2", "h1"));
    }
}
