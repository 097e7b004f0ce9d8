//! Requests to a service: what the `requests:` of a traffic block says, held against the services that there are.

mod text;

use datapath::Service;
use machine::Span;
use topology::NodeId;
use transport::TransportKind;
use workload::service::WithoutMemory;

pub(crate) use text::{DrawnSize, DrawnTime, PathText, RequestRate, ServeText};

use crate::error::Problems;
use crate::experiment::{Context, transports};
use crate::overrides::{service_settings, traffic_settings};
use crate::quantity::Whole;
use crate::services::ServiceSetting;
use crate::source::At;
use crate::traffic::{RequestsText, TrafficSetting, TrafficText};
use crate::{Axis, RequestLoad, RequestServer};

/// Clients of a closed loop when nothing is said, as `heddle load` has it.
const CLIENTS: u32 = 10;
/// Requests under way of an open loop.
const IN_FLIGHT: u32 = 4_096;
/// How long a request may take.
const TIMEOUT: Span = Span::from_secs(10);
/// Requests that may wait at a server.
const QUEUE: u32 = 1_000;

/// Whether requests are there if they are varied. Notes it if not.
pub(crate) fn check_varied(text: &At<TrafficText>, axes: &[Axis], problems: &mut Problems<'_>) -> bool {
    let is_missing = text.value.requests.is_none() && traffic_settings(axes).any(is_of_requests);
    if is_missing {
        let hint = "add `requests: { to: SERVICE }` to the traffic";
        problems.add(text.place, "requests are varied, and the traffic has none", "needs `requests`", hint);
    }
    !is_missing
}

