//! The order of names as people count: `h2` before `h10`.

use std::cmp::Ordering;

/// Compares two names: runs of digits by their numbers, all else by its characters.
pub fn compare(a: &str, b: &str) -> Ordering {
    let by_parts = parts(a).cmp(parts(b));
    // `h01` and `h1` are two names.
    by_parts.then_with(|| a.cmp(b))
}

/// A part of a name. A number has no leading zeros; a longer one is larger.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(usize, &'a str),
    Text(&'a str),
}

fn parts(mut rest: &str) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        let digits = part.trim_start_matches('0');
        Some(if is_digit { Part::Number(digits.len(), digits) } else { Part::Text(part) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = ["leaf1", "h10a", "h10", "s0.10", "h2-eth10", "h2-eth1", "h2", "10", "s0.9", "2", "h01", "h1"];
        names.sort_by(|a, b| compare(a, b));
        let ordered = ["2", "10", "h01", "h1", "h2", "h2-eth1", "h2-eth10", "h10", "h10a", "leaf1", "s0.9", "s0.10"];
        assert_eq!(names, ordered);
        assert_eq!(compare("h1", "h01").reverse(), compare("h01", "h1"));
        assert_eq!(compare(&"9".repeat(400), &"1".repeat(401)), Ordering::Less);
    }

    #[test]
    fn it_is_an_order() {
        let letters = ["a", "b", "0", "1"];
        let longer = |names: Vec<String>| {
            let more = names.iter().flat_map(|name| letters.map(|letter| format!("{name}{letter}")));
            names.iter().cloned().chain(more).collect::<Vec<_>>()
        };
        let names = (0..2).fold(vec![String::new()], |names, _| longer(names));
        for a in &names {
            for b in &names {
                assert_eq!(compare(a, b), compare(b, a).reverse(), "{a} {b}");
                assert_eq!(compare(a, b) == Ordering::Equal, a == b, "{a} {b}");
                for c in names.iter().filter(|c| compare(a, b).is_le() && compare(b, c).is_le()) {
                    assert!(compare(a, c).is_le(), "{a} {b} {c}");
                }
            }
        }
    }
}
