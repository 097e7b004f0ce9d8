//! What stands between servers so that they can be parted: each is reached through a port of the relay.
//!
//! The first frame of a connection says who has made it and whom it means to reach. Between parted servers bytes wait and
//! connections stay open, as they do when a cable is pulled. Clients are never parted from servers.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use store::protocol::{FRAME_HEADER, Hello, Role, decode};

/// The longest first frame.
const HELLO_MAX: usize = 4_096;
/// Bytes in one step.
const CHUNK_BYTES: usize = 64 << 10;

/// Which nodes hear each other.
#[derive(Debug, Default)]
struct Parted {
    /// Pairs of nodes, the smaller number first.
    pairs: BTreeSet<(usize, usize)>,
    /// The relay ends.
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    parted: Mutex<Parted>,
    changed: Condvar,
}

/// The relay. Its threads end with it and with their connections.
#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    addresses: Vec<String>,
}

impl Relay {
    /// A port for each of these addresses.
    pub fn start(host: Ipv4Addr, targets: &[String]) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut addresses = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let listener = TcpListener::bind((host, 0))?;
            addresses.push(listener.local_addr()?.to_string());
            let (shared, target) = (Arc::clone(&shared), target.clone());
            thread::Builder::new().name("relay".into()).spawn(move || accept(&listener, number, &target, &shared))?;
        }
        Ok(Self { shared, addresses })
    }

    /// Where the nodes are reached, in their order.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// From now on no byte passes between nodes, numbered from 1, that are in different groups of one of these partitions.
    pub fn part(&self, partitions: &[Vec<Vec<u32>>]) {
        let mut pairs = BTreeSet::new();
        for groups in partitions {
            for (i, one) in groups.iter().enumerate() {
                for (&a, &b) in one.iter().flat_map(|a| groups[i + 1..].iter().flatten().map(move |b| (a, b))) {
                    let (a, b) = (a as usize - 1, b as usize - 1);
                    pairs.insert((a.min(b), a.max(b)));
                }
            }
        }
        self.shared.change(|parted| parted.pairs = pairs);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.change(|parted| parted.over = true);
        for address in &self.addresses {
            // It wakes the one who accepts; if it fails, nobody accepts any more.
            let _ = TcpStream::connect(address);
        }
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Parted)) {
        change(&mut self.parted.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits until bytes may pass between the two; `false` if the relay ends.
    fn may_pass(&self, pair: Option<(usize, usize)>) -> bool {
        let parted = self.parted.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |parted: &mut Parted| !parted.over && pair.is_some_and(|pair| parted.pairs.contains(&pair));
        let parted = self.changed.wait_while(parted, waits).unwrap_or_else(PoisonError::into_inner);
        !parted.over
    }
}

fn accept(listener: &TcpListener, number: usize, target: &str, shared: &Arc<Shared>) {
    for incoming in listener.incoming() {
        if !shared.may_pass(None) {
            return;
        }
        let Ok(incoming) = incoming else { continue };
        let (shared, target) = (Arc::clone(shared), target.to_owned());
        // Without a thread the connection is closed, and made again.
        let _ = thread::Builder::new().name("relay".into()).spawn(move || {
            // An end of either side ends the other.
            let _ = connection(&incoming, number, &target, &shared);
            let _ = incoming.shutdown(Shutdown::Both);
        });
    }
}

fn connection(incoming: &TcpStream, number: usize, target: &str, shared: &Arc<Shared>) -> io::Result<()> {
    incoming.set_nodelay(true)?;
    let first = first_frame(&mut &*incoming)?;
    let pair = peer(&first).map(|peer| (peer.min(number), peer.max(number)));
    if !shared.may_pass(pair) {
        return Ok(());
    }
    let outgoing = TcpStream::connect(target)?;
    outgoing.set_nodelay(true)?;
    (&outgoing).write_all(&first)?;
    thread::scope(|scope| {
        scope.spawn(|| copy(&outgoing, incoming, pair, shared));
        copy(incoming, &outgoing, pair, shared);
    });
    Ok(())
}

/// Until one side ends.
fn copy(mut from: &TcpStream, mut to: &TcpStream, pair: Option<(usize, usize)>, shared: &Shared) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if !shared.may_pass(pair) || to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    // The other direction waits for one of them.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// The first frame, header and all.
fn first_frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut header = [0; FRAME_HEADER];
    from.read_exact(&mut header)?;
    let length = u32::from_le_bytes(header) as usize;
    if length > HELLO_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the first frame is no hello"));
    }
    let mut frame = header.to_vec();
    frame.resize(FRAME_HEADER + length, 0);
    from.read_exact(&mut frame[FRAME_HEADER..])?;
    Ok(frame)
}

/// The node, from 0, that made the connection; nothing if a client did. Nodes join in their order, and the cluster numbers
/// its servers from 1.
fn peer(frame: &[u8]) -> Option<usize> {
    match decode::<Hello>(&frame[FRAME_HEADER..]).ok()?.role {
        Role::Peer { server, .. } => usize::try_from(server.0).ok()?.checked_sub(1),
        Role::Client { .. } | Role::User { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use machine::ServerId;
    use store::protocol::encode_frame;

    use super::*;

    fn hello(role: Role) -> Vec<u8> {
        let mut frame = Vec::new();
        encode_frame(&Hello::new(role), &mut frame).unwrap();
        frame
    }

    fn as_server(server: u64) -> Vec<u8> {
        hello(Role::Peer { cluster: 7, server: ServerId(server), to: ServerId(1) })
    }

    /// A server behind a relay that sends back what it gets.
    fn echo() -> (Relay, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay::start(Ipv4Addr::LOCALHOST, &[listener.local_addr().unwrap().to_string()]).unwrap();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                thread::spawn(move || io::copy(&mut &socket, &mut &socket));
            }
        });
        let socket = TcpStream::connect(&relay.addresses()[0]).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (relay, socket)
    }

    fn comes_back(socket: &mut TcpStream, bytes: &[u8]) -> bool {
        let mut back = vec![0; bytes.len()];
        socket.read_exact(&mut back).is_ok_and(|()| back == bytes)
    }

    #[test]
    fn parted_servers_wait_and_lose_nothing() {
        let (relay, mut socket) = echo();
        socket.write_all(&as_server(3)).unwrap();
        assert!(comes_back(&mut socket, &as_server(3)));
        relay.part(&[vec![vec![1, 2], vec![3]]]);
        socket.write_all(b"abc").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(!comes_back(&mut socket, b"abc"), "nothing passes between 1 and 3");
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        relay.part(&[vec![vec![1, 3], vec![2]]]);
        assert!(comes_back(&mut socket, b"abc"), "what waited has come");
    }

    #[test]
    fn clients_are_not_parted_from_servers() {
        let (relay, mut socket) = echo();
        relay.part(&[vec![vec![1], vec![2], vec![3]]]);
        let frame = hello(Role::Client { session: 3 });
        socket.write_all(&frame).unwrap();
        assert!(comes_back(&mut socket, &frame));
    }

    #[test]
    fn what_is_no_hello_is_not_taken_into_memory() {
        let mut bytes: &[u8] = &[255; 32];
        assert_eq!(first_frame(&mut bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(peer(&[4, 0, 0, 0, 9, 9, 9, 9]), None);
    }
}
