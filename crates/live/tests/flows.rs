//! Tables of flows in a running network: those of the file, and those that are added while packets go on.

use crate::bed::{self, Bed, Running};
use fabric::FlowCommand;
use live::Instance;

/// The file that simulated networks have as well.
#[path = "../../sim/tests/pipelines/flows.rs"]
mod flow_file;

fn received(network: &Instance, host: &str) -> u64 {
    let counters = network.counters().unwrap();
    counters.ports.iter().find(|port| port.host == host).unwrap().traffic.received_bytes
}

/// What the flows of a switch that match this have counted, and how many of them there are.
fn counted(network: &Instance, selection: &str) -> (usize, u64) {
    let flows = network.flows(Some("s1"), selection).unwrap();
    let entries = flows.first().map_or(&[][..], |flows| &flows.entries);
    (entries.len(), entries.iter().map(|entry| entry.packets).sum())
}

fn change(network: &Instance, command: FlowCommand, texts: &[&str]) -> Result<usize, live::Error> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    network.change_flows("s1", (command, false), &texts)
}

#[test]
fn flows_of_a_file_translate_copy_and_drop() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(1, ""), (2, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let network = bed.up("flows", &flow_file::file(rate, &[]));
        let server = Running::iperf3_server(network.command("h3", "iperf3", ["-s", "-1", "-p", "5202"]));
        bed::output(network.command("h1", "iperf3", ["-4", "-c", "h2", "-p", "5201", "-R", "-n", "4M"]));
        drop(server);
        assert!(received(&network, "h1") > 4 << 20);
        assert!(received(&network, "h4") > 4 << 20);
        assert!(counted(&network, "tcp").1 > 0);
        // What no flow is for goes along the routes.
        bed::ping(&network, "h1", &[], 3, "h2");
        let mut refused = Running::start(network.command("h1", "iperf3", ["-4", "-c", "h2", "-p", "5204"]));
        bed::wait_until("segments are dropped", || counted(&network, "tcp,tp_dst=5204").1 > 1);
        assert!(refused.is_running());
        network.down().unwrap();
    }
}

/// Connections of a real TCP to a virtual address, which connection tracking translates and shows.
#[test]
fn connections_are_translated_and_shown() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(2, ""), (1, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let network = bed.up("tracking", &flow_file::tracked(rate, &[]));
        let server = Running::iperf3_server(network.command("h3", "iperf3", ["-s", "-1", "-p", "5202"]));
        bed::output(network.command("h1", "iperf3", ["-4", "-c", "h2", "-p", "5201", "-R", "-n", "4M"]));
        drop(server);
        assert!(received(&network, "h1") > 4 << 20);
        let switches = network.connections(Some("s1")).unwrap();
        let [tracked] = &switches[..] else { panic!("one switch: {switches:?}") };
        // The one by which both sides agree, and the one of the data.
        assert_eq!((tracked.counters.committed, tracked.connections.len()), (2, 2), "{tracked:?}");
        for connection in &tracked.connections {
            let text = &connection.text;
            assert!(text.starts_with("tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport="), "{text}");
            assert!(text.contains(",dport=5201),reply=(src=10.0.0.3,dst=10.0.0.1,sport=5202,dport="), "{text}");
            assert!(text.contains(",zone=1,protoinfo=(state="), "{text}");
        }
        assert_eq!(network.connections(None).unwrap()[0].counters, tracked.counters);
        assert!(matches!(network.connections(Some("s2")), Err(live::Error::Refused { .. })));
        network.down().unwrap();
    }
}

/// Segments of up to 64 KiB, and those that are cut, go through a trunk whose tags hosts do not see.
#[test]
fn a_trunk_carries_tags_that_hosts_do_not_see() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(2, ""), (1, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let network = bed.up("trunk", &flow_file::trunk(rate, &[]));
        bed::ping(&network, "h1", &["-4"], 3, "h2");
        bed::carry(&network, "h1", "h2", "4M");
        bed::carry(&network, "h2", "h1", "4M");
        assert!(counted(&network, "dl_vlan=5").1 > 0);
        network.down().unwrap();
    }
}

