//! A connection to a front end: whole messages with their files, in bounded time.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, RawFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use super::message::{HEADER, Header, MessageError, Request};

/// How long the rest of a message may take, and the room for a reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The other side has closed it.
    #[error("it was closed")]
    Closed,
    /// The rest does not come, or replies are not read.
    #[error("half a message, and no more")]
    Half,
    /// It is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// It asks for what can't be done.
    #[error("{0}")]
    Refused(String),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Half,
            _ => Self::Closed,
        }
    }
}

/// So many descriptors may come with one message (`SCM_MAX_FD` of the kernel).
const DESCRIPTORS_MAX: usize = 253;

/// See above.
#[derive(Debug)]
pub struct Connection(UnixStream);

impl Connection {
    /// By this stream.
    ///
    /// # Errors
    /// If the kernel does not let us say how long it may take.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Receives a message that has begun to come.
    ///
    /// # Errors
    /// If it is none, or does not come to its end.
    pub fn receive(&mut self) -> Result<(Header, Request, Vec<File>), ConnectionError> {
        let until = Instant::now() + PATIENCE;
        let mut bytes = [0; HEADER];
        let (read, files) = self.begin(&mut bytes)?;
        self.fill(&mut bytes[read..], until)?;
        let header = Header::parse(&bytes)?;
        let mut payload = vec![0; header.len];
        self.fill(&mut payload, until)?;
        let request = header.request(&payload, files.len())?;
        Ok((header, request, files))
    }

    /// The beginning of a message, with which its files come.
    fn begin(&self, bytes: &mut [u8; HEADER]) -> Result<(usize, Vec<File>), ConnectionError> {
        // What does not fit would be lost with its number: descriptors that nobody closes any more.
        let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
        let mut vectors = [IoSliceMut::new(bytes)];
        let received = recvmsg::<()>(self.0.as_raw_fd(), &mut vectors, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC);
        let received = received.map_err(io::Error::from)?;
        let mut files = Vec::new();
        // There is room for as many as the kernel takes.
        let messages = received.cmsgs().map_err(|_| ConnectionError::Closed)?;
        for message in messages {
            if let ControlMessageOwned::ScmRights(descriptors) = message {
                // SAFETY: the kernel has just made these descriptors for this process, and nobody else has them.
                files.extend(descriptors.into_iter().map(|descriptor| unsafe { File::from_raw_fd(descriptor) }));
            }
        }
        files.iter().for_each(close_at_once);
        if received.bytes == 0 { Err(ConnectionError::Closed) } else { Ok((received.bytes, files)) }
    }

    fn fill(&mut self, mut rest: &mut [u8], until: Instant) -> Result<(), ConnectionError> {
        while !rest.is_empty() {
            let read = self.0.read(rest)?;
            if read == 0 {
                return Err(ConnectionError::Closed);
            }
            if Instant::now() > until {
                return Err(ConnectionError::Half);
            }
            rest = &mut rest[read..];
        }
        Ok(())
    }

    /// Sends a reply.
    ///
    /// # Errors
    /// If it is not read, or the other side has gone.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        Ok(self.0.write_all(bytes)?)
    }
}

/// What was passed may be a socket whose close waits until its data has been read, as long as its sender likes.
fn close_at_once(file: &File) {
    let is_socket = file.metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket {
        let never = nix::libc::linger { l_onoff: 0, l_linger: 0 };
        // One for which this is refused is none that waits.
        let _ = setsockopt(file, sockopt::Linger, &never);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;
    use std::net::{TcpListener, TcpStream};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::sys::socket::{ControlMessage, getsockopt, sendmsg};

    /// A front end's side, and ours.
    fn connected() -> (UnixStream, Connection) {
        let (front, back) = UnixStream::pair().unwrap();
        (front, Connection::new(back).unwrap())
    }

    /// Asks for the features, with files that do not belong to that.
    fn send(front: &UnixStream, files: &[RawFd]) {
        let bytes = [1_u32, 1, 0].map(u32::to_le_bytes).concat();
        let files = [ControlMessage::ScmRights(files)];
        sendmsg::<()>(front.as_raw_fd(), &[IoSlice::new(&bytes)], &files, MsgFlags::empty(), None).unwrap();
    }

    #[test]
    fn as_many_descriptors_as_the_kernel_passes_are_closed_again() {
        let (front, mut connection) = connected();
        let (mut reader, writer) = io::pipe().unwrap();
        let flags = OFlag::from_bits_retain(fcntl(&reader, FcntlArg::F_GETFL).unwrap());
        fcntl(&reader, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
        send(&front, &[writer.as_raw_fd(); DESCRIPTORS_MAX]);
        let refused = connection.receive().unwrap_err();
        let expected = MessageError::Files { found: DESCRIPTORS_MAX, expected: 0 };
        assert!(matches!(refused, ConnectionError::Message(error) if error == expected), "{refused}");
        drop(writer);
        // The pipe ends when nobody has its other end any more. A program that another test starts has it for a moment.
        let started = Instant::now();
        while reader.read(&mut [0]).map_err(|error| error.kind()) != Ok(0) {
            assert!(started.elapsed() < Duration::from_secs(60), "somebody has a descriptor still");
            std::thread::yield_now();
        }
    }

    #[test]
    fn nobody_waits_for_a_socket_that_is_closed() {
        let (front, mut connection) = connected();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Who closes it waits until what was sent has been read, which it is not.
        setsockopt(&socket, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 1_000 }).unwrap();
        send(&front, &[socket.as_raw_fd()]);
        assert!(matches!(connection.receive(), Err(ConnectionError::Message(MessageError::Files { found: 1, .. }))));
        assert_eq!(getsockopt(&socket, sockopt::Linger).unwrap().l_onoff, 0);
    }
}
