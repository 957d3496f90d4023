//! Opens store files for writing: checks their kind, format, lock, log and rules.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::file::{FileId, StoreFile};
use super::letters::LETTERS_AHEAD;
use super::lock::WriterLock;
use super::{SqliteStore, failed};
use crate::model::epoch::LogKind;
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::store::files::{self, with_suffix};
use crate::store::{Result, StoreError};

/// `Tstr` in the header of the file, by which `file` and `sqlite3` recognise a store.
const APPLICATION_ID: i64 = 0x5473_7472;

/// The number in files that were made before the first release, in formats 1 to 11 of their own.
const UNRELEASED_ID: i64 = 0x7473_7472;

/// The statements that migrate each format to the next. The first ones create a store.
pub const FORMATS: &[&str] = &[concat!(
    include_str!("../../../schema/trips.sql"),
    include_str!("../../../schema/log.sql"),
    include_str!("../../../schema/journal.sql"),
    include_str!("../../../schema/views.sql"),
    include_str!("../../../schema/tags.sql"),
)];

/// How long SQLite waits for a lock of another connection.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

impl SqliteStore {
    /// Opens a store for writing, creates it if it does not exist, and migrates an older format.
    /// Holds a lock file next to the store until it is dropped.
    ///
    /// # Errors
    /// The file cannot be opened or written, is not a store, has a newer format or other rules, or
    /// another process writes to it.
    pub fn open_writer(path: &Path, rules: &Rules, keep_changes: u64) -> Result<Self> {
        let store = Self::open_file(path, keep_changes, None)?;
        store.check_log(LogKind::Files, &rules.clone().into())?;
        Ok(store)
    }

    /// [`SqliteStore::open_writer`] of a file that is open already: it is neither created nor
    /// another one. Its rules stand where others are not given, and are returned as well.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open_writer`], or the file is no longer at its path.
    pub(crate) fn open_again(
        path: &Path,
        rules: &RulesRequest,
        keep_changes: u64,
        id: FileId,
    ) -> Result<(Self, Rules)> {
        let store = Self::open_file(path, keep_changes, Some(id))?;
        let rules = store.check_log(LogKind::Files, rules)?;
        Ok((store, rules))
    }

    /// The same for an import. If no sample was ever applied, the rules are not
    /// fixed, and the returned ones are not stored before [`SqliteStore::prepare_import`].
    ///
    /// # Errors
    /// Those of [`SqliteStore::open_writer`].
    pub(crate) fn open_import(
        path: &Path,
        rules: &RulesRequest,
        keep_changes: u64,
    ) -> Result<(Self, Rules)> {
        let store = Self::open_file(path, keep_changes, None)?;
        store.check_kind(LogKind::Files)?;
        let stored = if store.is_unused()? { None } else { store.rules()? };
        let rules = store.resolve(rules, stored.as_ref())?;
        Ok((store, rules))
    }

    /// [`SqliteStore::open_writer`] for the records of a topic. Does not check the rules, which
    /// belong to the epochs.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open_writer`].
    pub fn open_for_topic(path: &Path, rules: &Rules, keep_changes: u64) -> Result<Self> {
        let store = Self::open_file(path, keep_changes, None)?;
        store.check_log(LogKind::Topic, &rules.clone().into())?;
        store.find_letters_ahead()?;
        Ok(store)
    }

    /// Opens or creates a file for writing, before its log is checked. One that is `known` is not
    /// created.
    fn open_file(path: &Path, keep_changes: u64, known: Option<FileId>) -> Result<Self> {
        let location = path.display().to_string();
        let gone = || StoreError::Gone(location.clone());
        if known.is_some() && !path.exists() {
            return Err(gone());
        }
        refuse_new_in_root(path)?;
        refuse_folder(path)?;
        let lock = WriterLock::acquire(path, &location)?;
        if known.is_none() {
            // SQLite copies the mode of this file to the files it creates next to it.
            files::create(path).map_err(failed(&location, "creating the file"))?;
        }
        let file = StoreFile::new(path);
        let mut file = file.map_err(failed(&location, "reading the file's identity"))?;
        if known.is_some_and(|known| known != file.id()) {
            return Err(gone());
        }
        if !file.lock().map_err(failed(&location, "locking the file"))? {
            return Err(StoreError::OtherName(location));
        }
        let connection = connect(path).map_err(failed(&location, "opening the file"))?;
        // Checked before SQLite creates other files with the same read-only mode.
        if connection.is_readonly("main").map_err(failed(&location, "opening the file"))? {
            let source = "the system opened it read-only".into();
            return Err(StoreError::ReadOnly { location, doing: "opening the file", source });
        }
        let format = format(&connection, &location, FORMATS)?.unwrap_or(0);
        if format == 0 {
            let id = connection.pragma_update(None, "application_id", APPLICATION_ID);
            id.map_err(failed(&location, "creating the store"))?;
        }
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -65536;";
        connection.execute_batch(settings).map_err(failed(&location, "preparing the file"))?;
        migrate(&connection, &location, format, FORMATS)?;
        let ahead = connection.execute_batch(LETTERS_AHEAD);
        ahead.map_err(failed(&location, "preparing the file"))?;
        let mut store = Self::new(connection, location, Some(file), keep_changes);
        store.writing = Some(lock);
        Ok(store)
    }

