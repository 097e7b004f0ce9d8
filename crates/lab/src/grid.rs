//! Rows and columns as text: for a terminal, and as comma-separated values.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Where nothing is known about the terminal (a pipe), lines may be this long.
const WIDTH_WITHOUT_TERMINAL: u16 = 140;

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

/// How many columns the terminal has that stdout is; `None`: it is none.
pub(crate) fn terminal() -> Option<u16> {
    Table::new().width()
}

/// The same, or what suits a pipe.
pub(crate) fn terminal_width() -> u16 {
    terminal().unwrap_or(WIDTH_WITHOUT_TERMINAL)
}

/// A CSV field, quoted where it must be.
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
