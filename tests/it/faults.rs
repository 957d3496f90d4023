//! Runs that end unexpectedly: crashes, signals, a full disk, a store that disappears.
//!
//! Each test asks: does the same command, rerun until it ends, give what an undisturbed run gives?

pub mod disk;
mod memory;
mod resume;
mod signal;
pub mod store;

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::cli::input::gzip;
use crate::cli::{Folder, Ran};

/// A flush after each batch; the default delay would make it one flush.
const EACH_BATCH: &str = "--flush-interval 1ms --max-staleness 1ms";

/// Prefixes of a table: nothing, a byte order mark, a blank line.
const MARKS: [&[u8]; 3] = [b"", b"\xef\xbb\xbf", b"\n"];

/// Time limit of a wait, generous enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Polls until there is a result. A question that starts a command costs as much as the process
/// that is waited for: pauses grow with the cost, up to a tenth of what was waited.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    const LEAST: Duration = Duration::from_millis(2);
    let began = Instant::now();
    loop {
        let asked = Instant::now();
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < LIMIT, "waited too long for {what}");
        let pause = (4 * asked.elapsed()).min(began.elapsed() / 10);
        std::thread::park_timeout(pause.max(LEAST));
    }
}

/// Files in every format, with bad lines, and the result of an undisturbed run.
pub struct Work {
    pub folder: Folder,
    /// Their names, as command arguments.
    files: String,
    pub expected: Outcome,
}

/// The content of a store, as a user sees it.
#[derive(PartialEq)]
pub struct Outcome {
    trips: String,
    letters: Vec<Value>,
    pub delivered: i64,
}

impl Work {
    /// Files with `samples` samples in all.
    pub fn new(samples: usize) -> Self {
        let folder = Folder::new();
        let fleet = format!(
            "simulate --mix 46,34,19,1 --devices 20 --samples {samples} --seed 3 --bad 0.01"
        );
        let log = folder.run(&fleet).ends(0).stdout;
        let lines: Vec<&[u8]> = log.split_inclusive(|&byte| byte == b'\n').collect();
        let mut files = Vec::new();
        // Small files among them: errors in resuming are most likely at the ends of a file.
        for (nth, lines) in lines.chunks(samples.div_ceil(12)).enumerate() {
            let mut plain = lines.concat();
            if nth % 3 == 0 {
                // A last line without a line end is recognised in a different way.
                plain.pop();
            }
            let (name, content) = match nth % 4 {
                0 => (format!("{nth}.ndjson"), plain),
                1 => (format!("{nth}.gz"), gzip(&plain)),
                2 => (format!("{nth}.csv"), [MARKS[nth / 4], &table(lines)].concat()),
                _ => (format!("{nth}.zst"), zstd::encode_all(&plain[..], 1).unwrap()),
            };
            folder.write(&name, content);
            files.push(name);
        }
        let files = files.join(" ");
        let ran = folder.run(&format!("ingest {files} --json --store sqlite:whole.db"));
        assert_eq!(ran.ends(0).json()["delivered"], samples);
        let expected = Outcome::load(&folder, "whole.db");
        assert!(expected.trips.lines().count() > 20 && expected.letters.len() > samples / 200);
        Self { folder, files, expected }
    }

    pub fn import(&self, store: &str) -> String {
        format!("ingest {} --json {EACH_BATCH} --store sqlite:{store}", self.files)
    }

    /// A completed store equals that of an undisturbed run, also after one more run.
    #[track_caller]
    pub fn is_whole(&self, store: &str) {
        self.expected.is_in(&self.folder, store);
        let again = self.folder.run(&self.import(store)).ends(0).json();
        assert_eq!(again["applied"], 0);
        assert_eq!(again["delivered"], self.expected.delivered);
        self.expected.is_in(&self.folder, store);
    }
}

impl Outcome {
    #[track_caller]
    fn load(folder: &Folder, store: &str) -> Self {
        Self {
            trips: folder.text(&format!("export --path --store sqlite:{store}")),
            letters: letters(folder, store),
            delivered: delivered(&folder.path(store)).unwrap(),
        }
    }

