//! The RPC registry and broker, and how clients and peers reach them.

use std::collections::BTreeSet;

use machine::nanos::{Span, Step, Time};
use machine::{Control, ServerId};
use tree::Path;

use super::{About, Asked, ClientId, Server};
use crate::budget::{Kind, Owner};
use crate::peer::Item;
use crate::protocol::{Answer, Error, ServerMessage};

impl Server {
    pub(super) fn rpc_said(&mut self, now: Time, from: ServerId, message: rpc::Message) {
        self.calls.rpc.handle(now, rpc::Input::Message { from, message });
    }

    pub(super) fn rpc_lost(&mut self, now: Time, peer: ServerId) {
        self.calls.rpc.handle(now, rpc::Input::ServerLost(peer));
    }

    pub(super) fn rpc_members(&mut self, now: Time) {
        let members = self.view.map().members().keys().copied().collect();
        self.calls.rpc.handle(now, rpc::Input::Members(members));
    }

    pub(super) fn rpc_live(&mut self, now: Time) {
        let live = self.live_peers(now);
        self.calls.rpc.handle(now, rpc::Input::Live(live));
    }

    /// A client says what it provides, instead of what it said before.
    pub(super) fn rpc_offer(
        &mut self,
        now: Time,
        client: ClientId,
        asked: Asked,
        offers: Vec<(String, Option<Path>)>,
    ) -> Result<(), Error> {
        self.check_speaks(client)?;
        let provider = rpc::ProviderId(client.0);
        // Each once: whoever names one a million times must not keep all others waiting.
        let offers: BTreeSet<rpc::Offer> = offers.into_iter().map(|(name, path)| rpc::Offer { name, path }).collect();
        let before = self.calls.rpc.offers_of(provider);
        let withdrawn = before.into_iter().filter(|offer| !offers.contains(offer)).collect();
        self.calls.rpc.handle(now, rpc::Input::Withdraw { provider, offers: withdrawn });
        self.calls.rpc.handle(now, rpc::Input::Offer { provider, offers: offers.into_iter().collect() });
        if let Some(error) = self.poll_rpc_until_refused(now, provider) {
            return Err(Error::Rpc(error));
        }
        self.respond_ok(client, asked, Answer::Done);
        Ok(())
    }

    /// A client provides nothing any more.
    pub(super) fn rpc_withdraw_all(&mut self, now: Time, client: ClientId) {
        let provider = rpc::ProviderId(client.0);
        let offers = self.calls.rpc.offers_of(provider);
        self.calls.rpc.handle(now, rpc::Input::Withdraw { provider, offers });
    }

    pub(super) fn rpc_call(
        &mut self,
        now: Time,
        (client, asked): (ClientId, Asked),
        (name, path, input): (String, Option<Path>, Vec<u8>),
        timeout: Span,
        idempotent: bool,
    ) {
        let party = self.party(client);
        let Some(number) = self.calls.begin(client, &party, asked, input.len()) else {
            self.budget.note_refused(Kind::Calls);
            let error = self.overloaded(now, "its user or host has as many calls under way as it may");
            return self.refuse(client, asked, error);
        };
        // That there is room for it was seen to before.
        self.budget.add(Owner::Client(client), Kind::Calls, input.len());
        let call = rpc::Call { id: rpc::CallId(number), name, path, input: input.into(), timeout, idempotent };
        self.calls.rpc.handle(now, rpc::Input::Call(call));
    }

    /// Forgets a call; whose it was, and which request of his.
    fn end_call(&mut self, call: u64) -> Option<(ClientId, Asked)> {
        let (client, asked, bytes) = self.calls.end(call)?;
        self.budget.give_back(Owner::Client(client), Kind::Calls, bytes);
        Some((client, asked))
    }

    pub(super) fn rpc_reply(&mut self, now: Time, client: ClientId, call: u64, result: Result<Vec<u8>, String>) {
        // The broker knows whose it is, and whether anybody waits for it.
        let (provider, delivery) = (rpc::ProviderId(client.0), rpc::DeliveryId(call));
        let result = result.map(Into::into);
        self.calls.rpc.handle(now, rpc::Input::Reply { provider, delivery, result });
    }

