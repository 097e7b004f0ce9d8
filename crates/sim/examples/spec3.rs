#[path = "../tests/network/mod.rs"]
mod network;
use fabric::{NodeId, Routes, Spread};
use machine::{Span, Time};
use sim::{FlowSpec, Scenario};
fn main() {
    let fabric = network::fat_tree(4, network::GIGABIT);
    let routes = Routes::compute(&fabric);
    for window in [20, 100] {
    let t = network::reno(window);
    for by in [1u32, 2, 4, 8] {
        for spread in [Spread::Single, Spread::Ecmp, Spread::PacketScatter, Spread::PacketScatterRandom] {
            let flows: Vec<_> = (0..16).map(|x| FlowSpec { from: NodeId(x), to: NodeId((x + by) % 16), start: Time::ZERO }).collect();
            let o = sim::run(&Scenario { fabric: &fabric, routes: &routes, spread, transport: &t, flows: &flows, warm_up: Span::ZERO, duration: Span::from_secs(1), seed: 1 });
            let g: Vec<f64> = o.flows.iter().map(|f| f.delivered_bytes as f64 * 8.0 / 1e6).collect();
            let fr: u64 = o.flows.iter().map(|f| f.fast_retransmits).sum();
            let to: u64 = o.flows.iter().map(|f| f.timeouts).sum();
            let ro: u64 = o.flows.iter().map(|f| f.reordering.reordered).sum();
            let drops: u64 = o.links.iter().map(|f| f.forward.drops + f.backward.drops).sum();
            let peak = o.links.iter().map(|f| f.forward.queue_peak.max(f.backward.queue_peak)).max().unwrap();
            print!("w {window} stride {by} {spread:?}: mean {:.1} min {:.1} max {:.1} fr {fr} to {to} reord {ro} drops {drops} peak {peak}", g.iter().sum::<f64>() / 16.0, g.iter().copied().fold(1e9, f64::min), g.iter().copied().fold(0.0, f64::max));
            println!(" {:?}", g.iter().map(|x| x.round() as u32).collect::<Vec<_>>());
        }
    }}
}
