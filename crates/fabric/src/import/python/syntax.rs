//! What a program of Python says, as a tree.

use std::ops::Range;
use std::rc::Rc;

/// Statements one after the other.
pub type Block = Rc<[Statement]>;

/// A statement, and where it stands.
#[derive(Debug)]
pub struct Statement {
    /// Its text, in bytes of the source.
    pub range: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    /// One whose grammar is not read here.
    Unreadable,
    /// One that changes nothing here.
    Nothing,
    Value(Expression),
    /// Each of the targets gets the value.
    Assign(Vec<Expression>, Expression),
    /// `target += value`, with the operator.
    Change(Expression, &'static str, Expression),
    If(Expression, Block, Block),
    For(Expression, Expression, Block),
    While(Expression, Block),
    /// What is done whatever happens, one after the other: the body, `else` and `finally` of `try`.
    Try(Vec<Block>),
    With(Vec<(Expression, Option<Expression>)>, Block),
    Define(Rc<Function>),
    Class(Rc<Class>),
    Return(Option<Expression>),
    Break,
    Continue,
    Raise,
    /// Names that belong to a scope outside.
    Outside(Vec<Rc<str>>),
    /// Names, and what each is called here.
    Import(Vec<(Rc<str>, Rc<str>)>, bool),
}

#[derive(Debug)]
pub struct Function {
    pub name: Rc<str>,
    pub parameters: Vec<Parameter>,
    pub body: Block,
}

#[derive(Debug)]
pub struct Parameter {
    pub name: Rc<str>,
    pub takes: Takes,
    pub default: Option<Expression>,
}

/// Which arguments a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    One,
    /// Only by its name.
    Named,
    /// `*args`
    Others,
    /// `**kwargs`
    OtherNamed,
}

#[derive(Debug)]
pub struct Class {
    pub name: Rc<str>,
    pub bases: Vec<Expression>,
    pub body: Block,
    /// Its text, in bytes of the source.
    pub range: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
}

#[derive(Debug)]
pub enum Expression {
    /// One that is not read here.
    Unknown,
    Constant(Constant),
    Name(Rc<str>),
    /// An f-string.
    Format(Vec<Piece>),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    /// Keys with values; without a key: another dictionary's.
    Dict(Vec<(Option<Expression>, Expression)>),
    Comprehension(Box<Comprehension>),
    Attribute(Box<Expression>, Rc<str>),
    Index(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, [Option<Box<Expression>>; 3]),
    Call(Box<Expression>, Vec<Argument>),
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Compare(Box<Expression>, Vec<(&'static str, Expression)>),
    /// The first that is false, or else the last.
    And(Vec<Expression>),
    /// The first that is true, or else the last.
    Or(Vec<Expression>),
    /// `then if condition else otherwise`
    Choice(Box<[Expression; 3]>),
    Lambda(Rc<Function>),
}

/// A piece of an f-string: text, or a value and how it is written.
#[derive(Debug)]
pub enum Piece {
    Text(String),
    Value(Expression, String),
}

#[derive(Debug)]
pub struct Comprehension {
    /// The key, in a dictionary's.
    pub key: Option<Expression>,
    pub value: Expression,
    pub clauses: Vec<Clause>,
}

#[derive(Debug)]
pub enum Clause {
    For(Expression, Expression),
    If(Expression),
}

#[derive(Debug)]
pub enum Argument {
    One(Expression),
    Named(Rc<str>, Expression),
    Others(Expression),
    OtherNamed(Expression),
}
