//! Functions of the language and of its library that make topologies, and methods of texts, lists and dictionaries.

#![expect(clippy::cast_possible_wrap, reason = "no list or text is so long")]

use super::operators::{binary, compare, format, order, text_value, written};
use super::value::{Arguments, Heap, Value, number, whole};

/// Their names.
pub const NAMES: &[&str] = &[
    "range",
    "xrange",
    "irange",
    "len",
    "str",
    "int",
    "float",
    "bool",
    "enumerate",
    "zip",
    "izip",
    "list",
    "tuple",
    "set",
    "frozenset",
    "dict",
    "OrderedDict",
    "defaultdict",
    "sorted",
    "natural",
    "reversed",
    "min",
    "max",
    "sum",
    "abs",
    "round",
    "chr",
    "ord",
    "hex",
    "any",
    "all",
    "pow",
    "divmod",
    "product",
    "combinations",
    "permutations",
    "ceil",
    "floor",
    "sqrt",
    "log2",
    "repr",
    "ascii_lowercase",
];

/// Functions that need to call others, or know where they are called.
pub const SPECIAL: &[&str] = &["super", "map", "filter", "partial", "isinstance", "hasattr"];

/// What a function makes of its arguments; what cannot be said is not known.
pub fn call(heap: &mut Heap, name: &str, arguments: &Arguments) -> Value {
    if arguments.has_unknown {
        return Value::Unknown;
    }
    function(heap, name, arguments).unwrap_or(Value::Unknown)
}

