//! What clients ask.

use std::collections::BTreeMap;

use machine::nanos::{Span, Time};
use placement::ShardId;
use tree::{Change, Command, Path, SessionId, Transaction};

use super::leasing::not_upgraded;
use super::operations::{Origin, Purpose, Route, Task};
use super::view::ENSURE_EVERY;
use super::{About, Asked, ClientId, RequestId, Server};
use crate::budget::Kind;
use crate::planted::Bug;
use crate::protocol::{
    Admin, Answer, ClientMessage, Consistency, Error, Leader, Request, RequestBody, Response, ServerMessage,
    WATCHES_MAX,
};
use crate::read::Read;

/// A request may wait this long at most.
const TIMEOUT_MAX_MS: u32 = 600_000;

impl Server {
    pub(super) fn client_said(&mut self, now: Time, client: ClientId, id: RequestId, message: ClientMessage) {
        match message {
            ClientMessage::Request(request) => self.request(now, (client, id), request),
            ClientMessage::Reply { call, result } => self.rpc_reply(now, client, call, result),
        }
    }

    pub(super) fn client_gone(&mut self, now: Time, client: ClientId) {
        for id in self.operations.of_client(client) {
            self.remove_operation(id);
        }
        self.watches_gone(client);
        self.drop_backup(client);
        self.rpc_client_gone(now, client);
        self.caller_gone(client);
        self.forget_client(client);
    }

    /// A client says nothing more: it could neither end a watch nor answer a call.
    pub(super) fn client_silent(&mut self, now: Time, client: ClientId) {
        self.gate.silent.insert(client);
        self.watches_gone(client);
        self.rpc_provider_gone(now, client);
    }

    /// Refuses what only a client can have that goes on speaking.
    pub(super) fn check_speaks(&self, client: ClientId) -> Result<(), Error> {
        if self.gate.silent.contains(&client) {
            return Err(Error::Invalid(
                "who watches or offers has to keep both directions of the connection open".into(),
            ));
        }
        Ok(())
    }

    fn request(&mut self, now: Time, (client, id): (ClientId, RequestId), request: Request) {
        self.counters.requests += 1;
        let deadline = now + Span::from_ms(u64::from(request.timeout_ms.min(TIMEOUT_MAX_MS)));
        if self.is_checked(client, &request.body) && self.has_place(client) {
            self.park(now, (client, id), request, deadline);
        } else {
            // Where there is no room for it, it is refused at once, checked or not.
            self.carry_out_request(now, (client, id), request, deadline);
        }
    }

    /// Whether a client may have one more request under way.
    fn has_place(&self, client: ClientId) -> bool {
        self.operations.len() + self.gate.len() < self.config.operations_max
            && self.operations.places.admits(client, &self.party(client), 1)
    }

    /// Carries out what is allowed.
    pub(super) fn carry_out_request(
        &mut self,
        now: Time,
        (client, id): (ClientId, RequestId),
        request: Request,
        deadline: Time,
    ) {
        let asked = Asked { sequence: request.sequence, id };
        if let Err((error, shard)) = self.try_request(now, (client, id), request, deadline) {
            let leader = shard.and_then(|shard| self.leader_hint(shard));
            self.respond(client, asked, leader, Err(error));
        }
    }

    /// Answers a request, once.
    pub(super) fn respond(
        &mut self,
        client: ClientId,
        asked: Asked,
        leader: Option<Leader>,
        result: Result<Answer, Error>,
    ) {
        let response = Response { sequence: asked.sequence, leader, result };
        self.send_to_client(client, ServerMessage::Response(response), About::Request(asked.id));
    }

    pub(super) fn respond_ok(&mut self, client: ClientId, asked: Asked, answer: Answer) {
        self.respond(client, asked, None, Ok(answer));
    }

    pub(super) fn refuse(&mut self, client: ClientId, asked: Asked, error: Error) {
        self.respond(client, asked, None, Err(error));
    }

