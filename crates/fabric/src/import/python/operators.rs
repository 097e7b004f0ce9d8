//! What operators do, and how values are written as text.

use std::cmp::Ordering;

use super::value::{DEPTH_MAX, Heap, Value, number, whole};

/// So long a text may become.
const TEXT_MAX: usize = 1 << 16;

/// What an operator makes of two values.
pub fn binary(heap: &mut Heap, operator: &str, a: &Value, b: &Value) -> Value {
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        return of_whole(operator, x, y);
    }
    if let (Some(x), Some(y)) = (number(a), number(b)) {
        return of_numbers(operator, x, y);
    }
    match (operator, a, b) {
        ("%", Value::Text(format), _) => percent(heap, format, b).map_or(Value::Unknown, |text| text_value(heap, text)),
        ("+", Value::Text(a), Value::Text(b)) => text_value(heap, format!("{a}{b}")),
        ("*", Value::Text(text), count) | ("*", count, Value::Text(text)) => repeated(heap, text, count),
        ("+", Value::List(x), Value::List(y)) | ("+", Value::Tuple(x), Value::Tuple(y)) => {
            if !heap.spend(heap.lists[*x].len() + heap.lists[*y].len()) {
                return Value::Unknown;
            }
            let all = heap.lists[*x].iter().chain(&heap.lists[*y]).cloned().collect();
            if matches!(a, Value::List(_)) { heap.list(all) } else { heap.tuple(all) }
        }
        ("*", Value::List(items), count) => match whole(count) {
            Some(count) if heap.spend((count.max(0) as usize).saturating_mul(heap.lists[*items].len())) => {
                let all = vec![heap.lists[*items].clone(); count.max(0) as usize].concat();
                heap.list(all)
            }
            _ => Value::Unknown,
        },
        _ => Value::Unknown,
    }
}

/// What Python says of an operator between a text and a number, if it makes nothing of them.
pub fn type_error(operator: &str, a: &Value, b: &Value) -> Option<String> {
    let kind = |value: &Value| match value {
        Value::Bool(_) => Some("bool"),
        Value::Int(_) => Some("int"),
        Value::Float(_) => Some("float"),
        Value::Text(_) => Some("str"),
        _ => None,
    };
    let (left, right) = (kind(a)?, kind(b)?);
    match (operator, left, right) {
        // Python formats with it.
        ("%", "str", _) | ("+", "str", "str") => None,
        (_, left, right) if left != "str" && right != "str" => None,
        ("+", "str", right) => Some(format!("TypeError: can only concatenate str (not \"{right}\") to str")),
        ("*", "str", "int" | "bool") | ("*", "int" | "bool", "str") => None,
        ("*", left, right) => {
            let other = if left == "str" { right } else { left };
            Some(format!("TypeError: can't multiply sequence by non-int of type '{other}'"))
        }
        ("**", ..) => Some(format!("TypeError: unsupported operand type(s) for ** or pow(): '{left}' and '{right}'")),
        _ => Some(format!("TypeError: unsupported operand type(s) for {operator}: '{left}' and '{right}'")),
    }
}

/// A text, if it is not too long.
pub fn text_value(heap: &Heap, text: String) -> Value {
    if text.len() <= TEXT_MAX && heap.spend(text.len() / 8) { Value::Text(text.into()) } else { Value::Unknown }
}

fn repeated(heap: &Heap, text: &str, count: &Value) -> Value {
    match whole(count).map(|count| count.max(0) as usize) {
        Some(count) if text.len().saturating_mul(count) <= TEXT_MAX => text_value(heap, text.repeat(count)),
        _ => Value::Unknown,
    }
}

fn of_whole(operator: &str, a: i64, b: i64) -> Value {
    let value = match operator {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        // Rounded down, as the remainder's sign is the divisor's.
        "//" => a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q }),
        "%" => a.checked_rem(b).and_then(|r| if r != 0 && (r < 0) != (b < 0) { r.checked_add(b) } else { Some(r) }),
        "**" if b < 0 => return of_numbers(operator, a as f64, b as f64),
        "**" => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        "/" => return of_numbers(operator, a as f64, b as f64),
        "<<" => u32::try_from(b).ok().filter(|b| *b < 62).and_then(|b| a.checked_mul(1_i64 << b)),
        ">>" => u32::try_from(b).ok().filter(|b| *b < 63).map(|b| a >> b),
        "&" => Some(a & b),
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        _ => None,
    };
    value.map_or(Value::Unknown, Value::Int)
}

