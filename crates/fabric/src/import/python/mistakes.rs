//! What Python itself would refuse to run: brackets that nobody closes, texts that do not end, blocks that are not there. It is found in the words alone, so that what is Python and not read
//! ([`super::parser`]) is none.
//!
//! Always: what a program of Python 2 or 3 says is no mistake. Where the words of an f-string may be meant otherwise (as from Python 3.12 on), nothing is one.

use std::ops::Range;

use super::lexer::{Token, tokens_and_mistakes};
use super::syntax::Constant;

/// One thing for which Python would not run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where, in bytes.
    pub at: Range<usize>,
    /// What it is, in Python's words.
    pub message: String,
    /// What mends it.
    pub hint: String,
}

/// Words behind which a block begins.
const COMPOUND: [&str; 12] =
    ["if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class", "async"];

/// Words of Python that are no operands.
const WORDS: [&str; 35] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "exec", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass",
    "print", "raise", "return", "try", "while", "with", "yield", "match",
];

/// Words that are names in most places, and begin a statement in some.
const SOFT: [&str; 2] = ["case", "type"];

/// The first thing that is no Python, in the order in which Python says it: what are no words, then what are no statements.
pub fn mistake(text: &str) -> Option<Mistake> {
    let (tokens, mistakes) = tokens_and_mistakes(text);
    if is_in_doubt(&tokens) {
        return None;
    }
    mistakes.into_iter().next().or_else(|| Statements { tokens: &tokens, text }.first_mistake())
}

/// Whether a text with values has words beside it: `f"{x["a"]}"` is one text to some, and two to others.
fn is_in_doubt(tokens: &[(Token, Range<usize>)]) -> bool {
    let is_beside = |a: &(Token, Range<usize>), b: &(Token, Range<usize>)| {
        let is_word = matches!(b.0, Token::Name(_) | Token::Constant(_) | Token::Format(_) | Token::Other);
        matches!(a.0, Token::Format(_)) && is_word && a.1.end == b.1.start
    };
    tokens.windows(2).any(|pair| is_beside(&pair[0], &pair[1]))
}

fn closing(bracket: &str) -> &'static str {
    match bracket {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}

fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

impl Mistake {
    pub fn never_closed(bracket: &str, at: usize) -> Self {
        let closing = closing(bracket);
        Mistake {
            at: at..at + 1,
            message: format!("'{bracket}' was never closed"),
            hint: format!("write its `{closing}` where what is in it ends"),
        }
    }

    /// What is wrong with a closing bracket at `at`, of which `open` is the one that is open.
    pub fn closing(bracket: &str, at: usize, open: Option<(&str, usize)>, text: &str) -> Option<Self> {
        let (message, hint) = match open {
            None => (format!("unmatched '{bracket}'"), "nothing is open here: take it away".to_owned()),
            Some((open, _)) if closing(open) == bracket => return None,
            Some((open, begun)) => {
                let (begun, here) = (line(text, begun), line(text, at));
                let of = if begun == here { String::new() } else { format!(" on line {begun}") };
                let message =
                    format!("closing parenthesis '{bracket}' does not match opening parenthesis '{open}'{of}");
                (message, format!("write `{}` where what is in `{open}` ends", closing(open)))
            }
        };
        Some(Mistake { at: at..at + 1, message, hint })
    }

    /// A text in quotes that does not end.
    pub fn never_ends(at: Range<usize>, mark: &str, is_format: bool, source: &str) -> Self {
        let triple = if mark.len() > 1 { "triple-quoted " } else { "" };
        let format = if is_format { "f-string" } else { "string" };
        let detected = line(source, at.end);
        // Of a long one, its first line.
        let first = source[at.clone()].lines().next().unwrap_or_default().trim_end().len();
        Mistake {
            at: at.start..at.start + first,
            message: format!("unterminated {triple}{format} literal (detected at line {detected})"),
            hint: format!("write {mark} where the text ends"),
        }
    }

    pub fn dedent(at: Range<usize>) -> Self {
        Mistake {
            at,
            message: "unindent does not match any outer indentation level".to_owned(),
            hint: "begin it in the column of the block that it belongs to".to_owned(),
        }
    }

