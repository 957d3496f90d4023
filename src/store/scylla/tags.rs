//! Tags in Scylla, by conditional writes.

use std::sync::atomic::{AtomicU32, Ordering};

use scylla::serialize::row::SerializeRow;
use scylla::value::{CqlTimestamp, CqlValue};

use super::cql::{Columns, Cql, Mode};
use super::epochs::applied;
use super::requests::Failure;
use super::{Consistency, ScyllaStore, Shared};
use crate::model::scalar::DeviceTime;
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::store::tags::TagStore;
use crate::store::{Forget, StoreError, TripStore as _};
use crate::timeline::day_of;

const ADD_TAG: &str = "INSERT INTO trip_tags (device_id, t_star, key, value, written, revision)
     VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS";

const REPLACE_TAG: &str = "UPDATE trip_tags SET value = ?, written = ?, revision = ?
     WHERE device_id = ? AND t_star = ? AND key = ? IF revision = ?";

const DELETE_TAG: &str = "DELETE FROM trip_tags
     WHERE device_id = ? AND t_star = ? AND key = ? IF revision = ?";

const TAGS: &str = "SELECT t_star, key, value, written, revision FROM trip_tags
     WHERE device_id = ? AND t_star >= ? AND t_star <= ? ORDER BY t_star ASC, key ASC";

/// The statements of the table.
pub(super) struct TagStatements<C: Cql> {
    add: C::Statement,
    replace: C::Statement,
    delete: C::Statement,
    of_span: C::Statement,
    /// The same for a writer.
    to_change: C::Statement,
    any: C::Statement,
    devices: C::Statement,
}

impl<C: Cql> TagStatements<C> {
    pub(super) async fn prepare(cql: &C, consistency: Consistency) -> Result<Self, Failure> {
        let list = |text| cql.prepare(text, Mode::Listed);
        let decide = |text| cql.prepare(text, Mode::Conditional);
        Ok(Self {
            add: decide(ADD_TAG).await?,
            replace: decide(REPLACE_TAG).await?,
            delete: decide(DELETE_TAG).await?,
            of_span: list(TAGS).await?,
            to_change: cql.prepare(TAGS, Mode::Serial(consistency)).await?,
            any: list("SELECT device_id FROM trip_tags LIMIT 1").await?,
            devices: list("SELECT DISTINCT device_id FROM trip_tags").await?,
        })
    }
}

/// A row of the table, without its device. Another program may have left columns out.
type TagRow = (CqlTimestamp, String, Option<String>, Option<CqlTimestamp>, Option<i64>);

/// `None` without a revision: the row is of another program, and no tag.
fn read((t_star, key, value, written, revision): TagRow) -> Option<Tag> {
    Some(Tag {
        t_star_ms: DeviceTime(t_star.0),
        key: TagKey::from_store(key),
        value: TagValue::from_store(value.unwrap_or_default()),
        written_ms: written.map_or(0, |written| written.0),
        revision: Revision(revision?),
    })
}

/// The outcome of a conditional write.
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
    /// Executes a conditional write until it is acknowledged. Returns the outcome of the last
    /// attempt, and whether an earlier one without an answer may have been applied.
    async fn decide(
        &self,
        doing: &'static str,
        statement: &C::Statement,
        values: impl SerializeRow + Sync,
    ) -> Result<(Decision, bool), StoreError> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let attempts = AtomicU32::new(0);
        let write = || async {
            attempts.fetch_add(1, Ordering::Relaxed);
            Ok(read_decision(self.session.execute_conditional(statement, &values).await?))
        };
        let found = self.retry.until_acknowledged(doing, write).await?;
        Ok((found, attempts.load(Ordering::Relaxed) > 1))
    }

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool, StoreError> {
        let (key, revision) = (tag.key.as_str(), tag.revision.0);
        let values = (device_id, CqlTimestamp(tag.t_star_ms.ms()), key, revision);
        let statement = &self.statements.tags.delete;
        let (found, _) = self.decide("deleting a tag", statement, values).await?;
        // If there is none, an earlier attempt or another process deleted it.
        Ok(matches!(found, Decision::Applied | Decision::Other(None)))
    }

    async fn tags_to_change(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>, StoreError> {
        let statement = &self.statements.tags.to_change;
        let values = (device_id, CqlTimestamp(from_ms.ms()), CqlTimestamp(upto_ms.ms()));
        let select = || self.session.unpaged(statement, &values);
        let rows: Vec<TagRow> = self.retry.until_acknowledged("reading tags", select).await?;
        Ok(rows.into_iter().filter_map(read).collect())
    }
}

