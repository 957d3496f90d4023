//! `tests/nightly/breaks.toml`: each break still has its line, so that none goes untried at night.

use std::path::Path;

use toml::{Table, Value};

use crate::repository::read;

fn text<'a>(of: &'a Table, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What keeps a break from being tried.
fn untried(name: &str, of: &Table, source: &str) -> Option<String> {
    let [what, old, new] = ["what", "old", "new"].map(|key| text(of, key));
    let found = source.lines().filter(|line| line.contains(old)).count();
    let is_whole = !what.is_empty() && !old.is_empty() && old != new;
    let is_good = is_whole && found == 1;
    (!is_good).then(|| format!("{name}: in {found} lines of {}: {old}", text(of, "file")))
}

#[test]
fn each_break_has_one_line() {
    let of = |old: &str| {
        let entries = [("what", "a sum"), ("old", old), ("new", "a - b")];
        entries.map(|(key, value)| (key.to_owned(), Value::from(value))).into_iter().collect()
    };
    assert_eq!(untried("sum", &of("a + b"), "let c = a + b;\n"), None);
    for wrong in ["a * b", "b", "a - b", ""] {
        assert!(untried("sum", &of(wrong), "let c = a + b;\nlet d = b;\n").is_some(), "{wrong}");
    }

    let breaks: Table = read(Path::new("tests/nightly/breaks.toml")).parse().unwrap();
    let suites = breaks.iter().flat_map(|(suite, of)| {
        of.as_table().unwrap().iter().map(move |(name, of)| (format!("{suite}.{name}"), of))
    });
    let mut wrong = Vec::new();
    for (name, of) in suites {
        let of = of.as_table().unwrap();
        wrong.extend(untried(&name, of, &read(Path::new(text(of, "file")))));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
