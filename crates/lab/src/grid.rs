//! Rows and columns as text: for a terminal, and as comma-separated values.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use crate::terminal;

/// Where nothing is known about the terminal (a pipe), lines of tables may be this long.
pub(crate) const WIDTH_OF_PIPE: u16 = 140;

/// How far the further lines of a line that is broken stand from the left.
const INDENT: usize = 4;

/// Rows and columns of text.
pub(crate) struct Grid {
    table: Table,
    columns: usize,
}

impl Grid {
    /// A grid with these headings.
    pub fn new(headings: &[impl AsRef<str>]) -> Self {
        let rule = LineStyle::none().fill('─').junction('─');
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(rule).bottom_border(rule));
        table.set_header(headings.iter().map(AsRef::as_ref));
        Self { table, columns: headings.len() }
    }

    /// Draws a line between rows.
    pub fn ruled(mut self) -> Self {
        let rule = LineStyle::none().fill('─').junction('─');
        self.table.load_style(TableStyle::new().header_separator(rule).row_separator(rule).bottom_border(rule));
        self
    }

    /// Adds a row with one cell a column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns, "a row has one cell a column");
        self.table.add_row(cells);
    }

    /// The text as wide as it needs, with these columns set to the right.
    pub fn render(mut self, to_the_right: &[usize]) -> String {
        self.align(to_the_right);
        self.text()
    }

    /// The text folded to at most `width` columns.
    pub fn render_within(mut self, to_the_right: &[usize], width: u16) -> String {
        self.align(to_the_right);
        self.table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        self.text()
    }

    fn align(&mut self, to_the_right: &[usize]) {
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
