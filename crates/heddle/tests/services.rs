//! What is said of services: by `path`, `trace`, `ping`, `service`, `show` and `up`.

use serde_json::Value;

use crate::chains::await_that;
use crate::live::{may_run, up};
use crate::program::Desk;

const LINKS: &str = "links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }]\n";

/// A service at two balancers, of which VRRP makes one the active one.
pub const WITH_BALANCERS: &str = "nodes: { h1: host, h2: host, lb1: host, lb2: host, s1: switch }\n\
         links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [lb1, s1] }, { between: [lb2, s1] }]\n\
         services: { web: { address: '10.1.0.80:80', servers: [h2], forward: full-nat, at: [lb1, lb2], vrrp: { router: 51, interval: 10ms } } }\n";

fn network(service: &str) -> String {
    format!("nodes: {{ h1: host, h2: host, h3: host, s1: switch }}\n{LINKS}services: {{ {service} }}\n")
}

fn desk(text: &str) -> Desk {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", text);
    desk
}

/// What is said in lines, in one.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

#[test]
fn a_service_of_one_family_is_found_by_it() {
    let desk = desk(&network("web: { address: '[fd68:6564:646c::80]:80', servers: [h2] }"));
    let (said, _) = desk.expect(0, &["path", "h1", "web", "lab.fabric.yaml"]);
    assert!(said.contains("h1 - s1 - h2\n"), "{said}");
    let both = network("web: { address: '10.1.0.80:80', servers: [h2] }");
    desk.write("lab.fabric.yaml", &both);
    let (_, said) = desk.expect(2, &["path", "h1", "web", "-6", "lab.fabric.yaml"]);
    assert!(said.contains("the service `web` has no such address"), "whoever wants one family gets no other: {said}");
}

#[test]
fn names_that_are_wrong_are_answered_with_those_that_there_are() {
    let desk = desk(&network(
        "web: { address: '10.1.0.80:80', servers: [h2] }, mail: { address: '10.1.0.81:25', servers: [h3] }",
    ));
    for (name, expected) in [
        ("wep", "there is no host and no service `wep` help: did you mean `web`?"),
        ("nobody", "the hosts are `h1` to `h3`; the services are `web`, `mail`"),
        ("s1", "`s1` is a switch: expected a host"),
    ] {
        let (_, said) = desk.expect(2, &["path", "h1", name, "lab.fabric.yaml"]);
        assert!(in_one_line(&said).contains(expected), "{said}");
    }
}

#[test]
fn a_path_says_how_a_scheduler_shares_connections_out() {
    if !may_run() {
        return;
    }
    let file = network(
        "web: { address: '10.1.0.80:80', servers: [{ host: h2, weight: 3 }, h3], scheduler: wrr }, rest: { address: '10.1.0.81:80', servers: [h2, { host: h3, weight: 0 }] }",
    );
    let guard = up(&file);
    let desk = &guard.0;
    let (said, _) = desk.expect(0, &["-n", "lab", "path", "h1", "web"]);
    assert!(
        said.contains("`wrr` chooses one of h2 (75 %), h3 (25 %) for each connection; this is the way to one of them"),
        "{said}"
    );
    let rows: Value = serde_json::from_str(&desk.expect(0, &["path", "h1", "web", "-o", "json"]).0).expect("JSON");
    let candidates = rows["servers"].as_array().expect("rows").iter().filter(|row| row["state"] == "candidate");
    let shares: Vec<&Value> = candidates.map(|row| &row["share"]).collect();
    assert_eq!(shares, [0.75, 0.25]);
    // What is said of a server is how it stands then.
    let service = |words: &[&str]| desk.expect(0, &[&["service"], words].concat()).0;
    assert_eq!(
        service(&["enable", "rest", "h3"]),
        "rest: h3 is enabled, but gets no new connections: its weight is 0 (`heddle service weight`)\n"
    );
    let json: Value = serde_json::from_str(&service(&["drain", "web", "h2", "-o", "json"])).expect("JSON");
    assert_eq!((&json["state"], &json["weight"]), (&"draining".into(), &3.into()));
    service(&["weight", "web", "h3", "7"]);
    // What was said while it runs holds, and the file is not silently otherwise.
    let (_, said) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(
        said.contains("note: web: h2 still drains, as `heddle service` had it (hint: heddle service enable web h2)"),
        "{said}"
    );
    assert!(
        said.contains("note: web: h3 keeps weight 7, the file says 1 (hint: heddle service weight web h3 1)"),
        "{said}"
    );
    assert!(!said.contains("note: rest"), "{said}");
}

#[test]
fn what_comes_of_a_service_without_a_balancer_is_said() {
    if !may_run() {
        return;
    }
    let guard = up(WITH_BALANCERS);
    let desk = &guard.0;
    let roles = || -> Vec<Value> {
        let rows: Value = serde_json::from_str(&desk.expect(0, &["show", "services", "-o", "json"]).0).expect("JSON");
        let of_balancers =
            rows["balancers"].as_array().expect("rows").iter().filter(|row| row["connections"].is_number());
        of_balancers.map(|row| row["state"].clone()).collect()
    };
    await_that("one is active", || roles() == ["active", "backup"]);
    let packet = "tcp,nw_src=10.0.0.1,nw_dst=10.1.0.80,tp_dst=80";
    let (said, _) = desk.expect(0, &["trace", "s1", packet]);
    assert!(said.contains("Done: NORMAL, to lb1 by port 2\n"), "{said}");
    assert!(
        said.contains(
            "It is for the service `web`: from its host it goes to its balancer lb1, and on from there to a server"
        ),
        "{said}"
    );
    desk.expect(0, &["link", "down", "lb1", "s1"]);
    desk.expect(0, &["link", "down", "lb2", "s1"]);
    await_that("both are down", || roles() == ["down", "down"]);
    let nobody = "Nobody takes packets for `web`: no link of its balancers has a carrier (lb1, lb2); ";
    assert!(desk.expect(1, &["path", "h1", "web"]).0.contains(nobody));
    assert!(desk.expect(0, &["trace", "s1", packet]).0.contains(nobody));
    assert!(desk.expect(1, &["ping", "h1", "web", "--count", "1", "--timeout", "100ms"]).1.contains(nobody));
}
