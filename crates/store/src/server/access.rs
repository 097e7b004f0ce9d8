//! Checks what callers may ask for.
//!
//! While users are checked, a request waits until this server knows that its map is as new as the request: an index of
//! meta's log, asked of meta's leader once for all that wait, as for a linearizable read. So no right that was taken away
//! before a request was sent lets it through, whichever server it is sent to.
//!
//! ```text
//!   request --> parked --> confirmed: the map has all that was answered before --> checked --> carried out
//!                             ^ one question to meta's leader for all that wait
//! ```
//!
//! Three things are checked by the map at hand: stale reads, which may be old in everything; the question who one is; and
//! watches under way, which end when the map says so, or when it could not be confirmed for [`WATCH_PATIENCE`].

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::nanos::{Span, Time};
use placement::access::{Credentials, Identity, Need, Operation};
use placement::{AccessCommand, ShardId};
use tree::{Change, Condition, Datastore, Location, Path};

use super::gate::Parked;
use super::io::Caller;
use super::memory::request_bytes;
use super::operations::{Origin, Route, Task};
use super::places::Party;
use super::{Asked, ClientId, Output, RequestId, Server};
use crate::budget::{Kind, Owner};
use crate::peer::PeerAnswer;
use crate::protocol::{AccessView, Admin, Answer, Consistency, Error, LeaseRequest, Request, RequestBody};

/// A question to meta's leader is asked anew after this.
const CONFIRM_TIMEOUT: Span = Span::from_secs(1);

/// While users watch, the map is confirmed so often.
const CONFIRM_EVERY: Span = Span::from_secs(1);

/// Watches of users end when the map could not be confirmed for so long: a right may have been taken away unheard.
const WATCH_PATIENCE: Span = Span::from_secs(5);

/// The version of the protocol that knows roles and users.
const VERSION_WITH_ACCESS: u32 = 2;

/// A user, or a client of nobody known.
type Whose<'a> = Result<&'a str, ClientId>;

/// Why something is not allowed.
enum Denial {
    /// The token is worth nothing.
    BadToken,
    /// It failed for another reason.
    Other(Error),
}

impl Server {
    /// Says who is at the end of a client's connection.
    pub(super) fn called_by(&mut self, client: ClientId, caller: Caller) {
        if let Caller::Client(credentials) = &caller {
            // One that has expired opens nothing, so that nothing has to end.
            let (expiry_s, now_s) =
                (self.view.map().access().expires_s(credentials), self.gate.now_s(self.schedule.seen()));
            if let Some(at) = expiry_s.filter(|at| now_s.is_none_or(|now_s| now_s < *at)) {
                self.gate.expiry_s = Some(self.gate.expiry_s.map_or(at, |other| other.min(at)));
            }
        }
        self.gate.callers.insert(client, caller);
    }

    /// What the clock on the wall shows, which nothing but the expiry of tokens depends on.
    pub(super) fn wall_clock(&mut self, now: Time, seconds: u64) {
        if self.gate.now_s(now).is_some_and(|before| seconds < before) {
            // It was set back: what had expired has not, and will again.
            self.gate.expiry_s = Some(0);
        }
        self.gate.wall = Some((now, seconds));
    }

    pub(super) fn caller_gone(&mut self, client: ClientId) {
        self.gate.callers.remove(&client);
        self.gate.hosts.remove(&client);
        self.gate.silent.remove(&client);
        let (mut bytes, before) = (0, self.gate.parked.len());
        self.gate.parked.retain(|parked| {
            let stays = parked.client != client;
            bytes += if stays { 0 } else { parked.bytes };
            stays
        });
        self.operations.places.give_back(client, before - self.gate.parked.len());
        self.budget.give_back(Owner::Client(client), Kind::Requests, bytes);
    }