    fn try_request(
        &mut self,
        now: Time,
        (client, id): (ClientId, RequestId),
        request: Request,
        deadline: Time,
    ) -> Result<(), (Error, Option<ShardId>)> {
        let plain = |error| (error, None);
        // Whoever wants less is always heard.
        if !matches!(request.body, RequestBody::Unwatch { .. }) && !self.has_place(client) {
            self.counters.busy += 1;
            return Err(plain(Error::Busy((self.operations.len() + self.gate.len()) as u64)));
        }
        self.check_room(now, client, &request.body).map_err(plain)?;
        let Request { session, sequence, acknowledged, timeout_ms, body } = request;
        let timeout_ms = timeout_ms.min(TIMEOUT_MAX_MS);
        let asked = Asked { sequence, id };
        let origin = Origin::Client { client, asked, timeout_ms, purpose: Purpose::Plain };
        match body {
            RequestBody::Get { at, consistency } => {
                self.count_stale(consistency);
                let route = Route::Path(at.path.clone());
                self.start(now, origin, route, Task::Read(Read::Get(at), consistency), deadline);
            }
            RequestBody::List { at, after, limit, consistency } => {
                if self.config.planted.has(Bug::ListRootOnly) && self.view.map().shards_under(&at.path).len() > 1 {
                    return Err((self.spans_shards(&at.path), None));
                }
                self.count_stale(consistency);
                let route = Route::Path(at.path.clone());
                self.start(now, origin, route, Task::Read(Read::List { at, after, limit }, consistency), deadline);
            }
            RequestBody::Write(transaction) => {
                let path = self.check_write(now, &transaction, &[]).map_err(plain)?;
                if !transaction.is_of_version_1() {
                    self.check_upgraded("leases and these conditions").map_err(plain)?;
                }
                let command = Command::Write { session: SessionId(session), sequence, acknowledged, transaction };
                self.start(now, origin, Route::Path(path), Task::Propose(command.encode().into()), deadline);
            }
            RequestBody::Watch { at, from } => {
                let from = self.watch(now, (client, session, sequence), at, &from)?;
                self.respond_ok(client, asked, Answer::Watching { from });
                self.flush_watches();
            }
            RequestBody::Unwatch { watch } => {
                self.end_watch(client, watch);
                self.respond_ok(client, asked, Answer::Done);
            }
            RequestBody::Offer { offers } => self.rpc_offer(now, client, asked, offers).map_err(plain)?,
            RequestBody::Call { name, path, input, idempotent } => {
                let timeout = Span::from_ms(u64::from(timeout_ms.max(1)));
                self.rpc_call(now, (client, asked), (name, path, input), timeout, idempotent);
            }
            RequestBody::Admin(admin) => {
                self.admin(now, (client, asked, timeout_ms), admin, deadline).map_err(plain)?;
            }
            RequestBody::WriteOrElse { transaction, otherwise } => {
                self.check_upgraded("transactions that say what else to do").map_err(plain)?;
                let path = self.check_write(now, &transaction, &otherwise).map_err(plain)?;
                let session = SessionId(session);
                let command = Command::WriteOrElse { session, sequence, acknowledged, transaction, otherwise };
                self.start(now, origin, Route::Path(path), Task::Propose(command.encode().into()), deadline);
            }
            RequestBody::GetAt { at, revision, consistency } => {
                let route = Route::Path(at.path.clone());
                self.start_read_at(now, origin, route, (Read::GetAt { at, revision }, consistency), deadline)?;
            }
            RequestBody::ListAt { at, after, limit, revision, consistency } => {
                let route = Route::Path(at.path.clone());
                let read = Read::ListAt { at, after, limit, revision };
                self.start_read_at(now, origin, route, (read, consistency), deadline)?;
            }
            RequestBody::Window { at, consistency } => {
                let route = Route::Path(at.clone());
                self.start_read_at(now, origin, route, (Read::Window(at), consistency), deadline)?;
            }
            RequestBody::Lease(lease) => {
                let of = (session, acknowledged, timeout_ms);
                self.lease_request(now, (client, asked), of, lease, deadline).map_err(plain)?;
            }
            RequestBody::WhoAmI => {
                let answer = self.who(now, client);
                self.respond_ok(client, asked, answer);
            }
        }
        Ok(())
    }

