//! A connection to the cluster.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use machine::ServerId;
use miette::{Report, miette};
use node::{Client, Error, LoginToken, Tls};
use placement::{Command, Effect, Member};
use store::client::ClientConfig;
use store::protocol::{Admin, Answer, RequestBody};
use store::status::{Status, StoppedReplica};

use super::{explain, tls};
use crate::cli::actions;
use crate::output::harmless;

/// A request takes so long at most, unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An endpoint that does not take a connection within this is passed over.
const KNOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A server that does not say how it is within this counts as unreachable.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A cluster that can be asked.
pub struct Access {
    pub client: Client,
    pub timeout: Duration,
    endpoints: Vec<String>,
    tls: Option<Tls>,
    token: Option<LoginToken>,
    /// The authority's file, for commands that are shown.
    authority: Option<PathBuf>,
}

impl Access {
    /// Finds a controller that takes connections, before anything is asked.
    pub fn open(args: &actions::Access) -> Result<Self, Report> {
        let connection = args.connection();
        let tls = tls(&connection)?;
        // It says what is wrong with an address.
        let client = Client::connect(&connection.endpoints, tls.as_ref()).map_err(explain)?;
        let token = super::token(connection.token_file.as_deref())?;
        super::log_in(&client, token.as_ref())?;
        let timeout = args.timeout_or(TIMEOUT);
        knock(&connection.endpoints, timeout.min(KNOCK_TIMEOUT))?;
        let (endpoints, authority) = (connection.endpoints, args.authority.clone());
        Ok(Self { client, timeout, endpoints, tls, token, authority })
    }

    /// Fails at once if no controller takes connections any more.
    pub fn knock(&self) -> Result<(), Report> {
        knock(&self.endpoints, self.timeout.min(KNOCK_TIMEOUT))
    }

    /// What asks other controllers.
    pub fn by_way_of(&self, endpoints: &[String]) -> Result<Self, Report> {
        let client = Client::connect(endpoints, self.tls.as_ref()).map_err(explain)?;
        super::log_in(&client, self.token.as_ref())?;
        let (endpoints, tls, authority) = (endpoints.to_vec(), self.tls.clone(), self.authority.clone());
        let token = self.token.clone();
        Ok(Self { client, timeout: self.timeout, endpoints, tls, token, authority })
    }

    /// What a command that starts a server of this cluster has to say of certificates.
    pub fn certificates(&self) -> String {
        self.authority.as_ref().map_or_else(String::new, |authority| {
            format!(" --tls-cert FILE --tls-key FILE --tls-ca {}", authority.display())
        })
    }

    /// Whether a token is shown to the cluster.
    pub const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks; the error is as it came.
    pub fn try_ask(&self, body: RequestBody) -> Result<Answer, Error> {
        self.client.request(body, self.timeout)
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&self, body: RequestBody) -> Result<Answer, Report> {
        self.try_ask(body).map_err(|error| self.explain(error))
    }

    /// What went wrong, and what may fix it.
    pub fn explain(&self, error: Error) -> Report {
        let Some(request) = error.request() else { return explain(error) };
        let text = harmless(&request.to_string());
        let hint = match request {
            // A server knows better: that its disk is full, say.
            store::protocol::Error::Timeout { reason, .. } if reason.contains("; hint: ") => return explain(error),
            // Nobody listens there; what others know was not to be had in that time.
            store::protocol::Error::Timeout { reason, .. } if reason.contains("Connection refused") => {
                "`heddle cluster status` asks each controller: one is not up there, and a majority of a shard's voters has to be; --timeout waits longer"
            }
            // Others that were tried are leaders that were known, and may be down.
            store::protocol::Error::Timeout { .. } if matches!(&error, Error::Unreachable { address, .. } if self.endpoints.contains(address)) => {
                if self.tls.is_some() {
                    "does the controller use certificates of the same authority, and name the host in its own?"
                } else {
                    "a controller with certificates wants --tls-cert, --tls-key and --tls-ca"
                }
            }
            store::protocol::Error::Timeout { .. } => {
                "`heddle cluster status` shows which servers are up: a majority of a shard's voters has to be; --timeout waits longer"
            }
            store::protocol::Error::SpansShards(_) => "`heddle cluster shards` shows which data is in which shard",
            store::protocol::Error::Rpc(reason) if !reason.contains("; hint: ") => {
                "`heddle cluster status -v` lists the RPCs on offer"
            }
            _ => return explain(error),
        };
        miette!(help = hint, "{text}")
    }

    /// What the asked server knows.
    pub fn status(&self) -> Result<Status, Report> {
        self.try_status().map_err(|error| self.explain(error))
    }

    /// The same; the error is as it came.
    pub fn try_status(&self) -> Result<Status, Error> {
        match self.try_ask(RequestBody::Admin(Admin::Status))? {
            Answer::Status(status) => Ok(*status),
            other => unreachable!("a status is not answered by {other:?}"),
        }
    }

