//! A port and what messages do to it, without a socket and a thread: for who tries what a front end may say, and a guest may write, in any order.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::VhostPort;
use super::backend::Backend;
use super::message::Request;
use super::shared::Shared;
use crate::port::Port as _;

/// See above.
#[derive(Debug)]
pub struct Socketless {
    shared: Arc<Shared>,
    /// Until it is cut off.
    backend: Option<Backend>,
    port: VhostPort,
    memory: File,
}

impl Socketless {
    /// A port with so many pairs of queues, 1 to 8, for a guest whose memory is in this file.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new(queues: u8, memory: File) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(queues.into())?);
        let (backend, port) = (Backend::new(Arc::clone(&shared))?, VhostPort::new(Arc::clone(&shared)));
        Ok(Self { shared, backend: Some(backend), port, memory })
    }

    /// Does what the front end wants, which sends the files along that belong to it; a reply, if there is one.
    ///
    /// # Errors
    /// Why it is cut off. Another one has its place then.
    pub fn handle(&mut self, request: Request) -> Result<Option<Vec<u8>>, String> {
        let done = self.files(&request).map_err(|error| error.to_string()).and_then(|files| {
            let backend = self.backend.as_mut().expect("it is there until it is replaced");
            let reply = backend.handle(request, files)?;
            backend.serve_commands()?;
            Ok(reply)
        });
        done.map_err(|error| self.cut_off(error))
    }

    /// Does what the guest asks for in its controlq.
    ///
    /// # Errors
    /// Why it is cut off.
    pub fn serve_commands(&mut self) -> Result<bool, String> {
        let served = self.backend.as_mut().expect("it is there until it is replaced").serve_commands();
        served.map_err(|error| self.cut_off(error))
    }

    fn cut_off(&mut self, error: String) -> String {
        // What the old one leaves behind, the next one must not find.
        self.backend = None;
        self.backend = Some(Backend::new(Arc::clone(&self.shared)).expect("the kernel has descriptors"));
        error
    }

    fn files(&self, request: &Request) -> io::Result<Vec<File>> {
        match request {
            Request::SetMemory(regions) => regions.iter().map(|_| self.memory.try_clone()).collect(),
            Request::SetRingKick(_) | Request::SetRingCall(_) | Request::SetRingError(_) => {
                let eventfd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
                Ok(vec![File::from(OwnedFd::from(eventfd))])
            }
            // What belongs to others is refused before.
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a frame with its header into `buffer`; why the guest is cut off, if it has written nonsense.
    ///
    /// # Errors
    /// Why it is cut off.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, String> {
        let read = self.port.read(buffer).map_err(|error| error.to_string())?;
        self.broken().map_or(Ok(read), |why| Err(self.cut_off(why)))
    }

    /// Writes a frame with its header to the guest. Whether it was taken.
    ///
    /// # Errors
    /// Why it is cut off.
    pub fn write(&mut self, frame: &[u8]) -> Result<bool, String> {
        let is_taken = self.port.write(frame).is_ok();
        self.port.flush();
        self.broken().map_or(Ok(is_taken), |why| Err(self.cut_off(why)))
    }

    fn broken(&self) -> Option<String> {
        self.shared.broken()
    }

    /// By how many pairs of queues the guest gets frames.
    pub fn used_pairs(&self) -> usize {
        self.shared.used_pairs()
    }
}
