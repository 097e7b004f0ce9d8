//! What a sender has yet to send.

use machine::Time;

use super::stamp::Stamp;

/// What is to be sent, in this order.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be due, and several may be")]
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub started: bool,
    /// The last acknowledgement's echo.
    pub echo: Stamp,
    /// The first segment, whatever the window says.
    pub resend_first: bool,
    /// A probe of the end of the flight.
    pub probe: bool,
    /// New segments, and what is lost only if there are none.
    pub new_first: bool,
    /// What is lost.
    pub resend: bool,
    /// New segments.
    pub push: bool,
    /// Segments of the burst that are to be sent yet.
    pub burst: u32,
    /// Segments of the burst that are to be sent again yet.
    pub burst_again: u32,
    /// There was more than one.
    pub is_burst: bool,
    /// New segments since it was last empty.
    pub sent: u32,
    /// Segments left in the buffer that is next (64 KiB of the application's data).
    pub buffered: u32,
    /// When a segment left last.
    pub last: Time,
    /// The first segment was sent again, so that the timeout begins anew.
    pub rearm: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            started: false,
            echo: Stamp::of(Time::ZERO),
            resend_first: false,
            probe: false,
            new_first: false,
            resend: false,
            push: false,
            burst: 0,
            burst_again: 0,
            is_burst: false,
            sent: 0,
            buffered: 0,
            last: Time::ZERO,
            rearm: false,
        }
    }
}
