//! No disk space for the store.

use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;

use super::{Work, delivered};
use crate::cli::{Folder, Ran};

/// The files of a store, copied to a disk with free space, are a complete store.
fn is_sound(folder: &Folder, store: &str) {
    let copy = folder.path("copy.db");
    for suffix in ["", "-wal"] {
        let from = folder.path(&format!("{store}{suffix}"));
        let to = folder.path(&format!("copy.db{suffix}"));
        if from.exists() {
            std::fs::copy(from, to).unwrap();
        }
    }
    let connection = Connection::open(&copy).unwrap();
    let answer: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}

/// An import that ran out of space reports it and keeps what it had flushed.
#[track_caller]
fn ran_out(work: &Work, ran: Ran, store: &str, why: &str) {
    ran.ends(74).prints_nothing().says(&[store, why, "rerun the command"]);
    is_sound(&work.folder, store);
    let stored = delivered(&work.folder.path("copy.db")).unwrap();
    let total = work.expected.delivered;
    assert!((1..total).contains(&stored), "{stored} of {total} records: no flush failed midway");
}

#[test]
fn a_limit_on_file_sizes_is_told_and_the_run_goes_on_later() {
    let work = Work::new(60_000);
    let words = work.import("small.db");
    // Blocks of 512 bytes. A program that leaves SIGXFSZ as it is would be ended by it.
    let script = "ulimit -f 3000; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tstar")]).args(words.split_whitespace());
    command.current_dir(work.folder.dir.path());
    ran_out(&work, Ran::run(&words, &mut command), "small.db", "limit");
    work.folder.run(&words).ends(0);
    work.is_whole("small.db");
}

#[test]
fn a_log_on_a_full_disk_stops_nothing() {
    let work = Work::new(2_000);
    for format in ["text", "json"] {
        let words = format!("{} --log-format {format} --log-level debug", work.import("whole.db"));
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2> /dev/full", env!("CARGO_BIN_EXE_tstar")]);
        command.args(words.split_whitespace()).current_dir(work.folder.dir.path());
        Ran::run(&words, &mut command).ends(0);
    }
    work.is_whole("whole.db");
}

/// A file system of the given size.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts it in a folder; `None`, with a message, where the system does not allow it.
    pub fn new(folder: &Folder, name: &str, size: &str) -> Option<Self> {
        let place = folder.path(name);
        std::fs::create_dir(&place).unwrap();
        match mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], &place) {
            Ok(()) => Some(Self(place)),
            Err(refused) => {
                eprintln!("SKIPPED: no file system of its own can be mounted here: {refused}");
                None
            }
        }
    }

    /// Changes its mount options.
    pub fn remount(&self, options: &str) {
        mount(&["-o", &format!("remount,{options}")], &self.0).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

fn mount(options: &[&str], place: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(options).arg(place).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[test]
fn a_full_disk_is_told_and_the_run_goes_on_once_there_is_room() {
    let work = Work::new(60_000);
    let Some(mounted) = Mounted::new(&work.folder, "small", "2m") else { return };
    let words = work.import("small/trips.db");
    ran_out(&work, work.folder.run(&words), "small/trips.db", "is full");
    // Without space it fails again, and loses nothing. A checkpoint may move the WAL into existing
    // pages and restart it: then a short flush fits.
    std::fs::write(work.folder.path("small/filler"), vec![0; 2 << 20]).unwrap_err();
    let before = delivered(&work.folder.path("copy.db"));
    work.folder.run(&words).ends(74).prints_nothing().says(&["small/trips.db", "is full"]);
    is_sound(&work.folder, "small/trips.db");
    let after = delivered(&work.folder.path("copy.db"));
    assert!(after >= before, "{after:?} records are stored, {before:?} were");
    mounted.remount("size=200m");
    work.folder.run(&words).ends(0);
    work.is_whole("small/trips.db");
}

#[test]
fn a_disk_that_is_full_from_the_beginning_is_told() {
    let work = Work::new(2_000);
    let Some(mounted) = Mounted::new(&work.folder, "small", "64k") else { return };
    std::fs::write(work.folder.path("small/filler"), vec![0; 1 << 20]).unwrap_err();
    let words = work.import("small/trips.db");
    work.folder.run(&words).ends(74).prints_nothing().says(&["small/trips.db", "is full"]);
    mounted.remount("size=200m");
    work.folder.run(&words).ends(0);
    work.is_whole("small/trips.db");
}

#[test]
fn a_disk_that_may_only_be_read_is_told() {
    let work = Work::new(2_000);
    let Some(mounted) = Mounted::new(&work.folder, "fixed", "20m") else { return };
    let words = work.import("fixed/trips.db");
    work.folder.run(&words).ends(0);
    mounted.remount("ro");
    let ran = work.folder.run(&words).ends(74).prints_nothing();
    ran.says(&["fixed/trips.db", "Read-only"]);
    mounted.remount("rw");
    work.is_whole("fixed/trips.db");
}
