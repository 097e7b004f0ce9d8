//! Rows and columns as text: for a terminal, and as comma-separated values.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

use crate::terminal;

/// Where nothing is known about the terminal (a pipe), lines of tables may be this long.
pub(crate) const WIDTH_OF_PIPE: u16 = 140;

/// How far the further lines of a line that is broken stand from the left.
const INDENT: usize = 4;

/// What a row is about has so much room at least, or else all columns are folded.
const ABOUT_WIDTH: usize = 14;

/// Rows and columns of text.
pub(crate) struct Grid {
    table: Table,
    headings: Vec<String>,
    /// Until it is rendered.
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A grid with these headings.
    pub fn new(headings: &[impl AsRef<str>]) -> Self {
        let rule = LineStyle::none().fill('─').junction('─');
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(rule).bottom_border(rule));
        table.set_header(headings.iter().map(AsRef::as_ref));
        let headings = headings.iter().map(|heading| heading.as_ref().to_owned()).collect();
        Self { table, headings, rows: Vec::new() }
    }

    /// Draws a line between rows.
    pub fn ruled(mut self) -> Self {
        let rule = LineStyle::none().fill('─').junction('─');
        self.table.load_style(TableStyle::new().header_separator(rule).row_separator(rule).bottom_border(rule));
        self
    }

    /// Adds a row with one cell a column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "a row has one cell a column");
        self.rows.push(cells);
    }

    /// The text as wide as it needs, with these columns set to the right.
    pub fn render(mut self, to_the_right: &[usize]) -> String {
        self.align(to_the_right);
        self.text()
    }

    /// The text folded to at most `width` columns.
    pub fn render_within(mut self, to_the_right: &[usize], width: u16) -> String {
        if self.widths().iter().sum::<usize>() > usize::from(width) {
            self.rows.iter_mut().for_each(|cells| fold_names(cells));
            // What stands below each other in a row belongs together: only what the row is about is folded, as long as that has room.
            let widths = self.widths();
            let is_roomy = widths[1..].iter().sum::<usize>() + ABOUT_WIDTH <= usize::from(width);
            self.fold_words(if is_roomy { Some(0) } else { self.widest() }, width.into());
            self.table.add_rows(std::mem::take(&mut self.rows));
            for column in self.table.column_iter_mut().skip(1).filter(|_| is_roomy) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        self.align(to_the_right);
        self.table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        self.text()
    }

    /// The widest column, where no row has lines that belong together.
    fn widest(&self) -> Option<usize> {
        let widths = self.widths();
        let widest = (0..widths.len()).max_by_key(|column| widths[*column]);
        widest.filter(|_| !self.rows.iter().flatten().any(|cell| cell.contains('\n')))
    }

    /// Breaks what stands in a column so that it has the room that the others leave: the table would break it in the middle of words.
    fn fold_words(&mut self, column: Option<usize>, width: usize) {
        let Some(column) = column else { return };
        let widths = self.widths();
        // A blank on both sides of each column, and one between two of them.
        let others = widths.iter().sum::<usize>() - widths[column] + widths.len() + 1;
        let room = width.saturating_sub(others);
        if room >= ABOUT_WIDTH {
            self.rows.iter_mut().for_each(|cells| cells[column] = folded(&cells[column], room));
        }
    }

    /// How wide columns are with the blanks around them, if nothing is folded.
    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|cells| &cells[column]).chain([&self.headings[column]]);
            cells.flat_map(|cell| cell.lines()).map(|line| line.chars().count()).max().unwrap_or(0) + 2
        };
        (0..self.headings.len()).map(width).collect()
    }

    fn align(&mut self, to_the_right: &[usize]) {
        self.table.add_rows(std::mem::take(&mut self.rows));
        for &column in to_the_right {
            if let Some(column) = self.table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }

    fn text(&self) -> String {
        self.table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// Breaks the names of figures behind their commas, in a row that has several below each other: those of all columns go on in the same line.
fn fold_names(cells: &mut [String]) {
    let [_, names, figures @ ..] = cells else { return };
    let lines = names.lines().count();
    if lines < 2 || figures.iter().any(|cell| cell.split('\n').count() != lines) {
        return;
    }
    let breaks: Vec<usize> = names.lines().map(|name| name.matches(", ").count()).collect();
    *names = names.replace(", ", ",\n");
    for cell in figures {
        let padded = cell.split('\n').zip(&breaks).map(|(line, more)| line.to_owned() + &"\n".repeat(*more));
        *cell = padded.collect::<Vec<_>>().join("\n");
    }
}

/// Lines of at most `width` characters, broken between words; a word that is too long for a line is broken behind a mark in it, if it has one.
fn folded(text: &str, width: usize) -> String {
    let mut all = String::new();
    let mut length = 0;
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            all.push('\n');
            length = 0;
        }
        for word in line.split_inclusive(' ').flat_map(|word| parts(word, width)) {
            if length > 0 && length + word.trim_end().chars().count() > width {
                all.truncate(all.trim_end_matches(' ').len());
                all.push('\n');
                length = 0;
            }
            all.push_str(word);
            length += word.chars().count();
        }
        all.truncate(all.trim_end_matches(' ').len());
    }
    all
}

