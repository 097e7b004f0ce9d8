//! Calls that other servers send, and the answers of local providers.

use std::collections::BTreeSet;

use machine::ServerId;
use machine::nanos::Span;
use tree::{Bytes, Path};

use super::{Broker, Context, bounded};
use crate::config::{PAYLOAD_BYTES_MAX, TIMEOUT_MAX};
use crate::error::{Bound, Error};
use crate::executions::{Caller, Execution};
use crate::offer::check_name;
use crate::route::{Wanted, choose_local};
use crate::{AttemptId, DeliveryId, Message, Output, ProviderId, Verdict};

/// [`Message::Call`], taken apart.
#[derive(Clone, Debug)]
pub struct RemoteCall {
    /// Repeated in the answer.
    pub attempt: AttemptId,
    /// For which incarnation of this server it was meant.
    pub receiver: u64,
    /// The name of the procedure.
    pub name: String,
    /// The data that the call is about, if any.
    pub path: Option<Path>,
    /// What it gets.
    pub input: Bytes,
    /// The time after which nobody waits any more.
    pub timeout: Span,
}

impl Broker {
    /// A call of another server. It is delivered here or refused, never passed on.
    ///
    /// # Errors
    /// What is wrong with the message; then nothing changes and nothing is answered.
    pub fn remote_call(&mut self, cx: &mut Context<'_>, from: ServerId, call: RemoteCall) -> Result<(), Error> {
        let RemoteCall { attempt, receiver, name, path, input, timeout } = call;
        check_name(&name)?;
        if input.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::InputTooLarge { bytes: input.len() as u64 });
        }
        if timeout == Span::ZERO || timeout > TIMEOUT_MAX {
            return Err(Error::Timeout { timeout });
        }
        if !self.executions.note_arrival(from, attempt) {
            cx.counters.repeats += 1;
            return Ok(());
        }
        if !cx.known.registry.is_own_incarnation(receiver) {
            // The status brings the caller to ask for the bucket of this incarnation.
            cx.send_status(from);
            cx.send(from, Message::Result { attempt, verdict: Verdict::Restarted });
            return Ok(());
        }
        if !self.executions.has_room_for(from) {
            cx.counters.refused_busy += 1;
            cx.send(from, Message::Busy { attempt });
            return Ok(());
        }
        let wanted = Wanted { name: &name, path: path.as_ref(), tried: &BTreeSet::new(), salt: attempt.sequence };
        let Some(provider) = choose_local(cx.known.providers, &self.executions, wanted) else {
            cx.counters.not_here += 1;
            cx.send(from, Message::NotHere { attempt });
            return Ok(());
        };
        let caller = Caller::Server { server: from, attempt };
        let delivery = self.executions.add(Execution { provider, caller, deadline: cx.now + timeout });
        cx.counters.deliveries += 1;
        cx.out.push_back(Output::Deliver { provider, delivery, name, path, input });
        Ok(())
    }

    /// A local provider could not be asked: on to the next one, here or by the server that waits.
    pub fn undelivered(&mut self, cx: &mut Context<'_>, delivery: DeliveryId) {
        let Some(execution) = self.executions.remove(delivery) else { return };
        match execution.caller {
            Caller::Local(id) => self.refused(cx, id, Some(Error::busy(Bound::Executions))),
            Caller::Server { server, attempt } => {
                cx.counters.refused_busy += 1;
                cx.send(server, Message::Busy { attempt });
            }
        }
    }

    /// A local provider answers.
    pub fn reply(
        &mut self,
        cx: &mut Context<'_>,
        provider: ProviderId,
        delivery: DeliveryId,
        result: Result<Bytes, String>,
    ) {
        if self.executions.get(delivery).is_none_or(|execution| execution.provider != provider) {
            cx.counters.late_answers += 1;
            return;
        }
        let execution = self.executions.remove(delivery).expect("looked at above");
        let result = bounded(result);
        match execution.caller {
            Caller::Local(id) => self.end(cx, id, result),
            Caller::Server { server, attempt } => {
                let verdict = match result {
                    Ok(output) => Verdict::Done(output),
                    Err(Error::Failed { text }) => Verdict::Failed(text),
                    Err(Error::OutputTooLarge { bytes }) => Verdict::TooLarge(bytes),
                    Err(other) => unreachable!("a reply is bounded, nothing else: {other}"),
                };
                cx.send(server, Message::Result { attempt, verdict });
            }
        }
    }
}
