//! A part of Python: what programs that make topologies are written in. Functions, classes, loops, lists and texts are there; of the machine and of Python's library there is nothing,
//! so whatever a program says, it reads no file and reaches nobody. What is not known (an argument of the command line, a random number) stays a value of its own, which decides nothing.
//!
//! Always: a program ends, after so many steps and at so much depth; and what cannot be read is one statement, and ends nothing else.

mod builtins;
mod evaluate;
mod expressions;
mod lexer;
mod machine;
mod mistakes;
mod names;
mod operators;
mod parser;
mod run;
mod syntax;
mod value;

pub(super) use machine::{Fault, Library, LibraryCall, Machine, Outcome, Stop};
pub(super) use mistakes::{Mistake, mistake};
pub(super) use names::Undefined;
pub(super) use operators::written;
pub(super) use parser::parse;
pub(super) use value::{Arguments, BoundValue, Heap, Value, number, whole};
