//! Epochs in Scylla, added by a conditional insert.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use scylla::value::CqlValue;

use super::ScyllaStore;
use super::cql::{self, Cql};
use super::requests::Failure;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::Version;
use crate::store::{EpochStore, StoreError};

type Columns = (i32, String, i32, BTreeMap<i32, i64>, i64, String, String, Option<String>, bool);

fn read(columns: Columns) -> Result<Epoch, Failure> {
    let (epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id, keeps) =
        columns;
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

/// Whether a conditional insert was applied.
pub(super) fn applied(answer: &cql::Columns) -> bool {
    // The first column is `[applied]`; the columns of an existing row follow.
    let applied = answer.first().and_then(|(_, applied)| applied.as_ref());
    applied.and_then(CqlValue::as_boolean).unwrap_or(false)
}

impl<C: Cql> EpochStore for ScyllaStore<C> {
    async fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        let shared = &self.shared;
        let select = || async {
            let found = shared.session.unpaged(&shared.statements.epochs, &()).await?;
            found.into_iter().map(read).collect()
        };
        shared.retry.until_acknowledged("reading the epochs", select).await
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool, StoreError> {
        let (shared, attempts) = (&self.shared, AtomicU32::new(0));
        let (number, topic, base) = (epoch.epoch, &epoch.topic, epoch.base.0);
        let rules = epoch.rules.to_json();
        let partitioner = epoch.partitioner.name();
        let starts = &epoch.start_offsets;
        let (id, keeps) = (epoch.topic_id.as_deref(), epoch.keeps_positions);
        let values =
            (number, topic, epoch.partitions, starts, base, &rules, partitioner, id, keeps);
        let insert = || async {
            attempts.fetch_add(1, Ordering::Relaxed);
            let statement = &shared.statements.add_epoch;
            Ok(applied(&shared.session.execute_conditional(statement, &values).await?))
        };
        let added = shared.retry.until_acknowledged("adding an epoch", insert).await?;
        if added || attempts.load(Ordering::Relaxed) == 1 {
            return Ok(added);
        }
        // An earlier attempt without an answer may have added it.
        Ok(self.epochs().await?.contains(epoch))
    }
}