fn function(heap: &mut Heap, name: &str, arguments: &Arguments) -> Option<Value> {
    let first = arguments.positional.first();
    let numbers: Vec<f64> = arguments.positional.iter().filter_map(number).collect();
    Some(match name {
        "range" | "xrange" | "irange" => return range(heap, name, arguments),
        "len" => Value::Int(heap.length(first?)? as i64),
        "str" | "repr" => text_value(heap, first.map_or(Some(String::new()), |value| written(heap, value))?),
        "int" => match first? {
            Value::Float(value) => Value::Int(*value as i64),
            Value::Text(text) => Value::Int(text.trim().parse().ok()?),
            other => Value::Int(whole(other)?),
        },
        "float" => match first? {
            Value::Text(text) => Value::Float(text.trim().parse().ok().filter(|value: &f64| value.is_finite())?),
            other => Value::Float(number(other)?),
        },
        "bool" => Value::Bool(heap.truth(first?)?),
        "enumerate" => {
            let start = arguments.get(1, "start").map_or(Some(0), whole).filter(|start| start.abs() < 1 << 40)?;
            let items = heap.items(first?)?;
            let pairs = (start..).zip(items).map(|(number, item)| heap.tuple(vec![Value::Int(number), item])).collect();
            heap.list(pairs)
        }
        "zip" | "izip" => {
            let all = arguments.positional.iter().map(|one| heap.items(one)).collect::<Option<Vec<_>>>()?;
            let length = all.iter().map(Vec::len).min().unwrap_or(0);
            let rows = (0..length).map(|at| heap.tuple(all.iter().map(|items| items[at].clone()).collect())).collect();
            heap.list(rows)
        }
        "list" | "set" | "frozenset" | "tuple" | "reversed" | "sorted" | "natural" => {
            let mut items = first.map_or(Some(Vec::new()), |value| heap.items(value))?;
            match name {
                "set" | "frozenset" => items = each_once(heap, items),
                "sorted" if arguments.by_name("key").is_none() => sort(heap, &mut items)?,
                "reversed" => items.reverse(),
                _ => {}
            }
            if matches!(arguments.by_name("reverse"), Some(Value::Bool(true))) {
                items.reverse();
            }
            if name == "tuple" { heap.tuple(items) } else { heap.list(items) }
        }
        "dict" | "OrderedDict" | "defaultdict" => dict(heap, arguments)?,
        "min" | "max" => {
            let items =
                if let [one] = &arguments.positional[..] { heap.items(one)? } else { arguments.positional.clone() };
            let wanted = if name == "min" { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
            let mut best = items.first()?.clone();
            for item in &items[1..] {
                if order(heap, item, &best)? == wanted {
                    best = item.clone();
                }
            }
            best
        }
        "sum" => {
            let items = heap.items(first?)?;
            items.iter().fold(Value::Int(0), |sum, item| binary(heap, "+", &sum, item))
        }
        "any" | "all" => {
            let truths = heap.items(first?)?.iter().map(|item| heap.truth(item)).collect::<Option<Vec<_>>>()?;
            Value::Bool(if name == "any" { truths.contains(&true) } else { !truths.contains(&false) })
        }
        "abs" => match first? {
            Value::Int(value) => Value::Int(value.checked_abs()?),
            other => Value::Float(number(other)?.abs()),
        },
        "round" if arguments.positional.len() == 1 => Value::Int(numbers.first()?.round_ties_even() as i64),
        "ceil" => Value::Int(numbers.first()?.ceil() as i64),
        "floor" => Value::Int(numbers.first()?.floor() as i64),
        "sqrt" => Value::Float(numbers.first().filter(|value| **value >= 0.0)?.sqrt()),
        "log2" => Value::Float(numbers.first().filter(|value| **value > 0.0)?.log2()),
        "pow" => binary(heap, "**", first?, arguments.positional.get(1)?),
        "divmod" => {
            let (a, b) = (first?.clone(), arguments.positional.get(1)?.clone());
            let pair = vec![binary(heap, "//", &a, &b), binary(heap, "%", &a, &b)];
            heap.tuple(pair)
        }
        "chr" => Value::Text(char::from_u32(u32::try_from(whole(first?)?).ok()?)?.to_string().into()),
        "ord" => match first? {
            Value::Text(text) => Value::Int(i64::from(u32::from(text.chars().next()?))),
            _ => return None,
        },
        "hex" => Value::Text(format!("{:#x}", whole(first?)?).into()),
        "product" | "combinations" | "permutations" => return tuples(heap, name, arguments),
        _ => return None,
    })
}

fn range(heap: &mut Heap, name: &str, arguments: &Arguments) -> Option<Value> {
    let given = arguments.positional.iter().map(whole).collect::<Option<Vec<_>>>()?;
    let (start, end, step) = match given[..] {
        [end] => (0, end, 1),
        [start, end] => (start, end, 1),
        [start, end, step] if step != 0 => (start, end, step),
        _ => return None,
    };
    // Mininet's has its end.
    let end = if name == "irange" { end.checked_add(step.signum())? } else { end };
    let distance = if step > 0 { end.checked_sub(start)? } else { start.checked_sub(end)? };
    let length = usize::try_from(distance.max(0)).ok()?.div_ceil(usize::try_from(step.checked_abs()?).ok()?);
    if !heap.spend(length) {
        return None;
    }
    let items = (0..length).map(|at| Value::Int(start + step * at as i64)).collect();
    Some(heap.list(items))
}

fn each_once(heap: &Heap, items: Vec<Value>) -> Vec<Value> {
    let mut once: Vec<Value> = Vec::new();
    for item in items {
        if !once.iter().any(|other| heap.is_equal(other, &item)) {
            once.push(item);
        }
    }
    once
}

/// What a value is sorted by: numbers, texts, and tuples of them.
#[derive(PartialEq, PartialOrd)]
enum SortKey {
    Number(f64),
    Text(std::rc::Rc<str>),
    Tuple(Vec<SortKey>),
}

fn sort_key(heap: &Heap, value: &Value, depth: usize) -> Option<SortKey> {
    Some(match value {
        Value::Text(text) => SortKey::Text(text.clone()),
        Value::Tuple(at) | Value::List(at) if depth > 0 && heap.spend(heap.lists[*at].len() + 1) => {
            SortKey::Tuple(heap.lists[*at].iter().map(|item| sort_key(heap, item, depth - 1)).collect::<Option<_>>()?)
        }
        other => SortKey::Number(number(other)?),
    })
}

/// Sorts what can be compared.
fn sort(heap: &Heap, items: &mut Vec<Value>) -> Option<()> {
    let keyed = items.drain(..).map(|item| Some((sort_key(heap, &item, 2)?, item))).collect::<Option<Vec<_>>>();
    let mut keyed = keyed.filter(|keyed| heap.spend(keyed.len() * 8))?;
    keyed.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    items.extend(keyed.into_iter().map(|(_, item)| item));
    Some(())
}

fn dict(heap: &mut Heap, arguments: &Arguments) -> Option<Value> {
    let mut pairs = match arguments.positional.last() {
        Some(Value::Dict(at)) => heap.dicts[*at].clone(),
        Some(list @ (Value::List(_) | Value::Tuple(_))) => {
            let pair = |item: Value| <[Value; 2]>::try_from(heap.items(&item)?).ok().map(|[key, value]| (key, value));
            heap.items(list)?.into_iter().map(pair).collect::<Option<Vec<_>>>()?
        }
        _ => Vec::new(),
    };
    if !heap.spend(pairs.len()) {
        return None;
    }
    pairs.extend(arguments.named.iter().map(|(name, value)| (Value::Text(name.clone()), value.clone())));
    Some(heap.dict(pairs))
}

/// Tuples of `itertools`.
fn tuples(heap: &mut Heap, name: &str, arguments: &Arguments) -> Option<Value> {
    let pools = arguments.positional.iter().take_while(|pool| heap.length(pool).is_some());
    let mut pools = pools.map(|pool| heap.items(pool)).collect::<Option<Vec<_>>>()?;
    let length = if name == "product" {
        let repeat = arguments.by_name("repeat").map_or(Some(1), whole)?;
        pools = vec![pools; usize::try_from(repeat).ok().filter(|repeat| *repeat <= 8)?].concat();
        pools.len()
    } else {
        let first = pools.into_iter().next()?;
        let length = arguments.get(1, "r").map_or(Some(first.len() as i64), whole)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= 8)?;
        pools = vec![first; length];
        length
    };
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new()];
    for pool in &pools {
        let mut longer = Vec::new();
        for one in &chosen {
            if !heap.spend(8 * pool.len() + 1) {
                return None;
            }
            let is_next = |at: &usize| match name {
                "combinations" => one.last().is_none_or(|last| at > last),
                "permutations" => !one.contains(at),
                _ => true,
            };
            longer.extend((0..pool.len()).filter(is_next).map(|at| [one.as_slice(), &[at]].concat()));
        }
        chosen = longer;
    }
    chosen.retain(|one| one.len() == length);
    let value = |one: &Vec<usize>| one.iter().zip(&pools).map(|(at, pool)| pool[*at].clone()).collect();
    let rows: Vec<Value> = chosen.iter().map(|one| heap.tuple(value(one))).collect();
    Some(heap.list(rows))
}

