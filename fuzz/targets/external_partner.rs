//! What another program's bond may send: any frames, by any member, with any pauses. In every mode each frame is handed on once or given
//! back, and nothing waits for longer than it may.
#![no_main]

use std::num::NonZeroU64;

use bond::config::Config;
use bond::end::{End, Framed, Partner, Plan};
use bond::{Carrier, MemberId, MemberSet, Mode, reorder};
use libfuzzer_sys::fuzz_target;
use machine::{Span, Step, Time};

const MEMBERS: usize = 3;
const TIMEOUT: Span = Span::from_ms(2);

struct Frame(usize, Vec<u8>);

impl Framed for Frame {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.1
    }
}

fn end(mode: Mode) -> End<Frame> {
    let members = (0..MEMBERS).map(|n| (format!("eth{n}"), [2, 0, 0, 0, n as u8, 1], Carrier::up(1_000)));
    End::new(
        Time::ZERO,
        &Plan {
            config: Config::new(mode),
            partner: Partner::External { hello: NonZeroU64::new(1) },
            reorder: Some(reorder::Config { buffer: 64, timeout: TIMEOUT }),
            mac: [2, 0, 0, 0, 0, 1],
            members: members.collect(),
            addresses: vec!["10.0.0.1".parse().expect("it is one")],
            partner_uses: MemberSet::EMPTY,
            seed: 1,
        },
    )
}

/// The first byte is the mode; then, before each frame, three bytes: by which member, after what pause in units of 50 us, and how long it is.
fuzz_target!(|bytes: &[u8]| {
    let Some((mode, mut rest)) = bytes.split_first() else { return };
    let mut end = end(Mode::ALL[usize::from(*mode) % Mode::ALL.len()]);
    let mut now = Time::ZERO;
    let mut came: Vec<(Time, bool)> = Vec::new();
    drain(&mut end, now);
    while let Some((&[which, pause, length], behind)) = rest.split_first_chunk::<3>() {
        let (frame, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        let until = now + Span::from_us(50) * u64::from(pause);
        while end.deadline() <= until {
            now = now.max(end.deadline());
            end.expire(now, &mut |frame: Frame| leave(&mut came, now, frame.0));
            drain(&mut end, now);
        }
        now = until;
        let number = came.len();
        came.push((now, false));
        let mut left = Vec::new();
        let member = MemberId::new(usize::from(which) % MEMBERS);
        let received = end.receive_frame(now, member, Frame(number, frame.to_vec()), &mut |frame| left.push(frame.0));
        left.into_iter().chain(received.back.map(|frame| frame.0)).for_each(|number| leave(&mut came, now, number));
        drain(&mut end, now);
        if pause == 255 {
            end.carrier(now, member, if which < 128 { Carrier::up(10_000) } else { Carrier::DOWN });
            drain(&mut end, now);
        }
    }
    end.flush(now, &mut |frame| leave(&mut came, now, frame.0));
    assert!(came.iter().all(|(_, has_left)| *has_left), "a frame was lost");
});

fn leave(came: &mut [(Time, bool)], now: Time, number: usize) {
    let (at, has_left) = &mut came[number];
    assert!(!*has_left, "a frame left twice");
    *has_left = true;
    assert!(now.since(*at) <= TIMEOUT, "it waited too long");
}

fn drain(end: &mut End<Frame>, now: Time) {
    for _ in 0..10_000 {
        if let Step::Wait(_) = end.poll(now) {
            return;
        }
    }
    panic!("it never comes to rest");
}