    /// Deletes a store if it exists.
    ///
    /// # Errors
    /// The file is not a store, another process writes to it, or the disk fails.
    pub fn remove(path: &Path) -> Result<()> {
        let location = path.display().to_string();
        let _lock = WriterLock::acquire(path, &location)?;
        if let Err(
            error @ (StoreError::NotAStore { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Failed { .. }),
        ) = Self::open_reader(path)
        {
            return Err(error);
        }
        for suffix in ["", "-wal", "-shm"] {
            match std::fs::remove_file(with_suffix(path, suffix)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(&location, "deleting it")(error));
                }
                _ => (),
            }
        }
        Ok(())
    }

    /// The rules the store was built with; `None` before anything was written.
    ///
    /// # Errors
    /// The database fails, or the stored rules cannot be parsed.
    pub fn rules(&self) -> Result<Option<Rules>> {
        let doing = "reading the rules";
        let stored = self.select(doing, "SELECT rules FROM log", [], |row| row.get(0))?.pop();
        let parse = |text: String| Rules::from_json(&text).map_err(failed(&self.location, doing));
        stored.map(parse).transpose()
    }

    /// Whether the store belongs to a topic, even if nothing was read from it yet; false for an
    /// empty store.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn is_of_topic(&self) -> Result<bool> {
        if self.rules()?.is_none() {
            return Ok(false);
        }
        let (doing, select) = ("reading the kind of its log", "SELECT kind FROM log");
        let found: Vec<String> = self.select(doing, select, [], |row| row.get(0))?;
        Ok(found == [LogKind::Topic.name()])
    }

    /// Checks the kind of log and, for files, the rules. Records them in a new store. Returns the
    /// stored ones; those of a topic belong to its epochs and are checked there.
    fn check_log(&self, kind: LogKind, rules: &RulesRequest) -> Result<Rules> {
        self.check_kind(kind)?;
        match self.rules()? {
            Some(stored) if kind == LogKind::Topic => Ok(stored),
            Some(stored) => self.resolve(rules, Some(&stored)),
            None => {
                let rules = self.resolve(rules, None)?;
                let insert = "INSERT INTO log (one, kind, rules, delivered) VALUES (1, ?1, ?2, 0)";
                self.execute("writing the rules", insert, [kind.name(), &rules.to_json()])?;
                Ok(rules)
            }
        }
    }

    /// Checks that the store belongs to this kind of log, or to none yet.
    fn check_kind(&self, kind: LogKind) -> Result<()> {
        if self.rules()?.is_none() || self.is_of_topic()? == (kind == LogKind::Topic) {
            return Ok(());
        }
        let (found, asked) = match kind {
            LogKind::Files => ("was built from a topic", "files"),
            LogKind::Topic => ("was built from files", "a topic"),
        };
        let location = self.location.clone();
        Err(StoreError::LogMismatch { location, found: found.into(), asked: asked.into() })
    }

    fn resolve(&self, rules: &RulesRequest, stored: Option<&Rules>) -> Result<Rules> {
        let mismatch = |differences: Vec<String>| StoreError::RulesMismatch {
            location: self.location.clone(),
            differences: differences.join("; "),
        };
        rules.resolve(stored).map_err(mismatch)
    }

    /// A store in an unlinked temporary file, for comparisons: it ends with the process and never
    /// syncs to disk. Stores neither dead letters nor changes.
    ///
    /// # Errors
    /// The file cannot be created in the folder.
    pub fn scratch(folder: &Path, rules: &Rules, of_topic: bool) -> Result<Self> {
        let location = format!("a temporary file in {}", folder.display());
        let file =
            tempfile::NamedTempFile::new_in(folder).map_err(failed(&location, "creating it"))?;
        let connection = Connection::open(file.path()).map_err(failed(&location, "opening it"))?;
        let settings = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
             PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; PRAGMA temp_store = FILE;";
        connection.execute_batch(settings).map_err(failed(&location, "preparing it"))?;
        migrate(&connection, &location, 0, FORMATS)?;
        // No other program reads it.
        let no_views = "DROP TRIGGER trips_insert; DROP TRIGGER trips_delete;";
        connection.execute_batch(no_views).map_err(failed(&location, "preparing it"))?;
        // The open file handle is enough; nothing else needs the name.
        file.close().map_err(failed(&location, "unlinking it"))?;
        let mut store = Self::new(connection, location, None, 0);
        store.keep_letters = false;
        let kind = if of_topic { LogKind::Topic } else { LogKind::Files };
        store.check_log(kind, &rules.clone().into())?;
        Ok(store)
    }
}

