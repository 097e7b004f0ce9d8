//! Serves: waits for what happens, hands it to the server, and carries out what that says.

use std::io;
use std::time::Duration;

use machine::nanos::{Span, Step, Time};
use machine::{Control, ServerId};
use mio::{Events, Token};
use store::protocol::{Admin, Hello, Role};
use store::{Input, Output};

use super::connections::{Connection, Kind};
use super::state::{EventLoop, LISTENER, SIGNALS, WAKER};
use crate::Error;
use crate::audit::Audit;
use crate::caller::dial;
use crate::peers::{Action, bound_silence};
use crate::view::View;

/// A new connection has to identify itself within this time.
const GREETING_PATIENCE: Span = Span::from_secs(10);

/// Connections are looked through for silent ones so often.
const SWEEP: Span = Span::from_secs(1);

/// How often this server announces to the cluster where it is, if the map says otherwise.
const ANNOUNCE_ADDRESS_EVERY: Span = Span::from_secs(15);

/// How long the event loop looks for the next event before it sleeps, if the disk was given something a moment ago. The answers of disks and
/// peers are near then, and a thread that sleeps is woken late, above all in a virtual machine: decision 45.
const LINGER: Span = Span::from_us(150);

/// Leaders are handed over within this when the server ends.
const HANDOVER_PATIENCE: Span = Span::from_secs(2);

impl EventLoop {
    /// Serves until a signal or the server itself ends it.
    ///
    /// # Errors
    /// [`Error::Stopped`] with the server's words, [`Error::System`] if the event loop fails.
    pub fn run(mut self) -> Result<(), Error> {
        let outcome = self.serve();
        self.submit();
        // What was handed in is written: nobody saw it confirmed, but the next start is quicker.
        self.parts.disk.finish();
        if let Some(audit) = &mut self.parts.audit {
            audit.finish();
        }
        outcome
    }