    pub(super) fn rpc_client_gone(&mut self, now: Time, client: ClientId) {
        for call in self.calls.made_by(client) {
            self.end_call(call);
            self.calls.rpc.handle(now, rpc::Input::Cancel(rpc::CallId(call)));
        }
        self.rpc_provider_gone(now, client);
    }

    /// A client answers no call any more.
    pub(super) fn rpc_provider_gone(&mut self, now: Time, client: ClientId) {
        let provider = rpc::ProviderId(client.0);
        self.calls.rpc.handle(now, rpc::Input::ProviderGone(provider));
    }

    /// Has a provider carry out a call. Whoever leaves many unanswered is not asked further, and the call goes to another one.
    fn deliver(
        &mut self,
        now: Time,
        client: ClientId,
        delivery: rpc::DeliveryId,
        (name, path, input): (String, Option<Path>, tree::Bytes),
    ) {
        let party = self.party(client);
        let has_place = self.calls.providers.admits(client, &party, 1);
        // It is given back when the delivery ends, refused or not.
        self.calls.providers.take(client, &party, 1);
        if !self.calls.rpc.awaits(delivery) {
            // The caller or the provider is gone already.
            return;
        }
        if !has_place {
            self.budget.note_refused(Kind::Calls);
            return self.calls.rpc.handle(now, rpc::Input::Undelivered { delivery });
        }
        if !self.budget.admits(Owner::Client(client), input.len()) {
            self.budget.note_refused(Kind::Answers);
            let reason = "its provider was not asked: it leaves too much unread".to_owned();
            return self.rpc_reply(now, client, delivery.0, Err(reason));
        }
        let invoke = ServerMessage::Invoke { call: delivery.0, name, path, input: input.to_vec() };
        self.send_to_client(client, invoke, About::News);
    }

    /// The answer of a caller whose call failed. Names that look like his own are shown where everybody may know all that is offered: where users
    /// are checked, what others offer and for which paths is not everybody's business.
    fn with_hint(&self, error: &rpc::Error) -> String {
        let rpc::Error::NoProvider { name, .. } = error else { return error.to_string() };
        let near = if self.view.map().access().is_enabled() { Vec::new() } else { self.calls.rpc.near(name) };
        if near.is_empty() { error.to_string() } else { format!("{error}\nhint: offered are {}", near.join(", ")) }
    }

    pub(super) fn poll_rpc(&mut self, now: Time) {
        self.poll_rpc_until_refused(now, rpc::ProviderId(u64::MAX));
    }

    /// Carries out what the broker wants; gives why it refused this provider's offer, if it did.
    fn poll_rpc_until_refused(&mut self, now: Time, of: rpc::ProviderId) -> Option<String> {
        let mut refused = None;
        loop {
            match self.calls.rpc.poll(now) {
                Step::Wait(until) => {
                    self.schedule.upkeep_by(until.max(now));
                    return refused;
                }
                Step::Do(rpc::Output::Send { to, message }) => self.peers.push(to, Item::Rpc(message)),
                Step::Do(rpc::Output::Deliver { provider, delivery, name, path, input }) => {
                    self.deliver(now, ClientId(provider.0), delivery, (name, path, input));
                }
                Step::Do(rpc::Output::Ended { provider, .. }) => {
                    self.calls.providers.give_back(ClientId(provider.0), 1);
                }
                Step::Do(rpc::Output::Answer { id, result }) => {
                    let Some((client, asked)) = self.end_call(id.0) else { continue };
                    let result = match result {
                        Ok(output) => Ok(Answer::Output(output.to_vec())),
                        Err(error) => Err(Error::Rpc(self.with_hint(&error))),
                    };
                    let result = self.fit_answer(now, client, result);
                    self.respond(client, asked, None, result);
                }
                Step::Do(rpc::Output::OfferRefused { provider, error }) => {
                    if provider == of {
                        refused = Some(error.to_string());
                    }
                }
                Step::Do(rpc::Output::MessageRefused { .. }) => self.counters.malformed += 1,
            }
        }
    }
}
