//! Opens the store and the log that the settings name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::exit;
use super::flags::Context;
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::log::topic::{LogAccess, TopicRequest};
use crate::ops::PreconditionFailed;
use crate::pipeline::processor::ProcessorConfig;
use crate::registry::{Credentials, Registry, RegistryUrl};
use crate::settings::{Origin, Origins, Settings};
use crate::store::{Access, AnyStore, ClientIdentity, OpenOptions, ServerOptions, StoreUrl, Tls};

/// Server options of a one-shot command: it gives up after `connect_timeout`.
pub fn server_options(settings: &Settings, context: &Context) -> anyhow::Result<ServerOptions> {
    let named = !settings.cql_user.is_empty();
    Ok(ServerOptions {
        consistency: settings.consistency,
        user: named.then(|| settings.cql_user.clone()),
        password: context.cql_password(settings)?,
        password_file: (!settings.cql_password_file.is_empty())
            .then(|| settings.cql_password_file.clone().into()),
        tls: settings.cql_tls.then(|| tls(settings, context)).transpose()?,
        datacenter: (!settings.datacenter.is_empty()).then(|| settings.datacenter.clone()),
        patience: u64::try_from(settings.connect_timeout_ms).ok().map(Duration::from_millis),
        on_waiting: Arc::new(exit::print_status),
        ..ServerOptions::default()
    })
}

/// The certificate files that the settings name.
fn tls(settings: &Settings, context: &Context) -> anyhow::Result<Tls> {
    let read = |key: &str, path: &String| {
        let bytes = (!path.is_empty()).then(|| std::fs::read(path)).transpose();
        bytes.with_context(|| format!("{key} `{path}` cannot be read"))
    };
    let certificates = read("cql_tls_cert", &settings.cql_tls_cert)?;
    let key = &settings.cql_tls_key;
    let key = (!key.is_empty()).then(|| context.secret("cql_tls_key", key)).transpose()?;
    let identity =
        certificates.zip(key).map(|(certificates, key)| ClientIdentity { certificates, key });
    let name = Some(settings.cql_tls_name.clone()).filter(|name| !name.is_empty());
    Ok(Tls { authorities: read("cql_tls_ca", &settings.cql_tls_ca)?, identity, name })
}

/// Store options of a one-shot command.
pub fn options(settings: &Settings, context: &Context) -> anyhow::Result<OpenOptions> {
    Ok(OpenOptions {
        server: server_options(settings, context)?,
        cache: cache(settings),
        keep_changes: settings.keep_changes,
        max_dead_letters: Some(settings.max_dead_letters),
    })
}

/// Opens the store of the settings.
pub async fn open(
    settings: &Settings,
    context: &Context,
    access: Access<'_>,
) -> anyhow::Result<AnyStore> {
    let url = StoreUrl::parse(&settings.store)?;
    Ok(AnyStore::open(&url, access, options(settings, context)?).await?)
}

/// Opens an existing store for reading: commands that read never create one.
pub async fn reader(settings: &Settings, context: &Context) -> anyhow::Result<AnyStore> {
    open(settings, context, Access::Read).await
}

/// Maximum cache of an embedded store, bytes; below it, an eighth of the memory limit.
const MAX_CACHE: u64 = 64 << 20;

/// Cache of an embedded store, bytes.
pub fn cache(settings: &Settings) -> u64 {
    (settings.memory / 8).min(MAX_CACHE)
}

/// Broker options of a one-shot command: it gives up after `connect_timeout`.
///
/// # Errors
/// A librdkafka option may not be set by the user.
pub fn brokers(settings: &Settings) -> Result<Brokers, KafkaError> {
    let brokers = daemon_brokers(settings, settings.kafka.clone())?;
    Ok(brokers.within(duration(settings.connect_timeout_ms)))
}

/// Broker options of a daemon, which waits for brokers without limit; with these options of
/// librdkafka.
///
/// # Errors
/// An option may not be set by the user, or the password file cannot be read.
pub fn daemon_brokers(
    settings: &Settings,
    options: BTreeMap<String, String>,
) -> Result<Brokers, KafkaError> {
    match &*settings.kafka_password_file {
        "" => Brokers::new(&settings.brokers, options),
        file => Brokers::with_password_file(&settings.brokers, options, Path::new(file)),
    }
}

/// The schema registry, if one is named.
pub fn registry(settings: &Settings, context: &Context) -> anyhow::Result<Option<Arc<Registry>>> {
    let (url, file) = (&settings.schema_registry, &settings.schema_registry_auth_file);
    if url.is_empty() {
        return Ok(None);
    }
    let key = "schema_registry_auth_file";
    let content = (!file.is_empty()).then(|| context.secret_text(key, file)).transpose()?;
    let credentials = content.map(|content| Credentials::parse(&content)).transpose();
    let credentials = credentials.map_err(|problem| {
        PreconditionFailed(format!("{key} `{file}` cannot be used: {problem}"))
    })?;
    let url = RegistryUrl::parse(url).map_err(PreconditionFailed)?;
    let registry = Registry::new(url, credentials).map_err(PreconditionFailed)?;
    Ok(Some(Arc::new(registry)))
}

/// How a one-shot command accesses the log of the store.
pub fn log_access(settings: &Settings, context: &Context) -> anyhow::Result<LogAccess> {
    Ok(LogAccess {
        store: settings.store.clone(),
        brokers: brokers(settings)?,
        group: settings.group.clone(),
        keys: context.control_keys(settings)?,
        notify: Arc::new(exit::print_status),
    })
}

/// A setting that is a duration.
pub fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

/// Flush intervals and memory of the partition workers.
pub fn processor_config(settings: &Settings) -> ProcessorConfig {
    ProcessorConfig {
        flush_interval: duration(settings.flush_interval_ms),
        max_staleness: duration(settings.max_staleness_ms),
        // The other half is for batches in flight and the queues of the Kafka client.
        memory: usize::try_from(settings.memory / 2).unwrap_or(usize::MAX),
        by_trip: true,
        gather: ProcessorConfig::GATHER,
        loads: 32,
    }
}

/// The topic of a command: the configured one, else that of the newest epoch.
pub fn topic_request<'a>(
    settings: &'a Settings,
    origins: &Origins,
    context: &Context,
) -> TopicRequest<'a> {
    let is_named = origins["topic"] != Origin::Default;
    let topic = is_named.then_some(settings.topic.as_str());
    TopicRequest { store: &settings.store, topic, now_ms: context.now_ms }
}
