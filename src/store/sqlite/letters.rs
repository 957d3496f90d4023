//! Dead letters that were tried again, or thrown away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::{Connection, params};

use super::{SqliteStore, failed};
use crate::model::reason::DeadReason;
use crate::store::{Flush, Journal, Position, StoreError};

/// What became of dead letters, by number.
#[derive(Clone, Debug, Default)]
pub struct LetterUpdates {
    /// Those that go.
    pub gone: Vec<i64>,
    /// Those that stay, with the reason and the message that they have now.
    pub changed: Vec<(i64, DeadReason, String)>,
}

fn settle(connection: &Connection, settled: &LetterUpdates) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM dead_letters WHERE id = ?1")?;
    settled.gone.iter().try_for_each(|id| delete.execute([id]).map(drop))?;
    let mut update = connection
        .prepare_cached("UPDATE dead_letters SET reason = ?2, message = ?3 WHERE id = ?1")?;
    for (id, reason, message) in &settled.changed {
        update.execute(params![id, reason.name(), message])?;
    }
    Ok(())
}

impl SqliteStore {
    /// Notes what became of dead letters.
    ///
    /// # Errors
    /// The database fails; then nothing of it is noted.
    pub fn settle(&self, settled: &LetterUpdates) -> Result<(), StoreError> {
        let connection = self.connection();
        let done = self
            .begin_transaction(&connection)
            .and_then(|()| settle(&connection, settled))
            .and_then(|()| connection.execute_batch("COMMIT"));
        self.or_undo(&connection, done)?;
        self.is_in_place()
    }

    /// Whether the store was built from a topic.
    ///
    /// # Errors
    /// The database fails.
    pub fn is_of_a_topic(&self) -> Result<bool, StoreError> {
        let select = "SELECT count(*) FROM log WHERE kind = 'topic'";
        let count = self.connection().query_row(select, [], |row| row.get::<_, i64>(0));
        Ok(count.map_err(failed(&self.place, "reading whose it is"))? > 0)
    }
}

/// The journal of a log of files to which dead letters are added once more, each as a record at its
/// end: with what they gave they leave their table, in one transaction.
pub struct RetryJournal {
    store: Arc<SqliteStore>,
    tried: Mutex<LetterUpdateStore>,
}

#[derive(Default)]
struct LetterUpdateStore {
    /// Numbers of the letters that stand for the records of the next flush, by offset.
    ids: BTreeMap<i64, i64>,
    settled: LetterUpdates,
}

impl RetryJournal {
    /// A journal of the store.
    #[must_use]
    pub fn new(store: Arc<SqliteStore>) -> Self {
        Self { store, tried: Mutex::default() }
    }

    /// Says which letters the next flush is about: those at these offsets, and others that stay
    /// with another reason.
    pub fn set_updates(&self, ids: BTreeMap<i64, i64>, changed: Vec<(i64, DeadReason, String)>) {
        *self.tried() = LetterUpdateStore { ids, settled: LetterUpdates { gone: vec![], changed } };
    }

    fn tried(&self) -> MutexGuard<'_, LetterUpdateStore> {
        self.tried.lock().expect("no holder of the lock panics")
    }

    /// A letter that the trips refuse stays the letter that it was.
    fn keep_refused(tried: &mut LetterUpdateStore, flush: &Flush) {
        for letter in &flush.dead_letters {
            if let Some(id) = tried.ids.remove(&letter.offset) {
                tried.settled.changed.push((id, letter.reason, letter.message.clone()));
            }
        }
    }
}

impl Journal for RetryJournal {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        Self::keep_refused(&mut self.tried(), ahead);
        self.store.stage_without_letters(ahead)
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        let mut tried = std::mem::take(&mut *self.tried());
        Self::keep_refused(&mut tried, flush);
        tried.settled.gone.extend(tried.ids.values());
        self.store.commit_with(flush, &[], |connection| {
            settle(connection, &tried.settled)?;
            let position = "UPDATE log SET delivered = ?1";
            connection.prepare_cached(position)?.execute([flush.position.delivered]).map(drop)
        })
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.store.position().await
    }
}
