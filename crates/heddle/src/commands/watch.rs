//! `--watch`: the same again and again. A terminal shows it in place, as `watch` and `top` do; what is no terminal gets one after the other.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::terminal::{self, cut};
use miette::{IntoDiagnostic as _, Report};
use serde_json::Value;

use super::signals;
use crate::cli::Format;
use crate::output::put;

/// How soon a signal is heard between two pages.
const LISTEN: Duration = Duration::from_millis(50);

/// Prints what `text` returns until it fails, was printed `count` times, or a signal comes; `title` stands above it on a terminal. JSON comes as one value a line.
pub fn again(
    (title, every, count): (&str, Duration, Option<u64>),
    format: Format,
    mut text: impl FnMut() -> Result<String, Report>,
) -> Result<(), Report> {
    let title = format!("Every {} s: {title} (Ctrl-C ends it)", every.as_secs());
    // Shells start what runs in the background of a script with SIGINT ignored.
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::await_end(&interrupted)?;
    let mut printed = 0;
    while !interrupted.load(Ordering::Relaxed) {
        let text = text()?;
        // It may have another size each time.
        let screen_size = terminal::size();
        let page = match (format, screen_size) {
            (Format::Json, _) => {
                let value: Value = serde_json::from_str(&text).into_diagnostic()?;
                format!("{value}\n")
            }
            (Format::Table, Some(size)) => {
                // What stood there before goes up, as with `clear`.
                let clear = if printed == 0 { "\u{1b}[2J" } else { "" };
                format!("{clear}{}", screen(&title, &text, size))
            }
            (Format::Table | Format::Csv, _) => text + "\n",
        };
        put(&page)?;
        printed += 1;
        if count.is_some_and(|count| printed >= count) {
            break;
        }
        let next = Instant::now() + every;
        while !interrupted.load(Ordering::Relaxed) && Instant::now() < next {
            std::thread::sleep(LISTEN.min(every));
        }
    }
    Ok(())
}

/// A page that is drawn over the one before: from the corner, each line to its end, and then to the end of the screen. It is no longer than the screen and no
/// wider, so that nothing scrolls.
fn screen(title: &str, text: &str, (columns, rows): (usize, usize)) -> String {
    // The cursor waits on the last row.
    let room = rows.saturating_sub(1);
    let mut lines: Vec<String> = [title, ""].into_iter().chain(text.lines()).map(str::to_owned).collect();
    if lines.len() > room {
        let hidden = lines.len() - room.saturating_sub(1);
        lines.truncate(room.saturating_sub(1));
        lines.push(format!("{hidden} more lines: the terminal is too low for them"));
        lines.truncate(room);
    }
    let mut page = "\u{1b}[H".to_owned();
    for line in &lines {
        let _ = writeln!(page, "{}\u{1b}[K", cut(line, columns));
    }
    page + "\u{1b}[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_drawn_over_the_one_before_and_never_scrolls() {
        let page = screen("t", "a\nbb\n", (80, 24));
        assert_eq!(page, "\u{1b}[Ht\u{1b}[K\n\u{1b}[K\na\u{1b}[K\nbb\u{1b}[K\n\u{1b}[J");
        let text = format!("{}\n", "x".repeat(100)).repeat(50);
        let page = screen("t", &text, (20, 10));
        let plain = page.replace("\u{1b}[H", "").replace("\u{1b}[K", "").replace("\u{1b}[J", "");
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), 9, "{plain}");
        assert!(lines.iter().all(|line| line.chars().count() <= 20), "{plain}");
        assert!(lines[8].starts_with("44 more lines"), "{plain}");
        assert_eq!(lines[2].chars().last(), Some('\u{2026}'));
        // However low it is.
        for rows in 0..4 {
            assert!(screen("t", &text, (20, rows)).lines().count() <= rows.max(1));
        }
    }
}