    /// Checks that a store holds the same, byte for byte.
    #[track_caller]
    fn is_in(&self, folder: &Folder, store: &str) {
        let found = Self::load(folder, store);
        assert_eq!(found.delivered, self.delivered, "records in {store}");
        assert_eq!(found.letters.len(), self.letters.len(), "dead letters in {store}");
        for (found, expected) in found.letters.iter().zip(&self.letters) {
            assert_eq!(found, expected, "a dead letter in {store}");
        }
        assert!(found.trips == self.trips, "other trips in {store}");
    }
}

/// The dead letters of a store, without clock values, which differ between runs.
#[track_caller]
fn letters(folder: &Folder, store: &str) -> Vec<Value> {
    let mut letters = folder.run(&format!("dlq ls --store sqlite:{store}")).ends(0).objects();
    for letter in &mut letters {
        letter.as_object_mut().unwrap().remove("log_time").unwrap();
        let message = letter["message"].as_str().unwrap();
        if let Some((before, _)) = message.split_once("past the log timestamp") {
            letter["message"] = before.into();
        }
    }
    letters
}

/// A table with its columns in another order. A line that is not a sample becomes a malformed row.
fn table(lines: &[&[u8]]) -> Vec<u8> {
    let names = ["lon", "lat", "speed", "driver", "heading", "time", "device_id"];
    let mut table = names.join(",") + "\n";
    for (nth, line) in lines.iter().enumerate() {
        let sample = serde_json::from_slice(line).unwrap_or(Value::Null);
        if sample["device_id"].is_string() && sample["time"].is_string() {
            let cell = |name: &&str| match &sample[*name] {
                Value::Null => String::new(),
                Value::String(text) => format!("\"{text}\""),
                other => other.to_string(),
            };
            table += &names.iter().map(cell).collect::<Vec<_>>().join(",");
        } else {
            table += &format!("nowhere,{nth}");
        }
        table.push('\n');
    }
    table.into_bytes()
}

/// How many records a store counts as delivered; `None` until it exists.
pub fn delivered(store: &Path) -> Option<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(store, flags).ok()?;
    connection.query_row("SELECT delivered FROM log", [], |row| row.get(0)).ok()
}

/// A running command, killed when dropped.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child().try_wait().unwrap().is_some()
    }

    /// Sends a signal; a process that has ended gets none.
    pub fn signal(&mut self, name: &str) {
        let id = self.child().id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).output();
        sent.unwrap();
    }

    /// Peak memory, bytes.
    #[cfg(target_os = "linux")]
    pub fn peak_memory(&mut self) -> u64 {
        crate::support::memory(self.child().id(), "VmHWM").unwrap()
    }

    /// Reads this much of stdout.
    pub fn read(&mut self, bytes: u64) {
        let mut stdout = self.child().stdout.as_mut().unwrap().take(bytes);
        assert_eq!(std::io::copy(&mut stdout, &mut std::io::sink()).unwrap(), bytes);
    }

    /// Reads stderr until a line contains a word; the rest is discarded.
    #[track_caller]
    pub fn until_says(&mut self, word: &str, said: &mut String) {
        let stderr = self.child().stderr.take().unwrap();
        for line in BufReader::new(stderr).lines() {
            let line = line.unwrap();
            said.push_str(&line);
            if line.contains(word) {
                return;
            }
        }
        panic!("it ended without saying `{word}`: {said}");
    }

    /// Waits for its end.
    pub fn ran(mut self, words: &str) -> Ran {
        Ran::new(words, self.0.take().unwrap().wait_with_output().unwrap())
    }

    pub fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Waits until a process handles SIGTERM, or has ended: before, a signal kills it.
pub fn until_handles_term(process: &Child) {
    const TERM: u64 = 1 << (15 - 1);
    let path = format!("/proc/{}/status", process.id());
    until("a handler of SIGTERM", || {
        // Without the file: another system, or the process is gone.
        let Ok(status) = std::fs::read_to_string(&path) else { return Some(()) };
        let field = |name| status.lines().find_map(|line: &str| line.strip_prefix(name));
        let caught = field("SigCgt:").and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
        let is_over = field("State:").is_some_and(|state| state.trim().starts_with('Z'));
        (is_over || caught.is_none_or(|caught| caught & TERM != 0)).then_some(())
    });
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
