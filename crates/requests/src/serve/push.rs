//! Gives an agent load reports, in a thread of its own: an agent that is slow or gone holds up nobody.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::config::PushTo;
use crate::error::Error;
use crate::http::response::AnswerReader;

/// An agent that takes longer is tried again with the next report.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where reports are put.
#[derive(Debug)]
pub(super) struct Pusher(SyncSender<String>);

impl Pusher {
    /// Starts the thread. It ends when this is dropped.
    pub fn start(to: PushTo) -> Result<Self, Error> {
        let (reports, queue) = sync_channel(1);
        let thread = thread::Builder::new().name("push".into()).spawn(move || push(&to, &queue));
        thread.map_err(Error::system("make a thread"))?;
        Ok(Self(reports))
    }

    /// Puts a report there; it is left out if the one before is still under way.
    pub fn put(&self, report: String) {
        match self.0.try_send(report) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => tracing::debug!("the thread that pushes reports has ended"),
        }
    }
}

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

fn push(to: &PushTo, queue: &Receiver<String>) {
    let mut connection: Option<Box<dyn Duplex>> = None;
    let mut is_reachable = true;
    while let Ok(report) = queue.recv() {
        let mut send = || {
            let stream = match &mut connection {
                Some(stream) => stream,
                None => connection.insert(connect(to)?),
            };
            exchange(stream, &report)
        };
        let outcome = send();
        if let Err(error) = &outcome {
            connection = None;
            if is_reachable {
                tracing::warn!("the agent does not take load reports: {error}");
            }
        }
        is_reachable = outcome.is_ok();
    }
}

fn connect(to: &PushTo) -> io::Result<Box<dyn Duplex>> {
    match to {
        PushTo::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        PushTo::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
    }
}

fn exchange(stream: &mut dyn Duplex, report: &str) -> io::Result<()> {
    let request = format!("POST /push HTTP/1.1\r\nHost: agent\r\nContent-Length: {}\r\n\r\n{report}", report.len());
    stream.write_all(request.as_bytes())?;
    let (mut reader, mut bytes) = (AnswerReader::default(), [0; 1_024]);
    loop {
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (answer, _) = reader.take(&bytes[..count]).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        match answer {
            None => {}
            Some(answer) if answer.status == 200 => return Ok(()),
            Some(answer) => return Err(io::Error::other(format!("it answers with status {}", answer.status))),
        }
    }
}
