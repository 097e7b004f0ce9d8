//! Where servers may be, and the connections to them: one each, made when there is something to ask.

use std::collections::BTreeMap;

use machine::nanos::{Span, Time};

use super::ConnectionId;

/// Addresses that are known at a time; further ones that responses name are not learned.
const ENDPOINTS_MAX: usize = 64;

#[derive(Debug)]
struct Endpoint {
    /// The `host:port` of the server.
    address: String,
    connection: Option<Connection>,
    /// Connections in a row that brought no message.
    failures: u32,
    /// Without a connection, none is tried before.
    retry_at: Time,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    is_up: bool,
    /// When it was asked for what it has not answered with any message, or for the connection itself.
    waits_since: Option<Time>,
}

#[derive(Debug)]
pub(super) struct Endpoints {
    /// First those that the user named.
    known: Vec<Endpoint>,
    named: usize,
    /// The one that is asked what has no better place; one of those that the user named.
    home: usize,
    /// The endpoint that each connection belongs to.
    connections: BTreeMap<ConnectionId, usize>,
    next: u64,
}

impl Endpoints {
    pub fn new(addresses: Vec<String>) -> Self {
        let mut endpoints = Self { known: Vec::new(), named: 0, home: 0, connections: BTreeMap::new(), next: 0 };
        for address in addresses {
            endpoints.learn(&address);
        }
        endpoints.named = endpoints.known.len();
        endpoints
    }

    fn find(&self, address: &str) -> Option<usize> {
        self.known.iter().position(|endpoint| endpoint.address == address)
    }

    /// Remembers an address.
    pub fn learn(&mut self, address: &str) {
        if self.find(address).is_none() && self.known.len() < ENDPOINTS_MAX {
            let address = address.to_owned();
            self.known.push(Endpoint { address, connection: None, failures: 0, retry_at: Time::ZERO });
        }
    }

    /// The endpoint to ask: the preferred one, else the home, else the next, the avoided one last. If none may be
    /// tried now: when one may.
    pub fn choose(&self, now: Time, preferred: Option<&str>, avoid: Option<&str>) -> Result<usize, Time> {
        let usable = |&index: &usize| self.known[index].connection.is_some() || self.known[index].retry_at <= now;
        let preferred = preferred.filter(|address| Some(*address) != avoid).and_then(|address| self.find(address));
        if let Some(index) = preferred.filter(usable) {
            return Ok(index);
        }
        let from_home = || (0..self.named).map(|step| (self.home + step) % self.named);
        // Learned ones are asked when no named one can be: the user's may all have been replaced.
        let candidates = || from_home().chain(self.named..self.known.len()).filter(usable);
        let avoided = |index: &usize| Some(self.known[*index].address.as_str()) == avoid;
        let not_avoided = candidates().find(|index| !avoided(index));
        let free_at = || self.known.iter().map(|endpoint| endpoint.retry_at).min().expect("there is an endpoint");
        not_avoided.or_else(|| candidates().next()).ok_or_else(free_at)
    }

    /// The connection to an endpoint, which is made if there is none: then the second value is its address.
    pub fn connection(&mut self, index: usize, now: Time) -> (ConnectionId, Option<String>) {
        let endpoint = &mut self.known[index];
        if let Some(connection) = &endpoint.connection {
            return (connection.id, None);
        }
        self.next += 1;
        let id = ConnectionId(self.next);
        self.connections.insert(id, index);
        endpoint.connection = Some(Connection { id, is_up: false, waits_since: Some(now) });
        (id, Some(endpoint.address.clone()))
    }

    fn of(&self, connection: ConnectionId) -> Option<&Endpoint> {
        self.connections.get(&connection).map(|&index| &self.known[index])
    }

    /// Whether messages can be sent by this connection.
    pub fn is_up(&self, connection: ConnectionId) -> bool {
        self.of(connection).and_then(|endpoint| endpoint.connection.as_ref()).is_some_and(|it| it.is_up)
    }

