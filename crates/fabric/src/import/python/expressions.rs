//! Expressions of a program of Python, read from its words.

use std::ops::Range;
use std::rc::Rc;

use super::lexer::{Token, tokens};
use super::syntax::{
    Argument, Clause, Comprehension, Constant, Expression, Function, Kind, Parameter, Piece, Statement, Takes,
};

/// So deep are expressions within expressions, and so many operators stand in a row.
const DEPTH_MAX: usize = 40;

/// Operators with two operands, from those that bind least.
static BINARY: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "//", "%", "@"]];

/// Words that are no names.
const KEYWORDS: &[&str] = &[
    "and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for",
    "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "raise", "return", "while",
];

/// Its grammar is not read here.
pub struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// Where in the words of a program the reader is.
pub struct Reader<'a> {
    tokens: &'a [(Token, Range<usize>)],
    at: usize,
    depth: usize,
}

/// Words and where they are.
impl<'a> Reader<'a> {
    pub fn new(tokens: &'a [(Token, Range<usize>)]) -> Self {
        Reader { tokens, at: 0, depth: 0 }
    }

    fn token(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn go_to(&mut self, position: usize) {
        self.at = position;
    }

    pub fn skip(&mut self) {
        self.at += 1;
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// The bytes from the word at a position to the one before this.
    pub fn from(&self, position: usize) -> Range<usize> {
        let start = self.tokens.get(position).map_or(0, |(_, range)| range.start);
        let is_word =
            |(token, _): &&(Token, Range<usize>)| !matches!(token, Token::Line | Token::Indent | Token::Dedent);
        let read = self.tokens.get(position..self.at).unwrap_or_default();
        start..read.iter().rev().find(is_word).map_or(start, |(_, range)| range.end)
    }

    pub fn is(&self, token: &Token) -> bool {
        self.token() == Some(token)
    }

    pub fn accept(&mut self, token: &Token) -> bool {
        let is_it = self.is(token);
        self.at += usize::from(is_it);
        is_it
    }

    pub fn is_operator(&self, operator: &str) -> bool {
        matches!(self.token(), Some(Token::Operator(found)) if *found == operator)
    }

    pub fn accept_operator(&mut self, operator: &str) -> bool {
        let is_it = self.is_operator(operator);
        self.at += usize::from(is_it);
        is_it
    }

    /// The name that is here, a keyword or not.
    pub fn name(&self) -> Option<Rc<str>> {
        if let Some(Token::Name(name)) = self.token() { Some(name.clone()) } else { None }
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.token(), Some(Token::Name(found)) if **found == *name)
    }

    pub fn accept_name(&mut self, name: &str) -> bool {
        let is_it = self.is_name(name);
        self.at += usize::from(is_it);
        is_it
    }

    pub fn any_name(&mut self) -> Read<Rc<str>> {
        let name = self.name().filter(|name| !KEYWORDS.contains(&&**name)).ok_or(Unreadable)?;
        self.at += 1;
        Ok(name)
    }

    /// Whether a simple statement ends here.
    pub fn is_end(&self) -> bool {
        self.is_at_end() || self.is(&Token::Line) || self.is_operator(";")
    }

    pub fn skip_to_end(&mut self) {
        while !self.is_end() {
            self.at += 1;
        }
    }

    /// Goes to the line below.
    pub fn skip_line(&mut self) {
        while !self.is_at_end() && !self.accept(&Token::Line) {
            self.at += 1;
        }
    }

    /// Goes to the colon behind which a block begins: the last one of the line.
    pub fn skip_to_block(&mut self) {
        let start = self.at;
        let line = &self.tokens[start.min(self.tokens.len())..];
        let end = line.iter().position(|(token, _)| *token == Token::Line).unwrap_or(line.len());
        let colon = line[..end].iter().rposition(|(token, _)| *token == Token::Operator(":"));
        self.at = start + colon.unwrap_or(end);
    }

    /// Goes one level down, unless there are too many.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= DEPTH_MAX {
            return Err(Unreadable);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
}

/// The grammar, from what binds least.
impl Reader<'_> {
    /// One, or a tuple without brackets.
    pub fn expressions(&mut self) -> Read<Expression> {
        let first = self.item()?;
        if !self.is_operator(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept_operator(",") && !self.is_end() && !self.is_operator("=") {
            all.push(self.item()?);
        }
        Ok(Expression::Tuple(all))
    }

    /// An expression; `yield` and `*rest` are not read.
    fn item(&mut self) -> Read<Expression> {
        if self.is_operator("*") || self.is_name("yield") || self.is_name("await") {
            return Err(Unreadable);
        }
        self.expression()
    }

    pub fn expression(&mut self) -> Read<Expression> {
        self.within(|reader| {
            if reader.accept_name("lambda") {
                return reader.lambda();
            }
            let then = reader.any_of()?;
            if !reader.accept_name("if") {
                return Ok(then);
            }
            let condition = reader.any_of()?;
            if !reader.accept_name("else") {
                return Err(Unreadable);
            }
            Ok(Expression::Choice(Box::new([then, condition, reader.expression()?])))
        })
    }

    fn lambda(&mut self) -> Read<Expression> {
        let parameters = self.parameters(":", false)?;
        if !self.accept_operator(":") {
            return Err(Unreadable);
        }
        let start = self.at;
        let value = self.expression()?;
        let body = Rc::new([Statement { range: self.from(start), kind: Kind::Return(Some(value)) }]);
        Ok(Expression::Lambda(Rc::new(Function { name: "lambda".into(), parameters, body })))
    }

    /// Parameters up to what ends them.
    pub fn parameters(&mut self, end: &str, are_typed: bool) -> Read<Vec<Parameter>> {
        let mut parameters = Vec::new();
        let mut plain = Takes::One;
        while !self.is_operator(end) {
            let mut takes = plain;
            if self.accept_operator("**") {
                takes = Takes::OtherNamed;
            } else if self.accept_operator("*") {
                (takes, plain) = (Takes::Others, Takes::Named);
            }
            let is_mark = takes == Takes::Others && self.is_operator(",");
            if !is_mark && !self.accept_operator("/") {
                let name = self.any_name()?;
                if are_typed && self.accept_operator(":") {
                    self.expression()?;
                }
                let default = if self.accept_operator("=") { Some(self.expression()?) } else { None };
                parameters.push(Parameter { name, takes, default });
            }
            if !self.accept_operator(",") && !self.is_operator(end) {
                return Err(Unreadable);
            }
        }
        Ok(parameters)
    }

    fn any_of(&mut self) -> Read<Expression> {
        let mut all = vec![self.all_of()?];
        while self.accept_name("or") {
            all.push(self.all_of()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::Or(all) })
    }

    fn all_of(&mut self) -> Read<Expression> {
        let mut all = vec![self.negation()?];
        while self.accept_name("and") {
            all.push(self.negation()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::And(all) })
    }

    fn negation(&mut self) -> Read<Expression> {
        if self.accept_name("not") {
            return self.within(|reader| Ok(Expression::Unary("not", Box::new(reader.negation()?))));
        }
        let first = self.binary(0)?;
        let mut others = Vec::new();
        while let Some(operator) = self.comparison() {
            others.push((operator, self.binary(0)?));
        }
        Ok(if others.is_empty() { first } else { Expression::Compare(Box::new(first), others) })
    }

    fn comparison(&mut self) -> Option<&'static str> {
        let start = self.at;
        for operator in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.accept_operator(operator) {
                return Some(operator);
            }
        }
        if self.accept_operator("<>") {
            return Some("!=");
        }
        if self.accept_name("is") {
            return Some(if self.accept_name("not") { "!=" } else { "==" });
        }
        if self.accept_name("not") && self.accept_name("in") {
            return Some("not in");
        }
        self.at = start;
        self.accept_name("in").then_some("in")
    }

    fn binary(&mut self, level: usize) -> Read<Expression> {
        let Some(operators) = BINARY.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut count = 0;
        while let Some(operator) = operators.iter().find(|operator| self.accept_operator(operator)) {
            count += 1;
            if count > DEPTH_MAX {
                return Err(Unreadable);
            }
            let right = self.binary(level + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Read<Expression> {
        for operator in ["-", "+"] {
            if self.accept_operator(operator) {
                return self.within(|reader| Ok(Expression::Unary(operator, Box::new(reader.unary()?))));
            }
        }
        let base = self.postfix()?;
        if self.accept_operator("**") {
            let power = self.within(Self::unary)?;
            return Ok(Expression::Binary("**", Box::new(base), Box::new(power)));
        }
        Ok(base)
    }

    /// An atom with its attributes, calls and subscripts.
    pub fn postfix(&mut self) -> Read<Expression> {
        let mut value = self.within(Self::atom)?;
        for _ in 0..DEPTH_MAX {
            value = if self.accept_operator(".") {
                Expression::Attribute(Box::new(value), self.any_name()?)
            } else if self.accept_operator("(") {
                let arguments = self.within(Self::arguments)?;
                Expression::Call(Box::new(value), arguments)
            } else if self.accept_operator("[") {
                self.within(|reader| reader.subscript(value))?
            } else {
                return Ok(value);
            };
        }
        Err(Unreadable)
    }

    fn subscript(&mut self, of: Expression) -> Read<Expression> {
        let mut parts: [Option<Box<Expression>>; 3] = [None, None, None];
        let mut part = 0;
        while !self.accept_operator("]") {
            if self.accept_operator(":") {
                part += 1;
            } else if part == 0 && parts[0].is_none() {
                let index = self.expressions_until("]")?;
                if self.accept_operator("]") {
                    return Ok(Expression::Index(Box::new(of), Box::new(index)));
                }
                parts[0] = Some(Box::new(index));
            } else {
                *parts.get_mut(part).filter(|part| part.is_none()).ok_or(Unreadable)? =
                    Some(Box::new(self.expression()?));
            }
        }
        Ok(Expression::Slice(Box::new(of), parts))
    }

    /// One, or a tuple without brackets that something ends.
    fn expressions_until(&mut self, end: &str) -> Read<Expression> {
        let first = self.item()?;
        if !self.is_operator(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept_operator(",") && !self.is_operator(end) {
            all.push(self.item()?);
        }
        Ok(Expression::Tuple(all))
    }

    fn arguments(&mut self) -> Read<Vec<Argument>> {
        let mut arguments = Vec::new();
        while !self.accept_operator(")") {
            let argument = if self.accept_operator("**") {
                Argument::OtherNamed(self.expression()?)
            } else if self.accept_operator("*") {
                Argument::Others(self.expression()?)
            } else {
                match self.expression()? {
                    Expression::Name(name) if self.accept_operator("=") => Argument::Named(name, self.expression()?),
                    value if self.is_name("for") => Argument::One(self.comprehension(None, value)?),
                    value => Argument::One(value),
                }
            };
            arguments.push(argument);
            if !self.accept_operator(",") && !self.is_operator(")") {
                return Err(Unreadable);
            }
        }
        Ok(arguments)
    }

    fn atom(&mut self) -> Read<Expression> {
        if self.accept_operator("(") {
            return self.bracketed(")");
        }
        if self.accept_operator("[") {
            return self.bracketed("]");
        }
        if self.accept_operator("{") {
            return self.braced();
        }
        match self.token() {
            Some(Token::Constant(Constant::Text(_)) | Token::Format(_)) => self.text(),
            Some(Token::Constant(constant)) => {
                self.at += 1;
                Ok(Expression::Constant(constant.clone()))
            }
            _ => Ok(Expression::Name(self.any_name()?)),
        }
    }

    /// A list, a tuple, or a comprehension.
    fn bracketed(&mut self, end: &str) -> Read<Expression> {
        let mut all = Vec::new();
        let mut is_tuple = false;
        while !self.accept_operator(end) {
            let value = self.item()?;
            if all.is_empty() && self.is_name("for") {
                let value = self.comprehension(None, value)?;
                return if self.accept_operator(end) { Ok(value) } else { Err(Unreadable) };
            }
            all.push(value);
            is_tuple |= self.is_operator(",");
            if !self.accept_operator(",") && !self.is_operator(end) {
                return Err(Unreadable);
            }
        }
        Ok(match end {
            "]" => Expression::List(all),
            _ if all.len() == 1 && !is_tuple => all.remove(0),
            _ => Expression::Tuple(all),
        })
    }

    /// A dictionary, a set (which is a list here), or a comprehension.
    fn braced(&mut self) -> Read<Expression> {
        let (mut pairs, mut items) = (Vec::new(), Vec::new());
        while !self.accept_operator("}") {
            if self.accept_operator("**") {
                pairs.push((None, self.expression()?));
            } else {
                let first = self.item()?;
                let value = if self.accept_operator(":") { Some(self.expression()?) } else { None };
                if self.is_name("for") {
                    let made = match value {
                        Some(value) => self.comprehension(Some(first), value)?,
                        None => self.comprehension(None, first)?,
                    };
                    return if self.accept_operator("}") { Ok(made) } else { Err(Unreadable) };
                }
                match value {
                    Some(value) => pairs.push((Some(first), value)),
                    None => items.push(first),
                }
            }
            if !self.accept_operator(",") && !self.is_operator("}") {
                return Err(Unreadable);
            }
        }
        Ok(if items.is_empty() { Expression::Dict(pairs) } else { Expression::List(items) })
    }

    fn comprehension(&mut self, key: Option<Expression>, value: Expression) -> Read<Expression> {
        let mut clauses = Vec::new();
        loop {
            if self.accept_name("for") {
                let target = self.targets()?;
                if !self.accept_name("in") {
                    return Err(Unreadable);
                }
                clauses.push(Clause::For(target, self.any_of()?));
            } else if self.accept_name("if") {
                clauses.push(Clause::If(self.any_of()?));
            } else {
                break;
            }
            if clauses.len() > DEPTH_MAX {
                return Err(Unreadable);
            }
        }
        Ok(Expression::Comprehension(Box::new(Comprehension { key, value, clauses })))
    }

    /// What a loop assigns to.
    pub fn targets(&mut self) -> Read<Expression> {
        let mut all = vec![self.postfix()?];
        let mut is_tuple = false;
        while self.accept_operator(",") {
            is_tuple = true;
            if self.is_name("in") {
                break;
            }
            all.push(self.postfix()?);
        }
        Ok(if is_tuple { Expression::Tuple(all) } else { all.remove(0) })
    }

    /// Texts that stand beside each other are one.
    fn text(&mut self) -> Read<Expression> {
        let mut pieces = Vec::new();
        while let Some(token) = self.token() {
            match token {
                Token::Constant(Constant::Text(text)) => pieces.push(Piece::Text(text.to_string())),
                Token::Format(text) => self.within(|reader| reader.pieces(text, &mut pieces))?,
                _ => break,
            }
            self.at += 1;
        }
        let is_plain = pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
        if !is_plain {
            return Ok(Expression::Format(pieces));
        }
        let plain = |piece: Piece| if let Piece::Text(text) = piece { text } else { String::new() };
        let text: String = pieces.into_iter().map(plain).collect();
        Ok(Expression::Constant(Constant::Text(text.into())))
    }

    /// The pieces of an f-string.
    fn pieces(&self, text: &str, pieces: &mut Vec<Piece>) -> Read<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let mut before = rest[..at].to_owned();
            let mark = &rest[at..=at];
            if rest[at + 1..].starts_with(mark) {
                before.push_str(mark);
                pieces.push(Piece::Text(before));
                rest = &rest[at + 2..];
                continue;
            }
            if mark == "}" {
                return Err(Unreadable);
            }
            pieces.push(Piece::Text(before));
            let inside = &rest[at + 1..];
            let (length, has_format) = value_length(inside).ok_or(Unreadable)?;
            let value = inside[..length].trim_end_matches("!s").trim_end_matches("!r");
            let value = value.strip_suffix('=').unwrap_or(value);
            let behind = &inside[length..];
            let end = behind.find('}').ok_or(Unreadable)?;
            let tokens = tokens(value.trim());
            let mut reader = Reader { tokens: &tokens, at: 0, depth: self.depth };
            let value = reader.expressions()?;
            if !reader.is_end() {
                return Err(Unreadable);
            }
            pieces.push(Piece::Value(
                value,
                behind[usize::from(has_format)..end.max(usize::from(has_format))].to_owned(),
            ));
            rest = &behind[end + 1..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(())
    }
}

/// How long the value at the beginning of braces of an f-string is, and whether a format follows.
fn value_length(text: &str) -> Option<(usize, bool)> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, c) in text.char_indices() {
        if let Some(mark) = quote {
            quote = quote.filter(|_| c != mark);
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            '}' if depth == 0 => return Some((at, false)),
            ':' if depth == 0 => return Some((at, true)),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}
