//! Clients under way: what each has asked, since when, and what it was told.

use machine::nanos::{Span, Time};
use store::protocol::{Answer, Consistency, Error, RequestBody};

use crate::entry::{Input, Output};
use crate::known::Known;
use crate::layout::Layout;

/// Clients of one load. `N` is what whoever asks wants to know again with the answer.
#[derive(Debug)]
pub struct Clients<L, N> {
    layout: L,
    all: Vec<Client<N>>,
    values: u64,
}

#[derive(Debug)]
struct Client<N> {
    asked: Option<Asked<N>>,
    requests: usize,
    known: Known,
}

#[derive(Debug)]
struct Asked<N> {
    at: Time,
    input: Option<Input>,
    note: N,
}

/// An answer.
#[derive(Debug)]
pub struct Answered<N> {
    /// What was noted when it was asked for.
    pub note: N,
    /// From the request to the answer.
    pub latency: Span,
    /// What was asked of an entry, if it was one that was asked.
    pub input: Option<Input>,
    /// What the answer says of the entry; nothing if nobody knows what came of the request.
    pub output: Option<Output>,
}

impl<L: Layout, N> Clients<L, N> {
    /// So many, of whom none has asked anything.
    pub fn new(layout: L, clients: usize) -> Self {
        let client = || Client { asked: None, requests: 0, known: Known::default() };
        Self { layout, all: std::iter::repeat_with(client).take(clients).collect(), values: 0 }
    }

    /// Where entries are.
    pub const fn layout(&self) -> &L {
        &self.layout
    }

    /// A value that was not there before.
    pub fn value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    /// How often a client has asked.
    pub fn requests(&self, client: usize) -> usize {
        self.all[client].requests
    }

    /// Whether a client has no answer yet.
    pub fn is_waiting(&self, client: usize) -> bool {
        self.all[client].asked.is_some()
    }

    /// What a client was told of entries, as far as it was to [`learn`](Self::learn) it.
    pub fn known(&self, client: usize) -> &Known {
        &self.all[client].known
    }

    /// A client remembers what it was told.
    pub fn learn(&mut self, client: usize, input: Input, output: Output) {
        self.all[client].known.learn(input, output);
    }

    /// A client asks something of an entry; the request.
    pub fn ask(&mut self, client: usize, now: Time, input: Input, consistency: Consistency, note: N) -> RequestBody {
        self.asked(client, Asked { at: now, input: Some(input), note });
        self.layout.request(input, consistency)
    }

    /// A client asks for something that is no entry's.
    pub fn ask_else(&mut self, client: usize, now: Time, note: N) {
        self.asked(client, Asked { at: now, input: None, note });
    }

    fn asked(&mut self, client: usize, asked: Asked<N>) {
        let client = &mut self.all[client];
        assert!(client.asked.is_none(), "a client waits for one answer at most");
        client.asked = Some(asked);
        client.requests += 1;
    }

    /// A client has its answer.
    pub fn answered(&mut self, client: usize, now: Time, result: &Result<Answer, Error>) -> Answered<N> {
        let Asked { at, input, note } = self.all[client].asked.take().expect("an answer follows a request");
        let output = input.and_then(|input| match result {
            Ok(answer) => self.layout.output(input, answer).ok(),
            Err(Error::Refused(_)) => Some(Output::Refused),
            Err(Error::Invalid(_) | Error::SpansShards(_)) => Some(Output::NotDone),
            Err(_) => None,
        });
        Answered { note, latency: now.since(at), input, output }
    }
}

#[cfg(test)]
mod tests {
    use tree::Refusal;

    use super::*;
    use crate::cars::Cars;
    use crate::entry::{Action, Change, Leaf};

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn an_answer_is_held_against_what_was_asked() {
        let mut clients = Clients::new(Cars { value_bytes: 8, below: None }, 2);
        let value = clients.value();
        let put = Input { entry: 1, action: Action::Write { condition: None, change: Change::Put(Leaf::A, value) } };
        let get = Input { entry: 1, action: Action::Get(Leaf::A) };
        clients.ask(0, at(10), put, Consistency::Linearizable, "put");
        clients.ask(1, at(12), get, Consistency::Linearizable, "get");
        assert!(clients.is_waiting(0) && clients.is_waiting(1));
        let got = clients.answered(1, at(15), &Ok(Answer::Written { revision: 4 }));
        assert_eq!((got.note, got.latency, got.output), ("get", Span::from_ms(3), None), "no answer to a read");
        let wrote = clients.answered(0, at(30), &Ok(Answer::Written { revision: 4 }));
        assert_eq!((wrote.latency, wrote.output), (Span::from_ms(20), Some(Output::Written { revision: 4 })));
        for (error, output) in [
            (Error::Refused(Refusal::Full), Some(Output::Refused)),
            (Error::Invalid("no".to_owned()), Some(Output::NotDone)),
            (Error::Busy(1), None),
        ] {
            clients.ask(0, at(40), put, Consistency::Linearizable, "again");
            assert_eq!(clients.answered(0, at(41), &Err(error)).output, output);
        }
        assert_eq!((clients.requests(0), clients.requests(1)), (4, 1));
    }
}
