//! `heddle compare` on folders of results: what is in them is made of a simulated run, so that nothing has to be run live.

use serde_json::{Value, json};

use crate::json::hold;
use crate::program::Desk;

const FILE: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 100us, queue: 50 }
experiments:
  a: { traffic: { pattern: stride(2) }, warm-up: 100ms, for: 300ms, repeat: 2 }
  b: { traffic: { pattern: stride(1) }, warm-up: 100ms, for: 300ms }
";

/// The results of a simulated run of `FILE`, in `results/lab`.
fn simulated() -> Desk {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet"]);
    desk
}

/// Makes live runs of the simulated ones, whose goodput is `factor` times theirs in experiment `a`.
fn add_live_runs(desk: &Desk, factor: f64) {
    add_live_runs_in(desk, "results/lab", factor);
}

fn add_live_runs_in(desk: &Desk, folder: &str, factor: f64) {
    let [samples_file, summary_file] = ["samples.jsonl", "summary.json"].map(|file| format!("{folder}/{file}"));
    let mut samples = desk.read(&samples_file);
    let simulated: Vec<Value> =
        samples.lines().map(|line| serde_json::from_str(line).expect("a record a line")).collect();
    let scale = |value: &mut Value, experiment: &Value| {
        let factor = if experiment == "a" { factor } else { 1.0 };
        *value = json!(value.as_f64().expect("a number") * factor);
    };
    for mut record in simulated {
        let experiment = record["experiment"].clone();
        record["driver"] = json!("live");
        for flow in record["flows"].as_array_mut().expect("flows") {
            scale(&mut flow["goodput-bps"], &experiment);
        }
        samples += &record.to_string();
        samples.push('\n');
    }
    desk.write(&samples_file, &samples);
    let mut summary: Value = serde_json::from_str(&desk.read(&summary_file)).expect("JSON");
    summary["drivers"] = json!(["live", "sim"]);
    for experiment in summary["experiments"].as_array_mut().expect("experiments") {
        let name = experiment["name"].clone();
        for cell in experiment["cases"][0]["cells"].as_array_mut().expect("cells") {
            cell["live"] = cell["sim"].clone();
            if cell["metric"] == "goodput-mean" {
                scale(&mut cell["live"]["mean"], &name);
            }
        }
    }
    desk.write(&summary_file, &summary.to_string());
}

#[test]
fn results_within_tolerance_are_status_0_and_others_1() {
    let desk = simulated();
    add_live_runs(&desk, 1.04);
    let (table, stderr) = desk.expect(0, &["compare", "results/lab"]);
    assert!(table.ends_with("\n10 of 10 within tolerance\n") && !table.contains(" NO"), "{table}");
    assert!(table.contains("flows that differ most") && !table.contains("links that differ most"), "{table}");
    assert!(!stderr.contains("Report"), "nothing was written: {stderr}");

    let desk = simulated();
    add_live_runs(&desk, 0.9);
    let (table, _) = desk.expect(1, &["compare", "results/lab"]);
    assert!(table.ends_with("\n9 of 10 within tolerance\n") && table.contains("−10.0 %"), "{table}");
    let (table, _) = desk.expect(0, &["compare", "results/lab", "--experiment", "b"]);
    assert!(table.ends_with("\n5 of 5 within tolerance\n"), "{table}");
    // The report says the same.
    desk.expect(0, &["report", "results/lab"]);
    let page = desk.read("results/lab/report.html");
    assert!(page.contains("Live against simulated") && page.contains("9 of 10 within tolerance"));
}

#[test]
fn the_comparison_comes_as_json_and_csv() {
    let desk = simulated();
    add_live_runs(&desk, 0.9);
    let (text, _) = desk.expect(1, &["compare", "results/lab", "-o", "json"]);
    let comparison: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&comparison["within"], &comparison["judged"]), (&json!(9), &json!(10)));
    let goodput = &comparison["experiments"][0]["cases"][0]["metrics"][0];
    assert_eq!((&goodput["metric"], &goodput["within"]), (&json!("goodput-mean"), &json!(false)));
    assert_eq!(comparison["flows"].as_array().map(Vec::len), Some(4), "those of `a`");
    let (text, _) = desk.expect(1, &["compare", "results/lab", "-o", "csv"]);
    let line = text.lines().find(|line| line.starts_with("a,all,goodput-mean,2,")).expect("a line");
    assert!(line.ends_with(",false"), "{line}");
}

