//! One probe of a server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::health::{BadAnswer, Check, DnsCheck};
use machine::mix;
use rustls::ClientConfig;

use super::failure::Failure;
use super::stream::{DeadlineStream, exchange, in_time, left};
use super::{command, grpc, tls};
use crate::files::FileMount;
use crate::namespace::Namespace;

/// Bytes of an answer of HTTP that are looked at.
const HTTP_MAX: usize = 64 << 10;

/// Bytes of a datagram that are looked at.
const DATAGRAM_MAX: usize = 4 << 10;

/// A server, and what programs of its host see.
#[derive(Debug)]
pub(super) struct Host {
    /// The service whose server it is.
    pub service: String,
    /// The host's name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Its network namespace.
    pub namespace: Namespace,
    /// What its programs see as `/etc/hosts`.
    pub hosts_file: String,
    /// What else they see.
    pub mounts: Vec<FileMount>,
    /// Where they start: the folder of the fabric file.
    pub folder: PathBuf,
}

/// What is done to find out how a server does, from within its host.
#[derive(Debug)]
pub(super) struct Probe {
    /// The server.
    pub host: Host,
    /// What is done.
    pub check: Check,
    /// Of a check by TLS, what that needs, or why there is none.
    pub tls: Option<Result<Arc<ClientConfig>, String>>,
}

/// When it is done.
#[derive(Debug)]
pub(super) struct Job {
    /// For whoever waits for the result.
    pub number: u64,
    /// Where.
    pub port: u16,
    /// How long it may take.
    pub patience: Duration,
}

impl Probe {
    /// Whether the server is well.
    pub fn run(&self, job: &Job) -> Result<(), Failure> {
        let deadline = Instant::now() + job.patience;
        let at = SocketAddr::new(self.host.address, job.port);
        match &self.check {
            Check::Tcp { send, expect: None } if send.is_empty() => {
                DeadlineStream::connect(at, deadline)?;
                Ok(())
            }
            Check::Tcp { send, expect } => {
                let mut stream = DeadlineStream::connect(at, deadline)?;
                let Some(wanted) = expect else { return Ok(io::Write::write_all(&mut stream, send)?) };
                // An empty one stands for anything.
                let enough = wanted.len().max(1);
                begins(&exchange(&mut stream, send, enough, |answer| answer.len() >= enough)?, wanted)
            }
            Check::Tls { trust: _, name } => {
                let stream = DeadlineStream::connect(at, deadline)?;
                tls::connect(self.tls()?, name.as_deref(), (at, stream))?;
                Ok(())
            }
            Check::Http(http) => {
                let (request, is_enough) = (http.request(&at.to_string()), |answer: &[u8]| http.is_enough(answer));
                let mut stream = DeadlineStream::connect(at, deadline)?;
                let answer = if http.tls.is_some() {
                    let mut stream = tls::connect(self.tls()?, http.host.as_deref(), (at, stream))?;
                    exchange(&mut stream, &request, HTTP_MAX, is_enough)?
                } else {
                    exchange(&mut stream, &request, HTTP_MAX, is_enough)?
                };
                Ok(http.judge(&answer)?)
            }
            Check::Udp { send, expect: None } => match ask_by_udp(at, send, Instant::now() + job.patience / 2) {
                Ok(_) => Ok(()),
                // Nobody has said that nobody is there.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
                Err(error) => Err(error.into()),
            },
            Check::Udp { send, expect: Some(wanted) } => begins(&ask_by_udp(at, send, deadline)?, wanted),
            Check::Dns(dns) => ask_name_server(dns, at, (mix(job.number) as u16, deadline)),
            Check::Grpc { service } => grpc::check(service, at, deadline),
            Check::Command { arguments } => command::check(arguments, &self.host, job.port, deadline),
        }
    }

    fn tls(&self) -> Result<&Arc<ClientConfig>, Failure> {
        match &self.tls {
            Some(Ok(config)) => Ok(config),
            Some(Err(why)) => Err(Failure::Check(why.clone())),
            None => Err(Failure::Check("no certificates were named".to_owned())),
        }
    }
}

/// An answer is there, and begins so.
fn begins(answer: &[u8], wanted: &[u8]) -> Result<(), Failure> {
    if answer.is_empty() && wanted.is_empty() || !answer.starts_with(wanted) {
        return Err(BadAnswer::Beginning.into());
    }
    Ok(())
}

fn ask_name_server(dns: &DnsCheck, at: SocketAddr, (id, deadline): (u16, Instant)) -> Result<(), Failure> {
    let query = dns.query(id).ok_or_else(|| Failure::Check(format!("`{}` is no name", dns.name)))?;
    Ok(dns.judge(id, &ask_by_udp(at, &query, deadline)?)?)
}

/// Sends a datagram, and waits for the one that answers it.
fn ask_by_udp(at: SocketAddr, datagram: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
    let any: IpAddr = if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // From nobody else, and it hears of refusals.
    socket.connect(at)?;
    socket.send(datagram)?;
    let mut answer = vec![0; DATAGRAM_MAX];
    loop {
        socket.set_read_timeout(Some(left(deadline)?))?;
        match socket.recv(&mut answer).map_err(in_time) {
            Ok(length) => {
                answer.truncate(length);
                return Ok(answer);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
