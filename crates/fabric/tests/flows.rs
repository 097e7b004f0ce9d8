//! Flows and groups of switches in a file.

use fabric::Fabric;

use crate::network;

const NETWORK: &str = "\
name: net
nodes: { h1: host, h2: host, s1: switch, s2: switch }
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [s1, s2]
";

fn read(more: &str) -> Result<Fabric, fabric::Error> {
    network::read(NETWORK, more)
}

fn problems(more: &str) -> Vec<String> {
    network::problems(NETWORK, more)
}

#[test]
fn a_switch_has_the_flows_that_the_file_gives_it() {
    let fabric = read(
        "\
flows:
  s1:
    - priority=10,tcp,tp_dst=80,actions=group:1
    - \"in_port=h1,udp,actions=output:s2\"
groups:
  s1: [ \"group_id=1,type=all,bucket=output:0,bucket=output:1\" ]
",
    )
    .expect("it is a file");
    let s1 = fabric.topology.node("s1").expect("it is there");
    let tables = &fabric.flow_tables[&s1];
    let texts: Vec<String> = tables.flows.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["priority=10,tcp,tp_dst=80 actions=group:1", "udp,in_port=0 actions=output:1"]);
    assert_eq!(tables.groups.len(), 1);
    assert_eq!(fabric.flow_tables.len(), 1);
    assert!(!fabric.pipelines(1.into()).is_empty());
    let json = serde_json::to_value(&fabric).expect("it is data");
    assert_eq!(json["flow_tables"]["s1"]["flows"][1], "udp,in_port=0 actions=output:1");
    assert!(read("").expect("it is a file").pipelines(1.into()).is_empty());
}

#[test]
fn a_wrong_flow_is_shown_where_it_is_wrong() {
    assert_eq!(
        problems("flows:\n  s1:\n    - priority=10,tcp,tp_dst=http,actions=drop\n"),
        ["9:30 `http` is no value of `tp_dst` (write a number, as in 80 or 0x50)"]
    );
    assert_eq!(
        problems("flows:\n  s1: [ 'tcp,actions=output:h2' ]\n"),
        ["8:29 no port of the switch leads to `h2` (did you mean `h1`? its ports are 0 (h1), 1 (s2))"]
    );
    assert_eq!(
        problems("flows:\n  s3: [ 'tcp,actions=drop' ]\n  h1: [ 'tcp,actions=drop' ]\n"),
        ["8:3 there is no switch `s3` (did you mean `s1`?)", "9:3 there is no switch `h1` (did you mean `s1`?)"]
    );
    let [message] = &problems("flows:\n  s1:\n    - tcp,actions=group:7\n")[..] else { panic!("one problem") };
    assert!(message.starts_with("9:7 the switch has no group 7"), "{message}");
    let [message] = &problems("flows:\n  s1:\n    - { tcp: 1 }\n")[..] else { panic!("one problem") };
    assert!(message.contains("a flow, group or meter in one line"), "{message}");
    // Between brackets, commas end a value.
    let found = problems("flows:\n  s1: [ tcp,tp_dst=80,actions=drop ]\n");
    assert!(found[0].contains("quotes"), "{found:?}");
}

/// Each mask is a look-up for a packet that no cache knows. The flow that each switch has is one more.
#[test]
fn a_switch_has_flows_of_so_many_masks() {
    let file = |masks: usize| {
        let flows = (1..=masks).map(|mask| format!("    - tcp,tp_src=0/{mask:#x},actions=drop\n"));
        format!("flows:\n  s1:\n{}", flows.collect::<String>())
    };
    assert!(read(&file(4_095)).is_ok());
    let said = problems(&file(4_096));
    // Six lines of the network and two of the heading stand before them.
    let [only] = &said[..] else { panic!("one problem: {said:?}") };
    assert!(only.starts_with("4104:") && only.contains("match 4096 different sets of bits"), "{only}");
}