    /// The user at the end of a connection by the map at hand, for a log.
    pub fn user(&self, client: ClientId) -> Option<&str> {
        match self.gate.callers.get(&client)? {
            Caller::Server => None,
            Caller::Client(credentials) => {
                match self.view.map().access().identify(credentials, self.gate.now_s(self.schedule.seen())) {
                    Identity::User(user) => Some(user),
                    Identity::Invited { .. } | Identity::Nobody => None,
                }
            }
        }
    }

    /// The party that a client counts as where something is shared out.
    pub fn party(&self, client: ClientId) -> Party {
        if self.view.map().access().is_enabled()
            && let Some(user) = self.user(client)
        {
            return Party::User(user.into());
        }
        self.gate.hosts.get(&client).map_or(Party::Client(client), |host| Party::Host(Arc::clone(host)))
    }

    /// Whether a client may send long requests: where there are users, it has to be one of them. By the map at hand; who became a user a
    /// moment ago may have to come again.
    pub fn takes_long_requests(&self, client: ClientId) -> bool {
        !self.view.map().access().is_enabled() || self.gate.is_server(client) || self.user(client).is_some()
    }

    /// Whether requests of this client have to be checked.
    pub(super) fn is_checked(&self, client: ClientId, body: &RequestBody) -> bool {
        // Users are looked at and changed in a map that is known to be the newest.
        let needs_the_newest = matches!(
            body,
            RequestBody::Admin(Admin::Access | Admin::Placement(placement::Command::Access { revision: None, .. }))
        );
        needs_the_newest || (self.view.map().access().is_enabled() && !self.gate.is_server(client))
    }

    /// Takes a request of somebody who has to be checked.
    pub(super) fn park(&mut self, now: Time, (client, id): (ClientId, RequestId), request: Request, deadline: Time) {
        if is_judged_at_once(&request.body) {
            return self.judge(now, (client, id), request, deadline);
        }
        if let Err(error) = self.check_room(now, client, &request.body) {
            return self.refuse(client, Asked { sequence: request.sequence, id }, error);
        }
        let bytes = request_bytes(&request.body);
        self.budget.add(Owner::Client(client), Kind::Requests, bytes);
        self.operations.places.take(client, &self.party(client), 1);
        self.gate.next += 1;
        let number = self.gate.next;
        self.gate.parked.push_back(Parked { number, client, id, request, came: now, deadline, bytes });
        self.confirm(now);
    }

    /// Asks how new the map must be to know all that was answered before this moment.
    fn confirm(&mut self, now: Time) {
        if self.gate.asking.is_some() {
            return;
        }
        self.gate.asking = Some((now, self.gate.next));
        self.start(now, Origin::Confirm, Route::Shard(ShardId::META), Task::Confirm, now + CONFIRM_TIMEOUT);
    }

    /// The answer is there, and the map is as new as it says.
    pub(super) fn confirmed(&mut self, now: Time, answer: &Result<PeerAnswer, Error>) {
        let Some((asked, covered)) = self.gate.asking.take() else { return };
        if answer.is_err() {
            // It is asked again by [`Server::access_due`].
            return;
        }
        self.gate.confirmed = asked;
        while self.gate.parked.front().is_some_and(|parked| parked.number <= covered) {
            let Some(Parked { client, id, request, deadline, bytes, .. }) = self.gate.parked.pop_front() else {
                return;
            };
            self.budget.give_back(Owner::Client(client), Kind::Requests, bytes);
            self.operations.places.give_back(client, 1);
            self.judge(now, (client, id), request, deadline);
        }
        if !self.gate.parked.is_empty() {
            self.confirm(now);
        }
    }

    fn judge(&mut self, now: Time, (client, id): (ClientId, RequestId), request: Request, deadline: Time) {
        match self.permit_if_checked(now, client, &request.body) {
            Ok(()) => self.carry_out_request(now, (client, id), request, deadline),
            Err(denial) => {
                self.counters.denied += 1;
                let is_bad_token = matches!(denial, Denial::BadToken);
                let error = match denial {
                    Denial::Other(error) => error,
                    Denial::BadToken => {
                        self.counters.bad_tokens += 1;
                        Error::Denied(
                            "the token is not valid (any more); hint: an administrator gives a new one with \
                             `heddle cluster user token NAME`"
                                .into(),
                        )
                    }
                };
                self.refuse(client, Asked { sequence: request.sequence, id }, error);
                if is_bad_token {
                    self.outbox.push(Output::BadToken(client));
                }
            }
        }
    }

