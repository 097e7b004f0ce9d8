//! Requests to a service, in the engine: what their machine sends goes into the graph, and what comes to its hosts goes to it.

use datapath::Driver as _;
use machine::Time;
use topology::{NetPort, PortId};

use super::Engine;
use crate::RequestOutcome;
use crate::medium::{Event, Packet, REQUESTS};
use crate::requests::{Output, Requests};

impl Engine<'_> {
    /// Has the clients of a service begin, if the scenario has some; the run begins at `origin`.
    pub(super) fn expect_requests(&mut self, origin: Time) {
        let scenario = self.scenario;
        let Some(load) = scenario.requests else { return };
        let times = (origin, scenario.warm_up, scenario.duration);
        let what = (load, scenario.transport);
        self.requests = Requests::new(scenario.fabric, &self.tables.host_table, what, times, scenario.seed);
        self.arm_requests();
    }

    /// A frame has come to a host.
    #[inline(never)]
    pub(super) fn frame_arrives(&mut self, now: Time, port: NetPort, packet: Packet) {
        let host = self.tables.map.node(port);
        let own = self.graph.arrive_at_host(self.tables.at(now), &mut self.medium, port, packet);
        let Some(packet) = own else { return self.receive_delivered(now) };
        let (frame, carried) = (self.medium.frame(&packet).unwrap_or_default(), self.medium.carried(packet));
        let is_of_requests = self.requests.as_mut().is_some_and(|requests| requests.receive(now, host, frame, carried));
        if !is_of_requests {
            return self.hear(port, packet);
        }
        self.medium.free(packet);
        self.carry_out_requests(now);
    }

    pub(super) fn wake_requests(&mut self, now: Time) {
        self.requests_armed = Time::NEVER;
        if let Some(requests) = &mut self.requests {
            requests.wake(now);
        }
        self.carry_out_requests(now);
    }

    fn carry_out_requests(&mut self, now: Time) {
        while let Some(output) = self.requests.as_mut().and_then(Requests::next_output) {
            match output {
                Output::Send { from, frame, more, forwarding, carried } => {
                    let packet = self.medium.send(frame.bytes(), more, forwarding, carried);
                    let port = self.tables.map.port(from, PortId(0));
                    self.leave(now, port, packet);
                }
                Output::Report { server, report } => {
                    let name = self.requests.as_ref().map_or("", Requests::name);
                    let service = self.scenario.fabric.services.iter().find(|service| service.name == name);
                    let spec = service.and_then(|service| service.spec.servers.get(server));
                    let Some(spec) = spec else { continue };
                    for machine in self.graph.service_machines(name) {
                        if let Some(id) = machine.server(&spec.name) {
                            machine.report(now, id, report);
                        }
                    }
                }
            }
        }
        self.receive_delivered(now);
        self.arm_requests();
    }

    fn arm_requests(&mut self) {
        let Some(next) = self.requests.as_ref().and_then(Requests::next_time) else { return };
        if next < self.requests_armed {
            self.requests_armed = next;
            self.medium.calendar.push(next, Event { packet: 0, header: 0, at: REQUESTS });
        }
    }

    /// What came of the requests, if there were some. They are no more.
    pub(crate) fn take_requests(&mut self) -> Option<RequestOutcome> {
        self.requests.take().map(Requests::into_outcome)
    }
}
