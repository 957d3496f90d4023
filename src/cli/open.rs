//! Opens stores by URL.

use std::path::PathBuf;

use tstar::settings::{PlaceError, Settings, StorePlace};
use tstar::store::sqlite::SqliteStore;

/// The file of a store URL.
pub fn sqlite_path(url: &str) -> Result<PathBuf, PlaceError> {
    let StorePlace::Sqlite(path) = StorePlace::parse(url)?;
    Ok(path)
}

/// A store to read from. It has to be there: commands that read never make one.
pub fn reader(url: &str) -> anyhow::Result<SqliteStore> {
    Ok(SqliteStore::open_reader(&sqlite_path(url)?)?)
}

/// A store to read from, and the settings with the rules that the store was built by: whether a
/// trip may still grow follows from those, not from the reader's.
pub fn reader_by_its_rules(mut settings: Settings) -> anyhow::Result<(SqliteStore, Settings)> {
    let store = reader(&settings.store)?;
    if let Some(rules) = store.rules()? {
        settings.max_gap_ms = rules.max_gap_ms;
    }
    Ok((store, settings))
}
