//! Verdicts on schemas in Scylla, added by a conditional insert.

use super::ScyllaStore;
use super::cql::Cql;
use super::requests::Failure;
use crate::model::schema::{SchemaSubject, SchemaVerdict};
use crate::store::StoreError;
use crate::store::schemas::{KeptSchema, SLOTS_PER_READ, SchemaStore};

impl<C: Cql> SchemaStore for ScyllaStore<C> {
    async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>, StoreError> {
        let shared = &self.shared;
        let values = (epoch, from, SLOTS_PER_READ);
        let select = || async {
            let statement = &shared.statements.schema_subjects;
            let found = shared.session.unpaged(statement, &values).await?;
            let id =
                |(id,): (String,)| id.parse().map_err(|error| Failure::Permanent(Box::new(error)));
            found.into_iter().map(id).collect()
        };
        shared.retry.until_acknowledged("reading the ids of schemas", select).await
    }

    async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>, StoreError> {
        let shared = &self.shared;
        let select = || async {
            let statement = &shared.statements.schema_in;
            let found: Vec<(String,)> = shared.session.unpaged(statement, &(epoch, slot)).await?;
            let first = found.first();
            Ok(first.map(|(verdict,)| serde_json::from_str(verdict)).transpose()?)
        };
        shared.retry.until_acknowledged("reading a schema", select).await
    }

    async fn add_schema(&self, schema: &KeptSchema) -> Result<(), StoreError> {
        let shared = &self.shared;
        let verdict = serde_json::to_string(&schema.verdict).expect("a verdict is plain data");
        let values = (schema.epoch, schema.slot, schema.id.to_string(), verdict);
        let insert = || shared.session.execute(&shared.statements.add_schema, &values);
        shared.retry.until_acknowledged("keeping a schema", insert).await
    }
}
