//! The program with real networks. Needs /dev/net/tun, and user namespaces or root.

use std::time::{Duration, Instant};

use crate::program::Desk;
use serde_json::Value;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

const PAIR: &str = "\
nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch }
links:
  - { between: [h1, s1], rate: 20Mbit, delay: 1ms, queue: 50 }
  - { between: [h2, s2], rate: 20Mbit, delay: 1ms, queue: 50 }
  - { between: [h3, s2], rate: 20Mbit, delay: 1ms, queue: 50 }
  - { between: [s1, s2], rate: 20Mbit, delay: 1ms, queue: 50 }
experiments:
  pair:
    traffic: { pattern: { pairs: [[h1, h2]] } }
    warm-up: 1s
    for: 2s
    expect: { goodput-sum: \">= 1 kbit/s\" }
";

/// Whether this machine lets us: if not, the test says so loudly and does nothing. CI must not skip.
pub fn may_run() -> bool {
    let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok();
    let programs = ["iperf3", "ping", "ip"].iter().all(|program| {
        std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path)
                .chain(["/usr/sbin".into(), "/sbin".into()])
                .any(|folder| folder.join(program).exists())
        })
    });
    let may = tun && programs;
    assert!(may || std::env::var_os("CI").is_none(), "CI must be able to run live: see scripts/setup.sh");
    if !may {
        eprintln!("SKIPPED: no access to /dev/net/tun, or no iperf3, ping or ip; scripts/setup.sh says what to do");
    }
    may
}

/// Takes its networks down even if the test fails.
pub struct Guard(pub Desk);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.heddle(&["down", "--all"]);
    }
}

/// A network of this file, `lab`, which is stopped with its guard.
pub fn up(text: &str) -> Guard {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", text);
    let guard = Guard(desk);
    guard.0.expect(0, &["up", "lab.fabric.yaml"]);
    guard
}

#[test]
fn up_exec_show_change_down() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write("pair.fabric.yaml", PAIR);
    desk.expect(0, &["up", "pair.fabric.yaml"]);
    // Four links of 1 ms, twice.
    let (ping, _) = desk.expect(0, &["exec", "h1", "--", "ping", "-c", "3", "-i", "0.1", "-W", "60", "h2"]);
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    let (hostname, _) = desk.expect(0, &["exec", "h2", "--", "hostname"]);
    assert_eq!(hostname.trim(), "h2");
    let (counters, _) = desk.expect(0, &["show", "counters", "-o", "json"]);
    let counters: Value = serde_json::from_str(&counters).expect("JSON");
    assert!(counters[0]["packets"].as_u64().expect("a count") >= 3, "{counters}");
    let (flows, _) = desk.expect(0, &["show", "routes", "-o", "csv"]);
    assert_eq!(flows.lines().count(), 1 + 2 * 3, "one entry a switch and host: {flows}");
    assert!(flows.lines().any(|line| line.starts_with("s1,h2,") && !line.ends_with(",0")), "{flows}");
    let (same, _) = desk.expect(0, &["up", "pair.fabric.yaml"]);
    assert!(same.contains("nothing to change"), "{same}");
    desk.write("pair.fabric.yaml", &PAIR.replacen("delay: 1ms", "delay: 5ms", 1));
    let (plan, _) = desk.expect(0, &["plan", "pair.fabric.yaml"]);
    assert!(plan.contains("change link h1"), "{plan}");
    let (changed, _) = desk.expect(0, &["up", "pair.fabric.yaml"]);
    assert!(changed.contains("changed"), "{changed}");
    let (links, _) = desk.expect(0, &["show", "links", "-o", "csv"]);
    assert!(links.contains(",5000000,"), "{links}");
    let (down, _) = desk.expect(0, &["link", "down", "s1", "s2"]);
    assert_eq!(down, "s1-s2 is down\n");
    let (again, _) = desk.expect(0, &["link", "down", "s2", "s1"]);
    assert_eq!(again, "s1-s2 is down already\n");
    let (links, _) = desk.expect(0, &["show", "links", "-o", "csv"]);
    assert_eq!(links.lines().filter(|line| line.ends_with(",down")).count(), 1, "{links}");
    desk.expect(1, &["exec", "h1", "--", "ping", "-c", "1", "-W", "1", "h2"]);
    desk.expect(0, &["link", "up", "s1", "s2", "1"]);
    desk.expect(0, &["exec", "h1", "--", "ping", "-c", "1", "-W", "60", "h2"]);
    let (_, stderr) = desk.expect(2, &["link", "down", "h1", "s2"]);
    assert!(stderr.contains("no link between `h1` and `s2`") && stderr.contains("linked to `s1`"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["link", "down", "h1", "s1", "2"]);
    assert!(stderr.contains("one link"), "{stderr}");
    desk.expect(0, &["down"]);
    desk.expect(2, &["exec", "h1", "--", "true"]);
}

