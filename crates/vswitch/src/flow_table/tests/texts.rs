use super::*;
use crate::flow_table::{Selection, parse_modification, parse_packet};
use proptest::prelude::*;

/// What is read is printed as Open vSwitch 3.1 prints it.
#[test]
fn flows_are_printed_as_they_are_dumped() {
    for (text, printed) in [
        ("priority=10,tcp,tp_dst=80,actions=output:2", "priority=10,tcp,tp_dst=80 actions=output:2"),
        ("table=1,ip,nw_src=10.0.0.0/8,actions=drop", "table=1, ip,nw_src=10.0.0.0/8 actions=drop"),
        ("actions=normal", "actions=NORMAL"),
        ("priority=0 actions=NORMAL", "priority=0 actions=NORMAL"),
        (
            "cookie=0x7, idle_timeout=10 hard_timeout=60,in_port=h1,dl_src=02:00:00:00:00:01,actions=0,h2,all,flood",
            "cookie=0x7, idle_timeout=10, hard_timeout=60, in_port=1,dl_src=02:00:00:00:00:01 actions=output:0,output:2,ALL,FLOOD",
        ),
        ("dl_type=0x800,nw_proto=17,tp_src=0x35/0xff,actions=in_port", "udp,tp_src=0x35/0xff actions=IN_PORT"),
        ("ip,nw_dst=10.1.2.3/255.0.255.0,actions=drop", "ip,nw_dst=10.0.2.0/255.0.255.0 actions=drop"),
        ("ipv6,ipv6_dst=fd00::1/64,actions=drop", "ipv6,ipv6_dst=fd00::/64 actions=drop"),
        ("arp,arp_op=1,arp_tpa=10.0.0.1,actions=flood", "arp,arp_tpa=10.0.0.1,arp_op=1 actions=FLOOD"),
        ("arp,nw_dst=10.0.0.1,actions=flood", "arp,arp_tpa=10.0.0.1 actions=FLOOD"),
        ("icmp,icmp_type=8,icmp_code=0,actions=all", "icmp,icmp_type=8,icmp_code=0 actions=ALL"),
        ("icmp6,icmpv6_type=135,actions=drop", "icmp6,icmp_type=135 actions=drop"),
        (
            "tcp,tcp_flags=0x2/0x12,in_port=3,metadata=7,actions=drop",
            "tcp,metadata=0x7,in_port=3,tcp_flags=+syn-ack actions=drop",
        ),
        ("tcp,tcp_flags=-rst+ack,actions=drop", "tcp,tcp_flags=-rst+ack actions=drop"),
        ("dl_vlan=7,dl_vlan_pcp=3,actions=drop", "dl_vlan=7,dl_vlan_pcp=3 actions=drop"),
        ("dl_vlan=0xffff,actions=drop", "vlan_tci=0x0000/0x1fff actions=drop"),
        ("vlan_tci=0x1000/0x1000,actions=drop", "vlan_tci=0x1000/0x1000 actions=drop"),
        ("tcp,nw_tos=184,nw_ecn=1,ip_frag=no,actions=drop", "tcp,nw_tos=184,nw_ecn=1,nw_frag=no actions=drop"),
        ("ip,ip_dscp=46,nw_ttl=1,actions=controller:128", "ip,nw_tos=184,nw_ttl=1 actions=CONTROLLER:128"),
        (
            "metadata=0x5/0xf,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=drop",
            "metadata=0x5/0xf,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=drop",
        ),
        (
            "tcp,actions=mod_nw_dst:10.0.0.9,mod_tp_dst:8080,dec_ttl,group:4",
            "tcp actions=mod_nw_dst:10.0.0.9,mod_tp_dst:8080,dec_ttl,group:4",
        ),
        ("tcp,actions=set_field:8080->tcp_dst,set_field:10.0.0.0/8->ip_dst,set_field:2->eth_src", ""),
        ("ip,actions=set_field:46->ip_dscp,set_field:1->ip_ecn", "ip actions=set_field:46->ip_dscp,mod_nw_ecn:1"),
        (
            "dl_vlan=0xffff,actions=push_vlan:0x8100,set_field:4101->vlan_vid,set_field:3->vlan_pcp,output:1",
            "vlan_tci=0x0000/0x1fff actions=push_vlan:0x8100,set_field:4101->vlan_vid,set_field:3->dl_vlan_pcp,output:1",
        ),
        (
            "dl_vlan=7,actions=set_field:9->dl_vlan,strip_vlan,output:1,mod_vlan_vid:3,mod_vlan_pcp:7,pop_vlan,output:2",
            "dl_vlan=7 actions=set_field:9->dl_vlan,pop_vlan,output:1,mod_vlan_vid:3,mod_vlan_pcp:7,pop_vlan,output:2",
        ),
        (
            "vlan_vid=0x1000/0x1000,actions=write_actions(pop_vlan,push_vlan:33024,output:1)",
            "vlan_tci=0x1000/0x1000 actions=write_actions(pop_vlan,push_vlan:0x8100,output:1)",
        ),
        (
            "ct_state=+trk+est-new,ct_zone=5,ct_mark=0x1/0xf,tcp,in_port=1,actions=ct_clear,output:2",
            "ct_state=-new+est+trk,ct_zone=5,ct_mark=0x1/0xf,tcp,in_port=1 actions=ct_clear,output:2",
        ),
        ("ip,actions=ct,ct()", "ip actions=ct(),ct()"),
        (
            "ip,actions=ct(zone=7,commit,force,table=3,exec(set_field:0x12/0xff->ct_mark),nat(src=10.0.0.1-10.0.0.9:5000-6000))",
            "ip actions=ct(commit,force,table=3,zone=7,nat(src=10.0.0.1-10.0.0.9:5000-6000),exec(set_field:0x12/0xff->ct_mark))",
        ),
        (
            "ipv6,actions=ct(commit,nat(dst=[fd00::1]-[fd00::9]:80)),ct(commit,nat(dst=fd00::1)),ct(nat)",
            "ipv6 actions=ct(commit,nat(dst=[fd00::1]-[fd00::9]:80)),ct(commit,nat(dst=fd00::1)),ct(nat)",
        ),
        (
            "dl_type=0x8847,mpls_bos=1,mpls_ttl=64,mpls_label=16,mpls_tc=3,actions=pop_mpls:0x0800,dec_ttl,output:1",
            "mpls,mpls_label=16,mpls_tc=3,mpls_ttl=64,mpls_bos=1 actions=pop_mpls:0x0800,dec_ttl,output:1",
        ),
        (
            "ip,actions=push_mpls:0x8847,set_field:16->mpls_label,set_mpls_ttl:9,copy_ttl_out,dec_mpls_ttl,copy_ttl_in",
            "ip actions=push_mpls:0x8847,set_mpls_label:16,set_mpls_ttl:9,copy_ttl_out,dec_mpls_ttl,copy_ttl_in",
        ),
        (
            "mplsm,actions=write_actions(set_mpls_tc:7,pop_mpls:34887)",
            "mplsm actions=write_actions(set_mpls_tc:7,pop_mpls:0x8847)",
        ),
        (
            "in_port=1,metadata=3,tunnel_id=0x5/0xf,actions=set_tunnel:7,set_field:0x10/0xf0->tun_id",
            "tun_id=0x5/0xf,metadata=0x3,in_port=1 actions=set_tunnel:0x7,set_field:0x10/0xf0->tun_id",
        ),
        (
            "icmp6,icmp_type=135,actions=set_field:fd00::9->nd_target,set_field:2:0:0:0:0:9->nd_sll",
            "icmp6,icmp_type=135 actions=set_field:fd00::9->nd_target,set_field:02:00:00:00:00:09->nd_sll",
        ),
        ("actions=1,clear_actions,write_actions(output:2,dec_ttl),write_metadata:1/0xff,goto_table:3", ""),
        (
            "ip,actions=output:1,clear_actions,write_actions(output:2,dec_ttl),write_metadata:1/0xff,goto_table:3",
            "ip actions=output:1,clear_actions,write_actions(output:2,dec_ttl),write_metadata:0x1/0xff,goto_table:3",
        ),
    ] {
        let Ok(flow) = Flow::parse(text, &ports()) else {
            assert_eq!(printed, "", "{text}");
            continue;
        };
        let again = Flow::parse(&flow.to_string(), &ports());
        assert_eq!(again.as_ref(), Ok(&flow), "{flow}");
        assert_eq!(flow.to_string(), printed, "{text}");
    }
}

