//! Experiments that ask controllers, as processes on this machine.

use crate::program::Desk;
use serde_json::Value;

const FAULTS: &str = "\
controllers: { nodes: 3 }
experiments:
  faults:
    cluster:
      operations: [create, read, update, delete]
      requests: 300
      clients: 6
      at: any
      faults:
        - { at: 500ms, kill: leader }
        - { at: 1500ms, restart: all }
        - { at: 2500ms, pause: leader, for: 700ms }
        - { at: 4s, partition: [[1], [2, 3]], for: 1500ms }
    for: 7s
    expect:
      linearizable: yes
      lost-writes: \"<= 0\"
      failed: \"<= 0\"
";

fn first_record(desk: &Desk, folder: &str) -> Value {
    let samples = desk.read(&format!("{folder}/samples.jsonl"));
    serde_json::from_str(samples.lines().next().expect("a run")).expect("a record a line")
}

#[test]
fn nothing_is_lost_or_contradicts_itself_when_nodes_die_stop_and_are_parted() {
    let desk = Desk::new();
    desk.write("faults.fabric.yaml", FAULTS);
    let (table, _) = desk.expect(0, &["run", "faults.fabric.yaml", "--live", "--quiet"]);
    assert!(table.ends_with("all 3 expectations are met\n"), "{table}");
    let cluster = &first_record(&desk, "results/faults")["cluster"];
    let happened: Vec<&str> = cluster["faults"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let words = ["killed", "restarted", "paused", "goes on", "parted: n1 | n2 n3", "joined again"];
    assert_eq!(happened.len(), words.len(), "{happened:?}");
    assert!(happened.iter().zip(words).all(|(it, word)| it.ends_with(word)), "{happened:?}");
    assert!(cluster["checked"].as_u64().unwrap() > 1_200, "{}", cluster["checked"]);
    // A pause of the leader and a partition cannot go by unnoticed.
    assert!(cluster["unavailable-max-seconds"].as_f64().unwrap() > 0.05);
}

const LATENCIES: &str = "\
controllers: { nodes: 3 }
experiments:
  crud:
    cluster: { requests: 50 }
    vary: { nodes: [1, 3], at: [leader, follower] }
    repeat: 2
    report: [create-min, create-mean, create-max]
    published:
      create-mean: [ { where: { nodes: 3, at: leader }, is: 12.6 ms } ]
    expect: { failed: \"<= 0\", lost-writes: \"<= 0\", linearizable: yes }
  rpc:
    cluster: { operations: [rpc], requests: 50, at: follower }
    expect: { failed: \"<= 0\" }
  election:
    cluster: { operations: [election], requests: 2 }
    vary: { election-timeout: [100ms] }
    expect: { lost-writes: \"<= 0\" }
";

#[test]
fn controllers_are_measured_live_and_simulated() {
    let desk = Desk::new();
    desk.write("crud.fabric.yaml", LATENCIES);
    let (table, _) = desk.expect(0, &["run", "crud.fabric.yaml", "--quiet"]);
    for expected in
        ["published mean (ms)", "12.6", "nodes 3, follower", "simulated", "not simulated: faults, routed RPCs"]
    {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    let record = first_record(&desk, "results/crud");
    let create = &record["cluster"]["operations"][0];
    assert_eq!((create["operation"].as_str(), create["latencies"]["count"].as_u64()), (Some("create"), Some(50)));
    assert_eq!(create["latencies"]["raw-ns"].as_array().unwrap().len(), 50);
    let page = desk.read("results/crud/report.html");
    assert!(page.contains("every create (ms)") && page.contains("controllers"));
    // What was written is read back and shown again.
    let (again, _) = desk.expect(0, &["report", "results/crud"]);
    assert_eq!(again, table);
    // Latencies have no tolerance; what only one driver can run is named.
    let (compared, _) = desk.expect(0, &["compare", "results/crud"]);
    assert!(compared.contains("\nrpc\n  not compared: not simulated: "), "{compared}");
    assert!(compared.contains("create-mean (ms)") && !compared.contains(" NO"), "{compared}");
    assert!(compared.ends_with("\nnothing that was compared has a tolerance\n"), "{compared}");
    let (_, stderr) = desk.expect(2, &["compare", "results/crud", "-e", "rpc"]);
    assert!(stderr.contains("crud: nothing to compare") && stderr.contains("both drivers can run"), "{stderr}");
}
