//! Files that only this program's user may read, and that never overwrite a foreign file: anyone
//! who may write to the folder could place a symbolic link where such a file is created.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Mode of new files: only their owner reads and writes.
const MODE: u32 = 0o600;

/// The path with `suffix` appended to its file name.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Creates an empty file if it does not exist. Follows symbolic links: users move stores elsewhere
/// with them. Does not open an existing file, because closing it would drop the locks that SQLite
/// holds on it in this process.
///
/// # Errors
/// The file cannot be created.
pub fn create(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(MODE).open(path).map(drop)
}

/// Opens a lock file and creates it if it does not exist. Keeps its content.
///
/// # Errors
/// It is a symbolic link, not a regular file, or cannot be opened.
pub fn open_lock(path: &Path) -> io::Result<File> {
    open_own(path, File::options().create(true).truncate(false).write(true))
}

/// Reads a state file.
///
/// # Errors
/// It is a symbolic link, not a regular file, or cannot be read.
pub fn read_state(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_own(path, File::options().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file atomically, keeps its mode, and returns the new file, still open.
///
/// # Errors
/// The new file cannot be written.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let mut new = NewFile::create(path)?;
    write(new.0.as_file_mut())?;
    new.persist(path)
}

/// A file that takes its name once it is complete. Dropped before, it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile(tempfile::NamedTempFile);

impl NewFile {
    /// Creates it in the folder of `path`, with the mode of the file that is there.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut new = tempfile::Builder::new();
        let new = new.prefix(".tstar-").suffix(".new").tempfile_in(folder_of(path))?;
        if let Ok(old) = path.symlink_metadata()
            && old.is_file()
        {
            new.as_file().set_permissions(old.permissions())?;
        }
        Ok(Self(new))
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        self.0.as_file()
    }

    /// Its path until then.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes the content durable under the name `path`, and returns the file, still open.
    ///
    /// # Errors
    /// The disk fails.
    pub fn persist(self, path: &Path) -> io::Result<File> {
        self.file().sync_all()?;
        let file = self.0.persist(path).map_err(|failed| failed.error)?;
        File::open(folder_of(path))?.sync_all()?;
        Ok(file)
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without NONBLOCK, opening a FIFO would wait for a process at its other end.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(MODE).custom_flags(flags).open(path).map_err(|error| {
        if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            refused("is a symbolic link, and links are not followed here: remove it")
        } else {
            error
        }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("is not a regular file")) }
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn new_files_are_private_and_existing_modes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [store, lock, state] = ["a.db", "a.lock", "state"].map(|it| folder.path().join(it));
        create(&store).unwrap();
        open_lock(&lock).unwrap();
        replace(&state, |file| file.write_all(b"one")).unwrap();
        assert_eq!([&store, &lock, &state].map(|it| mode(it)), [0o600; 3]);
        assert_eq!(read_state(&state).unwrap(), b"one");
        for path in [&store, &lock, &state] {
            fs::write(path, "kept").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        create(&store).unwrap();
        open_lock(&lock).unwrap();
        assert_eq!([&store, &lock].map(|it| fs::read(it).unwrap()), [b"kept", b"kept"]);
        replace(&state, |file| file.write_all(b"two")).unwrap();
        assert_eq!(
            [&store, &lock, &state].map(|it| mode(it)),
            [0o640; 3],
            "existing modes are kept"
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "no temporary files are left");
    }

    #[test]
    fn links_are_not_followed_and_their_targets_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [other, link] = ["other", "link"].map(|it| folder.path().join(it));
        fs::write(&other, "another user's").unwrap();
        symlink(&other, &link).unwrap();
        for error in [open_lock(&link).unwrap_err(), read_state(&link).unwrap_err()] {
            assert!(error.to_string().contains("symbolic link"), "{error}");
        }
        replace(&link, |file| file.write_all(b"mine")).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"another user's");
        assert_eq!(read_state(&link).unwrap(), b"mine", "the link itself was replaced");
        let target = folder.path().join("target");
        symlink(&target, folder.path().join("dangling")).unwrap();
        open_lock(&folder.path().join("dangling")).unwrap_err();
        assert!(!target.exists());
        open_lock(folder.path()).unwrap_err();
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::write(&state, "old").unwrap();
        replace(&state, |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(fs::read(&state).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}