#[test]
fn a_wrong_flow_is_refused_with_the_place_of_the_mistake() {
    let refused = |text: &str| complaint(text, &Flow::parse(text, &ports()).unwrap_err());
    insta::assert_snapshot!(
        [
            "tp_dst=80,actions=drop",
            "ip,tp_dst=80,actions=drop",
            "nw_src=10.0.0.1,actions=drop",
            "tcp,tp_dst=80",
            "tcp,tp_dts=80,actions=drop",
            "tcp,tp_dst=eighty,actions=drop",
            "tcp,tcp_flags=+syn+syn,actions=drop",
            "tcp,tp_dst=70000,actions=drop",
            "tcp,tp_dst=,actions=drop",
            "tcp,udp,actions=drop",
            "ip,nw_src=10.0.0.0/33,actions=drop",
            "ip,nw_src=10.0.0,actions=drop",
            "ip,nw_tos=3,actions=drop",
            "in_port=9,actions=drop",
            "in_port=h9,actions=drop",
            "dl_src=1:2:3,actions=drop",
            "in_port=1/1,actions=drop",
            "priority=70000,actions=drop",
            "actions=",
            "actions=outptu:1",
            "actions=output:s2",
            "in_port=1,actions=output:1",
            "actions=output:1,drop",
            "actions=mod_tp_dst:80",
            "tcp,actions=set_field:80->udp_dst",
            "tcp,actions=set_field:80",
            "arp,actions=set_field:10.0.0.1->arp_spa",
            "mpls_label=5,actions=drop",
            "mpls,mpls_label=1048576,actions=drop",
            "mpls,actions=set_field:1->mpls_bos",
            "mpls,actions=pop_mpls:0x0800,mod_tp_dst:80",
            "ip,actions=push_mpls:0x0800",
            "ip,actions=dec_mpls_ttl",
            "icmp6,actions=set_field:fd00::9->nd_target",
            "tun_id=0x1000000,actions=drop",
            "table=3,actions=goto_table:3",
            "actions=goto_table:1,output:2",
            "actions=resubmit(,1)",
            "actions=write_actions(output:1,output:2)",
            "actions=write_actions(output:1",
            "actions=pop_vlan",
            "dl_vlan=5,actions=pop_vlan,set_field:3->vlan_pcp",
            "dl_vlan=5,actions=set_field:7->vlan_vid",
            "actions=push_vlan:0x88a8",
            "actions=mod_vlan_vid:4096",
            "ct_state=+trk+old,actions=drop",
            "actions=ct(table=1)",
            "ip,actions=ct(tables=1)",
            "ip,actions=ct(nat(src=10.0.0.1))",
            "ip,actions=ct(force)",
            "ip,actions=ct(commit,nat(src=10.0.0.9-10.0.0.1))",
            "ip,actions=ct(commit,nat(src=10.0.0.1,dst=10.0.0.2))",
            "ip,actions=ct(commit,nat(src=10.0.0.1,random))",
            "ip,actions=ct(commit,alg=ftp)",
            "ip,actions=ct(commit,exec(set_field:1->reg0))",
            "ip,actions=write_actions(ct(commit))",
            "\u{1b}[2J,actions=drop",
        ]
        .map(refused)
        .join("\n")
    );
}

