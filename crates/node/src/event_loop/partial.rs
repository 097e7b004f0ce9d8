//! Parts of long frames, and whose connection makes room when they are too many.

use std::collections::HashMap;

use machine::nanos::Time;
use mio::Token;

use super::connections::Kind;
use super::state::EventLoop;
use crate::remote::RemoteHost;

/// The holder of a part of a frame: a user, or where none is known, a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(String),
    Host(Option<RemoteHost>),
}

/// What a connection holds.
#[derive(Clone, Debug)]
struct Part {
    token: Token,
    holder: Holder,
    since: Time,
    bytes: usize,
}

/// Which one makes room: one of who holds most, all his connections together, the largest of these and then the oldest. Users
/// do so after all whom nobody knows.
fn first_to_go(parts: &[Part]) -> Option<Token> {
    let mut held: HashMap<&Holder, usize> = HashMap::new();
    for part in parts {
        *held.entry(&part.holder).or_default() += part.bytes;
    }
    let rank = |part: &&Part| {
        let is_stranger = matches!(part.holder, Holder::Host(_));
        (is_stranger, held[&part.holder], part.bytes, std::cmp::Reverse((part.since, part.token)))
    };
    parts.iter().max_by_key(rank).map(|part| part.token)
}

impl EventLoop {
    /// Whose connection is closed to make room for parts of others' frames; no peer's.
    pub(super) fn greediest(&self) -> Option<Token> {
        let parts: Vec<Part> = (self.waiting.partial.iter())
            .filter_map(|(&token, &(since, bytes))| {
                // A holder of nothing but an empty buffer has sent nothing that does not come to an end.
                let connection = self.connections.get(&token).filter(|it| it.stream.pending() > 0)?;
                let user = match connection.kind {
                    Kind::Client { client, .. } => self.parts.server.user(client),
                    Kind::Unknown { .. } | Kind::Challenged { .. } => None,
                    Kind::From(_) | Kind::To { .. } => return None,
                };
                let holder = user.map_or(Holder::Host(connection.host), |user| Holder::User(user.to_owned()));
                Some(Part { token, holder, since, bytes })
            })
            .collect();
        first_to_go(&parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(token: usize, holder: Holder, bytes: usize) -> Part {
        Part { token: Token(token), holder, since: Time::from_ns(token as u64), bytes }
    }

    fn host(last: u8) -> Holder {
        Holder::Host(Some(RemoteHost::V4([192, 0, 2, last].into())))
    }

    #[test]
    fn who_holds_most_goes_first_and_users_last() {
        let user = || Holder::User("ann".into());
        let mut parts = vec![
            part(1, host(1), 5),
            part(2, host(2), 3),
            part(3, host(2), 4),
            part(4, host(2), 4),
            part(5, user(), 50),
            part(6, user(), 9),
        ];
        let mut order = Vec::new();
        while let Some(token) = first_to_go(&parts) {
            parts.retain(|part| part.token != token);
            order.push(token.0);
        }
        // Two of the host with most make it hold less than the other one.
        assert_eq!(order, [3, 4, 1, 2, 5, 6]);
    }
}
