//! Paths: what is one, what is not, and how they are ordered.

use crate::common::{parse, path};
use proptest::prelude::*;
use tree::{Path, PathError};

fn position(text: &str) -> usize {
    match Path::parse(text) {
        Err(PathError::Syntax { position, .. } | PathError::TooDeep { position }) => position,
        other => panic!("{text:?} gives {other:?}"),
    }
}

#[test]
fn canonical_form() {
    for (given, canonical) in [
        ("/", "/"),
        ("/car:cars", "/car:cars"),
        ("/car:cars/car-entry=17", "/car:cars/car-entry=17"),
        ("/car:cars/car:car-entry=17/other:x/other:y/car:z", "/car:cars/car-entry=17/other:x/y/car:z"),
        ("/m:l=openflow:1", "/m:l=openflow%3A1"),
        ("/m:l=a%2fb,c%2Cd", "/m:l=a%2Fb,c%2Cd"),
        ("/m:l=%61", "/m:l=a"),
        ("/m:l=a=b", "/m:l=a%3Db"),
        ("/m:l=", "/m:l="),
        ("/m:l=:", "/m:l=%3A"),
        ("/m:", "/m:"),
        ("/m:l=,,x", "/m:l=,,x"),
        ("/m:l=käse", "/m:l=k%C3%A4se"),
        // The example of RFC 8040 section 3.5.3.
        ("/example-top:top/list1=%2C%27\"%3A\"%20%2F,,foo", "/example-top:top/list1=%2C%27%22%3A%22%20%2F,,foo"),
    ] {
        assert_eq!(parse(given).as_str(), canonical);
    }
}

#[test]
fn mistakes_have_positions() {
    for (text, at) in [
        ("", 0),
        ("car:cars", 0),
        ("/car", 4),
        ("//", 1),
        ("/car:/", 5),
        ("/car:cars/x:", 12),
        ("/car:cars/", 10),
        ("/car:cars//x", 10),
        ("/car:cars x", 9),
        ("/car:cars/7", 10),
        ("/m:l=%4", 5),
        ("/m:l=x%zz", 6),
        ("/m:l=%FF", 5),
        ("/m:l=1?content=config", 6),
    ] {
        assert_eq!(position(text), at, "{text:?}");
    }
    let deep = "/m:a".to_owned() + &"/a".repeat(31);
    assert_eq!(parse(&deep).segments().count(), 32);
    assert_eq!(position(&(deep.clone() + "/a")), deep.len());
    let message = Path::parse("/car").expect_err("no module").to_string();
    assert!(message.contains("byte 4") && message.contains("module"), "{message}");
}

#[test]
fn length_is_bounded_in_both_forms() {
    let longest = "/m:l=".to_owned() + &"x".repeat(1_019);
    assert_eq!(parse(&longest).as_str().len(), 1_024);
    assert_eq!(Path::parse(&(longest + "x")), Err(PathError::TooLong { bytes: 1_025 }));
    let grows = "/m:l=".to_owned() + &":".repeat(340);
    assert!(matches!(Path::parse(&grows), Err(PathError::TooLong { bytes: 1_025 })));
}

#[test]
fn parts() {
    let path = parse("/car:cars/entry=17,a%2Fb/other:speed");
    assert_eq!(path.module(), Some("car"));
    let [cars, entry, speed] = path.segments().collect::<Vec<_>>()[..] else { panic!("three segments") };
    assert_eq!((cars.module(), cars.name(), cars.keys()), (Some("car"), "cars", None));
    assert_eq!((entry.module(), entry.name()), (None, "entry"));
    assert_eq!(entry.keys(), Some(vec!["17".to_owned(), "a/b".to_owned()]));
    assert_eq!((speed.module(), speed.name()), (Some("other"), "speed"));
    assert_eq!(path.parent(), Some(parse("/car:cars/entry=17,a%2Fb")));
    assert_eq!(parse("/car:cars").parent(), Some(Path::root()));
    assert_eq!((Path::root().parent(), Path::root().module(), Path::root().segments().count()), (None, None, 0));
    assert_eq!(Path::root().child("car:cars", &[]), Ok(parse("/car:cars")));
    assert_eq!(parse("/car:cars").child("entry", &["17", "a/b"]), Ok(parse("/car:cars/entry=17,a%2Fb")));
    assert!(parse("/car:cars").child("a/b", &[]).is_err());
    assert!(Path::root().child("cars", &[]).is_err());
    let module = Path::of_module("car").expect("a name");
    assert_eq!((module.as_str(), module.module(), module.segments().count()), ("/car:", Some("car"), 0));
    assert_eq!((module.child("cars", &[]), module.parent()), (Ok(parse("/car:cars")), Some(Path::root())));
    assert!(["", "7", "car:cars", "car:cars/x", "/", "car:l="].iter().all(|name| Path::of_module(name).is_err()));
}

