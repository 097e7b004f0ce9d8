//! A connection of frames that never blocks: TCP, with TLS or without.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use store::protocol::{FRAME_HEADER, FrameError, split_frame};

pub(super) use super::buffers::Received;
use super::buffers::{Inbox, Outbox};

/// A client's connection is read so far, then it is the next one's turn.
pub(super) const TURN_BYTES: usize = 32 << 10;

/// The same for other connections, and in the midst of a long frame.
pub(super) const TURN_BYTES_MAX: usize = 1 << 20;

/// Longest frame of somebody who was called and has not said who it is: a name or a reason is in it.
const WELCOME_BYTES_MAX: usize = 64 << 10;

/// So much is handed to TLS at a time: what it has encrypted waits within it.
const TLS_CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    inbox: Inbox,
    outbox: Outbox,
    /// The longest frame that is taken.
    frame_max: usize,
    is_connected: bool,
}

impl Stream {
    /// A connection that was accepted.
    pub fn accepted(socket: TcpStream, tls: Option<Connection>) -> Self {
        Self::new(socket, tls, true)
    }

    /// A connection that is being made.
    pub fn connecting(socket: TcpStream, tls: Option<Connection>) -> Self {
        let mut stream = Self::new(socket, tls, false);
        stream.limit_frames(WELCOME_BYTES_MAX);
        stream
    }

    fn new(socket: TcpStream, tls: Option<Connection>, is_connected: bool) -> Self {
        // It fails for sockets that are broken already, which reading will show.
        let _ = socket.set_nodelay(true);
        let tls = tls.map(Box::new);
        let (inbox, outbox) = (Inbox::default(), Outbox::default());
        Self { socket, tls, inbox, outbox, frame_max: store::protocol::FRAME_MAX, is_connected }
    }

    /// Refuses longer frames, until somebody is known to be worth more.
    pub fn limit_frames(&mut self, bytes: usize) {
        self.frame_max = bytes;
    }

    /// Events of the connection come under `token` from now on, once for each change.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Ends the events of this stream.
    pub fn deregister(&mut self, registry: &Registry) {
        // It is closed right after.
        let _ = registry.deregister(&mut self.socket);
    }

    /// The other end's address, for logs.
    pub fn peer(&self) -> String {
        self.socket.peer_addr().map_or_else(|_| "unknown".to_owned(), |address| address.to_string())
    }

