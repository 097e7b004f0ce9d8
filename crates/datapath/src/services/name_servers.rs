//! Name servers: what comes to their addresses is answered where it leaves its host, as echo requests to services are. No program is asked, so simulated networks have
//! them, too.

use std::net::IpAddr;

use balance::names::{NameSpec, NameView, QueryCounters, SiteState};
use machine::Time;
use topology::NetPort;
use vswitch::AddressAlias;

use super::{MAC, Service, ServiceState, answers};
use crate::driver::{Driver, Loss};
use crate::graph::{Graph, Moment};
use crate::pipeline::lose;

/// A name that leads to one of several services: its sites.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedName {
    /// What it is.
    pub spec: NameSpec,
    /// By site: the number of its service among those of the network.
    pub services: Vec<usize>,
}

impl ServedName {
    /// Addresses of name servers, which no host has: packets for them are sent to the first server of the first site, if nobody answers them.
    pub fn aliases<'a>(names: &'a [Self], services: &'a [Service]) -> impl Iterator<Item = AddressAlias> + 'a {
        names.iter().flat_map(|name| {
            let service = name.services.first().and_then(|number| services.get(*number));
            let host = service.and_then(|service| Some(service.servers.first()?.host));
            name.spec.asked_at.iter().filter_map(move |address| {
                let bits = balance::config::address_bits(*address);
                Some(AddressAlias { is_ipv6: address.is_ipv6(), addresses: (bits, bits), host: host?, mac: Some(MAC) })
            })
        })
    }
}

impl ServiceState {
    /// How a service does as a site, by its number in the file.
    pub(super) fn site_state(&self, now: Time, number: usize) -> Option<SiteState> {
        let running = &self.running[*self.by_number.get(number)? as usize];
        Some(SiteState::of(&running.machine, now, |server| running.half_open_at(server)))
    }
}

impl<P> Graph<P> {
    /// How names stand, in the order of the file, and what name servers have counted besides.
    pub fn names(&self) -> (Vec<NameView<'_>>, QueryCounters) {
        (self.names.views().collect(), self.names.counters())
    }

    /// How a service does as a site, by its number; of one that is balanced at hosts, as its balancers know it together.
    pub fn site_state(&mut self, now: Time, service: usize) -> SiteState {
        let states = std::iter::once(&self.services).chain(self.balancers.states().map(|state| &*state));
        states.filter_map(|state| state.site_state(now, service)).reduce(SiteState::or).unwrap_or_default()
    }

    /// What a name server says to a frame that came to its address; `None`: nothing.
    fn ask_name_server(&mut self, moment: Moment<'_>, asked_at: IpAddr, frame: &[u8]) -> Option<Vec<u8>> {
        let Some(question) = answers::question(frame) else {
            return answers::echo(frame).or_else(|| answers::refusal(frame));
        };
        let mut names = std::mem::take(&mut self.names);
        let states = |name: usize| {
            let services = moment.tables.services.names()[name].services.iter();
            services.map(|service| self.site_state(moment.now, *service)).collect()
        };
        let answer = names.answer(moment.now, (asked_at, question.from), question.message, states);
        self.names = names;
        answers::reply(frame, &answer?)
    }

    /// Answers a packet to a name server. It is returned if it is for nobody of that kind.
    pub(super) fn answer_as_name_server<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) -> Option<P> {
        let services = &moment.tables.services;
        let asked_at = crate::segment::destination(driver.headers(&packet))
            .filter(|(is_ipv6, address)| services.is_name_server(*is_ipv6, *address));
        let Some((is_ipv6, address)) = asked_at else { return Some(packet) };
        let asked_at = super::ip(is_ipv6, address);
        let has_bytes = driver.frame(&packet).is_some();
        let frame = has_bytes.then(|| driver.finished(&packet).into_owned());
        if let Some(loss) = services.fault_of((&*driver, &moment.tables.host_table), &packet) {
            return lose(driver, loss, packet);
        }
        let answer = frame.and_then(|frame| self.ask_name_server(moment, asked_at, &frame));
        if !self.say(moment, driver, port, packet, answer) {
            driver.count(Loss::Service);
        }
        None
    }
}
