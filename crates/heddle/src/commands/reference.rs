//! `reference`: a page for each command and one for the file, in Markdown, from what the program itself knows.

mod commands;
mod file;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use miette::{Context, IntoDiagnostic, Report};

use crate::cli::Cli;

/// Writes `file.md`, `commands.md` and a page a command into a folder, and `SUMMARY.md`, a list of them for mdBook.
pub fn reference(folder: &Path) -> Result<(), Report> {
    let mut pages = vec![("file.md".to_owned(), "The file".to_owned(), file::page(&fabric::schema()))];
    pages.extend(commands::pages(&Cli::command()));
    let mut summary = String::new();
    for (name, title, _) in &pages {
        let depth = if name.contains('-') { 2 } else { 1 };
        let _ = writeln!(summary, "{:width$}- [{title}]({name})", "", width = 2 * depth - 2);
    }
    let write = || {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("SUMMARY.md"), summary)?;
        pages.iter().try_for_each(|(name, _, text)| fs::write(folder.join(name), text))
    };
    write().into_diagnostic().wrap_err_with(|| format!("cannot write the reference into {}", folder.display()))
}

/// A text of the program in a line of Markdown, or in a cell of a table.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let mut is_code = false;
    for c in text.chars() {
        match c {
            '`' => is_code = !is_code,
            '|' => escaped.push('\\'),
            // Outside of code `<` and `[` would begin something of Markdown's own.
            '<' | '[' | '*' if !is_code => escaped.push('\\'),
            _ => {}
        }
        escaped.push(if c == '\n' { ' ' } else { c });
    }
    escaped
}
