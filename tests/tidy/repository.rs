//! Files: purity, sizes, reasons of dependencies, paths that lead out, and what is at the top.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// Names allowed at the top of the repository, besides dot files.
const TOP_LEVEL: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "schema",
    "tests",
    "benches",
    "crates",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "docker-compose.yml",
    "Dockerfile",
    "deploy",
];

/// Words that the core must not use: async, clocks, I/O, other processes; and serialisation in
/// `timeline/`.
const IMPURE: &[&str] = &[
    "tokio",
    "rdkafka",
    "scylla",
    "rusqlite",
    "serde",
    "serde_json",
    "chrono",
    "async",
    "await",
    "SystemTime",
    "Instant",
    "fs",
    "io",
    "net",
    "env",
    "process",
    "thread",
];

/// Split, so that this file passes its own rule.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
];

/// Home folders of one machine. Split, so that this file passes its own rule.
const MACHINE: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

/// Texts that look like paths out of the repository and are not: a hostile device id, a folder that
/// a build creates, a link within the docs.
const NO_PATH: &[&str] = &["../../etc/passwd", "../target/book", "../README.md"];

const MAX_LINES: usize = 500;
const MAX_WIDTH: usize = 100;

pub fn read(path: &Path) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
}

/// The repository's files, untracked ones included.
pub fn files() -> Vec<PathBuf> {
    listed(&["--cached", "--others", "--exclude-standard"])
}

fn listed(which: &[&str]) -> Vec<PathBuf> {
    let mut git = Command::new("git");
    let output = git.args(["ls-files", "-z"]).args(which).current_dir(root()).output();
    let output = output.expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout).expect("names are UTF-8");
    let paths = paths.split_terminator('\0').map(PathBuf::from);
    let files: Vec<_> = paths.filter(|path| root().join(path).is_file()).collect();
    assert!(files.contains(&PathBuf::from("src/lib.rs")), "the listing is whole: {files:?}");
    files
}

pub fn rust_files(under: &str) -> Vec<PathBuf> {
    let is_rust =
        |path: &PathBuf| path.starts_with(under) && path.extension().is_some_and(|e| e == "rs");
    let found: Vec<_> = files().into_iter().filter(is_rust).collect();
    assert!(!found.is_empty(), "no Rust under {under:?}");
    found
}

/// Applies `rule` to each file, and fails with all its findings.
pub fn hold(files: Vec<PathBuf>, rule: impl Fn(&str) -> Vec<String>) {
    let found: Vec<_> = files
        .iter()
        .flat_map(|path| {
            rule(&read(path)).into_iter().map(move |what| format!("{}: {what}", path.display()))
        })
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Code only: without comments, and without the tests at the end of the file.
pub fn code(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let is_tests = |at: usize| {
        lines[at].trim() == "#[cfg(test)]"
            && lines.get(at + 1).is_some_and(|l| l.starts_with("mod "))
    };
    let end = (0..lines.len()).find(|&at| is_tests(at)).unwrap_or(lines.len());
    let uncommented = |line: &&str| line.split("//").next().unwrap_or_default().to_owned();
    lines[..end].iter().map(uncommented).collect::<Vec<_>>().join("\n")
}

/// Those of them that the rest of the core may use.
const SERIAL: &[&str] = &["serde", "serde_json", "chrono"];

fn impure(text: &str) -> Vec<String> {
    let code = code(text);
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| IMPURE.contains(word)).map(|word| format!("names {word}")).collect()
}

fn unfinished(text: &str) -> Vec<String> {
    let found = UNFINISHED.iter().filter(|word| text.contains(**word));
    found.map(|word| format!("has {word}")).collect()
}

/// Lines over the width. A long string literal may exceed it, for a message that is split in two
/// cannot be searched for.
fn too_wide(text: &str) -> Vec<String> {
    let unquoted = |line: &str| line.split('"').next().map_or(0, |before| before.chars().count());
    let is_wide = |line: &str| match line.contains('"') {
        true => unquoted(line) > MAX_WIDTH,
        false => line.chars().count() > MAX_WIDTH,
    };
    let wide = text.lines().zip(1..).filter(|(line, _)| is_wide(line));
    wide.map(|(_, nth)| format!("line {nth} is over {MAX_WIDTH} wide")).collect()
}

fn too_long(text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines > MAX_LINES { vec![format!("{lines} lines, over {MAX_LINES}")] } else { Vec::new() }
}

/// Ways by which a model could reach the program's code.
fn shares_code(text: &str) -> Vec<String> {
    let code = code(text);
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let named = words.any(|word| word == "tstar").then_some("tstar");
    let ways = ["super::super", "crate::arrivals", "include!", "#[path"];
    let ways = ways.into_iter().filter(|way| code.contains(way));
    named.into_iter().chain(ways).map(|way| format!("names {way}")).collect()
}