#[test]
fn groups_are_read_and_printed() {
    for (text, printed) in [
        (
            "group_id=1,type=select,bucket=output:1,bucket=weight:3,actions=output:2",
            "group_id=1,type=select,bucket=weight:1,actions=output:1,bucket=weight:3,actions=output:2",
        ),
        ("group_id=2 type=ff bucket=watch_port:s2x", ""),
        (
            "group_id=2,type=ff,bucket=watch_port:3,actions=output:3,bucket=watch_port:4,output:4",
            "group_id=2,type=ff,bucket=watch_port:3,actions=output:3,bucket=watch_port:4,actions=output:4",
        ),
        (
            "group_id=3,type=all,bucket=mod_dl_dst:02:00:00:00:00:01,output:h1,bucket=actions=drop",
            "group_id=3,type=all,bucket=actions=mod_dl_dst:02:00:00:00:00:01,output:1,bucket=actions=drop",
        ),
        (
            "group_id=2,type=ff,bucket=watch_group:7,output:3,bucket=watch_port:4,watch_group:0x8,actions=drop",
            "group_id=2,type=ff,bucket=watch_group:7,actions=output:3,bucket=watch_port:4,watch_group:8,actions=drop",
        ),
        ("group_id=4,type=indirect", ""),
        ("type=all,bucket=output:1", ""),
    ] {
        match Group::parse(text, &ports()) {
            Ok(group) => {
                assert_eq!(group.to_string(), printed);
                assert_eq!(super::group(printed), group);
            }
            Err(error) => assert_eq!(printed, "", "{text}: {error}"),
        }
    }
}