/// The results of `simulated` once more, in another folder, with other live goodput.
fn copied_to(desk: &Desk, folder: &str, factor: f64) {
    std::fs::create_dir_all(desk.path().join(folder)).expect("a folder");
    for file in ["samples.jsonl", "summary.json", "machine.json"] {
        desk.write(&format!("{folder}/{file}"), &simulated_file(desk, file));
    }
    add_live_runs_in(desk, folder, factor);
}

fn simulated_file(desk: &Desk, file: &str) -> String {
    desk.read(&format!("results/lab/{file}"))
}

#[test]
fn several_results_are_one_table() {
    let desk = simulated();
    copied_to(&desk, "near", 1.04);
    copied_to(&desk, "far", 0.9);
    let (table, _) = desk.expect(1, &["compare", "near", "far"]);
    assert!(table.ends_with("\n1 of 2 files within tolerance\n"), "{table}");
    let name = "a-folder-with-a-long-name-of-many-words/that-no-table-shall-break/in-the-middle-of-one-of-them";
    copied_to(&desk, name, 0.9);
    let (long, _) = desk.expect(1, &["compare", "near", name]);
    assert!(long.contains(name), "{long}");
    let judged = table.lines().filter(|line| line.contains("goodput, mean"));
    assert_eq!(judged.clone().count(), 4, "two experiments of two files: {table}");
    assert_eq!(judged.filter(|line| line.contains(" NO")).count(), 1, "{table}");
    // Some may lie apart.
    desk.expect(0, &["compare", "near", "far", "--apart-max", "1"]);
    let (text, _) = desk.expect(1, &["compare", "near", "far", "-o", "json"]);
    hold("heddle compare", &text);
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let within: Vec<&Value> = all["files"].as_array().expect("files").iter().map(|file| &file["within"]).collect();
    assert_eq!(within, [&json!(true), &json!(false)]);
    assert_eq!(all["files"][1]["comparison"]["judged"], json!(10));
    let (text, _) = desk.expect(1, &["compare", "near", "far", "-o", "csv"]);
    let mut lines = text.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("file,experiment,case,metric,")), "{text}");
    assert!(lines.any(|line| line.starts_with("far,a,all,goodput-mean,2,") && line.ends_with(",false")), "{text}");
    let (_, stderr) = desk.expect(2, &["compare", "near", "far", "--seed", "3"]);
    assert!(stderr.contains("nothing is run"), "{stderr}");
    // Of folders that have but one of the two, that is said once, and what is of two folders.
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet", "--results", "simulated"]);
    let (table, stderr) = desk.expect(2, &["compare", "results/lab", "simulated"]);
    assert_eq!((table.as_str(), stderr.matches("nothing to compare").count()), ("", 1), "{stderr}");
    assert!(stderr.contains("`heddle report --compare results/lab simulated`"), "{stderr}");
    // One that cannot be compared is named, and the others are.
    let (table, stderr) = desk.expect(2, &["compare", "near", "results/lab"]);
    assert!(stderr.contains("no case ran both"), "{stderr}");
    assert!(table.contains("results/lab: ") && table.ends_with("\n1 of 2 files within tolerance\n"), "{table}");
}

/// Live runs by themselves, as a call with --live leaves them, made of simulated ones in another folder.
fn make_live_of(desk: &Desk, simulated: &str, live: &str) {
    std::fs::create_dir_all(desk.path().join(live)).expect("it can be made");
    for file in ["samples.jsonl", "summary.json", "machine.json", "fabric.yaml"] {
        let text = desk.read(&format!("{simulated}/{file}"));
        let text =
            if file == "samples.jsonl" { text.replace("\"driver\":\"sim\"", "\"driver\":\"live\"") } else { text };
        desk.write(&format!("{live}/{file}"), &text);
    }
    let summary_file = format!("{live}/summary.json");
    let mut summary: Value = serde_json::from_str(&desk.read(&summary_file)).expect("JSON");
    summary["drivers"] = json!(["live"]);
    for experiment in summary["experiments"].as_array_mut().expect("experiments") {
        for cell in experiment["cases"][0]["cells"].as_array_mut().expect("cells") {
            cell["live"] = cell["sim"].take();
        }
    }
    desk.write(&summary_file, &summary.to_string());
}

