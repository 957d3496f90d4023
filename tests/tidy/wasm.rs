//! The committed WebAssembly module is built from the sources as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::repository::{files, read};
use crate::root;

/// What the module was built from, as `crates/tstar-wasm/build` wrote it: the compiler, crates with
/// their versions, and files with their SHA-256.
const RECORD: &str = "crates/tstar-wasm/npm/tstar.wasm.of";

const MODULE: &str = "crates/tstar-wasm/npm/tstar.wasm";

/// Whether a file goes into the module.
fn is_source(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|it| it.to_str()) else { return false };
    let is_test = name.ends_with("tests.rs") || name.ends_with("fixture.rs");
    let of = |krate: &str| {
        let is_code = path.starts_with(format!("{krate}/src")) && name.ends_with(".rs");
        (is_code && !is_test) || path == Path::new(&format!("{krate}/Cargo.toml"))
    };
    let is_build = path == Path::new("crates/tstar-wasm/build");
    is_build || path == Path::new(MODULE) || of("crates/tstar-core") || of("crates/tstar-wasm")
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a record says that is not so: of files by their hashes, and of the lock file.
fn stale(record: &str, files: &BTreeMap<String, String>, lock: &str) -> Vec<String> {
    let mut recorded = BTreeMap::new();
    let mut found = Vec::new();
    for line in record.lines() {
        if let Some((hash, path)) = line.split_once("  ") {
            recorded.insert(path.to_owned(), hash.to_owned());
        } else if let Some((name, version)) = line.split_once(' ').filter(|(it, _)| *it != "rustc")
        {
            let locked = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            if !lock.contains(&locked) {
                found.push(format!("Cargo.lock has no {name} {version}"));
            }
        }
    }
    let paths = recorded.keys().chain(files.keys());
    let changed = paths.filter(|path| recorded.get(*path) != files.get(*path));
    found.extend(changed.map(|path| format!("{path} has changed")));
    found.sort();
    found.dedup();
    found
}

#[test]
fn the_module_is_built_from_the_sources_as_they_are() {
    let sources = files().into_iter().filter(|path| is_source(path));
    let hashes = sources.map(|path: PathBuf| {
        let bytes = std::fs::read(root().join(&path)).unwrap();
        (path.to_str().unwrap().to_owned(), hash(&bytes))
    });
    let hashes: BTreeMap<_, _> = hashes.collect();
    assert!(hashes.len() > 40 && hashes.contains_key(MODULE), "{:?}", hashes.keys());
    let (record, lock) = (read(Path::new(RECORD)), read(Path::new("Cargo.lock")));
    let found = stale(&record, &hashes, &lock);
    assert!(found.is_empty(), "run crates/tstar-wasm/build:\n{}", found.join("\n"));

    // Each kind of change is seen.
    let first = hashes.keys().next().unwrap().clone();
    let mut others = hashes.clone();
    others.insert(first.clone(), hash(b"other"));
    assert_eq!(stale(&record, &others, &lock), [format!("{first} has changed")]);
    others.remove(&first);
    assert_eq!(stale(&record, &others, &lock), [format!("{first} has changed")]);
    others.clone_from(&hashes);
    others.insert("new.rs".into(), hash(b""));
    assert_eq!(stale(&record, &others, &lock), ["new.rs has changed"]);
    let updated =
        lock.replace("name = \"chrono\"\nversion = \"", "name = \"chrono\"\nversion = \"9");
    assert_eq!(stale(&record, &hashes, &updated).len(), 1);
}
