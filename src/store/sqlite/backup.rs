//! Copies of a whole store, and the place of a restored one.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rusqlite::Row;
use rusqlite::backup::Backup;

use super::lock::{WriterLock, lock_path};
use super::open::{connect, refuse_new_in_root};
use super::{SqliteStore, failed};
use crate::store::files::{NewFile, with_suffix};
use crate::store::{Result, StoreError};

/// All pages at once: between steps, a writer would make the copy start again.
const ALL_PAGES: i32 = -1;

impl SqliteStore {
    /// Copies the store to an empty file, as it is at this moment, while another process may write
    /// to it. The copy is one file, which needs no other next to it.
    ///
    /// # Errors
    /// The database or the disk fails.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<()> {
        let location = path.display().to_string();
        let doing = "copying the store";
        let mut copy = connect(path).map_err(failed(&location, doing))?;
        let connection = self.connection();
        let backup = Backup::new(&connection, &mut copy).map_err(failed(&location, doing))?;
        let is_done = backup.step(ALL_PAGES).map_err(failed(&location, doing))?;
        debug_assert_eq!(is_done, rusqlite::backup::StepResult::Done);
        drop(backup);
        drop(connection);
        let mode =
            copy.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
        mode.map(drop).map_err(failed(&location, doing))
    }

    /// The next offset of each partition of a topic.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn all_positions(&self) -> Result<BTreeMap<i32, i64>> {
        let select = "SELECT partition, next_offset FROM positions ORDER BY partition ASC";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(self.select("reading the positions", select, [], read)?.into_iter().collect())
    }

    /// Gives a copy its name, in the place of an older one.
    ///
    /// # Errors
    /// A process writes to the store of that name, or did not end properly; or the disk fails.
    pub(crate) fn put_copy(copy: NewFile, path: &Path) -> Result<()> {
        let location = path.display().to_string();
        // A copy that became a store again has a lock, and a journal that would change this one.
        let is_store = lock_path(path).exists();
        let _lock = is_store.then(|| WriterLock::acquire(path, &location)).transpose()?;
        for suffix in ["-wal", "-journal"] {
            let file = with_suffix(path, suffix);
            if file.symlink_metadata().is_ok() {
                return Err(StoreError::InTheWay(file.display().to_string()));
            }
        }
        copy.persist(path).map(drop).map_err(failed(&location, "replacing it"))
    }

    /// Puts a file in the place of a store that is gone. `write` fills it.
    ///
    /// # Errors
    /// There is a file of a store, another process writes to it, or the disk fails.
    pub(crate) fn put_in_place(
        path: &Path,
        write: impl FnOnce(&NewFile) -> io::Result<()>,
    ) -> Result<()> {
        let location = path.display().to_string();
        refuse_new_in_root(path)?;
        let _lock = WriterLock::acquire(path, &location)?;
        // What SQLite finds next to a file of this name, it takes for a part of it.
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let file = with_suffix(path, suffix);
            if file.symlink_metadata().is_ok() {
                return Err(StoreError::InTheWay(file.display().to_string()));
            }
        }
        let new = NewFile::create(path).map_err(failed(&location, "creating the file"))?;
        write(&new).map_err(failed(&location, "restoring the store"))?;
        new.persist(path).map(drop).map_err(failed(&location, "restoring the store"))
    }
}