/// What a method of a text, a list or a dictionary makes of its arguments; `None`: there is none, or it is not known.
pub fn method(heap: &mut Heap, of: &Value, name: &str, arguments: &Arguments) -> Option<Value> {
    match of {
        Value::Text(text) => of_text(heap, text, name, arguments),
        Value::List(at) => of_list(heap, *at, name, arguments),
        Value::Dict(at) => of_dict(heap, *at, name, arguments),
        Value::Tuple(at) if name == "index" => position(heap, *at, arguments.positional.first()?),
        _ => None,
    }
}

fn of_text(heap: &mut Heap, text: &str, name: &str, arguments: &Arguments) -> Option<Value> {
    let given: Vec<&str> = arguments
        .positional
        .iter()
        .filter_map(|value| if let Value::Text(text) = value { Some(&**text) } else { None })
        .collect();
    let trimmed = |c: char| given.first().map_or(c.is_whitespace(), |chars| chars.contains(c));
    let made = match (name, &given[..]) {
        ("format", _) if !arguments.has_unknown => format(heap, text, &arguments.positional, &arguments.named)?,
        ("lower", _) => text.to_lowercase(),
        ("upper", _) => text.to_uppercase(),
        ("strip", _) => text.trim_matches(trimmed).to_owned(),
        ("lstrip", _) => text.trim_start_matches(trimmed).to_owned(),
        ("rstrip", _) => text.trim_end_matches(trimmed).to_owned(),
        ("zfill", _) => super::operators::formatted(
            heap,
            &Value::Text(text.into()),
            &format!("0>{}", whole(arguments.positional.first()?)?),
        )?,
        ("replace", [from, to]) if !from.is_empty() && heap.spend(text.len()) && to.len() * text.len() <= 1 << 16 => {
            text.replace(from, to)
        }
        ("join", _) => {
            let parts = heap.items(arguments.positional.first()?)?;
            let parts = parts.iter().map(|part| if let Value::Text(part) = part { Some(&**part) } else { None });
            let parts = parts.collect::<Option<Vec<_>>>()?;
            let length: usize = parts.iter().map(|part| part.len() + text.len()).sum();
            if !heap.spend(length / 8) {
                return None;
            }
            parts.join(text)
        }
        ("split", _) => {
            let parts: Vec<Value> = match given.first().filter(|mark| !mark.is_empty()) {
                Some(mark) => text.split(mark).map(|part| Value::Text(part.into())).collect(),
                None => text.split_whitespace().map(|part| Value::Text(part.into())).collect(),
            };
            return heap.spend(text.len()).then(|| heap.list(parts));
        }
        ("startswith", [start]) => return Some(Value::Bool(text.starts_with(start))),
        ("endswith", [end]) => return Some(Value::Bool(text.ends_with(end))),
        ("isdigit", _) => return Some(Value::Bool(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()))),
        _ => return None,
    };
    Some(text_value(heap, made))
}