#[test]
fn servers_of_a_bcube_are_shown_and_go_on_without_a_cable() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write("cube.fabric.yaml", "topology: { bcube: { n: 2, k: 1 } }\n");
    let (nodes, _) = desk.expect(0, &["show", "nodes", "cube.fabric.yaml", "-o", "csv"]);
    assert!(nodes.lines().any(|line| line.starts_with("h4,forwarding host,")), "{nodes}");
    desk.expect(0, &["up", "cube.fabric.yaml"]);
    let ping = |to| desk.expect(0, &["exec", "h1", "--", "ping", "-c", "2", "-i", "0.1", "-W", "60", to]);
    ping("h2");
    desk.expect(0, &["link", "down", "h1", "s0.1"]);
    ping("h2");
    // The way is through h3, h4 and no other.
    let (flows, _) = desk.expect(0, &["show", "routes", "-o", "csv"]);
    assert_eq!(flows.lines().count(), 1 + 4 * 4 + 4 * 3, "four switches, and one in each server: {flows}");
    for start in ["h1,h2,1,", "h3,h2,0,", "h4,h2,1,"] {
        assert!(flows.lines().any(|line| line.starts_with(start) && !line.ends_with(",0")), "{start}: {flows}");
    }
    desk.expect(0, &["down"]);
}

#[test]
fn a_program_s_exit_status_is_that_of_exec() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write("pair.fabric.yaml", PAIR);
    desk.expect(0, &["up", "pair.fabric.yaml"]);
    desk.expect(7, &["exec", "h1", "--", "sh", "-c", "exit 7"]);
    desk.expect(127, &["exec", "h1", "--", "no-such-program"]);
    let (_, stderr) = desk.expect(2, &["exec", "h9", "--", "true"]);
    assert!(stderr.contains("h9"), "{stderr}");
}

/// The same small case by both clocks. How fast it is live is the machine's (benches/links.sh); simulated it fills its 20 Mbit/s.
#[test]
fn a_case_runs_live_and_simulated() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    desk.write("pair.fabric.yaml", PAIR);
    desk.expect(0, &["run", "pair.fabric.yaml", "--quiet"]);
    let goodput = |driver: &str| {
        let samples = desk.read("results/pair/samples.jsonl");
        let record = samples
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .find(|record| record["driver"] == driver)
            .unwrap_or_else(|| panic!("no {driver} record in {samples}"));
        record["flows"][0]["goodput-bps"].as_f64().expect("a number")
    };
    let (live, sim) = (goodput("live"), goodput("sim"));
    assert!(live > 0.0 && sim > 18e6, "live {live}, simulated {sim}");
    let report = desk.read("results/pair/report.html");
    assert!(report.contains("Live against simulated"));
    // How far they lie apart is the machine's, too.
    for from in ["results/pair", "pair.fabric.yaml"] {
        let output = desk.heddle(&["compare", from, "--quiet", "-e", "pair"]);
        let table = String::from_utf8(output.stdout).expect("UTF-8");
        let held = table.ends_with("\n6 of 6 within tolerance\n");
        assert!(table.ends_with(" of 6 within tolerance\n"), "{from}: {table}");
        assert_eq!(output.status.code(), Some(i32::from(!held)), "{from}: {table}");
    }
}

