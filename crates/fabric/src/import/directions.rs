//! A link whose two directions differ, as the fabric file has it: keys of the link, and `back:` for what is otherwise from the second node to the first.

use super::network::Link;

/// Keys and values as the fabric file has them.
pub type Keys = Vec<(&'static str, String)>;

/// What stands for the lack of a key: a rate and a queue have nothing of the kind.
const NOTHING: [(&str, &str); 3] = [("delay", "0ms"), ("jitter", "0ms"), ("loss", "0%")];

/// A link on which the first end sends as `forth` says, and the second one as `back` does. The ends change places where only so the lack of a rate can be written.
pub fn link((a, b): (usize, usize), forth: Keys, back: Keys) -> Link {
    let is_same = forth.len() == back.len() && forth.iter().all(|key| back.contains(key));
    let is_lacking = |key: &str| value(&forth, key).is_some() && value(&back, key).is_none();
    match (is_same, is_lacking("rate") || is_lacking("queue")) {
        (true, _) => Link { ends: (a, b), keys: forth, back: Vec::new() },
        (false, true) => Link { ends: (b, a), back: differences(&back, forth), keys: back },
        (false, false) => Link { ends: (a, b), back: differences(&forth, back), keys: forth },
    }
}

fn value<'a>(keys: &'a Keys, key: &str) -> Option<&'a str> {
    keys.iter().find(|(other, _)| *other == key).map(|(_, value)| value.as_str())
}

/// What is otherwise in the second than in the first.
fn differences(first: &Keys, mut second: Keys) -> Keys {
    let lacking = NOTHING.into_iter().filter(|(key, _)| value(first, key).is_some() && value(&second, key).is_none());
    let lacking: Keys = lacking.map(|(key, nothing)| (key, nothing.to_owned())).collect();
    second.retain(|(key, own)| value(first, key) != Some(own));
    second.extend(lacking);
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_direction_lacks_is_written_or_the_ends_change_places() {
        let keys = |text: &'static str| -> Keys {
            text.split_whitespace()
                .filter_map(|key| key.split_once('='))
                .map(|(key, value)| (key, value.to_owned()))
                .collect()
        };
        for (forth, back, ends, own, other) in [
            ("rate=1Mbit delay=2ms", "delay=2ms rate=1Mbit", (1, 2), "rate=1Mbit delay=2ms", ""),
            ("", "rate=1Mbit", (1, 2), "", "rate=1Mbit"),
            ("rate=1Mbit", "", (2, 1), "", "rate=1Mbit"),
            ("rate=1Mbit loss=3%", "rate=2Mbit", (1, 2), "rate=1Mbit loss=3%", "rate=2Mbit loss=0%"),
            ("rate=1Mbit", "delay=2ms jitter=1ms", (2, 1), "delay=2ms jitter=1ms", "rate=1Mbit delay=0ms jitter=0ms"),
            ("rate=1Mbit queue=9", "rate=1Mbit", (2, 1), "rate=1Mbit", "queue=9"),
        ] {
            let made = link((1, 2), keys(forth), keys(back));
            assert_eq!((made.ends, made.keys, made.back), (ends, keys(own), keys(other)), "{forth} | {back}");
        }
    }
}
