//! The prepared statements. Each select names its order, so tables may be created ASC or DESC.

use super::Consistency;
use super::cql::{Cql, Mode};
use super::requests::Failure;
use crate::codec::trip_row::trip_columns;
use crate::store::tables::SideStatements;

macro_rules! name_columns {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        concat!("device_id, bucket, end_time, start_time", $(", ", stringify!($name)),*)
    };
}

macro_rules! name_placeholders {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        concat!(":device_id, :bucket, :end_time, :start_time", $(", :", stringify!($name)),*)
    };
}

/// All columns, in the order of [`Raw`](super::row::Raw).
macro_rules! columns {
    () => {
        trip_columns!(name_columns)
    };
}

/// Deletes every older row within the span, whatever its key.
const DELETE_SPAN: &str = "DELETE FROM trips USING TIMESTAMP :version
     WHERE device_id = :device_id AND bucket = :bucket
     AND end_time >= :start_time AND end_time <= :end_time";

const INSERT_TRIP: &str = concat!(
    "INSERT INTO trips (",
    columns!(),
    ") VALUES (",
    trip_columns!(name_placeholders),
    ")
     USING TIMESTAMP :written"
);

const OF_DAY: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM trips WHERE device_id = ? AND bucket = ? AND end_time >= ?
     ORDER BY end_time ASC, start_time ASC"
);

const BEFORE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM trips WHERE device_id = ? AND bucket = ? AND end_time < ?
     ORDER BY end_time DESC, start_time DESC"
);

/// Every row of the table, in token order.
const EVERY: &str = concat!("SELECT ", columns!(), " FROM trips");

const DAY_OF_DEVICE: &str = "INSERT INTO days_of_device (device_id, bucket) VALUES (?, ?)
     USING TIMESTAMP ?";

const DEVICE_OF_DAY: &str = "INSERT INTO device_days (bucket, shard, device_id) VALUES (?, ?, ?)
     USING TIMESTAMP ?";

/// Page size for rows with paths, which are large.
const DAY_PAGE: i32 = 64;

/// Page size of a lookup. If trips are disjoint, the first row decides.
pub(super) const LOOKUP_PAGE: i32 = 4;

/// Declares prepared statements: each with how it is executed, and its text.
macro_rules! statements {
    ($kind:ident, $consistency:ident => $($name:ident: $mode:expr => $text:expr,)+) => {
        /// Prepared statements.
        pub(in crate::store) struct $kind<C: Cql> {
            $(pub(in crate::store) $name: C::Statement,)+
        }

        impl<C: Cql> $kind<C> {
            pub(in crate::store) async fn prepare(
                cql: &C,
                $consistency: $crate::store::scylla::Consistency,
            ) -> std::result::Result<Self, $crate::store::scylla::Failure> {
                Ok(Self { $($name: cql.prepare($text, $mode).await?,)+ })
            }
        }
    };
}

pub(in crate::store) use statements;

