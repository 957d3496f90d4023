//! Notes of repairs in Scylla. Insert-only: a note of the beginning of each repair, and one of its
//! end.

use std::collections::BTreeSet;

use super::ScyllaStore;
use super::cql::Cql;
use crate::store::StoreError;
use crate::store::repairs::{MAX_DURATION_US, Repair, Repairs};

const READING: &str = "reading repairs";
const BEGAN: &str = "began";
const ENDED: &str = "ended";

impl<C: Cql> ScyllaStore<C> {
    async fn notes(&self) -> Result<Vec<(i64, String)>, StoreError> {
        self.shared.rows(READING, &self.shared.statements.repairs, ()).await
    }

    async fn add_note(&self, repair: i64, event: &str) -> Result<(), StoreError> {
        let statement = &self.shared.statements.add_repair;
        self.shared.execute("noting a repair", statement, (repair, event)).await
    }

    /// The repairs that are noted.
    pub(super) async fn repairs_noted(&self) -> Result<Repairs, StoreError> {
        let notes = self.notes().await?;
        let of = |event: &str| {
            let notes = notes.iter().filter(|(_, of)| of == event);
            notes.map(|(repair, _)| *repair).collect::<BTreeSet<i64>>()
        };
        let is_active = !of(BEGAN).is_subset(&of(ENDED));
        Ok(Repairs { count: notes.len(), is_active })
    }

    /// Notes that a repair begins.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn begin_repair(&self, repair: Repair) -> Result<(), StoreError> {
        self.add_note(repair.0, BEGAN).await
    }

    /// Notes that a repair has ended, and those that began a day before it: they crashed.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn end_repair(&self, repair: Repair) -> Result<(), StoreError> {
        self.add_note(repair.0, ENDED).await?;
        let crashed = self.notes().await?.into_iter().map(|(began, _)| began);
        for began in crashed.filter(|began| repair.0 - began > MAX_DURATION_US) {
            self.add_note(began, ENDED).await?;
        }
        Ok(())
    }
}
