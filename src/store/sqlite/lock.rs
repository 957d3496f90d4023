//! The lock file of a store: one writer, or readers of a folder that cannot be written.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::failed;
use crate::store::files::LOCK;
use crate::store::files::{self, with_suffix};
use crate::store::{Result, StoreError};

/// Locks out other writers until it is dropped. A separate file, since closing any handle of the
/// database file itself would drop the locks that SQLite holds on it in this process.
#[derive(Debug)]
pub(super) struct WriterLock(File);

impl WriterLock {
    pub(crate) fn acquire(path: &Path, location: &str) -> Result<Self> {
        let name = lock_path(path);
        let doing = "creating its lock file next to it (its folder must exist)";
        let file = files::open_lock(&name).map_err(failed(location, doing))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                let lock = name.display().to_string();
                Err(StoreError::Locked { location: location.to_owned(), lock })
            }
            Err(TryLockError::Error(error)) => Err(failed(location, "locking it")(error)),
        }
    }
}

impl Drop for WriterLock {
    /// Closing the file would not do: a process that another thread is about to start has a copy of
    /// the handle until it runs its program, and the lock with it.
    fn drop(&mut self) {
        self.0.unlock().ok();
    }
}

/// Keeps writers out of a store whose folder cannot be written, until it is dropped. Any number of
/// readers may hold it at the same time.
#[derive(Debug)]
pub(super) struct ReaderLock(Option<File>);

impl ReaderLock {
    /// `None` if a writer holds the lock. A store without a lock file was copied: no writer has
    /// opened it since.
    ///
    /// # Errors
    /// The lock file exists and cannot be opened, so that a writer may hold it.
    pub(crate) fn acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(lock_path(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Self(None))),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self(Some(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for ReaderLock {
    /// As [`WriterLock`].
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            file.unlock().ok();
        }
    }
}

/// The same lock file for every symbolic link to the store.
pub(super) fn lock_path(path: &Path) -> PathBuf {
    let real = std::fs::canonicalize(path);
    with_suffix(real.as_deref().unwrap_or(path), LOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_handle_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trips.db");
        let lock = WriterLock::acquire(&path, "trips.db").unwrap();
        // As in a process that is being started.
        let _copy = lock.0.try_clone().unwrap();
        WriterLock::acquire(&path, "trips.db").unwrap_err();
        drop(lock);
        WriterLock::acquire(&path, "trips.db").unwrap();
    }

    #[test]
    fn readers_share_the_lock_and_keep_writers_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trips.db");
        assert!(ReaderLock::acquire(&path).unwrap().is_some(), "there is no lock file");
        let writer = WriterLock::acquire(&path, "trips.db").unwrap();
        assert!(ReaderLock::acquire(&path).unwrap().is_none());
        drop(writer);
        let readers = [0, 1].map(|_| ReaderLock::acquire(&path).unwrap().unwrap());
        WriterLock::acquire(&path, "trips.db").unwrap_err();
        drop(readers);
        WriterLock::acquire(&path, "trips.db").unwrap();
    }
}
