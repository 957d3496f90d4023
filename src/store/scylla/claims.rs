//! Partition claims of devices in Scylla, by a conditional insert. A device is claimed once per
//! epoch, and only if its partition is not computed.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, Row};

use super::Shared;
use super::requests::Failure;
use crate::store::{Forget, StoreError};

/// Inserts a claim unless one exists; returns the partition of the existing or the new claim.
async fn insert(
    session: &Session,
    statement: &PreparedStatement,
    (device_id, epoch, partition): (&str, i32, i32),
) -> Result<i32, Failure> {
    let answer = session.execute_unpaged(statement, (device_id, epoch, partition)).await?;
    let answer = answer.into_rows_result()?;
    // If the insert was applied, Scylla returns the columns as nulls and Cassandra returns none.
    let at = answer.column_specs().get_by_name("partition").map(|(at, _)| at);
    let row = answer.rows::<Row>()?.next().transpose()?;
    let existing = row.zip(at).and_then(|(mut row, at)| row.columns[at].take());
    Ok(existing.and_then(|column| column.as_int()).unwrap_or(partition))
}

impl Shared {
    /// Claims that forgets have moved to their records, by epoch.
    async fn moved_claims(&self, device_id: &str) -> Result<BTreeMap<i32, i32>, StoreError> {
        let select = &self.statements.moved_claims;
        let rows: Vec<(Option<BTreeMap<i32, i32>>,)> =
            self.rows("reading a claim", select, (device_id,)).await?;
        Ok(rows.into_iter().filter_map(|(claims,)| claims).flatten().collect())
    }

    pub(super) async fn claimed(
        &self,
        device_id: &str,
        epoch: i32,
    ) -> Result<Option<i32>, StoreError> {
        let select = &self.statements.claim_of;
        let rows: Vec<(Option<i32>,)> =
            self.rows("reading a claim", select, (device_id, epoch)).await?;
        let existing = rows.into_iter().find_map(|(partition,)| partition);
        // Read afterwards: a moved claim is older than a claim that still exists, so it wins.
        Ok(self.moved_claims(device_id).await?.remove(&epoch).or(existing))
    }

    pub(super) async fn claim(
        &self,
        device_id: &str,
        epoch: i32,
        partition: i32,
    ) -> Result<i32, StoreError> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let statement = &self.statements.claim;
        // An attempt without an answer may have been applied; the next one then finds its claim.
        let insert_once = || insert(&self.session, statement, (device_id, epoch, partition));
        let existing = self.retry.until_acknowledged("claiming a partition", insert_once).await?;
        Ok(self.moved_claims(device_id).await?.remove(&epoch).unwrap_or(existing))
    }

    /// Moves the claims of a device to its forgets if the device has no day left. Copies before it
    /// deletes, so that a reader finds at least one of the two.
    pub(super) async fn erase_claims(
        &self,
        device_id: &str,
        forget: &Forget,
    ) -> Result<(), StoreError> {
        let statements = &self.statements;
        let bounds = (device_id, CqlTimestamp(i64::MIN), CqlTimestamp(i64::MAX), 1);
        let left: Vec<(CqlTimestamp,)> =
            self.rows("reading the days of a device", &statements.days, bounds).await?;
        if !left.is_empty() {
            return Ok(());
        }
        let claims: Vec<(i32, Option<i32>)> =
            self.rows("reading a claim", &statements.claims_of, (device_id,)).await?;
        // Read afterwards: a moved claim is older than a claim that still exists, so it wins.
        let moved = self.moved_claims(device_id).await?;
        for (epoch, partition) in claims {
            let Some(partition) = moved.get(&epoch).copied().or(partition) else { continue };
            let values = (forget.version, epoch, partition, device_id);
            self.execute("moving a claim", &statements.move_claim, values).await?;
            self.execute("deleting a claim", &statements.unclaim, (device_id, epoch)).await?;
        }
        Ok(())
    }
}
