//! The values of expressions.

#![expect(clippy::cast_possible_wrap, reason = "no list or text is so long")]

use std::rc::Rc;

use super::builtins::SPECIAL;
use super::machine::{Fault, Machine, Run};
use super::operators::{binary, compare, formatted, text_value, type_error};
use super::syntax::{Argument, Clause, Comprehension, Constant, Expression, Function, Piece};
use super::value::{Arguments, BoundValue, FunctionValue, Value, number, whole};

impl Machine<'_> {
    pub fn evaluate(&mut self, expression: &Expression) -> Run<Value> {
        self.within(|machine| machine.value_of(expression))
    }

    fn value_of(&mut self, expression: &Expression) -> Run<Value> {
        Ok(match expression {
            Expression::Unknown => Value::Unknown,
            Expression::Constant(constant) => of_constant(constant),
            Expression::Name(name) => self.variable(name),
            Expression::Format(pieces) => return self.format(pieces),
            Expression::List(items) => {
                let items = self.all(items)?;
                self.heap.list(items)
            }
            Expression::Tuple(items) => {
                let items = self.all(items)?;
                self.heap.tuple(items)
            }
            Expression::Dict(pairs) => return self.dict(pairs),
            Expression::Comprehension(comprehension) => return self.comprehension(comprehension),
            Expression::Attribute(of, name) => {
                let of = self.evaluate(of)?;
                self.attribute(&of, name)
            }
            Expression::Index(of, index) => {
                let (of, index) = (self.evaluate(of)?, self.evaluate(index)?);
                return self.index(&of, &index);
            }
            Expression::Slice(of, parts) => return self.slice(of, parts),
            Expression::Call(function, arguments) => return self.evaluate_call(function, arguments),
            Expression::Unary(operator, value) => {
                let value = self.evaluate(value)?;
                self.unary(operator, &value)
            }
            Expression::Binary(operator, a, b) => {
                let (a, b) = (self.evaluate(a)?, self.evaluate(b)?);
                self.binary(operator, &a, &b)
            }
            Expression::Compare(first, others) => return self.compare(first, others),
            Expression::And(all) => return self.first_with(all, false),
            Expression::Or(all) => return self.first_with(all, true),
            Expression::Choice(parts) => {
                let [then, condition, otherwise] = &**parts;
                let condition = self.evaluate(condition)?;
                return match self.heap.truth(&condition) {
                    Some(true) => self.evaluate(then),
                    Some(false) => self.evaluate(otherwise),
                    None => Ok(Value::Unknown),
                };
            }
            Expression::Lambda(code) => return self.function(code),
        })
    }

    /// What an operator makes of two values; of those that do not fit each other, Python makes an error.
    pub fn binary(&mut self, operator: &str, a: &Value, b: &Value) -> Value {
        if let Some(message) = type_error(operator, a, b) {
            let known = match operator {
                "+" => "`str(..)` makes a text of a number, and `int(..)` a number of a text; an f-string has both",
                _ => "`int(..)` makes a number of a text",
            };
            let word = operator.to_owned();
            self.raise_of_values(Fault { message, word, nearest: None, known: known.to_owned() });
            return Value::Unknown;
        }
        binary(&mut self.heap, operator, a, b)
    }

    fn all(&mut self, expressions: &[Expression]) -> Run<Vec<Value>> {
        expressions.iter().map(|expression| self.evaluate(expression)).collect()
    }

    /// A function as a value, with the defaults that its parameters have now.
    pub fn function(&mut self, code: &Rc<Function>) -> Run<Value> {
        let mut defaults = Vec::new();
        for parameter in &code.parameters {
            let default = parameter.default.as_ref();
            defaults.push(default.map(|default| self.evaluate(default)).transpose()?);
        }
        let function = FunctionValue { code: Rc::clone(code), defaults, scope: self.scope, class: None };
        Ok(self.heap.function(function))
    }

    fn format(&mut self, pieces: &[Piece]) -> Run<Value> {
        let mut text = String::new();
        let mut is_known = true;
        for piece in pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value(value, how) => {
                    let value = self.evaluate(value)?;
                    match formatted(&self.heap, &value, how) {
                        Some(written) => text.push_str(&written),
                        None => is_known = false,
                    }
                }
            }
        }
        Ok(if is_known { text_value(&self.heap, text) } else { Value::Unknown })
    }

    fn dict(&mut self, pairs: &[(Option<Expression>, Expression)]) -> Run<Value> {
        let dict = self.heap.dict(Vec::new());
        let Value::Dict(at) = dict else { return Ok(Value::Unknown) };
        for (key, value) in pairs {
            let key = key.as_ref().map(|key| self.evaluate(key)).transpose()?;
            let value = self.evaluate(value)?;
            match (key, value) {
                (Some(key), value) => self.heap.set(at, key, value),
                (None, Value::Dict(other)) => {
                    for (key, value) in self.heap.dicts[other].clone() {
                        self.heap.set(at, key, value);
                    }
                }
                (None, _) => {}
            }
        }
        Ok(dict)
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Run<Value> {
        let mut made = Vec::new();
        let parent = self.scope;
        let (is_known, _) = self.in_scope(parent, |machine| {
            // A comprehension in a class or a function sees what stands around it.
            machine.clauses(comprehension, &comprehension.clauses, &mut made)
        })?;
        if !is_known {
            return Ok(Value::Unknown);
        }
        if comprehension.key.is_none() {
            return Ok(self.heap.list(made.into_iter().map(|(_, value)| value).collect()));
        }
        let dict = self.heap.dict(Vec::new());
        if let Value::Dict(at) = dict {
            for (key, value) in made {
                self.heap.set(at, key, value);
            }
        }
        Ok(dict)
    }

    /// Whether everything that it goes over is known.
    fn clauses(&mut self, of: &Comprehension, clauses: &[Clause], made: &mut Vec<(Value, Value)>) -> Run<bool> {
        let Some((clause, others)) = clauses.split_first() else {
            let key = of.key.as_ref().map(|key| self.evaluate(key)).transpose()?.unwrap_or(Value::None);
            let value = self.evaluate(&of.value)?;
            made.push((key, value));
            return Ok(true);
        };
        match clause {
            Clause::If(condition) => {
                let condition = self.evaluate(condition)?;
                match self.heap.truth(&condition) {
                    Some(true) => self.within(|machine| machine.clauses(of, others, made)),
                    Some(false) => Ok(true),
                    None => Ok(false),
                }
            }
            Clause::For(target, over) => {
                let over = self.evaluate(over)?;
                let Some(items) = self.heap.items(&over) else { return Ok(false) };
                for item in items {
                    self.assign(target, item)?;
                    if !self.within(|machine| machine.clauses(of, others, made))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Gives a value to a variable, an attribute, an item, or to several of them.
    pub fn assign(&mut self, target: &Expression, value: Value) -> Run<()> {
        match target {
            Expression::Name(name) => self.set(name, value),
            Expression::Tuple(targets) | Expression::List(targets) => {
                let items = self.heap.items(&value).filter(|items| items.len() == targets.len());
                let items = items.unwrap_or_else(|| vec![Value::Unknown; targets.len()]);
                for (target, item) in targets.iter().zip(items) {
                    self.within(|machine| machine.assign(target, item))?;
                }
            }
            Expression::Attribute(of, name) => match self.evaluate(of)? {
                Value::Object(at) => {
                    self.heap.objects[at].attributes.insert(name.clone(), value);
                }
                Value::Class(at) => {
                    self.heap.classes[at].attributes.insert(name.clone(), value);
                }
                _ => {}
            },
            Expression::Index(of, index) => {
                let (of, index) = (self.evaluate(of)?, self.evaluate(index)?);
                match of {
                    Value::Dict(at) => self.heap.set(at, index, value),
                    Value::List(at) => {
                        if let Some(position) = self.position(at, &index) {
                            self.heap.lists[at][position] = value;
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The position of an item of a list by its index, which may count from the end.
    fn position(&self, list: usize, index: &Value) -> Option<usize> {
        let length = self.heap.lists[list].len();
        let index = whole(index)?;
        let index = if index < 0 { index.checked_add(length as i64)? } else { index };
        usize::try_from(index).ok().filter(|index| *index < length)
    }

    fn index(&mut self, of: &Value, index: &Value) -> Run<Value> {
        Ok(match of {
            Value::List(at) | Value::Tuple(at) => {
                let position = self.position(*at, index);
                position.map_or(Value::Unknown, |position| self.heap.lists[*at][position].clone())
            }
            Value::Dict(at) => self.heap.lookup(*at, index).unwrap_or(Value::Unknown),
            Value::Text(text) => {
                let letters: Vec<char> = text.chars().collect();
                let at = whole(index).map(|at| if at < 0 { at + letters.len() as i64 } else { at });
                let letter = at.and_then(|at| letters.get(usize::try_from(at).ok()?));
                letter.map_or(Value::Unknown, |letter| Value::Text(letter.to_string().into()))
            }
            Value::Object(_) => {
                let arguments = Arguments { positional: vec![index.clone()], ..Arguments::default() };
                return self.call_method(of, &"__getitem__".into(), arguments);
            }
            _ => Value::Unknown,
        })
    }

    fn slice(&mut self, of: &Expression, parts: &[Option<Box<Expression>>; 3]) -> Run<Value> {
        let of = self.evaluate(of)?;
        let mut bounds = [None; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                let Some(value) = whole(&self.evaluate(part)?) else { return Ok(Value::Unknown) };
                *bound = Some(value);
            }
        }
        let Some(mut items) = self.heap.items(&of) else { return Ok(Value::Unknown) };
        let length = items.len() as i64;
        let clamped =
            |bound: i64| (if bound < 0 { bound.saturating_add(length) } else { bound }).clamp(0, length) as usize;
        match bounds {
            [None, None, Some(-1)] => items.reverse(),
            [start, end, step] => {
                let (start, end) = (clamped(start.unwrap_or(0)), clamped(end.unwrap_or(length)));
                let step = step.unwrap_or(1);
                let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else { return Ok(Value::Unknown) };
                items = items.get(start..end).unwrap_or_default().iter().step_by(step).cloned().collect();
            }
        }
        Ok(match of {
            Value::Text(_) => {
                let letter = |item: &Value| if let Value::Text(text) = item { text.to_string() } else { String::new() };
                Value::Text(items.iter().map(letter).collect::<String>().into())
            }
            Value::Tuple(_) => self.heap.tuple(items),
            _ => self.heap.list(items),
        })
    }

    fn unary(&self, operator: &str, value: &Value) -> Value {
        match (operator, value) {
            ("not", value) => self.heap.truth(value).map_or(Value::Unknown, |truth| Value::Bool(!truth)),
            ("-", Value::Float(value)) => Value::Float(-value),
            ("-", value) => whole(value).and_then(i64::checked_neg).map_or(Value::Unknown, Value::Int),
            (_, value) if number(value).is_some() => value.clone(),
            _ => Value::Unknown,
        }
    }

    fn compare(&mut self, first: &Expression, others: &[(&'static str, Expression)]) -> Run<Value> {
        let mut left = self.evaluate(first)?;
        for (operator, right) in others {
            let right = self.evaluate(right)?;
            match compare(&self.heap, operator, &left, &right) {
                Some(true) => left = right,
                Some(false) => return Ok(Value::Bool(false)),
                None => return Ok(Value::Unknown),
            }
        }
        Ok(Value::Bool(true))
    }

    /// The first value that counts as `wanted`, or else the last one.
    fn first_with(&mut self, all: &[Expression], wanted: bool) -> Run<Value> {
        let mut value = Value::Unknown;
        let mut is_known = true;
        for expression in all {
            // Python comes to those behind what is not known, or it does not.
            value = if is_known {
                self.evaluate(expression)?
            } else {
                self.in_doubt(|machine| machine.evaluate(expression))?
            };
            match self.heap.truth(&value) {
                Some(truth) if truth == wanted => return Ok(value),
                Some(_) => {}
                None => is_known = false,
            }
        }
        Ok(if is_known { value } else { Value::Unknown })
    }

    fn evaluate_call(&mut self, function: &Expression, arguments: &[Argument]) -> Run<Value> {
        // Methods are called without being values of their own.
        if let Expression::Attribute(of, name) = function {
            let of = self.evaluate(of)?;
            let arguments = self.arguments(arguments)?;
            return self.call_method(&of, name, arguments);
        }
        let function = self.evaluate(function)?;
        let arguments = self.arguments(arguments)?;
        match &function {
            Value::Named(name) if SPECIAL.contains(&&**name) => self.call_special(name, arguments),
            _ => self.call(&function, arguments),
        }
    }

    fn arguments(&mut self, given: &[Argument]) -> Run<Arguments> {
        let mut arguments = Arguments::default();
        for argument in given {
            match argument {
                Argument::One(value) => {
                    let value = self.evaluate(value)?;
                    arguments.positional.push(value);
                }
                Argument::Named(name, value) => {
                    let value = self.evaluate(value)?;
                    arguments.named.push((name.clone(), value));
                }
                Argument::Others(values) => {
                    let values = self.evaluate(values)?;
                    match self.heap.items(&values) {
                        Some(items) => arguments.positional.extend(items),
                        None => arguments.has_unknown = true,
                    }
                }
                Argument::OtherNamed(values) => match self.evaluate(values)? {
                    Value::Dict(at) => {
                        for (key, value) in self.heap.dicts[at].clone() {
                            if let Value::Text(name) = key {
                                arguments.named.push((name, value));
                            }
                        }
                    }
                    _ => arguments.has_unknown = true,
                },
            }
        }
        if !self.heap.spend(arguments.positional.len() + arguments.named.len()) {
            arguments.has_unknown = true;
        }
        Ok(arguments)
    }

    fn call_special(&mut self, name: &str, mut arguments: Arguments) -> Run<Value> {
        match name {
            "super" => Ok(self.parent()),
            "partial" if !arguments.positional.is_empty() => {
                let receiver = arguments.positional.remove(0);
                Ok(self.heap.bound(BoundValue { receiver, method: None, arguments }))
            }
            "map" | "filter" => {
                let [function, over] = &arguments.positional[..] else { return Ok(Value::Unknown) };
                let Some(items) = self.heap.items(over) else { return Ok(Value::Unknown) };
                let mut made = Vec::new();
                for item in items {
                    let arguments = Arguments { positional: vec![item.clone()], ..Arguments::default() };
                    let value = self.call(function, arguments)?;
                    if name == "map" {
                        made.push(value);
                    } else if self.heap.truth(&value) == Some(true) {
                        made.push(item);
                    }
                }
                Ok(self.heap.list(made))
            }
            _ => Ok(Value::Unknown),
        }
    }

    /// What `super()` is in a method.
    fn parent(&self) -> Value {
        let mut next = Some(self.scope);
        while let Some(at) = next {
            if let Some((class, Value::Object(object))) = &self.scopes[at].method_of {
                return Value::Super(*object, *class);
            }
            next = self.scopes[at].parent;
        }
        Value::Unknown
    }
}

fn of_constant(constant: &Constant) -> Value {
    match constant {
        Constant::None => Value::None,
        Constant::Bool(value) => Value::Bool(*value),
        Constant::Int(value) => Value::Int(*value),
        Constant::Float(value) => Value::Float(*value),
        Constant::Text(text) => Value::Text(text.clone()),
    }
}
