//! The program as its users run it: the real binary, each test in a folder of its own.

mod answers;
mod commands;
mod examples;
mod exit_codes;
mod export;
mod faults;
mod first_try;
mod fixes;
pub mod fleets;
mod forms;
mod import;
pub mod input;
pub mod inspect;
mod malformed;
mod stops;
mod values;
mod xml;
pub mod zones;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tempfile::TempDir;

/// The command that generates the fleet of most tests.
const FLEET: &str = "simulate --mix 46,34,19,1 --devices 20 --samples 20000 --seed 3 --bad 0.01";

/// A folder in which commands run.
pub struct Folder {
    pub dir: TempDir,
    env: Vec<(&'static str, String)>,
}

impl Folder {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), env: Vec::new() }
    }

    /// A folder with one file.
    pub fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        folder.write(name, content);
        folder
    }

    pub fn env(&mut self, name: &'static str, value: &str) {
        self.env.retain(|(other, _)| *other != name);
        self.env.push((name, value.to_owned()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Removes the file of a store, and those next to it.
    pub fn remove_store(&self, name: &str) {
        for suffix in ["", "-wal", "-shm", "-lock"] {
            // Not all of them exist.
            drop(std::fs::remove_file(self.path(&format!("{name}{suffix}"))));
        }
    }

    /// A command from words that are separated by spaces.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tstar"));
        command.args(words.split_whitespace()).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TSTAR_") {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (*name, value)));
        command
    }

    pub fn run(&self, words: &str) -> Ran {
        Ran::run(words, &mut self.command(words))
    }

    /// Runs a command with a file of the folder as stdin.
    pub fn run_from(&self, words: &str, stdin: &str) -> Ran {
        let stdin = File::open(self.path(stdin)).unwrap();
        Ran::run(words, self.command(words).stdin(stdin))
    }

    /// Stdout of a command that has to succeed.
    pub fn text(&self, words: &str) -> String {
        self.run(words).ends(0).text()
    }

    /// Writes the samples of [`FLEET`], some of them not UTF-8, and then these lines.
    pub fn write_fleet(&self, name: &str, then: &str) {
        let mut log = self.run(FLEET).ends(0).stdout;
        log.extend_from_slice(then.as_bytes());
        self.write(name, log);
    }

    /// The summary of an import.
    pub fn ingest(&self, words: &str) -> Value {
        self.run(&format!("ingest {words} --json")).ends(0).json()
    }

    /// The trips of a store, one object each.
    pub fn trips(&self, store: &str) -> Vec<Value> {
        self.run(&format!("export --store sqlite:{store}")).ends(0).objects()
    }
}

/// Copies the program, by a process of its own: as long as this one had the copy open for writing,
/// so would each process that another thread starts, and a file open for writing cannot be run.
pub fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_tstar")).arg(to).status();
    assert!(copied.unwrap().success(), "{}", to.display());
}

/// A command that has ended.
pub struct Ran {
    pub words: String,
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn run(words: &str, command: &mut Command) -> Self {
        Self::new(words, command.output().unwrap())
    }

    pub fn new(words: &str, output: Output) -> Self {
        Self {
            words: words.to_owned(),
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert!(self.code == Some(code), "expected exit {code}\n{self}");
        self
    }

    /// Stderr contains each of these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "stderr lacks `{word}`\n{self}");
        }
        self
    }

    /// Stdout is empty.
    #[track_caller]
    pub fn prints_nothing(self) -> Self {
        assert!(self.stdout.is_empty(), "stdout is not empty\n{self}");
        self
    }

    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap_or_else(|_| panic!("not text\n{self}"))
    }

    /// Stdout as a single JSON value on one line.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = self.text();
        assert_eq!(text.matches('\n').count(), 1, "not one line\n{self}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// Stdout as JSON values, one per line.
    #[track_caller]
    pub fn objects(&self) -> Vec<Value> {
        let read = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self}"))
        };
        self.text().lines().map(read).collect()
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout[..self.stdout.len().min(1000)]);
        write!(
            f,
            "command: tstar {}\nexit code: {:?}\nstdout ({} bytes): {stdout}\nstderr: {}",
            self.words,
            self.code,
            self.stdout.len(),
            self.stderr
        )
    }
}

/// The keys of an object in the order in which they are written, which a `Value` does not keep.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

fn keys(object: &str) -> Vec<String> {
    serde_json::from_str::<Keys>(object).unwrap().0
}

/// The raw text of each field of an object.
fn fields(object: &str) -> BTreeMap<String, Box<serde_json::value::RawValue>> {
    serde_json::from_str(object).unwrap()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

pub fn sum(object: &Value) -> u64 {
    object.as_object().unwrap().values().map(number).sum()
}

/// Samples of one device on 2024-05-01 at these minutes past eight.
pub fn minutes(device: &str, minutes: &[u32]) -> String {
    let line = |minute: &u32| {
        format!(
            "{{\"device_id\":\"{device}\",\"time\":\"2024-05-01T08:{minute:02}:00Z\",\
             \"lat\":52.{minute:02},\"lon\":13.5}}\n"
        )
    };
    minutes.iter().map(line).collect()
}
