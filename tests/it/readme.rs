//! The README's commands, run as a reader would, in an empty folder.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::servers::LIMIT;
use crate::servers::ready::until;

/// A fenced block: its language and its lines.
struct Block {
    language: String,
    text: String,
}

fn blocks(readme: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in readme.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language: language.into(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text += line;
                block.text.push('\n');
            }
            (None, None) => (),
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// A server that a reader starts in another terminal.
struct Serving(Child);

impl Serving {
    fn start(command: &str, folder: &Path) -> Self {
        let words: Vec<_> = command.split_whitespace().skip(1).collect();
        let mut program = Command::new(env!("CARGO_BIN_EXE_tstar"));
        let child = program.args(&words).current_dir(folder).stderr(Stdio::null()).spawn().unwrap();
        let mut serving = Self(child);
        let at = words.iter().position(|word| *word == "--listen").unwrap();
        let up = || TcpStream::connect(words[at + 1]).ok().map(drop);
        let ended = || serving.0.try_wait().unwrap().map(|status| status.to_string());
        until(command, LIMIT, up, ended);
        serving
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs a block with the built program first on the path; gives what it printed.
fn run(script: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tstar"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = script.replace("cargo run --release --", "tstar");
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn every_command_works_and_prints_what_is_shown() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let folder = tempfile::tempdir().unwrap();
    let (mut ran, mut compared, mut printed) = (0, 0, String::new());
    let mut servers = Vec::new();
    for block in blocks(&readme.unwrap()) {
        match block.language.as_str() {
            // This very run.
            "sh" if block.text == "tests/all\n" => (),
            "sh" if block.text.starts_with("tstar serve ") => {
                servers.push(Serving::start(&block.text, folder.path()));
            }
            "sh" => {
                printed = run(&block.text, folder.path());
                ran += 1;
            }
            "json" => {
                // What comes over HTTP has no line end.
                let shown = block.text.trim_end();
                assert_eq!(printed.trim_end(), shown, "the README shows another output");
                compared += 1;
            }
            "text" => (),
            other => panic!("what is a block of `{other}`?"),
        }
    }
    println!("{ran} blocks of commands ran, {compared} outputs compared");
    assert!(ran >= 4 && compared >= 2);
}

#[test]
fn the_demo_shows_the_figures_that_the_readme_states() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run("tstar demo", folder.path());
    let share = |name: &str| {
        let line = shown.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no line of {name} in:\n{shown}"));
        line.trim_end().trim_end_matches(" %").rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    for (name, percent) in [
        ("extended its end", 46.0),
        ("fell inside", 34.0),
        ("extended its beginning", 19.0),
        ("joined two trips", 1.0),
        ("device + t_star", 1.0),
        ("device + start ", 20.0),
        ("device + end", 47.0),
        ("device + start + end", 66.0),
    ] {
        assert!((share(name) - percent).abs() < 0.05, "{name}: {}", share(name));
    }
    assert!(shown.contains("retired"), "{shown}");
    let again = run("tstar demo", folder.path());
    assert_eq!(shown, again, "the demo is made anew each time");
}

/// The table of settings as the README has it.
fn settings_table() -> String {
    let mut table =
        String::from("| flag | variable, key | default | what it does |\n|---|---|---|---|\n");
    for setting in tstar::settings::TABLE.iter() {
        let default = if setting.default.is_empty() { "none" } else { setting.default };
        table += &format!(
            "| `{}` | `{}`, `{}` | {default} | {} |\n",
            setting.flag, setting.env, setting.key, setting.help
        );
    }
    table
}

#[test]
fn the_table_of_settings_is_that_of_the_code() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let readme = readme.unwrap();
    let (_, rest) = readme.split_once("compared by a test -->\n").unwrap();
    let (found, _) = rest.split_once("<!-- end of settings").unwrap();
    let table = settings_table();
    assert!(found == table, "put this into README.md:\n{table}");
}
