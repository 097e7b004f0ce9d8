//! Numbers of requests, the server's own among them.

use store::protocol::{Admin, ClientMessage, Request, RequestBody};
use store::{ClientId, RequestId};

/// Our own requests come by a connection that does not exist.
pub(super) const OWN_CLIENT: ClientId = ClientId(0);

/// The next numbers.
#[derive(Debug)]
pub(super) struct Requests {
    /// Of everybody's, in the order in which they come.
    next: RequestId,
    /// The sequence of the server's own next request.
    next_sequence: u64,
}

impl Requests {
    pub fn new() -> Self {
        Self { next: RequestId(1), next_sequence: 1 }
    }

    /// The number of a request that has come.
    pub fn number(&mut self) -> RequestId {
        let id = self.next;
        self.next = RequestId(id.0 + 1);
        id
    }

    /// A request on the server's own behalf.
    pub fn own(&mut self, session: u64, admin: Admin) -> (RequestId, ClientMessage) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let body = RequestBody::Admin(admin);
        let request = Request { session, sequence, acknowledged: sequence, timeout_ms: 10_000, body };
        (self.number(), ClientMessage::Request(request))
    }
}