fn of_numbers(operator: &str, a: f64, b: f64) -> Value {
    let value = match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        "**" => a.powf(b),
        _ => return Value::Unknown,
    };
    if value.is_finite() { Value::Float(value) } else { Value::Unknown }
}

/// Whether a comparison holds; `None`: that is not known.
pub fn compare(heap: &Heap, operator: &str, a: &Value, b: &Value) -> Option<bool> {
    let is_unknown = |value: &Value| matches!(value, Value::Unknown | Value::Module);
    if is_unknown(a) || is_unknown(b) {
        return None;
    }
    Some(match operator {
        "==" => heap.is_equal(a, b),
        "!=" => !heap.is_equal(a, b),
        "in" | "not in" => contains(heap, b, a)? == (operator == "in"),
        _ => {
            let order = order(heap, a, b)?;
            match operator {
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                ">=" => order != Ordering::Less,
                _ => return None,
            }
        }
    })
}

fn contains(heap: &Heap, whole: &Value, item: &Value) -> Option<bool> {
    if let (Value::Text(whole), Value::Text(part)) = (whole, item) {
        return Some(whole.contains(&**part));
    }
    let items = match whole {
        Value::List(at) | Value::Tuple(at) => {
            return Some(heap.lists[*at].iter().any(|other| heap.is_equal(other, item)));
        }
        Value::Dict(at) => &heap.dicts[*at],
        _ => return None,
    };
    Some(items.iter().any(|(key, _)| heap.is_equal(key, item)))
}

/// Which of two values comes first.
pub fn order(heap: &Heap, a: &Value, b: &Value) -> Option<Ordering> {
    order_within(heap, a, b, DEPTH_MAX)
}

fn order_within(heap: &Heap, a: &Value, b: &Value, depth: usize) -> Option<Ordering> {
    if !heap.spend(1) {
        return None;
    }
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return a.partial_cmp(&b);
    }
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) if depth > 0 => {
            let (a, b) = (&heap.lists[*a], &heap.lists[*b]);
            for (a, b) in a.iter().zip(b) {
                match order_within(heap, a, b, depth - 1)? {
                    Ordering::Equal => {}
                    other => return Some(other),
                }
            }
            Some(a.len().cmp(&b.len()))
        }
        _ => None,
    }
}

/// A value as `str()` writes it; `None`: that is not known.
pub fn written(heap: &Heap, value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => heap.spend(text.len() / 8 + 1).then(|| text.to_string()),
        _ => shown(heap, value, DEPTH_MAX),
    }
}

/// A value as `repr()` writes it.
fn shown(heap: &Heap, value: &Value, depth: usize) -> Option<String> {
    if depth == 0 || !heap.spend(1) {
        return None;
    }
    let all = |items: &[Value]| {
        let mut text = String::new();
        for item in items {
            let separator = if text.is_empty() { "" } else { ", " };
            text.push_str(separator);
            text.push_str(&shown(heap, item, depth - 1)?);
            if text.len() > TEXT_MAX {
                return None;
            }
        }
        Some(text)
    };
    Some(match value {
        Value::None => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => format!("'{text}'"),
        Value::List(at) => format!("[{}]", all(&heap.lists[*at])?),
        Value::Tuple(at) => format!("({})", all(&heap.lists[*at])?),
        _ => return None,
    })
}

/// `format % values`.
fn percent(heap: &Heap, format: &str, values: &Value) -> Option<String> {
    let mut given = match values {
        Value::Tuple(at) => heap.lists[*at].clone(),
        other => vec![other.clone()],
    }
    .into_iter();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let value = match rest.strip_prefix('(') {
            Some(inside) => {
                let (name, behind) = inside.split_once(')')?;
                rest = behind;
                let Value::Dict(dict) = values else { return None };
                Some(heap.lookup(*dict, &Value::Text(name.into()))?)
            }
            None => None,
        };
        let end = rest.find(|c: char| c.is_ascii_alphabetic() || c == '%')?;
        let (flags, kind) = (&rest[..end], &rest[end..=end]);
        rest = &rest[end + 1..];
        if kind == "%" {
            text.push('%');
            continue;
        }
        let value = match value {
            Some(value) => value,
            None => given.next()?,
        };
        text.push_str(&formatted(heap, &value, &format!("{}{kind}", percent_flags(flags)))?);
        if text.len() > TEXT_MAX {
            return None;
        }
    }
    text.push_str(rest);
    Some(text)
}

