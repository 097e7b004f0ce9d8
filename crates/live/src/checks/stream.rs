//! Connections on which nothing lasts beyond a moment.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection that is of no use after its deadline.
pub(super) struct DeadlineStream {
    stream: TcpStream,
    deadline: Instant,
}

impl DeadlineStream {
    /// Connects.
    pub fn connect(at: SocketAddr, deadline: Instant) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&at, left(deadline)?)?;
        // What is said is short, and an answer is waited for.
        stream.set_nodelay(true)?;
        Ok(Self { stream, deadline })
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(buffer).map_err(in_time)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(buffer).map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long is left.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if nothing is.
pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A socket whose time is over says that it would block.
pub(super) fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

/// Says something, and reads what comes until the other side ends, or so many bytes, or what is enough.
pub(super) fn exchange(
    stream: &mut (impl Read + Write),
    request: &[u8],
    most: usize,
    is_enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    // Who closes at once has said what he had to say.
    let _ = stream.write_all(request).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    let mut piece = [0; 2_048];
    while answer.len() < most && !is_enough(&answer) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It has closed without reading what was said, or, with TLS, without saying so.
            Err(error) if is_end(error.kind()) && !answer.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    answer.truncate(most);
    Ok(answer)
}

const fn is_end(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)
}
