//! A client that speaks the protocol by itself.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde::Serialize;
use store::protocol::{ClientMessage, Hello, Request, RequestBody, Role, Welcome, decode, encode_frame};

use super::PATIENCE;

/// It need not be well-behaved.
pub struct Raw {
    pub stream: TcpStream,
    inbox: Vec<u8>,
    sequence: u64,
}

impl Raw {
    pub fn connect(address: &str, session: u64) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut raw = Self { stream, inbox: Vec::new(), sequence: 0 };
        assert!(raw.send(&Hello::new(Role::Client { session })));
        assert!(matches!(raw.receive(), Welcome::Accepted { .. }));
        raw
    }

    /// Whether it was taken as a whole.
    pub fn send<T: Serialize>(&mut self, message: &T) -> bool {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).expect("it fits a frame");
        match self.stream.write_all(&frame) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn ask(&mut self, body: RequestBody) -> bool {
        self.sequence += 1;
        let (sequence, timeout_ms) = (self.sequence, 600_000);
        self.send(&ClientMessage::Request(Request { session: 7, sequence, acknowledged: 1, timeout_ms, body }))
    }

    pub fn receive<T: serde::de::DeserializeOwned>(&mut self) -> T {
        loop {
            if let Some((body, length)) = store::protocol::split_frame(&self.inbox).expect("a frame") {
                let message = decode(body).expect("a message");
                self.inbox.drain(..length);
                return message;
            }
            let mut bytes = vec![0; 1 << 20];
            let read = self.stream.read(&mut bytes).expect("it says something");
            assert!(read > 0, "it was cut off");
            self.inbox.extend_from_slice(&bytes[..read]);
        }
    }
}