/// Flags of `%` as those of a format: there, text stands right by itself.
fn percent_flags(flags: &str) -> String {
    match flags.strip_prefix('-') {
        Some(width) => format!("<{width}"),
        None if flags.is_empty() || flags.starts_with(['0', '.']) => flags.to_owned(),
        None => format!(">{flags}"),
    }
}

/// `text.format(..)`
pub fn format(heap: &Heap, format: &str, positional: &[Value], named: &[(std::rc::Rc<str>, Value)]) -> Option<String> {
    let (mut text, mut rest, mut next) = (String::new(), format, 0);
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let mark = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(mark) {
            text.push_str(mark);
            rest = behind;
            continue;
        }
        let (inside, behind) = rest.split_once('}').filter(|_| mark == "{")?;
        rest = behind;
        let (name, how) = inside.split_once(':').unwrap_or((inside, ""));
        let name = name.split('!').next().unwrap_or_default();
        let value = if name.is_empty() {
            next += 1;
            positional.get(next - 1)?
        } else if let Ok(number) = name.parse::<usize>() {
            positional.get(number)?
        } else {
            named.iter().find(|(other, _)| **other == *name).map(|(_, value)| value)?
        };
        text.push_str(&formatted(heap, value, how)?);
        if text.len() > TEXT_MAX {
            return None;
        }
    }
    text.push_str(rest);
    Some(text)
}

/// A value as a format says: `04d`, `.2f`, `>8`, `x`.
pub fn formatted(heap: &Heap, value: &Value, how: &str) -> Option<String> {
    let (mut fill, mut align, mut rest) = (' ', None, how);
    let mut chars = how.chars();
    match (chars.next(), chars.next()) {
        (Some(c), Some(mark)) if "<>^".contains(mark) => (fill, align, rest) = (c, Some(mark), chars.as_str()),
        (Some(mark), _) if "<>^".contains(mark) => (align, rest) = (Some(mark), &how[1..]),
        _ => {}
    }
    let rest = rest.trim_start_matches(['+', ' ', '#', ',']);
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let width = &rest[..rest.len() - digits.len()];
    if width.starts_with('0') && align.is_none() {
        (fill, align) = ('0', Some('>'));
    }
    let width: usize = if width.is_empty() { 0 } else { width.parse().ok().filter(|width| *width <= 256)? };
    let kind = digits.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let precision = digits[..digits.len() - kind.len()].strip_prefix('.').and_then(|text| text.parse::<usize>().ok());
    let precision = precision.filter(|precision| *precision <= 64);
    let text = match kind {
        "d" | "i" | "u" => match value {
            Value::Float(value) => format!("{:.0}", value.trunc()),
            other => whole(other)?.to_string(),
        },
        "x" => format!("{:x}", whole(value)?),
        "X" => format!("{:X}", whole(value)?),
        "o" => format!("{:o}", whole(value)?),
        "b" => format!("{:b}", whole(value)?),
        "c" => char::from_u32(u32::try_from(whole(value)?).ok()?)?.to_string(),
        "f" | "F" => format!("{:.*}", precision.unwrap_or(6), number(value)?),
        "e" | "g" => format!("{}", number(value)?),
        "r" => shown(heap, value, DEPTH_MAX)?,
        "s" | "" => match (precision, value) {
            (Some(precision), Value::Float(value)) => format!("{value:.precision$}"),
            (Some(precision), _) => written(heap, value)?.chars().take(precision).collect(),
            (None, _) => written(heap, value)?,
        },
        _ => return None,
    };
    let missing = width.saturating_sub(text.chars().count());
    let align = align.unwrap_or(if number(value).is_some() { '>' } else { '<' });
    let pad = |count: usize| fill.to_string().repeat(count);
    Some(match (align, text.strip_prefix('-')) {
        ('<', _) => format!("{text}{}", pad(missing)),
        ('^', _) => format!("{}{text}{}", pad(missing / 2), pad(missing - missing / 2)),
        (_, Some(digits)) if fill == '0' => format!("-{}{digits}", pad(missing)),
        _ => format!("{}{text}", pad(missing)),
    })
}
