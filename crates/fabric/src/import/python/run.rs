//! Statements, one after the other. What is not known decides nothing: loops over it and branches behind it are skipped.

use std::rc::Rc;

use super::machine::{Machine, Run, Stop};
use super::syntax::{Block, Class, Expression, Function, Kind, Statement};
use super::value::{ClassValue, Value};

/// How a statement ends.
pub enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

impl Machine<'_> {
    /// Runs statements of the file or of what is known to all.
    pub fn run_block(&mut self, block: &Block) -> Run<Flow> {
        for statement in block.iter() {
            match self.within(|machine| machine.run_statement(statement))? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// Runs the body of a function; its value is what it returns.
    pub fn run_function(&mut self, code: &Rc<Function>) -> Run<Value> {
        Ok(match self.run_block(&code.body)? {
            Flow::Return(value) => value,
            _ => Value::None,
        })
    }

    fn run_statement(&mut self, statement: &Statement) -> Run<Flow> {
        if !self.is_prelude && statement.range.end > 0 {
            self.at = statement.range.start;
        }
        match &statement.kind {
            Kind::Nothing => {}
            Kind::Unreadable => self.leave_out(statement.range.clone(), "is not understood"),
            Kind::Value(value) => {
                self.evaluate(value)?;
            }
            Kind::Assign(targets, value) => {
                let value = self.evaluate(value)?;
                for target in targets {
                    self.assign(target, value.clone())?;
                }
            }
            Kind::Change(target, operator, value) => self.change(target, operator, value)?,
            Kind::If(condition, then, otherwise) => {
                let value = self.evaluate(condition)?;
                let truth = self.heap.truth(&value);
                if truth.is_none() {
                    let why = "depends on what is not known here, and is taken as false: write it out";
                    self.leave_out(statement.range.clone(), why);
                }
                let block = if truth == Some(true) { then } else { otherwise };
                if truth.is_none() {
                    return self.in_doubt(|machine| machine.run_block(block));
                }
                return self.run_block(block);
            }
            Kind::For(target, over, body) => return self.run_loop(statement, target, over, body),
            Kind::While(condition, body) => return self.run_while(statement, condition, body),
            Kind::Try(blocks) => {
                for block in blocks {
                    match self.in_doubt(|machine| machine.run_block(block))? {
                        Flow::Next => {}
                        other => return Ok(other),
                    }
                }
                // What stands behind `except` is not run.
                self.go_on_with_gaps();
            }
            Kind::With(items, body) => {
                for (value, target) in items {
                    let value = self.evaluate(value)?;
                    if let Some(target) = target {
                        self.assign(target, value)?;
                    }
                }
                return self.run_block(body);
            }
            Kind::Define(code) => {
                let function = self.function(code)?;
                self.set(&code.name, function);
            }
            Kind::Class(class) => self.define(class)?,
            Kind::Return(value) => {
                let value = value.as_ref().map(|value| self.evaluate(value)).transpose()?;
                return Ok(Flow::Return(value.unwrap_or(Value::None)));
            }
            Kind::Break => return Ok(Flow::Break),
            Kind::Continue => return Ok(Flow::Continue),
            Kind::Raise => {
                self.leave_out(statement.range.clone(), "ends the function");
                return Ok(Flow::Return(Value::Unknown));
            }
            Kind::Outside(names) => self.outside(names),
            Kind::Import(names, is_from) => {
                for (name, here) in names {
                    if *is_from {
                        if name != here {
                            let value = self.lookup(name);
                            self.set(here, value);
                        }
                    } else {
                        self.set(here, Value::Module);
                    }
                }
            }
        }
        Ok(Flow::Next)
    }

    fn change(&mut self, target: &Expression, operator: &str, value: &Expression) -> Run<()> {
        let (before, value) = (self.evaluate(target)?, self.evaluate(value)?);
        // A list is the same one afterwards.
        if let (Value::List(at), "+", Some(items)) = (&before, operator, self.heap.items(&value)) {
            self.heap.lists[*at].extend(items);
            return Ok(());
        }
        let value = self.binary(operator, &before, &value);
        self.assign(target, value)
    }

    fn run_loop(&mut self, statement: &Statement, target: &Expression, over: &Expression, body: &Block) -> Run<Flow> {
        let over = self.evaluate(over)?;
        let Some(items) = self.heap.items(&over) else {
            let why = "goes over what is not known here, and is not run: write it out";
            self.leave_out(statement.range.clone(), why);
            return Ok(Flow::Next);
        };
        if !self.heap.spend(items.len()) {
            return Err(Stop::TooLong);
        }
        for item in items {
            self.assign(target, item)?;
            match self.run_block(body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                returned @ Flow::Return(_) => return Ok(returned),
            }
        }
        Ok(Flow::Next)
    }

    fn run_while(&mut self, statement: &Statement, condition: &Expression, body: &Block) -> Run<Flow> {
        loop {
            let value = self.evaluate(condition)?;
            match self.heap.truth(&value) {
                Some(true) => {}
                Some(false) => return Ok(Flow::Next),
                None => {
                    let why = "goes on as long as what is not known here, and is not run: write it out";
                    self.leave_out(statement.range.clone(), why);
                    return Ok(Flow::Next);
                }
            }
            match self.run_block(body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                returned @ Flow::Return(_) => return Ok(returned),
            }
        }
    }

    fn outside(&mut self, names: &[Rc<str>]) {
        for name in names {
            let mut scope = self.scopes[self.scope].parent;
            while let Some(at) = scope
                && !self.scopes[at].variables.contains_key(name)
            {
                scope = self.scopes[at].parent;
            }
            // A global one that has no value yet is the file's.
            let scope = scope.unwrap_or(1.min(self.scopes.len() - 1));
            let here = self.scope;
            self.scopes[here].outside.insert(name.clone(), scope);
        }
    }

    fn define(&mut self, class: &Rc<Class>) -> Run<()> {
        let mut bases = Vec::new();
        for base in &class.bases {
            bases.push(self.evaluate(base)?);
        }
        let parent = self.scope;
        let (_, scope) = self.in_scope(parent, |machine| {
            let here = machine.scope;
            machine.scopes[here].is_class = true;
            machine.run_block(&class.body)
        })?;
        let attributes = std::mem::take(&mut self.scopes[scope].variables);
        let functions: Vec<usize> = attributes
            .values()
            .filter_map(|value| if let Value::Function(at) = value { Some(*at) } else { None })
            .collect();
        let text = (class.range.start, class.range.end);
        let text = if self.is_prelude { (0, 0) } else { text };
        let at = self.heap.class(ClassValue { bases, attributes, text });
        for function in functions {
            self.heap.functions[function].class = Some(at);
            // What the class has is not seen by its methods.
            self.heap.functions[function].scope = parent;
        }
        self.set(&class.name, Value::Class(at));
        Ok(())
    }
}
