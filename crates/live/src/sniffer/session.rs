//! The reader's end of a capture: frames that workers have seen, by their times, as a capture in pcapng.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use wire::VirtioNetPacket;

use super::observer::{Message, Seen};
use super::{Filter, Observer, Target, pcapng};
use crate::tap::{VNET_HEADER, VNET_LAYOUT};

/// How long a frame is held that might be followed by one from before it: workers see frames one after the other, each by itself.
const HELD: Duration = Duration::from_millis(2);

/// Bytes that are written at once, about.
const BATCH: usize = 64 << 10;

/// A capture: what its reader needs.
#[derive(Debug)]
pub struct Session {
    observer: Arc<Observer>,
    receiver: Receiver<Message>,
    snaplen: u32,
    filter: String,
    /// When it began: by the machine's clock, in nanoseconds since 1970, and by one that nobody sets.
    began: (u64, Instant),
    /// What is to come, the earliest first.
    held: BinaryHeap<Reverse<Held>>,
    /// How many have come.
    number: u64,
    /// By interface that the capture has described: how many frames are in it.
    written: Vec<u64>,
    /// Why it ended, if its reader did not ask for it.
    why_ended: Option<&'static str>,
}

/// A frame by its time, and by the order in which it came.
#[derive(Debug)]
struct Held {
    seen: Seen,
    number: u64,
}

