//! BBR, version 1, as `tcp_bbr.c` has it (Cardwell et al., CACM 2017): the window and the pace follow a model of the path, the highest rate at which it has
//! delivered and its shortest round trip.
//!
//! ```text
//!                 the rate has not grown by a quarter            what is in flight
//!                 in three round trips                           fits the path
//!   Startup -------------------------------------> Drain ---------------------> ProbeBw  (pace in turns of eight
//!      ^                                                                          | ^     round trips: 5/4, 3/4, 1 ...)
//!      |                                          ten seconds without             v |
//!      +----------------------------------------- a shorter round trip         ProbeRtt  (four segments, 200 ms)
//! ```
//!
//! Rates are segments a microsecond, times 2^24; gains are in 1/256. It also has the kernel's answers to policers ([`long_term`]) and to acknowledgements that
//! come many at once ([`aggregation`]).

mod aggregation;
mod long_term;
mod units;

use machine::{Rng, Span, Time};

use self::aggregation::Aggregation;
use self::long_term::{Count, LongTerm};
use self::units::{BW_SHIFT, BW_UNIT, UNIT, bytes_per_second, micros};
use super::pacing::Pacing;
use super::rate::{Interval, MaxFilter, Rate, Sample};
use super::state::State;
use super::timer::JIFFY;

/// 2 / ln 2: the rate doubles each round trip.
const HIGH_GAIN: u64 = UNIT * 2_885 / 1_000 + 1;
/// Its inverse.
const DRAIN_GAIN: u64 = UNIT * 1_000 / 2_885;
const CWND_GAIN: u64 = 2 * UNIT;
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// A cycle begins anywhere but in its second turn.
const CYCLE_RANDOM: u32 = 7;
/// Round trips for which the highest rate counts.
const BW_ROUNDS: u32 = CYCLE.len() as u32 + 2;
/// How long the shortest round trip counts, and how long the path is emptied for then; in ticks.
const MIN_RTT_TICKS: u64 = Span::from_secs(10).as_ps() / JIFFY.as_ps();
const PROBE_RTT_TICKS: u64 = Span::from_ms(200).as_ps() / JIFFY.as_ps();
const WINDOW_LEAST: u32 = 4;
/// The path is full when the rate has not grown so much, for so many round trips.
const FULL_GROWTH: u64 = UNIT * 5 / 4;
const FULL_ROUNDS: u8 = 3;
/// The initial window of the kernel (`TCP_INIT_CWND`).
const INITIAL: u32 = 10;
/// The largest burst that is reckoned with, bytes (`GSO_LEGACY_MAX_SIZE`, less headers).
const BURST_BYTES: u64 = 65_536 - 1 - 320;
/// Below this rate, bytes a second, bursts have one segment.
const SLOW: u64 = 1_200_000 / 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// What a sender knows when an acknowledgement has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub now: Time,
    pub state: State,
    pub delivered: u32,
    /// Segments lost so far.
    pub lost: u32,
    pub in_flight: u32,
    pub smoothed_rtt: Option<Span>,
    pub segment_bytes: u64,
}

/// The model of a path.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be so, and several may be")]
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mode: Mode,
    pacing_gain: u64,
    cwnd_gain: u64,
    bw: MaxFilter,
    /// Round trips so far; one ends when what was in flight at its beginning has been delivered.
    rounds: u32,
    round_end: u32,
    round_start: bool,
    min_rtt: Option<Span>,
    min_rtt_tick: u64,
    /// When it goes on from `ProbeRtt`; `None`: the path is not empty yet.
    probe_rtt_done: Option<u64>,
    probe_rtt_round_done: bool,
    full_bw: u64,
    full_rounds: u8,
    is_full: bool,
    cycle: usize,
    cycle_at: Time,
    /// In recovery, for one round trip: what leaves is what has arrived.
    conserves: bool,
    prior_state: State,
    prior_window: u32,
    has_seen_rtt: bool,
    long_term: LongTerm,
    aggregation: Aggregation,
    rng: Rng,
}

const fn ticks(time: Time) -> u64 {
    time.as_ps() / JIFFY.as_ps()
}

