//! Characters of a file that a terminal would obey instead of showing them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal shows the character, or goes to another line or column because of it, as for any text. Control characters can do anything else, and
/// marks of direction show text in another order than the one that is read.
pub(crate) fn is_shown(character: char) -> bool {
    !character.is_control() && !is_direction(character) || matches!(character, '\n' | '\t')
}

/// Marks of direction (Unicode, UAX 9), and the one of byte order.
const fn is_direction(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// How the character is written instead, as in YAML's double quotes.
pub(crate) fn written(character: char) -> String {
    match u32::from(character) {
        code @ 0..=0xff => format!("\\x{code:02x}"),
        code => format!("\\u{code:04x}"),
    }
}

/// The text, with all that is not shown written out.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_shown(character) {
            out.push(character);
        } else {
            let _ = write!(out, "{}", written(character));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        assert_eq!(escaped("a µ\n\tb"), "a µ\n\tb");
        assert_eq!(escaped("\u{1b}[31mred\u{9b}0m\r\u{7f}"), "\\x1b[31mred\\x9b0m\\x0d\\x7f");
        assert_eq!(escaped("a\u{202e}b\u{feff}"), "a\\u202eb\\ufeff");
        assert!(escaped(&('\0'..='\u{ffff}').collect::<String>()).chars().all(is_shown));
    }
}