#[test]
fn live_and_simulated_results_of_one_file_are_joined() {
    let desk = simulated();
    make_live_of(&desk, "results/lab", "live");
    for folders in [["live", "results/lab"], ["results/lab", "live"]] {
        let (table, _) = desk.expect(0, &["report", "--compare", folders[0], folders[1], "-w", "both.html"]);
        assert!(table.contains("simulated") && table.contains("difference") && !table.contains("apart"), "{table}");
        assert!(desk.read("both.html").contains("simulated"));
        let (text, _) = desk.expect(0, &["report", "--compare", folders[0], folders[1], "-o", "json"]);
        let joined: Value = serde_json::from_str(&text).expect("JSON");
        let cell = &joined["experiments"][0]["cases"][0]["cells"][0];
        assert!(cell["live"]["n"] == cell["sim"]["n"] && cell["difference"]["mean"] == 0.0, "{cell}");
        hold("heddle run", &text);
        hold("heddle compare", &desk.expect(0, &["compare", folders[0], folders[1], "-o", "json"]).0);
        let (judged, _) = desk.expect(0, &["compare", folders[0], folders[1]]);
        assert!(judged.ends_with("10 of 10 within tolerance\n"), "{judged}");
    }
    // Those of another seed do not form pairs, and those of another file are of something else.
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet", "--seed", "77", "--results", "other"]);
    desk.write("lab.fabric.yaml", &FILE.replace("queue: 50", "queue: 60"));
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet", "--results", "changed"]);
    for command in [&["report", "--compare"][..], &["compare"]] {
        for (folder, why, hint) in [
            (
                "other",
                "they have other seeds, 1 and 77, so that their runs are no pairs",
                "run both with the same --seed;",
            ),
            (
                "changed",
                "they are of two files, or of a file that was changed in between",
                "run both from the same file;",
            ),
        ] {
            let (_, stderr) = desk.expect(2, &[command, &["live", folder]].concat());
            let stderr = stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
            assert!(stderr.contains(why) && stderr.contains(hint), "{stderr}");
        }
    }
}

/// One call had fewer cases: nothing was compared, and the reason was not so.
#[test]
fn what_both_calls_have_is_compared_and_the_rest_is_named() {
    let desk = Desk::new();
    let vary = "vary: { window: [3, 6, 12] }, warm-up: 1s, for: 300ms";
    desk.write("lab.fabric.yaml", &FILE.replace("warm-up: 100ms, for: 300ms, repeat: 2", vary));
    let run = |args: &[&str]| {
        desk.expect(0, &[&["run", "lab.fabric.yaml", "--sim", "--quiet"], args].concat());
    };
    run(&[]);
    run(&["--case", "6", "--results", "fewer"]);
    run(&["--case", "12", "--results", "third"]);
    run(&["-e", "b", "--results", "b"]);
    make_live_of(&desk, "fewer", "live");
    for folders in [["live", "results/lab"], ["results/lab", "live"]] {
        let (table, stderr) = desk.expect(0, &["compare", folders[0], folders[1]]);
        assert!(
            table.contains("\n  not compared: window 3; window 12: only simulated runs are there\n"),
            "{table}{stderr}"
        );
        assert!(table.contains("\nb\n  not compared: no case ran both live and simulated\n"), "{table}");
        // Neither is held against another case, though it has another number.
        assert!(table.ends_with("\n5 of 5 within tolerance\n"), "{table}");
        hold("heddle compare", &desk.expect(0, &["compare", folders[0], folders[1], "-o", "json"]).0);
        let (table, _) = desk.expect(0, &["report", "--compare", folders[0], folders[1]]);
        assert!(["3", "6", "12"].iter().all(|window| table.contains(&format!(" window {window} "))), "{table}");
    }
    for folder in ["third", "b"] {
        for command in [&["report", "--compare"][..], &["compare"]] {
            let (_, stderr) = desk.expect(2, &[command, &["live", folder]].concat());
            let stderr = stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
            let (why, hint) = ("but no case is in both", "run both with the same --experiment and --case;");
            assert!(stderr.contains(why) && stderr.contains(hint), "{stderr}");
        }
    }
}

