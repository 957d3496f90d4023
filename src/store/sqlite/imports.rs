//! Imports of files into a store.

use rusqlite::{Connection, params};

use super::{SqliteStore, letters};
use crate::model::rules::Rules;
use crate::store::Result;

/// Removes what imports left of which no sample was applied, and records the rules of the next.
/// Returns the number of dead letters removed.
fn start_over(connection: &Connection, rules: &Rules) -> rusqlite::Result<u64> {
    let removed = letters::delete_all(connection)?;
    connection.execute("DELETE FROM parts", [])?;
    connection.execute("DELETE FROM imports", [])?;
    let put = "INSERT OR REPLACE INTO log (one, kind, rules, delivered) VALUES (1, 'files', ?1, 0)";
    connection.execute(put, [rules.to_json()])?;
    Ok(removed)
}

/// Whether a store of files never applied a sample, so that nothing depends on its rules. A dead
/// letter without a line came by HTTP and is not in a file that can be imported again.
fn is_unused(connection: &Connection) -> rusqlite::Result<bool> {
    let rows = [
        "SELECT 1 FROM trips",
        "SELECT 1 FROM forgets",
        "SELECT 1 FROM epochs",
        "SELECT 1 FROM log WHERE kind <> 'files'",
        "SELECT 1 FROM dead_letters WHERE line = 0",
    ];
    for select in rows {
        if connection.prepare_cached(select)?.exists([])? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl SqliteStore {
    /// Whether no sample was ever applied to this store of files.
    pub(super) fn is_unused(&self) -> Result<bool> {
        self.call("looking for trips", |connection| is_unused(connection))
    }

    /// Prepares an import by the rules that [`SqliteStore::open_import`] returned. A store to which
    /// no sample was ever applied starts over with them: files that were read are not known, and
    /// their dead letters are removed. Returns how many those were; `None` if the store keeps its
    /// rules.
    ///
    /// # Errors
    /// The database fails; then nothing is changed.
    pub(crate) fn prepare_import(&self, rules: &Rules) -> Result<Option<u64>> {
        self.call("preparing the import", |connection| {
            let transaction = connection.transaction()?;
            let is_unused = is_unused(&transaction)?;
            let removed = is_unused.then(|| start_over(&transaction, rules)).transpose()?;
            transaction.commit()?;
            Ok(removed)
        })
    }

    /// Records the start of an import of these files at `started_ms`.
    ///
    /// # Errors
    /// The database fails.
    pub fn begin_import(&self, started_ms: i64, files: &[String]) -> Result<()> {
        let insert = "INSERT INTO imports (started, first_offset, files, finished)
             VALUES (?1, (SELECT delivered FROM log), ?2, 0)";
        let files = serde_json::to_string(files).expect("a list of texts");
        self.execute("recording the import", insert, params![started_ms, files]).map(drop)
    }

    /// The paths of the files that were imported, as given, each once, in the order of the imports.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn imported_files(&self) -> Result<Vec<String>> {
        let select = "SELECT file.value FROM imports, json_each(imports.files) AS file
             GROUP BY file.value ORDER BY min(imports.id), min(file.key)";
        self.select("reading the imports", select, [], |row| row.get(0))
    }

    /// Marks the latest import as finished, and with it earlier unfinished imports of the same
    /// files. Deletes an import that read nothing new.
    ///
    /// # Errors
    /// The database fails.
    pub fn end_import(&self) -> Result<()> {
        self.call("recording the end of the import", |connection| {
            let transaction = connection.transaction()?;
            let newest = "id = (SELECT max(id) FROM imports)";
            let finish = format!(
                "UPDATE imports SET finished = 1
                 WHERE files = (SELECT files FROM imports WHERE {newest})"
            );
            transaction.execute(&finish, [])?;
            let delete_empty = format!(
                "DELETE FROM imports WHERE {newest}
                 AND first_offset = (SELECT delivered FROM log)
                 AND NOT EXISTS (SELECT 1 FROM parts WHERE import = imports.id)"
            );
            transaction.execute(&delete_empty, [])?;
            transaction.commit()
        })?;
        self.check_path()
    }
}
