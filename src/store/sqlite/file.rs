//! The file of a store, whatever its name: its identity, and the lock that all its names meet.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::files::has_own_locks;

/// Device and inode of a file, which differ if the file at a path is replaced.
pub(crate) type FileId = (u64, u64);

/// Files that this process has open as stores.
static OPEN: Mutex<BTreeMap<FileId, Open>> = Mutex::new(BTreeMap::new());

/// A file that is open.
///
/// The lock is on a handle of the file itself, since hard links in any folder share nothing else.
/// SQLite's locks are of another kind, but closing any handle of the file would drop those that
/// SQLite holds in this process. So all stores of this process share one handle, which is closed
/// with the last of them, under the lock of [`OPEN`].
#[derive(Default)]
struct Open {
    stores: usize,
    handle: Option<File>,
    has_writer: bool,
}

fn open_files() -> MutexGuard<'static, BTreeMap<FileId, Open>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of an open store. Made before the connection, and dropped after it.
#[derive(Debug)]
pub(super) struct StoreFile {
    path: PathBuf,
    id: FileId,
    is_writer: bool,
}

impl StoreFile {
    /// The file at a path.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let mut files = open_files();
        let id = id_of(&std::fs::metadata(path)?);
        files.entry(id).or_default().stores += 1;
        Ok(Self { path: path.to_owned(), id, is_writer: false })
    }

    /// Locks out writers that opened the file by this or another name, until this is dropped.
    /// Returns false if there is one.
    pub(crate) fn lock(&mut self) -> io::Result<bool> {
        let mut files = open_files();
        let Some(open) = files.get_mut(&self.id).filter(|open| !open.has_writer) else {
            return Ok(false);
        };
        if open.handle.is_none() {
            let handle = File::open(&self.path)?;
            if id_of(&handle.metadata()?) != self.id {
                return Err(io::Error::other("it was replaced while it was opened"));
            }
            open.handle = Some(handle);
        }
        if let Some(handle) = open.handle.as_ref().filter(|handle| has_own_locks(handle))
            && let Err(TryLockError::WouldBlock) = handle.try_lock()
        {
            return Ok(false);
        }
        (open.has_writer, self.is_writer) = (true, true);
        Ok(true)
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Whether the file is still at its path.
    pub(crate) fn is_at_its_path(&self) -> io::Result<bool> {
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok(id_of(&found) == self.id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        let mut files = open_files();
        let Some(open) = files.get_mut(&self.id) else { return };
        if self.is_writer {
            open.has_writer = false;
            // Closing it would not do, as for the lock file.
            open.handle.as_ref().map(File::unlock);
        }
        open.stores -= 1;
        if open.stores == 0 {
            files.remove(&self.id);
        }
    }
}

fn id_of(meta: &std::fs::Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_of_a_file_have_one_writer_and_share_a_handle_until_the_last_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["a.db", "b.db"].map(|name| folder.path().join(name));
        std::fs::write(&path, "").unwrap();
        std::fs::hard_link(&path, &link).unwrap();
        let [mut one, mut other] = [&path, &link].map(|path| StoreFile::new(path).unwrap());
        assert!(one.lock().unwrap() && !other.lock().unwrap());
        let id = one.id();
        drop(one);
        let is_open = || open_files().get(&id).is_some_and(|open| open.handle.is_some());
        assert!(is_open(), "closing it would drop the locks of the other connection");
        assert!(other.lock().unwrap());
        assert!(other.is_at_its_path().unwrap());
        std::fs::remove_file(&link).unwrap();
        assert!(!other.is_at_its_path().unwrap());
        std::fs::copy(&path, &link).unwrap();
        assert!(!other.is_at_its_path().unwrap(), "it was replaced");
        drop(other);
        assert!(!is_open());
    }

    #[test]
    fn a_handle_of_another_process_keeps_writers_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        std::fs::write(&path, "").unwrap();
        // Another open of the file, as that of another process.
        let foreign = File::open(&path).unwrap();
        foreign.try_lock().unwrap();
        let mut file = StoreFile::new(&path).unwrap();
        assert_eq!(file.lock().unwrap(), !has_own_locks(&foreign));
        foreign.unlock().unwrap();
        assert!(file.is_writer || file.lock().unwrap());
    }
}