    /// A read of an old revision.
    fn start_read_at(
        &mut self,
        now: Time,
        origin: Origin,
        route: Route,
        (read, consistency): (Read, Consistency),
        deadline: Time,
    ) -> Result<(), (Error, Option<ShardId>)> {
        self.check_upgraded("reads of old revisions").map_err(|error| (error, None))?;
        self.count_stale(consistency);
        self.start(now, origin, route, Task::Read(read, consistency), deadline);
        Ok(())
    }

    fn count_stale(&mut self, consistency: Consistency) {
        self.counters.stale_reads += u64::from(consistency == Consistency::Stale);
    }

    /// Why a subtree that lies in several shards cannot be listed at once.
    pub(super) fn spans_shards(&self, path: &Path) -> Error {
        let names = self.shard_names(&self.view.map().shards_under(path)).join(", ");
        Error::Invalid(format!(
            "{path} reaches over the shards {names}: name a path within one of them; hint: `heddle cluster shards` shows which data is in \
             which shard"
        ))
    }

    fn shard_names(&self, shards: &[ShardId]) -> Vec<String> {
        let name =
            |id: &ShardId| self.view.map().shards().get(id).map_or_else(|| id.to_string(), |shard| shard.name.clone());
        shards.iter().map(name).collect()
    }

    fn check_write(&mut self, now: Time, transaction: &Transaction, otherwise: &[Change]) -> Result<Path, Error> {
        transaction.check_with(otherwise).map_err(|invalid| Error::Invalid(invalid.to_string()))?;
        if let Some(error) = self.disk_refuses() {
            // Another server may lead and take it.
            if self.groups.len() == 1 || self.view.map().members().len() <= 1 {
                return Err(Error::Disk(error));
            }
        }
        let locations = || transaction.locations().chain(otherwise.iter().map(Change::at));
        let changes = || transaction.changes.iter().chain(otherwise);
        let Some(first) = locations().next() else {
            return Err(Error::Invalid("a transaction without a change: say what to change".into()));
        };
        self.view
            .map()
            .shards_of(locations().map(|at| &at.path))
            .map_err(|spans| Error::SpansShards(spans.names.clone()))?;
        for change in changes().filter(|change| change.is_subtree()) {
            let shards = self.view.map().shards_under(&change.at().path);
            if shards.len() > 1 {
                return Err(Error::SpansShards(self.shard_names(&shards)));
            }
        }
        let modules: Vec<String> = (changes().map(Change::at))
            .filter_map(|at| self.view.map().module_to_ensure(&at.path).map(str::to_owned))
            .collect();
        let path = first.path.clone();
        for module in modules {
            self.ensure_module(now, module);
        }
        Ok(path)
    }

    /// Asks for a shard of its own for a module that is written for the first time. The write need not wait for it.
    fn ensure_module(&mut self, now: Time, module: String) {
        if !self.view.take_ensuring(now, &module) {
            return;
        }
        let command = placement::Command::EnsureModule { module };
        let deadline = now + ENSURE_EVERY;
        self.start(now, Origin::Upkeep, Route::Shard(ShardId::META), Task::Propose(command.encode().into()), deadline);
    }

