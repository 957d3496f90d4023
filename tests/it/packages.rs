//! The files that packages and the chart install fit the program: settings, flags, time limits,
//! versions. `tests/nightly/packages` makes the packages and installs them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::Folder;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn toml(path: &str) -> toml::Table {
    read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The value of a key, in a unit or in YAML.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(key));
    line.unwrap_or_else(|| panic!("no {key} in\n{text}")).trim()
}

/// A setting's default, as the documents show it.
fn default(key: &str) -> &'static str {
    let table = &tstar::internals::settings::TABLE;
    table.iter().find(|it| it.key == key).expect(key).default
}

fn seconds(text: &str) -> u64 {
    let number = text.strip_suffix('s').unwrap_or(text).parse();
    number.unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn the_changelog_keeps_a_changelog() {
    let text = read("CHANGELOG.md");
    let mut versions = text.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(versions.next(), Some("[Unreleased]"));
    assert!(versions.all(|it| it.starts_with('[') && it.contains("] - 20")), "version and day");
    let kinds: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let known = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| known.contains(kind)), "{kinds:?}");
}

/// The texts of all keys `path` in a manifest.
fn paths(value: &toml::Value) -> Vec<&str> {
    match value {
        toml::Value::Table(table) => {
            let own = table.get("path").and_then(toml::Value::as_str);
            own.into_iter().chain(table.values().flat_map(paths)).collect()
        }
        toml::Value::Array(list) => list.iter().flat_map(paths).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_image_is_built_from_all_files_that_cargo_reads() {
    let rules = read(".dockerignore");
    let mut rules = rules.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"), "nothing is sent that is not named");
    let sent: Vec<_> = rules.map(|rule| rule.strip_prefix('!').expect(rule)).collect();
    let manifest = toml::Value::Table(toml("Cargo.toml"));
    let build = manifest["package"]["build"].as_str().unwrap();
    let mut needed = paths(&manifest);
    for path in ["crates/rdkafka-extra", "crates/tstar-core", "src/main.rs"] {
        assert!(needed.contains(&path), "{path}");
    }
    needed.retain(|path| *path != ".");
    needed.extend([build, "Cargo.lock", "schema", "deploy/rootfs"]);
    let is_sent = |path: &&str| sent.iter().any(|it| Path::new(path).starts_with(it));
    let missing: Vec<_> = needed.iter().filter(|path| !is_sent(path)).collect();
    assert!(missing.is_empty(), ".dockerignore keeps back {missing:?}");
}

#[test]
fn the_settings_file_is_valid_with_and_without_its_suggestions() {
    let settings = read("deploy/tstar.toml");
    let is_setting = |line: &&str| line.starts_with("# ") && line.contains(" = ");
    let suggested: Vec<_> = settings.lines().filter(is_setting).map(|line| &line[2..]).collect();
    assert!(suggested.len() >= 5, "{suggested:?}");
    let folder = Folder::with("tstar.toml", &settings);
    folder.run("config check --config tstar.toml").ends(0);
    for line in suggested {
        let key = line.split(" = ").next().unwrap();
        let others = settings.lines().filter(|other| !other.starts_with(&format!("{key} = ")));
        let changed: Vec<_> = others.chain([line]).collect();
        folder.write("tstar.toml", changed.join("\n"));
        folder.run("config check --config tstar.toml").ends(0);
    }
}

#[test]
fn the_environment_file_names_variables_that_exist() {
    let named: BTreeSet<_> = read("deploy/tstar.env")
        .lines()
        .filter_map(|line| line.strip_prefix("# TSTAR_")?.split_once('='))
        .map(|(name, _)| format!("TSTAR_{name}"))
        .collect();
    assert!(named.contains("TSTAR_KAFKA"), "{named:?}");
    let mut folder = Folder::with("tstar.toml", "");
    for name in named {
        folder.env(name.leak(), "");
    }
    assert_eq!(folder.run("config check --config tstar.toml").ends(0).stderr, "");
}

#[test]
fn the_unit_starts_a_command_that_the_program_takes() {
    let unit = read("deploy/tstar.service");
    let command = value(&unit, "ExecStart=").strip_prefix("/usr/bin/tstar ").unwrap();
    let flags = value(&read("deploy/tstar.env"), "# RUN_FLAGS=").to_owned();
    let words = command.replace("$RUN_FLAGS", &flags).replace("/etc/tstar/", "missing/");
    let folder = Folder::new();
    folder.run(&words).ends(78).says(&["missing/tstar.toml"]);
    folder.run(&format!("{words} --unknown")).ends(2);
    // Usage and configuration, which another start does not change.
    assert_eq!(value(&unit, "RestartPreventExitStatus="), "2 78");
}

#[test]
fn nothing_kills_a_daemon_before_its_time_limit() {
    let limit = seconds(default("drain_timeout"));
    assert!(seconds(value(&read("deploy/tstar.service"), "TimeoutStopSec=")) >= limit + 10);
    let values = read("deploy/helm/tstar/values.yaml");
    assert_eq!(seconds(value(&values, "drainTimeoutSeconds:")), limit);
    assert_eq!(value(&values, "memory:"), default("memory"));
    let pod = read("deploy/helm/tstar/templates/_pod.tpl");
    let grace = value(&pod, "terminationGracePeriodSeconds:");
    assert_eq!(grace, "{{ add (int .Values.drainTimeoutSeconds) 15 }}");
}

#[test]
fn packages_name_files_that_exist_and_one_version() {
    let chart = read("deploy/helm/tstar/Chart.yaml");
    assert_eq!(value(&chart, "version:"), env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&chart, "appVersion:").trim_matches('"'), env!("CARGO_PKG_VERSION"));
    let manifest = toml("Cargo.toml");
    let metadata = manifest["package"]["metadata"].as_table().unwrap();
    let deb = metadata["deb"]["assets"].as_array().unwrap().iter().map(|it| it[0].as_str());
    let rpm = metadata["generate-rpm"]["assets"].as_array().unwrap().iter();
    let sources: Vec<_> = deb.chain(rpm.map(|it| it["source"].as_str())).flatten().collect();
    assert!(sources.len() >= 20, "{sources:?}");
    // What is under target/ is made by deploy/release.
    sources.iter().filter(|it| !it.starts_with("target/")).for_each(|it| drop(read(it)));
}

#[test]
fn licences_of_packages_are_those_that_may_be_built_in() {
    let listed = |table: &toml::Value| -> BTreeSet<String> {
        let names = table.as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let allowed = listed(&toml(".ci/deny.toml")["licenses"]["allow"]);
    let accepted = listed(&toml("deploy/release.d/about.toml")["accepted"]);
    assert!(accepted.is_subset(&allowed), "{accepted:?} is more than {allowed:?}");
}
