//! What runs a program: its scopes, calls of its functions and classes, and what a library has to say to it.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::builtins;
use super::names::{Names, Undefined};
use super::syntax::{Function, Takes};
use super::value::{Arguments, BoundValue, Heap, Value};

/// So much is done for one program: statements, expressions, and items that are copied.
const STEPS_MAX: u64 = 1_000_000;

/// So deep are calls and expressions within each other.
const DEPTH_MAX: u32 = 220;

/// Why a program is not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    TooLong,
    TooDeep,
}

pub type Run<T> = Result<T, Stop>;

/// What a library makes of a call.
pub enum Outcome {
    Value(Value),
    /// Python would end here, if it comes here.
    Raises(Fault),
    /// The value of a call of a method of the program's.
    Method(Value, &'static str, Arguments),
}

/// What Python says of a statement that it cannot run, as it ends there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error and its text: `KeyError: 'h9'`.
    pub message: String,
    /// What it is about, as it stands in the program.
    pub word: String,
    /// A word that may have been meant.
    pub nearest: Option<String>,
    /// What is of this kind and there.
    pub known: String,
}

/// A call of something that a library has.
pub struct LibraryCall<'a> {
    /// The object whose method it is.
    pub receiver: Option<&'a Value>,
    pub name: &'a str,
    pub arguments: &'a Arguments,
    /// The bytes of the statement.
    pub at: usize,
}

/// What a program is run with. Whatever it has is given by name; nothing of the machine is there.
pub trait Library {
    /// What it has under a name.
    fn name(&mut self, heap: &mut Heap, name: &str) -> Option<Value>;
    /// What an object or a thing of its own has under a name.
    fn attribute(&mut self, heap: &mut Heap, of: &Value, name: &str) -> Option<Value>;
    fn call(&mut self, heap: &mut Heap, call: &LibraryCall<'_>) -> Outcome;
    /// What Python says of an attribute that an object of its own does not have; `None`: it may have it.
    fn lacks(&mut self, heap: &Heap, of: &Value, name: &str) -> Option<Fault>;
    /// Whether it has got what it was after.
    fn is_done(&self) -> bool;
    /// A statement that is not run, and why.
    fn skipped(&mut self, range: std::ops::Range<usize>, why: &str);
}

#[derive(Debug, Default)]
pub struct Scope {
    pub variables: BTreeMap<Rc<str>, Value>,
    pub parent: Option<usize>,
    /// Variables of another scope.
    pub outside: BTreeMap<Rc<str>, usize>,
    pub is_class: bool,
    /// The class in whose method it is, and the object.
    pub method_of: Option<(usize, Value)>,
}

pub struct Machine<'l> {
    pub heap: Heap,
    pub library: &'l mut dyn Library,
    pub scopes: Vec<Scope>,
    pub scope: usize,
    depth: u32,
    /// The byte where the statement begins that is run; `None`: it is not the file's.
    pub at: usize,
    pub is_prelude: bool,
    /// What the file gives values to.
    names: Names,
    /// The first name that is used without having a value: Python would end there.
    pub undefined: Option<Undefined>,
    /// The first error that is none of a name, and the byte where its statement begins.
    pub raised: Option<(usize, Fault)>,
    /// Functions from this number on are the file's.
    first_function: usize,
    /// Whether something was left out that may have changed what is there.
    has_gaps: bool,
    /// How many blocks deep it is in what Python may not run, or where it would go on after an error.
    doubts: u32,
    /// Whether all that stood before was run.
    pub is_all_run: bool,
}

impl<'l> Machine<'l> {
    pub fn new(library: &'l mut dyn Library) -> Self {
        let heap = Heap::default();
        heap.budget.set(STEPS_MAX);
        Machine {
            heap,
            library,
            scopes: vec![Scope::default()],
            scope: 0,
            depth: 0,
            at: 0,
            is_prelude: true,
            names: Names::default(),
            undefined: None,
            raised: None,
            first_function: 0,
            has_gaps: false,
            doubts: 0,
            is_all_run: true,
        }
    }

    /// Begins the scope of the file, within that of what is known to all.
    pub fn begin_file(&mut self, text: &str) -> usize {
        self.is_prelude = false;
        self.first_function = self.heap.functions.len();
        self.names = Names::of(text);
        self.scope = self.new_scope(0);
        self.scope
    }

