//! The roles of all ports, by what they know: port role selection (17.28).

use machine::{Span, Time};

use crate::bridge::Bridge;
use crate::port::{InfoIs, Role};
use crate::vector::Vector;

/// So long a bridge that has lost its path to a root believes nobody whose path may have led through it. What is said of a root that is dead dies out meanwhile.
const HOLD_DOWN: Span = Span::from_ms(50);

impl Bridge {
    /// Selects who leads to the root, who is designated, and who is to keep still (17.21.25).
    pub(crate) fn select_roles(&mut self, now: Time) {
        let before = self.root;
        self.select(now);
        if before.root != self.id && self.root > before && self.lost.is_none() {
            self.lost = Some((Vector { bridge: self.id, ..before }, now + HOLD_DOWN));
            self.select(now);
        }
    }

    /// Whether what is heard of a root that was lost may come of what this bridge said itself before.
    fn is_stale(&self, now: Time, heard: &Vector) -> bool {
        self.lost.is_some_and(|(lost, until)| {
            now < until && heard.root == lost.root && (heard.cost, heard.bridge) >= (lost.cost, lost.bridge)
        })
    }

    /// What was lost is heard of again by then.
    pub(crate) fn end_hold_down(&mut self, now: Time) {
        if self.lost.is_some_and(|(_, until)| now >= until) {
            self.lost = None;
            self.ports.iter_mut().for_each(|port| port.reselect = true);
        }
    }

    fn select(&mut self, now: Time) {
        let own = Vector { root: self.id, cost: 0, bridge: self.id, port: 0 };
        let paths = self.ports.iter().enumerate().filter(|(_, port)| {
            port.info_is == InfoIs::Received
                && !port.config.root_guard
                && !port.priority.is_from(self.id)
                && !self.is_stale(now, &port.priority)
        });
        let paths = paths.map(|(number, port)| {
            let cost = port.priority.cost.saturating_add(port.config.cost);
            ((Vector { cost, ..port.priority }, port.id), number)
        });
        let best = paths.min().filter(|((path, _), _)| *path < own);
        (self.root, self.root_times, self.root_port) = match best {
            Some(((path, _), number)) => (path, self.ports[number].times.one_further(), Some(number)),
            None => (own, self.own_times(), None),
        };
        let Self { root, root_times, root_port, id, .. } = *self;
        for (number, port) in self.ports.iter_mut().enumerate() {
            port.designated = Vector { root: root.root, cost: root.cost, bridge: id, port: port.id };
            port.designated_times = root_times;
            let is_new = port.priority != port.designated || port.times != port.designated_times;
            (port.selected_role, port.update_info) = match port.info_is {
                InfoIs::Disabled => (Role::Disabled, false),
                InfoIs::Aged => (Role::Designated, true),
                InfoIs::Mine => (Role::Designated, is_new),
                InfoIs::Received if root_port == Some(number) => (Role::Root, false),
                InfoIs::Received if port.designated < port.priority => (Role::Designated, true),
                InfoIs::Received if port.priority.is_from(id) => (Role::Backup, false),
                InfoIs::Received => (Role::Alternate, false),
            };
            (port.reselect, port.selected) = (false, true);
        }
    }
}