/// A bond's member is pulled while datagrams pass: simulated, hardly any is lost. Live, nothing more is sent to it.
#[test]
fn a_lost_member_costs_next_to_nothing() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let file = "\
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 100Mbit, delay: 100us, queue: 20 }
links: [{ between: [h1, s1] }, { between: [h2, s1] }]
bonds: [{ host: h1, members: 2 }]
experiments:
  failover:
    traffic:
      pattern: { pairs: [[h1, h2]] }
      transport: udp
      rate: 1 kpps
      segment: 200B
      faults: [ { at: 300ms, down: [h1, s1, 1] } ]
    vary: { mode: [balance-rr, active-backup] }
    warm-up: 200ms
    for: 800ms
    expect: { lost: \"<= 2\", duplicates: \"<= 0\" }
";
    desk.write("failover.fabric.yaml", file);
    let (table, _) = desk.expect(0, &["run", "failover.fabric.yaml", "--quiet", "--sim"]);
    assert!(table.contains("all 4 expectations are met"), "{table}");
    // Live, how many are lost is a matter of how busy the machine is.
    desk.write("failover.fabric.yaml", &file.replace("lost: \"<= 2\", ", ""));
    let (table, _) = desk.expect(0, &["run", "failover.fabric.yaml", "--quiet"]);
    assert!(table.contains("all 4 expectations are met"), "{table}");
    let samples = desk.read("results/failover/samples.jsonl");
    let mut drivers: Vec<String> = Vec::new();
    for line in samples.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let datagrams = &record["flows"][0]["datagrams"];
        assert_eq!(datagrams["sent"], 800, "{record}");
        assert!(datagrams["longest-gap-ps"].as_u64().expect("a number of picoseconds") > 0, "{record}");
        // What was in the member's queue and on its cable; were the member not left, it would be 250 at least.
        let cut: u64 = record["links"].as_array().expect("rows").iter().filter_map(|link| link["cut"].as_u64()).sum();
        assert!(cut <= 20 + 10, "{cut} were cut: {record}");
        drivers.push(record["driver"].as_str().expect("a driver").to_owned());
    }
    drivers.sort();
    assert_eq!(drivers, ["live", "live", "sim", "sim"]);
}

/// Live and simulated connections begin at the same moments, and all of them end.
#[test]
fn connections_come_and_go() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let file = "\
nodes: { h1: host, h2: host, h3: host, s1: switch }
link-defaults: { rate: 20Mbit, delay: 200us, queue: 100 }
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }]
experiments:
  short:
    traffic:
      pattern: { pairs: [[h1, h2], [h2, h3]] }
      transfers: { size: 20kB, every: 20ms }
    vary: { transport: [linux, reno] }
    warm-up: 200ms
    for: 600ms
    expect: { unfinished: \"<= 0\", completion-mean: \">= 8 ms\", completion-max: \"<= 5.6 s\" }
";
    desk.write("short.fabric.yaml", file);
    let (table, _) = desk.expect(0, &["run", "short.fabric.yaml", "--quiet"]);
    assert!(table.contains("all 12 expectations are met"), "{table}");
    let samples = desk.read("results/short/samples.jsonl");
    let started: Vec<Vec<u64>> = (samples.lines())
        .map(|line| {
            let record: Value = serde_json::from_str(line).expect("JSON");
            let pair = |flow: &Value| {
                let (came, pair) = (&flow["transfers"], flow["transfers"]["times-ns"].as_array().expect("times").len());
                assert_eq!((came["started"].as_u64(), came["unfinished"].as_u64()), (Some(pair as u64), Some(0)));
                // 20 kB take 8 ms on a link of 20 Mbit/s.
                assert!(came["times-ns"].as_array().expect("times").iter().all(|ns| ns.as_u64() > Some(8_000_000)));
                pair as u64
            };
            record["flows"].as_array().expect("pairs").iter().map(pair).collect()
        })
        .collect();
    assert_eq!(started.len(), 4);
    assert!(started.iter().all(|run| *run == started[0] && run.iter().all(|pair| *pair > 10)), "{started:?}");
    // How far times lie apart is the machine's.
    let table = String::from_utf8(desk.heddle(&["compare", "results/short", "--quiet"]).stdout).expect("UTF-8");
    assert!(table.contains("transfers live and") && table.contains("(Mann-Whitney)"), "{table}");
}