#[test]
fn containment() {
    for (outer, inner, expected) in [
        ("/", "/a:b", true),
        ("/", "/a:", true),
        ("/a:", "/", false),
        ("/a:", "/a:", true),
        ("/a:", "/a:b-c=1", true),
        ("/a:", "/ab:c", false),
        ("/a:b", "/a:", false),
        ("/a:b", "/a:b", true),
        ("/a:b", "/a:b/c", true),
        ("/a:b", "/a:b=1/c", true),
        ("/a:b", "/a:bc", false),
        ("/a:b", "/a:b-c", false),
        ("/a:b", "/", false),
        ("/a:b=1", "/a:b=1/c", true),
        ("/a:b=1", "/a:b", false),
        ("/a:b=1", "/a:b=10", false),
        ("/a:b=1", "/a:b=1,2", false),
    ] {
        assert_eq!(parse(outer).contains(&parse(inner)), expected, "{outer} and {inner}");
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_parsed_again(path in path()) {
        prop_assert_eq!(Path::parse(path.as_str()), Ok(path.clone()));
        let json = serde_json::to_string(&path).expect("a string");
        prop_assert_eq!(serde_json::from_str::<Path>(&json).expect("a path"), path);
    }

    #[test]
    fn any_text_is_a_canonical_path_or_an_error(text in "(/[a-c:=,%/.A2é?-]{0,12}){0,4}") {
        if let Ok(path) = Path::parse(&text) {
            prop_assert_eq!(Path::parse(path.as_str()), Ok(path.clone()));
            prop_assert!(path.as_str().is_ascii());
        }
    }

    #[test]
    fn keys_come_back(keys in prop::collection::vec(any::<String>().prop_filter("short", |key| key.len() < 80), 1..4)) {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let path = parse("/m:x").child("l", &keys).expect("short enough");
        let last = path.segments().last().expect("two segments");
        prop_assert_eq!(last.keys().expect("an entry"), keys);
    }

    /// Between a path and what it contains stands nothing that it does not contain.
    #[test]
    fn a_subtree_is_one_range(mut paths in prop::collection::vec(path(), 3..12)) {
        paths.sort();
        for outer in &paths {
            let inside: Vec<usize> = (0..paths.len()).filter(|&at| outer.contains(&paths[at])).collect();
            prop_assert!(inside.windows(2).all(|pair| pair[1] == pair[0] + 1), "{} in {:?}", outer, paths);
            prop_assert!(paths[inside[0]] == *outer);
        }
    }

    #[test]
    fn containing_is_by_segments(a in path(), b in path()) {
        let mut ancestor = Some(b.clone());
        let mut found = a.is_module() && a.module() == b.module();
        while let Some(path) = ancestor {
            // A list without keys has all its entries.
            let list = path.as_str().rsplit_once('/').and_then(|(_, last)| last.split_once('='));
            let list = list.map(|(_, keys)| path.as_str()[..path.as_str().len() - keys.len() - 1].to_owned());
            found |= path == a || list.is_some_and(|list| list == a.as_str());
            ancestor = path.parent();
        }
        prop_assert_eq!(a.contains(&b), found);
    }
}
