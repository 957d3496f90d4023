//! Verdicts on schemas in SQLite.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteStore, failed};
use crate::model::schema::{SchemaSubject, SchemaVerdict};
use crate::store::StoreError;
use crate::store::schemas::{KeptSchema, SLOTS_PER_READ, SchemaStore};

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into())
}

impl SchemaStore for SqliteStore {
    async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>, StoreError> {
        let select = |connection: &Connection| {
            let select = "SELECT id FROM schemas WHERE epoch = ?1 AND slot >= ?2
                 ORDER BY slot ASC LIMIT ?3";
            let mut statement = connection.prepare_cached(select)?;
            let ids = statement.query_map([epoch, from, SLOTS_PER_READ], |row| {
                row.get::<_, String>(0)?.parse::<SchemaSubject>().map_err(malformed)
            })?;
            ids.collect::<rusqlite::Result<Vec<_>>>()
        };
        select(&self.connection()).map_err(failed(&self.location, "reading the ids of schemas"))
    }

    async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>, StoreError> {
        let select = "SELECT verdict FROM schemas WHERE epoch = ?1 AND slot = ?2";
        let found = self.connection().query_row(select, [epoch, slot], |row| {
            serde_json::from_str(&row.get::<_, String>(0)?).map_err(malformed)
        });
        found.optional().map_err(failed(&self.location, "reading a schema"))
    }

    async fn add_schema(&self, schema: &KeptSchema) -> Result<(), StoreError> {
        let insert = "INSERT OR IGNORE INTO schemas (epoch, slot, id, verdict)
             VALUES (?1, ?2, ?3, ?4)";
        let verdict = serde_json::to_string(&schema.verdict).expect("a verdict is plain data");
        let values = params![schema.epoch, schema.slot, schema.id.to_string(), verdict];
        let added = self.connection().execute(insert, values);
        added.map(drop).map_err(failed(&self.location, "keeping a schema"))
    }
}
