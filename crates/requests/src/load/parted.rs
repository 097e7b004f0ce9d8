//! Connections whose last answer has come, and which are left to their servers to close: whoever closes first keeps its port for a minute (TIME-WAIT), and a client soon has no
//! port left, or looks for one longer than for everything else.
//!
//! As soon as the server has closed one, it is closed here, too, as by every other client: balancers count connections, and one that nobody uses must not look like work.

use std::collections::VecDeque;

use machine::{Span, Time};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

/// So long a server may take.
const PATIENCE: Span = Span::from_ms(50);

/// So many connections at most are left to their servers.
const PARTED_MAX: usize = 10_000;

/// The connections, each with a token of its own.
pub struct Parted {
    /// The tokens from this one on are theirs.
    first: usize,
    places: Vec<Option<(u64, TcpStream)>>,
    free: Vec<usize>,
    /// When they were taken, their places, and their numbers: a place may be another one's by now.
    order: VecDeque<(Time, usize, u64)>,
    /// How many there have been.
    count: u64,
}

impl Parted {
    /// None. Tokens below `first` are others'.
    pub const fn new(first: usize) -> Self {
        Self { first, places: Vec::new(), free: Vec::new(), order: VecDeque::new(), count: 0 }
    }

    /// Takes a connection that is registered for something else. One too many is closed at once.
    pub fn take(&mut self, now: Time, mut stream: TcpStream, registry: &Registry) {
        if self.order.len() >= PARTED_MAX {
            self.expire_first();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        // A server that has closed it already is heard of once more.
        if registry.reregister(&mut stream, Token(self.first + place), Interest::READABLE).is_ok() {
            self.count += 1;
            self.places[place] = Some((self.count, stream));
            self.order.push_back((now, place, self.count));
        } else {
            self.free.push(place);
        }
    }

    /// Something has happened to whatever has this token; whether it is one of these.
    pub fn handle(&mut self, token: usize, is_closed: bool) -> bool {
        let Some(place) = token.checked_sub(self.first) else { return false };
        if is_closed {
            self.close(place);
        }
        true
    }

    /// Closes those whose servers take too long.
    pub fn sweep(&mut self, now: Time) {
        while self.order.front().is_some_and(|(since, ..)| now.since(*since) >= PATIENCE) {
            self.expire_first();
        }
    }

    fn expire_first(&mut self) {
        if let Some((_, place, number)) = self.order.pop_front()
            && self.places[place].as_ref().is_some_and(|(own, _)| *own == number)
        {
            self.close(place);
        }
    }

    fn close(&mut self, place: usize) {
        if self.places.get_mut(place).and_then(Option::take).is_some() {
            self.free.push(place);
        }
    }
}
