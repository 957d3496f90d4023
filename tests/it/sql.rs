//! The store in the hands of other users: folders that may only be read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use tstar::internals::store::sqlite::SqliteStore;

use crate::cli::{Folder, Ran, minutes};

/// A user other than root, who may write to everything.
const OTHER_USER: u32 = 65_534;

/// A folder that another user may read, but not write.
struct Shared {
    folder: Folder,
    /// Where the program is, for the other user.
    program: tempfile::TempDir,
    is_root: bool,
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

impl Shared {
    fn new(folder: Folder) -> Self {
        let program = tempfile::tempdir().unwrap();
        fs::copy(env!("CARGO_BIN_EXE_tstar"), program.path().join("tstar")).unwrap();
        set_mode(program.path(), 0o755);
        for entry in fs::read_dir(folder.dir.path()).unwrap() {
            set_mode(&entry.unwrap().path(), 0o644);
        }
        set_mode(folder.dir.path(), 0o555);
        let is_root = fs::write(folder.path("probe"), "").is_ok();
        if is_root {
            fs::remove_file(folder.path("probe")).unwrap();
        }
        Self { folder, program, is_root }
    }

    /// Runs a command as a user who may not write to the folder.
    fn read(&self, words: &str) -> Ran {
        let mut command = Command::new(self.program.path().join("tstar"));
        command.args(words.split(' ')).current_dir(self.folder.dir.path()).stdin(Stdio::null());
        if self.is_root {
            command.uid(OTHER_USER).gid(OTHER_USER);
        }
        Ran::run(words, &mut command)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // So that it can be removed.
        set_mode(self.folder.dir.path(), 0o755);
    }
}

#[test]
fn a_store_opens_from_a_folder_that_may_only_be_read() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2, 4]));
    folder.ingest("log");
    let expected = folder.text("export --path");
    let shared = Shared::new(folder);
    let before = shared.names();
    assert_eq!(shared.read("export --path").ends(0).text(), expected);
    assert_eq!(shared.read("devices").ends(0).objects().len(), 1);
    shared.read("ingest log").ends(74).says(&["trips.db"]);
    assert_eq!(shared.names(), before);
    // A copy without a lock file.
    let copy = Folder::new();
    copy.write("trips.db", shared.folder.read("trips.db"));
    assert_eq!(Shared::new(copy).read("export --path").ends(0).text(), expected);
}

#[test]
fn a_reader_without_permissions_sees_what_a_writer_has_written_or_nothing() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2, 4]));
    folder.ingest("log");
    let expected = folder.text("export --path");
    let store = folder.path("trips.db");
    set_mode(&store, 0o644);
    let rules = SqliteStore::open_reader(&store).unwrap().rules().unwrap().unwrap();
    let writer = SqliteStore::open_writer(&store, &rules, 0).unwrap();
    // It is not in the file yet.
    let row = Connection::open(&store).unwrap();
    row.execute_batch("UPDATE log SET delivered = delivered + 1").unwrap();
    let left = Folder::new();
    for name in ["trips.db", "trips.db-wal"] {
        left.write(name, folder.read(name));
    }
    let shared = Shared::new(folder);
    // The files that the writer made are there to be used,
    assert_eq!(shared.read("export --path").ends(0).text(), expected);
    // or not.
    for name in ["trips.db-wal", "trips.db-shm"] {
        set_mode(&shared.folder.path(name), 0o600);
        if !shared.is_root {
            set_mode(&shared.folder.path(name), 0);
        }
    }
    shared.read("export").ends(74).prints_nothing().says(&["locked by another writer"]);
    set_mode(&shared.folder.path("trips.db-lock"), 0o600);
    if shared.is_root {
        shared.read("export").ends(74).prints_nothing().says(&["trips.db-lock", "readable"]);
    }
    set_mode(&shared.folder.path("trips.db-lock"), 0o644);
    drop((row, writer));
    assert_eq!(shared.read("export --path").ends(0).text(), expected);

    // A writer that was killed.
    let left = Shared::new(left);
    left.read("export").ends(74).prints_nothing().says(&["trips.db-wal", "was killed"]);
}