    fn new_scope(&mut self, parent: usize) -> usize {
        self.scopes.push(Scope { parent: Some(parent), ..Scope::default() });
        self.scopes.len() - 1
    }

    /// Does something one level down, if there is something left to do and the levels are few.
    pub fn within<T>(&mut self, run: impl FnOnce(&mut Self) -> Run<T>) -> Run<T> {
        if !self.heap.spend(1) {
            return Err(Stop::TooLong);
        }
        if self.depth >= DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        self.depth += 1;
        let value = run(self);
        self.depth -= 1;
        value
    }

    /// Does something in a scope of its own.
    pub fn in_scope<T>(&mut self, parent: usize, run: impl FnOnce(&mut Self) -> Run<T>) -> Run<(T, usize)> {
        let before = self.scope;
        self.scope = self.new_scope(parent);
        let scope = self.scope;
        let value = run(self);
        self.scope = before;
        Ok((value?, scope))
    }

    /// Leaves a statement out.
    pub fn leave_out(&mut self, range: std::ops::Range<usize>, why: &str) {
        self.go_on_with_gaps();
        self.library.skipped(range, why);
    }

    /// What is there afterwards may be something else than what Python has.
    pub fn go_on_with_gaps(&mut self) {
        self.is_all_run = false;
        self.has_gaps = true;
    }

    /// Keeps the first error that Python would end with, if it surely comes here.
    fn raise(&mut self, fault: Fault) {
        if !self.is_prelude && self.doubts == 0 && self.undefined.is_none() && self.raised.is_none() {
            self.raised = Some((self.at, fault));
        }
    }

    /// The same of what depends on values, which are others where something was left out.
    pub fn raise_of_values(&mut self, fault: Fault) {
        if !self.has_gaps {
            self.raise(fault);
        }
    }

    /// An attribute that the library's object does not have, nor gets anywhere in the file.
    fn raise_if_lacking(&mut self, of: &Value, name: &str) {
        if !self.names.may_be_set(name)
            && let Some(fault) = self.library.lacks(&self.heap, of, name)
        {
            self.raise(fault);
        }
    }

    /// What is not known may change the objects that it is given.
    fn give_away(&mut self, arguments: &Arguments) {
        let mut all = arguments.positional.iter().chain(arguments.named.iter().map(|(_, value)| value));
        if all.any(|value| matches!(value, Value::Object(_))) {
            self.go_on_with_gaps();
        }
    }