impl<C: Cql> ScyllaStore<C> {
    /// Erases the tags before the floor that no trip covers any more. Deletes are conditional, so
    /// they are ordered with the writes, which a delete at the version of the forget would not be:
    /// most tags are younger.
    pub(super) async fn erase_tags(
        &self,
        device_id: &str,
        forget: &Forget,
    ) -> Result<(), StoreError> {
        let (shared, upto_ms) = (&self.shared, forget.before_ms.saturating_sub(1));
        for tag in shared.tags_to_change(device_id, DeviceTime::MIN, upto_ms).await? {
            let time_ms = tag.t_star_ms;
            // Whole rows: a read of some columns would have replicas repaired in these alone.
            let rows = self.rows_of_day(device_id, day_of(time_ms)).await?;
            if !rows.iter().any(|row| (row.start_ms..=row.end_ms).contains(&time_ms)) {
                // A write that comes first finds no trip afterwards, and deletes its tag itself.
                shared.delete_tag(device_id, &tag).await?;
            }
        }
        Ok(())
    }
}

impl<C: Cql> TagStore for ScyllaStore<C> {
    async fn tags(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>, StoreError> {
        let (shared, doing) = (&self.shared, "reading tags");
        let values = (device_id, CqlTimestamp(from_ms.ms()), CqlTimestamp(upto_ms.ms()));
        let rows: Vec<TagRow> = shared.rows(doing, &shared.statements.tags.of_span, values).await?;
        Ok(rows.into_iter().filter_map(read).collect())
    }

    async fn tags_to_change(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>, StoreError> {
        self.shared.tags_to_change(device_id, from_ms, upto_ms).await
    }

    async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool, StoreError> {
        let (shared, doing) = (&self.shared, "writing a tag");
        let (t_star, written) = (CqlTimestamp(tag.t_star_ms.ms()), CqlTimestamp(tag.written_ms));
        let (key, value, revision) = (tag.key.as_str(), tag.value.as_str(), tag.revision.0);
        let (found, may_have_been) = match replaced {
            None => {
                let values = (device_id, t_star, key, value, written, revision);
                shared.decide(doing, &shared.statements.tags.add, values).await?
            }
            Some(replaced) => {
                let values = (value, written, revision, device_id, t_star, key, replaced.0);
                shared.decide(doing, &shared.statements.tags.replace, values).await?
            }
        };
        Ok(match found {
            Decision::Applied => true,
            Decision::Other(standing) => may_have_been && standing == Some(tag.revision),
        })
    }

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool, StoreError> {
        self.shared.delete_tag(device_id, tag).await
    }

    async fn has_tags(&self) -> Result<bool, StoreError> {
        let (shared, statement) = (&self.shared, &self.shared.statements.tags.any);
        let select = || shared.session.unpaged(statement, &());
        let found: Vec<(String,)> = shared.retry.until_acknowledged("reading tags", select).await?;
        Ok(!found.is_empty())
    }

    async fn tagged_devices(&self) -> Result<Vec<String>, StoreError> {
        let select = &self.shared.statements.tags.devices;
        let rows: Vec<(String,)> =
            self.shared.rows("reading the tagged devices", select, ()).await?;
        Ok(rows.into_iter().map(|(device,)| device).collect())
    }
}