/// The same with labels, behind which checksums are still to be made and segments to be cut.
#[test]
fn labels_are_put_on_and_taken_off_again() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(2, ""), (1, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let network = bed.up("labels", &flow_file::labels(rate, &[]));
        bed::ping(&network, "h1", &["-4"], 3, "h2");
        for (from, to) in [("h1", "10.0.0.2"), ("h2", "10.0.0.1")] {
            let of = if from == "h1" { "h2" } else { "h1" };
            let server = Running::iperf3_server(network.command(of, "iperf3", ["-s", "-1"]));
            bed::output(network.command(from, "iperf3", ["-4", "-c", to, "-n", "4M"]));
            drop(server);
        }
        assert!(counted(&network, "mpls").1 > 0);
        network.down().unwrap();
    }
}

#[test]
fn flows_come_and_go_while_packets_go_on() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let text = flow_file::file("", &[]);
    let (plain, _) = text.split_once("flows:\n").unwrap();
    let network = bed.up("changing", plain);
    bed::ping(&network, "h1", &["-4"], 3, "h2");
    assert_eq!(network.flows(None, "").unwrap(), []);
    let ping = Running::start(network.command("h1", "ping", ["-i", "0.02", "h3"]));
    // The switch gets its tables while packets go on.
    assert_eq!(change(&network, FlowCommand::Add, &["priority=5,icmp,nw_dst=10.0.0.2,actions=drop"]).unwrap(), 1);
    let mut lost = Running::start(network.command("h1", "ping", ["-4", "-i", "0.02", "-c", "1", "-w", "60", "h2"]));
    bed::wait_until("they are dropped", || counted(&network, "icmp,nw_dst=10.0.0.2").1 > 3);
    assert!(lost.is_running());
    assert_eq!(change(&network, FlowCommand::Modify, &["icmp,nw_dst=10.0.0.2,actions=normal"]).unwrap(), 1);
    bed::ping(&network, "h1", &["-4"], 3, "h2");
    assert!(counted(&network, "icmp,nw_dst=10.0.0.2").1 > 3, "its counters go on");
    // All of them, or none.
    let refused = change(&network, FlowCommand::Add, &["tcp,actions=drop", "udp,actions=group:7"]).unwrap_err();
    assert_eq!(refused.to_string(), "`udp,actions=group:7` is refused: the switch has no group 7");
    assert_eq!(counted(&network, "tcp").0, 0);
    let group = "group_id=7,type=all,bucket=output:h4,bucket=normal";
    assert_eq!(change(&network, FlowCommand::AddGroup, &[group]).unwrap(), 1);
    assert_eq!(change(&network, FlowCommand::Add, &["icmp,nw_dst=10.0.0.2,actions=group:7"]).unwrap(), 1);
    let before = received(&network, "h4");
    bed::ping(&network, "h1", &["-4"], 3, "h2");
    bed::wait_until("the monitor gets copies", || received(&network, "h4") > before);
    // A link that does something else leaves tables as they are.
    network.change_link("h1", "s1", None, &fabric::LinkChange::parse(&["delay=1ms".to_owned()]).unwrap()).unwrap();
    assert_eq!(counted(&network, "icmp").0, 2);
    assert_eq!(change(&network, FlowCommand::DeleteGroup, &["7"]).unwrap(), 1);
    assert_eq!(counted(&network, "icmp").0, 1, "flows go with their group");
    let timed = "idle_timeout=1,udp,actions=drop";
    assert_eq!(change(&network, FlowCommand::Add, &[timed]).unwrap(), 1);
    bed::wait_until("it has gone", || counted(&network, "udp").0 == 0);
    assert_eq!(change(&network, FlowCommand::Delete, &[""]).unwrap(), 2);
    assert_eq!(counted(&network, ""), (0, 0));
    drop(ping);
}

#[test]
fn a_packet_is_traced_and_mistakes_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("tracing", &flow_file::file("", &[]));
    let traced = network.trace("s1", "in_port=h1,tcp,nw_dst=10.0.0.2,tp_dst=5201").unwrap();
    assert_eq!(traced.entries.iter().filter_map(|entry| entry.table).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(traced.actions, "output:2,mod_dl_dst:02:00:00:00:00:03,mod_nw_dst:10.0.0.3,mod_tp_dst:5202,NORMAL");
    // A switch without tables leaves all to the routes.
    let traced = network.trace("s2", "tcp").unwrap();
    assert_eq!((traced.entries.len(), &*traced.actions), (0, "NORMAL"));
    assert_eq!(network.trace("s3", "tcp").unwrap_err().to_string(), "there is no switch `s3`");
    let wrong = change(&network, FlowCommand::Add, &["tcp,tp_dst=http,actions=drop"]).unwrap_err().to_string();
    assert!(wrong.contains("`http` is no value of `tp_dst`"), "{wrong}");
}
