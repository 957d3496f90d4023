//! Files that only this program's user may read, and that never overwrite a foreign file: anyone
//! who may write to the folder could place a symbolic link where such a file is created.

mod new_file;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

pub(super) use self::new_file::LOCK;
pub(crate) use self::new_file::NewFile;

/// What a database of SQLite begins with.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Mode of new files: only their owner reads and writes.
const MODE: u32 = 0o600;

/// The path with `suffix` appended to its file name.
#[must_use]
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
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
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    open_unlinked(path, File::options().create(true).truncate(false).write(true))
}

/// Reads a state file.
///
/// # Errors
/// It is a symbolic link, not a regular file, or cannot be read.
pub(crate) fn read_state(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_unlinked(path, File::options().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file atomically, keeps its mode, and returns the new file, still open.
///
/// # Errors
/// The new file cannot be written.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let mut new = NewFile::create(path)?;
    write(new.file_mut())?;
    new.persist(path)
}

/// Whether a path is a symbolic link that another user made, root excepted: to follow it would let
/// that user choose the file.
#[must_use]
pub(crate) fn is_foreign_link(path: &Path) -> bool {
    is_link_of_others(path, [0, rustix::process::geteuid().as_raw()])
}

fn is_link_of_others(path: &Path, own: [u32; 2]) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink() && !own.contains(&meta.uid()))
}

/// Whether a file is a database of SQLite. Closing it drops the locks that this process has on a
/// store that it reads there, so that the store may not be used afterwards.
///
/// # Errors
/// It cannot be read.
pub(crate) fn is_database(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(DATABASE.len() as u64).read_to_end(&mut head)?;
    Ok(head == DATABASE)
}

/// Opens a regular file, and not by a symbolic link.
fn open_unlinked(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
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

/// Whether locks of this kind and those of SQLite do not exclude each other: not so on other
/// systems than Linux, and over a network.
#[cfg(target_os = "linux")]
pub(super) fn has_own_locks(file: &File) -> bool {
    /// NFS, CIFS, SMB 2, in `statfs(2)`.
    const NETWORK: [u32; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];
    let kind = rustix::fs::fstatfs(file).map(|found| u32::try_from(found.f_type));
    kind.is_ok_and(|kind| kind.is_ok_and(|kind| !NETWORK.contains(&kind)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_own_locks(_: &File) -> bool {
    false
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
    fn only_links_of_others_are_foreign() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let others = [u32::MAX; 2];
        assert!(is_link_of_others(&link, others) && !is_link_of_others(&file, others));
        assert!(!is_foreign_link(&link));
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
