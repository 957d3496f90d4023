//! The epochs of a topic.

use std::collections::BTreeMap;

use rusqlite::{Row, params};

use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::Version;
use crate::store::Result;
#[cfg(feature = "internals")]
use crate::store::memory::{MemoryStore, add};
use crate::store::scylla::cql::{Cql, Mode, applied};
use crate::store::scylla::{Failure, ScyllaStore, statements};
use crate::store::sqlite::{SqliteStore, malformed};

statements! { Statements, consistency =>
    all: Mode::Serial(consistency) =>
        "SELECT epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id,
             keeps_positions
             FROM epochs WHERE log = 'log' ORDER BY epoch ASC",
    add: Mode::Conditional =>
        "INSERT INTO epochs
     (log, epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id,
              keeps_positions)
             VALUES ('log', ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
}

type EpochRow = (i32, String, i32, BTreeMap<i32, i64>, i64, String, String, Option<String>, bool);

fn read_cql(row: EpochRow) -> Result<Epoch, Failure> {
    let (epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id, keeps) = row;
    let rules = Rules::from_json(&rules).map_err(|error| Failure::Permanent(error.into()))?;
    let partitioner =
        Partitioner::from_column(&partitioner).map_err(|error| Failure::Permanent(error.into()))?;
    Ok(Epoch {
        epoch,
        topic,
        partitions,
        start_offsets,
        base: Version(base),
        rules,
        partitioner,
        topic_id,
        keeps_positions: keeps,
    })
}

impl<C: Cql> ScyllaStore<C> {
    pub(super) async fn epochs(&self) -> Result<Vec<Epoch>> {
        let select = &self.shared.statements.side.epochs.all;
        self.shared.at_once("reading the epochs", select, (), read_cql).await
    }

    pub(super) async fn add_epoch(&self, epoch: &Epoch) -> Result<bool> {
        let (shared, insert) = (&self.shared, &self.shared.statements.side.epochs.add);
        let (number, topic, base) = (epoch.epoch, &epoch.topic, epoch.base.0);
        let (rules, partitioner) = (epoch.rules.to_json(), epoch.partitioner.name());
        let starts = &epoch.start_offsets;
        let (id, keeps) = (epoch.topic_id.as_deref(), epoch.keeps_positions);
        let values =
            (number, topic, epoch.partitions, starts, base, &rules, partitioner, id, keeps);
        let (answer, is_repeated) = shared.conditional("adding an epoch", insert, values).await?;
        // An earlier attempt without an answer may have added it.
        Ok(applied(&answer) || (is_repeated && self.epochs().await?.contains(epoch)))
    }
}

fn read_sql(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    let json = |column: &str| row.get::<_, String>(column);
    Ok(Epoch {
        epoch: row.get("epoch")?,
        topic: row.get("topic")?,
        partitions: row.get("partitions")?,
        start_offsets: serde_json::from_str(&json("start_offsets")?).map_err(malformed)?,
        base: Version(row.get("base")?),
        rules: Rules::from_json(&json("rules")?).map_err(malformed)?,
        partitioner: Partitioner::from_column(&json("partitioner")?).map_err(malformed)?,
        topic_id: row.get("topic_id")?,
        // They are in the same file.
        keeps_positions: true,
    })
}

impl SqliteStore {
    pub(super) async fn epochs(&self) -> Result<Vec<Epoch>> {
        let select = "SELECT * FROM epochs ORDER BY epoch ASC";
        self.select("reading the epochs", select, [], read_sql)
    }

    pub(super) async fn add_epoch(&self, epoch: &Epoch) -> Result<bool> {
        let insert = "INSERT OR IGNORE INTO epochs
             (epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let start_offsets = serde_json::to_string(&epoch.start_offsets).expect("a map of numbers");
        let values = params![
            epoch.epoch,
            epoch.topic,
            epoch.partitions,
            start_offsets,
            epoch.base.0,
            epoch.rules.to_json(),
            epoch.partitioner.name(),
            epoch.topic_id
        ];
        Ok(self.execute("adding an epoch", insert, values)? == 1)
    }
}

#[cfg(feature = "internals")]
impl MemoryStore {
    pub(super) async fn epochs(&self) -> Result<Vec<Epoch>> {
        Ok(self.state().epochs.values().cloned().collect())
    }

    pub(super) async fn add_epoch(&self, epoch: &Epoch) -> Result<bool> {
        Ok(add(&mut self.state().epochs, epoch.epoch, epoch))
    }
}
