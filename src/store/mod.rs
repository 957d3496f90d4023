//! What keeps trips, and what keeps the log's side of things.
//!
//! The seam has two parts. [`TripStore`] holds trips; [`Journal`] holds position, dead letters,
//! changes and rules. The embedded store is both, in one transaction; with Kafka and Scylla the
//! journal is the log's. `tests/it/conformance.rs` runs one suite over every store.

pub mod any;
pub mod claims;
mod days;
mod erased;
mod error;
mod error_kind;
pub mod files;
mod find;
pub(crate) mod forward;
mod guided;
mod keys;
pub mod memory;
mod overlay;
mod pair;
pub mod raw;
pub mod scylla;
mod skip;
pub mod sqlite;
mod timed;
mod url;

use std::future::Future;
use std::sync::Arc;

pub use crate::codec::trip_row::{DayWrite, RowError, TripRow};
pub use crate::model::change::{Change, ChangeKind, Forget, Forgotten};
pub use any::{Access, AnyStore, EmbeddedStore, OpenOptions};
pub use erased::was_erased;
pub use error::StoreError;
pub use find::{LookupResult, find, find_at};
pub use guided::{Guide, Guided};
pub use keys::{AskKeys, KeyStore, KeysAnswer, ask_keys};
pub use overlay::Overlay;
pub use pair::Pair;
pub use scylla::{ClientIdentity, Consistency, Health, ServerOptions, Tls};
pub use sqlite::{DeadLetterFilter, KeptDeadLetter, LetterUpdates, RetryJournal, Step};
pub use timed::Timed;
pub use url::{StoreUrl, StoreUrlError};

use crate::model::epoch::Epoch;
use crate::model::input_part::Part;
use crate::model::reason::DeadReason;
use crate::source::{Cut, Headers};

/// Which devices are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceScope {
    /// All that have a trip.
    All,
    /// Those that have a trip that touches a UTC day, whole days since 1970.
    OfDay(i64),
    /// Those of a day in one [`crate::identity::shard`] of it: the UUID form of an id names both.
    OfShard(i64, u8),
}

/// Order of a listing, by `start_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Earliest start first.
    #[default]
    Asc,
    /// Latest start first.
    Desc,
}

/// A sample that could not be used, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Partition of the log; 0 for files.
    pub partition: i32,
    /// Place of its record in the log.
    pub offset: i64,
    /// Which element of a record that is an array.
    pub element: Option<u32>,
    /// Why it could not be used.
    pub reason: DeadReason,
    /// What failed, with the value.
    pub message: String,
    /// Path of the file, or name of the topic.
    pub origin: String,
    /// Line of the file, from 1; 0 where the source has no lines.
    pub line: u64,
    /// The log's timestamp, ms since 1970.
    pub log_time_ms: i64,
    /// Key of the record, where the log has keys, or its head. Letters of one record share it.
    pub key: Option<Arc<[u8]>>,
    /// Set where `key` is the head alone.
    pub key_cut: Option<Cut>,
    /// Headers of the record, or the heads of some. Letters of one record share them.
    pub headers: Arc<Headers>,
    /// Set where `headers` are not all, or not whole: the bytes are those of names and values.
    pub headers_cut: Option<Cut>,
    /// The original bytes, or their head.
    pub value: Vec<u8>,
    /// Length of the original, bytes.
    pub value_bytes: u64,
    /// SHA-256 of the original, where `value` is its head alone.
    pub sha256: Option<[u8; 32]>,
}

impl DeadLetter {
    /// Whether something of its record was not kept, so that the record cannot be made of it again.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.sha256.is_some() || self.key_cut.is_some() || self.headers_cut.is_some()
    }
}

/// How far the log has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The offset of the next record; for files the records delivered in the life of the store.
    pub delivered: i64,
}

/// What becomes durable together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flush {
    /// Trips as they are now.
    pub trips: Vec<TripRow>,
    /// What to tell of them.
    pub changes: Vec<Change>,
    /// Samples that could not be used.
    pub dead_letters: Vec<DeadLetter>,
    /// What was erased, to be told.
    pub forgotten: Vec<Forgotten>,
    /// Everything before it is in this flush or an earlier one.
    pub position: Position,
    /// What was read of each input since the last flush, where the log is one of files.
    pub parts: Vec<Part>,
}

impl Flush {
    /// Whether it holds anything beside the position.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !(self.trips.is_empty()
            && self.changes.is_empty()
            && self.dead_letters.is_empty()
            && self.forgotten.is_empty()
            && self.parts.is_empty())
    }
}