    /// The connection is made; `false` if it was given up.
    pub fn connected(&mut self, connection: ConnectionId) -> bool {
        let found = self.connections.get(&connection).and_then(|&index| self.known[index].connection.as_mut());
        let Some(found) = found else { return false };
        found.is_up = true;
        found.waits_since = None;
        true
    }

    /// A message has come; `false` if the connection was given up.
    pub fn hear(&mut self, connection: ConnectionId) -> bool {
        let Some(&index) = self.connections.get(&connection) else { return false };
        let endpoint = &mut self.known[index];
        endpoint.failures = 0;
        endpoint.connection.as_mut().expect("it is listed").waits_since = None;
        true
    }

    /// A request was sent.
    pub fn asked(&mut self, connection: ConnectionId, now: Time) {
        let found = self.connections.get(&connection).and_then(|&index| self.known[index].connection.as_mut());
        found.expect("it was chosen").waits_since.get_or_insert(now);
    }

    /// For how long the server has owed any sign of life.
    pub fn silence(&self, connection: ConnectionId, now: Time) -> Span {
        let waits_since = self.of(connection).and_then(|endpoint| endpoint.connection.as_ref()?.waits_since);
        waits_since.map_or(Span::ZERO, |since| now.since(since))
    }

    /// The `host:port` at the other end.
    pub fn address(&self, connection: ConnectionId) -> Option<&str> {
        self.of(connection).map(|endpoint| endpoint.address.as_str())
    }

    /// How many connections to that endpoint in a row came to nothing before this one.
    pub fn failures(&self, connection: ConnectionId) -> Option<u32> {
        self.of(connection).map(|endpoint| endpoint.failures)
    }

    /// Forgets a connection; another is not made before `retry_at`. Its address, if it was not forgotten before.
    pub fn lost(&mut self, connection: ConnectionId, retry_at: Time) -> Option<String> {
        let index = self.connections.remove(&connection)?;
        let endpoint = &mut self.known[index];
        endpoint.connection = None;
        endpoint.failures += 1;
        endpoint.retry_at = retry_at;
        if index == self.home {
            self.home = (self.home + 1) % self.named;
        }
        Some(self.known[index].address.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Endpoints {
        Endpoints::new(["a:1", "b:1", "c:1"].map(String::from).into())
    }

    #[test]
    fn home_first_and_the_avoided_one_last() {
        let mut endpoints = three();
        let now = Time::ZERO;
        assert_eq!(endpoints.choose(now, None, None), Ok(0));
        assert_eq!(endpoints.choose(now, None, Some("a:1")), Ok(1));
        assert_eq!(endpoints.choose(now, Some("c:1"), None), Ok(2));
        assert_eq!(endpoints.choose(now, Some("nowhere:1"), None), Ok(0));
        assert_eq!(endpoints.choose(now, Some("c:1"), Some("c:1")), Ok(0));
        let later = Time::from_ns(1_000);
        for (index, retry_ns) in [(0, 500), (1, 400), (2, 600)] {
            let (id, address) = endpoints.connection(index, now);
            assert!(address.is_some());
            assert!(endpoints.lost(id, Time::from_ns(retry_ns)).is_some());
            assert_eq!(endpoints.lost(id, later), None);
        }
        assert_eq!(endpoints.choose(now, None, None), Err(Time::from_ns(400)));
        assert_eq!(endpoints.choose(Time::from_ns(450), None, Some("b:1")), Ok(1), "it is the only one");
    }

    #[test]
    fn a_lost_home_is_left_and_what_was_learned_comes_last() {
        let mut endpoints = three();
        endpoints.learn("d:1");
        endpoints.learn("a:1");
        let (id, _) = endpoints.connection(0, Time::ZERO);
        assert_eq!(endpoints.connection(0, Time::ZERO), (id, None));
        endpoints.lost(id, Time::from_ns(1));
        assert_eq!(endpoints.choose(Time::from_ns(5), None, None), Ok(1));
        for index in [1, 2, 0] {
            let (id, _) = endpoints.connection(index, Time::ZERO);
            endpoints.lost(id, Time::from_ns(10));
        }
        assert_eq!(endpoints.choose(Time::from_ns(5), None, None), Ok(3));
    }
}
