//! Files that take their name once they are complete.

use std::fs::{self, DirEntry, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{has_own_locks, open_unlinked, with_suffix};

/// The name of such a file until then: this, random letters and digits, and [`SUFFIX`].
const PREFIX: &str = ".tstar-";

const SUFFIX: &str = ".new";

/// Number of random letters and digits in a name.
const RANDOM: usize = 6;

/// What SQLite appends to the name of a database for the files that it writes next to it.
const JOURNALS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The suffix of the lock file of a store.
pub(in crate::store) const LOCK: &str = "-lock";

/// The bits of a mode that a new file takes over: none that runs it, as another user even.
const MODE_KEPT: u32 = 0o666;

/// A file that takes its name once it is complete. Dropped before, it leaves nothing behind. Until
/// then it is locked, which distinguishes it from what a killed process has left.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: NamedTempFile,
    /// Dropped after the file: a journal without a file is abandoned.
    journals: Journals,
}

impl NewFile {
    /// Creates it in the folder of `path`, with the mode of the file of this user that is there.
    /// Removes what killed processes of this user have left in the folder, as far as that is
    /// possible.
    ///
    /// # Errors
    /// The folder cannot be written, or a store that is there keeps its own files under that name.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if let Some(store) = store_of(path) {
            let reason =
                format!("it belongs to the store `{}`; name another file", store.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let folder = folder_of(path);
        let new = loop {
            let mut new = tempfile::Builder::new();
            let new = new.prefix(PREFIX).rand_bytes(RANDOM).suffix(SUFFIX).tempfile_in(folder)?;
            if is_taken(&new) {
                let uid = new.as_file().metadata()?.uid();
                break Self { journals: Journals { of: new.path().to_owned(), uid }, file: new };
            }
        };
        let uid = new.journals.uid;
        if let Ok(entries) = folder.read_dir() {
            entries.flatten().for_each(|entry| remove_abandoned(&entry, uid));
        }
        if let Some(kept) = kept_mode(path, uid) {
            new.file().set_permissions(kept)?;
        }
        Ok(new)
    }

    /// The file, to be written.
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The file, to be written.
    pub(crate) fn file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Its path until then.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Makes the content durable under the name `path`, and returns the file, still open.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn persist(self, path: &Path) -> io::Result<File> {
        let Self { file, journals: _journals } = self;
        file.as_file().sync_all()?;
        let file = file.persist(path).map_err(|failed| failed.error)?;
        // Whoever opens it by its name may lock it. Where locks do not work, there is none.
        file.unlock().ok();
        File::open(folder_of(path))?.sync_all()?;
        Ok(file)
    }
}

/// Removes the journals that a user has of a file when it is dropped.
#[derive(Debug)]
struct Journals {
    of: PathBuf,
    uid: u32,
}

impl Drop for Journals {
    fn drop(&mut self) {
        for suffix in JOURNALS {
            let journal = with_suffix(&self.of, suffix);
            // Most often there is none.
            if journal.symlink_metadata().is_ok_and(|meta| meta.uid() == self.uid) {
                fs::remove_file(journal).ok();
            }
        }
    }
}

/// The mode that a new file of a user gets from the file that is there. That of another user's file
/// could give the new one to that user.
fn kept_mode(path: &Path, uid: u32) -> Option<Permissions> {
    let old = path.symlink_metadata().ok().filter(|old| old.is_file() && old.uid() == uid)?;
    Some(Permissions::from_mode(old.permissions().mode() & MODE_KEPT))
}

/// The store that keeps a journal, or its lock, under this name.
fn store_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let mut bases = JOURNALS.iter().chain([&LOCK]).filter_map(|suffix| name.strip_suffix(suffix));
    bases.find_map(|base| Some(path.with_file_name(base)).filter(|store| store.is_file()))
}

/// Locks a file that was just created. False if another process took it for abandoned before.
fn is_taken(new: &NamedTempFile) -> bool {
    match lock(new.as_file()) {
        Some(true) => is_at(new.as_file(), new.path()),
        Some(false) => false,
        // Others cannot lock it, either, so that they leave it.
        None => true,
    }
}

/// Locks a file; false if another process has locked it, `None` where locks do not work.
fn lock(file: &File) -> Option<bool> {
    match has_own_locks(file).then(|| file.try_lock())? {
        Ok(()) => Some(true),
        Err(TryLockError::WouldBlock) => Some(false),
        Err(TryLockError::Error(_)) => None,
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
    let (open, found) = (file.metadata().map(id), path.symlink_metadata().map(id));
    open.is_ok_and(|open| found.is_ok_and(|found| found == open))
}

/// Removes an entry of a folder if a killed process of this user has left it.
fn remove_abandoned(entry: &DirEntry, uid: u32) {
    let path = entry.path();
    let is_own = entry.metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == uid);
    match file_of(&path).filter(|_| is_own) {
        Some(file) if file == path => {
            let Ok(open) = open_unlinked(&path, File::options().read(true)) else { return };
            // It may have taken its name meanwhile.
            if lock(&open) == Some(true) && is_at(&open, &path) && fs::remove_file(&path).is_ok() {
                drop(Journals { of: path, uid });
            }
        }
        // The file is created before its journals, and removed or renamed after them.
        Some(file) if file.symlink_metadata().is_err() => drop(Journals { of: file, uid }),
        _ => (),
    }
}