fn position(heap: &Heap, list: usize, item: &Value) -> Option<Value> {
    heap.lists[list].iter().position(|other| heap.is_equal(other, item)).map(|at| Value::Int(at as i64))
}

fn of_list(heap: &mut Heap, list: usize, name: &str, arguments: &Arguments) -> Option<Value> {
    let first = arguments.positional.first().cloned();
    if !heap.spend(heap.lists[list].len() / 16 + 1) {
        return None;
    }
    match name {
        "append" | "add" => {
            heap.lists[list].push(first?);
            Some(Value::None)
        }
        "extend" | "update" => {
            let more = heap.items(&first?)?;
            heap.lists[list].extend(more);
            Some(Value::None)
        }
        "insert" => {
            let at = whole(&first?)?.clamp(0, heap.lists[list].len() as i64) as usize;
            heap.lists[list].insert(at, arguments.positional.get(1)?.clone());
            Some(Value::None)
        }
        "pop" => {
            let length = heap.lists[list].len() as i64;
            let at = first.as_ref().map_or(Some(length - 1), whole)?;
            let at = usize::try_from(if at < 0 { at + length } else { at }).ok()?;
            (at < heap.lists[list].len()).then(|| heap.lists[list].remove(at))
        }
        "remove" => {
            let Some(Value::Int(at)) = position(heap, list, &first?) else { return None };
            heap.lists[list].remove(at as usize);
            Some(Value::None)
        }
        "index" => position(heap, list, &first?),
        "count" => {
            let item = first?;
            let same = heap.lists[list].iter().filter(|other| compare(heap, "==", other, &item) == Some(true));
            Some(Value::Int(same.count() as i64))
        }
        "reverse" => {
            heap.lists[list].reverse();
            Some(Value::None)
        }
        "sort" => {
            let mut items = heap.lists[list].clone();
            sort(heap, &mut items)?;
            heap.lists[list] = items;
            Some(Value::None)
        }
        "copy" => {
            let items = heap.items(&Value::List(list))?;
            Some(heap.list(items))
        }
        _ => None,
    }
}

fn of_dict(heap: &mut Heap, dict: usize, name: &str, arguments: &Arguments) -> Option<Value> {
    let first = arguments.positional.first();
    if !heap.spend(heap.dicts[dict].len() + 1) {
        return None;
    }
    match name {
        "get" | "setdefault" | "pop" => {
            let otherwise = arguments.positional.get(1).cloned().unwrap_or(Value::None);
            let key = first?.clone();
            let found = heap.lookup(dict, &key);
            if name == "setdefault" && found.is_none() {
                heap.set(dict, key, otherwise.clone());
            } else if name == "pop"
                && let Some(at) = heap.dicts[dict].iter().position(|(other, _)| heap.is_equal(other, &key))
            {
                heap.dicts[dict].remove(at);
            }
            Some(found.unwrap_or(otherwise))
        }
        "keys" => heap.items(&Value::Dict(dict)).map(|keys| heap.list(keys)),
        "values" | "itervalues" => {
            let values = heap.dicts[dict].iter().map(|(_, value)| value.clone()).collect();
            Some(heap.list(values))
        }
        "items" | "iteritems" => {
            let pairs = heap.dicts[dict].clone();
            let pairs = pairs.into_iter().map(|(key, value)| heap.tuple(vec![key, value])).collect();
            Some(heap.list(pairs))
        }
        "update" => {
            let more = match first {
                Some(Value::Dict(at)) => heap.dicts[*at].clone(),
                _ => Vec::new(),
            };
            for (key, value) in more {
                heap.set(dict, key, value);
            }
            for (name, value) in &arguments.named {
                heap.set(dict, Value::Text(name.clone()), value.clone());
            }
            Some(Value::None)
        }
        "copy" => {
            let pairs = heap.dicts[dict].clone();
            Some(heap.dict(pairs))
        }
        _ => None,
    }
}
