//! Names to which a program gives a value somewhere, and those that Python has by itself. It is found in the words alone, so that a statement that is not read ([`super::parser`]) gives
//! its names, too.
//!
//! Always: a name that Python would find is never said to be undefined. Where names may come from elsewhere (`from x import *`, `exec`), none is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use super::lexer::{Token, tokens};

/// A name that has no value where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undefined {
    pub name: Rc<str>,
    /// Where it is used, in bytes.
    pub at: Range<usize>,
    /// Where it gets a value later on, in bytes.
    pub defined_at: Option<usize>,
}

/// What Python has besides what a topology is made of: functions, errors, variables of a module; of Python 2 as well.
const PYTHON: &str = "ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError \
    BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError \
    ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError \
    Exception ExceptionGroup False FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit \
    IOError ImportError ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError \
    KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError None NotADirectoryError NotImplemented \
    NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError \
    RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning StandardError StopAsyncIteration \
    StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError True TypeError \
    UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning \
    UserWarning ValueError Warning ZeroDivisionError __annotations__ __build_class__ __builtins__ __class__ __debug__ \
    __doc__ __file__ __import__ __loader__ __module__ __name__ __package__ __qualname__ __spec__ abs aiter all anext \
    any apply ascii basestring bin bool breakpoint buffer bytearray bytes callable chr classmethod cmp coerce compile \
    complex copyright credits delattr dict dir divmod enumerate eval exec execfile exit file filter float format \
    frozenset getattr globals hasattr hash help hex id input int intern isinstance issubclass iter len license list \
    locals long map max memoryview min next object oct open ord pow print property quit range raw_input reduce reload \
    repr reversed round set setattr slice sorted staticmethod str sum super tuple type unichr unicode vars xrange zip";

/// Modules and functions that programs of Mininet import: without them nothing of a network is lost.
const IMPORTED: &str = "argparse atexit collections copy csv ctypes datetime functools glob inspect io ipaddress \
    itertools json logging math mininet multiprocessing networkx np numpy optparse os path pprint random re select shlex \
    shutil signal socket string subprocess sys tempfile threading time traceback types uuid yaml sleep exit \
    debug error info lg output setLogLevel warn warning quietRun quietrun errRun isShellBuiltin moveIntf numCores pmonitor \
    dumpNetConnections ensureRoot runCmd startXServer";

/// Functions that give values to names which no word says.
const OPEN: [&str; 7] = ["exec", "execfile", "eval", "globals", "locals", "vars", "__import__"];

/// Where names get their values first, by what a program says.
#[derive(Debug, Default)]
pub struct Names {
    words: Vec<(Token, Range<usize>)>,
    first: BTreeMap<Rc<str>, usize>,
    known: BTreeSet<&'static str>,
    /// Names may come from elsewhere.
    are_open: bool,
}

impl Names {
    pub fn of(text: &str) -> Self {
        let known = PYTHON.split_whitespace().chain(IMPORTED.split_whitespace()).collect();
        let mut names = Names { words: tokens(text), known, ..Names::default() };
        for line in std::mem::take(&mut names.words).split_inclusive(|(token, _)| *token == Token::Line) {
            names.read(line);
            names.words.extend_from_slice(line);
        }
        names
    }