    /// What the server at an address says of itself, if it is there and is the one that is meant.
    pub fn status_at(&self, address: &str, server: ServerId, cluster: u64) -> Option<Status> {
        match self.ask_at(address, RequestBody::Admin(Admin::Status)) {
            Ok(Answer::Status(status)) if status.server == server && status.cluster == cluster => Some(*status),
            _ => None,
        }
    }

    /// Asks the server at an address, as whoever this is logged in.
    pub fn ask_at(&self, address: &str, body: RequestBody) -> Result<Answer, Error> {
        let config = ClientConfig { go_to_leader: false, ..ClientConfig::default() };
        let client = Client::with_config(&[address.to_owned()], self.tls.as_ref(), config)?;
        if let Some(token) = &self.token {
            client.log_in(token.clone())?;
        }
        client.request(body, self.timeout.min(STATUS_TIMEOUT))
    }

    /// Asks several servers something, all at once; of those that do not say it, why.
    pub fn ask_each<'a, T: Send>(
        &self,
        members: impl IntoIterator<Item = &'a Member>,
        admin: &Admin,
        read: impl Fn(Answer) -> Option<T> + Sync,
    ) -> BTreeMap<ServerId, Result<T, String>> {
        std::thread::scope(|scope| {
            let ask = |member: &Member| {
                let (id, address, read) = (member.id, member.address.clone(), &read);
                let body = RequestBody::Admin(admin.clone());
                scope.spawn(move || {
                    (id, self.ask_at(&address, body).map(read).map_err(|error| harmless(&error.to_string())))
                })
            };
            let threads: Vec<_> = members.into_iter().map(ask).collect();
            let said = threads.into_iter().map(|thread| thread.join().expect("a question does not panic"));
            said.map(|(id, said)| (id, said.and_then(|said| said.ok_or_else(|| "it says something else".to_owned()))))
                .collect()
        })
    }

    /// Replicas that have stopped. Only servers are asked that lack a replica which the map wants there: those of protocol version 1
    /// do not know the question, and have none.
    pub fn stopped_replicas(&self, servers: &BTreeMap<ServerId, Status>) -> BTreeMap<ServerId, Vec<StoppedReplica>> {
        let lacks = |(id, status): &(&ServerId, &Status)| {
            let held = |shard| status.groups.iter().any(|group| group.shard == shard);
            status.map.shards().keys().any(|shard| status.map.desired_replicas(*shard).contains(**id) && !held(*shard))
        };
        let lacking = servers.iter().filter(lacks).filter_map(|(id, status)| status.map.members().get(id));
        let said = self.ask_each(lacking, &Admin::StoppedReplicas, |answer| match answer {
            Answer::StoppedReplicas(stopped) => Some(stopped),
            _ => None,
        });
        said.into_iter()
            .filter_map(|(id, stopped)| Some((id, stopped.ok()?)))
            .filter(|(_, it)| !it.is_empty())
            .collect()
    }

    /// For clients of another kind.
    pub const fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Changes the map of shards and servers.
    pub fn place(&self, command: Command) -> Result<Effect, Report> {
        self.administer(Admin::Placement(command))
    }

    /// Asks for what changes the map.
    pub fn administer(&self, change: Admin) -> Result<Effect, Report> {
        match self.ask(RequestBody::Admin(change))? {
            Answer::Placed(effect) => Ok(effect),
            other => unreachable!("a change of the map is not answered by {other:?}"),
        }
    }

    /// Looks again and again until `arrived` gives something, for as long as `--timeout` says.
    pub fn wait<T>(&self, mut arrived: impl FnMut() -> Result<Option<T>, Report>) -> Result<Option<T>, Report> {
        let until = Instant::now() + self.timeout;
        loop {
            match arrived()? {
                None if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                found => return Ok(found),
            }
        }
    }

    /// Waits until the asked server's status is as wanted; whether it became so.
    pub fn wait_until(&self, mut wanted: impl FnMut(&Status) -> bool) -> Result<bool, Report> {
        Ok(self.wait(|| Ok(wanted(&self.status()?).then_some(())))?.is_some())
    }
}

/// Fails at once where nobody listens, instead of trying until the time is over.
fn knock(endpoints: &[String], timeout: Duration) -> Result<(), Report> {
    let mut failures = Vec::new();
    for endpoint in endpoints {
        match endpoint.to_socket_addrs() {
            Err(error) => failures.push(format!("{endpoint} ({error})")),
            Ok(addresses) => {
                for address in addresses {
                    match TcpStream::connect_timeout(&address, timeout) {
                        Ok(_) => return Ok(()),
                        Err(error) => failures.push(format!("{endpoint} ({error})")),
                    }
                }
            }
        }
    }
    failures.dedup();
    Err(miette!(
        help = "is it running? `heddle controller` starts one; --endpoints HOST:PORT,.. names others",
        "no controller at {}",
        failures.join(", ")
    ))
}