#[test]
fn flows_are_chosen_by_what_they_match() {
    let meant = |selection: &str, strict: bool, text: &str| {
        Selection::parse(selection, &ports(), strict).unwrap().has(&flow(text))
    };
    let web = "priority=10,cookie=0x12,table=1,tcp,tp_dst=80,actions=drop";
    for (selection, is_meant) in [
        ("", true),
        ("tcp", true),
        ("ip", true),
        ("udp", false),
        ("table=1", true),
        ("table=2", false),
        ("tcp,tp_dst=80", true),
        ("tcp,tp_src=80", false),
        ("cookie=0x12/-1", true),
        ("cookie=0x2/0xf", true),
        ("cookie=0x3/0xf", false),
    ] {
        assert_eq!(meant(selection, false, web), is_meant, "{selection}");
    }
    let shown = |text: &str| Selection::parse_shown(text, &ports()).unwrap().has(&flow(web));
    assert!(shown("priority=10") && shown("priority=10,tcp") && shown("tcp"));
    assert!(!shown("priority=11,tcp") && !shown("priority=10,udp"));
    let grouped = "priority=10,tcp,actions=group:3";
    assert!(meant("out_group=3", false, grouped) && !meant("out_group=4", false, grouped));
    assert!(!meant("out_group=3", false, web));
    // A flow that takes another one's place counts from 0.
    assert_eq!(flow("reset_counts,tcp,actions=drop"), flow("tcp,actions=drop"));
    assert!(parse_modification("reset_counts,tcp,actions=drop", &ports(), false).is_err());
    assert!(Selection::parse_shown("tcp,reset_counts", &ports()).is_err());
    let refused = Selection::parse("priority=70,tcp", &ports(), false).unwrap_err();
    assert_eq!(refused.message, "several flows are not chosen by their priority");
    assert!(meant("priority=10,tcp,tp_dst=80", true, web));
    assert!(!meant("priority=11,tcp,tp_dst=80", true, web));
    assert!(!meant("priority=10,tcp", true, web));
}

#[test]
fn a_packet_has_one_value_of_a_field() {
    let packet = |text: &str| parse_packet(text, &ports());
    for (text, place) in [
        ("tcp,nw_dst=10.0.2.0/24", "/24"),
        ("tcp,tp_dst=80/0xfff0", "/0xfff0"),
        ("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", "/01:00:00:00:00:00"),
        ("ipv6,ipv6_src=fd00::/64,nw_ttl=3", "/64"),
    ] {
        let error = packet(text).unwrap_err();
        assert_eq!(&text[error.at.clone()], place);
        assert!(error.message.ends_with("and no mask"), "{error}");
    }
    for (masked, plain) in [
        ("tcp,nw_dst=10.0.2.1/32,tp_dst=80/0xffff", "tcp,nw_dst=10.0.2.1,tp_dst=80"),
        ("nw_dst=10.0.2.1/255.255.255.255,udp", "udp,nw_dst=10.0.2.1"),
        ("ct_state=+trk+new,tcp,tcp_flags=+syn", "tcp,ct_state=+trk+new,tcp_flags=+syn"),
    ] {
        assert_eq!(packet(masked).unwrap(), packet(plain).unwrap());
    }
}

