//! Modules use what lies below them, and nothing above: the table at the top of `src/lib.rs`.

use std::path::Path;

use super::{code, read, rust_files};

/// The modules, lowest first; those of a line are a layer.
const ORDER: &[&[&str]] = &[
    &["identity", "model", "timeline", "codec"],
    &["telemetry", "source", "store", "views", "kafka"],
    &["pipeline"],
    &["simulate", "ops"],
    &["settings", "http", "cli"],
];

/// Imports upward that are still there, and why. One that is gone has to go here too.
const STILL: &[(&str, &str)] = &[
    // The table of changes of the embedded store holds events as the feed tells them.
    ("store", "views"),
];

/// The place of a module in the order.
fn place(module: &str) -> Option<usize> {
    ORDER.iter().copied().flatten().position(|known| *known == module)
}

/// The module that a file of `src` belongs to; none for the roots, which name all modules.
fn module_of(path: &Path) -> Option<&str> {
    let first = path.strip_prefix("src").ok()?.iter().next()?.to_str()?;
    (!first.ends_with(".rs")).then_some(first)
}

/// The modules of the library that code names.
fn named(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for root in ["crate::", "tstar::"] {
        for (at, _) in code.match_indices(root) {
            let is_whole =
                !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
            let rest = &code[at + root.len()..];
            let group = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
            let names = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
            let first = |name: &str| {
                let name = name.trim_start();
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
                name[..end.unwrap_or(name.len())].to_owned()
            };
            found.extend(names.into_iter().filter(|_| is_whole).map(first));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Imports of a module that lead upward.
fn upward(module: &str, text: &str) -> Vec<String> {
    let Some(own) = place(module) else { return vec![format!("`{module}` has no place")] };
    let is_above = |other: &String| place(other).is_some_and(|other| other > own);
    named(text).into_iter().filter(is_above).collect()
}

/// The modules that `lib.rs` declares and its map does not name.
fn unmapped(lib: &str) -> Vec<String> {
    let declared = lib.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    let is_mapped = |module: &&str| lib.contains(&format!("| [`{module}`] |"));
    let odd = declared.filter(|module| !is_mapped(module) || place(module).is_none());
    odd.map(str::to_owned).collect()
}

#[test]
fn modules_use_what_lies_below_them() {
    assert_eq!(
        named("use crate::{store::Row, http};\n// crate::cli\nlet x = tstar::ops::f();"),
        ["http", "ops", "store"]
    );
    assert_eq!(upward("timeline", "use crate::model::Sample;\nuse crate::store::Row;"), ["store"]);
    assert_eq!(upward("store", "use crate::kafka::Brokers;"), ["kafka"]);
    assert_eq!(upward("ops", "use crate::store::Row;"), [""; 0]);
    assert_eq!(upward("helpers", ""), ["`helpers` has no place"]);
    assert_eq!(upward("kafka", "x();\n#[cfg(test)]\nmod tests {\n use crate::cli;\n}"), [""; 0]);

    let (mut found, mut still) = (Vec::new(), Vec::new());
    for path in rust_files("src") {
        let is_test = path.file_stem().is_some_and(|it| it.to_str().unwrap().ends_with("tests"));
        let Some(module) = module_of(&path).filter(|_| !is_test) else { continue };
        for other in upward(module, &read(&path)) {
            match STILL.iter().find(|(from, to)| *from == module && *to == other) {
                Some(known) => still.push(known),
                None => found.push(format!("{}: uses {other}", path.display())),
            }
        }
    }
    assert!(found.is_empty(), "imports upward:\n{}", found.join("\n"));
    assert!(STILL.iter().all(|known| still.contains(&known)), "gone: take it off the list");
}

#[test]
fn the_map_names_every_module() {
    let planted = "//! | layer | [`store`] | rows |\npub mod store;\nmod helpers;\n";
    assert_eq!(unmapped(planted), ["helpers"]);
    assert_eq!(unmapped(&read(Path::new("src/lib.rs"))), [""; 0]);
}