/// Dependencies without a stated reason.
fn unreasoned(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = section.contains("dependencies");
            // A table of its own is a dependency too.
            if !section.contains("dependencies.") {
                continue;
            }
        }
        let is_dependency = inside && (line.contains('=') || line.starts_with('['));
        let reason = line.split_once(" # ").map_or("", |(_, reason)| reason.trim());
        if is_dependency && !line.starts_with('#') && reason.is_empty() {
            found.push(format!("no reason given: {line}"));
        }
    }
    found
}

/// Images whose digests have not been looked up yet.
const BY_TAG: [&str; 3] =
    ["scylladb/scylla:2026.2.4", "prom/prometheus:v3.13.5", "grafana/grafana:13.2.3"];

/// Images that default to a tag, which may change at any time.
fn movable(text: &str) -> Vec<String> {
    let names = text.lines().map(str::trim).filter_map(|line| {
        let value = |prefix| line.strip_prefix(prefix).map(str::trim);
        value("ARG BUILD_IMAGE=")
            .or_else(|| value("FROM ").filter(|it| !it.starts_with("${") && *it != "scratch"))
            .or_else(|| value("image:"))
            .or_else(|| value("BUILD_IMAGE:"))
    });
    let default = |name: &'_ str| {
        let inner = name.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
        inner.and_then(|it| it.split_once(":-")).map_or(name, |(_, default)| default).to_owned()
    };
    // An image that this project builds has no digest in advance.
    let is_known = |name: &String| name == "tstar:local" || BY_TAG.contains(&name.as_str());
    let found = names.map(default).filter(|name| !is_known(name));
    let is_digest = |hex: &str| hex.len() == 64 && hex.bytes().all(|it| it.is_ascii_hexdigit());
    let is_fixed =
        |name: &String| name.split_once("@sha256:").is_some_and(|(_, hex)| is_digest(hex));
    found.filter(|name| !is_fixed(name)).map(|name| format!("{name} has no digest")).collect()
}

fn strangers(paths: &[PathBuf]) -> Vec<String> {
    let top = paths.iter().filter_map(|path| path.iter().next()?.to_str());
    let mut found: Vec<_> =
        top.filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(name)).collect();
    found.dedup();
    found.into_iter().map(|name| format!("{name} at the top level")).collect()
}

/// Paths in a file of the repository that leave it: they climb too high from the file's own folder,
/// do not exist, or lie in a home folder of one machine.
fn outside(file: &Path, text: &str) -> Vec<String> {
    let is_of_path = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    // A shell's default comes after `:-`.
    let words = text.split(|c| !is_of_path(c)).map(|word| word.trim_start_matches('-'));
    let words = words.filter(|word| !NO_PATH.contains(word));
    let leads_out = |word: &&str| {
        if MACHINE.iter().any(|folder| word.starts_with(folder)) {
            return true;
        }
        let climbs = word.split('/').filter(|part| *part == "..").count();
        let Some(mut folder) = file.ancestors().nth(climbs + 1) else { return true };
        if folder.as_os_str().is_empty() {
            folder = Path::new(".");
        }
        let rest = word.trim_end_matches('.').rsplit("../").next().unwrap_or_default();
        word.starts_with("../") && !root().join(folder).join(rest).exists()
    };
    words.filter(leads_out).map(|word| format!("names {word}")).collect()
}

#[test]
fn the_core_is_pure() {
    assert_eq!(impure("use std::time::{Instant, Duration};\n"), ["names Instant"]);
    assert_eq!(impure("async fn f() { tokio::spawn(g()).await }\n").len(), 3);
    assert_eq!(impure("use std::{fs, io::Read};"), ["names fs", "names io"]);
    assert!(impure("//! no async, no I/O\nlet area = iota; // tokio\n").is_empty());
    assert!(impure("fn f() {}\n#[cfg(test)]\nmod tests {\n use std::fs;\n}\n").is_empty());
    hold(rust_files("crates/tstar-core/src/timeline"), impure);
    let is_serial = |found: &String| SERIAL.iter().any(|word| found.ends_with(word));
    let is_code = |path: &PathBuf| !path.to_str().is_some_and(|path| path.ends_with("tests.rs"));
    hold(rust_files("crates/tstar-core/src").into_iter().filter(is_code).collect(), |text| {
        impure(text).into_iter().filter(|found| !is_serial(found)).collect()
    });
}

#[test]
fn nothing_is_left_unfinished() {
    for word in UNFINISHED {
        assert_eq!(unfinished(&format!("fn f() {{\n    // {word}\n}}")), [format!("has {word}")]);
    }
    assert!(unfinished("fn method() {}").is_empty());
    hold(rust_files(""), unfinished);
}

