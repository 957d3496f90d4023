//! Stores of trips. [`TripStore`] is the main trait; `tests/it/conformance.rs` runs one suite over
//! every store. An embedded store also has the position, dead letters, changes and input parts.

pub mod any;
pub mod claims;
mod days;
mod device_pages;
mod ends;
mod erased;
mod error;
mod error_kind;
pub mod files;
mod find;
pub(crate) mod forward;
pub mod fresh;
mod guided;
pub mod hooks;
mod keys;
#[cfg(feature = "internals")]
pub mod memory;
pub mod new_file;
mod overlay;
pub mod positions;
pub mod raw;
pub mod schemas;
pub mod scylla;
pub mod skip;
pub mod sqlite;
pub mod tags;
mod timed;
mod url;

use std::future::Future;
use std::sync::Arc;

pub use crate::codec::trip_row::{DayWrite, RowError, TripRow};
pub use crate::model::change::{Change, ChangeKind, Forget, Forgotten};
use crate::model::scalar::{Day, DeviceTime, LogTime, Offset};
pub use any::{Access, AnyStore, EmbeddedStore, OpenOptions};
pub use device_pages::{DevicePages, DevicesOfDays};
pub use ends::{TripEnd, TripEnds, count_trips, latest_end};
pub use erased::was_erased;
pub use error::StoreError;
pub use find::{LookupResult, find, find_at};
pub use guided::{Guide, Guided};
pub use keys::{AskKeys, KeyStore, ask_keys};
pub use overlay::Overlay;
pub use positions::{GroupStore, KeptPositions, PositionStore};
pub use schemas::SchemaStore;
pub use scylla::{ClientIdentity, Consistency, ServerOptions, Tls};
pub use sqlite::{FileId, LetterFilter};
pub use tags::TagStore;
pub use timed::Timed;
pub use url::{StoreUrl, StoreUrlError};

use crate::model::epoch::Epoch;
use crate::model::input_part::Part;
use crate::model::reason::DeadReason;
use crate::source::{Cut, HTTP_ORIGIN, Headers};

/// The devices to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceScope {
    /// All devices that have a trip.
    All,
    /// Devices with a trip that touches a UTC day (whole days since 1970).
    OfDay(Day),
    /// Devices of a day in one [`crate::identity::shard`] of it; the UUID form of an id gives both.
    OfShard(Day, u8),
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

/// A sample that could not be used, with the original bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Partition of the log; 0 for files.
    pub partition: i32,
    /// Offset of the record in the log.
    pub offset: Offset,
    /// Index of the element if the record is an array.
    pub element: Option<u32>,
    /// Number of samples: a run of equal ones in a file or request is one letter, of the first.
    pub count: u64,
    /// Why the sample could not be used.
    pub reason: DeadReason,
    /// What failed, with the value.
    pub message: String,
    /// Path of the file, or name of the topic.
    pub origin: String,
    /// Line of the file, from 1; 0 where the source has no lines.
    pub line: u64,
    /// Log timestamp of the record, ms since 1970.
    pub log_time_ms: LogTime,
    /// Key of the record or the head of it; `None` if the log has no keys. Shared by the dead
    /// letters of a record.
    pub key: Option<Arc<[u8]>>,
    /// Set if `key` is only the head.
    pub key_cut: Option<Cut>,
    /// Headers of the record, possibly cut. Shared by the dead letters of a record.
    pub headers: Arc<Headers>,
    /// Set if `headers` are incomplete or cut; its length is that of all names and values.
    pub headers_cut: Option<Cut>,
    /// The original bytes or the head of them.
    pub value: Vec<u8>,
    /// Length of the original, bytes.
    pub value_bytes: u64,
    /// SHA-256 of the original if `value` is only the head.
    pub sha256: Option<[u8; 32]>,
}

impl DeadLetter {
    /// Whether a part of the record was cut, so that the record cannot be restored.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.sha256.is_some() || self.key_cut.is_some() || self.headers_cut.is_some()
    }

    /// Whether its sample follows those of `run` in a file or request, and equals them. Each record
    /// of a topic has a letter of its own.
    #[must_use]
    pub fn continues(&self, run: &Self) -> bool {
        let follows = match (run.element, self.element) {
            (None, None) => self.offset - run.offset == run.count.cast_signed(),
            (Some(first), Some(own)) => {
                self.offset == run.offset && u64::from(own) == u64::from(first) + run.count
            }
            _ => false,
        };
        follows
            && !self.is_of_topic()
            && self.value == run.value
            && self.sha256 == run.sha256
            && (self.reason, &self.message) == (run.reason, &run.message)
            && (&self.origin, self.log_time_ms) == (&run.origin, run.log_time_ms)
            && self.key == run.key
            && self.headers == run.headers
    }

    /// Whether its record is that of a topic, which has no lines.
    #[must_use]
    pub fn is_of_topic(&self) -> bool {
        self.line == 0 && self.origin != HTTP_ORIGIN
    }
}

/// How far the log has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Offset of the next record; for files the number of records delivered since the store was
    /// created.
    pub delivered: Offset,
}

