//! Stores of trips. [`TripStore`] has the trips, [`SideTables`] other tables, and
//! [`AnyStore`] is a store of either kind. `tests/it/conformance.rs` runs one suite over every
//! store. An embedded store also has the position, dead letters, changes and input parts.

pub mod any;
mod error;
pub mod files;
pub(crate) mod hooks;
pub mod lookup;
#[cfg(feature = "internals")]
pub mod memory;
pub mod raw;
pub mod scylla;
pub mod skip;
pub mod sqlite;
pub mod tables;
mod trips;
mod url;
pub mod write_group;

use std::sync::Arc;

pub use crate::codec::trip_row::{RowError, TripRow};
pub use crate::model::change::{Change, Forget, Forgotten};
use crate::model::scalar::{Day, DeviceTime, LogTime, Offset};
pub use crate::segment::Kinds;
pub use any::{Access, AnyStore, EmbeddedStore, OpenOptions};
pub(crate) use any::{AskKeys, Guide};
pub use error::{Result, StoreError};
pub(crate) use lookup::{DevicePages, DevicesOfDays};
pub use lookup::{LookupResult, TripEnd, count_trips, fresh, latest_end};
pub use scylla::{ClientIdentity, Consistency, ServerOptions, Tls};
pub(crate) use sqlite::FileId;
pub use sqlite::LetterFilter;
pub use tables::{SideTables, positions, schemas};
pub use trips::{TripStore, home};
pub(crate) use trips::{known_home, was_erased};
pub use url::StoreUrl;
pub(crate) use url::StoreUrlError;
pub use write_group::WriteGroup;
#[cfg(feature = "internals")]
pub use {tables::SideTablesOver, trips::TripStoreOver};

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

/// The first and the last device time of a span.
pub type TimeSpan = (DeviceTime, DeviceTime);

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
    pub(crate) fn is_of_topic(&self) -> bool {
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
    /// The current rows of changed trips, with what they replace.
    pub groups: Vec<WriteGroup>,
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
        !(self.groups.is_empty()
            && self.dead_letters.is_empty()
            && self.forgotten.is_empty()
            && self.parts.is_empty())
    }

    /// The change events, each with its row.
    pub fn changes(&self) -> impl Iterator<Item = (&Change, &TripRow)> {
        self.groups.iter().flat_map(WriteGroup::events)
    }
}
