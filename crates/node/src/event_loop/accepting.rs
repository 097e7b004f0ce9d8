//! Who wants to connect.

use std::io;

use mio::net::{TcpListener, TcpStream};

use crate::descriptors::is_short;

/// Whether somebody may wait to be let in.
#[derive(Debug, Default)]
pub(super) struct Accepting {
    /// An event said so, or there were more than one turn's worth.
    is_due: bool,
    /// There is no descriptor for who connects: they wait in the kernel.
    is_short: bool,
}

/// The next who connects.
pub(super) enum Next {
    /// It is there.
    Socket(TcpStream),
    /// It has gone already.
    Gone,
    /// There is none, or no descriptor for it.
    Nobody,
}

impl Accepting {
    /// Somebody may wait.
    pub fn note(&mut self) {
        self.is_due = true;
    }

    /// Whether somebody may wait.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Takes the next one in. If there is none, nobody waits until this is noted again.
    pub fn next(&mut self, listener: &TcpListener) -> Next {
        match listener.accept() {
            Ok((socket, _)) => {
                if std::mem::take(&mut self.is_short) {
                    tracing::info!("takes connections again");
                }
                return Next::Socket(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if is_short(&error) => {
                // A new connection waits in the kernel, and the sweep comes back to it.
                if !std::mem::replace(&mut self.is_short, true) {
                    tracing::warn!("cannot accept a connection: {error}; those who connect have to wait");
                }
            }
            Err(error) => {
                tracing::debug!("cannot accept a connection: {error}");
                return Next::Gone;
            }
        }
        self.is_due = false;
        Next::Nobody
    }
}