/// A folder of fabric files is compared by one command; sizes of transfers are drawn for both drivers alike.
#[test]
fn a_folder_of_files_is_compared() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    std::fs::create_dir(desk.path().join("nets")).expect("a folder");
    let file = |size: &str| {
        format!(
            "\
nodes: {{ h1: host, h2: host, s1: switch }}
link-defaults: {{ rate: 20Mbit, delay: 1ms, queue: 100 }}
links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]
experiments:
  mix:
    traffic: {{ pattern: {{ pairs: [[h1, h2]] }}, transfers: {{ size: {size}, every: 20ms }} }}
    warm-up: 200ms
    for: 600ms
"
        )
    };
    desk.write("nets/drawn.fabric.yaml", &file("{ cdf: [[1B, 0.3], [20kB, 0.9], [120kB, 1]] }"));
    desk.write("nets/fixed.fabric.yaml", &file("20kB"));
    // How far both lie apart is the machine's.
    let output = desk.heddle(&["compare", "nets", "--quiet", "--apart-max", "2"]);
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{table}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        table.contains("nets/drawn.fabric.yaml: mix: completion times of ") && table.contains(" of 2 files within")
    );
    let samples = desk.read("results/drawn/samples.jsonl");
    let sizes = |line: &str| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let came = &record["flows"][0]["transfers"];
        assert_eq!(came["unfinished"], 0, "{record}");
        came["sizes-bytes"].as_array().expect("sizes").clone()
    };
    let runs: Vec<Vec<Value>> = samples.lines().map(sizes).collect();
    assert!(runs.len() == 2 && runs[0] == runs[1] && runs[0].iter().any(|size| *size != runs[0][0]), "{runs:?}");
    assert!(!desk.path().join("results/drawn/journal.jsonl").exists(), "nothing is left to go on with");
    assert!(desk.path().join("results/fixed/report.html").exists());
}

/// Two switches with a bond of two links between them.
const AGREED: &str = "\
name: agreed
nodes: { h1: host, h2: host, s1: switch, s2: switch }
link-defaults: { rate: 100Mbit, delay: 50us, queue: 100 }
links: [{ between: [h1, s1] }, { between: [h2, s2] }, { between: [s1, s2] }]
bonds: [{ between: [s1, s2], members: 2, mode: 802.3ad }]
";

#[test]
fn up_returns_when_the_first_packet_passes() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write("agreed.fabric.yaml", AGREED);
    let ping = ["exec", "h1", "--", "ping", "-c", "1", "-W", "60", "h2"];
    // A busy machine may take longer than `up` waits.
    let up = || {
        let (started, args) = (Instant::now(), ["up", "agreed.fabric.yaml"]);
        while let (_, stderr) = desk.expect(0, &args)
            && stderr.contains("converge")
        {
            assert!(started.elapsed() < PATIENCE, "{stderr}");
        }
    };
    up();
    desk.expect(0, &ping);
    // The mode changes while the network runs: both ends have to agree anew.
    desk.write("agreed.fabric.yaml", &AGREED.replace("802.3ad", "balance-rr"));
    up();
    desk.write("agreed.fabric.yaml", AGREED);
    up();
    desk.expect(0, &ping);
}

/// A bond with whatever is behind two devices of the machine.
const SILENT: &str = "\
name: silent
nodes: { h1: host, guest: { kind: host, devices: [tap0, tap1] }, s1: switch }
links: [{ between: [h1, s1] }, { between: [guest, s1] }, { between: [guest, s1] }]
bonds: [{ host: guest, mode: 802.3ad }]
";

