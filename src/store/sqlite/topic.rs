//! Stores of a topic: its epochs, control keys, the position of each partition, and its reader.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteStore, failed};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::{Offset, Version};
use crate::store::{
    EpochStore, GroupStore, KeptPositions, KeyStore, Position, PositionStore, StoreError,
};

/// Sets the next offset of a partition in the caller's transaction. A replay from an older offset
/// does not lower it.
pub(super) fn raise_position(
    connection: &Connection,
    partition: i32,
    position: Position,
) -> rusqlite::Result<()> {
    let put = "INSERT INTO positions (partition, next_offset) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset)";
    connection.prepare_cached(put)?.execute(params![partition, position.delivered.0]).map(drop)
}

impl SqliteStore {
    /// The next offset of a partition; `None` if it was never read.
    ///
    /// # Errors
    /// The database fails.
    pub fn position_of(&self, partition: i32) -> Result<Option<i64>, StoreError> {
        let select = "SELECT next_offset FROM positions WHERE partition = ?1";
        let found = self.connection().query_row(select, [partition], |row| row.get(0));
        found.optional().map_err(failed(&self.location, "reading a position"))
    }

    /// Sets the next offset of a partition before it is read.
    ///
    /// # Errors
    /// The database fails.
    pub fn set_position(&self, partition: i32, next_offset: i64) -> Result<(), StoreError> {
        let replace = "INSERT OR REPLACE INTO positions (partition, next_offset) VALUES (?1, ?2)";
        let set = self.connection().execute(replace, params![partition, next_offset]);
        set.map(drop).map_err(failed(&self.location, "setting a position"))
    }
}

fn read_epoch(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    let json = |column: &str| row.get::<_, String>(column);
    let malformed = |error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    };
    Ok(Epoch {
        epoch: row.get("epoch")?,
        topic: row.get("topic")?,
        partitions: row.get("partitions")?,
        start_offsets: serde_json::from_str(&json("start_offsets")?).map_err(malformed)?,
        base: Version(row.get("base")?),
        rules: Rules::from_json(&json("rules")?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
        })?,
        partitioner: Partitioner::from_column(&json("partitioner")?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
        })?,
        topic_id: row.get("topic_id")?,
        // They are in the same file.
        keeps_positions: true,
    })
}

impl EpochStore for SqliteStore {
    async fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        let select = |connection: &Connection| {
            let mut statement =
                connection.prepare_cached("SELECT * FROM epochs ORDER BY epoch ASC")?;
            statement.query_map([], read_epoch)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        select(&self.connection()).map_err(failed(&self.location, "reading the epochs"))
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool, StoreError> {
        let insert = "INSERT OR IGNORE INTO epochs
             (epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let start_offsets = serde_json::to_string(&epoch.start_offsets).expect("a map of numbers");
        let added = self.connection().execute(
            insert,
            params![
                epoch.epoch,
                epoch.topic,
                epoch.partitions,
                start_offsets,
                epoch.base.0,
                epoch.rules.to_json(),
                epoch.partitioner.name(),
                epoch.topic_id
            ],
        );
        added.map(|rows| rows == 1).map_err(failed(&self.location, "adding an epoch"))
    }
}

impl PositionStore for SqliteStore {
    async fn positions(&self, _epoch: i32) -> Result<KeptPositions, StoreError> {
        Ok(KeptPositions { generation: 0, next_offsets: self.all_positions()? })
    }

    async fn keep_position(
        &self,
        _epoch: &Epoch,
        _generation: i32,
        (partition, next): (i32, Offset),
    ) -> Result<(), StoreError> {
        self.set_position(partition, next.get())
    }
}

impl GroupStore for SqliteStore {
    async fn group(&self) -> Result<Option<String>, StoreError> {
        let select = "SELECT consumer_group FROM log";
        let found = self.connection().query_row(select, [], |row| row.get(0)).optional();
        found.map(Option::flatten).map_err(failed(&self.location, "reading the consumer group"))
    }

    async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>, StoreError> {
        let update = "UPDATE log SET consumer_group = ?1 WHERE consumer_group IS ?2";
        let kept = self.connection().execute(update, params![group, former]).map(drop);
        kept.map_err(failed(&self.location, "keeping the consumer group"))?;
        self.group().await
    }
}

impl KeyStore for SqliteStore {
    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        let select = |connection: &Connection| {
            let select = "SELECT name, fingerprint FROM control_keys ORDER BY name ASC";
            let mut statement = connection.prepare_cached(select)?;
            let named = |row: &Row<'_>| {
                Ok(NamedKey { name: row.get("name")?, fingerprint: row.get("fingerprint")? })
            };
            statement.query_map([], named)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        select(&self.connection()).map_err(failed(&self.location, "reading the control keys"))
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        let insert = "INSERT OR IGNORE INTO control_keys (name, fingerprint) VALUES (?1, ?2)";
        let added = self.connection().execute(insert, params![key.name, key.fingerprint]);
        added.map(|rows| rows == 1).map_err(failed(&self.location, "adding a control key"))
    }
}
