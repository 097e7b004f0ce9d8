//! What Linux's TCP, and iperf3 with it, can be set to.

use transport::linux::CongestionControl;
use transport::{ReceiveWindow, TransportKind, TransportSpec};

/// Bytes of the headers with which a segment enters the kernel through a TAP: Ethernet, IPv4, TCP with timestamps.
const ARRIVAL_HEADERS: u64 = 66;

/// What iperf3's `-M` has to be at least, 88, without the timestamp option.
const LEAST_SEGMENT: u32 = 76;

/// What Linux accounts for a packet buffer besides the packet: head room, the shared info, the `sk_buff` itself.
const HEAD_ROOM: u64 = 64;
const SHARED_INFO: u64 = 320;
const SK_BUFF: u64 = 256;

/// The receive buffer for which Linux advertises `window` segments of `segment` bytes.
///
/// A buffer holds packets with their overhead (`truesize`), and the window counts bytes without. Linux (since 6.6)
/// takes the ratio of the two from the segments that it gets, in 1/256, and leaves out the one that has just come
/// (`tcp_measure_rcv_mss`, `tcp_grow_window`). Half a segment more keeps rounding away from the edge.
pub(crate) fn receive_buffer(window: u32, segment: u32) -> u64 {
    let segment = u64::from(segment.max(1));
    let truesize = (segment + ARRIVAL_HEADERS + HEAD_ROOM).next_multiple_of(64) + SHARED_INFO + SK_BUFF;
    let ratio = (segment * 256 / truesize).max(1);
    (u64::from(window.max(1)) * segment + segment / 2) * 256 / ratio + truesize
}

/// Whether Linux has no receive buffer that is so large. One that it makes by itself never is.
fn is_too_large(window: ReceiveWindow, segment: u32) -> bool {
    match window {
        ReceiveWindow::Segments(window) => receive_buffer(window, segment) > i32::MAX as u64,
        ReceiveWindow::Auto => false,
    }
}

/// Why Linux cannot be set up so; `None`: it can.
pub(crate) fn why_not_live(spec: &TransportSpec, is_shaped: impl FnOnce() -> bool) -> Option<&'static str> {
    if spec.kind == TransportKind::Udp {
        None
    } else if spec.segment_bytes < LEAST_SEGMENT {
        Some("iperf3 sends no segments of less than 76 bytes")
    } else if is_too_large(spec.window, spec.segment_bytes) && is_shaped() {
        Some("so large a window needs a larger receive buffer than Linux has (2 GiB)")
    } else {
        None
    }
}

/// How the congestion window of a host grows. The studies' senders have Reno.
pub(crate) const fn congestion_control(spec: &TransportSpec) -> CongestionControl {
    match spec.kind {
        TransportKind::Linux => spec.linux.congestion_control,
        TransportKind::Reno | TransportKind::NewReno | TransportKind::Sack | TransportKind::Udp => {
            CongestionControl::Reno
        }
    }
}