/// Nobody is behind the guest's devices.
#[test]
fn a_bond_without_partner_holds_up_for_seconds_and_is_warned_of() {
    if !may_run() {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: devices of the machine are for root");
    }
    // What this thread starts is in its network namespace.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
    for n in 0..2 {
        let pair =
            format!("ip link add tap{n} type veth peer name far{n} && ip link set tap{n} up && ip link set far{n} up");
        let status = std::process::Command::new("sh").args(["-c", &pair]).status().expect("sh runs");
        assert!(status.success(), "{pair}");
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write("silent.fabric.yaml", SILENT);
    let started = Instant::now();
    let (stdout, stderr) = desk.expect(0, &["up", "silent.fabric.yaml"]);
    assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(stdout.contains("silent is up"), "{stdout}");
    for part in ["bond0 of s1", "no LACPDU", "heddle show bonds"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    desk.expect(0, &["down"]);
    let (_, stderr) = desk.expect(0, &["up", "--no-wait", "silent.fabric.yaml"]);
    assert!(!stderr.contains("bond0"), "{stderr}");
}

/// Each run changes the bond's mode, and none is warmed up for as long as LACP needs.
#[test]
fn a_run_begins_when_bonds_have_converged() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let experiment = "\
experiments:
  early:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: udp, rate: 1 kpps, segment: 200B }
    vary: { mode: [balance-rr, 802.3ad] }
    warm-up: 10ms
    for: 200ms
    repeat: 2
    expect: { lost: \"<= 0\" }
";
    // A queue for all that is sent: a machine that is busy for a moment loses nothing.
    desk.write("agreed.fabric.yaml", &format!("{AGREED}{experiment}").replace("queue: 100", "queue: 1000"));
    let started = Instant::now();
    loop {
        let output = desk.heddle(&["run", "agreed.fabric.yaml", "--live", "--quiet"]);
        let [table, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
        if table.contains("all 2 expectations are met") {
            break;
        }
        // Those that a busy machine did not let converge are named.
        assert!(said.contains("WARN") && started.elapsed() < PATIENCE, "{table}{said}");
    }
    assert_eq!(desk.read("results/agreed/samples.jsonl").lines().count(), 4);
}

/// However busy the machine is: what all flows bring together is no more than the link carries to their host in the window of all of them. By the programs'
/// own windows it often was, and always where they offer more than that link carries: what waited in its queue came later.
#[test]
fn flows_together_bring_no_more_than_their_link_carries() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let file = "\
name: neck
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch }
link-defaults: { delay: 50us, queue: 1000 }
links:
  - { between: [h1, s1], rate: 100Mbit }
  - { between: [h2, s1], rate: 100Mbit }
  - { between: [h3, s1], rate: 100Mbit }
  - { between: [h4, s1], rate: 20Mbit }
experiments:
  tcp: { traffic: { pattern: incast(3), transport: sack, streams: 2 }, warm-up: 1s, for: 1s }
  messages: { traffic: { pattern: incast(3), transport: udp, streams: 2 }, warm-up: 200ms, for: 500ms }
  pace: { traffic: { pattern: incast(3), transport: udp, rate: 1 kpps }, warm-up: 100ms, for: 500ms }
";
    let file = file.replace("incast(3)", "{ pairs: [[h1, h4], [h2, h4], [h3, h4]] }");
    desk.write("neck.fabric.yaml", &file);
    desk.expect(0, &["run", "neck.fabric.yaml", "--live", "--quiet"]);
    let samples = desk.read("results/neck/samples.jsonl");
    assert_eq!(samples.lines().count(), 3, "{samples}");
    for line in samples.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number: {record}"));
        let flows = record["flows"].as_array().expect("rows");
        assert!(flows.iter().all(|flow| number(&flow["program-goodput-bps"]) >= 0.0), "{record}");
        let sum: f64 = flows.iter().map(|flow| number(&flow["goodput-bps"])).sum();
        let seconds = number(&record["seconds"]);
        // Frames of 1,514 bytes with at most 1,480 of payload, and one more for each end of the window. Of messages, one from each host may have
        // come in parts before. A worker that had no CPU hands over later what came out of the link before, and its counters are read later.
        let parts = if record["experiment"] == "messages" { 3.0 * 16_060.0 } else { 0.0 };
        let late = number(&record["late-max-us"]) / 1e6;
        let most = 20e6 / 8.0 * (seconds + late) * 1_480.0 / 1_514.0 + 2.0 * 1_480.0 + parts;
        assert!(sum > 0.0 && sum / 8.0 * seconds <= most, "{sum} bit/s for {seconds} s, {most} bytes: {record}");
    }
}

