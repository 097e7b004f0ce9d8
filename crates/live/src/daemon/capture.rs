//! A client that captures: it gets frames until it says no more.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::PoisonError;
use std::thread;

use super::{Shared, send};
use crate::Error;
use crate::control::Reply;
use crate::sniffer::Session;

impl Shared {
    /// Begins a capture: its number, and what its reader needs.
    pub(super) fn begin_capture(&self, target: &str, filter: &str, snaplen: u32) -> Result<(u64, Session), Error> {
        let mut guard = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().ok_or(Error::Gone)?.begin_capture(target, filter, snaplen)
    }

    fn end_capture(&self, number: u64) {
        let mut guard = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(network) = guard.as_mut() {
            network.end_capture(number);
        }
    }
}

/// Sends a client what is seen, in this thread, until it shuts down its half of the connection or goes away, or until `count` frames are sent.
pub(super) fn serve(
    (number, session): (u64, Session),
    count: Option<u64>,
    stream: &UnixStream,
    shared: &Shared,
) -> Result<(), Error> {
    let listener = begin(&session, stream).inspect_err(|_| shared.end_capture(number))?;
    let written = session.write(stream, count, || shared.end_capture(number));
    // The thread that listens ends with this. It fails only if the client has gone.
    let _ = stream.shutdown(Shutdown::Both);
    // It does not panic.
    let _ = listener.join();
    match written {
        Ok(frames) => tracing::debug!("a client has captured {frames} frames"),
        // It has seen enough.
        Err(error) => tracing::debug!("a client that captured has gone: {error}"),
    }
    Ok(())
}

/// Answers the client, and starts the thread that hears of its end.
fn begin(session: &Session, stream: &UnixStream) -> Result<thread::JoinHandle<()>, Error> {
    let io = |source| Error::System { step: "talk to a client", source };
    send(stream, &Reply::Capture { ports: session.ports() }, &[])?;
    // It may read as slowly as it likes: what finds no room is counted, and nobody waits for it.
    stream.set_write_timeout(None).map_err(io)?;
    let mut listening = stream.try_clone().map_err(io)?;
    let end = session.ender();
    let listen = move || {
        // Whatever it says means nothing.
        while listening.read(&mut [0; 256]).is_ok_and(|bytes| bytes > 0) {}
        end();
    };
    let thread = thread::Builder::new().name("capture".to_owned());
    thread.spawn(listen).map_err(|source| Error::System { step: "start the thread that hears a capture's end", source })
}
