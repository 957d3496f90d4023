//! Mistakes that users make. Each is answered with its cause, the value, and what to do next.
//!
//! The rows were collected from people who used tstar for the first time. `--nocapture` prints what
//! each of them reads.

mod data;
mod files;
mod line;
mod lists;
mod settings;
mod store;

use crate::cli::{Folder, Ran, minutes};

/// A command as a user types it, and what it has to answer.
struct Mistake {
    /// Arguments; one with spaces is in single quotes.
    words: &'static str,
    /// The files that the user has, besides `log` and `trips.db`, its store.
    files: &'static [(&'static str, &'static str)],
    code: i32,
    /// The cause, the value and the next step, as stderr has them.
    answer: [&'static str; 3],
}

/// A command that ends with this code and answers on stderr with cause, value and next step.
const fn typed(words: &'static str, code: i32, answer: [&'static str; 3]) -> Mistake {
    Mistake { words, files: &[], code, answer }
}

impl Mistake {
    /// With files of these names and contents.
    const fn with(self, files: &'static [(&'static str, &'static str)]) -> Self {
        Self { files, ..self }
    }

    /// Makes the mistake in a folder of its own, which has what is in `template`.
    fn make(&self, template: &Folder) -> Result<(), String> {
        let folder = Folder::new();
        for name in ["log", "trips.db"] {
            folder.write(name, template.read(name));
        }
        for (name, content) in self.files {
            folder.write(name, content);
        }
        self.judge(&run(&folder, self.words))
    }

    fn judge(&self, ran: &Ran) -> Result<(), String> {
        println!("$ tstar {}\n{}", ran.words, ran.stderr);
        let missing: Vec<_> = self.answer.iter().filter(|it| !ran.stderr.contains(**it)).collect();
        if missing.is_empty() && ran.code == Some(self.code) {
            return Ok(());
        }
        Err(format!("expected exit {}, and on stderr {missing:?}\n{ran}\n", self.code))
    }
}

/// Runs a command whose arguments may be in single quotes.
fn run(folder: &Folder, words: &str) -> Ran {
    let mut command = folder.command("");
    for (nth, part) in words.split('\'').enumerate() {
        match nth % 2 {
            0 => command.args(part.split_whitespace()),
            _ => command.arg(part),
        };
    }
    Ran::run(words, &mut command)
}

/// A folder with `log`, a trip of `truck-17` in the morning of 2024-05-01, and its store.
fn imported() -> Folder {
    let folder = Folder::with("log", minutes("truck-17", &[10, 12, 0, 2, 6]));
    folder.ingest("log");
    folder
}

/// Makes each of these mistakes, and shows all that are not answered.
#[track_caller]
fn check(mistakes: &[Mistake]) {
    let template = imported();
    let failed: Vec<_> = mistakes.iter().filter_map(|it| it.make(&template).err()).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), mistakes.len(), failed.join("\n"));
}
