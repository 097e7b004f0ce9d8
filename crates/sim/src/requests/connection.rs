//! A connection to a service: both ends of both directions, and the request that is under way on it.

use machine::{Time, mix};
use transport::{ReceivingEndpoint, Segment, SendingEndpoint, TransportSpec};
use workload::service::Target;

use super::frame::Endpoint;

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sender: SendingEndpoint,
    pub(super) receiver: ReceivingEndpoint,
    /// What was written so far, in bytes of whole segments.
    written: u64,
    /// Payload of the last of them.
    last_bytes: u32,
    segment_bytes: u64,
    /// When the timer events of the sender and of the receiver fire that wait.
    pub(super) armed: [Time; 2],
}

impl Stream {
    fn new(spec: &TransportSpec, seed: u64) -> Self {
        Self {
            sender: SendingEndpoint::new(spec).with_seed(seed),
            receiver: ReceivingEndpoint::new(spec),
            written: 0,
            last_bytes: 0,
            segment_bytes: u64::from(spec.segment_bytes.max(1)),
            armed: [Time::NEVER; 2],
        }
    }

    /// The application writes so many bytes more, one at least.
    pub(super) fn write(&mut self, now: Time, bytes: u64) {
        let before = bytes.saturating_sub(1) / self.segment_bytes * self.segment_bytes;
        self.last_bytes = bytes.saturating_sub(before) as u32;
        self.written += before + self.segment_bytes;
        self.sender.write(now, self.written);
    }

    /// Payload of the segment that begins there, and whether it is the last of what was written.
    pub(super) const fn payload(&self, seq: u64) -> (u32, bool) {
        if seq + self.segment_bytes >= self.written {
            (self.last_bytes, true)
        } else {
            (self.segment_bytes as u32, false)
        }
    }

    /// Whether the other application has read all that was written.
    pub(super) fn is_read(&self) -> bool {
        self.receiver.delivered_bytes() >= self.written
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its place is free.
    Free,
    /// The client waits for it.
    Opening,
    /// It is there.
    Open,
    /// The client has said that it is the end, so often.
    Closing(u32),
    /// The client has reset it, and the server may hear of that.
    Reset,
}

/// A connection, or the place of one.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) generation: u32,
    pub(super) phase: Phase,
    /// Which of the clients' hosts, and which connection of its generator.
    pub(super) client: usize,
    pub(super) slot: u32,
    pub(super) client_end: Endpoint,
    /// Which server it was given to, and the end that it has there.
    pub(super) server: Option<(usize, Endpoint)>,
    /// Where that sees the client.
    pub(super) seen_end: Endpoint,
    pub(super) up: Stream,
    pub(super) down: Stream,
    /// The segment by which its client has asked for it last.
    pub(super) asked: Option<Segment>,
    /// Requests so far; those that the server has read; and those that it has answered.
    pub(super) requests: u32,
    pub(super) served: u32,
    pub(super) answered: u32,
    /// Whether the client waits for an answer.
    pub(super) waits: bool,
    /// What is asked for.
    pub(super) target: Target,
    /// What is answered: its status, and the bytes of its body.
    pub(super) status: u16,
    pub(super) body_bytes: u64,
}

impl Connection {
    /// One that a client opens.
    pub(super) fn new(
        spec: &TransportSpec,
        seed: u64,
        generation: u32,
        (client, slot, client_end): (usize, u32, Endpoint),
    ) -> Self {
        let [up, down] = [1, 2].map(|label| Stream::new(spec, mix(seed ^ mix(u64::from(generation) << 2 | label))));
        Self {
            generation,
            phase: Phase::Opening,
            client,
            slot,
            client_end,
            server: None,
            seen_end: client_end,
            up,
            down,
            asked: None,
            requests: 0,
            served: 0,
            answered: 0,
            waits: false,
            target: Target::Root,
            status: 0,
            body_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_of_a_message_is_as_long_as_what_is_left() {
        let spec = TransportSpec { segment_bytes: 1_000, ..transport_spec() };
        let mut stream = Stream::new(&spec, 1);
        stream.write(Time::ZERO, 2_500);
        assert_eq!([0, 1_000, 2_000].map(|seq| stream.payload(seq)), [(1_000, false), (1_000, false), (500, true)]);
        stream.write(Time::ZERO, 1_000);
        assert_eq!([2_000, 3_000].map(|seq| stream.payload(seq)), [(1_000, false), (1_000, true)]);
        stream.write(Time::ZERO, 1);
        assert_eq!((stream.payload(4_000), stream.is_read()), ((1, true), false));
    }

    fn transport_spec() -> TransportSpec {
        TransportSpec {
            kind: transport::TransportKind::Linux,
            window: transport::ReceiveWindow::Segments(256),
            initial_window: 10,
            duplicate_ack_threshold: 3,
            delayed_ack: None,
            segment_bytes: 1_448,
            header_bytes: 66,
            rto_min: machine::Span::from_ms(200),
            linux: transport::linux::Settings::default(),
        }
    }
}
