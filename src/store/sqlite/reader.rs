//! Opens store files for reading, also from a folder that cannot be written.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, access};

use super::file::StoreFile;
use super::lock::{ReaderLock, lock_path};
use super::open::{FORMATS, format, newest, refuse_folder, refuse_new_in_root};
use super::{SqliteStore, failed};
use crate::store::files::with_suffix;
use crate::store::{Result, StoreError};

impl SqliteStore {
    /// Opens a store for reading, also while another process writes to it.
    ///
    /// SQLite has to create files next to the store, unless a writer has. Where it cannot, the
    /// store is opened as one that does not change, and its lock keeps writers out until it is
    /// closed.
    ///
    /// # Errors
    /// The file does not exist, is not a store, or has an unsupported format; or its folder cannot
    /// be written, and a writer has the store open or ended without completing it.
    pub fn open_reader(path: &Path) -> Result<Self> {
        let location = path.display().to_string();
        refuse_new_in_root(path)?;
        check_readable(path, &location)?;
        let file = || {
            let file = StoreFile::new(path);
            file.map_err(failed(&location, "reading the file's identity"))
        };
        let name = path.as_os_str().to_owned();
        match Self::read(name, &location, file()?, OpenFlags::empty()) {
            // Not by opening it: closing it again would drop the locks of other connections.
            Err(error) if needs_files(&error) && access(path, Access::READ_OK).is_ok() => {
                Self::open_unchanging(path, &location, file()?)
            }
            opened => opened,
        }
    }

    fn open_unchanging(path: &Path, location: &str, file: StoreFile) -> Result<Self> {
        let lock = lock_path(path).display().to_string();
        let unreadable = |error: std::io::Error| {
            format!(
                "its folder cannot be written, and a writer may hold the lock file `{lock}`, which \
                 cannot be read ({error}); make it readable for this user"
            )
        };
        let opening = failed(location, "opening the file");
        let lock = match ReaderLock::acquire(path) {
            Ok(Some(lock)) => lock,
            Ok(None) => return Err(StoreError::Locked { location: location.to_owned(), lock }),
            Err(error) => return Err(opening(unreadable(error))),
        };
        let path = path.canonicalize().map_err(failed(location, "opening the file"))?;
        let left = with_suffix(&path, "-wal");
        if left.metadata().is_ok_and(|meta| meta.len() > 0) {
            let problem = format!(
                "`{}` holds what a writer left when it was killed, and the folder cannot be \
                 written; read the store once as a user who may write there",
                left.display()
            );
            return Err(opening(problem));
        }
        let flags = OpenFlags::SQLITE_OPEN_URI;
        let mut store = Self::read(unchanging_uri(&path), location, file, flags)?;
        store.reading = Some(lock);
        Ok(store)
    }

    fn read(name: OsString, location: &str, file: StoreFile, flags: OpenFlags) -> Result<Self> {
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags)
            .map_err(failed(location, "opening the file"))?;
        check_format(&connection, location, FORMATS)?;
        Ok(Self::new(connection, location.to_owned(), Some(file), 0))
    }
}

/// Checks that a file exists and that this user may read it: SQLite says neither.
fn check_readable(path: &Path, location: &str) -> Result<()> {
    let location = location.to_owned();
    let file = match path.metadata() {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::Missing(location));
        }
        Err(error) => return Err(StoreError::Unreadable { location, reason: error.to_string() }),
    };
    refuse_folder(path)?;
    match access(path, Access::READ_OK) {
        Ok(()) => Ok(()),
        Err(_) => Err(StoreError::Unreadable { location, reason: owner_of(&file) }),
    }
}

/// Who may read a file.
fn owner_of(file: &Metadata) -> String {
    format!("it belongs to user {} and has mode {:04o}", file.uid(), file.mode() & 0o7777)
}

/// Checks that a file has the newest of these formats.
///
/// # Errors
/// It has another one, or is not a store.
pub(super) fn check_format(
    connection: &Connection,
    location: &str,
    formats: &[&str],
) -> Result<()> {
    let known = newest(formats);
    match format(connection, location, formats)? {
        None => {
            let (location, reason) = (location.to_owned(), "it is empty".into());
            Err(StoreError::NotAStore { location, reason })
        }
        Some(found) if found < known => {
            Err(StoreError::FormatTooOld { location: location.to_owned(), found, known })
        }
        Some(_) => Ok(()),
    }
}

/// Whether SQLite could not create the files that it needs next to the store.
fn needs_files(error: &StoreError) -> bool {
    let source = match error {
        StoreError::Failed { source, .. } | StoreError::ReadOnly { source, .. } => source,
        _ => return false,
    };
    let code =
        source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// The URI of a file that does not change while it is open.
fn unchanging_uri(path: &Path) -> OsString {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    (uri + "?immutable=1").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_any_path() {
        let uri = unchanging_uri(Path::new("/data/a b?#%ü/trips.db"));
        assert_eq!(uri, "file:/data/a%20b%3f%23%25%c3%bc/trips.db?immutable=1");
    }
}
