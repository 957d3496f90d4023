//! The dead letters of a file, and their bound: one for all of them, and a share of it for those of
//! each token.

use std::error::Error;
use std::sync::Arc;

use data_encoding::BASE64;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{SqliteStore, at_most, malformed};
use crate::model::reason::DeadReason;
use crate::model::scalar::{LogTime, Offset};
use crate::source::Headers;
use crate::store::{DeadLetter, Result, StoreError};

/// Size of a letter without its texts, bytes, as it counts.
const OVERHEAD: usize = 128;

/// The part of the bound that the letters of one token may take: an eighth.
const SHARE: u64 = 8;

/// How many bytes of dead letters a store takes.
#[derive(Debug)]
pub(super) struct LetterBound {
    /// Maximum bytes of all letters.
    max: u64,
    /// Name of the token that the letters to be stored come by; empty for those of files and
    /// topics.
    token: String,
}

impl Default for LetterBound {
    fn default() -> Self {
        Self { max: u64::MAX, token: String::new() }
    }
}

/// A dead letter with its number in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDeadLetter {
    /// Number of the dead letter in this store, from 1.
    pub id: i64,
    /// The dead letter.
    pub letter: DeadLetter,
}

/// Selects dead letters; the default selects all.
#[derive(Clone, Debug, Default)]
pub struct LetterFilter {
    /// Only those with this reason.
    pub reason: Option<DeadReason>,
    /// Only those whose key is this device, or whose JSON names it. A store does not decode: it
    /// returns those of every device.
    pub device: Option<String>,
    /// Earliest log timestamp, inclusive, ms since 1970.
    pub from_ms: Option<LogTime>,
    /// Latest log timestamp, inclusive, ms since 1970.
    pub to_ms: Option<LogTime>,
}

/// The dead letters that were committed ahead of the position of their partition: the flush of
/// another partition commits what this one has staged, and the process may end before its own does.
pub(super) const LETTERS_AHEAD: &str = "CREATE TEMP TABLE letters_ahead
     (partition INTEGER NOT NULL, log_offset INTEGER NOT NULL, element INTEGER);
     CREATE INDEX temp.letters_ahead_place ON letters_ahead (partition, log_offset, element);";

/// Skips a dead letter of a topic's record that is read again: it was stored the first time, and
/// may have been replayed or purged since.
const INSERT: &str = "INSERT INTO dead_letters (log_offset, element, reason, message, origin,
     line, log_time, value, value_bytes, sha256, partition, key, headers, count, token, bytes)
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16
     WHERE NOT EXISTS (SELECT 1 FROM positions WHERE partition = ?11 AND next_offset > ?1)
     AND NOT EXISTS (SELECT 1 FROM temp.letters_ahead
     WHERE partition = ?11 AND log_offset = ?1 AND element IS ?2)";

/// Extends the run of the last letter.
const EXTEND: &str = "UPDATE dead_letters SET count = count + ?2 WHERE id = ?1";

/// `[["name", "value in base64"], ["name", null]]`
fn headers_json(headers: &Headers) -> String {
    let text = |value: &Option<Vec<u8>>| value.as_ref().map(|value| BASE64.encode(value));
    let pairs: Vec<_> = headers.iter().map(|(name, value)| (name, text(value))).collect();
    serde_json::to_string(&pairs).expect("pairs of texts")
}

fn read_headers(json: &str) -> Result<Headers, Box<dyn Error + Send + Sync>> {
    let pairs: Vec<(String, Option<String>)> = serde_json::from_str(json)?;
    let bytes =
        |value: Option<String>| value.map(|text| BASE64.decode(text.as_bytes())).transpose();
    pairs.into_iter().map(|(name, value)| Ok((name, bytes(value)?))).collect()
}

/// Size of a letter, bytes, as it counts.
fn size(letter: &DeadLetter, headers: &str) -> usize {
    let key = letter.key.as_ref().map_or(0, |key| key.len());
    let texts = letter.message.len() + letter.origin.len() + headers.len();
    OVERHEAD + letter.value.len() + key + texts
}

