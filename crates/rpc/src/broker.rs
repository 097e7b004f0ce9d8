//! The broker: what becomes of each call.
//!
//! ```text
//!            choose                                        Reply, Result
//!  Call -----------> at a local provider or a server --------------------> Answer
//!          ^                    |
//!          |  NotHere, Busy, unsent: certainly not executed
//!          |  lost, silent: only if the call is idempotent
//!          +--------------------+        no provider left, or the timeout: Answer with an error
//! ```
//!
//! Always: a call under way is at exactly one provider and has a deadline; it never goes to the same provider twice.

mod serving;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::ServerId;
use machine::nanos::{Span, Time};
use tree::{Bytes, Path};

pub use serving::RemoteCall;

use crate::config::{ATTEMPTS_MAX, CALL_BYTES_MAX, CALLS_MAX, PAYLOAD_BYTES_MAX, TIMEOUT_MAX};
use crate::error::{Bound, Error, Loss};
use crate::executions::{Caller, Execution, Executions};
use crate::offer::check_name;
use crate::route::{Absent, Known, Load, Target, Wanted, choose};
use crate::{AttemptId, Call, CallId, Config, Counters, DeliveryId, Message, Offer, Output, ProviderId, Verdict};

/// What one input or timer works with.
pub struct Context<'a> {
    /// The time of the input.
    pub now: Time,
    /// Who offers what.
    pub known: Known<'a>,
    /// Where outputs go.
    pub out: &'a mut VecDeque<Output>,
    /// What is counted.
    pub counters: &'a mut Counters,
}

impl Context<'_> {
    fn send(&mut self, to: ServerId, message: Message) {
        self.out.push_back(Output::Send { to, message });
    }

    fn send_status(&mut self, to: ServerId) {
        self.counters.statuses_sent += 1;
        self.send(to, self.known.registry.status());
    }
}

/// Where a call is.
#[derive(Clone, Debug)]
enum CallLocation {
    /// With no provider, on its way to the next.
    Nowhere,
    Local {
        delivery: DeliveryId,
    },
    Server {
        server: ServerId,
        attempt: AttemptId,
        /// The offer by which it was chosen.
        offer: Offer,
        /// Of the server, as far as was known.
        incarnation: u64,
    },
}

/// A call under way.
#[derive(Clone, Debug)]
struct Pending {
    name: String,
    path: Option<Path>,
    input: Bytes,
    is_idempotent: bool,
    deadline: Time,
    /// When an idempotent call looks for another provider.
    retry_at: Option<Time>,
    location: CallLocation,
    tried: BTreeSet<Target>,
    /// The caller's answer if no provider is left, if it is more than that there is none.
    refusal: Option<Error>,
}

/// What the clock brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// An idempotent call looks for another provider.
    Retry(CallId),
    /// A call ends.
    End(CallId),
}

/// All calls of local clients, and what local providers execute.
#[derive(Clone, Debug)]
pub struct Broker {
    config: Config,
    calls: BTreeMap<CallId, Pending>,
    /// Bytes of the inputs of all calls.
    call_bytes: usize,
    /// Calls that are at another server.
    attempts: BTreeMap<AttemptId, CallId>,
    /// How many of them, by server.
    under_way: BTreeMap<ServerId, usize>,
    due: BTreeSet<(Time, Due)>,
    absent: Absent,
    executions: Executions,
    next_sequence: u64,
}

