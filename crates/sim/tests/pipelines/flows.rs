//! A file with flows, for tests of both drivers.

/// Hosts h1 (client), h2 (a virtual server), h3 (the server) and h4 (a monitor) at s1, but h3 at s2. At s1, what is for port 5201 of h2 goes to port 5202 of h3, and what
/// comes back seems to be from h2; h4 gets a copy of both. What is for port 5204 is dropped.
pub fn file(rate: &str, more: &[&str]) -> String {
    const TRANSLATION: [&str; 4] = [
        "priority=20,tcp,nw_dst=10.0.0.2,tp_dst=5201,actions=output:h4,mod_dl_dst:02:00:00:00:00:03,mod_nw_dst:10.0.0.3,mod_tp_dst:5202,goto_table:1",
        "table=1,tcp,tp_dst=5202,actions=normal",
        "priority=20,tcp,nw_src=10.0.0.3,tp_src=5202,actions=mod_dl_src:02:00:00:00:00:02,mod_nw_src:10.0.0.2,mod_tp_src:5201,output:h4,normal",
        "priority=10,tcp,tp_dst=5204,actions=drop",
    ];
    with_flows(rate, TRANSLATION.iter().chain(more))
}

/// The same network. At s1, connection tracking translates what is for port 5201 of h2 to port 5202 of h3, and back; h4 gets no copy.
pub fn tracked(rate: &str, more: &[&str]) -> String {
    const TRANSLATION: [&str; 5] = [
        "priority=20,tcp,nw_dst=10.0.0.2,tp_dst=5201,actions=ct(commit,zone=1,nat(dst=10.0.0.3:5202),table=1)",
        "priority=20,tcp,nw_src=10.0.0.3,actions=ct(zone=1,nat,table=2)",
        "table=1,ct_state=+trk+dnat,ip,actions=mod_dl_dst:02:00:00:00:00:03,normal",
        "table=2,ct_state=+trk+est+rpl,ip,actions=mod_dl_src:02:00:00:00:00:02,normal",
        "table=2,priority=1,actions=drop",
    ];
    with_flows(rate, TRANSLATION.iter().chain(more))
}

fn with_flows<'a>(rate: &str, flows: impl Iterator<Item = &'a &'a str>) -> String {
    let flows: Vec<String> = flows.map(|flow| format!("    - {flow}\n")).collect();
    let flows = flows.concat();
    format!(
        "\
name: flows
nodes:
  h1: {{ kind: host, mac: \"02:00:00:00:00:01\", ipv4: 10.0.0.1 }}
  h2: {{ kind: host, mac: \"02:00:00:00:00:02\", ipv4: 10.0.0.2 }}
  h3: {{ kind: host, mac: \"02:00:00:00:00:03\", ipv4: 10.0.0.3 }}
  h4: {{ kind: host, mac: \"02:00:00:00:00:04\", ipv4: 10.0.0.4 }}
  s1: switch
  s2: switch
links:
  - {{ between: [h1, s1]{rate} }}
  - {{ between: [h2, s1]{rate} }}
  - {{ between: [h3, s2]{rate} }}
  - {{ between: [h4, s1]{rate} }}
  - {{ between: [s1, s2]{rate} }}
flows:
  s1:
{flows}"
    )
}

/// Hosts h1 at s1 and h2 at s2. Between the switches goes what is in VLAN 5 only: each puts in what its host sends, and takes it out for the other one.
pub fn trunk(rate: &str, more: &[&str]) -> String {
    let between = ("dl_vlan=0xffff,actions=push_vlan:0x8100,set_field:4101->vlan_vid", "dl_vlan=5,actions=pop_vlan");
    between_switches("trunk", rate, between, more)
}

/// The same with labels, of IPv4 alone: one that both know, and one in front of it.
pub fn labels(rate: &str, more: &[&str]) -> String {
    let between = (
        "ip,actions=push_mpls:0x8847,set_mpls_label:16,push_mpls:0x8847,set_mpls_label:17,dec_mpls_ttl",
        "mpls,mpls_label=17,mpls_bos=0,mpls_ttl=63,actions=pop_mpls:0x8847,pop_mpls:0x0800,dec_ttl",
    );
    between_switches("labels", rate, between, more)
}

/// What each switch does with what its host sends to the other one, and with what comes from there.
fn between_switches(name: &str, rate: &str, (there, here): (&str, &str), more: &[&str]) -> String {
    let more: Vec<String> = more.iter().map(|flow| format!("    - {flow}\n")).collect();
    let of = |switch: &str, host: &str, other: &str| {
        let flows = [
            format!("priority=20,in_port={host},{there},output:{other}"),
            format!("priority=20,in_port={other},{here},output:{host}"),
            format!("priority=10,in_port={other},actions=drop"),
        ];
        format!("  {switch}:\n    - {}\n", flows.join("\n    - "))
    };
    format!(
        "\
name: {name}
nodes:
  h1: {{ kind: host, mac: \"02:00:00:00:00:01\", ipv4: 10.0.0.1 }}
  h2: {{ kind: host, mac: \"02:00:00:00:00:02\", ipv4: 10.0.0.2 }}
  s1: switch
  s2: switch
links:
  - {{ between: [h1, s1]{rate} }}
  - {{ between: [h2, s2]{rate} }}
  - {{ between: [s1, s2]{rate} }}
flows:
{}{}{}",
        of("s1", "h1", "s2"),
        of("s2", "h2", "s1"),
        more.concat()
    )
}

/// Hosts h1 at s1 and h2 at s2, each in a VLAN; the switches are joined by a trunk.
#[allow(dead_code, reason = "live tests have networks of their own")]
pub fn vlans(rate: &str, [h1, h2]: [u16; 2]) -> String {
    format!(
        "\
name: vlans
nodes: {{ h1: host, h2: host, s1: switch, s2: switch }}
links:
  - {{ between: [h1, s1]{rate} }}
  - {{ between: [h2, s2]{rate} }}
  - {{ between: [s1, s2]{rate} }}
switches:
  s1: {{ ports: {{ h1: {{ tag: {h1} }} }} }}
  s2: {{ ports: {{ h2: {{ tag: {h2} }} }} }}
"
    )
}