    /// The other end's address, while there is one.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// The addresses of both ends, the local one first.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.socket.local_addr()?, self.socket.peer_addr()?))
    }

    /// With TLS, what only the two ends of this very connection know (RFC 9266); otherwise zeros.
    pub fn channel(&self) -> Result<[u8; 32], String> {
        match &self.tls {
            None => Ok([0; 32]),
            Some(tls) => tls
                .export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(&[]))
                .map_err(|error| error.to_string()),
        }
    }

    /// The certificates that the other end has shown; none without TLS.
    pub fn certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.as_ref()?.peer_certificates()
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.outbox.waiting()
    }

    /// Whether all that was put is with the kernel.
    pub fn is_sent(&self) -> bool {
        self.outbox.waiting() == 0 && self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Says that nothing comes any more (RFC 8446, 6.1), as far as that can be sent at once: it is closed right after.
    pub fn say_end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = flush_tls(&mut self.socket, tls, &mut Outbox::default());
        }
    }

    /// Bytes of memory for what came in, beyond what every connection has.
    pub fn received(&self) -> usize {
        self.inbox.extra()
    }

    /// Receives what there is, after an event of the connection or without one.
    ///
    /// # Errors
    /// The connection is broken: in words for a log.
    pub fn receive(&mut self, event: Option<&Event>) -> Result<Received, String> {
        // A read that does not fill its room has emptied the socket (epoll(7), questions and answers, 9), but for its end.
        self.receive_some(event.is_none_or(Event::is_read_closed), TURN_BYTES_MAX)
    }

    /// The same, but no more than `turn_bytes` or what the next frame lacks; `to_the_end`: until the socket says that it has no
    /// more, or that there will be none.
    ///
    /// # Errors
    /// As those of [`Stream::receive`].
    pub fn receive_some(&mut self, to_the_end: bool, turn_bytes: usize) -> Result<Received, String> {
        if !self.connected().map_err(|error| error.to_string())? {
            return Ok(Received::All);
        }
        let turn_bytes = self.missing().clamp(turn_bytes, TURN_BYTES_MAX);
        match &mut self.tls {
            None => self.inbox.receive(&mut self.socket, to_the_end, turn_bytes).map_err(|error| error.to_string()),
            Some(tls) => receive_tls(&mut self.socket, tls, &mut self.inbox, turn_bytes),
        }
    }

    /// Whether the connection is made.
    fn connected(&mut self) -> io::Result<bool> {
        if !self.is_connected {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            match self.socket.peer_addr() {
                Ok(_) => self.is_connected = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Bytes that the next frame lacks, as far as its length is known; one that is too long lacks nothing.
    fn missing(&self) -> usize {
        match self.announced() {
            Some((length, _)) if length > self.frame_max => 0,
            Some((length, there)) => length - there.len(),
            None => FRAME_HEADER - self.inbox.content().len(),
        }
    }

    /// Bytes that came in and were not taken.
    pub fn pending(&self) -> usize {
        self.inbox.content().len()
    }

    /// Whether a whole frame is there, or one that is too long.
    pub fn has_frame(&self) -> bool {
        !matches!(self.frame(), Ok(None))
    }

    /// How long the next frame's body is, and what is there of it.
    pub fn announced(&self) -> Option<(usize, &[u8])> {
        let (header, rest) = self.inbox.content().split_first_chunk::<FRAME_HEADER>()?;
        let length = u32::from_le_bytes(*header) as usize;
        Some((length, &rest[..rest.len().min(length)]))
    }

    /// The next frame's body, if it is there; it is taken by [`Stream::took`].
    ///
    /// # Errors
    /// [`FrameError::TooLong`].
    pub fn frame(&self) -> Result<Option<&[u8]>, FrameError> {
        if let Some((length, _)) = self.announced().filter(|(length, _)| *length > self.frame_max) {
            return Err(FrameError::TooLong(length));
        }
        Ok(split_frame(self.inbox.content())?.map(|(body, _)| body))
    }

    /// The frame with a body of so many bytes has been dealt with.
    pub fn took(&mut self, body: usize) {
        self.inbox.take(FRAME_HEADER + body);
    }

    /// Puts a message behind what is to be sent. [`Stream::flush`] sends.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; nothing is sent of it.
    pub fn put<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        self.outbox.put(message)
    }

    /// Sends as much as the other side takes.
    ///
    /// # Errors
    /// The connection is broken: in words for a log.
    pub fn flush(&mut self) -> Result<(), String> {
        if !self.connected().map_err(|error| error.to_string())? {
            return Ok(());
        }
        match &mut self.tls {
            None => {
                while !self.outbox.front().is_empty() {
                    match self.socket.write(self.outbox.front()) {
                        Ok(0) => return Err("the connection takes no more bytes".into()),
                        Ok(written) => self.outbox.advance(written),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error.to_string()),
                    }
                }
            }
            Some(tls) => flush_tls(&mut self.socket, tls, &mut self.outbox)?,
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Encrypts and sends; what TLS has to say itself goes first.
fn flush_tls(socket: &mut TcpStream, tls: &mut Connection, outbox: &mut Outbox) -> Result<(), String> {
    loop {
        while tls.wants_write() {
            match tls.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        // Before its end a handshake takes what is to be sent after it only up to a limit: it had better come later.
        if outbox.front().is_empty() || tls.is_handshaking() {
            return Ok(());
        }
        let chunk = &outbox.front()[..outbox.front().len().min(TLS_CHUNK_BYTES)];
        let taken = tls.writer().write(chunk).map_err(|error| error.to_string())?;
        outbox.advance(taken);
    }
}

fn receive_tls(
    socket: &mut TcpStream,
    tls: &mut Connection,
    inbox: &mut Inbox,
    turn_bytes: usize,
) -> Result<Received, String> {
    let mut turn = 0;
    loop {
        if turn >= turn_bytes {
            return Ok(Received::More);
        }
        match tls.read_tls(socket) {
            Ok(0) => return Ok(Received::Ended),
            Ok(bytes) => turn += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::All),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        }
        let state = tls.process_new_packets().map_err(|error| {
            // The other side hears why.
            let _ = tls.write_tls(socket);
            format!("TLS: {error}")
        })?;
        let mut plain = state.plaintext_bytes_to_read();
        while plain > 0 {
            plain -= tls.reader().read(inbox.room(plain)).map(|read| inbox.fill(read)).map_err(|e| e.to_string())?;
        }
        if state.peer_has_closed() {
            return Ok(Received::Ended);
        }
        // The handshake goes on with our own words.
        flush_tls(socket, tls, &mut Outbox::default())?;
    }
}
