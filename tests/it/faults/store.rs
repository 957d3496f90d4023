//! The store's file while another process has it, replaces it or removes it.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Stdio};

use super::{EACH_BATCH, Running, delivered, until};
use crate::cli::{Folder, Ran, copy_program, minutes};

/// An import that has stored a trip and waits for more on stdin.
pub fn waiting(folder: &Folder) -> (Running, ChildStdin, String) {
    let words = format!("ingest - --json {EACH_BATCH}");
    let mut running = Running::start(folder.command(&words).stdin(Stdio::piped()));
    let mut stdin = running.child().stdin.take().unwrap();
    stdin.write_all(minutes("truck-17", &[0, 2]).as_bytes()).unwrap();
    until("two records", || (delivered(&folder.path("trips.db"))? == 2).then_some(()));
    (running, stdin, words)
}

/// Ends the import after more samples.
fn end(waiting: (Running, ChildStdin, String)) -> Ran {
    let (running, mut stdin, words) = waiting;
    stdin.write_all(minutes("truck-17", &[4, 6]).as_bytes()).unwrap();
    drop(stdin);
    running.ran(&words)
}

#[test]
fn a_store_that_is_removed_while_it_is_written_to_is_reported() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2, 4, 6]));
    let import = waiting(&folder);
    for name in ["trips.db", "trips.db-wal", "trips.db-shm", "trips.db-lock"] {
        std::fs::remove_file(folder.path(name)).unwrap();
    }
    end(import).ends(74).prints_nothing().says(&["trips.db", "removed", "rerun the import"]);
    assert!(!folder.has("trips.db"));
    assert_eq!(folder.ingest("log")["applied"], 4);
}

#[test]
fn a_store_that_is_replaced_while_it_is_written_to_is_reported_and_the_other_one_stays() {
    let folder = Folder::with("log", minutes("truck-18", &[0, 2, 4, 6]));
    let import = waiting(&folder);
    for suffix in ["", "-wal", "-shm", "-lock"] {
        let name = |base: &str| folder.path(&format!("{base}{suffix}"));
        std::fs::rename(name("trips.db"), name("moved.db")).unwrap();
    }
    assert_eq!(folder.ingest("log")["applied"], 4);
    end(import).ends(74).prints_nothing().says(&["trips.db", "moved"]);
    assert_eq!(folder.text("devices"), "{\"device_id\":\"truck-18\",\"tags\":{}}\n");
    assert_eq!(folder.trips("trips.db")[0]["samples"], 4);
    assert_eq!(folder.ingest("log")["applied"], 0);
}

#[test]
fn a_second_import_is_refused_with_the_holder_until_the_first_has_ended() {
    let folder = Folder::with("log", minutes("truck-18", &[0, 2, 4]));
    let import = waiting(&folder);
    let expected = ["locked by another writer", "trips.db-lock"];
    folder.run("ingest log --json").ends(74).prints_nothing().says(&expected);
    assert_eq!(folder.text("devices"), "{\"device_id\":\"truck-17\",\"tags\":{}}\n");
    end(import).ends(0);
    assert_eq!(folder.ingest("log")["trips"], 2);
}

#[test]
fn two_names_of_one_file_have_one_writer_at_a_time_and_a_linked_copy_is_usable() {
    let folder = Folder::with("log", minutes("truck-18", &[0, 2, 4]));
    let import = waiting(&folder);
    std::fs::hard_link(folder.path("trips.db"), folder.path("linked.db")).unwrap();
    let refused = folder.run("ingest log --store sqlite:linked.db").ends(74).prints_nothing();
    refused.says(&["`linked.db` is being written", "another name of the same file"]);
    end(import).ends(0);
    // As after `cp -al`: both names read and write, in turn.
    for (store, devices) in [("linked.db", 2), ("trips.db", 2)] {
        folder.ingest(&format!("log --store sqlite:{store}"));
        assert_eq!(folder.trips(store).len(), devices, "{store}");
    }
    assert_eq!(folder.trips("linked.db"), folder.trips("trips.db"));
}

#[test]
fn a_killed_import_leaves_no_lock() {
    let folder = Folder::with("log", minutes("truck-18", &[0, 2, 4]));
    let (running, _stdin, _) = waiting(&folder);
    folder.run("ingest log --json").ends(74);
    running.kill();
    assert_eq!(folder.ingest("log")["trips"], 2);
}

/// A user other than root, who may write to everything.
const OTHER_USER: u32 = 65_534;

#[test]
fn a_store_that_may_only_be_read_is_reported() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2]));
    folder.ingest("log");
    folder.write("log", minutes("truck-17", &[0, 2, 4]));
    let may = |mode: u32| {
        let set = std::fs::set_permissions(folder.path("trips.db"), Permissions::from_mode(mode));
        set.unwrap();
    };
    may(0o444);
    let words = "ingest log --json";
    let mut command = folder.command(words);
    if std::fs::write(folder.path("trips.db"), folder.read("trips.db")).is_ok() {
        // This is root.
        for name in ["", "log", "trips.db", "trips.db-lock"] {
            chown(folder.path(name), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
        command = std::process::Command::new(folder.path("tstar"));
        copy_program(&folder.path("tstar"));
        command
            .args(words.split(' '))
            .current_dir(folder.dir.path())
            .uid(OTHER_USER)
            .gid(OTHER_USER);
    }
    let ran = Ran::run(words, &mut command).ends(74).prints_nothing();
    ran.says(&["trips.db", "is read-only"]);
    may(0o644);
    assert_eq!(Ran::run(words, &mut command).ends(0).json()["applied"], 1);
}
