//! Store errors.

use super::skip::REPAIR;
use crate::codec::trip_row::RowError;
use crate::model::scalar::Offset;

/// The result of a store operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store does not exist; commands that read never create one.
    #[error(
        "store `{0}` does not exist; create it with `tstar ingest --store sqlite:{0} FILE` from files, with `tstar run` from a topic, or with `tstar epoch import` from a topic that was read before"
    )]
    Missing(String),
    /// The file is there, and this user may not read it.
    #[error(
        "store `{location}` may not be read by this user: {reason}; run tstar as a user who may read it, or change its permissions"
    )]
    Unreadable {
        /// Path of the file.
        location: String,
        /// Whose file it is, or what the system says.
        reason: String,
    },
    /// The store does not exist, and its file would be a new one directly in `/`: most such URLs
    /// have a slash too many.
    #[error(
        "store `{location}` does not exist, and none is created directly in `/`; for a file in the current folder write sqlite:{}, else name a folder, such as sqlite:/var/lib/tstar{location}",
        location.trim_start_matches('/')
    )]
    InRoot {
        /// Path of the file.
        location: String,
    },
    /// Another process has the store, and no two of them may at the same time.
    #[error(
        "store `{location}` is locked by another writer, or by a reader that may not write to its folder (lock file `{lock}`); wait for it to end, or stop it, and run this command again"
    )]
    Locked {
        /// Path of the file.
        location: String,
        /// Path of the lock file.
        lock: String,
    },
    /// Another process writes to the file by another name, a hard link.
    #[error(
        "store `{0}` is being written by another name of the same file; wait for that writer to end, or use another --store"
    )]
    OtherName(String),
    /// A file is where a copy of a store would be, or would be taken for a part of it.
    #[error("`{0}` is in the way of the copy; move it away, or write to another file")]
    InTheWay(String),
    /// The file is not a store.
    #[error("`{location}` is not a tstar store: {reason}; use another --store")]
    NotAStore {
        /// Path of the file.
        location: String,
        /// What the file is instead.
        reason: String,
    },
    /// The file was written by a newer version of the program.
    #[error(
        "store `{location}` has format {found}, but this program supports formats up to {known}; use a newer tstar"
    )]
    FormatTooNew {
        /// Path of the file.
        location: String,
        /// Format of the file.
        found: i64,
        /// Newest supported format.
        known: i64,
    },
    /// The file has to be migrated first; only commands that write to the store do that.
    #[error(
        "store `{location}` has the older format {found}, but this program reads format {known}; migrate it with `tstar ingest` of a file, or with `tstar run` if it was built from a topic"
    )]
    FormatTooOld {
        /// Path of the file.
        location: String,
        /// Format of the file.
        found: i64,
        /// The supported format.
        known: i64,
    },
    /// The store was built under other rules.
    #[error(
        "store `{location}` was built with other rules: {differences}; keep the rules of the store, or build another one from the same log: `tstar rebuild --into` with these rules as flags"
    )]
    RulesMismatch {
        /// Path of the file.
        location: String,
        /// Each rule that differs: the store's value and the requested one.
        differences: String,
    },
    /// A stored row violates an invariant of trips; a retry cannot help.
    #[error("{0}; {REPAIR}")]
    Malformed(RowError),
    /// The disk of the store is full.
    #[error(
        "the disk of store `{location}` is full (while {doing}); data stored before is intact: free space, then rerun the command"
    )]
    Full {
        /// Path of the file.
        location: String,
        /// Operation that failed, such as `opening the file`.
        doing: &'static str,
        /// Error of the database or the system.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The dead letters of the store, or those of one token, have reached their bound.
    #[error(
        "store `{location}` takes no more dead letters: max_dead_letters is {max} bytes, of which a token has an eighth; data stored before is intact: see what is wrong with `tstar dlq ls`, remove letters with `tstar dlq purge` or raise max_dead_letters, then rerun the command"
    )]
    LettersFull {
        /// Path of the file.
        location: String,
        /// The bound, bytes.
        max: u64,
    },
    /// The system refuses writes to the store, and the database does not report the reason.
    #[error(
        "store `{location}` cannot be written to (while {doing}): a quota, a file size limit or a disk fault; data stored before is intact: fix the cause, then rerun the command"
    )]
    Unwritable {
        /// Path of the file.
        location: String,
        /// Operation that failed, such as `opening the file`.
        doing: &'static str,
        /// Error of the database or the system.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is read-only.
    #[error(
        "store `{location}` is read-only (while {doing}): make it, the files next to it and its folder writable, or use another --store"
    )]
    ReadOnly {
        /// Path of the file.
        location: String,
        /// Operation that failed, such as `opening the file`.
        doing: &'static str,
        /// Error of the database or the system.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store belongs to another log.
    #[error(
        "store `{location}` {found}, not {asked}: a store belongs to one log; use another --store"
    )]
    LogMismatch {
        /// Path of the file, or URL of the store.
        location: String,
        /// The log that the store was built from.
        found: String,
        /// The requested log.
        asked: String,
    },
    /// A control record is signed by a key that the store names and this process lacks. Without the
    /// key the signature cannot be verified.
    #[error(
        "the control record at offset {offset} of partition {partition} is signed by key `{name}`, which the store names and control_key_file lacks: add that key to the file, then restart"
    )]
    LacksKey {
        /// Partition of the record.
        partition: i32,
        /// Offset of the record.
        offset: Offset,
        /// Name of the key.
        name: String,
    },
    /// A record names a schema that the store has no verdict on, and no registry may be asked.
    #[error(
        "a record of epoch {epoch} names schema {id}, and the store does not have it: let `tstar run` read the topic to its end first, or, for a rebuild, name the registry with --schema-registry"
    )]
    LacksSchema {
        /// Number of the epoch.
        epoch: i32,
        /// Id of the schema.
        id: String,
    },
    /// The file is no longer at its path, so anything written to it is lost.
    #[error(
        "store `{0}` was removed, moved or replaced while it was open, so what was stored since is not in it: put the file back and rerun the import, or restart to continue with the file that is there now"
    )]
    Gone(String),
    /// A server does not answer.
    #[error(
        "store `{location}` cannot be reached: check its nodes and the network, or use another --store"
    )]
    Unreachable {
        /// URL of the store.
        location: String,
        /// Why the last attempt failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A server rejects the login or denies access to the tables.
    #[error(
        "access to store `{location}` denied: check cql_user, its password (cql_password_file or TSTAR_CQL_PASSWORD) and the permissions of the role"
    )]
    Denied {
        /// URL of the store.
        location: String,
        /// Error of the server.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection options are not valid for this store.
    #[error("store `{location}`: {problem}")]
    Options {
        /// URL of the store.
        location: String,
        /// The setting, what is wrong with it, and what to do.
        problem: String,
    },
    /// The server answers, but the tables or the keyspace do not exist.
    #[error(
        "store `{location}` has no {missing}; create it with `tstar schema apply{flag} --store {location}`"
    )]
    NoSchema {
        /// URL of the store.
        location: String,
        /// What is missing.
        missing: String,
        /// Flag that the command needs, with a leading space.
        flag: &'static str,
    },
    /// The disk or the database failed.
    #[error("store `{location}` failed while {doing}")]
    Failed {
        /// Path of the file, or URL of the store.
        location: String,
        /// Operation that failed, such as `opening the file`.
        doing: &'static str,
        /// Error of the database or the system.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<RowError> for StoreError {
    fn from(error: RowError) -> Self {
        Self::Malformed(error)
    }
}

