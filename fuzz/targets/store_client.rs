//! What clients send to a server: any frames are refused or answered, and the server goes on.
#![no_main]

#[path = "founder/mod.rs"]
mod founder;

use founder::server;
use libfuzzer_sys::fuzz_target;
use machine::Control;
use machine::nanos::{Span, Step, Time};
use store::protocol::{Hello, Unreadable, decode, decode_client, split_frame};
use store::{ClientId, Input, Output, RequestId, Server};

fn drain(server: &mut Server, now: Time) {
    let mut written = Vec::new();
    loop {
        match server.poll(now) {
            Step::Do(Output::Disk(write)) => written.push(write.id),
            Step::Do(_) => {}
            Step::Wait(_) if written.is_empty() => return,
            Step::Wait(_) => written.drain(..).for_each(|write| server.handle(now, Input::Written(write))),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode::<Hello>(bytes);
    let _ = decode::<store::peer::Envelope>(bytes);
    let mut server = server(1);
    let mut now = Time::ZERO;
    let mut rest = bytes;
    while let Ok(Some((body, used))) = split_frame(rest) {
        rest = &rest[used..];
        now += Span::from_ms(20);
        let message = match decode_client(body) {
            Ok(message) => message,
            Err(Unreadable::Request { reason, .. }) => {
                // It goes into an answer.
                assert!(reason.len() < 1_024);
                continue;
            }
            Err(Unreadable::Frame(_)) => return,
        };
        server.handle(now, Input::Client { client: ClientId(1), id: RequestId(0), message });
        drain(&mut server, now);
    }
    server.handle(now, Input::ClientGone(ClientId(1)));
    drain(&mut server, now + Span::from_secs(1));
});