impl Broker {
    /// Nothing under way.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            calls: BTreeMap::new(),
            call_bytes: 0,
            attempts: BTreeMap::new(),
            under_way: BTreeMap::new(),
            due: BTreeSet::new(),
            absent: Absent::default(),
            executions: Executions::default(),
            next_sequence: 0,
        }
    }

    /// Calls of local clients that have not ended.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Calls that are at this server.
    pub fn under_way_to(&self, server: ServerId) -> usize {
        self.under_way.get(&server).copied().unwrap_or(0)
    }

    /// What local providers were asked and have not answered.
    pub fn executions(&self) -> usize {
        self.executions.len()
    }

    /// Whether a provider's answer is still waited for.
    pub fn awaits(&self, delivery: DeliveryId) -> bool {
        self.executions.get(delivery).is_some()
    }

    /// The next delivery that has ended and was not asked for yet.
    pub fn next_ended(&mut self) -> Option<(ProviderId, DeliveryId)> {
        self.executions.next_ended()
    }

    /// Takes a call of a local client.
    pub fn call(&mut self, cx: &mut Context<'_>, call: Call) {
        cx.counters.calls += 1;
        let id = call.id;
        if let Err(error) = self.check(&call) {
            cx.counters.calls_failed += 1;
            cx.out.push_back(Output::Answer { id, result: Err(error) });
            return;
        }
        let deadline = cx.now + call.timeout;
        self.call_bytes += call.input.len();
        self.due.insert((deadline, Due::End(id)));
        let pending = Pending {
            name: call.name,
            path: call.path,
            input: call.input,
            is_idempotent: call.idempotent,
            deadline,
            retry_at: None,
            location: CallLocation::Nowhere,
            tried: BTreeSet::new(),
            refusal: None,
        };
        self.calls.insert(id, pending);
        self.dispatch(cx, id);
    }

    fn check(&self, call: &Call) -> Result<(), Error> {
        check_name(&call.name)?;
        if self.calls.contains_key(&call.id) {
            return Err(Error::CallUnderWay { id: call.id.0 });
        }
        if call.input.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::InputTooLarge { bytes: call.input.len() as u64 });
        }
        if call.timeout == Span::ZERO || call.timeout > TIMEOUT_MAX {
            return Err(Error::Timeout { timeout: call.timeout });
        }
        if self.calls.len() >= CALLS_MAX {
            return Err(Error::busy(Bound::Calls));
        }
        if self.call_bytes + call.input.len() > CALL_BYTES_MAX {
            return Err(Error::busy(Bound::CallBytes));
        }
        Ok(())
    }

    /// Gives up a call.
    pub fn cancel(&mut self, cx: &mut Context<'_>, id: CallId) {
        if self.remove(id).is_some() {
            cx.counters.calls_cancelled += 1;
        }
    }

    /// Sends a call that is nowhere to its next provider, or ends it.
    fn dispatch(&mut self, cx: &mut Context<'_>, id: CallId) {
        match self.next_target(cx, id) {
            Ok((target, offer)) => self.go(cx, id, target, offer),
            Err(none) => {
                let refusal = self.calls.get_mut(&id).and_then(|call| call.refusal.take());
                self.end(cx, id, Err(refusal.unwrap_or(none)));
            }
        }
    }

    fn next_target(&self, cx: &Context<'_>, id: CallId) -> Result<(Target, Offer), Error> {
        let call = &self.calls[&id];
        if call.tried.len() >= ATTEMPTS_MAX {
            return Err(Error::no_provider(&call.name, call.path.as_ref()));
        }
        let salt = id.0 ^ self.next_sequence;
        let wanted = Wanted { name: &call.name, path: call.path.as_ref(), tried: &call.tried, salt };
        let load = Load { under_way: &self.under_way, executions: &self.executions, absent: &self.absent };
        choose(cx.now, cx.known, load, wanted)
    }

    fn go(&mut self, cx: &mut Context<'_>, id: CallId, target: Target, offer: Offer) {
        let call = self.calls.get_mut(&id).expect("a call under way");
        cx.counters.failovers += u64::from(!call.tried.is_empty());
        call.tried.insert(target);
        if call.is_idempotent {
            let retry_at = cx.now + self.config.attempt_timeout;
            if retry_at < call.deadline {
                call.retry_at = Some(retry_at);
                self.due.insert((retry_at, Due::Retry(id)));
            }
        }
        let (name, path, input) = (call.name.clone(), call.path.clone(), call.input.clone());
        match target {
            Target::Local(provider) => {
                let execution = Execution { provider, caller: Caller::Local(id), deadline: call.deadline };
                let delivery = self.executions.add(execution);
                call.location = CallLocation::Local { delivery };
                cx.counters.deliveries += 1;
                cx.out.push_back(Output::Deliver { provider, delivery, name, path, input });
            }
            Target::Server(server) => {
                let incarnation = cx.known.registry.own_bucket().version.incarnation;
                let attempt = AttemptId { incarnation, sequence: self.next_sequence };
                self.next_sequence += 1;
                let receiver = cx.known.registry.buckets()[&server].version.incarnation;
                call.location = CallLocation::Server { server, attempt, offer, incarnation: receiver };
                self.attempts.insert(attempt, id);
                *self.under_way.entry(server).or_default() += 1;
                cx.counters.attempts_sent += 1;
                let timeout = call.deadline - cx.now;
                cx.send(server, Message::Call { attempt, receiver, name, path, input, timeout });
            }
        }
    }

    /// Takes a call away from where it is.
    fn detach(&mut self, id: CallId) -> CallLocation {
        let Some(call) = self.calls.get_mut(&id) else { return CallLocation::Nowhere };
        if let Some(time) = call.retry_at.take() {
            self.due.remove(&(time, Due::Retry(id)));
        }
        let location = core::mem::replace(&mut call.location, CallLocation::Nowhere);
        match &location {
            CallLocation::Nowhere => {}
            CallLocation::Local { delivery } => {
                self.executions.remove(*delivery);
            }
            CallLocation::Server { server, attempt, .. } => {
                self.attempts.remove(attempt);
                let count = self.under_way.get_mut(server).expect("each attempt is counted");
                *count -= 1;
                if *count == 0 {
                    self.under_way.remove(server);
                }
            }
        }
        location
    }

    fn remove(&mut self, id: CallId) -> Option<Pending> {
        self.detach(id);
        let call = self.calls.remove(&id)?;
        self.due.remove(&(call.deadline, Due::End(id)));
        self.call_bytes -= call.input.len();
        Some(call)
    }

    fn end(&mut self, cx: &mut Context<'_>, id: CallId, result: Result<Bytes, Error>) {
        if self.remove(id).is_none() {
            return;
        }
        let is_by_provider = matches!(result, Ok(_) | Err(Error::Failed { .. } | Error::OutputTooLarge { .. }));
        *if is_by_provider { &mut cx.counters.calls_completed } else { &mut cx.counters.calls_failed } += 1;
        cx.out.push_back(Output::Answer { id, result });
    }

    /// The call was certainly not executed where it was: on to the next provider.
    fn refused(&mut self, cx: &mut Context<'_>, id: CallId, refusal: Option<Error>) {
        self.detach(id);
        let Some(call) = self.calls.get_mut(&id) else { return };
        if call.refusal.is_none() {
            call.refusal = refusal;
        }
        self.dispatch(cx, id);
    }

    /// The call may have been executed where it was: on to the next provider only if that does no harm.
    fn lost(&mut self, cx: &mut Context<'_>, id: CallId, server: ServerId, reason: Loss) {
        self.detach(id);
        let Some(call) = self.calls.get_mut(&id) else { return };
        let error = Error::ProviderLost { server, reason };
        if call.is_idempotent && cx.now < call.deadline {
            // From now on "not executed" would not be true any more.
            call.refusal = Some(error);
            self.dispatch(cx, id);
        } else {
            self.end(cx, id, Err(error));
        }
    }

    /// The call of one's own attempt at `from`.
    fn call_of(&self, from: ServerId, attempt: AttemptId) -> Option<CallId> {
        let id = *self.attempts.get(&attempt)?;
        matches!(self.calls.get(&id)?.location, CallLocation::Server { server, .. } if server == from).then_some(id)
    }

    /// A server takes a call not now, or it could not be sent.
    pub fn not_taken(&mut self, cx: &mut Context<'_>, from: ServerId, attempt: AttemptId, refusal: Error) {
        match self.call_of(from, attempt) {
            Some(id) => self.refused(cx, id, Some(refusal)),
            None => cx.counters.late_answers += 1,
        }
    }

    /// A call could not be sent, so it was not executed.
    pub fn unsent(&mut self, cx: &mut Context<'_>, to: ServerId, attempt: AttemptId) {
        let Some(id) = self.call_of(to, attempt) else { return };
        let name = self.calls[&id].name.clone();
        self.refused(cx, id, Some(Error::Unreachable { name, server: to }));
    }

    /// A server says that it has no such provider: learned, and its buckets are asked for.
    pub fn not_here(&mut self, cx: &mut Context<'_>, from: ServerId, attempt: AttemptId) {
        let Some(id) = self.call_of(from, attempt) else {
            cx.counters.late_answers += 1;
            return;
        };
        if let CallLocation::Server { offer, .. } = self.detach(id) {
            self.absent.note(cx.now, from, offer, cx.now + self.config.absent_for);
        }
        cx.send_status(from);
        self.refused(cx, id, None);
    }

    /// The end of a call at another server.
    pub fn result(&mut self, cx: &mut Context<'_>, from: ServerId, attempt: AttemptId, verdict: Verdict) {
        let Some(id) = self.call_of(from, attempt) else {
            cx.counters.late_answers += 1;
            return;
        };
        match verdict {
            Verdict::Done(output) => self.end(cx, id, bounded(Ok(output))),
            Verdict::Failed(text) => self.end(cx, id, bounded(Err(text))),
            Verdict::TooLarge(bytes) => self.end(cx, id, Err(Error::OutputTooLarge { bytes })),
            Verdict::Lost => self.lost(cx, id, from, Loss::Disconnected),
            Verdict::Restarted => self.lost(cx, id, from, Loss::Restarted),
        }
    }

    /// What another server was asked may be executed or not: it was lost, or (`below`) had an incarnation that has ended.
    pub fn server_lost(&mut self, cx: &mut Context<'_>, server: ServerId, reason: Loss, below: u64) {
        let is_lost = |call: &Pending| matches!(&call.location, CallLocation::Server { server: at, incarnation, .. } if *at == server && *incarnation < below);
        let ids: Vec<_> = self.attempts.values().filter(|id| is_lost(&self.calls[id])).copied().collect();
        for id in ids {
            self.lost(cx, id, server, reason);
        }
    }

    /// The server has a new bucket.
    pub fn bucket_replaced(&mut self, server: ServerId) {
        self.absent.forget(server);
    }

    /// Only these servers are left in the cluster.
    pub fn keep_servers(&mut self, cx: &mut Context<'_>, members: &BTreeSet<ServerId>) {
        let gone: Vec<_> = self.under_way.keys().filter(|server| !members.contains(server)).copied().collect();
        for server in gone {
            self.absent.forget(server);
            self.server_lost(cx, server, Loss::ServerLost, u64::MAX);
        }
        self.executions.keep_servers(members);
    }

    /// A local provider is gone. Its offers have been taken away before.
    pub fn provider_gone(&mut self, cx: &mut Context<'_>, provider: ProviderId) {
        for delivery in self.executions.numbers_of(provider) {
            let Some(execution) = self.executions.remove(delivery) else { continue };
            match execution.caller {
                Caller::Local(id) => self.lost(cx, id, cx.known.registry.own(), Loss::Disconnected),
                Caller::Server { server, attempt } => {
                    cx.send(server, Message::Result { attempt, verdict: Verdict::Lost });
                }
            }
        }
    }

    /// When [`Self::expire`] has something to do.
    pub fn next_deadline(&self) -> Time {
        let own = self.due.first().map_or(Time::NEVER, |&(time, _)| time);
        own.min(self.executions.next_deadline().unwrap_or(Time::NEVER))
    }

    /// Ends what is due.
    pub fn expire(&mut self, cx: &mut Context<'_>) {
        while let Some(&(time, due)) = self.due.first()
            && time <= cx.now
        {
            self.due.remove(&(time, due));
            match due {
                Due::Retry(id) => self.retry(cx, id),
                Due::End(id) => self.silent(cx, id),
            }
        }
        self.executions.expire(cx.now);
    }

    /// An idempotent call has waited long enough: on to the next provider if there is one, otherwise it goes on waiting.
    fn retry(&mut self, cx: &mut Context<'_>, id: CallId) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.retry_at = None;
        }
        if let Ok((target, offer)) = self.next_target(cx, id) {
            let server = self.place(cx, id);
            self.detach(id);
            if let Some(call) = self.calls.get_mut(&id) {
                call.refusal = Some(Error::ProviderLost { server, reason: Loss::Silent });
            }
            self.go(cx, id, target, offer);
        }
    }

    fn silent(&mut self, cx: &mut Context<'_>, id: CallId) {
        let server = self.place(cx, id);
        self.end(cx, id, Err(Error::ProviderLost { server, reason: Loss::Silent }));
    }

    /// Where a call is.
    fn place(&self, cx: &Context<'_>, id: CallId) -> ServerId {
        match self.calls.get(&id).map(|call| &call.location) {
            Some(CallLocation::Server { server, .. }) => *server,
            _ => cx.known.registry.own(),
        }
    }
}

/// A provider's answer within the bound.
fn bounded(result: Result<Bytes, String>) -> Result<Bytes, Error> {
    let bytes = result.as_ref().map_or_else(String::len, |output| output.len());
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(Error::OutputTooLarge { bytes: bytes as u64 });
    }
    result.map_err(|text| Error::Failed { text })
}