    /// A character with which nothing of Python begins; backquotes are Python 2's.
    pub fn character(c: char, at: usize) -> Option<Self> {
        let is_mark = c == '\u{feff}' && at == 0;
        let message = match c {
            '`' => return None,
            _ if is_mark || c.is_ascii_control() => return None,
            '\\' => "unexpected character after line continuation character".to_owned(),
            _ if c.is_ascii() => format!("invalid syntax: '{c}'"),
            _ => format!("invalid character '{c}' (U+{:04X})", u32::from(c)),
        };
        let hint = match c {
            '“' | '”' | '„' | '‘' | '’' => "write \" or ' around texts".to_owned(),
            '\\' => "a line goes on in the next one where `\\` is its last character".to_owned(),
            _ => "take it away".to_owned(),
        };
        Some(Mistake { at: at..at + c.len_utf8(), message, hint })
    }
}

/// The words of a program, by lines.
struct Statements<'a> {
    tokens: &'a [(Token, Range<usize>)],
    text: &'a str,
}

type Words<'a> = &'a [(Token, Range<usize>)];

impl<'a> Statements<'a> {
    fn first_mistake(&self) -> Option<Mistake> {
        // The last line, if a block is to follow it.
        let mut begins: Option<Words<'a>> = None;
        for line in self.tokens.split(|(token, _)| *token == Token::Line) {
            let is_indentation = |(token, _): &&(Token, Range<usize>)| matches!(token, Token::Indent | Token::Dedent);
            let indentation = line.iter().take_while(is_indentation).count();
            let is_indented = line[..indentation].iter().any(|(token, _)| *token == Token::Indent);
            let words = &line[indentation..];
            let [first, ..] = words else { continue };
            match begins.take() {
                Some(before) if !is_indented => return Some(self.no_block(before, first.1.clone())),
                None if is_indented => {
                    let hint = "begin it in the column of the line above: no block begins there";
                    return Some(mistake_at(&first.1, "unexpected indent", hint));
                }
                _ => {}
            }
            if let Some(found) = no_colon(words).or_else(|| two_operands(words)) {
                return Some(found);
            }
            if words.last().is_some_and(|(token, _)| *token == Token::Operator(":")) {
                begins = Some(words);
            }
        }
        let before = begins?;
        let last = before.last()?.1.clone();
        Some(self.no_block(before, last))
    }

    fn no_block(&self, before: Words<'_>, at: Range<usize>) -> Mistake {
        let begun = before.first().map_or(1, |(_, range)| line(self.text, range.start));
        let what = match name(before.first()) {
            "def" => "function definition".to_owned(),
            "class" => "class definition".to_owned(),
            word => format!("'{word}' statement"),
        };
        let message = format!("expected an indented block after {what} on line {begun}");
        mistake_at(&at, &message, "indent what belongs to it, or write `pass` there")
    }
}

fn mistake_at(at: &Range<usize>, message: &str, hint: &str) -> Mistake {
    Mistake { at: at.clone(), message: message.to_owned(), hint: hint.to_owned() }
}

fn name(word: Option<&(Token, Range<usize>)>) -> &str {
    if let Some((Token::Name(name), _)) = word { name } else { "" }
}

/// What begins a block, and has no colon outside of its brackets.
fn no_colon(words: Words<'_>) -> Option<Mistake> {
    if !COMPOUND.contains(&name(words.first())) {
        return None;
    }
    let (mut depth, mut lambdas) = (0_usize, 0_usize);
    for (token, _) in words {
        match token {
            Token::Operator("(" | "[" | "{") => depth += 1,
            Token::Operator(")" | "]" | "}") => depth = depth.saturating_sub(1),
            Token::Name(name) if depth == 0 && **name == *"lambda" => lambdas += 1,
            Token::Operator(":") if depth == 0 && lambdas == 0 => return None,
            Token::Operator(":") if depth == 0 => lambdas -= 1,
            _ => {}
        }
    }
    let (_, last) = words.last()?;
    let hint = format!("`{} ..:` ends in a colon, and its block follows", name(words.first()));
    Some(mistake_at(last, "expected ':'", &hint))
}

