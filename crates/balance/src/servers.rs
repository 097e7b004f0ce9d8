//! The list of a service's servers, in the order in which IPVS would have it: who came last is first.

use machine::{Rebase, Span};

use crate::config::ServerSpec;
use crate::server::Server;
use crate::server_id::ServerId;

/// Servers by slot, and the order in which schedulers see them.
///
/// Invariant: `order` holds the slots of all servers that stand in the specification, and no others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    slots: Vec<Slot>,
    order: Vec<u16>,
    /// Those of `order` that may get connections.
    candidates: Vec<u16>,
}

#[derive(Clone, Debug)]
struct Slot {
    generation: u16,
    server: Option<Server>,
}

impl Servers {
    /// How many stand in the specification.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The server at `position` of the order.
    pub fn at(&self, position: usize) -> &Server {
        self.in_slot(self.order[position]).expect("a server of the order is there")
    }

    /// Those that stand in the specification, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Server> + Clone {
        self.order.iter().filter_map(|&slot| self.slots[usize::from(slot)].server.as_ref())
    }

    /// Those that may get connections, in their order.
    pub fn candidates(&self) -> impl Iterator<Item = &Server> {
        self.candidates.iter().filter_map(|&slot| self.slots[usize::from(slot)].server.as_ref())
    }

    /// How many may get connections.
    pub fn candidate_count(&self) -> usize {
        self.candidates.len()
    }

    /// The candidate of this number.
    pub fn candidate(&self, number: usize) -> &Server {
        self.in_slot(self.candidates[number]).expect("a candidate is there")
    }

    /// The server in a slot.
    pub fn in_slot(&self, slot: u16) -> Option<&Server> {
        self.slots.get(usize::from(slot))?.server.as_ref()
    }

    /// Finds anew who may get connections. True if that is somebody else than before.
    pub fn set_eligible(&mut self, is_eligible: impl Fn(&Server) -> bool) -> bool {
        let mut has_changed = false;
        for &slot in &self.order {
            if let Some(server) = &mut self.slots[usize::from(slot)].server {
                let is_in = is_eligible(server);
                has_changed |= is_in != server.is_eligible;
                server.is_eligible = is_in;
            }
        }
        self.admit_all();
        has_changed
    }

    /// Of those that may get connections, takes those that may get this one; all, if that is nobody.
    pub fn set_candidates(&mut self, mut is_candidate: impl FnMut(&Server) -> bool) {
        self.candidates.clear();
        for &slot in &self.order {
            if let Some(server) = &mut self.slots[usize::from(slot)].server {
                server.is_candidate = server.is_eligible && is_candidate(server);
                self.candidates.extend(server.is_candidate.then_some(slot));
            }
        }
        if self.candidates.is_empty() {
            self.admit_all();
        }
    }

    /// Takes all that may get connections.
    pub fn admit_all(&mut self) {
        self.candidates.clear();
        for &slot in &self.order {
            if let Some(server) = &mut self.slots[usize::from(slot)].server {
                server.is_candidate = server.is_eligible;
                self.candidates.extend(server.is_candidate.then_some(slot));
            }
        }
    }

    /// All, also those that only have connections left.
    pub fn all(&self) -> impl Iterator<Item = &Server> {
        self.slots.iter().filter_map(|slot| slot.server.as_ref())
    }

    /// All, to change them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.slots.iter_mut().filter_map(|slot| slot.server.as_mut())
    }

    /// The server, if it is still there.
    pub fn get(&self, id: ServerId) -> Option<&Server> {
        let slot = self.slots.get(id.index())?;
        slot.server.as_ref().filter(|_| slot.generation == id.generation())
    }

    /// The server, if it is still there.
    pub fn get_mut(&mut self, id: ServerId) -> Option<&mut Server> {
        let slot = self.slots.get_mut(id.index())?;
        slot.server.as_mut().filter(|_| slot.generation == id.generation())
    }

    /// The server of this name that stands in the specification.
    pub fn find(&self, name: &str) -> Option<ServerId> {
        self.iter().find(|server| server.spec.name == name).map(|server| server.id)
    }

    /// Where it stands in the order.
    pub fn position(&self, id: ServerId) -> Option<usize> {
        self.order.iter().position(|&slot| usize::from(slot) == id.index()).filter(|_| self.get(id).is_some())
    }

    /// The greatest weight, and the greatest common divisor of all weights; 0 and 0 if all are 0.
    pub fn weights(&self, weight: impl Fn(&Server) -> u32) -> (u32, u32) {
        self.iter().map(weight).fold((0, 0), |(heaviest, divisor), weight| (heaviest.max(weight), gcd(divisor, weight)))
    }

    /// Puts a new server in front.
    pub fn add(&mut self, spec: ServerSpec) -> ServerId {
        let free = self.slots.iter().position(|slot| slot.server.is_none());
        let slot = free.unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, server: None });
            self.slots.len() - 1
        });
        let id = ServerId::new(slot, self.slots[slot].generation);
        self.slots[slot].server = Some(Server::new(id, spec));
        self.order.insert(0, slot as u16);
        id
    }

    /// Takes a server out of the order. It stays as long as it has connections.
    pub fn remove(&mut self, id: ServerId) {
        self.order.retain(|&slot| usize::from(slot) != id.index());
        self.candidates.retain(|&slot| usize::from(slot) != id.index());
        if let Some(server) = self.get_mut(id) {
            server.is_specified = false;
            server.is_candidate = false;
            server.is_eligible = false;
        }
        self.release(id);
    }

    /// Forgets a server that no longer stands in the specification and has no connections.
    pub fn release(&mut self, id: ServerId) {
        if self.get(id).is_some_and(|server| !server.is_specified && server.connections() == 0) {
            let slot = &mut self.slots[id.index()];
            slot.server = None;
            slot.generation = slot.generation.wrapping_add(1);
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Rebase for Servers {
    fn rebase(&mut self, by: Span) {
        let Self { slots, order: _, candidates: _ } = self;
        for Slot { generation: _, server } in slots {
            server.rebase(by);
        }
    }
}
