//! Live against simulated in several files: one table, and the data behind it.

use std::fmt::Write as _;

use serde::Serialize;

use super::drivers::{CSV_HEADINGS, FIGURES, HEADINGS, MostApart, line, notes_of, partings};
use super::table::block;
use crate::grid::{Grid, for_terminal, quoted};
use crate::results::{ComparedExperiment, ComparedMetric, DriverComparison};

/// What several files came to, in their order.
#[derive(Debug, Default, Serialize)]
pub struct Comparisons<'a> {
    files: Vec<ComparedFile<'a>>,
}

/// One of them.
#[derive(Debug, Serialize)]
struct ComparedFile<'a> {
    file: String,
    /// Whether live and simulated lie within all tolerances.
    within: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<DriverComparison<'a>>,
    /// Why there is no comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<'a> Comparisons<'a> {
    /// Adds a file, or the reason why nothing came of it.
    pub fn push(&mut self, file: String, outcome: Result<DriverComparison<'a>, String>) {
        let within = outcome.as_ref().is_ok_and(DriverComparison::passed);
        let (comparison, error) = match outcome {
            Ok(comparison) => (Some(comparison), None),
            Err(error) => (None, Some(error)),
        };
        self.files.push(ComparedFile { file, within, comparison, error });
    }

    /// How many are not within all tolerances, those without a comparison among them.
    pub fn apart(&self) -> usize {
        self.files.iter().filter(|file| !file.within).count()
    }

    /// The comparisons for the terminal that stdout is. Where it is none, nothing is folded: names of files are whole words for other programs.
    pub fn table(&self) -> String {
        for_terminal(u16::MAX, |width| self.table_within(width))
    }

    /// The comparisons in lines of at most `width` columns, as far as their words allow: what has a tolerance, and from when on files part.
    pub fn table_within(&self, width: u16) -> String {
        let mut text = String::new();
        let headings: Vec<&str> = std::iter::once("file").chain(HEADINGS).collect();
        let mut grid = Grid::new(&headings).ruled();
        let mut notes = String::new();
        let mut parted: Option<MostApart> = None;
        for ComparedFile { file, within: _, comparison, error } in &self.files {
            if let Some(error) = error {
                let _ = writeln!(notes, "{file}: {error}");
            }
            let Some(comparison) = comparison else { continue };
            for experiment in &comparison.experiments {
                add_cases(&mut grid, file, experiment);
                for note in notes_of(experiment) {
                    let _ = writeln!(notes, "{file}: {}: {note}", experiment.name);
                }
            }
            if let Some(warning) = &comparison.warning {
                let _ = writeln!(notes, "{file}: {warning}");
            }
            if let Some(of_file) = partings(&comparison.partings) {
                let MostApart { title, headings, rows } = of_file;
                let all = parted.get_or_insert_with(|| MostApart {
                    title,
                    headings: std::iter::once("file".to_owned()).chain(headings).collect(),
                    rows: Vec::new(),
                });
                all.rows.extend(rows.into_iter().map(|row| std::iter::once(file.clone()).chain(row).collect()));
            }
        }
        text.push_str(&grid.render_within(&(FIGURES + 1..headings.len()).collect::<Vec<_>>(), width));
        text.push('\n');
        if let Some(MostApart { title, headings, rows }) = parted {
            let _ = writeln!(text, "{title}");
            let mut grid = Grid::new(&headings);
            for row in rows {
                grid.row(row);
            }
            let figures = MostApart::FIGURES + 1..headings.len();
            text.push_str(&grid.render_within(&figures.collect::<Vec<_>>(), width));
            text.push('\n');
        }
        if !notes.is_empty() {
            let _ = writeln!(text, "{notes}");
        }
        text + &self.closing_line() + "\n"
    }

    fn closing_line(&self) -> String {
        let all = self.files.len();
        format!("{} of {all} {} within tolerance", all - self.apart(), if all == 1 { "file" } else { "files" })
    }

    /// All of it as JSON: each file with its whole comparison.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }

    /// The lines of [`DriverComparison::csv`] with the file before each.
    pub fn csv(&self) -> String {
        let mut text = format!("file,{CSV_HEADINGS}\n");
        for ComparedFile { file, comparison, .. } in &self.files {
            if let Some(comparison) = comparison {
                text.push_str(&comparison.csv_lines(&(quoted(file) + ",")));
            }
        }
        text
    }
}

/// A block a case, with what is judged of it.
fn add_cases(grid: &mut Grid, file: &str, experiment: &ComparedExperiment) {
    for case in &experiment.cases {
        let about = if case.labels.0.is_empty() {
            experiment.name.to_owned()
        } else {
            format!("{}\n{}", experiment.name, case.labels)
        };
        let judged: Vec<&ComparedMetric> = case.metrics.iter().filter(|metric| metric.tolerance.is_some()).collect();
        if judged.is_empty() {
            continue;
        }
        let lines = judged.into_iter().map(|metric| line(experiment, metric).to_vec());
        let mut row = block(about, lines, HEADINGS.len());
        row.insert(0, file.to_owned());
        grid.row(row);
    }
}