/// Two operands with nothing between them.
fn two_operands(words: Words<'_>) -> Option<Mistake> {
    let mut depth = 0_usize;
    for (at, pair) in words.windows(2).enumerate() {
        let [(before, first), (after, second)] = pair else { continue };
        match before {
            Token::Operator("(" | "[" | "{") => depth += 1,
            Token::Operator(")" | "]" | "}") => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = match before {
            Token::Name(name) => !(WORDS.contains(&&**name) || at == 0 && SOFT.contains(&&**name)),
            Token::Constant(_) | Token::Format(_) | Token::Operator(")" | "]" | "}") => true,
            _ => false,
        };
        let begins = match after {
            Token::Name(name) => !WORDS.contains(&&**name),
            Token::Constant(_) | Token::Format(_) | Token::Operator("{") => true,
            _ => false,
        };
        // Texts in a row are one; and what stands before one may be a prefix of a later Python.
        let is_text = |token: &Token| matches!(token, Token::Constant(Constant::Text(_)) | Token::Format(_));
        let is_prefix = matches!(before, Token::Name(_)) && first.end == second.start;
        if ends && begins && !(is_text(after) && (is_text(before) || is_prefix)) {
            let both = first.start..second.end;
            return Some(if depth > 0 {
                mistake_at(&both, "invalid syntax. Perhaps you forgot a comma?", "write `,` between both")
            } else {
                mistake_at(&both, "invalid syntax", "write each statement on a line of its own")
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::mistake;

    #[test]
    fn each_is_said_as_python_says_it() {
        for (text, line, marked, message) in [
            ("x = 1\nh = net.addHost('h'\ny = f(2)\n", 2, "(", "'(' was never closed"),
            ("x = [1,\n  (2, 3]\n", 2, "]", "closing parenthesis ']' does not match opening parenthesis '('"),
            ("x = {1,\n  2)\n", 2, ")", "closing parenthesis ')' does not match opening parenthesis '{' on line 1"),
            ("f(1))\n", 1, ")", "unmatched ')'"),
            ("f('a)\n", 1, "'a)", "unterminated string literal (detected at line 1)"),
            ("x = 1\ny = '''a\nb\n", 2, "'''a", "unterminated triple-quoted string literal (detected at line 4)"),
            ("def f(a)\n    pass\n", 1, ")", "expected ':'"),
            ("for i in range(3)\n    f(i)\n", 1, ")", "expected ':'"),
            ("if a[1:2]\n    f(i)\n", 1, "]", "expected ':'"),
            ("if x:\nf(x)\n", 2, "f", "expected an indented block after 'if' statement on line 1"),
            ("def f():\n", 1, ":", "expected an indented block after function definition on line 1"),
            ("x = 1\n  y = 2\n", 2, "y", "unexpected indent"),
            ("if x:\n    y = 2\n  z = 3\n", 3, "z = 3", "unindent does not match any outer indentation level"),
            ("f(a b)\n", 1, "a b", "invalid syntax. Perhaps you forgot a comma?"),
            ("h1 = f('h1') h2 = f('h2')\n", 1, ") h2", "invalid syntax"),
            ("f(“h1”)\n", 1, "“", "invalid character '“' (U+201C)"),
            ("x = a ? b\n", 1, "?", "invalid syntax: '?'"),
        ] {
            let found = mistake(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.message.as_str(), &text[found.at.clone()]), (message, marked), "{text}");
            assert_eq!(super::line(text, found.at.start), line, "{text}");
        }
    }

    #[test]
    fn what_is_python_is_no_mistake() {
        for text in [
            "",
            "\u{feff}x = 1\n",
            "print 'a', b\nprint >>f, 'x' % y\nexec 'x'\nif 1: print \"a\"\nelse: print 'b'\nraise E, 'x'\nx = `y`\n",
            "x = 'a' 'b' \\\n  'c'\r\ny = 1 if x else 2\nz = not x in y and z is not None\r\nw = 1 + \\\r\n  2\r\n",
            "@a.b(1)\nclass T(Topo): pass\nasync def f(x: int = 1, *a, **k) -> 'x':\n\tawait g()\n\tyield x\n\treturn lambda: (yield)\n",
            "match x:\n  case [1, y]: pass\n  case A(b=1) if y: pass\ntype X = int\ntype = case = match = 3\nx: int = 3\n",
            "try:\n    f(**{'a': 1})\nexcept (A, B) as e:\n    raise\nfinally: pass\nwith a as b, c as d: pass\n",
            "for f in lambda: 1, lambda x: 2: f()\nwhile 1: x = a[1:2]; break\nassert x, 'y'\ndel x, y\nglobal z\n",
            "f\"{x[\"a\"]} {d[\"it's\"]}\"\n",
            "x = f'{a}' f'{b}' 'c'\nprint(f'{a} ' 'b')\nb = rb'x'; u = u'x'; t = t'x'\nn = 1_000 + 0x1f + 1e-3 + 0777 + 1L\n",
            "if (a and\n    b):\n  # nothing\n\n  pass\n    # odd\nx = (\n1,\n  2)\n",
            "from a import *\nfrom . import (b,\n c)\nx = ...\nx = a if b else c\nx = [i for i in y if i not in z for k in i]\n",
        ] {
            assert_eq!(mistake(text), None, "{text}");
        }
    }
}
