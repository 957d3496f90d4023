//! The prepared statements. Each select names its order, so tables may be created ASC or DESC.

use super::Consistency;
use super::cql::{Cql, Mode};
use super::group::GroupStatements;
use super::positions::PositionStatements;
use super::requests::Failure;
use super::tags::TagStatements;
use crate::codec::trip_row::trip_columns;

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

/// Read from one replica, as it names some columns only.
const ENDS_OF_DAY: &str =
    "SELECT end_time, start_time, t_star, version, end_lat, end_lon FROM trips
     WHERE device_id = ? AND bucket = ? ORDER BY end_time DESC, start_time DESC LIMIT ?";

const ADD_EPOCH: &str = "INSERT INTO epochs
     (log, epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id,
      keeps_positions)
     VALUES ('log', ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS";

const EPOCHS: &str =
    "SELECT epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id,
     keeps_positions
     FROM epochs WHERE log = 'log' ORDER BY epoch ASC";

const ADD_CONTROL_KEY: &str = "INSERT INTO control_keys (log, name, fingerprint)
     VALUES ('log', ?, ?) IF NOT EXISTS";

const CONTROL_KEYS: &str = "SELECT name, fingerprint FROM control_keys
     WHERE log = 'log' ORDER BY name ASC";

const ADD_SCHEMA: &str = "INSERT INTO schemas (epoch, slot, id, verdict) VALUES (?, ?, ?, ?)
     IF NOT EXISTS";

const SCHEMA_SUBJECTS: &str = "SELECT id FROM schemas WHERE epoch = ? AND slot >= ?
     ORDER BY slot ASC LIMIT ?";

const CLAIM: &str = "INSERT INTO claims (device_id, epoch, partition) VALUES (?, ?, ?)
     IF NOT EXISTS";

const CLAIMS_OF: &str = "SELECT epoch, partition FROM claims WHERE device_id = ?
     ORDER BY epoch ASC";

const ADD_FORGET: &str = "INSERT INTO forgets (device_id, version, before, days)
     VALUES (?, ?, ?, ?) USING TIMESTAMP ?";

/// Every read of forgets names all of their columns: a server that repairs a replica after a read
/// sends it the columns that were read, and a row on a quorum would have some but not others.
const FORGETS: &str = "SELECT version, before, days FROM forgets WHERE device_id = ?
     ORDER BY version ASC";

const ERASED: &str = "SELECT max(version), max(before), count(days) FROM forgets
     WHERE device_id = ?";

/// With all columns, like every read of forgets.
pub(super) const ALL_FORGETS: &str = "SELECT device_id, version, before, days FROM forgets";

const CLAIM_OF: &str = "SELECT partition FROM claims WHERE device_id = ? AND epoch = ?";

const RECORDED_DAYS: &str = "SELECT before, days FROM forgets
     WHERE device_id = ? AND version = ?";

const MOVED_CLAIMS: &str = "SELECT claims, before, days FROM forgets WHERE device_id = ? LIMIT 1";

/// Page size for rows with paths, which are large.
const DAY_PAGE: i32 = 64;

/// Page size of a lookup. If trips are disjoint, the first row decides.
pub(super) const LOOKUP_PAGE: i32 = 4;

/// The statements of a store.
pub(super) struct Statements<C: Cql> {
    /// The delete of the span and the insert of the row, in one partition.
    pub(super) put: C::Batch,
    /// An insert in a batch, like the rows: a server that checks the timestamps of single
    /// statements but not of batches would otherwise reject the index entry of a row that it
    /// accepts.
    pub(super) list_device: C::Batch,
    pub(super) list_day: C::Batch,
    pub(super) covering: C::Statement,
    pub(super) before: C::Statement,
    pub(super) of_day: C::Statement,
    pub(super) all_rows: C::Statement,
    pub(super) remove: C::Statement,
    pub(super) ends_of_day: C::Statement,
    pub(super) days: C::Statement,
    pub(super) days_desc: C::Statement,
    pub(super) devices: C::Statement,
    pub(super) devices_of_day: C::Statement,
    pub(super) device_of_day: C::Statement,
    pub(super) forgets: C::Statement,
    pub(super) erased: C::Statement,
    pub(super) recorded_days: C::Statement,
    pub(super) add_forget: C::Statement,
    pub(super) erase: C::Statement,
    pub(super) unlist_device: C::Statement,
    pub(super) unlist_day: C::Statement,
    pub(super) add_epoch: C::Statement,
    pub(super) epochs: C::Statement,
    pub(super) add_control_key: C::Statement,
    pub(super) control_keys: C::Statement,
    pub(super) add_schema: C::Statement,
    pub(super) schema_subjects: C::Statement,
    pub(super) schema_in: C::Statement,
    pub(super) claim: C::Statement,
    pub(super) claim_of: C::Statement,
    pub(super) claims_of: C::Statement,
    pub(super) moved_claims: C::Statement,
    pub(super) move_claim: C::Statement,
    pub(super) unclaim: C::Statement,
    pub(super) positions: PositionStatements<C>,
    pub(super) group: GroupStatements<C>,
    pub(super) tags: TagStatements<C>,
}

impl<C: Cql> Statements<C> {
    pub(super) async fn prepare(cql: &C, consistency: Consistency) -> Result<Self, Failure> {
        let paged = |text, rows| cql.prepare(text, Mode::Paged(rows));
        let list = |text| cql.prepare(text, Mode::Listed);
        let insert_once = |text| cql.prepare(text, Mode::Conditional);
        let serial = |text| cql.prepare(text, Mode::Serial(consistency));
        let move_claim = "UPDATE forgets USING TIMESTAMP ? SET claims[?] = ? WHERE device_id = ?";
        let unclaim = "DELETE FROM claims WHERE device_id = ? AND epoch = ? IF EXISTS";
        let list_device = "INSERT INTO device_days (bucket, shard, device_id) VALUES (?, ?, ?)
             USING TIMESTAMP ?";
        let list_day = "INSERT INTO days_of_device (device_id, bucket) VALUES (?, ?)
             USING TIMESTAMP ?";
        let days = "SELECT bucket FROM days_of_device WHERE device_id = ?
             AND bucket >= ? AND bucket <= ? ORDER BY bucket ASC LIMIT ?";
        let days_desc = "SELECT bucket FROM days_of_device WHERE device_id = ?
             AND bucket >= ? AND bucket <= ? ORDER BY bucket DESC LIMIT ?";
        let devices_of_day = "SELECT device_id FROM device_days WHERE bucket = ? AND shard = ?
             AND device_id > ? ORDER BY device_id ASC LIMIT ?";
        let device_of_day = "SELECT device_id FROM device_days
             WHERE bucket = ? AND shard = ? AND device_id = ?";
        let erase = "DELETE FROM trips USING TIMESTAMP ?
             WHERE device_id = ? AND bucket = ? AND end_time < ?";
        let remove = "DELETE FROM trips USING TIMESTAMP ?
             WHERE device_id = ? AND bucket = ? AND end_time = ? AND start_time = ?";
        let unlist_device = "DELETE FROM device_days USING TIMESTAMP ?
             WHERE bucket = ? AND shard = ? AND device_id = ?";
        let unlist_day = "DELETE FROM days_of_device USING TIMESTAMP ?
             WHERE device_id = ? AND bucket = ?";
        Ok(Self {
            put: cql.batch(vec![list(DELETE_SPAN).await?, list(INSERT_TRIP).await?]),
            list_device: cql.batch(vec![list(list_device).await?]),
            list_day: cql.batch(vec![list(list_day).await?]),
            covering: paged(OF_DAY, LOOKUP_PAGE).await?,
            before: paged(BEFORE, LOOKUP_PAGE).await?,
            of_day: paged(OF_DAY, DAY_PAGE).await?,
            all_rows: paged(EVERY, DAY_PAGE).await?,
            remove: list(remove).await?,
            ends_of_day: cql.prepare(ENDS_OF_DAY, Mode::OneReplica(consistency)).await?,
            days: list(days).await?,
            days_desc: list(days_desc).await?,
            devices: list("SELECT DISTINCT device_id FROM days_of_device").await?,
            devices_of_day: list(devices_of_day).await?,
            device_of_day: list(device_of_day).await?,
            forgets: list(FORGETS).await?,
            erased: list(ERASED).await?,
            recorded_days: list(RECORDED_DAYS).await?,
            add_forget: list(ADD_FORGET).await?,
            erase: list(erase).await?,
            unlist_device: list(unlist_device).await?,
            unlist_day: list(unlist_day).await?,
            add_epoch: insert_once(ADD_EPOCH).await?,
            epochs: serial(EPOCHS).await?,
            add_control_key: insert_once(ADD_CONTROL_KEY).await?,
            control_keys: serial(CONTROL_KEYS).await?,
            add_schema: insert_once(ADD_SCHEMA).await?,
            schema_subjects: serial(SCHEMA_SUBJECTS).await?,
            schema_in: serial("SELECT verdict FROM schemas WHERE epoch = ? AND slot = ?").await?,
            claim: insert_once(CLAIM).await?,
            claim_of: list(CLAIM_OF).await?,
            claims_of: serial(CLAIMS_OF).await?,
            moved_claims: list(MOVED_CLAIMS).await?,
            move_claim: list(move_claim).await?,
            unclaim: list(unclaim).await?,
            positions: PositionStatements::prepare(cql).await?,
            group: GroupStatements::prepare(cql, consistency).await?,
            tags: TagStatements::prepare(cql, consistency).await?,
        })
    }
}