/// The new file that a path names, itself or as a journal of it.
fn file_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (random, rest) = name.strip_prefix(PREFIX)?.split_at_checked(RANDOM)?;
    let journal = rest.strip_prefix(SUFFIX)?;
    let is_random = random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_known = journal.is_empty() || JOURNALS.contains(&journal);
    (is_random && is_known).then(|| path.with_file_name(name.strip_suffix(journal).unwrap_or(name)))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn what_failed_leaves_neither_file_nor_journal() {
        let folder = tempfile::tempdir().unwrap();
        let new = NewFile::create(&folder.path().join("copy.db")).unwrap();
        for suffix in JOURNALS {
            fs::write(with_suffix(new.path(), suffix), "of SQLite").unwrap();
        }
        assert_eq!(names(folder.path()).len(), 4);
        drop(new);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn what_killed_processes_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy.db");
        // Of a process that is alive: it holds the lock.
        let living = NewFile::create(&target).unwrap();
        let journal = with_suffix(living.path(), "-journal");
        fs::write(&journal, "of SQLite").unwrap();
        let kept = [
            ".tstar-Ab12cD.new.txt",
            ".tstar-Ab12cD.old",
            ".tstar-Ab12cDe.new",
            ".tstar-Ab-2cD.new",
            "tstar-Ab12cD.new",
            "Ab12cD.new-journal",
        ];
        for name in kept {
            fs::write(folder.path().join(name), "of another program").unwrap();
        }
        symlink(folder.path().join(kept[0]), folder.path().join(".tstar-linked.new")).unwrap();
        fs::create_dir(folder.path().join(".tstar-folder.new")).unwrap();
        let before = names(folder.path());
        for name in [
            ".tstar-Ab12cD.new",
            ".tstar-Ab12cD.new-journal",
            ".tstar-000000.new",
            ".tstar-zzzzzz.new-wal",
            ".tstar-zzzzzz.new-shm",
        ] {
            fs::write(folder.path().join(name), "of a killed process").unwrap();
        }
        NewFile::create(&target).unwrap().persist(&target).unwrap();
        drop(fs::remove_file(&target));
        assert_eq!(names(folder.path()), before);
        drop(living);
        assert!(!journal.exists());
        assert_eq!(names(folder.path()).len(), kept.len() + 2);
    }

    #[test]
    fn a_mode_is_kept_without_the_bits_that_run_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy.db");
        for (old, expected) in [(0o6755, 0o644), (0o640, 0o640), (0o600, 0o600)] {
            fs::write(&target, "old").unwrap();
            fs::set_permissions(&target, Permissions::from_mode(old)).unwrap();
            let new = NewFile::create(&target).unwrap().persist(&target).unwrap();
            assert_eq!(new.metadata().unwrap().permissions().mode() & 0o7777, expected, "{old:o}");
        }
        let own = target.metadata().unwrap().uid();
        assert_eq!(kept_mode(&target, own + 1), None, "that of another user");
    }

    #[test]
    fn journals_of_other_users_stay() {
        let folder = tempfile::tempdir().unwrap();
        let of = folder.path().join(".tstar-Ab12cD.new");
        let journal = with_suffix(&of, "-wal");
        fs::write(&journal, "of SQLite").unwrap();
        let uid = journal.metadata().unwrap().uid();
        drop(Journals { of: of.clone(), uid: uid + 1 });
        assert!(journal.exists());
        drop(Journals { of, uid });
        assert!(!journal.exists());
    }

    #[test]
    fn what_a_store_keeps_next_to_it_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("t.db"), "a store").unwrap();
        for name in ["t.db-wal", "t.db-journal", "t.db-shm", "t.db-lock"] {
            let refused = NewFile::create(&folder.path().join(name)).unwrap_err().to_string();
            assert!(refused.contains("belongs to the store `"), "{refused}");
        }
        drop(NewFile::create(&folder.path().join("other-wal")).unwrap());
    }

    #[test]
    fn a_file_that_has_its_name_can_be_locked() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("copy.db");
        let open = NewFile::create(&target).unwrap().persist(&target).unwrap();
        File::open(&target).unwrap().try_lock().unwrap();
        drop(open);
    }
}
