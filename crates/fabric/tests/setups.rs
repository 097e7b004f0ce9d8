//! Programs, files and sysctls of hosts, as the file has them.

use fabric::{HostSetup, Restart, Source, parse};

use crate::network::said;

fn source(text: &str) -> Source {
    Source { name: "net".to_owned(), text: text.to_owned() }
}

/// A network of which `h1` has this.
fn with(setup: &str) -> Source {
    source(&format!("nodes: {{ h1: {{ kind: host, {setup} }}, h2: host }}\nlinks: [{{ between: [h1, h2] }}]\n"))
}

fn setup(text: &str) -> HostSetup {
    let mut fabric = parse(&with(text)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    fabric.setups.remove("h1").expect("h1 has it")
}

#[test]
fn programs_are_command_lines_or_lists() {
    let HostSetup { programs, .. } = setup(
        "programs: { a: sleep 5, b: [sleep, 5], c: { run: 'x; y', restart: always }, d: { run: [z], restart: never } }",
    );
    let got: Vec<_> = programs.iter().map(|program| (&*program.name, program.run.join(" "), program.restart)).collect();
    let expected = [
        ("a", "sh -c sleep 5".to_owned(), Restart::OnFailure),
        ("b", "sleep 5".to_owned(), Restart::OnFailure),
        ("c", "sh -c x; y".to_owned(), Restart::Always),
        ("d", "z".to_owned(), Restart::Never),
    ];
    assert_eq!(got, expected);
}

#[test]
fn files_have_their_text_and_a_line_break_at_its_end() {
    let text = "nodes:\n  h1:\n    kind: host\n    files:\n      /etc/a: one line\n      /etc/b: |\n        two\n          lines\n      /etc/c: ''\n  h2: host\nlinks: [{ between: [h1, h2] }]\n";
    let fabric = parse(&source(text)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    let files: Vec<_> = fabric.setups["h1"].files.iter().map(|file| (&*file.path, &*file.text)).collect();
    assert_eq!(files, [("/etc/a", "one line\n"), ("/etc/b", "two\n  lines\n"), ("/etc/c", "")]);
}

#[test]
fn sysctls_have_names_as_sysctl_has_them_and_so_do_hosts_of_a_topology() {
    let text = "topology: { fat-tree: { k: 4 } }\nhosts: { h3: { sysctls: { net.ipv4.ip_forward: 1, net/ipv4/conf/eth0.5/rp_filter: 2, net.ipv4.tcp_rmem: 4096 5000 6000 } } }\n";
    let fabric = parse(&source(text)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    let sysctls: Vec<_> = fabric.setups["h3"].sysctls.iter().map(|sysctl| (&*sysctl.name, &*sysctl.value)).collect();
    let expected = [
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv4/conf/eth0.5/rp_filter", "2"),
        ("net/ipv4/tcp_rmem", "4096 5000 6000"),
    ];
    assert_eq!(sysctls, expected);
}

#[test]
fn what_is_wrong_is_shown_with_what_to_do() {
    for (setup, expected) in [
        ("programs: { a: [] }", "expected a command line"),
        ("programs: { a: '' }", "this command is empty"),
        ("programs: { a: { run: x, restart: sometimes } }", "`sometimes` is not a time to restart"),
        ("programs: { a: { command: x } }", "there is no key `command` here"),
        ("files: { etc/a: x }", "[etc/a] `etc/a` is not a path from the root on; begin it with `/`"),
        ("files: { /etc/../a: x }", "is not the path of a file"),
        ("files: { /etc/hosts: x }", "names the hosts of the network"),
        (
            "files: { /etc/x: { from: x } }",
            "[{] the text of this file is expected here; write it as in `/etc/motd: Hello`",
        ),
        ("files: { /proc/sys/net/x: x }", "/proc is the kernel's; `sysctls:` sets"),
        ("files: { /a: x, /a/b: x }", "`/a` is a file, and the folder of `/a/b`"),
        ("sysctls: { kernel.hostname: x }", "[kernel.hostname] `kernel.hostname` belongs to the whole machine"),
        ("sysctls: { tcp_sack: 0 }", "did you mean `net.ipv4.tcp_sack`?"),
        ("sysctls: { ipv4.ip_forward: 0 }", "did you mean `net.ipv4.ip_forward`?"),
        ("sysctls: { net..x: 0 }", "is not the name of a sysctl of a network"),
        ("sysctls: { net.ipv4.x: 1, net/ipv4/x: 2 }", "is there twice"),
        ("sysctls: { net.ipv4.x: [1] }", "expected text"),
    ] {
        let said = said(&with(setup));
        assert!(said.contains(expected), "{setup}: {said}");
    }
    let of_switch = "nodes: { h1: host, s1: { kind: switch, programs: { a: x } } }\nlinks: [{ between: [h1, s1] }]\n";
    assert!(said(&source(of_switch)).contains("`s1` is a switch: programs run in hosts only"));
    let external = "nodes: { h1: { kind: host, devices: [tap0], sysctls: { net.ipv4.x: 1 } }, h2: host }\nlinks: [{ between: [h1, h2] }]\n";
    assert!(said(&source(external)).contains("behind devices of the machine, and not made"));
    let unknown = "topology: { fat-tree: { k: 4 } }\nhosts: { h77: { programs: { a: x } } }\n";
    assert!(said(&source(unknown)).contains("there is no host `h77`"));
}