    /// Now and then: requests whose time is over, questions that were not answered, watches that may not go on.
    pub(super) fn access_due(&mut self, now: Time) {
        let mut over = Vec::new();
        self.gate.parked.retain(|parked| {
            let is_over = parked.deadline <= now;
            if is_over {
                over.push((parked.client, parked.asked(), parked.deadline.since(parked.came), parked.bytes));
            }
            !is_over
        });
        for (client, asked, waited, bytes) in over {
            self.budget.give_back(Owner::Client(client), Kind::Requests, bytes);
            self.operations.places.give_back(client, 1);
            self.counters.timeouts += 1;
            let timeout_ms = u32::try_from(waited.as_ns() / 1_000_000).unwrap_or(u32::MAX);
            let reason =
                "whether it is allowed could not be found out: shard meta has no leader that this server can reach";
            self.refuse(client, asked, Error::Timeout { timeout_ms, reason: reason.into() });
        }
        if !self.view.map().access().is_enabled() {
            self.gate.confirmed = now;
        }
        let is_enabled = self.view.map().access().is_enabled();
        let watched = is_enabled && self.watches.clients().any(|client| !self.gate.is_server(client));
        let is_due = now >= self.gate.confirmed + CONFIRM_EVERY;
        if !self.gate.parked.is_empty() || (watched && is_due) {
            self.confirm(now);
        }
        if watched && now >= self.gate.confirmed + WATCH_PATIENCE {
            self.end_unconfirmed_watches();
        }
        let now_s = self.gate.now_s(now);
        if self.gate.expiry_s.is_some_and(|at| now_s.is_some_and(|now_s| now_s >= at)) {
            self.end_what_is_not_allowed(now);
        }
    }

    fn end_unconfirmed_watches(&mut self) {
        let servers: Vec<String> =
            self.peers.addresses().values().filter(|it| **it != *self.view.address()).cloned().collect();
        let of_users = self.watches.watched().filter(|(client, ..)| !self.gate.is_server(*client));
        for (client, sequence) in of_users.map(|(client, sequence, _)| (client, sequence)).collect::<Vec<_>>() {
            let reason = "this server does not reach the leader of shard meta: what users may do could have changed";
            let error = Error::Elsewhere { reason: reason.into(), servers: servers.clone() };
            self.break_watch(client, sequence, error);
        }
    }

    /// The map has changed: what is under way and not allowed any more ends.
    pub(super) fn access_changed(&mut self, now: Time) {
        let access = self.view.map().access();
        if access.revision() == self.gate.revision {
            return;
        }
        self.gate.revision = access.revision();
        self.end_what_is_not_allowed(now);
    }

    /// How often it was looked at whether something that was begun may go on: what a change of rights costs.
    pub const fn rights_judged(&self) -> u64 {
        self.gate.judged
    }

    /// Rights have changed, or a token has expired: what is under way by it ends.
    fn end_what_is_not_allowed(&mut self, now: Time) {
        self.note_next_expiry(now);
        if !self.view.map().access().is_enabled() {
            return;
        }
        for (client, sequence, error) in self.watches_not_allowed(now) {
            self.counters.denied += 1;
            self.break_watch(client, sequence, error);
        }
        let clients: Vec<ClientId> = self.gate.callers.keys().copied().collect();
        for client in clients {
            let offers = self.calls.rpc.offers_of(rpc::ProviderId(client.0));
            let offers: Vec<_> = offers.into_iter().map(|offer| (offer.name, offer.path)).collect();
            if !offers.is_empty() && self.permit_if_checked(now, client, &RequestBody::Offer { offers }).is_err() {
                self.rpc_withdraw_all(now, client);
            }
            let backup = RequestBody::Admin(Admin::Backup { shard: ShardId::DEFAULT, after: None });
            if self.backups.contains_key(&client) && self.permit_if_checked(now, client, &backup).is_err() {
                self.drop_backup(client);
            }
        }
    }

