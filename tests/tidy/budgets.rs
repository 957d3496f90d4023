//! Budgets: what has none grows. A commit that needs more raises the number here, and says in its
//! message what it pays with; one that takes code away lowers it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::repository::{code, read, rust_files};

/// Lines of code in each room: without comments, blank lines and unit tests.
const LINES: &[(&str, usize)] = &[
    ("source", 10320),
    ("store", 7579),
    ("ops", 7290),
    ("tstar-core", 6110),
    ("cli", 5257),
    ("kafka", 5056),
    ("http", 5025),
    ("log", 3423),
    ("pipeline", 3242),
    ("tstar-python", 2265),
    ("model", 2106),
    ("views", 1957),
    ("settings", 1730),
    ("tstar-wasm", 990),
    ("simulate", 1045),
    ("telemetry", 924),
    ("sink", 670),
    ("rdkafka-extra", 570),
    ("tls", 241),
    ("registry", 240),
    ("web", 202),
    ("root", 80),
];

/// How much of a budget may be free, percent, but at least 20 lines: what is taken away is taken
/// from the budget as well.
const FREE: usize = 3;

/// The room of a file: its module, or its crate if that is not tstar; `None` for tests.
fn room(path: &Path) -> Option<&str> {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let name = path.file_stem()?.to_str()?;
    let is_test = |name: &str| ["tests", "fixture"].iter().any(|end| name.ends_with(end));
    if is_test(name) || path.iter().any(|part| part == "tests") {
        return None;
    }
    match (parts.next()?, parts.next()?) {
        ("crates", krate) => (parts.next()? == "src").then_some(krate),
        ("src", file) if file.ends_with(".rs") => Some("root"),
        ("src", module) => Some(module),
        _ => None,
    }
}

/// Number of lines of code.
fn lines(text: &str) -> usize {
    code(text).lines().filter(|line| !line.trim().is_empty()).count()
}

/// What is over its budget, or far below it.
fn unbalanced(room: &str, lines: usize, budget: usize) -> Option<String> {
    let least = budget - (budget * FREE / 100).max(20);
    if lines > budget {
        return Some(format!("{room} has {lines} lines of code, of {budget}: take some away"));
    }
    let free = format!("{room} has {lines} lines of code: lower its budget, which is {budget}");
    (lines < least).then_some(free)
}

#[test]
fn rooms_keep_their_budgets_of_lines() {
    assert_eq!(
        lines("//! It.\n\nfn f() {\n    // why\n    g(); // so\n}\n#[cfg(test)]\nmod t {}\n"),
        3
    );
    assert_eq!(unbalanced("cli", 980, 1000), None);
    assert!(unbalanced("cli", 1001, 1000).is_some() && unbalanced("cli", 900, 1000).is_some());
    let mut rooms: BTreeMap<String, usize> = BTreeMap::new();
    for path in rust_files("src").into_iter().chain(rust_files("crates")) {
        if let Some(room) = room(&path) {
            *rooms.entry(room.to_owned()).or_default() += lines(&read(&path));
        }
    }
    let budgets: BTreeMap<_, _> = LINES.iter().copied().collect();
    let found: Vec<_> = rooms
        .iter()
        .filter_map(|(room, &lines)| {
            unbalanced(room, lines, budgets.get(room.as_str()).copied().unwrap_or_default())
        })
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    assert_eq!(rooms.len(), budgets.len(), "a room of the budgets is gone");
}
