//! The program from outside, where nothing is started: files in, text and exit status out.

use crate::program::Desk;
use serde_json::Value;

/// Small enough to be simulated in a moment.
const SMALL: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 100us, queue: 50 }
experiments:
  spread:
    traffic: { pattern: random, transport: newreno }
    vary: { spread: [single, packet-scatter-random] }
    warm-up: 100ms
    for: 300ms
    repeat: 5
    expect: { goodput-mean: \">= 1 Mbit/s\" }
";

fn desk_with(text: &str) -> Desk {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", text);
    desk
}

#[test]
fn a_new_file_of_each_kind_checks_and_runs() {
    let desk = Desk::new();
    for topology in ["fat-tree", "leaf-spine", "bcube", "explicit"] {
        desk.expect(0, &["new", topology, "--topology", topology]);
        let file = format!("{topology}.fabric.yaml");
        let (stdout, _) = desk.expect(0, &["check", &file]);
        assert!(stdout.contains("hosts"), "{stdout}");
        let (_, stderr) = desk.expect(2, &["new", topology]);
        assert!(stderr.contains("is there already") && stderr.contains("--force"), "{stderr}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_number_of_threads() {
    let desk = desk_with(SMALL);
    let mut samples = Vec::new();
    for (folder, threads, seed) in [("one", "1", "7"), ("two", "2", "7"), ("again", "2", "7"), ("other", "2", "8")] {
        desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--seed", seed, "-j", threads, "--results", folder]);
        samples.push(desk.read(&format!("{folder}/samples.jsonl")));
    }
    assert!(samples[0].lines().count() >= 6);
    assert_eq!(samples[0], samples[1]);
    assert_eq!(samples[0], samples[2]);
    assert_ne!(samples[0], samples[3], "another seed draws other pairs");
}

#[test]
fn a_missed_expectation_is_status_1() {
    let desk = desk_with(&SMALL.replace(">= 1 Mbit/s", ">= 1 Gbit/s"));
    let (stdout, stderr) = desk.expect(1, &["run", "lab.fabric.yaml", "--sim"]);
    assert!(format!("{stdout}{stderr}").contains("MISSED"), "{stdout}{stderr}");
    assert!(desk.read("results/lab/report.html").contains("<svg"));
    let (again, _) = desk.expect(1, &["report", "results/lab"]);
    assert!(again.contains("MISSED"), "{again}");
}

#[test]
fn a_mistake_is_status_2_with_line_and_hint_and_leaves_nothing() {
    let desk = desk_with(&SMALL.replace("queue: 50", "queues: 50"));
    for command in [&["check"][..], &["plan"], &["run", "--sim"], &["up"]] {
        let (_, stderr) = desk.expect(2, &[command, &["lab.fabric.yaml"]].concat());
        assert!(stderr.contains("lab.fabric.yaml:2") && stderr.contains("queues"), "{stderr}");
    }
    assert!(!desk.path().join("results").exists() && !desk.path().join("heddle").exists());
}

#[test]
fn what_is_wrong_with_a_file_comes_as_data() {
    let check = |text: &str, status: i32| -> Value {
        let (stdout, stderr) = desk_with(text).expect(status, &["check", "lab.fabric.yaml", "-o", "json"]);
        assert_eq!(stderr, "", "{stdout}");
        serde_json::from_str(&stdout).expect("JSON")
    };
    let wrong = check(&SMALL.replace("queue: 50", "queues: 50").replace("repeat: 5", "repeat: many"), 2);
    let problems = wrong["problems"].as_array().expect("a list");
    let of = |key: &str| problems.iter().map(|problem| problem[key].clone()).collect::<Vec<_>>();
    assert_eq!((of("line"), of("column")), (vec![2.into(), 9.into()], vec![39.into(), 13.into()]));
    assert_eq!(of("code"), ["unknown-key", "unexpected-value"]);
    assert_eq!(
        (&problems[0]["file"], &problems[0]["hint"]),
        (&"lab.fabric.yaml".into(), &"did you mean `queue`?".into())
    );
    let not_yaml = check("topology:\n\tfat-tree: { k: 4 }\n", 2);
    assert_eq!((&not_yaml["problems"][0]["code"], &not_yaml["problems"][0]["line"]), (&"yaml".into(), &2.into()));
    let right = check(&SMALL.replace("repeat: 5", "repeat: 2"), 0);
    assert_eq!((&right["problems"], &right["links"][0]["spec"]["rate"]), (&serde_json::json!([]), &"100Mbit".into()));
    let notes = right["notes"].as_array().expect("a list");
    let is_of_runs =
        |note: &&Value| note["message"].as_str().is_some_and(|it| it.contains("intervals of 2 runs are wide"));
    let note = notes.iter().find(is_of_runs).expect("there are few");
    assert_eq!((&note["line"], &note["code"]), (&9.into(), &"doubtful".into()), "{note}");
}

#[test]
fn a_new_file_may_be_named_as_a_file() {
    let desk = Desk::new();
    for (name, fabric) in [("lab.fabric.yaml", "lab"), ("other.yaml", "other")] {
        let (_, stderr) = desk.expect(0, &["new", name]);
        assert!(stderr.contains(&format!("Wrote {name}. Next: heddle run {name}")), "{stderr}");
        assert!(desk.read(name).contains(&format!("name: \"{fabric}\"")));
        desk.expect(0, &["check", name]);
    }
}

#[test]
fn the_cause_of_an_error_is_printed_once() {
    let (_, stderr) = Desk::new().expect(2, &["report", "nowhere"]);
    assert_eq!(stderr.matches("No such file").count(), 1, "{stderr}");
}

/// A run of simulated flows alone compares them with nothing.
#[test]
fn flows_without_a_warm_up_are_noted_where_both_clocks_are_meant() {
    let desk = desk_with(&SMALL.replace("    warm-up: 100ms\n", ""));
    let (_, stderr) = desk.expect(0, &["check", "lab.fabric.yaml"]);
    assert!(stderr.contains("lab.fabric.yaml:4: note: live TCP warms up for 1 s, since several"), "{stderr}");
    let (_, stderr) = desk.expect(0, &["run", "lab.fabric.yaml", "--sim"]);
    assert!(!stderr.contains("warms up"), "{stderr}");
}

/// All that was simulated came first, and then the first live run failed.
#[test]
fn a_congestion_control_that_the_kernel_lacks_is_known_before_anything_runs() {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let lacks = |control: &&str| !known.split_whitespace().any(|it| it == *control);
    let Some(missing) = ["dctcp", "bbr"].into_iter().find(lacks) else { return };
    let file = SMALL.replace("transport: newreno", &format!("congestion-control: {missing}"));
    let desk = desk_with(&file);
    for command in [&["plan"][..], &["plan", "--live"], &["run"], &["run", "--live"], &["compare"]] {
        let (_, stderr) = desk.expect(2, &[command, &["lab.fabric.yaml"]].concat());
        let stderr = stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(&format!("this kernel has no congestion control `{missing}`")), "{stderr}");
        assert!(
            stderr.contains("lab.fabric.yaml:4") && stderr.contains(&format!("modprobe tcp_{missing}")),
            "{stderr}"
        );
    }
    assert!(!desk.path().join("results").exists());
    desk.expect(0, &["plan", "lab.fabric.yaml", "--sim"]);
}

/// What few runs say is said at `repeat:`, or where it would stand.
#[test]
fn few_runs_are_noted_at_their_key() {
    let few = SMALL.replace("repeat: 5", "repeat: 2");
    let line = few.lines().position(|line| line.contains("repeat: 2")).expect("it is there") + 1;
    let (_, stderr) = desk_with(&few).expect(0, &["check", "lab.fabric.yaml"]);
    assert!(stderr.contains(&format!("lab.fabric.yaml:{line}: note: 99 % intervals of 2 runs")), "{stderr}");
}

#[test]
fn cases_are_run_until_their_mean_is_known() {
    let desk = desk_with(&SMALL.replace("repeat: 5", "repeat: { until: 60 %, at-most: 40, at-least: 4 }"));
    let (plan, _) = desk.expect(0, &["plan", "lab.fabric.yaml", "--sim"]);
    assert!(plan.contains("run: 8 to 80 runs, 3.2 to 32.0 s simulated\n") && plan.contains("4 to 40"), "{plan}");
    let (table, stderr) = desk.expect(0, &["run", "lab.fabric.yaml", "--sim"]);
    assert!(table.contains("4 to 40 runs of 0.3 s a case") && table.contains(" runs "), "{table}");
    assert!(!format!("{table}{stderr}").contains("did not take place"), "{table}{stderr}");
    let samples = desk.read("results/lab/samples.jsonl").lines().count();
    assert!((8..80).contains(&samples), "{samples}");
    assert!(desk.read("results/lab/report.html").contains("4 to 40 runs"));
}

#[test]
fn a_missing_file_says_how_to_make_one() {
    let (_, stderr) = Desk::new().expect(2, &["check", "nowhere.fabric.yaml"]);
    assert!(stderr.contains("nowhere.fabric.yaml") && stderr.contains("heddle new"), "{stderr}");
}

#[test]
fn data_comes_as_json_and_csv() {
    let desk = desk_with(SMALL);
    let (nodes, _) = desk.expect(0, &["show", "nodes", "lab.fabric.yaml", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&nodes).expect("JSON");
    assert_eq!(nodes.as_array().expect("rows").len(), 8);
    let (links, _) = desk.expect(0, &["show", "links", "lab.fabric.yaml", "-o", "csv"]);
    assert_eq!(links.lines().count(), 1 + 8);
    let (plan, _) = desk.expect(0, &["plan", "lab.fabric.yaml", "--sim", "-o", "json"]);
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!(plan["fabric"]["hosts"], 4);
    let (schema, _) = desk.expect(0, &["schema"]);
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    assert!(schema["$schema"].as_str().expect("a schema").contains("draft-07"));
}

#[test]
fn manual_pages_and_completions() {
    let desk = Desk::new();
    desk.expect(0, &["man", "pages"]);
    assert!(desk.read("pages/heddle.1").contains("EXIT STATUS"));
    assert!(desk.read("pages/heddle-run.1").contains("seed"));
    assert!(desk.read("pages/heddle-compare.1").contains("within tolerance"));
    for shell in ["bash", "zsh", "fish"] {
        let (script, _) = desk.expect(0, &["completions", shell]);
        assert!(script.contains("heddle") && script.contains("HEDDLE_COMPLETE"), "{script}");
    }
}

/// What a shell offers for the last of these words.
pub fn completed(desk: &Desk, words: &[&str]) -> Vec<String> {
    let mut command = desk.command(&[&["--", "heddle"], words].concat());
    command.env("HEDDLE_COMPLETE", "fish");
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    lines.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn words_are_completed() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", SMALL);
    desk.write("notes.txt", "");
    assert_eq!(completed(&desk, &["comp"]), ["compare", "completions"]);
    assert_eq!(completed(&desk, &["show", "nodes", "la"]), ["lab.fabric.yaml"]);
    let offered = completed(&desk, &["show", "nodes", ""]);
    assert!(!offered.iter().any(|word| word == "notes.txt"), "{offered:?}");
    assert!(completed(&desk, &["exec", "h"]).is_empty());
}

#[test]
fn without_a_running_network_the_way_to_one_is_shown() {
    let desk = Desk::new();
    for args in [&["down"][..], &["show", "counters"], &["exec", "h1", "--", "true"]] {
        let (_, stderr) = desk.expect(2, args);
        assert!(stderr.contains("no network is running") && stderr.contains("heddle up"), "{stderr}");
    }
    desk.expect(0, &["clean"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_program_in_peace() {
    let desk = desk_with("topology: { fat-tree: { k: 16 } }\nlinks: { rate: 1Gbit }\n");
    let mut child = desk
        .command(&["show", "links", "lab.fabric.yaml", "-o", "json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_file_without_experiments_has_a_plan() {
    let desk = desk_with("topology: { fat-tree: { k: 4 } }\nlinks: { rate: 1Gbit }\n");
    let (plan, _) = desk.expect(0, &["plan", "lab.fabric.yaml"]);
    assert!(plan.contains("up:  create 36 nodes, 48 links, keep 0\n"), "{plan}");
}

#[test]
fn what_can_not_be_simulated_is_reported_with_its_line() {
    let unshaped = SMALL.replace("links: { rate: 100Mbit, delay: 100us, queue: 50 }\n", "");
    let desk = desk_with(&unshaped);
    let (stdout, stderr) = desk.expect(0, &["check", "lab.fabric.yaml"]);
    assert!(stdout.contains("4 hosts"), "{stdout}");
    assert!(stderr.starts_with("lab.fabric.yaml:3: note: experiment \""), "{stderr}");
    assert!(
        stderr.contains("only links without rate and delay") && stderr.contains("hint: give the links"),
        "{stderr}"
    );
    let (_, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--sim"]);
    assert!(stderr.contains("lab.fabric.yaml:3") && stderr.contains("only links without rate and delay"), "{stderr}");
    // Whole seconds are the same live.
    let whole = SMALL.replace("for: 300ms", "for: 1s").replace("warm-up: 100ms", "warm-up: 1s");
    let (_, silent) = desk_with(&whole).expect(0, &["check", "lab.fabric.yaml"]);
    assert_eq!(silent, "");
}

#[test]
fn a_capture_that_can_not_be_used_is_shown_at_its_line() {
    let desk = desk_with(
        "nodes:\n  h1: host\n  g: { kind: host, devices: ['pcap:no.pcap'] }\n  s1: switch\nlinks:\n  - between: [h1, s1]\n  - between: [g, s1]\n",
    );
    let (_, stderr) = desk.expect(2, &["check", "lab.fabric.yaml"]);
    assert!(stderr.contains("lab.fabric.yaml:3:30") && stderr.contains("no.pcap: it can't be read"), "{stderr}");
    assert!(stderr.contains("relative to the folder of the fabric file"), "{stderr}");
}

/// What hosts cost, as `heddle calibrate` would write it.
const MACHINE: &str = r#"{ "cpu": "any", "hosts": { "cores": 1, "segment-ns": 400000, "datagram-ns": 9000, "byte-ns": 0.5, "wake-up-ns": 20000 } }"#;

#[test]
fn simulated_hosts_cost_what_a_file_says() {
    let desk = desk_with(SMALL);
    desk.write("machine.json", MACHINE);
    let run = |folder: &str, machine: &[&str]| {
        desk.expect(0, &[&["run", "lab.fabric.yaml", "--sim", "--results", folder], machine].concat());
        let samples = desk.read(&format!("{folder}/samples.jsonl"));
        let first: Value = serde_json::from_str(samples.lines().next().unwrap()).unwrap();
        let flows = first["flows"].as_array().unwrap();
        flows.iter().map(|flow| flow["goodput-bps"].as_f64().unwrap()).sum::<f64>()
    };
    let (free, costly) = (run("free", &[]), run("costly", &["--machine", "machine.json"]));
    // A core sends and receives 2,500 segments a second: 29 Mbit/s.
    assert!(costly < 29.5e6 && free > 60e6, "{costly} and {free}");
    assert!(!desk.read("free/machine.json").contains("segment-ns"));
    // What a run was simulated with is written down, and can be used again.
    assert!((run("again", &["--machine", "costly/machine.json"]) - costly).abs() < 1.0);
}

#[test]
fn a_machine_s_file_that_can_not_be_used_says_what_was_expected() {
    let desk = desk_with(SMALL);
    desk.write("empty.json", r#"{ "cores": 2 }"#);
    desk.write("zero.json", &MACHINE.replace(r#""cores": 1"#, r#""cores": 0"#));
    for (file, expected) in [
        ("nowhere.json", "cannot be read"),
        ("lab.fabric.yaml", "line 1"),
        ("empty.json", "expected an object `hosts`"),
        ("zero.json", "`cores` is 0: expected 1 to 4096"),
    ] {
        let (_, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--sim", "--machine", file]);
        for part in [file, expected, "heddle calibrate"] {
            assert!(stderr.contains(part), "{part}: {stderr}");
        }
    }
    let (_, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--live", "--machine", "zero.json"]);
    assert!(stderr.contains("nothing is simulated") && stderr.contains("leave --live"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["calibrate", "lab.fabric.yaml"]);
    assert!(stderr.contains("not overwritten"), "{stderr}");
    assert_eq!(desk.read("lab.fabric.yaml"), SMALL);
    let (_, stderr) = desk.expect(2, &["calibrate", "--rounds", "3"]);
    assert!(stderr.contains("8..=100"), "{stderr}");
}

#[test]
fn a_topology_of_another_tool_becomes_a_file() {
    let desk = Desk::new();
    desk.write("lab.clab.yml", "topology:\n  nodes: { a: { image: alpine }, b: {}, s: { kind: bridge } }\n  links: [{ endpoints: ['a:eth1', 's:e1'] }, { endpoints: ['b:eth1', 's:e2'] }]\n");
    let (_, stderr) = desk.expect(0, &["import", "lab.clab.yml"]);
    assert!(
        stderr.contains("lab.clab.yml:2: left out: images") && stderr.contains("Wrote lab.fabric.yaml"),
        "{stderr}"
    );
    desk.expect(0, &["check", "lab.fabric.yaml"]);
    // Nothing is overwritten unasked.
    let (_, stderr) = desk.expect(2, &["import", "lab.clab.yml"]);
    assert!(stderr.contains("lab.fabric.yaml is there already"), "{stderr}");
    desk.expect(0, &["import", "lab.clab.yml", "--force"]);
    let (stdout, _) = desk.expect(0, &["import", "lab.clab.yml", "-w", "-"]);
    assert_eq!(stdout, desk.read("lab.fabric.yaml"));
    // A file of another tool's is no fabric file, and one that Python would not run makes none.
    for command in ["up", "check", "plan", "run"] {
        let (_, stderr) = desk.expect(2, &[command, "lab.clab.yml"]);
        assert!(stderr.contains("help: `heddle import lab.clab.yml` makes lab.fabric.yaml of it"), "{stderr}");
    }
    desk.write("open.py", "net = Mininet()\na = net.addHost('a'\ns = net.addSwitch('s')\nnet.addLink(a, s)\n");
    let (_, stderr) = desk.expect(2, &["import", "open.py"]);
    assert!(stderr.contains("'(' was never closed") && stderr.contains("[open.py:2:16]"), "{stderr}");
    assert!(stderr.contains("python3 -m py_compile") && !desk.path().join("open.fabric.yaml").exists(), "{stderr}");
    desk.write("none.py", "print('hello')\n");
    let (_, stderr) = desk.expect(2, &["import", "none.py"]);
    assert!(stderr.contains("there is no network in this file") && stderr.contains("addSwitch"), "{stderr}");
}

#[test]
fn a_drawing_is_no_file_of_a_network() {
    let desk = Desk::new();
    desk.expect(0, &["new", "lab"]);
    let (drawn, _) = desk.expect(0, &["graph", "lab.fabric.yaml", "--format", "svg"]);
    desk.write("lab.svg", &drawn);
    desk.write("other.svg", "<?xml version='1.0'?>\n<!-- Inkscape -->\n<svg\n width='1'/>\n");
    for command in ["check", "up", "import"] {
        for file in ["lab.svg", "other.svg"] {
            let (_, stderr) = desk.expect(2, &[command, file]);
            assert!(stderr.contains("this is a drawing (SVG), and no fabric file"), "{command} {file}: {stderr}");
        }
    }
}

#[test]
fn what_can_not_be_read_is_an_answer_as_data_too() {
    let desk = Desk::new();
    let (stdout, _) = desk.expect(2, &["check", "-o", "json", "none.yaml"]);
    let answer: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert!(answer["problems"][0]["message"].as_str().expect("text").contains("cannot read none.yaml"), "{answer}");
    let (_, stderr) = desk.expect(2, &["check", "\u{1b}[31mnone.yaml"]);
    assert!(!stderr.contains('\u{1b}') && stderr.contains("\\u{1b}[31mnone.yaml"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["plan", "--topo", "tree,0"]);
    assert!(stderr.contains("1 │ tree,0") && !stderr.contains("topology:"), "{stderr}");
}

/// A version says its commit, where git knows it.
#[test]
fn a_version_says_its_commit() {
    let (stdout, _) = Desk::new().expect(0, &["--version"]);
    let git = std::process::Command::new("git")
        .args(["log", "-1", "--abbrev=7", "--format=%h, %cs"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let number = env!("CARGO_PKG_VERSION");
    let expected = match git {
        Ok(output) if output.status.success() => {
            format!("heddle {number} ({})\n", String::from_utf8_lossy(&output.stdout).trim_end())
        }
        _ => format!("heddle {number}\n"),
    };
    assert_eq!(stdout, expected);
}

/// Standard output or error that nobody reads any more, or that has no room.
#[test]
fn what_nobody_reads_is_no_failure() {
    use std::fs::File;
    use std::process::Stdio;

    let desk = desk_with(SMALL);
    let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("Linux has it"));
    let gone = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    let run = |arguments: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut program = desk.command(arguments);
        program.stdout(stdout).stderr(stderr).status().expect("it starts").code()
    };
    let simulate: &[&str] = &["run", "lab.fabric.yaml", "--sim", "--overwrite"];
    for stderr in [full, gone] {
        // It has something to say there as well, and goes on.
        assert_eq!(run(&["check", "lab.fabric.yaml"], Stdio::null(), stderr()), Some(0));
        assert_eq!(run(simulate, Stdio::null(), stderr()), Some(0));
        assert_eq!(run(&["check", "nowhere.fabric.yaml"], Stdio::null(), stderr()), Some(2));
        assert_eq!(run(&["no-such-command"], Stdio::null(), stderr()), Some(2));
        assert_eq!(run(&["path", "h1", "h3", "lab.fabric.yaml"], Stdio::null(), stderr()), Some(0));
    }
    for arguments in [&["check", "lab.fabric.yaml"][..], simulate, &["--help"], &["schema"]] {
        assert_eq!(run(arguments, gone(), gone()), Some(0), "{arguments:?}");
    }
    assert_eq!(run(&["schema"], full(), gone()), Some(2), "what was asked for did not come");
}

/// What a file points to is looked at before anything is started: all of it that is missing, each at its line.
#[test]
fn check_looks_at_the_files_that_a_file_names() {
    let desk = Desk::new();
    desk.write("no-image.tar", "text");
    desk.write("bad.csv", "1.0.0.0/24\n");
    desk.write(
        "lab.fabric.yaml",
        "\
nodes:
  h1: { kind: host, image: missing.tar }
  h2: { kind: host, image: no-image.tar }
  h3: { kind: host, files: { /no-such-folder/x: text, /etc/heddle-test: text } }
  h4: { kind: vm, hypervisor: qemu, image: missing.qcow2 }
  h5: { kind: host, image: 'docker://debian:12' }
  s1: switch
links: [{ between: [h1, s1] }, { between: [h2, s1] }, { between: [h3, s1] }, { between: [h4, s1] }, { between: [h5, s1] }]
services:
  a: { address: '10.1.0.80:80', servers: [h2], countries: { file: missing.csv, deny: [XX] } }
  b: { address: '10.1.0.81:80', servers: [h2], countries: { file: bad.csv, deny: [XX] } }
  c: { address: '10.1.0.82:80', servers: [h2], health: { check: https, ca: missing.pem } }
",
    );
    let (said, _) = desk.expect(2, &["check", "lab.fabric.yaml", "-o", "json"]);
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    let problems = said["problems"].as_array().expect("a list");
    let shown: Vec<(u64, &str)> =
        problems.iter().map(|it| (it["line"].as_u64().unwrap_or(0), it["message"].as_str().unwrap_or(""))).collect();
    let expected = [
        (2, "host h1: cannot have the image missing.tar: there is no "),
        (3, "host h2: cannot have the image no-image.tar: "),
        (4, "host h3: cannot have the file /no-such-folder/x: this machine has no folder for it"),
        (5, "the virtual machine `h4` cannot have the image "),
        (10, "countries of a: "),
        (11, "countries of b: "),
        (12, "certificates for the health checks of c: "),
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:?}");
    for ((line, message), (expected_line, begins)) in shown.iter().zip(expected) {
        assert!(*line == expected_line && message.starts_with(begins), "{line}: {message}\n{begins}");
    }
    assert!(problems.iter().all(|it| it["hint"].as_str().is_some_and(|hint| !hint.is_empty())), "{problems:?}");
    // Hosts of a topology stand elsewhere.
    desk.write("topology.fabric.yaml", "topology: { single: { hosts: 2 } }\nhosts:\n  h2: { image: missing.tar }\n");
    let (_, said) = desk.expect(2, &["check", "topology.fabric.yaml"]);
    assert!(said.contains("topology.fabric.yaml:3:9") && said.contains("there is no "), "{said}");
}
