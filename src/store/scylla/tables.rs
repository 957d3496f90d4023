//! What a keyspace keeps next to its trips: mostly by conditional writes.

use std::collections::BTreeMap;

use scylla::value::{CqlTimestamp, CqlValue};

use super::cql::{Columns, Cql, Mode};
use super::requests::Failure;
use super::statements::statements;
use super::{Consistency, ScyllaStore, Shared};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, Version};
use crate::model::schema::{SchemaSubject, SchemaVerdict};
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::store::schemas::{KeptSchema, SLOTS_PER_READ};
use crate::store::{Forget, Result, SideTables, TripStore as _};
use crate::timeline::day_of;

const TAGS: &str = "SELECT t_star, key, value, written, revision FROM trip_tags
     WHERE device_id = ? AND t_star >= ? AND t_star <= ? ORDER BY t_star ASC, key ASC";

statements! {
    /// The statements of the tables next to the trips.
    SideStatements(consistency) {
        epochs: Mode::Serial(consistency) =>
            "SELECT epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id,
             keeps_positions
             FROM epochs WHERE log = 'log' ORDER BY epoch ASC",
        add_epoch: Mode::Conditional =>
            "INSERT INTO epochs
     (log, epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id,
              keeps_positions)
             VALUES ('log', ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
        control_keys: Mode::Serial(consistency) =>
            "SELECT name, fingerprint FROM control_keys
             WHERE log = 'log' ORDER BY name ASC",
        add_control_key: Mode::Conditional =>
            "INSERT INTO control_keys (log, name, fingerprint)
             VALUES ('log', ?, ?) IF NOT EXISTS",
        group: Mode::Serial(consistency) => "SELECT name FROM consumer_group WHERE log = 'log'",
        add_group: Mode::Conditional =>
            "INSERT INTO consumer_group (log, name) VALUES ('log', ?) IF NOT EXISTS",
        replace_group: Mode::Conditional =>
            "UPDATE consumer_group SET name = ? WHERE log = 'log' IF name = ?",
        schema_subjects: Mode::Serial(consistency) =>
            "SELECT id FROM schemas WHERE epoch = ? AND slot >= ?
             ORDER BY slot ASC LIMIT ?",
        schema_in: Mode::Serial(consistency) =>
            "SELECT verdict FROM schemas WHERE epoch = ? AND slot = ?",
        add_schema: Mode::Conditional =>
            "INSERT INTO schemas (epoch, slot, id, verdict) VALUES (?, ?, ?, ?)
             IF NOT EXISTS",
        tags: Mode::Listed => TAGS,
        tags_to_change: Mode::Serial(consistency) => TAGS,
        add_tag: Mode::Conditional =>
            "INSERT INTO trip_tags (device_id, t_star, key, value, written, revision)
             VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS",
        replace_tag: Mode::Conditional =>
            "UPDATE trip_tags SET value = ?, written = ?, revision = ?
             WHERE device_id = ? AND t_star = ? AND key = ? IF revision = ?",
        delete_tag: Mode::Conditional =>
            "DELETE FROM trip_tags
             WHERE device_id = ? AND t_star = ? AND key = ? IF revision = ?",
        any_tag: Mode::Listed => "SELECT device_id FROM trip_tags LIMIT 1",
        tagged_devices: Mode::Listed => "SELECT DISTINCT device_id FROM trip_tags",
    }
}

type EpochRow = (i32, String, i32, BTreeMap<i32, i64>, i64, String, String, Option<String>, bool);

fn read_epoch(row: EpochRow) -> Result<Epoch, Failure> {
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

/// A row of the table, without its device. Another program may have left columns out.
type TagRow = (CqlTimestamp, String, Option<String>, Option<CqlTimestamp>, Option<i64>);

/// `None` without a revision: the row is of another program, and no tag.
fn read_tag((t_star, key, value, written, revision): TagRow) -> Option<Tag> {
    Some(Tag {
        t_star_ms: DeviceTime(t_star.0),
        key: TagKey::from_store(key),
        value: TagValue::from_store(value.unwrap_or_default()),
        written_ms: written.map_or(0, |written| written.0),
        revision: Revision(revision?),
    })
}

/// Whether a conditional write was applied.
fn applied(answer: &Columns) -> bool {
    // The first column is `[applied]`; the columns of an existing row follow.
    let applied = answer.first().and_then(|(_, applied)| applied.as_ref());
    applied.and_then(CqlValue::as_boolean).unwrap_or(false)
}

/// The outcome of a conditional write of a tag.
enum Decision {
    /// It was applied.
    Applied,
    /// It was not: the row has this revision; `None` if there is no row.
    Other(Option<Revision>),
}

fn read_decision(answer: Columns) -> Decision {
    if applied(&answer) {
        return Decision::Applied;
    }
    let revision = answer.into_iter().find(|(name, _)| name == "revision");
    let revision = revision.and_then(|(_, value)| value.as_ref().and_then(CqlValue::as_bigint));
    Decision::Other(revision.map(Revision))
}

impl<C: Cql> Shared<C> {
    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
        let (key, revision) = (tag.key.as_str(), tag.revision.0);
        let values = (device_id, CqlTimestamp(tag.t_star_ms.ms()), key, revision);
        let statement = &self.statements.side.delete_tag;
        let (answer, _) = self.conditional("deleting a tag", statement, values).await?;
        // If there is none, an earlier attempt or another process deleted it.
        Ok(matches!(read_decision(answer), Decision::Applied | Decision::Other(None)))
    }
}

impl<C: Cql> ScyllaStore<C> {
    /// Erases the tags before the floor that no trip covers any more. Deletes are conditional, so
    /// they are ordered with the writes, which a delete at the version of the forget would not be:
    /// most tags are younger.
    pub(super) async fn erase_tags(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let upto_ms = forget.before_ms.saturating_sub(1);
        for tag in self.tags_to_change(device_id, DeviceTime::MIN, upto_ms).await? {
            let time_ms = tag.t_star_ms;
            // Whole rows: a read of some columns would have replicas repaired in these alone.
            let rows = self.rows_of_day(device_id, day_of(time_ms)).await?;
            if !rows.iter().any(|row| (row.start_ms..=row.end_ms).contains(&time_ms)) {
                // A write that comes first finds no trip afterwards, and deletes its tag itself.
                self.shared.delete_tag(device_id, &tag).await?;
            }
        }
        Ok(())
    }
}

impl<C: Cql> SideTables for ScyllaStore<C> {
    async fn epochs(&self) -> Result<Vec<Epoch>> {
        let select = &self.shared.statements.side.epochs;
        self.shared.at_once("reading the epochs", select, (), read_epoch).await
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool> {
        let (shared, insert) = (&self.shared, &self.shared.statements.side.add_epoch);
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

    async fn control_keys(&self) -> Result<Vec<NamedKey>> {
        let select = &self.shared.statements.side.control_keys;
        let named = |(name, fingerprint)| Ok(NamedKey { name, fingerprint });
        self.shared.at_once("reading the control keys", select, (), named).await
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool> {
        let (shared, insert) = (&self.shared, &self.shared.statements.side.add_control_key);
        let values = (&key.name, &key.fingerprint);
        let added = shared.conditional("adding a control key", insert, values).await?;
        let (answer, is_repeated) = added;
        // An earlier attempt without an answer may have added it.
        Ok(applied(&answer) || (is_repeated && self.control_keys().await?.contains(key)))
    }

    async fn group(&self) -> Result<Option<String>> {
        let select = &self.shared.statements.side.group;
        let name = |(name,): (String,)| Ok(name);
        let found = self.shared.at_once("reading the consumer group", select, (), name).await?;
        Ok(found.into_iter().next())
    }

    async fn keep_group(&self, former: Option<&str>, group: &str) -> Result<Option<String>> {
        let (shared, doing) = (&self.shared, "keeping the consumer group");
        let statements = &shared.statements.side;
        match former {
            None => shared.conditional(doing, &statements.add_group, (group,)).await?,
            Some(former) => {
                shared.conditional(doing, &statements.replace_group, (group, former)).await?
            }
        };
        // An attempt without an answer may have been applied: what is read afterwards counts.
        self.group().await
    }

    async fn schema_subjects(&self, epoch: i32, from: i32) -> Result<Vec<SchemaSubject>> {
        let select = &self.shared.statements.side.schema_subjects;
        let values = (epoch, from, SLOTS_PER_READ);
        let id = |(id,): (String,)| id.parse().map_err(|error| Failure::Permanent(Box::new(error)));
        self.shared.at_once("reading the ids of schemas", select, values, id).await
    }

    async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>> {
        let select = &self.shared.statements.side.schema_in;
        let verdict = |(verdict,): (String,)| Ok(serde_json::from_str(&verdict)?);
        let found = self.shared.at_once("reading a schema", select, (epoch, slot), verdict).await?;
        Ok(found.into_iter().next())
    }

    async fn add_schema(&self, schema: &KeptSchema) -> Result<()> {
        let insert = &self.shared.statements.side.add_schema;
        let verdict = serde_json::to_string(&schema.verdict).expect("a verdict is plain data");
        let values = (schema.epoch, schema.slot, schema.id.to_string(), verdict);
        self.shared.execute("keeping a schema", insert, values).await
    }

    async fn tags(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>> {
        let select = &self.shared.statements.side.tags;
        let values = (device_id, CqlTimestamp(from_ms.ms()), CqlTimestamp(upto_ms.ms()));
        let rows: Vec<TagRow> = self.shared.rows("reading tags", select, values).await?;
        Ok(rows.into_iter().filter_map(read_tag).collect())
    }

    async fn tags_to_change(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>> {
        let select = &self.shared.statements.side.tags_to_change;
        let values = (device_id, CqlTimestamp(from_ms.ms()), CqlTimestamp(upto_ms.ms()));
        let tag = |row| Ok(read_tag(row));
        let rows = self.shared.at_once("reading tags", select, values, tag).await?;
        Ok(rows.into_iter().flatten().collect())
    }

    async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool> {
        let (shared, doing) = (&self.shared, "writing a tag");
        let (t_star, written) = (CqlTimestamp(tag.t_star_ms.ms()), CqlTimestamp(tag.written_ms));
        let (key, value, revision) = (tag.key.as_str(), tag.value.as_str(), tag.revision.0);
        let (answer, may_have_been) = match replaced {
            None => {
                let values = (device_id, t_star, key, value, written, revision);
                shared.conditional(doing, &shared.statements.side.add_tag, values).await?
            }
            Some(replaced) => {
                let values = (value, written, revision, device_id, t_star, key, replaced.0);
                shared.conditional(doing, &shared.statements.side.replace_tag, values).await?
            }
        };
        Ok(match read_decision(answer) {
            Decision::Applied => true,
            Decision::Other(standing) => may_have_been && standing == Some(tag.revision),
        })
    }

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
        self.shared.delete_tag(device_id, tag).await
    }

    async fn has_tags(&self) -> Result<bool> {
        let select = &self.shared.statements.side.any_tag;
        let device = |(device,): (String,)| Ok(device);
        Ok(!self.shared.at_once("reading tags", select, (), device).await?.is_empty())
    }

    async fn tagged_devices(&self) -> Result<Vec<String>> {
        let select = &self.shared.statements.side.tagged_devices;
        let rows: Vec<(String,)> =
            self.shared.rows("reading the tagged devices", select, ()).await?;
        Ok(rows.into_iter().map(|(device,)| device).collect())
    }
}
