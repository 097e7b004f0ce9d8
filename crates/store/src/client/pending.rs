//! A request that has no answer yet.

use machine::nanos::{Span, Time};
use tree::{Change, Path};

use super::ConnectionId;
use crate::protocol::{Admin, Consistency, Error, LeaseRequest, RequestBody};

/// Attempts after which none takes longer than the one before: 2^3 times the first.
const DOUBLINGS_MAX: u32 = 3;

/// The party that a request is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The user, by his token.
    User(u64),
    /// Resumes the watch with this token.
    Watch(u64),
    /// Renews the offers.
    Offers,
}

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nowhere: it waits for room in the window, or for the next attempt.
    Pause,
    /// A connection has it.
    Connection {
        /// The connection that it was sent on.
        connection: ConnectionId,
        /// When the attempt began.
        since: Time,
        /// Whether it was sent: not before the connection is made.
        sent: bool,
    },
}

/// Bytes of the values that a request carries.
pub(super) fn value_bytes(body: &RequestBody) -> usize {
    match body {
        RequestBody::Write(transaction) => {
            transaction.changes.iter().filter_map(tree::Change::value).map(|value| value.len()).sum()
        }
        RequestBody::Call { input, .. } => input.len(),
        _ => 0,
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    pub origin: Origin,
    pub body: RequestBody,
    /// It has its answer by then.
    pub deadline: Time,
    /// Bytes of values in it.
    pub bytes: usize,
    /// The time from request to deadline.
    timeout: Span,
    /// It is looked at again by then.
    pub due: Time,
    pub progress: Progress,
    /// Attempts that came to nothing.
    pub attempts: u32,
    /// Where the last attempt came to nothing.
    pub avoid: Option<String>,
    /// Where a server said it should be tried next.
    pub preferred: Option<String>,
    /// What the last attempt came to.
    pub last_error: Option<Error>,
    /// Whose connection that was, if it was lost or could not be made.
    pub unreachable: Option<String>,
    /// An attempt was sent of which nobody has said that it came to nothing.
    is_in_doubt: bool,
}

impl Pending {
    pub fn new(origin: Origin, body: RequestBody, deadline: Time, timeout: Span) -> Self {
        Self {
            origin,
            bytes: value_bytes(&body),
            body,
            deadline,
            timeout,
            due: deadline,
            progress: Progress::Pause,
            attempts: 0,
            avoid: None,
            preferred: None,
            last_error: None,
            unreachable: None,
            is_in_doubt: false,
        }
    }

    pub fn is_on(&self, which: ConnectionId) -> bool {
        matches!(self.progress, Progress::Connection { connection, .. } if connection == which)
    }

    pub fn connection(&self) -> Option<ConnectionId> {
        match self.progress {
            Progress::Connection { connection, .. } => Some(connection),
            Progress::Pause => None,
        }
    }

    /// Whether servers remember its outcome by its sequence.
    pub fn is_write(&self) -> bool {
        match &self.body {
            RequestBody::Write(_)
            | RequestBody::WriteOrElse { .. }
            | RequestBody::Lease(LeaseRequest::Grant { .. } | LeaseRequest::Revoke { .. }) => true,
            RequestBody::Admin(admin) => !matches!(
                admin,
                Admin::Status
                    | Admin::Backup { .. }
                    | Admin::BackupLasting { .. }
                    | Admin::Disk
                    | Admin::Defragment
                    | Admin::Access
                    | Admin::Health
                    | Admin::Alarms
                    | Admin::StoppedReplicas
            ),
            _ => false,
        }
    }

    /// Whether its effect is tied to the connection.
    pub fn is_pinned(&self) -> bool {
        matches!(self.body, RequestBody::Watch { .. } | RequestBody::Offer { .. })
    }

    /// Whether only the server that answered the part of a backup before can answer it.
    pub fn goes_on_with_backup(&self) -> bool {
        matches!(
            self.body,
            RequestBody::Admin(Admin::Backup { after: Some(_), .. } | Admin::BackupLasting { after: Some(_), .. })
        )
    }

    /// Whether the leader answers it without asking others.
    pub fn wants_leader(&self) -> bool {
        match &self.body {
            RequestBody::Get { consistency, .. }
            | RequestBody::List { consistency, .. }
            | RequestBody::GetAt { consistency, .. }
            | RequestBody::ListAt { consistency, .. }
            | RequestBody::Window { consistency, .. } => *consistency == Consistency::Linearizable,
            RequestBody::Write(_) | RequestBody::WriteOrElse { .. } | RequestBody::Lease(_) => true,
            _ => false,
        }
    }

    /// The path that decides which shard it is about, if it is about data of one.
    pub fn path(&self) -> Option<&Path> {
        match &self.body {
            RequestBody::Get { at, .. }
            | RequestBody::List { at, .. }
            | RequestBody::GetAt { at, .. }
            | RequestBody::ListAt { at, .. } => Some(&at.path),
            RequestBody::Window { at, .. } => Some(at),
            RequestBody::Write(transaction) => transaction.locations().next().map(|at| &at.path),
            RequestBody::WriteOrElse { transaction, otherwise } => {
                transaction.locations().chain(otherwise.iter().map(Change::at)).next().map(|at| &at.path)
            }
            RequestBody::Lease(request) => request.path(),
            _ => None,
        }
    }

    /// Whether it may be sent again after it was sent.
    pub fn may_repeat(&self) -> bool {
        match &self.body {
            RequestBody::Call { idempotent, .. } => *idempotent,
            _ => true,
        }
    }

    /// How long one attempt may take; none: as long as there is.
    pub fn patience(&self, first: Span) -> Option<Span> {
        let span = first * (1 << self.attempts.min(DOUBLINGS_MAX));
        match &self.body {
            // The servers try providers one after another: they need the time.
            RequestBody::Call { idempotent: true, .. } => Some(span.max(self.timeout / 2)),
            RequestBody::Call { .. } => None,
            _ => Some(span),
        }
    }

    /// An attempt is over. A server that was sent a write and has not said that nothing comes of it may still do it.
    pub fn attempt_failed(&mut self, error: Option<&Error>) {
        let was_sent = matches!(self.progress, Progress::Connection { sent: true, .. });
        self.is_in_doubt |= was_sent && !error.is_some_and(Error::is_undone);
    }

    pub const fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// The answer when its time is over.
    pub fn timed_out(&self) -> Error {
        let reason = match &self.last_error {
            Some(Error::Timeout { reason, .. }) => reason.clone(),
            Some(error) => error.to_string(),
            None => "the server did not answer".to_owned(),
        };
        self.in_doubt(self.failed(reason))
    }

    /// What an attempt has come to that was not answered.
    pub fn no_answer(&self, address: &str) -> Error {
        self.failed(format!("{address} did not answer in time"))
    }

    /// What an attempt has come to whose connection was lost.
    pub fn connection_lost(&self, address: &str, reason: &str) -> Error {
        self.failed(format!("the connection to {address} was lost: {reason}"))
    }

    fn failed(&self, reason: String) -> Error {
        Error::Timeout { timeout_ms: u32::try_from(self.timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX), reason }
    }

    /// The answer when there will be no other attempt.
    pub fn in_doubt(&self, error: Error) -> Error {
        match (&self.body, error) {
            (RequestBody::Call { idempotent: false, .. }, Error::Timeout { reason, .. }) if self.is_in_doubt => {
                Error::Rpc(format!("{reason}; the call may have been carried out or not"))
            }
            (body, Error::Timeout { timeout_ms, mut reason })
                if self.is_in_doubt && (self.is_write() || matches!(body, RequestBody::Call { .. })) =>
            {
                let end = reason.find("; hint: ").unwrap_or(reason.len());
                reason.insert_str(end, "; it may still be done");
                Error::Timeout { timeout_ms, reason }
            }
            (_, error) => error,
        }
    }
}
