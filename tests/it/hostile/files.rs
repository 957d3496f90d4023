//! Whole files that are not valid inputs.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{letters, summary};
use crate::cli::{Folder, Ran, minutes, number};

#[test]
fn an_empty_file_is_an_import_of_nothing() {
    let folder = Folder::new();
    for content in ["", "\n", " \r\n\t\n", "\u{feff}"] {
        folder.write("log", content);
        let summary = summary(folder.run("ingest log --json --strict"), 0);
        assert_eq!((&summary["delivered"], &summary["trips"]), (&json!(0), &json!(0)));
    }
}

#[test]
fn a_directory_is_refused_and_makes_no_store() {
    let folder = Folder::with("good", minutes("a", &[0]));
    std::fs::create_dir(folder.path("folder")).unwrap();
    for words in ["ingest folder", "ingest good folder", "ingest folder --input-format csv"] {
        let ran = folder.run(words).ends(65).prints_nothing();
        ran.says(&["`folder`", "directory", "name the files"]);
        assert!(!folder.has("trips.db"));
    }
}

#[test]
fn a_gzip_file_cut_anywhere_keeps_what_came_before() {
    let folder = Folder::new();
    let log: String = (0..60).map(|minute| minutes("a", &[minute])).collect();
    let whole = crate::cli::input::gzip(log.as_bytes());
    // Cut in its header, in its middle, and in its checksum, which follows the last line.
    for (at, kept) in [(5, 0..=0), (whole.len() / 2, 1..=59), (whole.len() - 1, 60..=60)] {
        let (name, store) = (format!("{at}.gz"), format!("{at}.db"));
        folder.write(&name, &whole[..at]);
        let ran = folder.run(&format!("ingest {name} --json --store sqlite:{store}"));
        let ran = ran.says(&["is truncated", "truncated_input"]);
        let summary = summary(ran, 65);
        let applied = number(&summary["applied"]);
        assert!(kept.contains(&applied), "{applied} of a file cut at {at}");
        assert_eq!(summary["dead_letters"], json!({ "truncated_input": 1 }));
        let letters = letters(&folder, &store);
        assert_eq!(letters[0].line, applied + 1);
        let read: usize = log.lines().take(applied as usize).map(|line| line.len() + 1).sum();
        assert!(log.as_bytes()[read..].starts_with(&letters[0].bytes()), "the torn line is kept");
    }
}

fn make_fifo(folder: &Folder, name: &str) {
    assert!(Command::new("mkfifo").arg(folder.path(name)).status().unwrap().success());
}

/// Runs a command, and runs `meanwhile` once it has started.
fn run_while(folder: &Folder, words: &str, meanwhile: impl FnOnce()) -> Ran {
    let mut command = folder.command(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    meanwhile();
    Ran::new(words, child.wait_with_output().unwrap())
}

/// Checks an import of a prefix of `log`: each line is a sample, except that the last one may be
/// torn and is then a dead letter with all its bytes. Returns the number of whole lines.
#[track_caller]
fn check_prefix(folder: &Folder, ran: Ran, log: &str) -> usize {
    let summary = summary(ran, 0);
    let delivered = number(&summary["delivered"]) as usize;
    let applied = number(&summary["applied"]) as usize;
    let letters = letters(folder, "trips.db");
    let whole = applied + number(&summary["duplicates"]) as usize;
    assert_eq!(delivered, whole + letters.len());
    let exported = folder.text("export --path");
    let points = exported.lines().map(|line| {
        let trip: Value = serde_json::from_str(line).unwrap();
        trip["path"]["times"].as_array().unwrap().len()
    });
    assert_eq!(points.sum::<usize>(), applied);
    let lines: Vec<_> = log.lines().collect();
    match &letters[..] {
        [] => {}
        [torn] => {
            assert_eq!((torn.reason.as_str(), torn.line), ("bad_json", delivered as u64));
            let (bytes, line) = (torn.bytes(), lines[delivered - 1].as_bytes());
            assert!(bytes.len() < line.len() && line.starts_with(&bytes), "{torn:?}");
        }
        _ => panic!("{} dead letters", letters.len()),
    }
    whole
}

fn fleet(folder: &Folder, samples: u32) -> String {
    folder.text(&format!("simulate --mix 46,34,19,1 --devices 3 --samples {samples} --seed 8"))
}

#[test]
fn a_fifo_is_read_to_the_byte_its_writer_stops_at() {
    let folder = Folder::new();
    make_fifo(&folder, "fifo");
    let log = fleet(&folder, 3000);
    let upto = log.lines().take(2000).map(|line| line.len() + 1).sum::<usize>() + 30;
    let ran = run_while(&folder, "ingest fifo --json", || {
        let mut writer = OpenOptions::new().write(true).open(folder.path("fifo")).unwrap();
        for piece in log.as_bytes()[..upto].chunks(777) {
            writer.write_all(piece).unwrap();
        }
    });
    assert_eq!(check_prefix(&folder, ran, &log), 2000);
}

/// The FIFO comes first, so the file after it was inspected early and is read late.
#[test]
fn what_a_file_has_when_it_is_read_counts_not_what_it_had() {
    for (before, then) in [(2000, 2900), (2000, 500)] {
        let folder = Folder::new();
        make_fifo(&folder, "gate");
        let log = fleet(&folder, 3000);
        let lines = |count: usize| log.lines().take(count).map(|line| line.len() + 1).sum();
        let (before, upto): (usize, usize) = (lines(before), lines(then) + 30);
        folder.write("log", &log.as_bytes()[..before]);
        let ran = run_while(&folder, "ingest gate log --json", || {
            // Opens once the program reads it.
            let gate = OpenOptions::new().write(true).open(folder.path("gate")).unwrap();
            let mut file = OpenOptions::new().append(true).open(folder.path("log")).unwrap();
            if upto < before {
                file.set_len(upto as u64).unwrap();
            } else {
                file.write_all(&log.as_bytes()[before..upto]).unwrap();
            }
            drop(gate);
        });
        assert_eq!(check_prefix(&folder, ran, &log), then);
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_loses_no_torn_record() {
    let folder = Folder::new();
    let log = fleet(&folder, 60_000);
    let (begun, rest) = log.as_bytes().split_at(log.len() / 4);
    folder.write("log", begun);
    let ended = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = OpenOptions::new().append(true).open(folder.path("log")).unwrap();
            // Pieces that end at arbitrary bytes.
            for piece in rest.chunks(97) {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all(piece).unwrap();
            }
        });
        let ran = folder.run("ingest log --json");
        ended.store(true, Ordering::Relaxed);
        ran
    });
    let whole = check_prefix(&folder, ran, &log);
    assert!(whole >= 14_000, "{whole} of what was there before");
}
