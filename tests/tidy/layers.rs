//! Modules use only lower layers: the table at the top of `src/lib.rs`.

use std::path::{Path, PathBuf};

use crate::repository::{code, read, rust_files};

/// Where modules are: those of the core come first.
const ROOTS: &[&str] = &["crates/tstar-core/src", "src"];

/// The modules, lowest first; each line is a layer.
const ORDER: &[&[&str]] = &[
    &["identity", "model", "timeline", "segment", "advice", "codec", "fleet", "evidence"],
    &["telemetry", "views", "tls", "web", "source", "store", "kafka", "registry"],
    &["settings"],
    &["sink", "pipeline", "log"],
    &["simulate", "ops"],
    &["http", "cli"],
];

/// How many files outside `log/`, `sink/` and `store/` may ask for a kind of log, or for a store in
/// a file, which is how that is asked. It only shrinks.
const LOG_KIND_FILES: usize = 6;

/// The index of a module in the order.
fn rank(module: &str) -> Option<usize> {
    ORDER.iter().copied().flatten().position(|known| *known == module)
}

/// The module that a file belongs to; `None` for the roots, which name all modules.
fn module_of(path: &Path) -> Option<&str> {
    let first =
        ROOTS.iter().find_map(|root| path.strip_prefix(root).ok())?.iter().next()?.to_str()?;
    (!first.ends_with(".rs")).then_some(first)
}

/// The modules of the library that code names.
fn named(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for root in ["crate::", "tstar::", "tstar_core::"] {
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
    let Some(own) = rank(module) else { return vec![format!("`{module}` has no layer")] };
    let is_above = |other: &String| rank(other).is_some_and(|other| other > own);
    named(text).into_iter().filter(is_above).collect()
}

/// The modules that `lib.rs` declares and its map does not name.
fn unmapped(lib: &str) -> Vec<String> {
    let declared = lib.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    let is_mapped = |module: &&str| lib.contains(&format!("| `{module}` |"));
    let odd = declared.filter(|module| !is_mapped(module) || rank(module).is_none());
    odd.map(str::to_owned).collect()
}

#[test]
fn modules_use_what_lies_below_them() {
    assert_eq!(
        named("use crate::{store::Row, http};\n// crate::cli\nlet x = tstar::ops::f();"),
        ["http", "ops", "store"]
    );
    assert_eq!(
        upward("timeline", "use tstar_sim::model::Sample;\nuse crate::store::Row;"),
        ["store"]
    );
    assert_eq!(upward("store", "use crate::kafka::Brokers;"), ["kafka"]);
    assert_eq!(upward("ops", "use crate::store::Row;"), [""; 0]);
    assert_eq!(upward("helpers", ""), ["`helpers` has no layer"]);
    assert_eq!(upward("kafka", "x();\n#[cfg(test)]\nmod tests {\n use crate::cli;\n}"), [""; 0]);

    let mut found = Vec::new();
    for path in ROOTS.iter().flat_map(|root| rust_files(root)) {
        let is_test = path.file_stem().is_some_and(|it| it.to_str().unwrap().ends_with("tests"));
        let Some(module) = module_of(&path).filter(|_| !is_test) else { continue };
        let upward = upward(module, &read(&path)).into_iter();
        found.extend(upward.map(|other| format!("{}: uses {other}", path.display())));
    }
    assert!(found.is_empty(), "imports upward:\n{}", found.join("\n"));
}

/// Whether code names a kind of store, rather than any store.
fn names_backend(text: &str) -> bool {
    const BACKENDS: &[&str] = &["SqliteStore", "ScyllaStore", "ScyllaUrl"];
    let code = code(text);
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| BACKENDS.contains(&word))
        || ["store::sqlite", "store::scylla"].iter().any(|path| code.contains(path))
}

#[test]
fn kinds_of_stores_are_known_in_one_place() {
    assert!(names_backend("fn f(store: &SqliteStore) {}"));
    assert!(names_backend("use crate::store::scylla::Health;"));
    assert!(!names_backend("// SqliteStore\nfn f(store: &AnyStore) {}"));

    let outside = rust_files("src").into_iter().filter(|path| !path.starts_with("src/store"));
    let found: Vec<_> = outside.filter(|path| names_backend(&read(path))).collect();
    assert!(found.is_empty(), "use `AnyStore` instead:\n{found:#?}");
}

/// Whether code asks which kind of log a store was built from.
fn names_log_kind(text: &str) -> bool {
    let code = code(text);
    ["EmbeddedStore", ".embedded()", "Log::Files", "Log::Topic"].iter().any(|it| code.contains(it))
}

#[test]
fn kinds_of_logs_are_known_in_one_place() {
    assert!(names_log_kind("match log { Log::Files(log) => log.read(), _ => () }"));
    assert!(names_log_kind("if store.embedded().is_some() {}"));
    assert!(!names_log_kind("// Log::Files\nfn f(log: &Log) {}"));

    let rooms = ["src/log", "src/sink", "src/store"];
    let is_outside = |path: &PathBuf| {
        !rooms.iter().any(|room| path.starts_with(room)) && !path.ends_with("schemas_tests.rs")
    };
    let outside = rust_files("src").into_iter().filter(is_outside);
    let found: Vec<_> = outside.filter(|path| names_log_kind(&read(path))).collect();
    assert!(found.len() <= LOG_KIND_FILES, "ask `crate::log::Log` instead:\n{found:#?}");
}

#[test]
fn the_map_names_every_module() {
    let planted = "//! | layer | `store` | rows |\npub mod store;\nmod helpers;\n";
    assert_eq!(unmapped(planted), ["helpers"]);
    for root in ROOTS {
        assert_eq!(unmapped(&read(&Path::new(root).join("lib.rs"))), [""; 0]);
    }
}
