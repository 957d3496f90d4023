//! Which partition a device belongs to, in Scylla: the other conditional insert. It is made once
//! for a device and an epoch, where the partition is not computed.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, Row};

use super::Shared;
use super::requests::Failure;
use crate::store::{Forget, StoreError};

/// A claim as an answer to the insert: the one that stands in its way, where one does.
async fn insert(
    session: &Session,
    statement: &PreparedStatement,
    (device_id, epoch, partition): (&str, i32, i32),
) -> Result<i32, Failure> {
    let answer = session.execute_unpaged(statement, (device_id, epoch, partition)).await?;
    let answer = answer.into_rows_result()?;
    // Where it was applied, one server tells no columns of the row, another one nulls.
    let at = answer.column_specs().get_by_name("partition").map(|(at, _)| at);
    let row = answer.rows::<Row>()?.next().transpose()?;
    let standing = row.zip(at).and_then(|(mut row, at)| row.columns[at].take());
    Ok(standing.and_then(|column| column.as_int()).unwrap_or(partition))
}

impl Shared {
    /// The claims that forgets erased, by epoch.
    async fn erased_claims(&self, device_id: &str) -> Result<BTreeMap<i32, i32>, StoreError> {
        let select = &self.statements.erased_claims;
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
        let standing = rows.into_iter().find_map(|(partition,)| partition);
        // Read after it: one that stands where another was erased came too late.
        Ok(self.erased_claims(device_id).await?.remove(&epoch).or(standing))
    }

    pub(super) async fn claim(
        &self,
        device_id: &str,
        epoch: i32,
        partition: i32,
    ) -> Result<i32, StoreError> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let statement = &self.statements.claim;
        // A try that had no answer may have claimed: the next one finds that in its way.
        let try_it = || insert(&self.session, statement, (device_id, epoch, partition));
        let standing = self.retry.until_acknowledged("claiming a partition", try_it).await?;
        Ok(self.erased_claims(device_id).await?.remove(&epoch).unwrap_or(standing))
    }

    /// Moves the claims of a device to its forgets, where no day of it is left: first the copy, so
    /// that whoever misses the claim finds that.
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
        // Read after them: one that stands where another was erased came too late, and decides
        // nothing.
        let erased = self.erased_claims(device_id).await?;
        for (epoch, partition) in claims {
            let Some(partition) = erased.get(&epoch).copied().or(partition) else { continue };
            let keep = (forget.version, epoch, partition, device_id);
            self.execute("erasing a claim", &statements.keep_claim, keep).await?;
            self.execute("erasing a claim", &statements.unclaim, (device_id, epoch)).await?;
        }
        Ok(())
    }
}
