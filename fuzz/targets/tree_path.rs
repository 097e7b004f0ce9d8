//! Any text is a path or an error; a path is printed and parsed as itself, and its parts fit it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tree::Path;

fuzz_target!(|text: &str| {
    let (one, other) = text.split_once('\n').unwrap_or((text, "/"));
    let Ok(path) = Path::parse(one) else { return };
    assert_eq!(Path::parse(path.as_str()).as_ref(), Ok(&path));
    assert!(path.as_str().len() <= tree::path::MAX_PATH_BYTES);
    assert_eq!(path.segments().count() == 0, path.is_root() || path.is_module());
    for segment in path.segments() {
        assert!(!segment.name().is_empty());
        assert!(segment.keys().is_none_or(|keys| !keys.is_empty()));
    }
    if let Some(parent) = path.parent() {
        assert_eq!(Path::parse(parent.as_str()).as_ref(), Ok(&parent));
        assert!(parent.contains(&path) && parent < path && !path.contains(&parent));
    }
    if let Ok(other) = Path::parse(other) {
        assert_eq!(path.cmp(&other), other.cmp(&path).reverse());
        assert_eq!(path == other, path.contains(&other) && other.contains(&path));
    }
});
