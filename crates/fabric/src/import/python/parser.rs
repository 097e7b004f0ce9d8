//! Statements of a program of Python. What cannot be read is one statement, and ends nothing else.

use std::rc::Rc;

use super::expressions::{Reader, Unreadable};
use super::lexer::{Token, tokens};
use super::syntax::{Block, Class, Expression, Function, Kind, Parameter, Statement};

/// So deep are blocks within blocks.
const BLOCKS_MAX: usize = 40;

/// What changes a variable, and by which operator.
const CHANGES: [(&str, &str); 7] =
    [("+=", "+"), ("-=", "-"), ("*=", "*"), ("/=", "/"), ("//=", "//"), ("%=", "%"), ("**=", "**")];

/// The statements of a program.
pub fn parse(text: &str) -> Block {
    let tokens = tokens(text);
    let mut parser = Parser { reader: Reader::new(&tokens), blocks: 0 };
    let mut statements = Vec::new();
    while !parser.reader.is_at_end() {
        let before = parser.reader.position();
        parser.statements(&mut statements);
        if parser.reader.position() == before {
            parser.reader.skip();
        }
    }
    statements.into()
}

struct Parser<'a> {
    reader: Reader<'a>,
    blocks: usize,
}

impl Parser<'_> {
    /// Reads statements until the block ends.
    fn statements(&mut self, into: &mut Vec<Statement>) {
        while !self.reader.is_at_end() && !self.reader.is(&Token::Dedent) {
            if self.reader.accept(&Token::Line) || self.reader.accept_operator(";") {
                continue;
            }
            if self.reader.is(&Token::Indent) {
                // What no statement begins.
                let block = self.block_within();
                let range = self.reader.from(self.reader.position());
                into.push(Statement { range, kind: Kind::Try(vec![block]) });
                continue;
            }
            let start = self.reader.position();
            let kind = self.statement().unwrap_or_else(|Unreadable| {
                self.reader.go_to(start);
                self.skip_statement();
                Kind::Unreadable
            });
            into.push(Statement { range: self.reader.from(start), kind });
        }
    }

    /// Goes behind a statement that cannot be read, with the block that it has.
    fn skip_statement(&mut self) {
        self.reader.skip_line();
        if self.reader.is(&Token::Indent) {
            self.skip_block();
        }
    }

    /// Goes behind a block, with those within.
    fn skip_block(&mut self) {
        let mut depth = 0_usize;
        loop {
            if self.reader.accept(&Token::Indent) {
                depth += 1;
            } else if self.reader.accept(&Token::Dedent) {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            } else if self.reader.is_at_end() {
                return;
            } else {
                self.reader.skip();
            }
        }
    }

    fn block_within(&mut self) -> Block {
        let mut statements = Vec::new();
        if self.blocks >= BLOCKS_MAX {
            let start = self.reader.position();
            self.skip_block();
            statements.push(Statement { range: self.reader.from(start), kind: Kind::Unreadable });
            return statements.into();
        }
        self.reader.accept(&Token::Indent);
        self.blocks += 1;
        self.statements(&mut statements);
        self.blocks -= 1;
        self.reader.accept(&Token::Dedent);
        statements.into()
    }

    /// What is behind the colon of a compound statement: on the same line, or indented.
    fn block(&mut self) -> Result<Block, Unreadable> {
        if !self.reader.accept_operator(":") {
            return Err(Unreadable);
        }
        if self.reader.accept(&Token::Line) {
            return Ok(if self.reader.is(&Token::Indent) { self.block_within() } else { Rc::new([]) });
        }
        let mut statements = Vec::new();
        while !self.reader.accept(&Token::Line) && !self.reader.is_at_end() {
            let start = self.reader.position();
            let kind = self.simple()?;
            statements.push(Statement { range: self.reader.from(start), kind });
            self.reader.accept_operator(";");
        }
        Ok(statements.into())
    }

    /// The expression of a compound statement; one that cannot be read is not known.
    fn condition(&mut self) -> Expression {
        let start = self.reader.position();
        match self.reader.expression() {
            Ok(condition) if self.reader.is_operator(":") => condition,
            _ => {
                self.reader.go_to(start);
                self.reader.skip_to_block();
                Expression::Unknown
            }
        }
    }

    fn statement(&mut self) -> Result<Kind, Unreadable> {
        let word = self.reader.name().unwrap_or_default();
        match &*word {
            "if" | "while" | "for" | "def" | "class" | "try" | "with" | "async" => self.compound(&word),
            _ if self.reader.is_operator("@") => {
                self.reader.skip_line();
                Ok(Kind::Nothing)
            }
            _ => self.simple(),
        }
    }

    fn compound(&mut self, word: &str) -> Result<Kind, Unreadable> {
        let start = self.reader.position();
        self.reader.skip();
        Ok(match word {
            "if" => self.choice()?,
            "while" => {
                let condition = self.condition();
                let body = self.block()?;
                self.block_of("else")?;
                Kind::While(condition, body)
            }
            "for" => {
                let target = self.reader.targets()?;
                if !self.reader.accept_name("in") {
                    return Err(Unreadable);
                }
                let over = self.condition();
                let body = self.block()?;
                self.block_of("else")?;
                Kind::For(target, over, body)
            }
            "def" => {
                let name = self.reader.any_name()?;
                let parameters = self.parameters()?;
                if self.reader.accept_operator("->") {
                    self.reader.expression()?;
                }
                let body = self.block()?;
                Kind::Define(Rc::new(Function { name, parameters, body }))
            }
            "class" => self.class(start)?,
            "try" => self.attempt()?,
            "with" => {
                let mut items = Vec::new();
                loop {
                    let value = self.reader.expression()?;
                    let target = if self.reader.accept_name("as") { Some(self.reader.postfix()?) } else { None };
                    items.push((value, target));
                    if !self.reader.accept_operator(",") {
                        break;
                    }
                }
                Kind::With(items, self.block()?)
            }
            _ => return Err(Unreadable),
        })
    }

    /// What is behind `if` or `elif`.
    fn choice(&mut self) -> Result<Kind, Unreadable> {
        let mut choices = Vec::new();
        loop {
            let start = self.reader.position();
            let condition = self.condition();
            choices.push((condition, self.block()?, start));
            if !self.reader.accept_name("elif") {
                break;
            }
        }
        let mut otherwise = self.block_of("else")?.unwrap_or_else(|| Rc::new([]));
        // Each is within the one before.
        if choices.len() > BLOCKS_MAX {
            return Err(Unreadable);
        }
        while choices.len() > 1
            && let Some((condition, then, start)) = choices.pop()
        {
            let range = self.reader.from(start);
            otherwise = Rc::new([Statement { range, kind: Kind::If(condition, then, otherwise) }]);
        }
        let (condition, then, _) = choices.pop().ok_or(Unreadable)?;
        Ok(Kind::If(condition, then, otherwise))
    }

    fn block_of(&mut self, word: &str) -> Result<Option<Block>, Unreadable> {
        if self.reader.accept_name(word) { self.block().map(Some) } else { Ok(None) }
    }

    fn attempt(&mut self) -> Result<Kind, Unreadable> {
        let mut blocks = vec![self.block()?];
        while self.reader.accept_name("except") {
            self.reader.skip_to_block();
            self.block()?;
        }
        blocks.extend(self.block_of("else")?);
        blocks.extend(self.block_of("finally")?);
        Ok(Kind::Try(blocks))
    }

    fn class(&mut self, start: usize) -> Result<Kind, Unreadable> {
        let name = self.reader.any_name()?;
        let mut bases = Vec::new();
        if self.reader.accept_operator("(") {
            while !self.reader.accept_operator(")") {
                let base = self.reader.expression()?;
                if self.reader.accept_operator("=") {
                    self.reader.expression()?;
                } else {
                    bases.push(base);
                }
                if !self.reader.accept_operator(",") && !self.reader.is_operator(")") {
                    return Err(Unreadable);
                }
            }
        }
        let body = self.block()?;
        Ok(Kind::Class(Rc::new(Class { name, bases, body, range: self.reader.from(start) })))
    }

    fn parameters(&mut self) -> Result<Vec<Parameter>, Unreadable> {
        if !self.reader.accept_operator("(") {
            return Err(Unreadable);
        }
        let parameters = self.reader.parameters(")", true)?;
        if self.reader.accept_operator(")") { Ok(parameters) } else { Err(Unreadable) }
    }

    fn simple(&mut self) -> Result<Kind, Unreadable> {
        let word = self.reader.name().unwrap_or_default();
        let kind = match &*word {
            "pass" | "assert" | "del" | "exec" => {
                self.reader.skip_to_end();
                Kind::Nothing
            }
            "global" | "nonlocal" => {
                self.reader.skip();
                let mut names = vec![self.reader.any_name()?];
                while self.reader.accept_operator(",") {
                    names.push(self.reader.any_name()?);
                }
                Kind::Outside(names)
            }
            "import" | "from" => self.import()?,
            "return" => {
                self.reader.skip();
                Kind::Return(if self.reader.is_end() { None } else { Some(self.reader.expressions()?) })
            }
            "break" | "continue" | "raise" => {
                self.reader.skip_to_end();
                match &*word {
                    "break" => Kind::Break,
                    "continue" => Kind::Continue,
                    _ => Kind::Raise,
                }
            }
            _ => self.assignment()?,
        };
        if self.reader.is_end() { Ok(kind) } else { Err(Unreadable) }
    }

    fn assignment(&mut self) -> Result<Kind, Unreadable> {
        let mut value = self.reader.expressions()?;
        if self.reader.accept_operator(":") {
            // A type.
            self.reader.expression()?;
        }
        for (mark, operator) in CHANGES {
            if self.reader.accept_operator(mark) {
                return Ok(Kind::Change(value, operator, self.reader.expressions()?));
            }
        }
        let mut targets = Vec::new();
        while self.reader.accept_operator("=") {
            targets.push(value);
            value = self.reader.expressions()?;
        }
        Ok(if targets.is_empty() { Kind::Value(value) } else { Kind::Assign(targets, value) })
    }

    fn import(&mut self) -> Result<Kind, Unreadable> {
        let is_from = self.reader.accept_name("from");
        if is_from {
            while !self.reader.accept_name("import") {
                if self.reader.is_end() {
                    return Err(Unreadable);
                }
                self.reader.skip();
            }
        } else {
            self.reader.skip();
        }
        self.reader.accept_operator("(");
        let mut names = Vec::new();
        while let Ok(first) = self.reader.any_name() {
            let mut name = first.clone();
            while self.reader.accept_operator(".") {
                name = self.reader.any_name()?;
            }
            let here = if self.reader.accept_name("as") {
                self.reader.any_name()?
            } else if is_from {
                name.clone()
            } else {
                first
            };
            names.push((name, here));
            self.reader.accept_operator(",");
        }
        self.reader.accept_operator("*");
        self.reader.accept_operator(")");
        Ok(Kind::Import(names, is_from))
    }
}