    fn serve(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        self.identify_self(self.parts.clock.now());
        loop {
            let mut wake = self.drain()?;
            if let Some(until) = self.ending {
                if self.has_handed_over() || self.parts.clock.now() >= until {
                    tracing::info!("ends");
                    return Ok(());
                }
                wake = wake.min(until);
            }
            let now = self.parts.clock.now();
            wake = wake.min(self.tend(now));
            let is_busy = !self.turns.is_empty() || self.accepting.is_due() || !self.dirty.is_empty();
            let span = if is_busy { Span::ZERO } else { wake.since(self.parts.clock.now()) };
            match self.wait(&mut events, span) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome.map_err(Error::system("wait for events"))?,
            }
            let now = self.parts.clock.now();
            self.handle(now, &events);
        }
    }

    /// Waits until something happens, `span` at most. Around writes it looks for a while before it sleeps.
    fn wait(&mut self, events: &mut Events, span: Span) -> io::Result<()> {
        let now = self.parts.clock.now();
        let mut left = span;
        if span > LINGER && self.writes.are_recent(now) {
            let until = now + LINGER;
            left = (now + span).since(until);
            while self.parts.clock.now() < until {
                self.parts.poll.poll(events, Some(Duration::ZERO))?;
                if !events.is_empty() {
                    return Ok(());
                }
                std::thread::yield_now();
            }
        }
        self.parts.poll.poll(events, Some(Duration::from_nanos(left.as_ns())))
    }

    /// What has come in, a share of each connection, before the server is asked for anything.
    fn handle(&mut self, now: Time, events: &Events) {
        for event in events {
            match event.token() {
                LISTENER => self.accepting.note(),
                SIGNALS => self.signalled(now),
                WAKER => {}
                token => self.turns.add(token, event.is_read_closed() || event.is_error()),
            }
        }
        self.take_turns(now);
        if self.accepting.is_due() {
            self.accept(now);
        }
        while let Some(input) = self.writes.next_done(&mut self.parts.disk) {
            if matches!(input, Input::WriteFailed { .. }) {
                self.parts.server.set_disk_place(self.parts.disk.place());
            }
            self.parts.server.handle(now, input);
        }
        while let Ok(question) = self.parts.questions.try_recv() {
            question.answer(View {
                status: self.parts.server.status(now),
                unready: self.parts.server.unready(),
                stopped: self.parts.server.stopped_replicas(),
                refusals: self.refusals.counts(),
                other_refusals: self.refusals.others(),
                log_writes: self.parts.server.health().log_writes,
                disk_trouble: self.writes.trouble(&self.parts.disk),
                disk: self.parts.server.disk_status(),
                alarms: self.parts.server.alarms(now),
                dropped_envelopes: self.waiting.dropped_envelopes,
                unfinished_frames: self.waiting.unfinished_frames,
                memory: self.parts.server.memory(),
                connections: self.connections.len(),
                displaced: self.strangers.displaced(),
                audit: self.parts.audit.as_ref().map(Audit::figures),
                protocol: self.parts.server.protocol(),
                refused: self.peer_refusals.counts(),
            });
        }
    }

    /// Asks the server for output until it waits, and sends; when to come back at the latest.
    fn drain(&mut self) -> Result<Time, Error> {
        loop {
            let now = self.parts.clock.now();
            let wake = loop {
                match self.parts.server.poll(now) {
                    Step::Wait(until) => break until,
                    Step::Do(output) => self.carry_out(now, output)?,
                }
            };
            let goes_on = self.flush(now);
            // Others write what is sent to them while this server writes: they get it first.
            self.submit();
            if !goes_on && !self.end_answered(now) {
                return Ok(wake);
            }
        }
    }

    fn submit(&mut self) {
        if !self.writes.is_empty() {
            self.writes.submit(self.parts.clock.now(), &mut self.parts.disk);
        }
    }

    fn carry_out(&mut self, now: Time, output: Output) -> Result<(), Error> {
        match output {
            Output::Peer { to, envelope } => self.send_to_peer(to, &envelope),
            Output::Client { client, message, about } => self.send_to_client(now, client, &message, &about),
            Output::BadToken(client) => self.bad_token(now, client),
            Output::Disk(write) => self.writes.add(write),
            Output::Peers(peers) => {
                let own = self.parts.server.id();
                let others = peers.into_iter().filter(|(id, _)| *id != own).collect();
                for action in self.peers.set(now, others) {
                    self.act(now, action);
                }
            }
            Output::ReplicaStopped(stopped) => tracing::error!("{}", stopped.reason),
            Output::KeepSecret { from, secret } => self.keep_secret(now, from, &secret),
            Output::Stop(why) => return Err(Error::Stopped(why.to_string())),
        }
        Ok(())
    }

    /// Ends a connection from here.
    pub(super) fn close(&mut self, now: Time, token: Token, reason: &str) {
        self.end(now, token, reason, true);
    }

    pub(super) fn end(&mut self, now: Time, token: Token, reason: &str, is_refusal: bool) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        connection.stream.deregister(self.parts.poll.registry());
        self.handshakes.forget(token);
        self.half_closed.forget(token);
        self.forget_waiting(now, token, connection.kind);
        match connection.kind {
            Kind::Unknown { .. } | Kind::Challenged { .. } => {
                self.strangers.remove(token);
                if is_refusal {
                    tracing::info!("{}: {reason}", connection.stream.peer());
                    self.refusals.count(&connection.caller(), "connection", "no greeting", reason);
                }
            }
            Kind::Client { client, .. } => {
                tracing::debug!("client {}: {reason}", connection.stream.peer());
                if let Some(audit) = &mut self.parts.audit {
                    audit.gone(client);
                }
                self.clients.remove(client, connection.host);
                self.parts.server.handle(now, Input::ClientGone(client));
            }
            Kind::From(server) => {
                tracing::debug!("from server {server}: {reason}");
                if self.incoming.get(&server) == Some(&token) {
                    self.incoming.remove(&server);
                }
            }
            Kind::To { peer, welcomed } => {
                tracing::debug!("to server {peer}: {reason}");
                self.peers.failed(now, peer);
                if welcomed {
                    self.parts.server.handle(now, Input::PeerLost(peer));
                }
            }
        }
    }

    /// Connections to peers, and connections that say nothing; when to come back at the latest.
    fn tend(&mut self, now: Time) -> Time {
        let (actions, mut wake) = self.peers.due(now);
        let acted = !actions.is_empty();
        for action in actions {
            self.act(now, action);
        }
        if acted {
            wake = now;
        }
        if self.sweep_at <= now {
            self.sweep_at = now + SWEEP;
            self.accepting.note();
            let silent = |(token, connection): (&Token, &Connection)| match connection.kind {
                Kind::Unknown { since } | Kind::Challenged { since, .. } if since + GREETING_PATIENCE <= now => {
                    Some(*token)
                }
                _ => None,
            };
            let silent: Vec<Token> = self.connections.iter().filter_map(silent).collect();
            for token in silent {
                self.close(now, token, "it has not said who it is");
            }
            self.end_unanswered(now);
            self.end_unproven(now);
            self.announce_address(now);
            self.report_wall_clock(now);
            self.noted.note(&self.parts.server.alarms(now).alarms, self.parts.server.map());
        }
        wake.min(self.sweep_at)
    }

    /// Has the map say where this server is, if it says something else.
    fn announce_address(&mut self, now: Time) {
        let id = self.parts.server.id();
        let Some(member) = self.parts.server.map().members().get(&id) else { return };
        let (address, metrics) = (&self.parts.address, &self.parts.metrics);
        if (member.address == *address && member.metrics == *metrics) || self.announce_address_at > now {
            return;
        }
        tracing::info!("announces to the cluster where it is reached: {address}");
        self.announce_address_at = now + ANNOUNCE_ADDRESS_EVERY;
        let command = placement::Command::UpdateAddress { id, address: address.clone(), metrics: metrics.clone() };
        self.ask(Admin::Placement(command));
    }

    fn act(&mut self, now: Time, action: Action) {
        match action {
            Action::Close(token, reason) => self.close(now, token, reason),
            Action::Dial { peer, address, targets, attempt, version } => {
                let outcome = dial(&address, &targets, attempt, self.parts.tls.as_ref()).and_then(|mut stream| {
                    bound_silence(&stream);
                    let role = Role::Peer { cluster: self.parts.cluster, server: self.parts.server.id(), to: peer };
                    stream.put(&Hello::in_version(role, version)).expect("a hello is short");
                    let token = self.tokens.next();
                    stream.register(self.parts.poll.registry(), token).map_err(|error| error.to_string())?;
                    self.connections
                        .insert(token, Connection { stream, kind: Kind::To { peer, welcomed: false }, host: None });
                    Ok(token)
                });
                match outcome {
                    Ok(token) => self.peers.opened(now, peer, token),
                    Err(reason) => {
                        tracing::debug!("to server {peer} at {address}: {reason}");
                        self.peers.failed(now, peer);
                    }
                }
            }
        }
    }

    fn signalled(&mut self, now: Time) {
        while let Ok(Some(signal)) = self.parts.signals.read_signal() {
            if self.ending.is_some() {
                tracing::info!("signal {}: ends at once", signal.ssi_signo);
                self.ending = Some(now);
                continue;
            }
            tracing::info!("signal {}: hands over what it leads", signal.ssi_signo);
            self.hand_over(now);
        }
    }

    /// Begins to end.
    fn hand_over(&mut self, now: Time) {
        self.ending = Some(now + HANDOVER_PATIENCE);
        let own = self.parts.server.id();
        let status = self.parts.server.status(now);
        let is_live = |id: &ServerId| status.peers.iter().any(|peer| peer.server == *id && peer.live);
        for group in status.groups.iter().filter(|group| group.leader == Some(own)) {
            if let Some(to) = group.voters.iter().copied().find(|id| *id != own && is_live(id)) {
                self.ask(Admin::MoveLeader { shard: group.shard, to });
            }
        }
    }

    /// Whether nothing is led that another could lead.
    fn has_handed_over(&self) -> bool {
        let now = self.parts.clock.now();
        let own = self.parts.server.id();
        let status = self.parts.server.status(now);
        let is_live = |id: &ServerId| status.peers.iter().any(|peer| peer.server == *id && peer.live);
        let leads = |group: &store::status::GroupStatus| group.leader == Some(own) && group.voters.iter().any(is_live);
        self.parts.disk.is_idle() && !status.groups.iter().any(leads)
    }
}
