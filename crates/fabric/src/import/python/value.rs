//! Values of a program of Python, and where they are kept: all of them until it has ended, so that none is counted or freed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::syntax::Function;

/// A value; what has parts is kept in a [`Heap`], by number.
#[derive(Clone, Debug)]
pub enum Value {
    /// What is not known, such as an argument of the command line.
    Unknown,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    List(usize),
    Tuple(usize),
    Dict(usize),
    Function(usize),
    Class(usize),
    Object(usize),
    /// An object whose methods are looked for behind a class, as `super()` does.
    Super(usize, usize),
    /// A method and its object, or a function with some of its arguments.
    Bound(usize),
    /// What a library or the language has under a name.
    Named(Rc<str>),
    Module,
    /// Something of the library's, by its number there.
    Item(usize),
}

/// Arguments of a call.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    pub positional: Vec<Value>,
    pub named: Vec<(Rc<str>, Value)>,
    /// There are others, which are not known.
    pub has_unknown: bool,
}

impl Arguments {
    /// The one at a position, or by its name.
    pub fn get(&self, position: usize, name: &str) -> Option<&Value> {
        self.positional.get(position).or_else(|| self.by_name(name))
    }

    pub fn by_name(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(other, _)| **other == *name).map(|(_, value)| value)
    }
}

#[derive(Clone, Debug)]
pub struct FunctionValue {
    pub code: Rc<Function>,
    pub defaults: Vec<Option<Value>>,
    /// The scope in which it was made.
    pub scope: usize,
    /// The class whose method it is.
    pub class: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct ClassValue {
    pub bases: Vec<Value>,
    pub attributes: BTreeMap<Rc<str>, Value>,
    /// Its text, in bytes of the source.
    pub text: (usize, usize),
}

#[derive(Clone, Debug)]
pub struct ObjectValue {
    /// What it is of: a class of the program, or a name of the library's.
    pub class: Value,
    pub attributes: BTreeMap<Rc<str>, Value>,
}

#[derive(Clone, Debug)]
pub struct BoundValue {
    pub receiver: Value,
    /// The method's name; `None`: the receiver itself is called.
    pub method: Option<Rc<str>>,
    pub arguments: Arguments,
}

/// So deep are classes that derive from each other, and values within values that are compared or written.
pub const DEPTH_MAX: usize = 16;

#[derive(Debug, Default)]
pub struct Heap {
    /// Items of lists and tuples.
    pub lists: Vec<Vec<Value>>,
    pub dicts: Vec<Vec<(Value, Value)>>,
    pub functions: Vec<FunctionValue>,
    pub classes: Vec<ClassValue>,
    pub objects: Vec<ObjectValue>,
    pub bound: Vec<BoundValue>,
    /// So much may still be done.
    pub budget: Cell<u64>,
}

/// Keeps it, and says its number.
fn keep<T>(all: &mut Vec<T>, value: T) -> usize {
    all.push(value);
    all.len() - 1
}

impl Heap {
    /// Takes from what may still be done; false if there is nothing left.
    pub fn spend(&self, steps: usize) -> bool {
        let left = self.budget.get().saturating_sub(steps as u64);
        self.budget.set(left);
        left > 0
    }

    pub fn list(&mut self, items: Vec<Value>) -> Value {
        Value::List(keep(&mut self.lists, items))
    }

    pub fn tuple(&mut self, items: Vec<Value>) -> Value {
        Value::Tuple(keep(&mut self.lists, items))
    }

    pub fn dict(&mut self, items: Vec<(Value, Value)>) -> Value {
        Value::Dict(keep(&mut self.dicts, items))
    }

    pub fn function(&mut self, function: FunctionValue) -> Value {
        Value::Function(keep(&mut self.functions, function))
    }

    pub fn class(&mut self, class: ClassValue) -> usize {
        keep(&mut self.classes, class)
    }

    pub fn object(&mut self, class: Value) -> usize {
        keep(&mut self.objects, ObjectValue { class, attributes: BTreeMap::new() })
    }

    pub fn bound(&mut self, bound: BoundValue) -> Value {
        Value::Bound(keep(&mut self.bound, bound))
    }