impl Held {
    const fn key(&self) -> (u64, u64) {
        (self.seen.at_ns, self.number)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Session {
    /// A capture that begins at a moment, so many nanoseconds after 1970: at these ports, of what the filter lets pass, and of each frame so many bytes.
    pub fn new(targets: &[Target], filter: Option<Filter>, text: &str, snaplen: u32, began: (u64, Instant)) -> Self {
        let (observer, receiver) = Observer::new(filter, snaplen, targets.iter().map(|target| target.name.clone()));
        Self {
            observer: Arc::new(observer),
            receiver,
            snaplen,
            filter: text.trim().to_owned(),
            began,
            held: BinaryHeap::new(),
            number: 0,
            written: Vec::new(),
            why_ended: None,
        }
    }

    /// The end that workers have.
    pub const fn observer(&self) -> &Arc<Observer> {
        &self.observer
    }

    /// The names of the ports at which it looks.
    pub fn ports(&self) -> Vec<String> {
        self.observer.interfaces().iter().map(|interface| interface.name.clone()).collect()
    }

    /// What ends [`Session::write`]: it may be called from elsewhere, and waits for room in the queue if the reader is slow.
    pub fn ender(&self) -> impl Fn() + Send + use<> {
        let observer = Arc::clone(&self.observer);
        move || observer.end()
    }

    /// Writes what is seen until somebody ends it, or until `count` frames are written. `stop` has workers see nothing more for it, and waits until they do not. Returns how many frames are in
    /// the capture.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(mut self, mut out: impl Write, count: Option<u64>, stop: impl FnOnce()) -> io::Result<u64> {
        let written = self.write_all(&mut out, count);
        stop();
        written?;
        // What was seen until then.
        let mut buffer = Vec::new();
        self.take_all();
        let now_ns = self.now_ns();
        while self.put_due(&mut buffer, now_ns, count) {
            out.write_all(&buffer)?;
            buffer.clear();
        }
        // Of one that was added last, nothing may have been written yet.
        self.put_interfaces(&mut buffer);
        let unmatched = self.observer.unmatched();
        let mut unmatched = if unmatched.total() > 0 { unmatched.to_string() } else { String::new() };
        for (interface, written) in self.observer.interfaces().iter().zip(&self.written) {
            let counted =
                pcapng::Statistics { at_ns: now_ns, received: written + interface.lost(), dropped: interface.lost() };
            // That is of all ports together.
            let unmatched = std::mem::take(&mut unmatched);
            let comments = (self.why_ended.unwrap_or_default(), unmatched.as_str());
            pcapng::put_statistics(&mut buffer, interface.number, counted, comments);
        }
        out.write_all(&buffer)?;
        Ok(self.frames())
    }

    fn write_all(&mut self, out: &mut impl Write, count: Option<u64>) -> io::Result<()> {
        let mut buffer = Vec::new();
        pcapng::put_section(&mut buffer, concat!("heddle ", env!("CARGO_PKG_VERSION")));
        self.put_interfaces(&mut buffer);
        loop {
            if !buffer.is_empty() {
                out.write_all(&buffer)?;
                buffer.clear();
            }
            let goes_on = self.wait() && self.take_all();
            let due_ns = self.now_ns().saturating_sub(HELD.as_nanos() as u64);
            while self.put_due(&mut buffer, due_ns, count) {
                out.write_all(&buffer)?;
                buffer.clear();
            }
            if !goes_on || count.is_some_and(|count| self.frames() >= count) {
                return out.write_all(&buffer);
            }
        }
    }

    /// Describes the ports that have come since the last time.
    fn put_interfaces(&mut self, buffer: &mut Vec<u8>) {
        for interface in &self.observer.interfaces()[self.written.len()..] {
            pcapng::put_interface(buffer, &interface.name, self.snaplen, &self.filter);
            self.written.push(0);
        }
    }

    fn frames(&self) -> u64 {
        self.written.iter().sum()
    }

    /// Waits until a frame comes or one is due; false: there will be no more.
    fn wait(&mut self) -> bool {
        let message = match self.held.peek() {
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Reverse(first)) => {
                let wait = Duration::from_nanos(first.seen.at_ns.saturating_sub(self.now_ns())) + HELD;
                self.receiver.recv_timeout(wait)
            }
        };
        match message {
            Ok(Message::Seen(seen)) => {
                self.hold(seen);
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Ok(Message::End(why)) => {
                self.why_ended = why;
                false
            }
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    /// Takes what has come; false: there will be no more.
    fn take_all(&mut self) -> bool {
        loop {
            match self.receiver.try_recv() {
                Ok(Message::Seen(seen)) => self.hold(seen),
                Ok(Message::End(why)) => {
                    self.why_ended = self.why_ended.or(why);
                    return false;
                }
                Err(_) => return true,
            }
        }
    }

    fn hold(&mut self, seen: Seen) {
        self.held.push(Reverse(Held { seen, number: self.number }));
        self.number += 1;
    }

    /// Now, by the clock that frames have their times from.
    fn now_ns(&self) -> u64 {
        self.began.0 + self.began.1.elapsed().as_nanos() as u64
    }

    /// Puts frames from until then into the buffer, as far as the capture has room for them; whether it is full before all are.
    fn put_due(&mut self, buffer: &mut Vec<u8>, until_ns: u64, count: Option<u64>) -> bool {
        while self.held.peek().is_some_and(|Reverse(first)| first.seen.at_ns <= until_ns)
            && count.is_none_or(|count| self.frames() < count)
        {
            if buffer.len() >= BATCH {
                return true;
            }
            let Some(Reverse(Held { mut seen, .. })) = self.held.pop() else { break };
            self.observer.release(seen.weight());
            complete(&mut seen);
            let Seen { at_ns, interface, direction, length, bytes } = &seen;
            let frame = bytes.get(VNET_HEADER..).unwrap_or_default();
            if *interface as usize >= self.written.len() {
                self.put_interfaces(buffer);
            }
            pcapng::put_packet(buffer, (*interface, *direction), *at_ns, *length, frame);
            self.written[*interface as usize] += 1;
        }
        false
    }
}

/// Fills in the checksum that a host's kernel has left to its network card, if all of the frame is there.
fn complete(seen: &mut Seen) {
    if seen.bytes.len() < VNET_HEADER + seen.length as usize {
        return;
    }
    let view = VirtioNetPacket::new_checked(&seen.bytes, VNET_LAYOUT).ok();
    if let Some((at, sum)) = view.and_then(|view| view.missing_checksum()) {
        let at = VNET_HEADER + at;
        seen.bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Direction;
    use super::super::pcapng::{Block, Blocks};
    use super::*;

    fn session(filter: Option<Filter>) -> Session {
        let text = "name: x\nnodes: { h1: host, s1: switch }\nlinks: [{ between: [h1, s1] }]\n";
        let source = fabric::Source { name: "x".to_owned(), text: text.to_owned() };
        let topology = fabric::parse(&source).unwrap().topology;
        Session::new(&Target::find(&topology, "s1").unwrap(), filter, "", 100, (1_000_000_000, Instant::now()))
    }

    /// Frames of a capture, by their first byte, and how many are lost.
    fn read(capture: &[u8]) -> (Vec<u8>, u64) {
        let (mut blocks, mut frames, mut lost) = (Blocks::default(), Vec::new(), 0);
        blocks.push(capture);
        while let Some((_, block)) = blocks.take_block().unwrap() {
            match block {
                Block::Packet { bytes, .. } => frames.push(bytes[0]),
                Block::Statistics { dropped, .. } => lost += dropped,
                Block::Interface { .. } | Block::Other => {}
            }
        }
        (frames, lost)
    }

    fn see(observer: &Observer, at_ns: u64, number: u8) {
        observer.see(at_ns, &observer.interfaces()[0], Direction::Inbound, &[number; VNET_HEADER + 60]);
    }

    #[test]
    fn frames_come_by_their_times_and_those_that_have_not_come_yet_do_not() {
        let session = session(None);
        let observer = Arc::clone(session.observer());
        for (at_ns, number) in [(30, 3), (10, 1), (u64::MAX / 2, 9), (20, 2)] {
            see(&observer, at_ns, number);
        }
        session.ender()();
        let mut out = Vec::new();
        // Seen before the workers hear that nobody wants it any more.
        assert_eq!(session.write(&mut out, None, || see(&observer, 15, 4)).unwrap(), 4);
        assert_eq!(read(&out), (vec![1, 2, 3, 4], 0));
    }

    #[test]
    fn a_port_that_comes_later_is_described_before_its_frames_and_the_end_says_why() {
        let session = session(None);
        let observer = Arc::clone(session.observer());
        see(&observer, 10, 1);
        let added = observer.add_interface("s1:1 (to h2)".to_owned());
        observer.see(20, &added, Direction::Outbound, &[2; VNET_HEADER + 60]);
        assert!(observer.try_end("the network has ended"));
        let mut out = Vec::new();
        session.write(&mut out, None, || drop(observer.add_interface("s1:2 (to h3)".to_owned()))).unwrap();
        let (mut blocks, mut said) = (Blocks::default(), Vec::new());
        blocks.push(&out);
        while let Some((_, block)) = blocks.take_block().unwrap() {
            said.push(match block {
                Block::Packet { interface, .. } => format!("packet at {interface}"),
                Block::Interface { name } => name.to_owned(),
                Block::Statistics { comment, .. } => comment.to_owned(),
                Block::Other => String::new(),
            });
        }
        let why = "the network has ended";
        let expected =
            ["", "s1:0 (to h1)", "s1:1 (to h2)", "packet at 0", "packet at 1", "s1:2 (to h3)", why, why, why];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_capture_ends_after_so_many_frames() {
        let session = session(None);
        let observer = Arc::clone(session.observer());
        for number in 0..9 {
            see(&observer, 10 + u64::from(number), number);
        }
        let mut out = Vec::new();
        session.write(&mut out, Some(4), || {}).unwrap();
        assert_eq!(read(&out), (vec![0, 1, 2, 3], 0));
    }
}