#[test]
fn two_results_stand_side_by_side() {
    let desk = simulated();
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet", "--seed", "9", "--results", "other"]);
    let (table, _) = desk.expect(0, &["report", "--compare", "results/lab", "other", "-w", "both.html"]);
    assert!(table.starts_with("A: results/lab, 20") && table.contains(", seed 9\n"), "{table}");
    assert!(table.contains("B − A") && table.contains("goodput, mean (Mbit/s)"), "{table}");
    assert!(table.contains(" means lie apart by more than chance (99 %)"), "{table}");
    let page = desk.read("both.html");
    assert!(
        page.starts_with("<!doctype html>") && page.contains("results/lab and other") && page.ends_with("</html>\n")
    );
    let (text, _) = desk.expect(0, &["report", "--compare", "results/lab", "results/lab", "-o", "json"]);
    let both: Value = serde_json::from_str(&text).expect("JSON");
    let rows = both["experiments"][0]["rows"].as_array().expect("rows");
    let is_same = |row: &Value| row["difference"]["mean"] == 0.0 && row["difference"]["interval"] == 0.0;
    assert!(
        !rows.is_empty() && rows.iter().all(|row| is_same(row) && row["identical"] == true && row["apart"] == false)
    );
    let (table, _) = desk.expect(0, &["report", "--compare", "results/lab", "results/lab", "-w", "both.html"]);
    for text in [&table, &desk.read("both.html")] {
        assert!(text.contains("identical") && !text.contains("0 % ±") && !text.contains("too few"), "{text}");
    }
    let (text, _) = desk.expect(0, &["report", "--compare", "results/lab", "other", "-o", "csv"]);
    assert!(text.lines().any(|line| line.starts_with("b,all,goodput-mean,sim,1,")), "{text}");
    // What only one has is named; with nothing in common it is an error.
    desk.write("one.fabric.yaml", &FILE.replace("  a:", "  c:").replace("  b:", "  d:"));
    desk.expect(0, &["run", "one.fabric.yaml", "--sim", "--quiet"]);
    let (_, stderr) = desk.expect(2, &["report", "--compare", "results/lab", "results/one"]);
    assert!(stderr.contains("nothing in common"), "{stderr}");
    // A folder without results, or a name of nothing: those that are there are named.
    for wrong in ["results", "lab", "results/nothing"] {
        let (_, stderr) = desk.expect(2, &["report", wrong]);
        let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(&format!("there are no results in {wrong}")), "{stderr}");
        assert!(stderr.contains("`heddle report") && stderr.contains("results/one"), "{stderr}");
    }
    let (_, stderr) = desk.expect(2, &["report", "--compare", "results/lab"]);
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stderr.contains("the second one is") && stderr.contains("--compare results/lab results/one`"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["report", "--compare"]);
    assert!(stderr.contains("both are missing"), "{stderr}");
    // Other durations and numbers of runs are named, and samples that are others than those of the summary.
    desk.write("lab.fabric.yaml", &FILE.replace("for: 300ms, repeat: 2", "for: 400ms, repeat: 3"));
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet", "--results", "longer"]);
    let (table, _) = desk.expect(0, &["report", "--compare", "results/lab", "longer", "-w", "both.html"]);
    for line in ["a: measured for: 0.3 s in A, 0.4 s in B", "a: runs of a case: 2 runs in A, 3 runs in B"] {
        assert!(table.contains(line) && desk.read("both.html").contains(line), "{table}");
    }
    // So are the keys of the files that differ, and cases and drivers that only one has.
    for line in [
        "What differs between the files (A | B):",
        "  experiments.a.for: 300ms | 400ms",
        "  experiments.a.repeat: 2 | 3",
    ] {
        assert!(table.contains(line) && desk.read("both.html").contains(line.trim()), "{table}");
    }
    // `b` has one run, which is the same in both.
    assert!(table.contains("2 runs are too few to tell") && !table.contains("nobody can tell"), "{table}");
    let (text, _) = desk.expect(0, &["report", "--compare", "results/lab", "longer", "-o", "json"]);
    let both: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(both["file"][0], json!({ "key": "experiments.a.for", "a": "300ms", "b": "400ms" }));
    let (table, _) = desk.expect(0, &["report", "--compare", "results/lab", "other"]);
    assert!(table.contains("Both files have the same keys and values"), "{table}");
    desk.write(
        "lab.fabric.yaml",
        &FILE.replace("for: 300ms, repeat: 2", "for: 300ms, repeat: 2, vary: { window: [10, 20] }"),
    );
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet", "--results", "varied"]);
    let (table, _) = desk.expect(0, &["report", "--compare", "results/lab", "varied"]);
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in ["a, all: only in results/lab", "a, window 20: only in varied"] {
        assert!(table.contains(line), "{table}");
    }
    std::fs::remove_file(desk.path().join("varied/fabric.yaml")).expect("it is there");
    let (table, _) = desk.expect(0, &["report", "--compare", "results/lab", "varied"]);
    assert!(table.contains("What differs between the files is not known"), "{table}");
    let samples = desk.read("longer/samples.jsonl");
    for (damaged, reason) in [
        (String::new(), "it has 0 of 3 sim runs of a"),
        (samples.repeat(2), "a run comes twice (a, all, sim, repeat 1)"),
        (samples.replace("\"experiment\":\"b\"", "\"experiment\":\"z\""), "it has a run of no case (z, "),
        ("nonsense\n".to_owned(), "not a file of results"),
    ] {
        desk.write("longer/samples.jsonl", &damaged);
        let (_, stderr) = desk.expect(2, &["report", "--compare", "results/lab", "longer"]);
        let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(reason) && stderr.contains("samples.jsonl"), "{stderr}");
    }
    // The page of one folder goes where it is wanted.
    let before = desk.read("results/lab/report.html");
    let (_, stderr) = desk.expect(0, &["report", "results/lab", "-w", "x.html"]);
    assert!(stderr.contains("Report: x.html"), "{stderr}");
    assert_eq!((desk.read("x.html"), desk.read("results/lab/report.html")), (before.clone(), before));
    let (_, stderr) = desk.expect(2, &["report", "results/lab", "-w", "nowhere/x.html"]);
    assert!(stderr.contains("cannot write nowhere/x.html"), "{stderr}");
    desk.expect(2, &["report"]);
}

