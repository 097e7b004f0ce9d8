//! Words of a program of Python, with its lines and their indentation. Any text has some.

use std::ops::Range;
use std::rc::Rc;

use super::mistakes::Mistake;
use super::syntax::Constant;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(Rc<str>),
    Constant(Constant),
    /// Text of an f-string, before what is in its braces is read.
    Format(Rc<str>),
    Operator(&'static str),
    /// The end of a logical line.
    Line,
    Indent,
    Dedent,
    /// None of Python's.
    Other,
}

/// The longest come first.
const OPERATORS: &[&str] = &[
    "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=", ">=", "<>", "->", ":=", "+=", "-=", "*=", "/=", "%=", "|=",
    "&=", "^=", "**", "//", ">>", "<<", "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "=", "+", "-", "*", "/", "%",
    "<", ">", "|", "&", "^", "~", "@",
];

/// A column of a tabulator is a multiple of this.
const TAB: usize = 8;

pub fn tokens(text: &str) -> Vec<(Token, Range<usize>)> {
    Lexer::of(text).tokens
}

/// The words, and what of them Python does not take for words, in the order in which it would say so.
pub fn tokens_and_mistakes(text: &str) -> (Vec<(Token, Range<usize>)>, Vec<Mistake>) {
    let lexer = Lexer::of(text);
    (lexer.tokens, lexer.mistakes)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Brackets that are open, and where.
    brackets: Vec<(&'static str, usize)>,
    indents: Vec<usize>,
    tokens: Vec<(Token, Range<usize>)>,
    mistakes: Vec<Mistake>,
}

impl<'a> Lexer<'a> {
    fn of(text: &'a str) -> Self {
        let (tokens, mistakes) = (Vec::new(), Vec::new());
        let mut lexer = Lexer { text, at: 0, brackets: Vec::new(), indents: vec![0], tokens, mistakes };
        lexer.run();
        lexer
    }

    fn run(&mut self) {
        self.begin_line();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let c = rest.chars().next().unwrap_or('\n');
            match c {
                '\n' if self.brackets.is_empty() => {
                    self.push(Token::Line, 1);
                    self.begin_line();
                }
                '\\' if rest[1..].starts_with('\n') => self.at += 2,
                '\\' if rest[1..].starts_with("\r\n") => self.at += 3,
                '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
                _ if c.is_whitespace() => self.at += c.len_utf8(),
                '"' | '\'' => self.quoted(0),
                _ if c.is_ascii_digit() => self.number(),
                '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
                _ if c.is_alphabetic() || c == '_' => self.name(),
                _ => self.operator(c),
            }
        }
        if let Some((bracket, at)) = self.brackets.first() {
            self.mistakes.push(Mistake::never_closed(bracket, *at));
        }
        self.push(Token::Line, 0);
        while self.indents.pop().is_some_and(|indent| indent > 0) {
            self.push(Token::Dedent, 0);
        }
    }

    fn push(&mut self, token: Token, length: usize) {
        self.tokens.push((token, self.at..self.at + length));
        self.at += length;
    }

    /// Reads the indentation of the next line that has something.
    fn begin_line(&mut self) {
        let indentation = loop {
            let rest = &self.text[self.at..];
            let line = rest.split('\n').next().unwrap_or_default();
            let statement = line.trim_start();
            if !statement.is_empty() && !statement.starts_with('#') {
                break &line[..line.len() - statement.len()];
            }
            if line.len() == rest.len() {
                self.at = self.text.len();
                return;
            }
            self.at += line.len() + 1;
        };
        let next = |column: usize, c: char| if c == '\t' { (column / TAB + 1) * TAB } else { column + 1 };
        let column = indentation.chars().fold(0, next);
        self.at += indentation.len();
        if column > self.indents.last().copied().unwrap_or_default() {
            self.indents.push(column);
            self.push(Token::Indent, 0);
        }
        while self.indents.last().is_some_and(|indent| *indent > column) {
            self.indents.pop();
            self.push(Token::Dedent, 0);
        }
        if self.indents.last().is_some_and(|indent| *indent != column) {
            let line = self.text[self.at..].split('\n').next().unwrap_or_default().trim_end();
            self.mistakes.push(Mistake::dedent(self.at..self.at + line.len()));
        }
    }

    fn name(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..length];
        let is_prefix = name.len() <= 2 && name.chars().all(|c| "rRbBuUfF".contains(c));
        if is_prefix && rest[length..].starts_with(['"', '\'']) {
            return self.quoted(length);
        }
        let token = match name {
            "None" => Token::Constant(Constant::None),
            "True" => Token::Constant(Constant::Bool(true)),
            "False" => Token::Constant(Constant::Bool(false)),
            _ => Token::Name(name.into()),
        };
        self.push(token, length);
    }

    fn operator(&mut self, c: char) {
        let rest = &self.text[self.at..];
        let Some(operator) = OPERATORS.iter().copied().find(|operator| rest.starts_with(operator)) else {
            self.mistakes.extend(Mistake::character(c, self.at));
            return self.push(Token::Other, c.len_utf8());
        };
        match operator {
            "(" | "[" | "{" => self.brackets.push((operator, self.at)),
            ")" | "]" | "}" => {
                let open = self.brackets.pop();
                self.mistakes.extend(Mistake::closing(operator, self.at, open, self.text));
            }
            _ => {}
        }
        self.push(Token::Operator(operator), operator.len());
    }

    fn number(&mut self) {
        let rest = &self.text[self.at..];
        let mut length = 0;
        let mut before = ' ';
        for c in rest.chars() {
            let is_sign = "+-".contains(c) && "eE".contains(before) && !rest.starts_with("0x");
            if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || is_sign) {
                break;
            }
            (before, length) = (c, length + 1);
        }
        let digits = rest[..length].replace('_', "");
        let whole = match digits.get(..2).map(str::to_lowercase).as_deref() {
            Some("0x") => i64::from_str_radix(&digits[2..], 16).ok(),
            Some("0b") => i64::from_str_radix(&digits[2..], 2).ok(),
            Some("0o") => i64::from_str_radix(&digits[2..], 8).ok(),
            _ => digits.parse().ok(),
        };
        let constant = whole.map(Constant::Int).or_else(|| digits.parse().ok().map(Constant::Float));
        self.push(constant.map_or(Token::Other, Token::Constant), length);
    }

    /// Text in quotes, behind a prefix of so many letters.
    fn quoted(&mut self, prefix: usize) {
        let letters = self.text[self.at..self.at + prefix].to_lowercase();
        let rest = &self.text[self.at + prefix..];
        let quote = &rest[..1];
        let triple = quote.repeat(3);
        let mark = if rest.starts_with(&triple) { triple.as_str() } else { quote };
        let mut text = String::new();
        let mut at = mark.len();
        loop {
            let rest = &rest[at..];
            let c = rest.chars().next();
            if rest.starts_with(mark) {
                at += mark.len();
                break;
            }
            let Some(c) = c.filter(|c| *c != '\n' || mark.len() > 1) else {
                let end = self.at + prefix + at;
                self.mistakes.push(Mistake::never_ends(self.at..end, mark, letters.contains('f'), self.text));
                break;
            };
            at += c.len_utf8();
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some(next) = rest[1..].chars().next() else { break };
            at += next.len_utf8();
            match next {
                _ if letters.contains('r') => text.extend(['\\', next]),
                'n' => text.push('\n'),
                't' => text.push('\t'),
                '\n' => {}
                '\r' if rest[2..].starts_with('\n') => at += 1,
                '\\' | '\'' | '"' => text.push(next),
                _ => text.extend(['\\', next]),
            }
        }
        let token = if letters.contains('f') {
            Token::Format(text.into())
        } else {
            Token::Constant(Constant::Text(text.into()))
        };
        self.push(token, prefix + at);
    }
}
