//! Blocks of commands, run as a reader would, in an empty folder for each page.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::console::{is_shown, steps};
use super::unrun::UNRUN;
use super::{Block, Page, pages};
use crate::servers::ready::until;
use crate::servers::{LIMIT, free_port};

/// The addresses that pages name.
const ADDRESSES: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8093"];

/// A shell with the built program first on its path, without the tests' settings.
pub fn shell(script: &str, folder: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_tstar")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TSTAR_") {
            shell.env_remove(name);
        }
    }
    // The user of the transcripts.
    shell.env("PATH", path).env("USER", "ada").env_remove("LOGNAME");
    shell
}

/// Runs a block; returns its output.
pub fn run(script: &str, folder: &Path) -> String {
    let script = script.replace("cargo run --release --", "tstar");
    let output = shell(&script, folder).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Runs a command of a transcript; returns what a terminal shows.
pub fn shown(command: &str, folder: &Path) -> String {
    let output = shell(&format!("exec 2>&1; set +e; {command}"), folder).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server that a reader starts in another terminal.
struct Serving(Child);

impl Serving {
    fn start(command: &str, address: &str, folder: &Path) -> Self {
        // Replaces the shell, so that it ends with the test.
        let mut program = shell(&format!("exec {command}"), folder);
        let child = program.env("TSTAR_LISTEN", address).stderr(Stdio::null()).spawn().unwrap();
        let mut serving = Self(child);
        let up = || TcpStream::connect(address).ok().map(drop);
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

/// A page being run: its folder, its servers, and the output of its last block.
struct Reader {
    folder: tempfile::TempDir,
    address: String,
    servers: Vec<Serving>,
    printed: String,
    ran: usize,
    compared: usize,
}

impl Reader {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            address: format!("127.0.0.1:{}", free_port()),
            servers: Vec::new(),
            printed: String::new(),
            ran: 0,
            compared: 0,
        }
    }

    fn read(&mut self, page: &Page, block: &Block) {
        let here = format!("{}:{}", page.path, block.line);
        let own = |text: &String, address| text.replace(address, &self.address);
        let text = ADDRESSES.into_iter().fold(block.text.clone(), |text, it| own(&text, it));
        match block.language.as_str() {
            "sh" if text.starts_with("tstar serve") => {
                let serving = Serving::start(&text, &self.address, self.folder.path());
                self.servers.push(serving);
                self.ran += 1;
            }
            "sh" => {
                self.printed = run(&text, self.folder.path());
                self.ran += 1;
            }
            "json" => {
                // HTTP responses have no line end.
                assert_eq!(self.printed.trim_end(), text.trim_end(), "{here} shows another output");
                self.compared += 1;
            }
            "console" => {
                for step in steps(&text) {
                    let (command, expected) = (&step.command, &step.shown);
                    let printed = shown(command, self.folder.path());
                    let is_same = is_shown(expected, &printed);
                    assert!(is_same, "{here}: {command}\nshown:\n{expected}\nprinted:\n{printed}");
                    self.compared += 1;
                }
                self.ran += 1;
            }
            "text" => {
                let is_command = |line: &str| line.starts_with("$ ") || line.starts_with("tstar ");
                assert!(!text.lines().any(is_command), "{here}: a command in a block of text");
            }
            other => panic!("{here}: what is a block of `{other}`?"),
        }
    }
}

/// The index in the list of blocks that are not run.
fn unrun_at(page: &Page, block: &Block) -> Option<usize> {
    let is_command = matches!(block.language.as_str(), "sh" | "console" | "python");
    let is_it =
        |at: &usize| UNRUN[*at].page == page.path && block.text.starts_with(UNRUN[*at].starts);
    (0..UNRUN.len()).filter(|_| is_command).find(is_it)
}

#[test]
fn every_command_works_and_prints_what_is_shown() {
    let mut met = vec![false; UNRUN.len()];
    let (mut ran, mut compared) = (0, 0);
    for page in pages() {
        let mut reader = Reader::new();
        for block in page.blocks() {
            match unrun_at(&page, &block) {
                Some(at) => {
                    met[at] = true;
                    println!("not run: {}:{}: {}", page.path, block.line, UNRUN[at].reason);
                }
                None => reader.read(&page, &block),
            }
        }
        println!("{}: {} blocks ran, {} compared", page.path, reader.ran, reader.compared);
        ran += reader.ran;
        compared += reader.compared;
    }
    println!("{ran} blocks of commands ran, {compared} outputs compared");
    assert!(ran >= 20 && compared >= 20, "{ran} {compared}");
    let stale = UNRUN.iter().zip(met).filter(|(_, is_met)| !is_met);
    let stale: Vec<_> = stale.map(|(it, _)| format!("{}: {}", it.page, it.starts)).collect();
    assert!(stale.is_empty(), "the list names blocks that are not there: {stale:?}");
}
