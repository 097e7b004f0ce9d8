//! What crosses links of a simulated network, as frames for a capture: with the headers that their hosts would have written, at simulated time.

mod frame;

use machine::Time;
use topology::{LinkId, NetPort, Side};
use transport::TransportSpec;

pub(crate) use self::frame::Seen;
use self::frame::{Frame, Writer};

/// A frame as a port has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When its last bit has left the port, or has come to it.
    pub at: Time,
    /// The port, by its place in [`Capturing::ports`].
    pub port: usize,
    /// Whether it leaves the port's node.
    pub is_outbound: bool,
    /// How many bytes it has.
    pub length: u32,
    /// The first ones; all others are zero.
    pub bytes: Vec<u8>,
}

/// At which ports a run is looked at, and who is shown what passes them, in the order of time.
pub struct Capturing<'a> {
    /// The ports: sides of links. Both directions are seen.
    pub ports: &'a [(LinkId, Side)],
    /// Is shown each frame.
    pub show: &'a mut dyn FnMut(CapturedFrame),
}

/// What one port sees of the packets that leave by an egress: its own, or that of the other end of its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) egress: NetPort,
    pub(crate) port: usize,
    pub(crate) is_outbound: bool,
}

/// What was captured and not yet shown.
#[derive(Debug)]
pub(crate) struct Capture {
    views: Vec<View>,
    writer: Writer,
    frames: Vec<CapturedFrame>,
}

impl Capture {
    pub(crate) fn new(transport: &TransportSpec, views: Vec<View>) -> Self {
        Self { views, writer: Writer::new(transport), frames: Vec::new() }
    }

    /// The egresses that are looked at.
    pub(crate) fn egresses(&self) -> impl Iterator<Item = NetPort> + '_ {
        self.views.iter().map(|view| view.egress)
    }

    /// Notes a packet that leaves by an egress at one moment, and comes to the other end of the link at another one.
    pub(crate) fn note(&mut self, egress: NetPort, (left, arrives): (Time, Time), seen: &Seen<'_>) {
        let Frame { bytes, length } = self.writer.write(seen, left);
        for view in self.views.iter().filter(|view| view.egress == egress) {
            let View { port, is_outbound, .. } = *view;
            let at = if is_outbound { left } else { arrives };
            self.frames.push(CapturedFrame { at, port, is_outbound, length, bytes: bytes.clone() });
        }
    }

    /// What has passed until then, in order. What leaves later may have been noted earlier, as queues let packets wait.
    pub(crate) fn take(&mut self, until: Time) -> Vec<CapturedFrame> {
        self.frames.sort_by_key(|frame| frame.at);
        let count = self.frames.partition_point(|frame| frame.at <= until);
        self.frames.drain(..count).collect()
    }
}
