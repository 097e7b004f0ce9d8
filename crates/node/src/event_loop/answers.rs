//! Ends connections whose clients say nothing more, once these have all they are owed.

use machine::Control;
use machine::nanos::Time;
use mio::Token;
use store::Input;

use super::connections::Kind;
use super::state::EventLoop;

impl EventLoop {
    /// The other side of a connection says nothing more.
    pub(super) fn input_ended(&mut self, now: Time, token: Token) {
        let Some(connection) = self.connections.get(&token) else { return };
        let Kind::Client { client, .. } = connection.kind else {
            // A client that only looks whether somebody listens is refused nothing.
            return self.end(now, token, "closed by the other side", false);
        };
        // What it has sent may have to wait until the server holds less for it.
        if self.half_closed.note_end(now, token, connection.stream.has_frame()) {
            self.parts.server.handle(now, Input::ClientSilent(client));
        }
        self.half_closed.note_sent(token);
    }

    /// Ends the connections of those who have all they are owed; whether there were any. The server has nothing to say at this
    /// moment.
    pub(super) fn end_answered(&mut self, now: Time) -> bool {
        let mut has_ended = false;
        for token in self.half_closed.take_sent() {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            let Kind::Client { client, .. } = connection.kind else { continue };
            if connection.stream.is_sent() && !self.parts.server.owes_answers(client) {
                connection.stream.say_end();
                self.end(now, token, "closed by the other side, and answered", false);
                has_ended = true;
            }
        }
        has_ended
    }

    /// Ends the connections of those whose time is over.
    pub(super) fn end_unanswered(&mut self, now: Time) {
        for token in self.half_closed.over(now) {
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.stream.say_end();
            }
            self.end(now, token, "closed by the other side, and not answered in time", false);
        }
    }
}
