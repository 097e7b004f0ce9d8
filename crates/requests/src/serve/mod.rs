//! `heddle serve`: a server whose requests take memory and time.
//!
//! ```text
//!   request --> Target --> workload::service::Server (what may begin, what waits)
//!                             | Begin
//!                 small: here |  large, or busy: a worker's thread
//!                             v
//!                     memory taken and worked on --> held until its time is over --> answer
//! ```

mod block;
mod config;
mod holding;
mod push;
mod service;
mod stats;
mod workers;

pub use config::{Mode, PushTo, ServeConfig};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::service::Worksite;
use crate::clock::Clock;
use crate::error::Error;
use crate::server::{Listener, Protocol, Server};

/// A server whose ports are open.
pub struct Serving {
    config: ServeConfig,
    listeners: Vec<Listener>,
}

impl Serving {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn open(config: ServeConfig) -> Result<Self, Error> {
        let listeners: Result<_, _> =
            config.listen.iter().map(|address| Listener::tcp(*address, Protocol::Http)).collect();
        Ok(Self { listeners: listeners?, config })
    }

    /// The addresses that it has, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(Listener::address).collect()
    }

    /// Serves until `ending` is set, and until what has begun is answered.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn run(self, ending: Arc<AtomicBool>) -> Result<(), Error> {
        crate::descriptors::raise_limit();
        let clock = Clock::start();
        let config = self.config;
        let worksite = |waker: Arc<mio::Waker>| Worksite::new(&config, clock, &waker);
        let server = Server::new(self.listeners, config.limits, clock, ending, worksite)?;
        server.run().map(drop)
    }
}