/// Adds bytes to those of a token, or subtracts them.
fn count_bytes(connection: &Connection, token: &str, bytes: i64) -> rusqlite::Result<()> {
    let add = "INSERT INTO letter_bytes (token, bytes) VALUES (?1, ?2)
         ON CONFLICT (token) DO UPDATE SET bytes = bytes + excluded.bytes";
    connection.prepare_cached(add)?.execute(params![token, bytes]).map(drop)
}

/// Inserts a letter. Returns its bytes; 0 for one that is stored already.
fn insert(connection: &Connection, letter: &DeadLetter, token: &str) -> rusqlite::Result<i64> {
    let headers = headers_json(&letter.headers);
    let bytes = i64::try_from(size(letter, &headers)).unwrap_or(i64::MAX);
    let inserted = connection.prepare_cached(INSERT)?.execute(params![
        letter.offset.0,
        letter.element,
        letter.reason.name(),
        letter.message,
        letter.origin,
        letter.line.cast_signed(),
        letter.log_time_ms.0,
        letter.value,
        letter.value_bytes.cast_signed(),
        letter.sha256,
        letter.partition,
        letter.key.as_deref(),
        headers,
        letter.count.cast_signed(),
        token,
        bytes,
    ])?;
    Ok(if inserted == 0 { 0 } else { bytes })
}

/// Adds a letter to the run of the last one in the table, if it continues that: a run is one letter
/// however often it was flushed in between. Returns whether it did.
fn extend(connection: &Connection, letter: &DeadLetter) -> rusqlite::Result<bool> {
    if letter.is_of_topic() {
        return Ok(false);
    }
    let last = "SELECT * FROM dead_letters ORDER BY id DESC LIMIT 1";
    let last = connection.prepare_cached(last)?.query_row([], read_letter).optional()?;
    let Some(last) = last.filter(|last| letter.continues(&last.letter)) else { return Ok(false) };
    let count = letter.count.cast_signed();
    connection.prepare_cached(EXTEND)?.execute(params![last.id, count]).map(|_| true)
}

fn read_letter(row: &Row<'_>) -> rusqlite::Result<KeptDeadLetter> {
    let reason: String = row.get("reason")?;
    let reason = DeadReason::from_name(&reason)
        .ok_or_else(|| malformed(format!("unknown reason `{reason}`")))?;
    let headers = read_headers(row.get_ref("headers")?.as_str()?).map_err(malformed)?;
    let letter = DeadLetter {
        partition: row.get("partition")?,
        offset: Offset(row.get("log_offset")?),
        element: row.get("element")?,
        count: row.get::<_, i64>("count")?.cast_unsigned(),
        reason,
        message: row.get("message")?,
        origin: row.get("origin")?,
        line: row.get::<_, i64>("line")?.cast_unsigned(),
        log_time_ms: LogTime(row.get("log_time")?),
        key: row.get::<_, Option<Vec<u8>>>("key")?.map(Arc::from),
        key_cut: None,
        headers: Arc::new(headers),
        headers_cut: None,
        value: row.get("value")?,
        value_bytes: row.get::<_, i64>("value_bytes")?.cast_unsigned(),
        sha256: row.get("sha256")?,
    };
    Ok(KeptDeadLetter { id: row.get("id")?, letter })
}

/// Deletes letters, and their bytes from those of their tokens.
fn delete(connection: &Connection, ids: &[i64]) -> rusqlite::Result<()> {
    let delete = "DELETE FROM dead_letters WHERE id = ?1 RETURNING token, bytes";
    let mut delete = connection.prepare_cached(delete)?;
    for id in ids {
        let row = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        if let Some((token, bytes)) = delete.query_row([id], row).optional()? {
            count_bytes(connection, &token, -bytes)?;
        }
    }
    Ok(())
}

/// Deletes all letters, and returns their number.
pub(super) fn delete_all(connection: &Connection) -> rusqlite::Result<u64> {
    connection.execute("DELETE FROM letter_bytes", [])?;
    Ok(connection.execute("DELETE FROM dead_letters", [])? as u64)
}

