//! Numbers of things in words.

/// The word for so many: `host`, `hosts`.
pub fn word(count: u64, one: &str) -> String {
    match (count, one.ends_with("ch")) {
        (1, _) => one.to_owned(),
        (_, true) => format!("{one}es"),
        (_, false) => format!("{one}s"),
    }
}

/// So many of something: `1 switch`, `2 switches`.
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {}", word(count, one))
}
