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

    /// Takes a connection that is registered for something else. If that is one too many, the oldest is closed.
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Shutdown, TcpListener};

    use mio::{Events, Poll};

    use super::*;

    /// Its client's token is `0`.
    fn connection(poll: &Poll, listener: &TcpListener) -> (TcpStream, std::net::TcpStream) {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        poll.registry().register(&mut client, Token(0), Interest::READABLE | Interest::WRITABLE).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn is_closed_at(server: &mut std::net::TcpStream) -> bool {
        server.set_nonblocking(false).unwrap();
        matches!(server.read(&mut [0]), Ok(0))
    }

    fn is_open_at(server: &mut std::net::TcpStream) -> bool {
        server.set_nonblocking(true).unwrap();
        matches!(server.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    #[test]
    fn what_its_server_has_closed_is_closed_at_once_and_all_else_in_time() {
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(8));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut parted = Parted::new(1);
        let at = |ms| Time::ZERO + Span::from_ms(ms);

        // One that was closed before it was taken, which is heard of all the same.
        let (client, mut server) = connection(&poll, &listener);
        server.shutdown(Shutdown::Write).unwrap();
        parted.take(at(0), client, poll.registry());
        while parted.places[0].is_some() {
            poll.poll(&mut events, None).unwrap();
            for event in &events {
                // Others' tokens are none of it.
                assert_eq!(parted.handle(event.token().0, event.is_read_closed()), event.token() == Token(1));
            }
        }
        assert!(is_closed_at(&mut server));

        // The next one has its place, and is not closed in its stead.
        let (client, mut server) = connection(&poll, &listener);
        parted.take(at(40), client, poll.registry());
        parted.sweep(at(60));
        assert_eq!(parted.places.len(), 1);
        assert!(is_open_at(&mut server));
        parted.sweep(at(90));
        assert!(is_closed_at(&mut server));
    }

    #[test]
    fn so_many_are_left_to_their_servers_and_no_more() {
        let poll = Poll::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut parted = Parted::new(1);
        let (client, mut oldest) = connection(&poll, &listener);
        parted.take(Time::ZERO, client, poll.registry());
        let number = parted.count;
        // As if as many had been taken since, and closed.
        parted.order.extend((1..PARTED_MAX).map(|_| (Time::ZERO, 0, number + 1)));
        assert!(is_open_at(&mut oldest));
        let (client, mut newest) = connection(&poll, &listener);
        parted.take(Time::ZERO, client, poll.registry());
        assert!(is_closed_at(&mut oldest) && is_open_at(&mut newest));
        assert_eq!(parted.order.len(), PARTED_MAX);
    }
}
