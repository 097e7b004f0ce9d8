//! `heddle agent`: says how loaded this machine is.
//!
//! ```text
//!   /proc ---- Sampler, every 50 ms ---+
//!                                      +--> Status --> `HAProxy`'s agent-check: one line, by how loaded it is
//!   POST /push (an application) -------+          \--> GET /load: ORCA-style JSON
//! ```
//!
//! What an application has pushed is forgotten after a while: what is not known is absent, and not zero.

mod config;
mod processes;
mod pushed;
mod sampler;
mod service;
mod status;
mod weight;

pub use config::{AgentConfig, Sources};
pub use pushed::{PUSH_MAX, Pushed};
pub use sampler::parse as proc_texts;
pub use weight::{Answer, WeightConfig};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::service::AgentService;
use crate::clock::Clock;
use crate::error::Error;
use crate::server::{Limits, Listener, Protocol, Server, WhenFull};

/// An agent whose ports are open.
pub struct Agent {
    config: AgentConfig,
    listeners: Vec<Listener>,
}

impl Agent {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::ListenUnix`].
    pub fn open(config: AgentConfig) -> Result<Self, Error> {
        let mut listeners = Vec::new();
        for address in &config.check {
            listeners.push(Listener::tcp(*address, Protocol::Line)?);
        }
        for address in &config.http {
            listeners.push(Listener::tcp(*address, Protocol::Http)?);
        }
        for path in &config.sockets {
            listeners.push(Listener::unix(path, Protocol::Http)?);
        }
        Ok(Self { config, listeners })
    }

    /// The addresses that it has, with the ports that the kernel chose: those of agent-check first, then those of HTTP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(Listener::address).collect()
    }

    /// Reports until `ending` is set.
    ///
    /// # Errors
    /// [`Error::File`] if nothing of what it is to report can be read; [`Error::System`].
    pub fn run(self, ending: Arc<AtomicBool>) -> Result<(), Error> {
        let clock = Clock::start();
        let config = self.config;
        let limits = Limits { connections_max: 1_000, when_full: WhenFull::CloseIdle, ..Limits::default() };
        let agent = |_| AgentService::new(&config, clock);
        Server::new(self.listeners, limits, clock, ending, agent)?.run().map(drop)
    }
}
