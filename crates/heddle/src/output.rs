//! Rows of data as a table, JSON or CSV.

use std::fmt;
use std::io::{ErrorKind, Write};

use lab::terminal::{self, broken};
use miette::{Context, IntoDiagnostic, Report};
use serde::Serialize;
use serde_json::Value;

use crate::cli::Format;

/// Prints one value as JSON, indented.
pub fn print_json(value: &impl Serialize) -> Result<(), Report> {
    put(&(serde_json::to_string_pretty(value).into_diagnostic()? + "\n"))
}

/// A value whose keys are written as those of tables are, `idle-s`. No key of it may be somebody's name.
pub fn with_hyphens(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            object.into_iter().map(|(key, value)| (key.replace('_', "-"), with_hyphens(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(with_hyphens).collect(),
        plain => plain,
    }
}

/// Writes a line to standard error, if anybody takes it: on a terminal that is too narrow broken between its words.
pub fn note(words: fmt::Arguments<'_>) {
    let text = format!("{words}\n");
    // What is coloured is a report, which is laid out already.
    let width = terminal::stderr_columns().filter(|_| !text.contains('\u{1b}'));
    let line = broken(&text, width, INDENT);
    // In one piece: others write there, too.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// How far the further lines of one that was broken stand from the left; and those of a remark below a table.
const INDENT: usize = 4;
const INDENT_OF_REMARK: usize = 2;

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
    /// What a table without rows says in place of its headings.
    nothing: &'static str,
    /// What stands below a table, a line each.
    remarks: Vec<String>,
    /// What JSON has in place of the rows.
    data: Option<Value>,
}

impl Rows {
    /// No rows yet.
    pub fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            rare: &[],
            spare: &[],
            hidden: &[],
            cells: Vec::new(),
            nothing: "",
            remarks: Vec::new(),
            data: None,
        }
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

    /// The same with what a table says that has no rows: that there is nothing, and what would make some.
    pub fn or_say(self, nothing: &'static str) -> Self {
        Self { nothing, ..self }
    }

    /// The same with what JSON has in place of the rows, where they are of several kinds.
    pub fn with_json(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
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
            Format::Table => self.table(terminal::columns()),
            Format::Json => self.json(),
            Format::Csv => self.csv(),
        }
    }

    /// As wide as it is, or with as many columns as fit into this many characters.
    pub fn table(&self, width: Option<usize>) -> String {
        let is_shown = |at: &usize| {
            let has_something = |row: &Vec<Value>| !row[*at].is_null() && row[*at] != 0;
            let is_rare = self.rare.contains(&self.columns[*at]);
            !self.hidden.contains(&self.columns[*at]) && (!is_rare || self.cells.iter().any(has_something))
        };
        if self.cells.is_empty() && !self.nothing.is_empty() {
            return broken(&format!("{}\n", self.nothing), width, INDENT_OF_REMARK);
        }
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
        // What is still too wide is broken within its cells.
        if let Some(width) = width
            && table.lines().any(|line| line.chars().count() > width)
        {
            table = self.lines_within(&shown, u16::try_from(width).ok());
        }
        let mut remarks: Vec<String> = self.remarks.iter().map(|remark| harmless(remark)).collect();
        if !left_out.is_empty() {
            remarks.push(format!("Too narrow for: {} (`-o csv` has all)", left_out.join(", ")));
        }
        for remark in remarks {
            table += &broken(&(remark + "\n"), width, INDENT_OF_REMARK);
        }
        table
    }

    fn lines(&self, shown: &[usize]) -> String {
        self.lines_within(shown, None)
    }

    fn lines_within(&self, shown: &[usize], width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        if let Some(width) = width {
            table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_width(width);
        }
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
            .map(|row| self.columns.iter().map(|column| key(column)).zip(row.iter().cloned()).collect())
            .collect()
    }

    fn json(&self) -> String {
        match &self.data {
            Some(data) => format!("{data:#}\n"),
            None => serde_json::to_string_pretty(&self.objects()).expect("plain values") + "\n",
        }
    }

    /// The rows in a line of JSON each, or as CSV has them below its header: for what is printed row by row.
    pub fn lines_of_data(&self, is_csv: bool) -> String {
        if is_csv {
            return self.csv_lines().collect();
        }
        self.objects().iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect()
    }

    /// RFC 4180, but lines end in LF as everywhere on Unix.
    fn csv(&self) -> String {
        let header = self.columns.iter().map(|column| key(column)).collect::<Vec<_>>().join(",");
        std::iter::once(header + "\n").chain(self.csv_lines()).collect()
    }

    fn csv_lines(&self) -> impl Iterator<Item = String> {
        let line = |row: &Vec<Value>| row.iter().map(|cell| lab::quoted(&text(cell))).collect::<Vec<_>>().join(",");
        self.cells.iter().map(move |row| line(row) + "\n")
    }
}

/// A column as JSON and CSV name it, where nothing is short of room: letters and hyphens, the unit last.
fn key(column: &str) -> String {
    match column {
        "conn/s" => "connections-per-second".to_owned(),
        _ => column.replace("/s", "-per-second").replace('%', "percent"),
    }
}

/// Lines for standard output: as they are, since programs read them, but on a terminal that is too narrow broken between their words, the further lines of each indented.
pub fn fitting(lines: &str) -> String {
    broken(lines, terminal::columns(), INDENT)
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
    fn keys_of_programs_have_no_signs_of_units() {
        let mut rows = Rows::new(&["name", "conn/s", "in-mbit/s", "cpu-%"]);
        rows.push(["h1".into(), 1.into(), 2.into(), 3.into()]);
        assert_eq!(
            rows.render(Format::Csv).lines().next(),
            Some("name,connections-per-second,in-mbit-per-second,cpu-percent")
        );
        assert_eq!(rows.objects()[0]["connections-per-second"], 1);
        assert!(rows.render(Format::Table).starts_with("name  conn/s  in-mbit/s  cpu-%\n"));
    }

    #[test]
    fn a_table_that_is_too_wide_without_spare_columns_is_broken_in_its_cells() {
        let mut rows = Rows::new(&["service", "servers"]);
        rows.push(["web".into(), (1..=30).map(|number| format!("h{number}")).collect::<Vec<_>>().join(" ").into()]);
        let table = rows.table(Some(40));
        assert!(table.lines().all(|line| line.chars().count() <= 40) && table.lines().count() > 2, "{table}");
        assert!(table.contains("h30") && rows.table(None).lines().count() == 2, "{table}");
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
    fn a_table_of_nothing_says_so_in_place_of_its_headings() {
        let rows = Rows::new(&["name"]).or_say("There is nothing: write some.");
        assert_eq!(rows.render(Format::Table), "There is nothing: write some.\n");
        assert_eq!(rows.table(Some(12)), "There is\n  nothing:\n  write\n  some.\n");
        assert_eq!((rows.render(Format::Csv).as_str(), rows.render(Format::Json).as_str()), ("name\n", "[]\n"));
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
