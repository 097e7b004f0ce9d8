//! Names that lead to services, as a user sees them.

use serde_json::Value;

use super::live::{may_run, up};

/// Rows of a site, by its name, as `show names` has them.
fn site(rows: &Value, name: &str) -> Value {
    let found = rows.as_array().and_then(|rows| rows.iter().find(|row| row["site"] == name));
    found.unwrap_or_else(|| panic!("{name} in {rows}")).clone()
}

#[test]
fn a_load_finds_its_servers_by_name_and_the_answers_are_shown() {
    if !may_run() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_heddle");
    let health = "health: { check: http, path: /, interval: 20ms, rise: 1 }";
    let guard = up(&format!(
        "nodes:\n\
         \x20 h1: host\n\
         \x20 h2: {{ kind: host, programs: {{ web: {{ run: &web ['{program}', serve, ':80'] }} }} }}\n\
         \x20 h3: {{ kind: host, programs: {{ web: {{ run: *web }} }} }}\n\
         \x20 s1: switch\n\
         links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}, {{ between: [h3, s1] }}]\n\
         services:\n\
         \x20 east: {{ address: '10.1.0.80:80', servers: [h2], {health} }}\n\
         \x20 west: {{ address: '10.1.0.81:80', servers: [h3], {health} }}\n\
         names:\n\
         \x20 www.example.net:\n\
         \x20   address: 10.0.0.53\n\
         \x20   sites: {{ here: {{ service: east }}, there: {{ service: west, backup: true }} }}\n"
    ));
    let desk = &guard.0;
    let shown =
        || -> Value { serde_json::from_str(&desk.expect(0, &["show", "names", "-o", "json"]).0).expect("JSON") };
    crate::chains::await_that("both sites", || {
        let rows = shown();
        site(&rows, "here")["healthy"] == 1 && site(&rows, "there")["healthy"] == 1
    });
    let asks =
        ["exec", "h1", "--", program, "load", "www.example.net", "--for", "200ms", "--warm-up", "0", "-o", "json"];
    let load = || -> Value { serde_json::from_str(&desk.expect(0, &asks).0).expect("JSON") };
    let measured = load();
    assert!(measured["done"].as_u64() > Some(0) && measured["failed"] == 0, "{measured}");
    let rows = shown();
    let (here, there) = (site(&rows, "here"), site(&rows, "there"));
    assert!(here["answers"].as_u64() > Some(0) && here["share-percent"] == 100.0, "{rows}");
    assert_eq!((&there["answers"], &there["backup"]), (&Value::from(0), &Value::from(true)), "{rows}");
    // A site that is drained gets nobody: its backup does.
    desk.expect(0, &["service", "drain", "east", "h2"]);
    assert_eq!(load()["failed"], 0);
    assert!(site(&shown(), "there")["answers"].as_u64() > Some(0));
    let here = site(&shown(), "here");
    assert_eq!((&here["servers"], &here["drained"]), (&Value::from(0), &Value::from(1)), "{here}");
    let table = desk.expect(0, &["show", "names"]).0;
    assert!(table.lines().any(|line| line.starts_with("www.example.net: ") && line.contains(" answered")), "{table}");
    // Who asks where it leads hears what a client hears, and takes no turn.
    for command in ["path", "ping"] {
        let (_, notes) = desk.expect(0, &[command, "h1", "www.example.net"]);
        let expected = "`www.example.net` leads 10.0.0.1 to the site `there`: the service `west`.";
        assert!(notes.contains(expected), "{command}: {notes}");
    }
    let metrics = desk.expect(0, &["metrics"]).0;
    let labels = "network=\"lab\",name=\"www.example.net\",site=\"there\",service=\"west\"";
    assert!(metrics.contains(&format!("heddle_site_healthy_servers{{{labels}}} 1\n")), "{metrics}");
    desk.expect(0, &["exec", "h1", "--", "grep", "-c", "^nameserver 10.0.0.53$", "/etc/resolv.conf"]);
    let of_file = desk.expect(0, &["show", "names", "lab.fabric.yaml"]).0;
    assert!(of_file.contains("www.example.net") && of_file.contains("10.0.0.53"), "{of_file}");
}