impl Bbr {
    /// `shortest_rtt`: what the handshake took.
    pub fn new(now: Time, delivered: u32, shortest_rtt: Option<Span>, seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            bw: MaxFilter::default(),
            rounds: 0,
            round_end: delivered,
            round_start: false,
            min_rtt: shortest_rtt,
            min_rtt_tick: ticks(now),
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            full_bw: 0,
            full_rounds: 0,
            is_full: false,
            cycle: 0,
            cycle_at: Time::ZERO,
            conserves: false,
            prior_state: State::Open,
            prior_window: 0,
            has_seen_rtt: false,
            long_term: LongTerm::new(Count { at: now, delivered, lost: 0 }),
            aggregation: Aggregation::new(now),
            rng: Rng::new(seed),
        }
    }

    /// The pace before anything is known of the path (`bbr_init_pacing_rate_from_rtt`).
    pub fn first_pace(&mut self, window: u32, smoothed_rtt: Option<Span>, segment_bytes: u64) -> u64 {
        self.has_seen_rtt = smoothed_rtt.is_some();
        let us = smoothed_rtt.map_or(1_000, |rtt| micros(rtt).max(1));
        bytes_per_second(u64::from(window) * BW_UNIT / us, HIGH_GAIN, segment_bytes)
    }

    /// The least segments of a burst.
    pub const fn burst_least(pace: u64) -> u32 {
        if pace < SLOW { 1 } else { 2 }
    }

    /// The rate of the path.
    const fn rate(&self) -> u64 {
        match self.long_term.rate() {
            Some(rate) => rate,
            None => self.bw.get(),
        }
    }

    /// An acknowledgement has been taken in: the new window and pace (`bbr_main`).
    pub fn on_ack(&mut self, cx: &Context, sample: &Sample, rate: &mut Rate, pacing: &mut Pacing, window: u32) -> u32 {
        let mut window = window;
        self.update_rate(cx, sample, rate.delivered_at);
        if sample.acked > 0 && sample.interval.is_some() {
            let path = (self.rate(), window);
            self.aggregation.update(rate.delivered_at, sample.acked, path, self.round_start);
        }
        self.update_cycle(cx, sample, rate.delivered_at, pacing);
        self.check_full(sample);
        self.check_drain(cx, rate.delivered_at, pacing);
        self.update_min_rtt(cx, sample, rate, &mut window);
        self.update_gains();
        self.set_pace(cx, pacing, window);
        self.set_window(cx, sample, pacing, window)
    }

    /// `bbr_update_bw`.
    fn update_rate(&mut self, cx: &Context, sample: &Sample, delivered_at: Time) {
        self.round_start = false;
        let Some(Interval { prior_delivered, delivered, span }) = sample.interval else { return };
        let us = micros(span);
        if us == 0 {
            return;
        }
        if prior_delivered.wrapping_sub(self.round_end).cast_signed() >= 0 {
            self.round_end = cx.delivered;
            self.rounds = self.rounds.wrapping_add(1);
            self.round_start = true;
            self.conserves = false;
        }
        self.sample_long_term(cx, sample.lost > 0, sample.is_app_limited, delivered_at);
        let bw = u64::from(delivered) * BW_UNIT / us;
        if !sample.is_app_limited || bw >= self.bw.get() {
            self.bw.update(BW_ROUNDS, self.rounds, bw);
        }
    }

    /// `bbr_lt_bw_sampling`.
    fn sample_long_term(&mut self, cx: &Context, losses: bool, is_app_limited: bool, at: Time) {
        let count = Count { at, delivered: cx.delivered, lost: cx.lost };
        if self.long_term.rate().is_none() {
            self.long_term.sample(count, self.round_start, (is_app_limited, losses), cx.segment_bytes);
        } else if self.mode == Mode::ProbeBw && self.round_start && self.long_term.grow_old(count) {
            self.enter_probe_bw(at);
        }
    }

    /// `bbr_update_cycle_phase`.
    fn update_cycle(&mut self, cx: &Context, sample: &Sample, delivered_at: Time, pacing: &Pacing) {
        if self.mode == Mode::ProbeBw && self.is_turn_over(cx, sample, delivered_at, pacing) {
            self.next_turn(delivered_at);
        }
    }

    fn is_turn_over(&self, cx: &Context, sample: &Sample, delivered_at: Time, pacing: &Pacing) -> bool {
        let is_long = self.min_rtt.is_some_and(|rtt| micros(delivered_at.since(self.cycle_at)) > micros(rtt));
        if self.pacing_gain == UNIT {
            return is_long;
        }
        let in_flight = self.in_flight_at_departure(cx, sample.prior_in_flight, pacing);
        let bw = self.bw.get();
        if self.pacing_gain > UNIT {
            return is_long && (sample.lost > 0 || in_flight >= self.target(bw, self.pacing_gain, cx, pacing));
        }
        is_long || in_flight <= self.target(bw, UNIT, cx, pacing)
    }

    const fn next_turn(&mut self, delivered_at: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = delivered_at;
    }

    fn enter_probe_bw(&mut self, delivered_at: Time) {
        self.mode = Mode::ProbeBw;
        self.cycle = CYCLE.len() - 1 - self.rng.below(CYCLE_RANDOM) as usize;
        self.next_turn(delivered_at);
    }

    /// `bbr_check_full_bw_reached`.
    const fn check_full(&mut self, sample: &Sample) {
        if self.is_full || !self.round_start || sample.is_app_limited {
            return;
        }
        if self.bw.get() >= self.full_bw * FULL_GROWTH / UNIT {
            (self.full_bw, self.full_rounds) = (self.bw.get(), 0);
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// `bbr_check_drain`.
    fn check_drain(&mut self, cx: &Context, delivered_at: Time, pacing: &Pacing) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.in_flight_at_departure(cx, cx.in_flight, pacing) <= self.target(self.bw.get(), UNIT, cx, pacing)
        {
            self.enter_probe_bw(delivered_at);
        }
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, cx: &Context, sample: &Sample, rate: &mut Rate, window: &mut u32) {
        let tick = ticks(cx.now);
        let is_old = tick > self.min_rtt_tick + MIN_RTT_TICKS;
        if let Some(rtt) = sample.rtt
            && (is_old || self.min_rtt.is_none_or(|min| micros(rtt) < micros(min)))
        {
            (self.min_rtt, self.min_rtt_tick) = (Some(rtt), tick);
        }
        if is_old && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(*window);
            self.probe_rtt_done = None;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        // The rates of these moments say nothing about the path.
        rate.limit_by_app(cx.delivered, cx.in_flight);
        match self.probe_rtt_done {
            None if cx.in_flight <= WINDOW_LEAST => {
                self.probe_rtt_done = Some(tick + PROBE_RTT_TICKS);
                self.probe_rtt_round_done = false;
                self.round_end = cx.delivered;
            }
            None => {}
            Some(done) => {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done && tick > done {
                    self.min_rtt_tick = tick;
                    *window = (*window).max(self.prior_window);
                    if self.is_full { self.enter_probe_bw(rate.delivered_at) } else { self.mode = Mode::Startup }
                }
            }
        }
    }

    const fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (if self.long_term.rate().is_some() { UNIT } else { CYCLE[self.cycle] }, CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// `bbr_set_pacing_rate`.
    fn set_pace(&mut self, cx: &Context, pacing: &mut Pacing, window: u32) {
        let pace = bytes_per_second(self.rate(), self.pacing_gain, cx.segment_bytes);
        if !self.has_seen_rtt && cx.smoothed_rtt.is_some() {
            pacing.rate = self.first_pace(window, cx.smoothed_rtt, cx.segment_bytes);
        }
        if self.is_full || pace > pacing.rate {
            pacing.rate = pace;
        }
    }

    /// `bbr_set_cwnd`.
    fn set_window(&mut self, cx: &Context, sample: &Sample, pacing: &Pacing, window: u32) -> u32 {
        let mut window = window;
        if sample.acked > 0 && !self.recover_or_restore(cx, sample, &mut window) {
            let mut target = self.bdp(self.rate(), self.cwnd_gain);
            if self.is_full {
                target += self.aggregation.allowance(self.rate());
            }
            target = self.quantized(target, cx, pacing);
            if self.is_full {
                window = (window + sample.acked).min(target);
            } else if window < target || cx.delivered < INITIAL {
                window += sample.acked;
            }
            window = window.max(WINDOW_LEAST);
        }
        if self.mode == Mode::ProbeRtt { window.min(WINDOW_LEAST) } else { window }
    }

    /// Whether what leaves is what has arrived (`bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(&mut self, cx: &Context, sample: &Sample, window: &mut u32) -> bool {
        let before = core::mem::replace(&mut self.prior_state, cx.state);
        let arrived = cx.in_flight + sample.acked;
        if sample.lost > 0 {
            *window = window.saturating_sub(sample.lost).max(1);
        }
        if cx.state == State::Recovery && before != State::Recovery {
            self.conserves = true;
            self.round_end = cx.delivered;
            *window = arrived;
        } else if before >= State::Recovery && cx.state < State::Recovery {
            *window = (*window).max(self.prior_window);
            self.conserves = false;
        }
        if self.conserves {
            *window = (*window).max(arrived);
        }
        self.conserves
    }

    /// Segments that are under way in `gain` shortest round trips (`bbr_bdp`).
    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        let Some(rtt) = self.min_rtt else { return INITIAL };
        let bdp = u128::from(bw) * u128::from(micros(rtt)) * u128::from(gain) / u128::from(UNIT);
        bdp.div_ceil(u128::from(BW_UNIT)).min(u128::from(u32::MAX / 4)) as u32
    }

    /// Room for bursts besides (`bbr_quantization_budget`).
    fn quantized(&self, window: u32, cx: &Context, pacing: &Pacing) -> u32 {
        let even = (window + 3 * Self::burst(cx, pacing)).next_multiple_of(2);
        even + if self.mode == Mode::ProbeBw && self.cycle == 0 { 2 } else { 0 }
    }

    /// `bbr_inflight`.
    fn target(&self, bw: u64, gain: u64, cx: &Context, pacing: &Pacing) -> u32 {
        self.quantized(self.bdp(bw, gain), cx, pacing)
    }

    /// `bbr_tso_segs_goal`.
    fn burst(cx: &Context, pacing: &Pacing) -> u32 {
        let bytes = (pacing.rate >> 10).min(BURST_BYTES);
        ((bytes / cx.segment_bytes) as u32).max(Self::burst_least(pacing.rate)).min(0x7f)
    }

    /// What will be in the network when the next burst leaves (`bbr_packets_in_net_at_edt`).
    fn in_flight_at_departure(&self, cx: &Context, in_flight: u32, pacing: &Pacing) -> u32 {
        let until = micros(pacing.delay(cx.now));
        let delivered = ((u128::from(self.rate()) * u128::from(until)) >> BW_SHIFT).min(u128::from(u32::MAX)) as u32;
        let burst = if self.pacing_gain > UNIT { Self::burst(cx, pacing) } else { 0 };
        (in_flight + burst).saturating_sub(delivered)
    }

    /// A reduction begins: the window is to be the same after it (`bbr_ssthresh`).
    pub fn save_window(&mut self, window: u32) {
        let is_good = self.prior_state < State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if is_good { window } else { self.prior_window.max(window) };
    }

    /// The timer expired (`bbr_set_state`).
    pub fn time_out(&mut self, cx: &Context, delivered_at: Time) {
        self.prior_state = State::Loss;
        self.full_bw = 0;
        self.round_start = true;
        self.sample_long_term(cx, true, false, delivered_at);
    }

    /// The last reduction was one too many (`bbr_undo_cwnd`).
    pub fn undo(&mut self, cx: &Context, delivered_at: Time) {
        (self.full_bw, self.full_rounds) = (0, 0);
        self.long_term = LongTerm::new(Count { at: delivered_at, delivered: cx.delivered, lost: cx.lost });
    }
}