impl StoreError {
    /// The kind of error as one word, for metrics. The words are stable.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Unreadable { .. } => "unreadable",
            Self::InRoot { .. } => "in_root",
            Self::InTheWay { .. } => "in_the_way",
            Self::Locked { .. } | Self::OtherName { .. } => "locked",
            Self::NotAStore { .. } => "foreign",
            Self::FormatTooNew { .. } => "newer",
            Self::FormatTooOld { .. } => "older",
            Self::RulesMismatch { .. } => "other_rules",
            Self::Malformed(_) => "malformed",
            Self::Full { .. } => "full",
            Self::LettersFull { .. } => "letters_full",
            Self::Unwritable { .. } => "unwritable",
            Self::ReadOnly { .. } => "read_only",
            Self::LogMismatch { .. } => "other_log",
            Self::LacksKey { .. } => "lacks_key",
            Self::LacksSchema { .. } => "lacks_schema",
            Self::Gone { .. } => "gone",
            Self::Unreachable { .. } => "unreachable",
            Self::Denied { .. } => "denied",
            Self::Options { .. } => "options",
            Self::NoSchema { .. } => "no_schema",
            Self::Failed { .. } => "failed",
        }
    }

    /// Maps an I/O error of a store's file to the matching variant.
    pub(crate) fn of_io(location: String, doing: &'static str, error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let (kind, source) = (error.kind(), error.into());
        match kind {
            ErrorKind::StorageFull => Self::Full { location, doing, source },
            ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::Unwritable { location, doing, source }
            }
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                Self::ReadOnly { location, doing, source }
            }
            _ => Self::Failed { location, doing, source },
        }
    }
}