/// UDP as fast as it goes, in long messages whose fragments are coalesced before the host gets them: simulated as much as the links carry and
/// no more. Live, it comes; how much a second is the machine's (benches/links.sh).
#[test]
fn udp_goes_as_fast_as_its_links() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let file = "\
name: full
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 50Mbit, delay: 20us, overhead: 24B }
links: [ { between: [h1, s1] }, { between: [h2, s1] } ]
bonds: [ { host: h1, members: 2, mode: balance-rr }, { host: h2, members: 2, mode: balance-rr } ]
experiments:
  full:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: udp, segment: 1460B, header: 35B }
    vary: { reorder: [off, on], streams: [1, 5] }
    warm-up: 300ms
    for: 700ms
    # 96.1 Mbit/s are what two links carry.
    expect: { goodput-sum: [ { is: \"<= 97.5 Mbit/s\" }, { is: \">= 90 Mbit/s\" } ] }
";
    desk.write("full.fabric.yaml", file);
    let (table, _) = desk.expect(0, &["run", "full.fabric.yaml", "--quiet", "--sim"]);
    assert!(table.contains("all 8 expectations are met"), "{table}");
    let (before, _) = file.split_once("    # 96.1").expect("it is there");
    desk.write("full.fabric.yaml", &format!("{before}    expect: {{ goodput-sum: \">= 1 kbit/s\" }}\n"));
    let (table, _) = desk.expect(0, &["run", "full.fabric.yaml", "--quiet", "--live"]);
    assert!(table.contains("all 4 expectations are met"), "{table}");
}

/// A thousand datagrams over two links that each lose a tenth, live and simulated.
#[test]
fn links_lose_packets_at_random_live_and_simulated() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let file = "\
name: lossy
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 50Mbit, delay: 2ms, jitter: 1ms, loss: 10% }
links: [ { between: [h1, s1] }, { between: [h2, s1] } ]
experiments:
  lossy:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: udp, rate: 500 pps }
    for: 2s
    # 190 are lost on the mean, with a deviation of 12.
    expect: { lost: [ { is: \">= 110\" }, { is: \"<= 290\" } ], link-losses: \">= 110\", drops: \"<= 0\" }
";
    desk.write("lossy.fabric.yaml", file);
    let (table, _) = desk.expect(0, &["run", "lossy.fabric.yaml", "--quiet"]);
    assert!(table.contains("all 8 expectations are met"), "{table}");
}

/// A thousand datagrams over a link that does to a tenth of them whatever a link may do, live and simulated. What is corrupted, receivers find out and drop.
#[test]
fn links_duplicate_corrupt_and_reorder_packets_live_and_simulated() {
    if !may_run() {
        return;
    }
    let desk = Desk::new();
    let file = "\
name: bad
nodes: { h1: host, h2: host, s1: switch }
links:
  - { between: [h1, s1], rate: 50Mbit, delay: 8ms, duplicate: 10%, corrupt: 10%, reorder: 10% }
  - { between: [h2, s1], rate: 50Mbit }
experiments:
  bad:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: udp, rate: 500 pps }
    for: 2s
    # Each is done to 100 on the mean, with a deviation of 10. What overtakes comes three places too early.
    expect:
      link-duplicates: [ { is: \">= 60\" }, { is: \"<= 160\" } ]
      link-corruptions: \">= 60\"
      link-overtakes: \">= 60\"
      lost: [ { is: \">= 60\" }, { is: \"<= 180\" } ]
      reordered: \">= 100\"
      drops: \"<= 0\"
";
    desk.write("bad.fabric.yaml", file);
    let (table, _) = desk.expect(0, &["run", "bad.fabric.yaml", "--quiet"]);
    assert!(table.contains("all 16 expectations are met"), "{table}");
    desk.write("vain.fabric.yaml", &file.replace(", delay: 8ms", ""));
    let (_, stderr) = desk.expect(2, &["check", "vain.fabric.yaml"]);
    assert!(stderr.contains("a reorder without a delay"), "{stderr}");
}

#[test]
fn who_names_no_host_or_no_network_sees_which_there_are() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write("pair.fabric.yaml", PAIR);
    desk.expect(0, &["up", "pair.fabric.yaml"]);
    let (_, stderr) = desk.expect(2, &["exec", "h33", "--", "true"]);
    assert!(stderr.contains("`h33` is not a host") && stderr.contains("did you mean `h3`?"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["exec", "web", "--", "true"]);
    assert!(stderr.contains("the hosts are `h1` to `h3`"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["exec", "s2", "--", "true"]);
    assert!(stderr.contains("`s2` is a switch") && stderr.contains("`heddle exec h2 -- ..`"), "{stderr}");
    let (flows, _) = desk.expect(0, &["show", "routes", "-o", "csv"]);
    assert!(flows.starts_with("node,to,ports,packets\n"), "{flows}");
    desk.expect(0, &["up", "pair.fabric.yaml", "--name", "other"]);
    for (args, how) in [
        (&["exec", "h1", "--", "true"][..], "`heddle exec -n other h1 -- true`"),
        (&["show", "nodes"], "`heddle show -n other nodes`"),
        (&["link", "down", "s1", "s2"], "`heddle link -n other down s1 s2`"),
        (&["down"], "heddle down --all"),
    ] {
        let (_, stderr) = desk.expect(2, args);
        assert!(stderr.contains("other, pair") && stderr.contains(how), "{stderr}");
    }
    desk.expect(0, &["down", "--all"]);
}

#[test]
fn a_capture_that_is_played_no_further_is_shown_with_its_host() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    // A pcap file's header; a packet's header, which promises 60 bytes; and eight of them.
    let words = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, 60, 60, 0, 0];
    std::fs::write(desk.path().join("in.pcap"), words.map(u32::to_le_bytes).concat()).expect("the file can be written");
    desk.write(
        "cut.fabric.yaml",
        "nodes:\n  h1: host\n  g: { kind: host, devices: ['pcap:in.pcap'] }\n  s1: switch\nlinks:\n  - between: [h1, s1]\n  - between: [g, s1]\n",
    );
    desk.expect(0, &["up", "cut.fabric.yaml"]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (counters, _) = desk.expect(0, &["show", "counters", "-o", "csv"]);
        if counters.contains("in.pcap is played no further, after 0 packets: it is cut off") {
            break;
        }
        assert!(Instant::now() < deadline, "{counters}");
        std::thread::sleep(Duration::from_millis(20));
    }
    desk.expect(0, &["down"]);
}

#[test]
fn a_limit_of_files_costs_a_recording_its_end_and_not_the_network() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    desk.write(
        "limit.fabric.yaml",
        "nodes:\n  h1: host\n  g: { kind: host, mac: '02:00:00:00:00:77', ipv4: 10.0.0.77, devices: ['pcap:tx=out.pcap'] }\n  s1: switch\nlinks:\n  - between: [h1, s1]\n  - between: [g, s1]\n",
    );
    let plain = desk.command(&["up", "limit.fabric.yaml"]);
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(desk.path());
    assert!(limited.status().expect("bash is there").success());
    let flood = "ip neigh replace 10.0.0.77 lladdr 02:00:00:00:00:77 dev eth0; ping -q -s 1400 -c 200 -i 0.002 -W 1 10.0.0.77; true";
    desk.expect(0, &["exec", "h1", "--", "sh", "-c", flood]);
    // It records 290 KiB, or until the limit.
    let deadline = Instant::now() + PATIENCE;
    while std::fs::metadata(desk.path().join("out.pcap")).expect("it records").len() < 90 << 10 {
        assert!(Instant::now() < deadline, "it does not come to the limit");
        std::thread::sleep(Duration::from_millis(20));
    }
    desk.expect(0, &["show", "counters"]);
    let recorded = std::fs::metadata(desk.path().join("out.pcap")).expect("it is there").len();
    assert!(recorded <= 100 << 10, "{recorded}");
    desk.expect(0, &["down"]);
}
