//! How long live runs take: those of TCP are iperf3's, which takes whole seconds.

use std::time::Duration;

use fabric::{Case, Experiment};
use machine::Span;
use transport::TransportKind;

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

/// Whole seconds of warm-up, and those that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveTimes {
    pub warm_up: u64,
    pub measured: u64,
    /// Whether the warm-up is longer than asked for since several flows take time to start.
    pub start_late: bool,
}

/// Whether a case is one of TCP's flows that stay, which iperf3 measures.
pub(crate) fn is_whole_seconds(case: &Case) -> bool {
    case.work.traffic().is_some_and(|traffic| {
        traffic.transport.kind != TransportKind::Udp && traffic.transfers.is_none() && traffic.requests.is_none()
    })
}

/// Those of such a case, if they are others than the file asks for. `flows`: how many there are.
pub(crate) fn live_times(experiment: &Experiment, case: &Case, flows: usize) -> Option<LiveTimes> {
    if !is_whole_seconds(case) {
        return None;
    }
    let asked = (experiment.warm_up, experiment.duration);
    // How long programs have just taken to start is not known yet.
    let warm_up = whole_seconds(warm_up(flows, asked.0, Duration::ZERO));
    let measured = whole_seconds(asked.1).max(1);
    let is_otherwise = (Span::from_secs(warm_up), Span::from_secs(measured)) != asked;
    is_otherwise.then(|| LiveTimes { warm_up, measured, start_late: warm_up > whole_seconds(asked.0) })
}

impl LiveTimes {
    pub fn seconds(self) -> f64 {
        (self.warm_up + self.measured) as f64
    }

    /// `live TCP warms up for 1 s and is measured for 1 s: iperf3 takes whole seconds`
    pub fn in_words(self) -> String {
        let Self { warm_up, measured, start_late } = self;
        let warms_up = if warm_up == 0 { String::new() } else { format!("warms up for {warm_up} s and ") };
        let why = if start_late { ", and several flows take time to start" } else { "" };
        format!("live TCP {warms_up}is measured for {measured} s: iperf3 takes whole seconds{why}")
    }
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
}
