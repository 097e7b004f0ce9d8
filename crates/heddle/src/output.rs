//! Rows of data as a table, JSON or CSV.

use std::fmt;
use std::io::{ErrorKind, IsTerminal as _, Write};

use miette::{Context, IntoDiagnostic, Report};
use serde::Serialize;
use serde_json::Value;

use crate::cli::Format;

/// Prints one value as JSON, indented.
pub fn print_json(value: &impl Serialize) -> Result<(), Report> {
    put(&(serde_json::to_string_pretty(value).into_diagnostic()? + "\n"))
}

/// Writes a line to standard error, if anybody takes it.
pub fn note(words: fmt::Arguments<'_>) {
    // In one piece: others write there, too.
    let _ = std::io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}

/// Writes to standard output for a program that goes on when nobody reads it, and cannot do anything about it.
pub fn put_best_effort(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes to standard output. A reader that has gone, as `head` does, ends the program in peace.
pub fn put(text: &str) -> Result<(), Report> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        outcome => outcome.into_diagnostic().wrap_err("cannot write to standard output"),
    }
}

/// Prints which file was written, for programs: people hear of it on standard error.
pub fn put_written(path: &str, format: Format) -> Result<(), Report> {
    if format == Format::Table {
        return Ok(());
    }
    let mut rows = Rows::new(&["file"]);
    rows.push([path.into()]);
    put(&rows.render(format))
}

/// Data in rows. A cell is a JSON string, number, boolean or null, or an object of those: several values by name, which stand in one line elsewhere.
pub struct Rows {
    columns: Vec<&'static str>,
    /// Those that a table leaves out where no row has anything there.
    rare: &'static [&'static str],
    /// Those that a table goes without on a terminal that is too narrow for all, the first of them first.
    spare: &'static [&'static str],
    /// Those that a table never has: what they have stands below it.
    hidden: &'static [&'static str],
    cells: Vec<Vec<Value>>,
    /// What stands below a table, a line each.
    remarks: Vec<String>,
}

impl Rows {
    /// No rows yet.
    pub fn new(columns: &[&'static str]) -> Self {
        Self { columns: columns.to_vec(), rare: &[], spare: &[], hidden: &[], cells: Vec::new(), remarks: Vec::new() }
    }

    /// The same with columns that a table leaves out where every row has nothing or zero there. JSON and CSV have them always.
    pub fn with_rare(self, rare: &'static [&'static str]) -> Self {
        Self { rare, ..self }
    }