/// Pieces from which most texts are flows.
fn pieces() -> impl Strategy<Value = String> {
    let head = prop::sample::select(vec![
        "tcp",
        "udp",
        "ip",
        "ipv6",
        "arp",
        "icmp",
        "tcp6",
        "sctp",
        "icmp6",
        "in_port=1",
        "in_port=h2",
        "tp_dst=80",
        "tp_src=0x100/0xff00",
        "nw_src=10.0.0.0/9",
        "nw_dst=10.0.0.1",
        "ipv6_src=fd00::/48",
        "dl_vlan=5",
        "dl_vlan=0xffff",
        "dl_vlan_pcp=2",
        "ct_state=+trk-new",
        "ct_zone=3",
        "ct_mark=0x5",
        "vlan_tci=0x1123/0x1fff",
        "dl_src=02:00:00:00:00:07",
        "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
        "metadata=0x12/0xff",
        "nw_tos=32",
        "nw_ecn=3",
        "nw_ttl=64",
        "ip_frag=later",
        "ip_frag=not_later",
        "arp_op=2",
        "arp_sha=02:00:00:00:00:01",
        "icmp_type=3",
        "icmpv6_type=135",
        "tcp_flags=0x2/0x12",
        "nw_proto=47",
        "dl_type=0x88cc",
        "priority=7",
        "cookie=0x99",
        "table=3",
        "idle_timeout=5",
        "hard_timeout=7",
        "ipv6_label=0x12345/0xfffff",
    ]);
    let action = prop::sample::select(vec![
        "output:1",
        "normal",
        "drop",
        "in_port",
        "flood",
        "all",
        "controller:12",
        "group:3",
        "dec_ttl",
        "mod_dl_src:02:00:00:00:00:09",
        "mod_nw_src:10.9.9.9",
        "mod_tp_dst:99",
        "mod_nw_tos:4",
        "mod_nw_ttl:3",
        "set_field:0x5/0xf->tcp_dst",
        "set_field:fd00::/64->ipv6_dst",
        "clear_actions",
        "write_actions(output:2,group:1)",
        "write_metadata:0x5/0x7",
        "push_vlan:0x8100",
        "pop_vlan",
        "ct(commit,table=2,zone=3,nat(src=10.0.0.1:5-6),exec(set_field:1->ct_mark))",
        "ct(nat,table=0)",
        "ct_clear",
        "mod_vlan_vid:5",
        "mod_vlan_pcp:5",
        "set_field:0x1003/0x100f->vlan_vid",
        "goto_table:9",
        "goto_table:1",
    ]);
    (prop::collection::vec(head, 0..5), prop::collection::vec(action, 1..5))
        .prop_map(|(head, actions)| format!("{},actions={}", head.join(","), actions.join(",")))
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same(text in pieces()) {
        if let Ok(flow) = Flow::parse(&text, &ports()) {
            let printed = flow.to_string();
            prop_assert_eq!(Flow::parse(&printed, &ports()), Ok(flow), "{}", printed);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_at_a_place_within_it(text in any::<String>(), cut in pieces(), at in 0_usize..60, with in any::<char>()) {
        let mut changed = cut.clone();
        if changed.is_char_boundary(at.min(changed.len())) {
            changed.insert(at.min(cut.len()), with);
        }
        for text in [text, changed] {
            for error in [Flow::parse(&text, &ports()).err(), Group::parse(&text, &ports()).err(), Selection::parse(&text, &ports(), true).err()].into_iter().flatten() {
                prop_assert!(text.get(error.at.clone()).is_some(), "{:?} of {:?}", error, text);
                prop_assert!(!error.message.contains(char::is_control), "{:?}", error);
            }
        }
    }
}
