//! Partition claims of devices in Scylla, by a conditional insert. A device is claimed once per
//! epoch, and only if its partition is not computed.

use std::collections::BTreeMap;

use scylla::value::{CqlTimestamp, CqlValue};

use super::Shared;
use super::cql::{Columns, Cql};
use super::forgets::Days;
use crate::store::{Forget, Result};

/// The partition of the claim that existed before a conditional insert. If there was none, Scylla
/// returns the columns as nulls and Cassandra returns none.
fn existing_claim(answer: Columns) -> Option<i32> {
    let mut columns = answer.into_iter();
    let (_, partition) = columns.find(|(name, _)| name == "partition")?;
    partition.as_ref().and_then(CqlValue::as_int)
}

impl<C: Cql> Shared<C> {
    /// Claims that forgets have moved to their records, by epoch.
    async fn moved_claims(&self, device_id: &str) -> Result<BTreeMap<i32, i32>> {
        let select = &self.statements.trips.moved_claims;
        let rows = self.rows("reading a claim", select, (device_id,)).await?;
        let claims =
            |(claims, ..): (Option<BTreeMap<i32, i32>>, Option<CqlTimestamp>, Days)| claims;
        Ok(rows.into_iter().filter_map(claims).flatten().collect())
    }

    pub(super) async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        let select = &self.statements.trips.claim_of;
        let rows: Vec<(Option<i32>,)> =
            self.rows("reading a claim", select, (device_id, epoch)).await?;
        let existing = rows.into_iter().find_map(|(partition,)| partition);
        // Read afterwards: a moved claim is older than a claim that still exists, so it wins.
        Ok(self.moved_claims(device_id).await?.remove(&epoch).or(existing))
    }

    pub(super) async fn claim(&self, device_id: &str, epoch: i32, partition: i32) -> Result<i32> {
        let (insert, values) = (&self.statements.trips.claim, (device_id, epoch, partition));
        // An attempt without an answer may have been applied; the next one then finds its claim.
        let (answer, _) = self.conditional("claiming a partition", insert, values).await?;
        let existing = existing_claim(answer).unwrap_or(partition);
        Ok(self.moved_claims(device_id).await?.remove(&epoch).unwrap_or(existing))
    }

    /// Moves the claims of a device to its forgets if the device has no day left. Copies before it
    /// deletes, so that a reader finds at least one of the two.
    pub(super) async fn erase_claims(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let statements = &self.statements.trips;
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
            let values = (forget.version.0, epoch, partition, device_id);
            self.execute("moving a claim", &statements.move_claim, values).await?;
            self.execute("deleting a claim", &statements.unclaim, (device_id, epoch)).await?;
        }
        Ok(())
    }
}