    /// The same with columns that a table goes without on a terminal that is too narrow for all, the first of them first; it says which. JSON, CSV and what is no terminal have them.
    pub fn with_spare(self, spare: &'static [&'static str]) -> Self {
        Self { spare, ..self }
    }

    /// The same with columns that a table never has, as it says the same below.
    pub fn with_hidden(self, hidden: &'static [&'static str]) -> Self {
        Self { hidden, ..self }
    }

    /// Says something below a table that is too long for a cell.
    pub fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// Adds a row with one cell a column.
    pub fn push<const N: usize>(&mut self, row: [Value; N]) {
        self.push_row(row.into());
    }

    /// The same of a row whose columns are not known here.
    pub fn push_row(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a row has one cell a column");
        self.cells.push(row);
    }

    /// The text to print, with a final line break.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Table => self.table(terminal_columns()),
            Format::Json => self.json(),
            Format::Csv => self.csv(),
        }
    }

    /// As wide as it is, or with as many columns as fit into this many characters.
    fn table(&self, width: Option<usize>) -> String {
        let is_shown = |at: &usize| {
            let has_something = |row: &Vec<Value>| !row[*at].is_null() && row[*at] != 0;
            let is_rare = self.rare.contains(&self.columns[*at]);
            !self.hidden.contains(&self.columns[*at]) && (!is_rare || self.cells.iter().any(has_something))
        };
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(is_shown).collect();
        let mut table = self.lines(&shown);
        let mut left_out = Vec::new();
        let mut spare = self.spare.iter();
        while let Some(width) = width
            && table.lines().any(|line| line.chars().count() > width)
            && let Some(column) = spare.next()
        {
            let before = shown.len();
            shown.retain(|&at| self.columns[at] != *column);
            if shown.len() < before {
                left_out.push(*column);
                table = self.lines(&shown);
            }
        }
        // What was left out first may be narrower than what came last, and fit.
        for column in left_out.clone().into_iter().rev() {
            let at = self.columns.iter().position(|it| *it == column).expect("it was shown");
            let place = shown.partition_point(|other| *other < at);
            shown.insert(place, at);
            let with = self.lines(&shown);
            if width.is_some_and(|width| with.lines().all(|line| line.chars().count() <= width)) {
                left_out.retain(|other| *other != column);
                table = with;
            } else {
                shown.remove(place);
            }
        }
        let mut remarks: Vec<String> = self.remarks.iter().map(|remark| harmless(remark)).collect();
        if !left_out.is_empty() {
            remarks.push(format!("Too narrow for: {} (`-o csv` has all)", left_out.join(", ")));
        }
        for remark in remarks {
            table += &wrapped(&remark, width);
        }
        table
    }

    fn lines(&self, shown: &[usize]) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::TableStyle::new()).set_header(shown.iter().map(|&at| self.columns[at]));
        for row in &self.cells {
            table.add_row(shown.iter().map(|&at| {
                let cell = &row[at];
                // Whoever chose it must not make a row of it.
                let aligned = comfy_table::Cell::new(text(cell).replace('\n', "\\u{a}"));
                if cell.is_number() { aligned.set_alignment(comfy_table::CellAlignment::Right) } else { aligned }
            }));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// The rows as JSON objects, to stand within a larger one.
    pub fn objects(&self) -> Vec<Value> {
        self.cells
            .iter()
            .map(|row| self.columns.iter().map(ToString::to_string).zip(row.iter().cloned()).collect())
            .collect()
    }

    fn json(&self) -> String {
        serde_json::to_string_pretty(&self.objects()).expect("plain values") + "\n"
    }

    /// RFC 4180, but lines end in LF as everywhere on Unix.
    fn csv(&self) -> String {
        let header = self.columns.join(",");
        let lines =
            self.cells.iter().map(|row| row.iter().map(|cell| lab::quoted(&text(cell))).collect::<Vec<_>>().join(","));
        std::iter::once(header).chain(lines).map(|line| line + "\n").collect()
    }
}

/// A text in lines of so many characters at most, where its words let it, the further ones of which begin with two blanks.
fn wrapped(text: &str, width: Option<usize>) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let own = word.chars().count();
        let is_next = length > 0 && width.is_some_and(|width| length + 1 + own > width);
        let before = match length {
            0 => "",
            _ if is_next => "\n  ",
            _ => " ",
        };
        lines.extend([before, word]);
        length = if is_next { 2 + own } else { length + before.len() + own };
    }
    lines + "\n"
}

/// Lines in the manner of Open vSwitch's tools: as they are, since programs read them, but on a terminal that is too narrow broken between their words, the further lines of each indented.
pub fn fitting(lines: &str) -> String {
    match terminal_columns() {
        Some(width) => broken(lines, width),
        None => lines.to_owned(),
    }
}

fn broken(lines: &str, width: usize) -> String {
    const INDENT: &str = "    ";
    let mut all = String::new();
    for line in lines.lines() {
        let mut length = 0;
        // Words end in blanks, and what has none for long in commas.
        let words = line.split_inclusive(' ').flat_map(|word| {
            let is_long = INDENT.len() + word.trim_end().chars().count() > width;
            if is_long { word.split_inclusive(',').collect::<Vec<_>>() } else { vec![word] }
        });
        for word in words {
            if length > 0 && length + word.trim_end().chars().count() > width {
                all.truncate(all.trim_end().len());
                all.extend(["\n", INDENT]);
                length = INDENT.len();
            }
            all.push_str(word);
            length += word.chars().count();
        }
        all.push('\n');
    }
    all
}

/// How many characters fit into a line of standard output, if that is a terminal: one that does not say so has 80.
fn terminal_columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let width = comfy_table::Table::new().width().filter(|width| *width > 0);
    Some(width.map_or(80, usize::from))
}

