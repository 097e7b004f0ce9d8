//! What fits into a line of a terminal.

use std::io::IsTerminal as _;

use terminal_size::{Height, Width, terminal_size_of};

/// Columns and rows of a terminal that does not say how large it is.
const SIZE: (usize, usize) = (80, 24);

/// Columns and rows of the terminal that standard output is; `None`: it is none. One that does not say so has 80 x 24.
pub fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    stdout.is_terminal().then(|| known(terminal_size_of(&stdout)))
}

/// Columns of the terminal that standard output is; `None`: it is none.
pub fn columns() -> Option<usize> {
    size().map(|(columns, _)| columns)
}

/// Columns of the terminal that standard error is; `None`: it is none.
pub fn stderr_columns() -> Option<usize> {
    let stderr = std::io::stderr();
    stderr.is_terminal().then(|| known(terminal_size_of(&stderr)).0)
}

fn known(said: Option<(Width, Height)>) -> (usize, usize) {
    let said = said.map(|(Width(columns), Height(rows))| (usize::from(columns), usize::from(rows)));
    said.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(SIZE)
}

/// Lines that are broken between their words where they are longer than `width` characters, the further ones of each behind `indent` blanks. A word that is too long for
/// a line by itself is broken behind its commas, and else stays whole. `None`: as they are, since another program reads them.
pub fn broken(lines: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return lines.to_owned() };
    let mut all = String::with_capacity(lines.len());
    for line in lines.split_inclusive('\n') {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        if text.chars().count() <= width {
            all.push_str(text);
        } else {
            break_line(&mut all, text, width, indent);
        }
        all.push_str(end);
    }
    all
}

fn break_line(all: &mut String, line: &str, width: usize, indent: usize) {
    // Words end in blanks, and what has none for long in commas.
    let words = line.split_inclusive(' ').flat_map(|word| {
        let is_long = indent + word.trim_end().chars().count() > width;
        if is_long { word.split_inclusive(',').collect::<Vec<_>>() } else { vec![word] }
    });
    let mut length = 0;
    // What stands before the first word is no place to break a line at.
    let mut has_words = false;
    for word in words {
        let own = word.trim_end().chars().count();
        if has_words && own > 0 && length + own > width {
            all.truncate(all.trim_end().len());
            all.push('\n');
            all.extend(std::iter::repeat_n(' ', indent));
            length = indent;
        }
        has_words |= own > 0;
        all.push_str(word);
        length += word.chars().count();
    }
}

/// A line that is no longer than `width` characters: its end is left out, if it must be.
pub fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let room = width.saturating_sub(1);
    line.chars().take(room).chain((width > 0).then_some('\u{2026}')).collect()
}

/// The same of words: whole ones, unless that leaves out more than half of what could be there.
pub fn cut_words(words: &str, width: usize) -> String {
    let room = width.saturating_sub(2);
    let blanks = words.chars().enumerate().filter(|(_, c)| *c == ' ').map(|(at, _)| at);
    let last = blanks.take_while(|at| *at <= room).last().filter(|at| 2 * at >= width);
    match last {
        Some(end) if words.chars().count() > width => words.chars().take(end).chain([' ', '\u{2026}']).collect(),
        _ => cut(words, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_where_they_do_not_fit() {
        let lines = "s1:\n cookie=0x0, n_packets=0, tcp,tp_dst=80 actions=drop\n";
        assert_eq!(broken(lines, Some(80), 4), lines);
        assert_eq!(broken(lines, None, 4), lines);
        assert_eq!(broken(lines, Some(26), 4), "s1:\n cookie=0x0, n_packets=0,\n    tcp,tp_dst=80\n    actions=drop\n");
        assert_eq!(broken("actions=a:1,b:2,c:3\n", Some(14), 4), "actions=a:1,\n    b:2,c:3\n");
        assert_eq!(broken("a_word_without_end\n", Some(4), 4), "a_word_without_end\n");
        // The first word stands where it stood, however narrow it is, and what has no end gets none.
        assert_eq!(broken("   indented words", Some(6), 2), "   indented\n  words");
        assert_eq!(broken("a b\n\n", Some(1), 0), "a\nb\n\n");
        assert_eq!(broken("", Some(1), 0), "");
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        assert_eq!((cut("four", 4).as_str(), cut("fives", 4).as_str()), ("four", "fiv\u{2026}"));
        assert_eq!((cut("ab", 1).as_str(), cut("ab", 0).as_str()), ("\u{2026}", ""));
    }

    #[test]
    fn words_that_are_too_many_are_cut_between_them() {
        let names = "ecmp, links.h1-s1.delay 1ms, linux";
        assert_eq!(cut_words(names, 34), names);
        for (width, shown) in [
            (33, "ecmp, links.h1-s1.delay 1ms, \u{2026}"),
            (30, "ecmp, links.h1-s1.delay 1ms, \u{2026}"),
            (29, "ecmp, links.h1-s1.delay \u{2026}"),
            // Little would be left.
            (20, "ecmp, links.h1-s1.d\u{2026}"),
            (0, ""),
        ] {
            let cut = cut_words(names, width);
            assert_eq!(cut, shown, "{width}");
            assert!(cut.chars().count() <= width, "{width}: {cut}");
        }
    }

    #[test]
    fn a_terminal_that_does_not_say_its_size_has_80_columns() {
        assert_eq!(known(None), (80, 24));
        assert_eq!(known(Some((Width(0), Height(0)))), (80, 24));
        assert_eq!(known(Some((Width(40), Height(10)))), (40, 10));
    }
}
