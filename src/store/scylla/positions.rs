//! Positions of partitions in Scylla, with the rows.

use std::collections::BTreeMap;

use super::ScyllaStore;
use super::cql::{Cql, Mode};
use super::requests::Failure;
use super::statements::ALL_FORGETS;
use crate::model::epoch::Epoch;
use crate::model::scalar::{Offset, Version};
use crate::store::{KeptPositions, PositionStore, StoreError};

const KEEP: &str = "INSERT INTO positions (epoch, generation, partition, next_offset)
     VALUES (?, ?, ?, ?) USING TIMESTAMP ?";

const ALL: &str = "SELECT generation, partition, next_offset FROM positions WHERE epoch = ?
     ORDER BY generation ASC, partition ASC";

/// The prepared statements about positions.
pub(super) struct PositionStatements<C: Cql> {
    keep: C::Statement,
    all: C::Statement,
    /// Forgets of all devices, from all replicas.
    forgets: C::Statement,
}

impl<C: Cql> PositionStatements<C> {
    pub(super) async fn prepare(cql: &C) -> Result<Self, Failure> {
        let prepare = |text| cql.prepare(text, Mode::Listed);
        let forgets = cql.prepare(ALL_FORGETS, Mode::EveryReplica).await?;
        Ok(Self { keep: prepare(KEEP).await?, all: prepare(ALL).await?, forgets })
    }
}

impl<C: Cql> PositionStore for ScyllaStore<C> {
    async fn positions(&self, epoch: i32) -> Result<KeptPositions, StoreError> {
        let statement = &self.shared.statements.positions.all;
        let rows: Vec<(i32, i32, i64)> =
            self.shared.rows("reading the positions", statement, (epoch,)).await?;
        let Some(&(generation, ..)) = rows.last() else { return Ok(KeptPositions::default()) };
        let newest = rows.into_iter().filter(|(of, ..)| *of == generation);
        let next_offsets = newest.map(|(_, partition, next)| (partition, next)).collect();
        Ok(KeptPositions { generation, next_offsets })
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        (partition, next): (i32, Offset),
    ) -> Result<(), StoreError> {
        let values = (epoch.epoch, generation, partition, next.get(), epoch.version_at(next).0);
        let statement = &self.shared.statements.positions.keep;
        self.shared.execute("keeping a position", statement, values).await
    }

    async fn erased_since(&self, first: Version) -> Result<BTreeMap<String, Version>, StoreError> {
        let mut devices = BTreeMap::new();
        let add = |device: String, version: Option<Version>| {
            if let Some(version) = version.filter(|version| *version >= first) {
                let last = devices.entry(device).or_insert(version);
                *last = version.max(*last);
            }
            true
        };
        // One that was being written is on less than a quorum, and counts once a read finds it.
        self.shared.visit_forgets(&self.shared.statements.positions.forgets, add).await?;
        Ok(devices)
    }
}