    /// Items of what can be gone over, if they are known and there is enough left to copy them.
    pub fn items(&self, value: &Value) -> Option<Vec<Value>> {
        if !self.spend(self.length(value)? + 1) {
            return None;
        }
        Some(match value {
            Value::List(at) | Value::Tuple(at) => self.lists[*at].clone(),
            Value::Dict(at) => self.dicts[*at].iter().map(|(key, _)| key.clone()).collect(),
            Value::Text(text) => text.chars().map(|c| Value::Text(c.to_string().into())).collect(),
            _ => return None,
        })
    }

    /// How many items it has.
    pub fn length(&self, value: &Value) -> Option<usize> {
        Some(match value {
            Value::List(at) | Value::Tuple(at) => self.lists[*at].len(),
            Value::Dict(at) => self.dicts[*at].len(),
            Value::Text(text) => text.chars().count(),
            _ => return None,
        })
    }

    /// The value at a key.
    pub fn lookup(&self, dict: usize, key: &Value) -> Option<Value> {
        self.dicts[dict].iter().find(|(other, _)| self.is_equal(other, key)).map(|(_, value)| value.clone())
    }

    pub fn set(&mut self, dict: usize, key: Value, value: Value) {
        match self.dicts[dict].iter().position(|(other, _)| self.is_equal(other, &key)) {
            Some(at) => self.dicts[dict][at].1 = value,
            None => self.dicts[dict].push((key, value)),
        }
    }

    /// Whether it counts as true; `None`: that is not known.
    pub fn truth(&self, value: &Value) -> Option<bool> {
        Some(match value {
            Value::Unknown | Value::Module => return None,
            Value::None => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            _ => self.length(value) != Some(0),
        })
    }

    pub fn is_equal(&self, a: &Value, b: &Value) -> bool {
        self.is_equal_within(a, b, DEPTH_MAX)
    }

    #[expect(clippy::float_cmp, reason = "Python compares them so")]
    fn is_equal_within(&self, a: &Value, b: &Value, depth: usize) -> bool {
        if !self.spend(1) {
            return false;
        }
        if let (Some(a), Some(b)) = (number(a), number(b)) {
            return a == b;
        }
        match (a, b) {
            (Value::None, Value::None) | (Value::Module, Value::Module) => true,
            (Value::Text(a), Value::Text(b)) | (Value::Named(a), Value::Named(b)) => a == b,
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                let (a, b) = (&self.lists[*a], &self.lists[*b]);
                depth > 0 && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.is_equal_within(a, b, depth - 1))
            }
            (Value::Dict(a), Value::Dict(b))
            | (Value::Function(a), Value::Function(b))
            | (Value::Class(a), Value::Class(b))
            | (Value::Object(a), Value::Object(b))
            | (Value::Item(a), Value::Item(b)) => a == b,
            _ => false,
        }
    }

    /// An attribute of a class or of one that it derives from, and the class that has it.
    pub fn attribute_of_class(&self, class: &Value, name: &str) -> Option<Value> {
        self.lineage(class).into_iter().find_map(|at| self.classes[at].attributes.get(name).cloned())
    }

    /// A class and those of the program from which it derives, each once, in the order in which they are asked.
    pub fn lineage(&self, class: &Value) -> Vec<usize> {
        let (mut all, mut next) = (Vec::new(), vec![class.clone()]);
        while let Some(class) = next.pop() {
            if let Value::Class(at) = class
                && !all.contains(&at)
                && all.len() < DEPTH_MAX
            {
                all.push(at);
                next.extend(self.classes[at].bases.iter().rev().cloned());
            }
        }
        all
    }

    /// The classes of the library, by name, from which a class derives.
    pub fn library_bases(&self, class: &Value) -> Vec<Rc<str>> {
        let lineage = self.lineage(class);
        let bases = lineage.iter().flat_map(|at| &self.classes[*at].bases).chain([class]);
        bases.filter_map(|base| if let Value::Named(name) = base { Some(name.clone()) } else { None }).collect()
    }
}

/// It as a number, if it is one.
pub fn number(value: &Value) -> Option<f64> {
    Some(match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Int(value) => *value as f64,
        Value::Float(value) => *value,
        _ => return None,
    })
}

/// It as a whole number, if it is one.
pub fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(value) => Some(i64::from(*value)),
        Value::Int(value) => Some(*value),
        _ => None,
    }
}
