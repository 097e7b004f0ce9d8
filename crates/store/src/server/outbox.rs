//! What a server has to say, in order.

use std::collections::VecDeque;

use super::io::{Output, Stop};

/// Outputs that the driver has not taken. A server that has said that it stops handles nothing more.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Output>,
    is_stopped: bool,
}

impl Outbox {
    pub(super) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    /// The server ends here.
    pub(super) fn stop(&mut self, why: Stop) {
        self.push(Output::Stop(why));
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes back what was not taken yet and is not so any more.
    pub(super) fn take_back(&mut self, is_over: impl Fn(&Output) -> bool) {
        self.queue.retain(|output| !is_over(output));
    }
}