    fn note_next_expiry(&mut self, now: Time) {
        let now_s = self.gate.now_s(now);
        let of_callers = self.gate.callers.values().filter_map(|caller| match caller {
            Caller::Server => None,
            Caller::Client(credentials) => self.view.map().access().expires_s(credentials),
        });
        self.gate.expiry_s = of_callers.filter(|at| now_s.is_none_or(|now_s| now_s < *at)).min();
    }

    /// Watches that may not go on, and the answers to their clients. Each path is judged once for each user, however many watches he has.
    fn watches_not_allowed(&mut self, now: Time) -> Vec<(ClientId, u64, Error)> {
        let mut verdicts: BTreeMap<(Whose<'_>, &Location), Result<(), Error>> = BTreeMap::new();
        let mut ended = Vec::new();
        // Watches of one client follow each other.
        let mut last = None;
        for (client, sequence, at) in self.watches.watched() {
            let whose = match last {
                Some((of, whose)) if of == client => whose,
                _ => self.user(client).ok_or(client),
            };
            last = Some((client, whose));
            let verdict = verdicts.entry((whose, at)).or_insert_with(|| {
                let body = RequestBody::Watch { at: at.clone(), from: BTreeMap::new() };
                self.permit_if_checked(now, client, &body).map_err(|denial| match denial {
                    Denial::Other(error) => error,
                    Denial::BadToken => Error::Denied("the token is not valid any more".into()),
                })
            });
            if let Err(error) = verdict {
                ended.push((client, sequence, error.clone()));
            }
        }
        let judged = verdicts.len() as u64;
        self.gate.judged += judged;
        ended
    }

    fn permit_if_checked(&self, now: Time, client: ClientId, body: &RequestBody) -> Result<(), Denial> {
        if self.view.map().access().is_enabled() { self.permit(now, client, body) } else { Ok(()) }
    }

    /// Whether the map at hand allows it.
    fn permit(&self, now: Time, client: ClientId, body: &RequestBody) -> Result<(), Denial> {
        if matches!(body, RequestBody::WhoAmI | RequestBody::Unwatch { .. }) {
            return Ok(());
        }
        let denied = |text: String| Err(Denial::Other(Error::Denied(text)));
        let access = self.view.map().access();
        let nothing = Credentials::default();
        let credentials = match self.gate.callers.get(&client) {
            Some(Caller::Server) => return Ok(()),
            Some(Caller::Client(credentials)) => credentials,
            None => &nothing,
        };
        match (access.identify(credentials, self.gate.now_s(now)), body) {
            (Identity::User(user), _) => match first_missing(body, |need| access.allows(user, need)) {
                Ok(()) => Ok(()),
                Err(missing) => denied(format!(
                    "user {user} may not {missing}; hint: `heddle cluster whoami` shows the roles, an administrator gives another \
                     with `heddle cluster user grant {user} ROLE`"
                )),
            },
            // By its own name, once: the name is taken then.
            (
                Identity::Invited { name, replaces },
                RequestBody::Admin(Admin::Join { name: joining, replaces: replaced, .. }),
            ) if name == joining && replaces == *replaced => Ok(()),
            (Identity::Invited { name, .. }, _) => {
                denied(format!("this token is good for one thing: that a server named {name} joins the cluster"))
            }
            (Identity::Nobody, _) if credentials.token.is_some() => Err(Denial::BadToken),
            (Identity::Nobody, _) => {
                let who = match &credentials.certificate {
                    Some(name) => format!("the certificate's name, {name:?}, is no user's"),
                    None => "nobody has logged in on this connection".to_owned(),
                };
                denied(format!(
                    "this cluster does only what its users may do, and {who}; hint: --token-file FILE or HEDDLE_TOKEN, or the \
                     certificate of a user"
                ))
            }
        }
    }

    /// The answer to who one is.
    pub(super) fn who(&self, now: Time, client: ClientId) -> Answer {
        let access = self.view.map().access();
        let user = match self.gate.callers.get(&client) {
            Some(Caller::Client(credentials)) => match access.identify(credentials, self.gate.now_s(now)) {
                Identity::User(user) => Some(user.to_owned()),
                Identity::Invited { .. } | Identity::Nobody => None,
            },
            Some(Caller::Server) | None => None,
        };
        let known = user.as_ref().and_then(|user| access.users().get(user));
        let roles = known.map(|user| user.roles.iter().cloned().collect()).unwrap_or_default();
        Answer::Identity { user, roles, is_enabled: access.is_enabled() }
    }

    /// Roles and users as an administrator may see them.
    pub(super) fn access_view(&self) -> AccessView {
        let access = self.view.map().access();
        AccessView {
            revision: access.revision(),
            is_enabled: access.is_enabled(),
            roles: access.roles().iter().map(|(role, grants)| (role.clone(), grants.clone())).collect(),
            users: (access.users().iter())
                .map(|(name, user)| {
                    let token = user.token.map(|token| token.expires_s);
                    (name.clone(), (user.roles.clone(), token))
                })
                .collect(),
        }
    }

    /// What has to be so before roles and users are changed.
    pub(super) fn check_access_command(
        &self,
        now: Time,
        client: ClientId,
        command: &AccessCommand,
    ) -> Result<(), Error> {
        if self.view.map().protocol() < VERSION_WITH_ACCESS {
            return Err(Error::Invalid(
                "not all servers of the cluster know roles and users: upgrade them all first".into(),
            ));
        }
        if *command != AccessCommand::Enable || self.gate.is_server(client) {
            return Ok(());
        }
        // Whoever switches it on must be able to switch it off again, and shows so by doing it.
        match self.who(now, client) {
            Answer::Identity { user: Some(user), .. } if self.view.map().access().is_root(&user) => Ok(()),
            _ => Err(Error::Invalid(
                "only a user with the role root can switch this on, so that it is certain that one can log in; hint: `heddle cluster \
                 user add NAME --role root --token` makes one, and this command with HEDDLE_TOKEN does it"
                    .into(),
            )),
        }
    }
}

/// Stale reads are old in everything, also in what is allowed; and who one is may be asked by anybody.
fn is_judged_at_once(body: &RequestBody) -> bool {
    match body {
        RequestBody::Get { consistency, .. }
        | RequestBody::List { consistency, .. }
        | RequestBody::GetAt { consistency, .. }
        | RequestBody::ListAt { consistency, .. }
        | RequestBody::Window { consistency, .. } => *consistency == Consistency::Stale,
        RequestBody::WhoAmI => true,
        RequestBody::Write(_)
        | RequestBody::WriteOrElse { .. }
        | RequestBody::Lease(_)
        | RequestBody::Watch { .. }
        | RequestBody::Unwatch { .. }
        | RequestBody::Offer { .. }
        | RequestBody::Call { .. }
        | RequestBody::Admin(_) => false,
    }
}

/// Goes through all that a request needs; gives the first need that is not met, in words.
fn first_missing(body: &RequestBody, mut allows: impl FnMut(&Need<'_>) -> bool) -> Result<(), String> {
    let mut need = |need: Need<'_>| if allows(&need) { Ok(()) } else { Err(need.to_string()) };
    match body {
        RequestBody::Get { at, .. }
        | RequestBody::List { at, .. }
        | RequestBody::GetAt { at, .. }
        | RequestBody::ListAt { at, .. } => need(Need::Data { operation: Operation::Read, at }),
        RequestBody::Window { at, .. } => need_at_path(Operation::Read, at, need),
        RequestBody::Write(transaction) => needs_of_write(&transaction.conditions, &transaction.changes, need),
        RequestBody::WriteOrElse { transaction, otherwise } => {
            needs_of_write(&transaction.conditions, &transaction.changes, &mut need)?;
            needs_of_write(&[], otherwise, need)
        }
        RequestBody::Lease(lease) => match lease {
            LeaseRequest::Grant { home: at, .. } | LeaseRequest::KeepAlive { at, .. } => {
                need_at_path(Operation::Write, at, need)
            }
            LeaseRequest::Revoke { at, .. } => need_at_path(Operation::Delete, at, need),
            LeaseRequest::Show { at, .. } => need_at_path(Operation::Read, at, need),
            // Paths of everybody.
            LeaseRequest::List { .. } => need(Need::Cluster(Operation::Status)),
        },
        RequestBody::Watch { at, .. } => {
            need(Need::Data { operation: Operation::Watch, at })?;
            need(Need::Data { operation: Operation::Read, at })
        }
        RequestBody::Offer { offers } => offers
            .iter()
            .try_for_each(|(name, path)| need(Need::Rpc { operation: Operation::Offer, name, path: path.as_ref() })),
        RequestBody::Call { name, path, .. } => {
            need(Need::Rpc { operation: Operation::Call, name, path: path.as_ref() })
        }
        RequestBody::Admin(admin) => need(Need::Cluster(operation_of(admin))),
        // They touch nothing but what is the caller's own.
        RequestBody::Unwatch { .. } | RequestBody::WhoAmI => Ok(()),
    }
}

/// What is about a path, not about a value: the right to it in one datastore is enough.
fn need_at_path(
    operation: Operation,
    path: &Path,
    mut need: impl FnMut(Need<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut need_in = |datastore| need(Need::Data { operation, at: &Location { datastore, path: path.clone() } });
    need_in(Datastore::Config).or_else(|_| need_in(Datastore::Operational))
}

fn needs_of_write(
    conditions: &[Condition],
    changes: &[Change],
    mut need: impl FnMut(Need<'_>) -> Result<(), String>,
) -> Result<(), String> {
    for condition in conditions {
        need(Need::Data { operation: Operation::Read, at: &condition.at })?;
    }
    for change in changes {
        let (operation, at): (Operation, &Location) = match change {
            Change::Create { at, .. }
            | Change::Put { at, .. }
            | Change::Replace { at, .. }
            | Change::PutWithLease { at, .. } => (Operation::Write, at),
            Change::Delete { at } | Change::Remove { at } => (Operation::Delete, at),
        };
        need(Need::Data { operation, at })?;
    }
    Ok(())
}

/// What running the cluster needs.
fn operation_of(admin: &Admin) -> Operation {
    use placement::Command;
    match admin {
        Admin::Status | Admin::Disk | Admin::StoppedReplicas | Admin::Health | Admin::Alarms => Operation::Status,
        Admin::Join { .. } | Admin::ForceRemove(_) => Operation::Members,
        Admin::MoveLeader { .. } => Operation::Leaders,
        Admin::Backup { .. } | Admin::BackupLasting { .. } => Operation::Backup,
        Admin::Defragment => Operation::Shards,
        Admin::Access => Operation::Users,
        Admin::Placement(command) => match command {
            // A user who may let servers join may invite them.
            Command::AddServer { .. }
            | Command::RemoveServer { .. }
            | Command::UpdateAddress { .. }
            | Command::ReplaceServer { .. }
            | Command::Access { command: AccessCommand::Invite { .. }, .. } => Operation::Members,
            // Raising the protocol is the servers' own, whoever asks.
            Command::Access { .. } | Command::RaiseProtocol { .. } => Operation::Users,
            Command::Pin { .. } | Command::Unpin { .. } => Operation::Leaders,
            Command::SetStrategy { .. }
            | Command::EnsureModule { .. }
            | Command::CreateShard { .. }
            | Command::DeleteShard { .. }
            | Command::SetReplicas { .. }
            | Command::BeginMove { .. }
            | Command::MoveImported { .. }
            | Command::FinishMove { .. }
            | Command::MoveDropped { .. } => Operation::Shards,
        },
    }
}