/// What a traffic block asks of a service; `None`: nothing, or there is a problem, which has been noted.
pub(crate) fn requests(
    text: &At<TrafficText>,
    axes: &[Axis],
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Option<Box<RequestLoad>> {
    let before = problems.noted();
    let At { value: asked, place, .. } = text.value.requests.as_ref()?;
    let others = [
        ("pattern", text.value.pattern.is_some()),
        ("streams", text.value.streams.is_some()),
        ("rate", text.value.rate.is_some()),
        ("transfers", text.value.transfers.is_some()),
    ];
    for (key, _) in others.iter().filter(|(_, is_there)| *is_there) {
        let message = format!("requests go from clients to servers: `{key}` says nothing about them");
        problems.add(*place, message, "with another load", format!("remove `{key}`, or make two experiments"));
    }
    let varies_other = traffic_settings(axes).any(|setting| {
        matches!(
            setting,
            TrafficSetting::Pattern(_)
                | TrafficSetting::Streams(_)
                | TrafficSetting::TransferSize(_)
                | TrafficSetting::TransferInterval(_)
        )
    });
    if varies_other {
        let hint = "vary `requests.clients`, `requests.rate`, `requests.workload`, `services.scheduler`, `services.forward`, or what links do";
        problems.add(*place, "what is varied is of other traffic than requests", "changes nothing", hint);
    }
    if transports(&text.value, axes).iter().any(|kind| *kind != TransportKind::Linux) {
        let hint = "remove `transport`: requests go over TCP as Linux has it";
        problems.add(*place, "clients and servers of a service speak TCP as Linux has it", "another transport", hint);
    }
    let service = find(asked, context, problems)?;
    let from = clients(asked, service, context, problems)?;
    let load = load(asked, service, (from, axes), context, problems);
    check_forwarding(axes, service, *place, problems);
    (problems.noted() == before).then(|| Box::new(load))
}

const fn is_of_requests(setting: &TrafficSetting) -> bool {
    matches!(
        setting,
        TrafficSetting::Workload(_)
            | TrafficSetting::RequestClients(_)
            | TrafficSetting::RequestRate(_)
            | TrafficSetting::NewConnections(_)
    )
}

fn find<'a>(text: &RequestsText, context: &Context<'a>, problems: &mut Problems<'_>) -> Option<&'a Service> {
    let (name, place) = (&text.to.value.0, text.to.place);
    let Some(service) = context.services.iter().find(|service| service.name == *name) else {
        let known: Vec<&str> = context.services.iter().map(|service| service.name.as_str()).collect();
        let hint = if known.is_empty() {
            "add it: `services: { web: { address: 10.1.0.80:80, servers: [h1, h2] } }`".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        problems.add(place, format!("there is no service `{name}`"), "unknown service", hint);
        return None;
    };
    if service.addresses.first().is_none_or(|address| address.protocol_name() != "tcp") {
        let hint = "ask a service of TCP";
        problems.add(place, format!("`{name}` serves datagrams, and requests go over TCP"), "of UDP", hint);
        return None;
    }
    Some(service)
}

/// The hosts of the clients: who is named, or all that are no servers.
fn clients(
    text: &RequestsText,
    service: &Service,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<NodeId>> {
    let is_server = |host: NodeId| service.servers.iter().any(|server| server.host == host);
    let Some(named) = &text.from else {
        let all = context.graph().topology.end_hosts().map(|(host, _)| host);
        let others: Vec<NodeId> = all.filter(|host| !is_server(*host)).collect();
        if others.is_empty() {
            let message = format!("all hosts are servers of `{}`: nobody is left to ask", service.name);
            problems.add(text.to.place, message, "no clients", "add a host");
            return None;
        }
        return Some(others);
    };
    if named.value.is_empty() && named.sound {
        problems.add(named.place, "nobody asks", "empty", "name a host, or remove `from`");
    }
    let mut hosts = Vec::new();
    for name in &named.value {
        let Some(host) = context.graph().end_host(name, problems) else { continue };
        if is_server(host) {
            let message = format!("`{}` is a server of `{}`, and would ask itself", name.value.0, service.name);
            problems.add(name.place, message, "a server", "name a host that is none of the servers");
        } else if hosts.contains(&host) {
            problems.add(name.place, format!("`{}` is there twice", name.value.0), "there already", "keep it once");
        } else {
            hosts.push(host);
        }
    }
    (named.sound && !hosts.is_empty()).then_some(hosts)
}

fn load(
    text: &RequestsText,
    service: &Service,
    (from, axes): (Vec<NodeId>, &[Axis]),
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> RequestLoad {
    let varies = |is: fn(&TrafficSetting) -> bool| traffic_settings(axes).any(is);
    let varies_rate = varies(|setting| matches!(setting, TrafficSetting::RequestRate(_)));
    let varies_clients = varies(|setting| matches!(setting, TrafficSetting::RequestClients(_)));
    let has_rate = text.rate.is_some() || varies_rate;
    let of_closed = [("clients", text.clients.is_some() || varies_clients), ("think", text.think.is_some())];
    for (key, _) in of_closed.iter().filter(|(_, is_there)| has_rate && *is_there) {
        let message = format!("`rate` is of an open loop, `{key}` of a closed one");
        problems.add(text.to.place, message, "both loops", format!("remove `rate` or `{key}`"));
    }
    let is_path_of_two = text.workload.is_some() || varies(|setting| matches!(setting, TrafficSetting::Workload(_)));
    if let Some(path) = text.path.as_ref().filter(|_| is_path_of_two || text.size.is_some() || text.duration.is_some())
    {
        let hint = "remove `path`, or else `workload`, `size` and `duration`";
        problems.add(path.place, "a workload asks for paths of its own", "with a workload", hint);
    }
    RequestLoad {
        service: service.name.clone(),
        from,
        workload: text.workload.map_or(workload::service::Workload::FineGrain, |choice| choice.0),
        size: text.size.map(|drawn| drawn.0),
        duration: text.duration.map(|drawn| drawn.0),
        target: text.path.as_ref().map(|path| path.value.0),
        clients: text.clients.map_or(CLIENTS, Whole::get),
        think: text.think.map(|drawn| drawn.0),
        rate_milli: text.rate.map(|rate| rate.0),
        is_poisson: text.poisson.is_some_and(|flag| flag.0),
        in_flight_max: text.in_flight.map_or(IN_FLIGHT, Whole::get),
        new_connections: text.new_connections.is_some_and(|flag| flag.0),
        timeout: text.timeout.map_or(TIMEOUT, |time| time.0),
        servers: servers(text, service, context, problems),
    }
}

/// What each server does: what is said of all of them, and then of it alone.
fn servers(
    text: &RequestsText,
    service: &Service,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Vec<RequestServer> {
    let mut all = RequestServer::default();
    all.spec.queue_max = QUEUE;
    if let Some(of_all) = &text.servers {
        of_all.apply(&mut all);
    }
    let mut servers = vec![all; service.servers.len()];
    for (name, own) in text.by_server.iter().flat_map(|mapping| &mapping.value.0) {
        let Some(host) = context.graph().end_host(name, problems) else { continue };
        if let Some(number) = service.servers.iter().position(|server| server.host == host) {
            own.value.apply(&mut servers[number]);
        } else {
            let message = format!("`{}` is no server of `{}`", name.value.0, service.name);
            problems.add(name.place, message, "no server", "name one of its `servers`");
        }
    }
    servers
}

impl ServeText {
    /// Changes what is said here.
    fn apply(&self, server: &mut RequestServer) {
        fn set<T>(target: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *target = value;
            }
        }
        let (spec, flag) = (&mut server.spec, |flag: Option<crate::controllers::Flag>| flag.map(|flag| flag.0));
        set(&mut spec.at_a_time, self.at_a_time.map(|count| Some(count.get())));
        set(&mut spec.queue_max, self.queue.map(Whole::get));
        set(&mut spec.memory_limit, self.memory_limit.map(|size| Some(size.0)));
        let refuses = |refuses| if refuses { WithoutMemory::Refuse } else { WithoutMemory::Wait };
        set(&mut spec.without_memory, flag(self.refuse_memory).map(refuses));
        set(&mut spec.size, self.size.map(|drawn| Some(drawn.0)));
        set(&mut spec.duration, self.duration.map(|drawn| Some(drawn.0)));
        set(&mut spec.faults.fail, self.fail.map(|share| share.0));
        set(&mut spec.faults.fail_fast, flag(self.fail_fast));
        set(&mut spec.faults.hang, self.hang.map(|share| share.0));
        set(&mut spec.faults.slow_percent, self.slow.map(|factor| factor.0));
        set(&mut spec.faults.from, self.from.map(|time| time.0));
        set(&mut spec.faults.until, self.until.map(|time| time.0));
        set(&mut server.body_bytes, self.body.map(|size| size.0));
    }
}

/// Notes ways to forward that the service which is asked cannot have: with balancers at hosts any but full NAT, and with other ports at servers those that leave packets
/// as they are.
fn check_forwarding(axes: &[Axis], service: &Service, place: crate::source::Place, problems: &mut Problems<'_>) {
    let forward = |setting: &ServiceSetting| match setting {
        ServiceSetting::Forward(forward) => Some(*forward),
        ServiceSetting::Scheduler(_) => None,
    };
    let Some(forward) = service_settings(axes).filter_map(forward).find(|forward| !service.may_have(*forward)) else {
        return;
    };
    if !service.at.is_empty() {
        let message = format!("the balancers of `{}` are at hosts, which need full NAT", service.name);
        return problems.add(place, message, "needs full NAT", "vary `full-nat` alone, or take `at` away");
    }
    let forward = forward.name();
    let message =
        format!("`forward: {forward}` leaves packets as they are, and servers of `{}` have ports", service.name);
    let hint = format!("take `port` away from its servers, or `{forward}` from what is varied");
    problems.add(place, message, "another port", hint);
}