    /// All names that get a value.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.first.keys().map(|name| &**name)
    }

    /// Whether something of this name may get a value.
    pub fn may_be_set(&self, name: &str) -> bool {
        self.first.contains_key(name) || self.words.iter().any(|(token, _)| *token == Token::Name("setattr".into()))
    }

    fn bind(&mut self, word: &(Token, Range<usize>)) {
        if let (Token::Name(name), range) = word {
            let first = self.first.entry(name.clone()).or_insert(range.start);
            *first = range.start.min(*first);
        }
    }

    /// Reads one line; where its words may mean one or the other, they give values.
    fn read(&mut self, line: &[(Token, Range<usize>)]) {
        let is_name = |at: usize, name: &str| matches!(line.get(at), Some((Token::Name(word), _)) if **word == *name);
        let is_operator =
            |at: usize, mark: &str| matches!(line.get(at), Some((Token::Operator(word), _)) if *word == mark);
        let has = |name: &str| (0..line.len()).any(|at| is_name(at, name));
        self.are_open |= OPEN.iter().any(|name| has(name));
        let begins_with = |words: &[&str]| {
            let first =
                line.iter().find_map(|(token, _)| if let Token::Name(name) = token { Some(name) } else { None });
            first.is_some_and(|first| words.contains(&&**first))
        };
        let is_import = begins_with(&["import", "from"]);
        self.are_open |= is_import && (0..line.len()).any(|at| is_operator(at, "*"));
        // All words of these may be names that get a value: of a lambda, those of its parameters.
        if is_import
            || has("lambda")
            || begins_with(&["def", "class", "global", "nonlocal", "async", "case", "type", "with"])
        {
            return line.iter().for_each(|word| self.bind(word));
        }
        let mut depth = 0_usize;
        let mut target_of_loop = false;
        // What of a line is bound is not bound again: there may be thousands of `=` in one.
        let (mut begins, mut bound_until, mut is_rest_bound) = (0, 0, false);
        for at in 0..line.len() {
            match &line[at].0 {
                Token::Operator("(" | "[" | "{") => depth += 1,
                Token::Operator(")" | "]" | "}") => depth = depth.saturating_sub(1),
                Token::Operator(";") if depth == 0 => begins = at,
                // What stands before it is what gets the value, or an item or an attribute of it.
                Token::Operator(mark) if depth == 0 && mark.ends_with('=') && is_change(mark) => {
                    line[begins.max(bound_until)..at].iter().for_each(|word| self.bind(word));
                    bound_until = at;
                }
                Token::Operator(":=") => self.bind(&line[at.saturating_sub(1)]),
                Token::Name(name) if **name == *"for" => target_of_loop = true,
                Token::Name(name) if **name == *"in" => target_of_loop = false,
                Token::Name(name) if **name == *"as" && !is_rest_bound => {
                    line[at + 1..].iter().for_each(|word| self.bind(word));
                    is_rest_bound = true;
                }
                Token::Name(_) if target_of_loop => self.bind(&line[at]),
                _ => {}
            }
        }
    }

    /// Where a name is used that has no value in the statement that begins at `at`; `None`: it may have one.
    ///
    /// With `is_all_run`, all that stands before was run as Python runs it: then a name has no value that gets it only later.
    pub fn undefined(&self, name: &Rc<str>, at: usize, is_all_run: bool) -> Option<Undefined> {
        let defined_at = self.first.get(name).copied();
        let is_later = defined_at.is_none_or(|first| is_all_run && first >= at);
        if self.are_open || !is_later || self.known.contains(&**name) {
            return None;
        }
        let is_it = |(number, (token, range)): &(usize, &(Token, Range<usize>))| {
            let is_attribute = number.checked_sub(1).is_some_and(|before| self.words[before].0 == Token::Operator("."));
            range.start >= at && *token == Token::Name(name.clone()) && !is_attribute
        };
        let found = self.words.iter().enumerate().find(is_it).map_or(at..at, |(_, (_, range))| range.clone());
        Some(Undefined { name: name.clone(), at: found, defined_at })
    }
}

/// Whether it changes what stands before it, and does not compare.
fn is_change(mark: &str) -> bool {
    !["==", "!=", "<=", ">=", ":="].contains(&mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_undefined(text: &str, name: &str) -> bool {
        Names::of(text).undefined(&name.into(), text.len(), true).is_some()
    }

    #[test]
    fn what_gets_a_value_anywhere_is_defined() {
        for text in [
            "x = 1\n",
            "a = x = 1\n",
            "a, (b, x) = 1, (2, 3)\n",
            "x += 1\n",
            "x: int = 3\n",
            "y = 1; x = 2\n",
            "if y: x = 2\n",
            "for x in y: pass\n",
            "for a, x in y:\n  pass\n",
            "y = [x for x in z]\n",
            "y = [a for b in c for a, x in b]\n",
            "def x(): pass\n",
            "def f(a, *x): pass\n",
            "async def f(x): pass\n",
            "class x: pass\n",
            "y = lambda a, x: a\n",
            "with f() as x: pass\n",
            "try:\n  y()\nexcept E as x:\n  pass\n",
            "import x\n",
            "import a.b as x\n",
            "from a import (b,\n  x)\n",
            "from a import *\n",
            "global x\n",
            "if (x := f()): pass\n",
            "match y:\n  case [x, 1]: pass\n",
            "exec('x = 1')\n",
            "globals()['x'] = 1\n",
            "\tx = 1\n",
        ] {
            assert!(!is_undefined(text, "x"), "{text}");
        }
        for name in ["print", "raw_input", "__name__", "ValueError", "sys", "info"] {
            assert!(!is_undefined("", name), "{name}");
        }
    }

    #[test]
    fn what_is_only_used_is_not() {
        for text in ["", "f(x)\n", "f(x=1)\n", "y = x\n", "if x == 1: pass\n", "'x = 1'\n", "# x = 1\n", "x <= 1\n"] {
            assert!(is_undefined(text, "x"), "{text}");
        }
        let text = "f(a.h3, 'h3', h3)\nh3 = 1\n";
        let names = Names::of(text);
        assert_eq!(names.undefined(&"h3".into(), 0, false), None, "what was left out may have given it a value");
        let found = names.undefined(&"h3".into(), 0, true).expect("it gets its value later");
        assert_eq!((found.at, found.defined_at), (14..16, Some(18)));
        assert_eq!(names.undefined(&"h3".into(), 20, true), None);
    }
}
