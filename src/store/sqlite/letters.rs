//! Replaying and purging dead letters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::{Connection, params};

use super::SqliteStore;
use crate::model::reason::DeadReason;
use crate::model::scalar::Offset;
use crate::store::{Flush, Journal, Position, StoreError};

/// Updates of stored dead letters, by number.
#[derive(Clone, Debug, Default)]
pub struct LetterUpdates {
    /// Dead letters to delete.
    pub gone: Vec<i64>,
    /// Dead letters that are kept, with their new reason and message.
    pub changed: Vec<(i64, DeadReason, String)>,
}

fn apply_updates(connection: &Connection, updates: &LetterUpdates) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM dead_letters WHERE id = ?1")?;
    updates.gone.iter().try_for_each(|id| delete.execute([id]).map(drop))?;
    let mut update = connection
        .prepare_cached("UPDATE dead_letters SET reason = ?2, message = ?3 WHERE id = ?1")?;
    for (id, reason, message) in &updates.changed {
        update.execute(params![id, reason.name(), message])?;
    }
    Ok(())
}

impl SqliteStore {
    /// Applies updates of dead letters in one transaction.
    ///
    /// # Errors
    /// The database fails; then no update is applied.
    pub fn settle(&self, updates: &LetterUpdates) -> Result<(), StoreError> {
        let connection = self.connection();
        let done = self
            .begin_transaction(&connection)
            .and_then(|()| apply_updates(&connection, updates))
            .and_then(|()| connection.execute_batch("COMMIT"));
        self.or_rollback(&connection, done)?;
        self.check_path()
    }
}

/// The journal for replaying dead letters of files. Each dead letter is appended to the log as a
/// new record, and a flush removes it from its table in the same transaction that stores its trips.
pub struct RetryJournal {
    store: Arc<SqliteStore>,
    pending: Mutex<PendingUpdates>,
}

#[derive(Default)]
struct PendingUpdates {
    /// Numbers of the replayed dead letters of the next flush, by the offset of their new record.
    ids: BTreeMap<Offset, i64>,
    updates: LetterUpdates,
}

impl RetryJournal {
    /// A journal over the store.
    #[must_use]
    pub fn new(store: Arc<SqliteStore>) -> Self {
        Self { store, pending: Mutex::default() }
    }

    /// Sets the dead letters of the next flush: those replayed, by the offset of their new record,
    /// and those that are kept with a new reason and message.
    pub fn set_updates(&self, ids: BTreeMap<Offset, i64>, changed: Vec<(i64, DeadReason, String)>) {
        *self.pending() = PendingUpdates { ids, updates: LetterUpdates { gone: vec![], changed } };
    }

    fn pending(&self) -> MutexGuard<'_, PendingUpdates> {
        self.pending.lock().expect("no holder of the lock panics")
    }

    /// Keeps a dead letter that was rejected again, with its new reason and message.
    fn keep_refused(pending: &mut PendingUpdates, flush: &Flush) {
        for letter in &flush.dead_letters {
            if let Some(id) = pending.ids.remove(&letter.offset) {
                pending.updates.changed.push((id, letter.reason, letter.message.clone()));
            }
        }
    }
}

impl Journal for RetryJournal {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        Self::keep_refused(&mut self.pending(), ahead);
        self.store.stage_without_letters(ahead)
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        let mut pending = std::mem::take(&mut *self.pending());
        Self::keep_refused(&mut pending, flush);
        pending.updates.gone.extend(pending.ids.values());
        self.store.commit_with(flush, &[], |connection| {
            apply_updates(connection, &pending.updates)?;
            let position = "UPDATE log SET delivered = ?1";
            connection.prepare_cached(position)?.execute([flush.position.delivered]).map(drop)
        })
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.store.position().await
    }
}
