//! Decodes rows of a store, and computes again what follows from their paths.

use std::sync::Arc;

use crate::store::raw::RawRow;
use crate::store::skip::REPAIR;
use crate::store::{AnyStore, EmbeddedStore, SideTables as _, StoreError};
use crate::timeline::{LegFilter, day_of};

/// The legs that count under the rules of a store.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn legs_of(store: &AnyStore) -> Result<LegFilter, StoreError> {
    // The rules of a topic belong to its epochs.
    let rules = match store.epochs().await?.pop() {
        Some(newest) => newest.rules,
        None => store.rules().await?.unwrap_or_default(),
    };
    Ok(rules.legs())
}

/// Rows that were decoded.
#[derive(Clone, Debug)]
pub(crate) struct RowCheck {
    legs: LegFilter,
    /// Number of rows.
    pub rows: usize,
    /// Number of those that are not the trip that their path gives.
    pub malformed: usize,
    /// What is wrong with the first of them.
    pub first: Option<String>,
}

impl RowCheck {
    /// No row yet. `legs` are the rules under which the store was built.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn new(store: &AnyStore) -> Result<Self, StoreError> {
        Ok(Self { legs: legs_of(store).await?, rows: 0, malformed: 0, first: None })
    }

    /// Checks a row.
    pub(crate) fn add(&mut self, row: &RawRow) {
        self.rows += 1;
        if let Err(error) = row.check(self.legs) {
            self.malformed += 1;
            self.first.get_or_insert_with(|| error.to_string());
        }
    }

    /// What is wrong; `None` if nothing is.
    #[must_use]
    pub(crate) fn fault(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(format!("{} of {} rows are malformed; the first: {first}", self.malformed, self.rows))
    }
}

/// A fault of a store in a file.
pub(crate) struct Fault {
    /// What was found.
    pub found: String,
    /// What helps.
    pub repair: &'static str,
}

impl Fault {
    fn of_file(found: String) -> Self {
        let repair = "rebuild it from its log: tstar rebuild, or ingest into another file";
        Self { found, repair }
    }
}

/// Checks a store in a file: all pages, all rows, and what two tables hold. `None`: it is sound.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn check_file(file: &Arc<EmbeddedStore>) -> Result<Option<Fault>, StoreError> {
    if let Some(fault) = file.is_sound(true)? {
        return Ok(Some(Fault::of_file(format!("SQLite finds: {fault}"))));
    }
    let store = AnyStore::from(Arc::clone(file));
    let (mut check, mut from, mut last) = (RowCheck::new(&store).await?, None, None);
    loop {
        let (rows, next) = store.raw_rows(None, from).await?;
        for row in rows {
            check.add(&row);
            let key = (row.device_id, day_of(row.bucket_ms));
            if last.as_ref() == Some(&key) {
                continue;
            }
            if !store.unlisted(&key.0, &[key.1]).await?.is_empty() {
                let day = key.1.start_ms();
                let found = format!("day {day} of device `{}` is not in the day index", key.0);
                return Ok(Some(Fault { found, repair: REPAIR }));
            }
            last = Some(key);
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    if let Some(found) = check.fault() {
        return Ok(Some(Fault { found, repair: REPAIR }));
    }
    Ok(file.contradiction()?.map(|trip| {
        Fault::of_file(format!("tables `trips` and `trip_rows` differ in a trip of {trip} ms"))
    }))
}