#[test]
fn lines_and_files_are_short() {
    assert!(too_wide(&"é".repeat(MAX_WIDTH)).is_empty());
    assert_eq!(too_wide(&format!("\n{}", "x".repeat(MAX_WIDTH + 1))), ["line 2 is over 100 wide"]);
    assert!(too_wide(&format!("say(\"{}\")", "x".repeat(MAX_WIDTH))).is_empty());
    assert!(too_long(&"\n".repeat(MAX_LINES)).is_empty());
    assert_eq!(too_long(&"\n".repeat(MAX_LINES + 1)).len(), 1);
    hold(rust_files(""), too_wide);
    hold(rust_files(""), too_long);
}

#[test]
fn models_share_no_code_with_the_program() {
    assert_eq!(shares_code("use tstar::timeline::Trip;"), ["names tstar"]);
    assert_eq!(shares_code("use super::super::arrivals;"), ["names super::super"]);
    assert!(shares_code("let t_star = 1; // as tstar does").is_empty());
    hold(rust_files("tests/sim/model"), shares_code);
}

#[test]
fn every_dependency_says_why() {
    let planted = "[dependencies]\n# decide\na = \"1\" # sums\nb = \"2\"\nc = { x = 1 } # \n\
                   [dev-dependencies.d]\n[lints]\ne = \"warn\"\n";
    assert_eq!(unreasoned(planted).len(), 3, "{:?}", unreasoned(planted));
    for manifest in ["", "crates/tstar-core/", "crates/tstar-python/"] {
        let manifest = read(&Path::new(manifest).join("Cargo.toml"));
        assert!(manifest.lines().any(|line| line == "[dependencies]"));
        assert_eq!(unreasoned(&manifest), Vec::<String>::new());
    }
}

#[test]
fn every_package_has_the_version_of_the_program() {
    let versions = ["", "crates/tstar-core/", "crates/tstar-python/"].map(|package| {
        let manifest = read(&Path::new(package).join("Cargo.toml"));
        let version = manifest.lines().find(|line| line.starts_with("version = "));
        version.and_then(|line| line.split('"').nth(1)).map(str::to_owned)
    });
    assert!(versions[0].is_some() && versions.iter().all(|it| *it == versions[0]), "{versions:?}");
}

#[test]
fn the_top_level_holds_only_what_belongs_there() {
    let planted = ["src/lib.rs", "notes.md", "tools/a", "tools/b", ".ci/run"].map(PathBuf::from);
    assert_eq!(strangers(&planted), ["notes.md at the top level", "tools at the top level"]);
    // Untracked data of the developer may lie there too.
    assert_eq!(strangers(&listed(&["--cached"])), Vec::<String>::new());
}

#[test]
fn images_are_named_by_digest() {
    let planted = "ARG BUILD_IMAGE=rust:1\nFROM ${BUILD_IMAGE} AS build\nFROM debian:12\n\
                   FROM scratch\nimage: ${X:-tstar:local}\nimage: ${X:-kafka:4@sha256:12}\n\
                   image: ${X:-a:1}\n";
    assert_eq!(movable(planted).len(), 4, "{:?}", movable(planted));
    let is_deployed = |path: &PathBuf| {
        let is_yaml = path.extension().is_some_and(|it| it == "yml");
        path == Path::new("Dockerfile")
            || (is_yaml && (path.starts_with("deploy") || path.iter().count() == 1))
    };
    let deployed: Vec<_> = files().into_iter().filter(is_deployed).collect();
    assert!(deployed.len() >= 3, "{deployed:?}");
    hold(deployed, movable);
}

#[test]
fn nothing_names_a_path_outside() {
    let found = |file: &str, text: &str| outside(Path::new(file), text);
    let (shared, up) = (concat!("..", "/shared/data"), "..");
    for (file, text, leads) in [
        ("README.md", format!("in `{shared}`"), shared.to_owned()),
        ("tests/all", format!("\"${{X:-{shared}}}\""), shared.to_owned()),
        ("tests/it/a.rs", format!("join(\"{shared}\")"), shared.to_owned()),
        (".ci/run", format!("cd \"$here/{up}/{up}\""), format!("here/{up}/{up}")),
        ("src/lib.rs", format!("{}me/x", MACHINE[0]), format!("{}me/x", MACHINE[0])),
    ] {
        assert_eq!(found(file, &text), [format!("names {leads}")], "{file}");
    }
    assert!(found("tests/all", &format!("cd \"$(dirname \"$0\")/{up}\"")).is_empty());
    assert!(found("tests/it/a.rs", &format!("\"{up}/fuzz/seeds\" and a...")).is_empty());
    let is_text = |path: &PathBuf| {
        let bytes = std::fs::read(root().join(path)).expect("it is listed");
        std::str::from_utf8(&bytes).is_ok()
    };
    let texts: Vec<_> = files().into_iter().filter(is_text).collect();
    assert!(texts.len() > 200, "{}", texts.len());
    let found: Vec<_> = texts
        .iter()
        .flat_map(|path| outside(path, &read(path)).into_iter().map(move |it| (path, it)))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}