/// Changes that become durable together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flush {
    /// The current rows of changed trips.
    pub trips: Vec<TripRow>,
    /// Change events of these trips.
    pub changes: Vec<Change>,
    /// Samples that could not be used.
    pub dead_letters: Vec<DeadLetter>,
    /// Forgets that were carried out, for the change feed.
    pub forgotten: Vec<Forgotten>,
    /// Every record before this position is covered by this flush or an earlier one.
    pub position: Position,
    /// The parts of files that were read since the last flush, if the log consists of files.
    pub parts: Vec<Part>,
}

impl Flush {
    /// Whether the flush contains more than a position.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !(self.trips.is_empty()
            && self.changes.is_empty()
            && self.dead_letters.is_empty()
            && self.forgotten.is_empty()
            && self.parts.is_empty())
    }
}

/// Stores trips.
///
/// - S1 `apply` is idempotent: applying the same rows again changes nothing.
/// - S2 applying an older row of a trip after a newer one changes nothing.
/// - S3 a time that a trip covered before and after an `apply` is covered during it.
/// - S4 every read sees every row whose `apply` returned `Ok`.
/// - S5 of overlapping rows of a device, reads return the one with the highest version.
/// - S6 a row that cannot be decoded is skipped, counted and logged by `covering` and `range`, and
///   by callers that decode the rows of `rows_of_day`; [`skip::collecting`] returns it.
/// - S7 for a device and an epoch, every call of `claim` returns the same partition, and `claimed`
///   returns that partition or `None`. A forget changes neither.
pub trait TripStore: Send + Sync {
    /// Writes trips: in each UTC day that a trip touches, replaces every row within its span by a
    /// copy of its row.
    fn apply(&self, trips: &[TripRow]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The trip of a device that covers a time.
    fn covering(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
    ) -> impl Future<Output = Result<Option<TripRow>, StoreError>> + Send;

    /// Every row of a device in a UTC day (whole days since 1970), overlapping ones included.
    fn rows_of_day(
        &self,
        device_id: &str,
        day: Day,
    ) -> impl Future<Output = Result<Vec<TripRow>, StoreError>> + Send;

    /// At most `limit` trips of a device that overlap `from_ms..=upto_ms`, each once, ordered by
    /// `start_time`.
    fn range(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
        order: Order,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TripRow>, StoreError>> + Send;

    /// The trip of a device that is nearest to a time that none covers: the last one before it in
    /// descending order, else the first one after it.
    fn neighbour(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
        order: Order,
    ) -> impl Future<Output = Result<Option<TripRow>, StoreError>> + Send {
        async move {
            let (from_ms, upto_ms) = match order {
                Order::Asc => (time_ms, DeviceTime::MAX),
                Order::Desc => (DeviceTime::MIN, time_ms),
            };
            let mut found = self.range(device_id, from_ms, upto_ms, order, 1).await?;
            Ok(found.pop())
        }
    }

    /// At most `limit` device ids greater than `after`, in byte order.
    fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;

    /// Every [`TripStore::forget`] of a device that was started, completed or not.
    fn forgets(
        &self,
        device_id: &str,
    ) -> impl Future<Output = Result<Vec<Forget>, StoreError>> + Send;

    /// All of [`TripStore::forgets`] combined: the highest version and the latest `before`, which
    /// is the floor; `None` without forgets.
    fn erased(
        &self,
        device_id: &str,
    ) -> impl Future<Output = Result<Option<Forget>, StoreError>> + Send {
        async { Ok(self.forgets(device_id).await?.into_iter().reduce(Forget::and)) }
    }

    /// Erases the trips of a device that end before a time. Each step is durable before the next:
    ///
    /// 1. Record the forget with the days that it affects, including those of an earlier attempt at
    ///    the same version.
    /// 2. Delete the rows.
    /// 3. Remove days before that of `before_ms` without rows from the day indexes.
    /// 4. If no day is left, move the claims of the device to the record of the forget.
    fn forget(
        &self,
        device_id: &str,
        forget: &Forget,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Step 1 of [`TripStore::forget`] alone, where each step is durable before the next: from then
    /// on, whoever loads the device ignores what is about to be erased.
    fn begin_forget(
        &self,
        _device_id: &str,
        _forget: &Forget,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// The partition that a device has claimed in an epoch. May miss a concurrent claim.
    fn claimed(
        &self,
        device_id: &str,
        epoch: i32,
    ) -> impl Future<Output = Result<Option<i32>, StoreError>> + Send;

    /// Claims a partition for a device in an epoch unless one is claimed already. Returns the
    /// claimed partition, which is durable at once or together with the device's rows.
    fn claim(
        &self,
        device_id: &str,
        epoch: i32,
        partition: i32,
    ) -> impl Future<Output = Result<i32, StoreError>> + Send;
}

/// Stores the epochs of a topic.
pub trait EpochStore: Send + Sync {
    /// Every epoch, oldest first.
    fn epochs(&self) -> impl Future<Output = Result<Vec<Epoch>, StoreError>> + Send;

    /// Adds an epoch unless one of that number exists; returns whether it was added.
    fn add_epoch(&self, epoch: &Epoch) -> impl Future<Output = Result<bool, StoreError>> + Send;
}