    fn admin(
        &mut self,
        now: Time,
        (client, asked, timeout_ms): (ClientId, Asked, u32),
        admin: Admin,
        deadline: Time,
    ) -> Result<(), Error> {
        let origin = |purpose| Origin::Client { client, asked, timeout_ms, purpose };
        let meta = Route::Shard(ShardId::META);
        match admin {
            Admin::StoppedReplicas => {
                self.respond_ok(client, asked, Answer::StoppedReplicas(self.stopped_replicas()));
            }
            Admin::Status => {
                let status = Box::new(self.status(now));
                self.respond_ok(client, asked, Answer::Status(status));
            }
            Admin::Disk | Admin::Defragment => {
                let status = self.disk_status();
                if admin == Admin::Defragment {
                    self.defragment();
                }
                self.respond_ok(client, asked, Answer::Disk(status));
            }
            Admin::Health => {
                let health = Box::new(self.health());
                self.respond_ok(client, asked, Answer::Health(health));
            }
            Admin::Alarms => {
                let alarms = Box::new(self.alarms(now));
                self.respond_ok(client, asked, Answer::Alarms(alarms));
            }
            Admin::Join { name, address, nonce, replaces } => {
                let command = match replaces {
                    None => placement::Command::AddServer { name, address, metrics: None, nonce },
                    Some(old) => placement::Command::ReplaceServer { old, name, address, metrics: None, nonce },
                };
                command.check().map_err(|refusal| Error::Invalid(refusal.to_string()))?;
                self.start(now, origin(Purpose::Join), meta, Task::Propose(command.encode().into()), deadline);
            }
            Admin::Access => {
                let view = Box::new(self.access_view());
                self.respond_ok(client, asked, Answer::Access(view));
            }
            Admin::ForceRemove(id) => {
                if self.protocol() < 3 {
                    return Err(not_upgraded("forced removals"));
                }
                let command = placement::Command::RemoveServer { id };
                self.start(now, origin(Purpose::Plain), meta, Task::Force(command.encode().into()), deadline);
            }
            Admin::Placement(command) if command.is_internal() => {
                return Err(Error::Invalid("only servers propose such a change".into()));
            }
            Admin::Placement(mut command) => {
                if let placement::Command::Access { revision, command } = &mut command {
                    self.check_access_command(now, client, command)?;
                    revision.get_or_insert(self.view.map().access().revision());
                }
                command.check().map_err(|refusal| Error::Invalid(refusal.to_string()))?;
                self.start(now, origin(Purpose::Plain), meta, Task::Propose(command.encode().into()), deadline);
            }
            Admin::MoveLeader { shard, to } => {
                let Some(entry) = self.view.map().shards().get(&shard) else {
                    return Err(Error::Invalid(format!("there is no shard {shard}")));
                };
                if !self.view.map().desired_replicas(shard).voters.contains(&to) {
                    return Err(Error::Invalid(format!("server {to} has no voting replica of shard {}", entry.name)));
                }
                self.start(now, origin(Purpose::Plain), Route::Shard(shard), Task::MoveLeader(to), deadline);
            }
            Admin::Backup { shard, after: None } => self.backup(now, origin(Purpose::Backup), shard, deadline)?,
            Admin::BackupLasting { shard, after: None } => {
                self.check_upgraded("backups without what belongs to leases")?;
                self.backup(now, origin(Purpose::BackupLasting), shard, deadline)?;
            }
            Admin::Backup { shard, after } | Admin::BackupLasting { shard, after } => {
                self.next_backup_chunk(now, (client, asked), shard, &Read::everything(after))?;
            }
        }
        Ok(())
    }

    fn backup(&mut self, now: Time, origin: Origin, shard: ShardId, deadline: Time) -> Result<(), Error> {
        if shard == ShardId::META || !self.is_kept_up(shard) {
            return Err(self.no_replica(shard));
        }
        let task = Task::Read(Read::everything(None), Consistency::Linearizable);
        self.start(now, origin, Route::Shard(shard), task, deadline);
        Ok(())
    }

    fn watch(
        &mut self,
        now: Time,
        (client, session, sequence): (ClientId, u64, u64),
        at: tree::Location,
        from: &BTreeMap<ShardId, u64>,
    ) -> Result<BTreeMap<ShardId, u64>, (Error, Option<ShardId>)> {
        self.check_speaks(client).map_err(|error| (error, None))?;
        if self.watches.count(client) >= WATCHES_MAX {
            let text = format!(
                "this connection has {WATCHES_MAX} watches, the most that there may be: end one, or watch a subtree"
            );
            return Err((Error::Invalid(text), None));
        }
        let shards = self.view.map().shards_under(&at.path);
        let absent = shards.iter().find(|shard| !self.is_kept_up(**shard));
        if let Some(shard) = absent {
            return Err((self.no_replica(*shard), Some(*shard)));
        }
        // One that is asked for again begins anew.
        self.end_watch(client, sequence);
        if !self.has_watch_room(client, &at, shards.len()) {
            self.budget.note_refused(Kind::Watches);
            return Err((self.overloaded(now, "there are as many watches as there may be of its user or host"), None));
        }
        Ok(self.begin_watch((client, session, sequence), at, &shards, from))
    }
}
