//! What most tests simulate: each says only what is otherwise.

use std::sync::{Arc, LazyLock};

use fabric::Fabric;
use machine::Span;
use sim::{FlowSpec, HostCosts, PacketCost, Scenario};
use topology::Routes;
use transport::TransportSpec;
use vswitch::{Pipelines, Spread};

static NO_PIPELINES: LazyLock<Pipelines> = LazyLock::new(Pipelines::default);

/// Hosts that cost nothing and never sleep, for tests of what the network takes.
pub const AWAKE: Option<HostCosts> = Some(HostCosts {
    cores: 1,
    sent: PacketCost { packet: Span::ZERO, byte: Span::ZERO },
    received: PacketCost { packet: Span::ZERO, byte: Span::ZERO },
    wake_up: Span::ZERO,
});

/// These flows for a second from the start on, on one path each; nothing else happens.
pub fn plain<'a>(
    fabric: &'a Fabric,
    routes: &'a Arc<Routes>,
    transport: &'a TransportSpec,
    flows: &'a [FlowSpec],
) -> Scenario<'a> {
    Scenario {
        fabric,
        routes,
        spread: Spread::Single,
        transport,
        flows,
        warm_up: Span::ZERO,
        duration: Span::from_secs(1),
        rate_pps: None,
        transfers: None,
        requests: None,
        time_series: None,
        faults: &[],
        hosts: None,
        pipelines: &NO_PIPELINES,
        seed: 1,
    }
}