#[test]
fn all_files_of_a_folder_are_checked_before_one_runs() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path().join("nets")).expect("a folder");
    desk.write("nets/a.fabric.yaml", FILE);
    desk.write("nets/b.fabric.yaml", &FILE.replace("leaf-spine", "leaf-spin"));
    desk.write("nets/notes.txt", "no fabric");
    let (_, stderr) = desk.expect(2, &["compare", "nets"]);
    assert!(stderr.contains("b.fabric.yaml") && stderr.contains("leaf-spine"), "{stderr}");
    assert!(!desk.path().join("results").exists(), "nothing has run");
    desk.write("nets/b.fabric.yaml", &format!("name: a\n{FILE}"));
    let (_, stderr) = desk.expect(2, &["compare", "nets"]);
    assert!(stderr.contains("the same name, a") && stderr.contains("another `name:`"), "{stderr}");
    desk.write("nets/0.fabric.yaml", "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }\n");
    let (_, stderr) = desk.expect(2, &["compare", "nets", "-e", "none"]);
    assert!(stderr.contains("0.fabric.yaml: left out, it has no experiments"), "{stderr}");
    assert!(stderr.contains("no experiment \"none\""), "{stderr}");
    assert!(!desk.path().join("results").exists(), "nothing has run");
}

#[test]
fn what_can_not_be_compared_is_status_2_with_a_hint() {
    let desk = simulated();
    let (_, stderr) = desk.expect(2, &["compare", "results/lab"]);
    assert!(stderr.contains("no case ran both live and simulated") && stderr.contains("without --sim"), "{stderr}");
    add_live_runs(&desk, 1.0);
    let (_, stderr) = desk.expect(2, &["compare", "results/lab", "-e", "c"]);
    assert!(stderr.contains("\"c\"") && stderr.contains("it has a, b"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["compare", "results/lab", "--seed", "3"]);
    assert!(stderr.contains("--seed") && stderr.contains("nothing is run") && stderr.contains("leave the option"));
    let (_, stderr) = desk.expect(2, &["compare", "results"]);
    assert!(stderr.contains("summary.json") && stderr.contains("heddle run"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["compare", "nowhere.fabric.yaml"]);
    assert!(stderr.contains("nowhere.fabric.yaml") && stderr.contains("heddle new"), "{stderr}");
}
