//! A server of one page, which is made for each who asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use machine::Time;

use crate::clock::Clock;
use crate::error::Error;
use crate::http::{Body, Request, Response};
use crate::server::{Limits, Listener, Protocol, Reply, Server, ServerCounters, Service, Ticket, WhenFull};

/// A server of one page whose ports are open.
pub struct PageServer {
    listeners: Vec<Listener>,
}

/// The page.
#[derive(Clone, Copy, Debug)]
pub struct PageSpec {
    /// As `/metrics`.
    pub path: &'static str,
    /// What it is for whoever asks for that: as `text/html`, and all that stands in `Content-Type`.
    pub asked_for: (&'static str, &'static str),
    /// `Content-Type` of what it is for all others.
    pub otherwise: &'static str,
}

impl PageServer {
    /// Opens these ports, 16 at most.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn open(addresses: &[SocketAddr]) -> Result<Self, Error> {
        let open = |address: &SocketAddr| Listener::tcp(*address, Protocol::Http);
        Ok(Self { listeners: addresses.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// The addresses that it has, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(Listener::address).collect()
    }

    /// Serves what `make` makes, or says why there is nothing (with status 503), until `ending` is set. It hears whether [`PageSpec::asked_for`] is what is asked for.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn run(
        self,
        ending: Arc<AtomicBool>,
        spec: PageSpec,
        make: impl FnMut(bool) -> Result<String, String>,
    ) -> Result<(), Error> {
        let limits = Limits { connections_max: 100, when_full: WhenFull::CloseIdle, ..Limits::default() };
        let page = |_| Ok(Page { spec, make });
        Server::new(self.listeners, limits, Clock::start(), ending, page)?.run().map(drop)
    }
}

struct Page<M> {
    spec: PageSpec,
    make: M,
}

impl<M: FnMut(bool) -> Result<String, String>> Service for Page<M> {
    fn request(&mut self, _: Time, _: Ticket, request: &Request<'_>, _: &ServerCounters) -> Reply {
        let PageSpec { path, asked_for: (media, named), otherwise } = self.spec;
        let is_named = request.names(media);
        let content_type = if is_named { named } else { otherwise };
        let asked = request.path.split_once('?').map_or(request.path, |(path, _)| path);
        Reply::Now(match (request.method, asked) {
            ("GET" | "HEAD", asked) if asked == path => match (self.make)(is_named) {
                Ok(text) => {
                    Response { status: 200, content_type, body: Body::Bytes(text.into_bytes()), load_report: None }
                }
                Err(why) => Response::text(503, &why),
            },
            (_, asked) if asked == path => Response::empty(405),
            _ => Response::text(404, &format!("expected GET {path}")),
        })
    }

    fn withdraw(&mut self, _: Time, _: Ticket) {}

    fn poll(&mut self, _: Time, _: &mut Vec<(Ticket, Response)>) -> Time {
        Time::NEVER
    }

    fn line(&mut self, _: Time) -> String {
        String::new()
    }
}