    /// Does something that Python may not do, or of which it would catch errors.
    pub fn in_doubt<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.doubts += 1;
        let value = run(self);
        self.doubts -= 1;
        value
    }

    /// The value of a variable; if it is sure that it has none, that is kept.
    pub fn variable(&mut self, name: &Rc<str>) -> Value {
        if let Some(value) = self.find(name) {
            return value;
        }
        if !self.is_prelude && self.doubts == 0 && self.undefined.is_none() && self.raised.is_none() {
            self.undefined = self.names.undefined(name, self.at, self.is_all_run);
        }
        Value::Unknown
    }

    /// A name like this one that has a value in the program.
    pub fn nearest_name(&self, name: &str) -> Option<String> {
        crate::names::nearest(name, self.names.all()).map(str::to_owned)
    }

    pub fn lookup(&mut self, name: &str) -> Value {
        self.find(name).unwrap_or(Value::Unknown)
    }

    fn find(&mut self, name: &str) -> Option<Value> {
        let mut next = Some(self.scope);
        while let Some(at) = next {
            let scope = &self.scopes[at];
            if let Some(elsewhere) = scope.outside.get(name)
                && *elsewhere != at
            {
                next = Some(*elsewhere);
                continue;
            }
            // Methods do not see what their class has.
            if let Some(value) = scope.variables.get(name).filter(|_| !scope.is_class || at == self.scope) {
                return Some(value.clone());
            }
            next = scope.parent;
        }
        let is_builtin = builtins::NAMES.contains(&name) || builtins::SPECIAL.contains(&name);
        let of_library = self.library.name(&mut self.heap, name);
        of_library.or_else(|| is_builtin.then(|| Value::Named(name.into())))
    }

    pub fn set(&mut self, name: &Rc<str>, value: Value) {
        let scope = self.scopes[self.scope].outside.get(name).copied().unwrap_or(self.scope);
        self.scopes[scope].variables.insert(name.clone(), value);
    }

    /// An attribute of a value, a method included.
    pub fn attribute(&mut self, of: &Value, name: &Rc<str>) -> Value {
        let own = match of {
            Value::Object(at) => {
                let object = &self.heap.objects[*at];
                let own = object.attributes.get(name).cloned();
                own.or_else(|| match self.heap.attribute_of_class(&object.class, name) {
                    Some(Value::Function(_)) | None => None,
                    other => other,
                })
            }
            Value::Class(_) => self.heap.attribute_of_class(of, name),
            Value::Module => return self.lookup_outside(name),
            _ => None,
        };
        if let Some(value) = own.or_else(|| self.library.attribute(&mut self.heap, of, name)) {
            return value;
        }
        if matches!(of, Value::Unknown | Value::None | Value::Bound(_)) {
            return Value::Unknown;
        }
        self.raise_if_lacking(of, name);
        let bound = BoundValue { receiver: of.clone(), method: Some(name.clone()), arguments: Arguments::default() };
        self.heap.bound(bound)
    }

    /// What a module of Python's or of the library's has.
    fn lookup_outside(&mut self, name: &str) -> Value {
        let before = std::mem::replace(&mut self.scope, 0);
        let value = self.lookup(name);
        self.scope = before;
        // What else a module has is not known, nor what that has.
        if matches!(value, Value::Unknown | Value::Object(_)) { Value::Module } else { value }
    }

    /// Calls a function, a class, or what the library has.
    pub fn call(&mut self, function: &Value, arguments: Arguments) -> Run<Value> {
        match function {
            Value::Function(at) => self.within(|machine| machine.call_function(*at, None, arguments)),
            Value::Class(at) => self.within(|machine| machine.make(*at, arguments)),
            Value::Bound(at) => {
                let BoundValue { receiver, method, arguments: given } = self.heap.bound[*at].clone();
                let mut all = given;
                all.positional.extend(arguments.positional);
                all.has_unknown |= arguments.has_unknown;
                for (name, value) in arguments.named {
                    all.named.retain(|(other, _)| *other != name);
                    all.named.push((name, value));
                }
                self.within(|machine| match method {
                    Some(method) => machine.call_method(&receiver, &method, all),
                    None => machine.call(&receiver, all),
                })
            }
            Value::Named(name) if builtins::NAMES.contains(&&**name) => {
                Ok(builtins::call(&mut self.heap, name, &arguments))
            }
            Value::Named(name) => self.call_library(None, name, &arguments),
            _ => {
                self.give_away(&arguments);
                Ok(Value::Unknown)
            }
        }
    }

    /// Calls a method of a value.
    pub fn call_method(&mut self, of: &Value, name: &Rc<str>, arguments: Arguments) -> Run<Value> {
        let (class, found) = match of {
            Value::Object(at) => {
                let object = &self.heap.objects[*at];
                if let Some(own) = object.attributes.get(name).cloned() {
                    return self.call(&own, arguments);
                }
                let class = object.class.clone();
                (of.clone(), self.heap.attribute_of_class(&class, name))
            }
            Value::Super(object, class) => {
                let bases = self.heap.classes[*class].bases.clone();
                let found = bases.iter().find_map(|base| self.heap.attribute_of_class(base, name));
                (Value::Object(*object), found)
            }
            Value::Class(_) => {
                // `Base.method(self, ..)`
                return match self.heap.attribute_of_class(of, name) {
                    Some(function) => self.call(&function, arguments),
                    None => self.call_base(name, arguments),
                };
            }
            Value::Named(_) => return self.call_base(name, arguments),
            Value::Module => {
                let function = self.lookup_outside(name);
                return self.call(&function, arguments);
            }
            Value::Text(_) | Value::List(_) | Value::Dict(_) | Value::Tuple(_) => {
                return Ok(builtins::method(&mut self.heap, of, name, &arguments).unwrap_or(Value::Unknown));
            }
            _ => (of.clone(), None),
        };
        match found {
            Some(Value::Function(at)) => self.within(|machine| machine.call_function(at, Some(class), arguments)),
            Some(other) => self.call(&other, arguments),
            None => {
                match &class {
                    Value::Unknown => self.give_away(&arguments),
                    _ => self.raise_if_lacking(&class, name),
                }
                self.call_library(Some(&class), name, &arguments)
            }
        }
    }

    /// A method of a class of the library's, whose object is the first argument.
    fn call_base(&mut self, name: &Rc<str>, mut arguments: Arguments) -> Run<Value> {
        if arguments.positional.is_empty() {
            return Ok(Value::Unknown);
        }
        let object = arguments.positional.remove(0);
        self.call_library(Some(&object), name, &arguments)
    }

    fn call_library(&mut self, receiver: Option<&Value>, name: &str, arguments: &Arguments) -> Run<Value> {
        let call = LibraryCall { receiver, name, arguments, at: self.at };
        match self.library.call(&mut self.heap, &call) {
            Outcome::Value(value) => Ok(value),
            Outcome::Raises(fault) => {
                self.raise_of_values(fault);
                Ok(Value::Unknown)
            }
            Outcome::Method(object, method, arguments) => self.call_own(&object, method, arguments),
        }
    }

    /// Calls a method if the program has it.
    pub fn call_own(&mut self, object: &Value, method: &str, arguments: Arguments) -> Run<Value> {
        let Value::Object(at) = object else { return Ok(Value::None) };
        let class = self.heap.objects[*at].class.clone();
        match self.heap.attribute_of_class(&class, method) {
            Some(Value::Function(function)) => {
                self.within(|machine| machine.call_function(function, Some(object.clone()), arguments))
            }
            _ => Ok(Value::None),
        }
    }

    /// Makes an object of a class of the program's.
    fn make(&mut self, class: usize, arguments: Arguments) -> Run<Value> {
        let object = Value::Object(self.heap.object(Value::Class(class)));
        if let Some(Value::Function(function)) = self.heap.attribute_of_class(&Value::Class(class), "__init__") {
            self.within(|machine| machine.call_function(function, Some(object.clone()), arguments))?;
        } else {
            self.call_library(Some(&object), "__init__", &arguments)?;
        }
        Ok(object)
    }

    fn call_function(&mut self, number: usize, object: Option<Value>, mut arguments: Arguments) -> Run<Value> {
        let function = self.heap.functions[number].clone();
        if let Some(object) = &object {
            arguments.positional.insert(0, object.clone());
        }
        // `Base.method(self, ..)`
        let object = object.or_else(|| function.class.and(arguments.positional.first().cloned()));
        let code = Rc::clone(&function.code);
        // Those that are the library's have no lines of the file.
        let is_in_doubt = u32::from(number < self.first_function);
        let variables = self.bind(&code, &function.defaults, arguments);
        let at = self.at;
        self.doubts += is_in_doubt;
        let ran = self.in_scope(function.scope, |machine| {
            let scope = machine.scope;
            machine.scopes[scope].variables = variables;
            machine.scopes[scope].method_of = function.class.zip(object);
            machine.run_function(&code)
        });
        self.doubts -= is_in_doubt;
        let (value, _) = ran?;
        self.at = at;
        Ok(value)
    }

    /// Parameters with what they get; those that get nothing are not known.
    fn bind(&mut self, code: &Function, defaults: &[Option<Value>], arguments: Arguments) -> BTreeMap<Rc<str>, Value> {
        let mut variables = BTreeMap::new();
        let Arguments { positional, mut named, has_unknown } = arguments;
        let mut positional = positional.into_iter();
        for (parameter, default) in code.parameters.iter().zip(defaults) {
            let value = match parameter.takes {
                Takes::Others => {
                    let others = positional.by_ref().collect();
                    self.heap.tuple(others)
                }
                Takes::OtherNamed => {
                    let others = std::mem::take(&mut named);
                    let pairs = others.into_iter().map(|(name, value)| (Value::Text(name), value)).collect();
                    self.heap.dict(pairs)
                }
                Takes::One | Takes::Named => {
                    let by_name = named.iter().position(|(name, _)| *name == parameter.name);
                    let given = match by_name {
                        Some(at) => Some(named.remove(at).1),
                        None if parameter.takes == Takes::One => positional.next(),
                        None => None,
                    };
                    given.or_else(|| default.clone().filter(|_| !has_unknown)).unwrap_or(Value::Unknown)
                }
            };
            variables.insert(parameter.name.clone(), value);
        }
        variables
    }
}