/// Keeps trips.
///
/// - S1 `apply` is idempotent: the same rows again leave the same rows.
/// - S2 an older row of a trip applied after a newer one changes nothing.
/// - S3 a time that a trip covered before and after an `apply` is covered during it.
/// - S4 every read sees every row whose `apply` returned `Ok`.
/// - S5 of overlapping rows of a device the one of the highest version answers.
/// - S6 a row that cannot be decoded is no row: `covering` and `range` leave it out, counted and
///   logged, and so does whoever decodes what `near` gives.
/// - S7 of a device and an epoch `claim` returns one partition, whoever calls it and when;
///   `claimed` returns that one or none. A forget changes neither.
pub trait TripStore: Send + Sync {
    /// Writes trips: for each UTC day a trip touches, every row within its span goes and a copy of
    /// its row comes.
    fn apply(&self, trips: &[TripRow]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The trip of a device that covers a time.
    fn covering(
        &self,
        device_id: &str,
        time_ms: i64,
    ) -> impl Future<Output = Result<Option<TripRow>, StoreError>> + Send;

    /// Every row of a device in a UTC day (whole days since 1970), as it stands, for the loader.
    fn rows_of_day(
        &self,
        device_id: &str,
        day: i64,
    ) -> impl Future<Output = Result<Vec<TripRow>, StoreError>> + Send;

    /// Trips of a device that overlap `from_ms..=upto_ms`, each once, by `start_time`, at most
    /// `limit` of them.
    fn range(
        &self,
        device_id: &str,
        from_ms: i64,
        upto_ms: i64,
        order: Order,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TripRow>, StoreError>> + Send;

    /// Device ids in byte order, those after `after`, at most `limit`.
    fn devices(
        &self,
        whose: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;

    /// What was ever carried out, or begun, of [`TripStore::forget`] for a device.
    fn forgets(
        &self,
        device_id: &str,
    ) -> impl Future<Output = Result<Vec<Forget>, StoreError>> + Send;

    /// All of [`TripStore::forgets`] as one: the newest version and the latest `before`, which is
    /// the floor; `None` where there are none. However many there are, the answer is small.
    fn erased(
        &self,
        device_id: &str,
    ) -> impl Future<Output = Result<Option<Forget>, StoreError>> + Send {
        async { Ok(self.forgets(device_id).await?.into_iter().reduce(Forget::and)) }
    }

    /// Erases the trips of a device that end before a time. Each step is durable before the next:
    /// the forget is noted with the days that it concerns, united with those of one of the same
    /// version that was begun before; the rows go; days before that of `before_ms` that hold no row
    /// any more go from the lists; with the last of them the claims of the device become a part of
    /// what is kept of the forget.
    fn forget(
        &self,
        device_id: &str,
        forget: &Forget,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The partition that a device has claimed in an epoch. It may miss a claim of this moment.
    fn claimed(
        &self,
        device_id: &str,
        epoch: i32,
    ) -> impl Future<Output = Result<Option<i32>, StoreError>> + Send;

    /// Claims a partition for a device in an epoch, unless one is claimed. Returns the one that is:
    /// it is durable by then, or becomes so with the rows of the device.
    fn claim(
        &self,
        device_id: &str,
        epoch: i32,
        partition: i32,
    ) -> impl Future<Output = Result<i32, StoreError>> + Send;
}

/// Keeps what belongs to the log: how far it was read, what could not be used, what changed.
pub trait Journal: Send + Sync {
    /// Takes trips, changes and dead letters of the next flush ahead of it: a large one need
    /// not be in memory at once. The store shows them; they are durable with the flush, and gone
    /// without it (with a log of its own they may stay: it will bring them again).
    fn stage(&self, ahead: &Flush) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Makes a flush durable: all of it or nothing, or (with a log of its own) each part before the
    /// next in the order trips, changes, dead letters, position, parts.
    fn commit(&self, flush: &Flush) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How far the log has been read.
    fn position(&self) -> impl Future<Output = Result<Position, StoreError>> + Send;
}

/// Keeps the epochs of the log, where it is a topic.
pub trait EpochStore: Send + Sync {
    /// Every epoch, oldest first.
    fn epochs(&self) -> impl Future<Output = Result<Vec<Epoch>, StoreError>> + Send;

    /// Adds an epoch unless there is one of its number; tells whether it was added.
    fn add_epoch(&self, epoch: &Epoch) -> impl Future<Output = Result<bool, StoreError>> + Send;
}
