//! Opens stores by URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tstar::http::ServableStore;
use tstar::model::control::NamedKey;
use tstar::model::epoch::Epoch;
use tstar::model::rules::Rules;
use tstar::settings::{Settings, StoreUrl};
use tstar::store::scylla::{Identity, ScyllaOptions, ScyllaStore, Tls};
use tstar::store::sqlite::SqliteStore;
use tstar::store::{
    DeviceScope, EpochStore, Forget, KeyStore, Order, StoreError, TripRow, TripStore,
};
use tstar::telemetry::operation;

use super::exit::{self, Usage};
use super::flags::Context;

/// A store that is read from.
pub enum AnyStore {
    /// A file.
    Sqlite(SqliteStore),
    /// A keyspace.
    Scylla(ScyllaStore),
}

/// The file of a store URL, for what only a file can do; `instead` says what to do with a keyspace.
pub fn sqlite_path(url: &str, instead: &str) -> anyhow::Result<PathBuf> {
    match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path) => Ok(path),
        StoreUrl::Scylla(place) => Err(Usage(format!("store `{place}`: {instead}")).into()),
    }
}

/// How to talk to a Scylla store, for a command that ends.
pub fn scylla_options(settings: &Settings, context: &Context) -> anyhow::Result<ScyllaOptions> {
    let named = !settings.cql_user.is_empty();
    Ok(ScyllaOptions {
        consistency: settings.consistency,
        user: named.then(|| settings.cql_user.clone()),
        password: context.cql_password(settings)?,
        tls: settings.cql_tls.then(|| tls(settings, context)).transpose()?,
        datacenter: (!settings.datacenter.is_empty()).then(|| settings.datacenter.clone()),
        patience: u64::try_from(settings.connect_timeout_ms).ok().map(Duration::from_millis),
        on_waiting: Arc::new(exit::print_status),
        ..ScyllaOptions::default()
    })
}

/// The certificates that the settings name.
fn tls(settings: &Settings, context: &Context) -> anyhow::Result<Tls> {
    let read = |key: &str, path: &String| {
        let bytes = (!path.is_empty()).then(|| std::fs::read(path)).transpose();
        bytes.with_context(|| format!("{key} `{path}` cannot be read"))
    };
    let certificates = read("cql_tls_cert", &settings.cql_tls_cert)?;
    let key = &settings.cql_tls_key;
    let key = (!key.is_empty()).then(|| context.secret("cql_tls_key", key)).transpose()?;
    let identity = certificates.zip(key).map(|(certificates, key)| Identity { certificates, key });
    Ok(Tls { authorities: read("cql_tls_ca", &settings.cql_tls_ca)?, identity })
}

/// A store to read from. It has to be there: commands that read never make one.
pub async fn reader(settings: &Settings, context: &Context) -> anyhow::Result<AnyStore> {
    Ok(match StoreUrl::parse(&settings.store)? {
        StoreUrl::Sqlite(path) => AnyStore::Sqlite(SqliteStore::open_reader(&path)?),
        StoreUrl::Scylla(place) => {
            let options = scylla_options(settings, context)?;
            AnyStore::Scylla(ScyllaStore::connect(&place, options).await?)
        }
    })
}

/// The cache of a file takes an eighth of the memory, at most this, bytes.
const MAX_CACHE: u64 = 64 << 20;

/// How much of a file may be kept in memory, bytes.
pub fn cache(settings: &Settings) -> u64 {
    (settings.memory / 8).min(MAX_CACHE)
}

/// A store to read from, and the settings with the rules that the store was built by: whether a
/// trip may still grow follows from those, not from the reader's.
pub async fn reader_by_its_rules(
    mut settings: Settings,
    context: &Context,
) -> anyhow::Result<(AnyStore, Settings)> {
    let reader = reader(&settings, context).await?;
    let rules = match &reader {
        AnyStore::Sqlite(store) => store.rules()?,
        AnyStore::Scylla(store) => store.epochs().await?.pop().map(|newest| newest.rules),
    };
    if let Some(rules) = rules {
        settings.max_gap_ms = rules.max_gap_ms;
    }
    Ok((reader, settings))
}

/// A store that belongs to a topic, to change what it knows of that; `rules` are those of its
/// newest epoch. Nobody else may write to a file meanwhile.
pub async fn topic_writer(
    settings: &Settings,
    context: &Context,
    rules: &Rules,
) -> anyhow::Result<AnyStore> {
    Ok(match StoreUrl::parse(&settings.store)? {
        StoreUrl::Sqlite(path) => {
            AnyStore::Sqlite(SqliteStore::open_for_topic(&path, rules, settings.keep_changes)?)
        }
        StoreUrl::Scylla(_) => reader(settings, context).await?,
    })
}

/// The same call of whichever store it is, timed where anything is.
macro_rules! of_either {
    ($reader:expr, $method:ident($($argument:expr),*)) => {
        match $reader {
            AnyStore::Sqlite(store) => {
                operation(stringify!($method), store.$method($($argument),*)).await
            }
            AnyStore::Scylla(store) => {
                operation(stringify!($method), store.$method($($argument),*)).await
            }
        }
    };
}

impl TripStore for AnyStore {
    async fn apply(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        of_either!(self, apply(trips))
    }

    async fn covering(&self, device_id: &str, time_ms: i64) -> Result<Option<TripRow>, StoreError> {
        of_either!(self, covering(device_id, time_ms))
    }

    async fn rows_of_day(&self, device_id: &str, day: i64) -> Result<Vec<TripRow>, StoreError> {
        of_either!(self, rows_of_day(device_id, day))
    }

    async fn range(
        &self,
        device_id: &str,
        from_ms: i64,
        upto_ms: i64,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        of_either!(self, range(device_id, from_ms, upto_ms, order, limit))
    }

    async fn devices(
        &self,
        whose: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        of_either!(self, devices(whose, after, limit))
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        of_either!(self, forgets(device_id))
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>, StoreError> {
        of_either!(self, erased(device_id))
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        of_either!(self, forget(device_id, forget))
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        of_either!(self, claimed(device_id, epoch))
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        of_either!(self, claim(device_id, epoch, own))
    }
}

impl ServableStore for AnyStore {
    fn kept_changes(&self) -> Result<Option<(i64, i64)>, StoreError> {
        match self {
            Self::Sqlite(store) => store.kept_changes().map(Some),
            Self::Scylla(_) => Ok(None),
        }
    }

    fn changes(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, StoreError> {
        match self {
            Self::Sqlite(store) => store.changes(after, limit),
            Self::Scylla(_) => Ok(Vec::new()),
        }
    }

    async fn is_well(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.kept_changes().map(drop),
            Self::Scylla(store) => store.epochs().await.map(drop),
        }
    }
}

impl KeyStore for AnyStore {
    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        of_either!(self, control_keys())
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        of_either!(self, add_control_key(key))
    }
}

impl EpochStore for AnyStore {
    async fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        of_either!(self, epochs())
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool, StoreError> {
        of_either!(self, add_epoch(epoch))
    }
}
