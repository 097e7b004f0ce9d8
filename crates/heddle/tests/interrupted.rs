//! Runs that were interrupted, and go on.

use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::Desk;

const PATIENCE: Duration = Duration::from_secs(60);

/// Many runs, each of which takes a moment.
const FILE: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 100us, queue: 50 }
experiments:
  a: { traffic: { pattern: stride(2) }, warm-up: 100ms, for: 500ms, repeat: 60 }
";

fn run(desk: &Desk, args: &[&str]) -> Child {
    let all = [&["run", "lab.fabric.yaml", "--quiet"][..], args].concat();
    let mut command = desk.command(&all);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started")
}

/// Waits until so many runs are kept.
fn wait_for(desk: &Desk, runs: usize) {
    let begun = Instant::now();
    loop {
        let journal = std::fs::read_to_string(desk.path().join("results/lab/journal.jsonl")).unwrap_or_default();
        if journal.lines().count() > runs {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{} lines", journal.lines().count());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn interrupted(child: Child, signal: Signal) -> Output {
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
    child.wait_with_output().expect("it ends")
}

#[test]
fn interrupted_runs_are_kept_and_gone_on_with() {
    let (desk, whole) = (Desk::new(), Desk::new());
    for desk in [&desk, &whole] {
        desk.write("lab.fabric.yaml", FILE);
    }
    let child = run(&desk, &["--sim", "-j", "1"]);
    wait_for(&desk, 3);
    let output = interrupted(child, Signal::SIGINT);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("Interrupted: ") && said.contains(" of 60 runs are kept") && said.contains("--resume"),
        "{said}"
    );
    let kept = desk.read("results/lab/samples.jsonl").lines().count();
    assert!((3..60).contains(&kept), "{kept}");
    let page = desk.read("results/lab/report.html");
    assert!(page.contains(&format!("{kept} of 60 runs: the others did not take place")));
    // What is kept is not run again, and the whole is as if nothing had been.
    let (_, said) = desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--resume"]);
    assert!(said.contains(&format!("Going on: {kept} of 60 runs are kept, {} are left", 60 - kept)), "{said}");
    whole.expect(0, &["run", "lab.fabric.yaml", "--quiet", "--sim"]);
    assert_eq!(desk.read("results/lab/samples.jsonl"), whole.read("results/lab/samples.jsonl"));
    assert_eq!(desk.read("results/lab/summary.json"), whole.read("results/lab/summary.json"));
    assert!(!desk.path().join("results/lab/journal.jsonl").exists());
    let (_, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--sim", "--resume"]);
    assert!(stderr.contains("nothing to go on with"), "{stderr}");
    // Those of the other driver are none to go on with.
    let (_, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--live", "--resume"]);
    // Long lines are broken, with a bar before them.
    let stderr = stderr.replace('\u{2502}', "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stderr.contains("its simulated runs are finished"), "{stderr}");
    assert!(stderr.contains("`heddle compare lab.fabric.yaml` runs both"), "{stderr}");
}

/// `timeout` sends a signal to the program, and then to its group.
#[test]
fn two_signals_at_once_are_one() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    let child = run(&desk, &["--sim", "-j", "1"]);
    wait_for(&desk, 3);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let output = interrupted(child, Signal::SIGTERM);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(130) && said.contains(" of 60 runs are kept"), "{said}");
    assert!(desk.read("results/lab/report.html").contains(" of 60 runs"));
}

#[test]
fn another_file_is_not_gone_on_with() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    let child = run(&desk, &["--sim", "-j", "1"]);
    wait_for(&desk, 1);
    assert_eq!(interrupted(child, Signal::SIGTERM).status.code(), Some(130));
    // The same runs have to be asked for.
    for other in [&["--seed", "9"][..], &["-e", "a"]] {
        let (_, stderr) = desk.expect(2, &[&["run", "lab.fabric.yaml", "--sim", "--resume"], other].concat());
        assert!(stderr.contains("were asked for otherwise: --") && stderr.contains("the same command"), "{stderr}");
    }
    desk.write("lab.fabric.yaml", &FILE.replace("100us", "200us"));
    let (_, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--sim", "--resume"]);
    assert!(stderr.contains("not the file any more") && stderr.contains("leave --resume out"), "{stderr}");
    // A plan that makes no sense leaves them alone, too.
    desk.expect(2, &["run", "lab.fabric.yaml", "--sim", "-e", "nobody"]);
    assert!(desk.path().join("results/lab/journal.jsonl").exists());
}

#[test]
fn a_long_simulated_run_ends_soon() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", &FILE.replace("for: 500ms, repeat: 60", "for: 59min"));
    let child = run(&desk, &["--sim"]);
    wait_for(&desk, 0);
    // Nothing is kept, and nobody waits for an hour of simulated time.
    let output = interrupted(child, Signal::SIGINT);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(130) && said.contains("Interrupted: no run had ended"), "{said}");
    assert!(!desk.path().join("results").exists());
    std::fs::create_dir_all(desk.path().join("results/lab")).unwrap();
    let report = || desk.expect(2, &["report", "results/lab"]).1.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = report();
    assert!(
        said.contains("no results in results/lab: nothing was measured there") && !said.contains("--resume"),
        "{said}"
    );
    desk.write("results/lab/journal.jsonl", "");
    assert!(report().contains("`heddle run FILE --resume` goes on"), "{}", report());
}

#[test]
fn earlier_results_stay_beside_the_new_ones() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", &FILE.replace("repeat: 60", "repeat: 1"));
    let run = |more: &[&str]| desk.expect(0, &[&["run", "lab.fabric.yaml", "--quiet", "--sim"], more].concat()).1;
    let folders = || std::fs::read_dir(desk.path().join("results")).unwrap().count();
    assert!(!run(&[]).contains("Earlier"));
    assert!(run(&["--seed", "5"]).contains("Earlier results: results/lab-20"));
    assert_eq!(folders(), 2);
    assert!(!run(&["--overwrite"]).contains("Earlier"));
    assert_eq!(folders(), 2);
    assert!(!desk.read("results/lab/samples.jsonl").is_empty());
}

#[test]
fn a_live_run_ends_soon_and_simulated_ones_are_kept() {
    let desk = Desk::new();
    let file = FILE.replace("for: 500ms, repeat: 60", "for: 10min").replace("100Mbit", "100kbit");
    desk.write("lab.fabric.yaml", &file);
    let child = run(&desk, &[]);
    // The simulated one comes first.
    wait_for(&desk, 1);
    let output = interrupted(child, Signal::SIGTERM);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("1 of 2 runs are kept"), "{said}");
    assert_eq!(desk.read("results/lab/samples.jsonl").lines().count(), 1);
    let (networks, _) = desk.expect(0, &["clean"]);
    assert!(!networks.contains("run-"), "nothing is left: {networks}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_known_before_anything_is_run() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    desk.write("taken", "");
    let (stdout, stderr) = desk.expect(2, &["run", "lab.fabric.yaml", "--sim", "--results", "taken"]);
    assert!(stdout.is_empty() && stderr.contains("writing taken"), "{stdout}{stderr}");
}