// Of trips, their day indexes, forgets, claims and positions.
statements! { TripStatements, consistency =>
    covering: Mode::Paged(LOOKUP_PAGE) => OF_DAY,
    before: Mode::Paged(LOOKUP_PAGE) => BEFORE,
    of_day: Mode::Paged(DAY_PAGE) => OF_DAY,
    all_rows: Mode::Paged(DAY_PAGE) => EVERY,
    remove: Mode::Listed =>
        "DELETE FROM trips USING TIMESTAMP ?
             WHERE device_id = ? AND bucket = ? AND end_time = ? AND start_time = ?",
    // From one replica, as it names some columns only.
    ends_of_day: Mode::OneReplica(consistency) =>
        "SELECT end_time, start_time, t_star, version, end_lat, end_lon, kind FROM trips
             WHERE device_id = ? AND bucket = ? ORDER BY end_time DESC, start_time DESC LIMIT ?",
    days: Mode::Listed =>
        "SELECT bucket FROM days_of_device WHERE device_id = ?
             AND bucket >= ? AND bucket <= ? ORDER BY bucket ASC LIMIT ?",
    days_desc: Mode::Listed =>
        "SELECT bucket FROM days_of_device WHERE device_id = ?
             AND bucket >= ? AND bucket <= ? ORDER BY bucket DESC LIMIT ?",
    devices: Mode::Listed => "SELECT DISTINCT device_id FROM days_of_device",
    devices_of_day: Mode::Listed =>
        "SELECT device_id FROM device_days WHERE bucket = ? AND shard = ?
             AND device_id > ? ORDER BY device_id ASC LIMIT ?",
    device_of_day: Mode::Listed =>
        "SELECT device_id FROM device_days
             WHERE bucket = ? AND shard = ? AND device_id = ?",
    unlist_device: Mode::Listed =>
        "DELETE FROM device_days USING TIMESTAMP ?
             WHERE bucket = ? AND shard = ? AND device_id = ?",
    unlist_day: Mode::Listed =>
        "DELETE FROM days_of_device USING TIMESTAMP ?
             WHERE device_id = ? AND bucket = ?",
    // Every read of forgets names all of their columns: a server that repairs a replica after a
    // read sends it the columns that were read, and a row on a quorum would have some but not
    // others.
    forgets: Mode::Listed =>
        "SELECT version, before, days FROM forgets WHERE device_id = ?
             ORDER BY version ASC",
    erased: Mode::Listed =>
        "SELECT max(version), max(before), count(days) FROM forgets
             WHERE device_id = ?",
    all_forgets: Mode::EveryReplica => "SELECT device_id, version, before, days FROM forgets",
    recorded_days: Mode::Listed =>
        "SELECT before, days FROM forgets
             WHERE device_id = ? AND version = ?",
    moved_claims: Mode::Listed =>
        "SELECT claims, before, days FROM forgets WHERE device_id = ? LIMIT 1",
    add_forget: Mode::Listed =>
        "INSERT INTO forgets (device_id, version, before, days)
             VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
    erase: Mode::Listed =>
        "DELETE FROM trips USING TIMESTAMP ?
             WHERE device_id = ? AND bucket = ? AND end_time < ?",
    claim: Mode::Conditional =>
        "INSERT INTO claims (device_id, epoch, partition) VALUES (?, ?, ?)
             IF NOT EXISTS",
    claim_of: Mode::Listed => "SELECT partition FROM claims WHERE device_id = ? AND epoch = ?",
    claims_of: Mode::Serial(consistency) =>
        "SELECT epoch, partition FROM claims WHERE device_id = ?
             ORDER BY epoch ASC",
    move_claim: Mode::Listed =>
        "UPDATE forgets USING TIMESTAMP ? SET claims[?] = ? WHERE device_id = ?",
    unclaim: Mode::Listed => "DELETE FROM claims WHERE device_id = ? AND epoch = ? IF EXISTS",
    positions: Mode::Listed =>
        "SELECT generation, partition, next_offset FROM positions WHERE epoch = ?
             ORDER BY generation ASC, partition ASC",
    keep_position: Mode::Listed =>
        "INSERT INTO positions (epoch, generation, partition, next_offset)
             VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
}

/// The statements of a store.
pub(in crate::store) struct Statements<C: Cql> {
    /// A delete of a span and an insert of a row.
    pub(super) put: [C::Statement; 2],
    /// Both in one partition.
    pub(super) put_one: C::Batch,
    /// An insert in a batch, like the rows: a server that checks the timestamps of single
    /// statements but not of batches would otherwise reject the index entry of a row that it
    /// accepts.
    pub(super) list_device: C::Batch,
    pub(super) list_day: C::Batch,
    pub(super) trips: TripStatements<C>,
    pub(in crate::store) side: SideStatements<C>,
}

impl<C: Cql> Statements<C> {
    pub(super) async fn prepare(cql: &C, consistency: Consistency) -> Result<Self, Failure> {
        let list = |text| cql.prepare(text, Mode::Listed);
        let put = [list(DELETE_SPAN).await?, list(INSERT_TRIP).await?];
        Ok(Self {
            put_one: cql.batch(put.to_vec()),
            put,
            list_device: cql.batch(vec![list(DEVICE_OF_DAY).await?]),
            list_day: cql.batch(vec![list(DAY_OF_DEVICE).await?]),
            trips: TripStatements::prepare(cql, consistency).await?,
            side: SideStatements::prepare(cql, consistency).await?,
        })
    }
}
