//! Errors of stores.

use crate::codec::trip_row::RowError;

/// A trip row cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store at that place; commands that read never make one.
    #[error(
        "there is no store at `{place}`: `tstar ingest --store sqlite:{place} FILE` makes one of files; `tstar run` makes one of a topic, and `tstar epoch import` another one of a topic that was read"
    )]
    Missing {
        /// Path of the file.
        place: String,
    },
    /// Another process writes to the store.
    #[error(
        "store `{place}` is locked by another writer (lock file `{lock}`): wait for it to end, or use another --store"
    )]
    Locked {
        /// Path of the file.
        place: String,
        /// Path of the lock.
        lock: String,
    },
    /// The file is something else.
    #[error("`{place}` is not a tstar store: {reason}; name another file with --store")]
    NotAStore {
        /// Path of the file.
        place: String,
        /// What it is instead.
        reason: String,
    },
    /// The file was written by a newer version of the program.
    #[error(
        "store `{place}` has format {found}, this program knows formats up to {known}: use a newer tstar"
    )]
    FormatTooNew {
        /// Path of the file.
        place: String,
        /// Format of the file.
        found: i64,
        /// Newest format known.
        known: i64,
    },
    /// The file has to be migrated first, which only those commands do that open it for writing
    /// alone.
    #[error(
        "store `{place}` has the older format {found}, this program reads format {known}: `tstar ingest` of a file into it migrates it, or `tstar run` where it was built from a topic"
    )]
    FormatTooOld {
        /// Path of the file.
        place: String,
        /// Format of the file.
        found: i64,
        /// Format that is read.
        known: i64,
    },
    /// The store was built under other rules.
    #[error(
        "store `{place}` was built with other rules: {differences}; use those, or another --store"
    )]
    RulesMismatch {
        /// Path of the file.
        place: String,
        /// Each rule that differs: the store's value and the one asked for.
        differences: String,
    },
    /// A stored row breaks an invariant of a trip; trying again cannot help.
    #[error(transparent)]
    Malformed(#[from] RowError),
    /// There is no room for the store.
    #[error(
        "the disk of store `{place}` is full (while {doing}); what was stored before is whole: make room, then run the same command again"
    )]
    Full {
        /// Path of the file.
        place: String,
        /// What was being done.
        doing: &'static str,
        /// What the database, or the system, said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system does not take more of the store, for a reason that the database does not tell.
    #[error(
        "store `{place}` cannot be written to (while {doing}): a quota, a limit on the size of files, or a fault of the disk; what was stored before is whole: see to it, then run the same command again"
    )]
    Unwritable {
        /// Path of the file.
        place: String,
        /// What was being done.
        doing: &'static str,
        /// What the database, or the system, said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file may only be read.
    #[error(
        "store `{place}` may only be read (while {doing}): allow writing to it, to the files beside it and to its folder, or use another --store"
    )]
    ReadOnly {
        /// Path of the file.
        place: String,
        /// What was being done.
        doing: &'static str,
        /// What the database, or the system, said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store belongs to another log.
    #[error(
        "store `{place}` {found}, not {asked}: a store belongs to one log; use another --store"
    )]
    LogMismatch {
        /// Path of the file, or address.
        place: String,
        /// Whose it is.
        found: String,
        /// Whose it was taken for.
        asked: String,
    },
    /// A control record is signed by a key that the store names and this process lacks: nobody but
    /// one who has it can tell whether the record counts.
    #[error(
        "the control record at offset {offset} of partition {partition} is signed by key `{name}`, which the store names and control_key_file lacks: add that key to the file, then start again"
    )]
    LacksKey {
        /// Partition of the record.
        partition: i32,
        /// Place of the record in the log.
        offset: i64,
        /// Name of the key.
        name: String,
    },
    /// The file is not at its path any more, so nobody will find what is written to it.
    #[error(
        "store `{place}` was removed, moved or replaced while it was written to: what this run stored is not there; put it back, or run the import again"
    )]
    Gone {
        /// Path of the file.
        place: String,
    },
    /// A server does not answer.
    #[error(
        "store `{place}` cannot be reached: see that its nodes run and the network leads to them, or name another --store"
    )]
    Unreachable {
        /// URL of the store.
        place: String,
        /// Why the last try failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A server does not let this program in, or to its tables.
    #[error(
        "access to store `{place}` denied: check cql_user, its password (cql_password_file or TSTAR_CQL_PASSWORD) and what the role may do"
    )]
    Denied {
        /// URL of the store.
        place: String,
        /// What the server said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// How the store is to be talked to makes no sense, or not here.
    #[error("store `{place}`: {problem}")]
    Options {
        /// URL of the store.
        place: String,
        /// What is wrong, with the setting, and what to do.
        problem: String,
    },
    /// A server is there, and the store on it is not.
    #[error(
        "store `{place}` has no {missing}: make it with `tstar schema apply{flag} --store {place}`"
    )]
    NoSchema {
        /// URL of the store.
        place: String,
        /// What is missing.
        missing: String,
        /// A flag, after a space, that the command needs.
        flag: &'static str,
    },
    /// The disk, or the database, failed.
    #[error("store `{place}` failed while {doing}")]
    Failed {
        /// Path of the file, or address.
        place: String,
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// What the system said of a file, as the reason why the store failed.
    pub(crate) fn of_io(place: String, doing: &'static str, error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let (kind, source) = (error.kind(), error.into());
        match kind {
            ErrorKind::StorageFull => Self::Full { place, doing, source },
            ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::Unwritable { place, doing, source }
            }
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                Self::ReadOnly { place, doing, source }
            }
            _ => Self::Failed { place, doing, source },
        }
    }
}