/// A word, or its parts, each with the mark at its end, if it is too long.
fn parts(word: &str, width: usize) -> Vec<&str> {
    if word.trim_end().chars().count() <= width {
        vec![word]
    } else {
        word.split_inclusive([',', '.', '-', '/', '=']).collect()
    }
}

/// A text for the terminal that stdout is: what `within` makes of so many columns, its other lines broken where they do not fit. Where stdout is no terminal, other programs may
/// read it: lines stay whole, and tables have `without` columns.
pub(crate) fn for_terminal(without: u16, within: impl FnOnce(u16) -> String) -> String {
    let columns = terminal::columns();
    let width = columns.map_or(without, |columns| u16::try_from(columns).unwrap_or(u16::MAX));
    terminal::broken(&within(width), columns, INDENT)
}

/// A CSV field, quoted where it must be.
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_where_they_have_marks() {
        assert_eq!(
            folded("ecmp, links.leaf1-spine1.delay 1ms, linux", 22),
            "ecmp, links.leaf1-\nspine1.delay 1ms,\nlinux"
        );
        assert_eq!(folded("a b\n\nc d e", 3), "a b\n\nc d\ne");
        assert_eq!(folded("short", 22), "short");
    }

    #[test]
    fn names_of_cases_are_not_broken_in_their_words() {
        for width in [60, 70] {
            let mut grid = Grid::new(&["experiment", "case", "driver", "runs", "together"]);
            let case = "packet-scatter-random, links.leaf1-spine1.delay 10ms, newreno";
            grid.row(["scatter", case, "sim", "2", "0.2 s"].map(str::to_owned).into());
            let text = grid.render_within(&[3, 4], width);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            let words = ["packet-scatter-", "delay", "10ms,", "newreno"];
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn what_stands_below_each_other_stays_in_its_line() {
        let mut grid = Grid::new(&["case", "metric", "live", "simulated"]);
        grid.row(
            [
                "links.leaf1-spine1.delay 1ms",
                "goodput, mean (Mbit/s)\none-way delay, p99 (ms)\ndrops",
                "65 ± 93\n11.7\n31",
                "67 ± 21\n15.6\n33",
            ]
            .map(str::to_owned)
            .into(),
        );
        let text = grid.render_within(&[2, 3], 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        for (name, figures) in
            [("goodput,", ["65 ± 93", "67 ± 21"]), ("one-way delay,", ["11.7", "15.6"]), ("drops", ["31", "33"])]
        {
            let line = text.lines().find(|line| line.contains(name)).expect("it is there");
            assert!(figures.iter().all(|figure| line.contains(figure)), "{text}");
        }
    }
}
