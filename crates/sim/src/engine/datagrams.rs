//! Flows of UDP in the engine.

use machine::{Step, Time};
use transport::Ecn;

use super::{Engine, FlowDirection, STAMP_SHIFT};
use crate::pool::Content;

impl Engine<'_> {
    /// A fragment or a datagram of UDP has come to its host.
    pub(super) fn fragment_arrives(&mut self, now: Time, direction: u32, id: u32) {
        let Content { number, stamp } = self.medium.packets.take(id);
        let index = direction as usize / 2;
        let first = number * self.segment_bytes;
        let behind = first + self.segment_bytes;
        self.flows[index].meter.observe(first as u32, behind as u32, (stamp.as_ps() >> STAMP_SHIFT) as u32);
        self.flows[index].delays.record(now.since(stamp));
        let FlowDirection { from, to, .. } = self.directions[direction as usize];
        let heard = self.heard.get_mut(to.0 as usize).and_then(|heard| heard.get_mut(from.0 as usize));
        let credit = self.udp[index].receive(now, number, heard.unwrap_or(&mut 0));
        if let Some(number) = credit {
            let id = self.medium.packets.put(Content { number, stamp: now }, None, Ecn::NONE);
            self.send(now, direction + 1, id);
        }
    }

    /// Credit has come back to the sender of a flow of UDP.
    pub(super) fn credit_arrives(&mut self, now: Time, direction: u32, id: u32) {
        let credit = self.medium.packets.take(id).number;
        self.udp[direction as usize / 2].credit(now, credit);
        self.poll_udp(now, direction);
    }

    /// A flow of UDP begins, or has something due.
    #[cold]
    pub(super) fn wake_udp(&mut self, now: Time, direction: u32, begins: bool) {
        let armed = &mut self.flows[direction as usize / 2].armed[0];
        if begins {
            self.udp[direction as usize / 2].start(now);
        } else if *armed != now {
            // An earlier one was armed in its place.
            return;
        } else {
            *armed = Time::NEVER;
        }
        self.poll_udp(now, direction);
    }

    /// Lets a flow of UDP send what is due, or what it has credit for.
    fn poll_udp(&mut self, now: Time, direction: u32) {
        loop {
            if let Some(until) = self.held_until(now, direction) {
                return self.arm(until, direction);
            }
            let numbers = match self.udp[direction as usize / 2].poll(now) {
                Step::Wait(until) => return self.arm(until, direction),
                Step::Do(numbers) => numbers,
            };
            for number in numbers {
                let id = self.medium.packets.put(Content { number, stamp: now }, None, Ecn::NONE);
                self.send(now, direction, id);
            }
        }
    }
}
