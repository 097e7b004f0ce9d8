//! What goes into a client and what comes out of it.

use machine::nanos::Span;
use tree::Path;

use crate::protocol::{Answer, ClientMessage, Error, RequestBody, ServerMessage, WatchEvents};

/// A connection of the client, numbered by it; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What comes in. Events of connections that are over are ignored.
#[derive(Clone, Debug)]
pub enum Input {
    /// The user wants something.
    Request {
        /// Comes back with the answer; not used by another request or watch meanwhile.
        token: u64,
        /// What. A `Watch` goes on until [`Input::Unwatch`]; its `from` and an `Offer` are kept up by the client.
        body: RequestBody,
        /// Then it ends at the latest.
        timeout: Span,
    },
    /// The user wants no more events of the watch that began with this token.
    Unwatch {
        /// The token of its request.
        token: u64,
    },
    /// The answer to an [`Output::Invoke`].
    Reply {
        /// The connection that the invocation named.
        connection: ConnectionId,
        /// The call that the invocation named.
        call: u64,
        /// The RPC's output, or why it failed.
        result: Result<Vec<u8>, String>,
    },
    /// The connection is there, and the server's `Welcome` accepted it.
    Connected {
        /// The connection that is there now.
        connection: ConnectionId,
        /// The cluster that the server said it is of.
        cluster: u64,
    },
    /// The connection could not be made, or was refused.
    Failed {
        /// The connection that failed.
        connection: ConnectionId,
        /// Why, for errors.
        reason: String,
    },
    /// The connection is lost.
    Closed(ConnectionId),
    /// A message has come from the server.
    Message {
        /// The connection by which it came.
        connection: ConnectionId,
        /// The message.
        message: ServerMessage,
    },
    /// Nothing but the passing of time.
    Tick,
}

/// What goes out.
#[derive(Clone, Debug)]
pub enum Output {
    /// Make a connection and say hello; ends in [`Input::Connected`] or [`Input::Failed`].
    Connect {
        /// The number that the connection gets.
        connection: ConnectionId,
        /// The `host:port` to connect to.
        address: String,
    },
    /// A message goes to the server.
    Send {
        /// The connection by which it goes.
        connection: ConnectionId,
        /// The message.
        message: ClientMessage,
    },
    /// Close the connection, or give up making it.
    Disconnect(ConnectionId),
    /// The end of a request; of a watch, only its beginning.
    Answer {
        /// The token that the request had.
        token: u64,
        /// What came of it.
        result: Result<Answer, Error>,
        /// If it has timed out since a server could not be reached: that server's address.
        unreachable: Option<String>,
    },
    /// Something happened below a watched path.
    Event {
        /// Of the request that began the watch.
        token: u64,
        /// What; its `watch` is of no use to the user.
        events: WatchEvents,
    },
    /// A watch could not be resumed: there will be no more events.
    WatchEnded {
        /// Of the request that began the watch.
        token: u64,
        /// Why it ended.
        error: Error,
    },
    /// Somebody calls an RPC that was offered: carry it out, bring back [`Input::Reply`].
    Invoke {
        /// Goes into the reply.
        connection: ConnectionId,
        /// Goes into the reply.
        call: u64,
        /// The name of the RPC.
        name: String,
        /// The path that chose this client.
        path: Option<Path>,
        /// The input of the call.
        input: Vec<u8>,
    },
}