/// A text that somebody else chose, for a terminal: what would move the cursor, colour or turn what follows is shown by its number.
pub fn harmless(text: &str) -> String {
    let is_harmful = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (c.is_control() && c != '\n') || turns
    };
    text.chars().map(|c| if is_harmful(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => harmless(text),
        Value::Object(values) => {
            let values = values.iter().map(|(name, value)| format!("{} {}", harmless(name), text(value)));
            values.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let mut rows = Rows::new(&["name", "packets", "note"]);
        rows.push(["h1".into(), 12.into(), "a, \"b\"".into()]);
        rows.push(["leaf1".into(), 3.into(), Value::Null]);
        rows
    }

    #[test]
    fn nothing_that_somebody_else_chose_reaches_the_terminal_as_a_command() {
        let name = "\u{1b}]0;x\u{7}\u{9b}1m\u{202e}y\r";
        let mut rows = Rows::new(&["name"]);
        rows.push([name.into()]);
        for format in [Format::Table, Format::Csv] {
            let shown = rows.render(format);
            assert!(shown.contains("\\u{1b}]0;x\\u{7}\\u{9b}1m\\u{202e}y\\u{d}"), "{shown}");
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        }
        // A cell makes no row of its own.
        let mut rows = Rows::new(&["name"]);
        rows.push(["x\nforged  row".into()]);
        assert_eq!(rows.render(Format::Table), "name\nx\\u{a}forged  row\n");
        assert_eq!(rows.render(Format::Csv), "name\n\"x\nforged  row\"\n");
        assert_eq!(harmless("a\nb \u{e4}"), "a\nb \u{e4}");
    }

    #[test]
    fn a_table_leaves_out_rare_columns_that_have_nothing() {
        let rare = |packets: [u64; 2]| {
            let mut rows = Rows::new(&["name", "packets", "note"]).with_rare(&["packets"]);
            rows.push(["h1".into(), packets[0].into(), "a".into()]);
            rows.push(["h2".into(), packets[1].into(), "b".into()]);
            rows
        };
        assert_eq!(rare([0, 0]).render(Format::Table), "name  note\nh1    a\nh2    b\n");
        assert_eq!(rare([0, 5]).render(Format::Table).lines().next(), Some("name  packets  note"));
        assert_eq!(rare([0, 0]).render(Format::Csv), "name,packets,note\nh1,0,a\nh2,0,b\n");
    }

    #[test]
    fn a_table_goes_without_some_columns_where_they_do_not_fit() {
        let mut rows = rows().with_spare(&["none", "packets", "note"]);
        assert_eq!(rows.table(Some(22)), "name   packets  note\nh1          12  a, \"b\"\nleaf1        3\n");
        rows.remark("h1 is out".to_owned());
        let narrow =
            "name   note\nh1     a, \"b\"\nleaf1\nh1 is out\nToo narrow for:\n  packets (`-o csv`\n  has all)\n";
        assert_eq!(rows.table(Some(21)), narrow);
        assert_eq!(
            rows.table(Some(8)),
            "name\nh1\nleaf1\nh1 is\n  out\nToo\n  narrow\n  for:\n  packets,\n  note\n  (`-o\n  csv`\n  has\n  all)\n"
        );
        assert!(
            rows.render(Format::Csv).starts_with("name,packets,note\n") && !rows.render(Format::Csv).contains("out")
        );
    }

    #[test]
    fn lines_are_broken_where_they_do_not_fit() {
        let lines = "s1:\n cookie=0x0, n_packets=0, tcp,tp_dst=80 actions=drop\n";
        assert_eq!(broken(lines, 80), lines);
        assert_eq!(broken(lines, 26), "s1:\n cookie=0x0, n_packets=0,\n    tcp,tp_dst=80\n    actions=drop\n");
        assert_eq!(broken("actions=a:1,b:2,c:3\n", 14), "actions=a:1,\n    b:2,c:3\n");
        assert_eq!(broken("a_word_without_end\n", 4), "a_word_without_end\n");
    }

    #[test]
    fn several_values_of_a_cell_stand_in_one_line() {
        let mut rows = Rows::new(&["hop", "counted"]);
        rows.push(["count".into(), serde_json::json!({ "tcp": 12, "tcp bytes": 840 })]);
        assert_eq!(rows.render(Format::Table), "hop    counted\ncount  tcp 12, tcp bytes 840\n");
        assert_eq!(rows.objects()[0]["counted"]["tcp bytes"], 840);
    }

    #[test]
    fn the_three_formats() {
        assert_eq!(rows().render(Format::Csv), "name,packets,note\nh1,12,\"a, \"\"b\"\"\"\nleaf1,3,\n");
        assert_eq!(rows().render(Format::Table), "name   packets  note\nh1          12  a, \"b\"\nleaf1        3\n");
        let parsed: Value = serde_json::from_str(&rows().render(Format::Json)).unwrap();
        assert_eq!(parsed[1], serde_json::json!({ "name": "leaf1", "packets": 3, "note": null }));
    }
}
