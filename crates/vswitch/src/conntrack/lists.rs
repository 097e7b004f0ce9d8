//! In which order connections end: a list for each lifetime of each share.

use super::connection::{Connection, NONE};
use super::lifetime::LIFETIMES;

/// How many may have a part of the table each.
pub(super) const SHARES: usize = 2;

/// A list of connections, the ones that end first at its head.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// By share and lifetime.
#[derive(Debug)]
pub(super) struct Lists([[List; LIFETIMES]; SHARES]);

impl Default for Lists {
    fn default() -> Self {
        Self([[List { head: NONE, tail: NONE }; LIFETIMES]; SHARES])
    }
}

impl Lists {
    /// The connection of a list that ends first, or [`NONE`].
    pub const fn head(&self, share: usize, lifetime: usize) -> u32 {
        self.0[share][lifetime].head
    }

    /// Puts a connection at the end of the list of its lifetime.
    pub fn link(&mut self, connections: &mut [Connection], id: u32) {
        let connection = &mut connections[id as usize];
        let list = &mut self.0[usize::from(connection.share)][connection.lifetime as usize];
        connection.listed_until = connection.expires_at;
        (connection.before, connection.next) = (list.tail, NONE);
        let last = std::mem::replace(&mut list.tail, id);
        if last == NONE {
            list.head = id;
        } else {
            connections[last as usize].next = id;
        }
    }

    /// Takes it out of that.
    pub fn unlink(&mut self, connections: &mut [Connection], id: u32) {
        let Connection { lifetime, before, next, share, .. } = connections[id as usize];
        let list = &mut self.0[usize::from(share)][lifetime as usize];
        match before {
            NONE => list.head = next,
            before => connections[before as usize].next = next,
        }
        match next {
            NONE => list.tail = before,
            next => connections[next as usize].before = before,
        }
    }
}