impl SqliteStore {
    /// Sets how many bytes of dead letters the store takes, and by which token those to be stored
    /// come, if by any: they may take an eighth.
    pub fn bound_letters(&mut self, max: u64, token: Option<&str>) {
        self.letters = LetterBound { max, token: token.unwrap_or_default().to_owned() };
    }

    /// Rejects letters that the store has no place for, and what else is to be committed with
    /// them.
    pub(super) fn admit_letters(
        &self,
        connection: &Connection,
        letters: &[DeadLetter],
    ) -> Result<()> {
        let LetterBound { max, token } = &self.letters;
        if letters.is_empty() || *max == u64::MAX {
            return Ok(());
        }
        let new = letters.iter().map(|letter| size(letter, &headers_json(&letter.headers)) as u64);
        let new = new.sum::<u64>();
        let select = "SELECT ifnull(sum(bytes), 0), ifnull(sum(bytes) FILTER (WHERE token = ?1), 0)
             FROM letter_bytes";
        let stored = connection.prepare_cached(select).and_then(|mut select| {
            select.query_row([token], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        });
        let (all, own) = self.or_rollback(connection, stored)?;
        let is_over = |stored: i64, max: u64| stored.cast_unsigned().saturating_add(new) > max;
        let is_token_over = !token.is_empty() && is_over(own, max / SHARE);
        if !is_token_over && !is_over(all, *max) {
            return Ok(());
        }
        if !connection.is_autocommit() {
            // If this fails, closing the file rolls back.
            connection.execute_batch("ROLLBACK").ok();
        }
        Err(StoreError::LettersFull { location: self.location.clone(), max: *max })
    }

    /// Stores letters in the caller's transaction.
    pub(super) fn put_letters(
        &self,
        connection: &Connection,
        letters: &[DeadLetter],
    ) -> rusqlite::Result<()> {
        if !self.keep_letters || letters.is_empty() {
            return Ok(());
        }
        let token = &self.letters.token;
        let rest = if extend(connection, &letters[0])? { &letters[1..] } else { letters };
        let mut bytes = 0;
        for letter in rest {
            bytes += insert(connection, letter, token)?;
        }
        if bytes > 0 { count_bytes(connection, token, bytes) } else { Ok(()) }
    }

    /// Finds the dead letters that an earlier process committed ahead of the position of their
    /// partition: their records are read again.
    pub(super) fn find_letters_ahead(&self) -> Result<()> {
        let find = "INSERT INTO temp.letters_ahead
             SELECT partition, log_offset, element FROM dead_letters JOIN positions
             USING (partition) WHERE log_offset >= next_offset";
        self.execute("reading dead letters", find, []).map(drop)
    }

    /// Number of the last dead letter; 0 if there is none.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn last_dead_letter(&self) -> Result<i64> {
        let select = "SELECT coalesce(max(id), 0) FROM dead_letters";
        self.call("reading dead letters", |it| it.query_row(select, [], |row| row.get(0)))
    }

    /// At most `limit` dead letters after the one with the number `after`, in the order they were
    /// stored.
    ///
    /// # Errors
    /// The database fails.
    pub fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: i64,
        limit: usize,
    ) -> Result<Vec<KeptDeadLetter>> {
        let select = "SELECT * FROM dead_letters WHERE id > ?1 AND (?2 IS NULL OR reason = ?2)
             AND (?4 IS NULL OR log_time >= ?4) AND (?5 IS NULL OR log_time <= ?5)
             ORDER BY id ASC LIMIT ?3";
        let reason = filter.reason.map(DeadReason::name);
        let [from, to] = [filter.from_ms, filter.to_ms].map(|time| time.map(LogTime::ms));
        let values = params![after, reason, at_most(limit), from, to];
        self.select("reading dead letters", select, values, read_letter)
    }

    /// Deletes dead letters, by number, in one transaction.
    ///
    /// # Errors
    /// The database fails; then none is deleted.
    pub fn delete_letters(&self, ids: &[i64]) -> Result<()> {
        let connection = self.connection();
        let done = self
            .begin_transaction(&connection)
            .and_then(|()| delete(&connection, ids))
            .and_then(|()| connection.execute_batch("COMMIT"));
        self.or_rollback(&connection, done)?;
        self.check_path()
    }
}
