//! Checks of the whole file: by SQLite, and between tables that hold the same.

use super::SqliteStore;
use crate::store::Result;

/// The first copy of a trip or stop that has another kind, id, version or driver than its row for
/// other programs. A copy in a later day may have no such row: a newer trip took it.
const OTHER_ROW: &str = "SELECT t.device_id || ' at ' || t.bucket FROM trips AS t
     LEFT JOIN trip_rows AS r ON r.device_id = t.device_id
       AND r.start_ms = t.start_time AND r.end_ms = t.end_time
     WHERE CASE WHEN r.device_id IS NULL THEN t.bucket = t.start_time - t.start_time % 86400000
       ELSE r.kind <> t.kind OR r.t_star_ms <> t.t_star OR r.version <> t.version
         OR r.driver IS NOT t.driver END
     LIMIT 1";

/// The same of the ids that merges into trips retired.
const OTHER_RETIRED: &str = "SELECT t.device_id || ' at ' || t.bucket FROM trips AS t
     JOIN trip_rows AS r ON r.device_id = t.device_id
       AND r.start_ms = t.start_time AND r.end_ms = t.end_time
     WHERE t.kind = 'trip' AND ((SELECT count(*) FROM json_each(t.ids) AS retired
         WHERE json_array_length(retired.value) % 2 = 0)
       <> (SELECT count(*) FROM absorbed_rows AS a
         WHERE a.device_id = t.device_id AND a.start_ms = t.start_time AND a.end_ms = t.end_time)
       OR EXISTS (SELECT 1 FROM json_each(t.ids) AS retired
         WHERE json_array_length(retired.value) % 2 = 0 AND NOT EXISTS (
         SELECT 1 FROM absorbed_rows AS a WHERE a.device_id = t.device_id
           AND a.start_ms = t.start_time AND a.end_ms = t.end_time
           AND a.absorbed_ms = CAST(retired.key AS INTEGER)
           AND a.version = json_extract(retired.value, '$[#-1]'))))
     LIMIT 1";

impl SqliteStore {
    /// The first fault that SQLite finds in the file; `None` if it is sound. Reads all of it; a
    /// deep check compares the indexes with their tables as well.
    ///
    /// # Errors
    /// The database fails.
    pub fn is_sound(&self, is_deep: bool) -> Result<Option<String>> {
        let check = if is_deep { "PRAGMA integrity_check(1)" } else { "PRAGMA quick_check(1)" };
        let found: Vec<String> = self.select("checking the file", check, [], |row| row.get(0))?;
        Ok(found.into_iter().find(|found| found != "ok"))
    }

    /// The device and the day of the first trip that contradicts its row in `trip_rows` or
    /// `absorbed_rows`; `None` if there is none. The rows of `trips` can be decoded.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn contradiction(&self) -> Result<Option<String>> {
        for select in [OTHER_ROW, OTHER_RETIRED] {
            let found = self.select("comparing its tables", select, [], |row| row.get(0))?;
            if let Some(found) = found.into_iter().next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
