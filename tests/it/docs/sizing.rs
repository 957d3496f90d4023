//! `docs/sizing.md` has the figures that `benches/sizing` computes from `docs/performance.md`.

use std::path::Path;
use std::process::{Command, Output};

use super::{page, root};
use crate::servers::skip;

/// How the page names the script.
const SCRIPT: &str = "python3 benches/sizing";

/// Runs the script with arguments; `None`, with a message, without Python.
fn sizing(arguments: &[&str]) -> Option<Output> {
    let mut python = Command::new("python3");
    python.arg("benches/sizing").args(arguments).current_dir(root());
    match python.output() {
        Ok(output) => Some(output),
        Err(error) => skip(&format!("no python3 to compute sizes with: {error}")),
    }
}

/// What a run that has to succeed prints.
fn printed(arguments: &[&str]) -> Option<String> {
    let output = sizing(arguments)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{SCRIPT} {arguments:?}: {stderr}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The page of measurements, with `from` as `to`.
fn changed(folder: &Path, from: &str, to: &str) -> String {
    let text = page("docs/performance.md").text;
    assert!(text.contains(from), "docs/performance.md has no `{from}`");
    let path = folder.join("performance.md");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn sizes_are_computed_from_what_was_measured() {
    let Some(checks) = printed(&["--self-test"]) else { return };
    print!("{checks}");
    printed(&["--check"]);
    let folder = tempfile::tempdir().unwrap();
    let faults = [
        ("| 10,000 | 16.4 |", "| 10,000 | 15.4 |", "differs"),
        ("| a sample each |", "| each |", "0 tables start with `a sample each`"),
        ("bytes were resident", "bytes lay", "reworded"),
    ];
    for (from, to, message) in faults {
        let measured = changed(folder.path(), from, to);
        let output = sizing(&["--check", "--measured", &measured]).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(message), "{to}: {stderr}");
    }
}

#[test]
fn the_commands_of_the_page_print_tables() {
    let blocks = page("docs/sizing.md").blocks();
    let commands = blocks.iter().filter(|block| block.text.starts_with(SCRIPT));
    let commands: Vec<_> = commands.flat_map(|block| block.text.lines()).collect();
    assert!(!commands.is_empty());
    for command in commands {
        let arguments = command.strip_prefix(SCRIPT).expect(command);
        let arguments: Vec<_> = arguments.split_whitespace().collect();
        let Some(tables) = printed(&arguments) else { return };
        assert!(tables.lines().filter(|line| line.starts_with("| ")).count() >= 2, "{tables}");
    }
}