/// Refuses a file that does not exist and would be directly in `/`.
pub(super) fn refuse_new_in_root(path: &Path) -> Result<()> {
    if path.parent() == Some(Path::new("/")) && path.symlink_metadata().is_err() {
        return Err(StoreError::InRoot { location: path.display().to_string() });
    }
    Ok(())
}

/// Refuses a folder in the place of the file, of which SQLite reports an I/O error.
pub(super) fn refuse_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        let (location, reason) = (path.display().to_string(), "it is a folder".to_owned());
        return Err(StoreError::NotAStore { location, reason });
    }
    Ok(())
}

/// Opens an existing file for reading and writing. The prefix `./` keeps SQLite from interpreting
/// names such as `:memory:` and `file:`.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(Path::new(".").join(path), flags)
}

/// The format of a file, from 1; `None` if it is empty.
///
/// # Errors
/// It is not a store, or has a newer format than these.
pub(super) fn format(
    connection: &Connection,
    location: &str,
    formats: &[&str],
) -> Result<Option<i64>> {
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed(location, "opening the file"))?;
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let foreign =
        |reason: &str| StoreError::NotAStore { location: location.into(), reason: reason.into() };
    let id = match number("PRAGMA application_id") {
        Ok(id) => id,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            return Err(foreign("it is not an SQLite database"));
        }
        Err(error) => return Err(failed(location, "reading the file's header")(error)),
    };
    let read = failed(location, "reading the file's header");
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(&read)?;
    let format = number("PRAGMA user_version").map_err(&read)?;
    let known = newest(formats);
    match (id, tables) {
        (0 | APPLICATION_ID, 0) => Ok(None),
        (APPLICATION_ID, _) if format > known => {
            Err(StoreError::FormatTooNew { location: location.into(), found: format, known })
        }
        (APPLICATION_ID, _) => Ok(Some(format)),
        (UNRELEASED_ID, _) => Err(foreign("its format is from before 0.1.0: import again")),
        _ => Err(foreign("it is an SQLite database of another program")),
    }
}

/// The newest of these formats.
pub(super) fn newest(formats: &[&str]) -> i64 {
    i64::try_from(formats.len()).unwrap_or(i64::MAX)
}

/// Migrates the file to the newest format, each step in its own transaction.
fn migrate(connection: &Connection, location: &str, format: i64, formats: &[&str]) -> Result<()> {
    for (next, statements) in (1..).zip(formats).filter(|&(next, _)| next > format) {
        let step = format!("BEGIN IMMEDIATE; {statements} PRAGMA user_version = {next}; COMMIT;");
        connection
            .execute_batch(&step)
            .map_err(failed(location, "migrating it to the newest format"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::reader::check_format;

    #[test]
    fn a_store_is_migrated_to_a_format_that_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trips.db");
        drop(SqliteStore::open_writer(&file, &Rules::default(), 0).unwrap());
        let connection = connect(&file).unwrap();
        let next = "ALTER TABLE log ADD COLUMN made_up TEXT DEFAULT 'x';";
        let with_next = [FORMATS, &[next]].concat();
        let (found, known) = (newest(FORMATS), newest(&with_next));
        let older = check_format(&connection, "t", &with_next).unwrap_err();
        let StoreError::FormatTooOld { found: it, known: of, .. } = older else {
            panic!("{older}")
        };
        assert_eq!((it, of), (found, known));
        assert_eq!(format(&connection, "t", &with_next).unwrap(), Some(found));

        migrate(&connection, "t", found, &with_next).unwrap();
        migrate(&connection, "t", known, &with_next).unwrap();
        check_format(&connection, "t", &with_next).unwrap();
        let read = "SELECT kind || made_up FROM log";
        let row: String = connection.query_row(read, [], |row| row.get(0)).unwrap();
        assert_eq!(row, "filesx", "what was there stays");
        drop(connection);

        let reader = SqliteStore::open_reader(&file).unwrap_err();
        let writer = SqliteStore::open_writer(&file, &Rules::default(), 0).unwrap_err();
        for newer in [reader, writer] {
            assert!(matches!(newer, StoreError::FormatTooNew { .. }), "{newer}");
        }
    }

    #[test]
    fn a_store_from_before_the_first_release_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trips.db");
        let connection = Connection::open(&file).unwrap();
        for version in [1, 11] {
            connection.pragma_update(None, "application_id", UNRELEASED_ID).unwrap();
            connection.pragma_update(None, "user_version", version).unwrap();
            let reader = SqliteStore::open_reader(&file).unwrap_err();
            let writer = SqliteStore::open_writer(&file, &Rules::default(), 0).unwrap_err();
            for refused in [reader, writer] {
                assert!(refused.to_string().contains("before 0.1.0: import again"), "{refused}");
            }
        }
    }
}
