//! Opens what the settings name: the store, the brokers, the registry, and files with secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

use super::Settings;
use super::secret::read_secret;
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::model::control::ControlKeys;
use crate::model::failure::PreconditionFailed;
use crate::registry::{Credentials, Registry, RegistryUrl};
use crate::store::{
    Access, AnyStore, ClientIdentity, OpenOptions, ServerOptions, StoreUrl, StoreUrlError, Tls,
};
use crate::telemetry::logging::print_status;

/// Maximum cache of an embedded store, bytes; below it, an eighth of the memory limit.
const MAX_CACHE: u64 = 64 << 20;

/// Warnings printed so far: each is printed once in a run.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<BTreeSet<String>>>);

impl Warnings {
    /// Prints the warnings that were not printed yet.
    pub fn print(&self, warnings: impl IntoIterator<Item = String>) {
        let mut printed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if !printed.contains(&warning) {
                print_status(&warning);
                printed.insert(warning);
            }
        }
    }
}

/// Prints lines for the operator.
#[must_use]
pub fn notify() -> Arc<dyn Fn(&str) + Send + Sync> {
    Arc::new(print_status)
}

impl Settings {
    /// Reads a secret from a file; `key` is the setting that names the file. Warns if other users
    /// may read it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn secret(&self, key: &str, path: &str) -> anyhow::Result<Vec<u8>> {
        let secret = read_secret(key, Path::new(path));
        let secret = secret.with_context(|| format!("{key} `{path}` cannot be read"))?;
        self.warnings.print(secret.warning);
        Ok(secret.bytes)
    }

    /// Reads a secret that is text, as [`Self::secret`] does.
    ///
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub(crate) fn secret_text(&self, key: &str, path: &str) -> anyhow::Result<String> {
        let text = String::from_utf8(self.secret(key, path)?);
        // The error of the conversion contains the bytes, so it is discarded.
        text.map_err(|_| PreconditionFailed(format!("{key} `{path}` is not UTF-8")).into())
    }

    /// The keys of `control_key_file`; none if it is not set. Its content is never printed.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is not a key.
    pub fn control_keys(&self) -> anyhow::Result<ControlKeys> {
        let path = &self.control_key_file;
        if path.is_empty() {
            return Ok(ControlKeys::default());
        }
        let keys = ControlKeys::parse(&self.secret_text("control_key_file", path)?);
        Ok(keys
            .map_err(|error| PreconditionFailed(format!("control_key_file `{path}`: {error}")))?)
    }

    /// The store.
    ///
    /// # Errors
    /// It is not a valid URL.
    pub fn url(&self) -> Result<StoreUrl, StoreUrlError> {
        StoreUrl::parse(&self.store)
    }

    /// How a one-shot command connects to servers: it gives up after `connect_timeout`.
    ///
    /// # Errors
    /// A file with a secret or a certificate cannot be read.
    pub(crate) fn server_options(&self) -> anyhow::Result<ServerOptions> {
        let set = |text: &String| (!text.is_empty()).then(|| text.clone());
        let file = &self.cql_password_file;
        let password = match &**file {
            "" => self.cql_password.clone(),
            _ => {
                let text = self.secret_text("cql_password_file", file)?;
                Some(text.trim_end_matches(['\n', '\r']).to_owned())
            }
        };
        Ok(ServerOptions {
            consistency: self.consistency,
            user: set(&self.cql_user),
            password,
            password_file: set(file).map(Into::into),
            tls: self.cql_tls.then(|| self.cql_tls()).transpose()?,
            datacenter: set(&self.datacenter),
            patience: Some(self.connect_timeout),
            on_waiting: notify(),
            ..ServerOptions::default()
        })
    }

    /// The certificate files of a store on servers.
    fn cql_tls(&self) -> anyhow::Result<Tls> {
        let read = |key: &str, path: &String| {
            let bytes = (!path.is_empty()).then(|| std::fs::read(path)).transpose();
            bytes.with_context(|| format!("{key} `{path}` cannot be read"))
        };
        let certificates = read("cql_tls_cert", &self.cql_tls_cert)?;
        let key = &self.cql_tls_key;
        let key = (!key.is_empty()).then(|| self.secret("cql_tls_key", key)).transpose()?;
        let identity =
            certificates.zip(key).map(|(certificates, key)| ClientIdentity { certificates, key });
        let name = Some(self.cql_tls_name.clone()).filter(|name| !name.is_empty());
        Ok(Tls { authorities: read("cql_tls_ca", &self.cql_tls_ca)?, identity, name })
    }

    /// How a one-shot command opens a store.
    ///
    /// # Errors
    /// As [`Self::server_options`].
    pub(crate) fn store_options(&self) -> anyhow::Result<OpenOptions> {
        Ok(OpenOptions {
            server: self.server_options()?,
            cache: self.cache(),
            keep_changes: self.keep_changes,
            max_dead_letters: Some(self.max_dead_letters),
        })
    }

    /// Cache of an embedded store, bytes.
    #[must_use]
    pub fn cache(&self) -> u64 {
        (self.memory / 8).min(MAX_CACHE)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// As [`AnyStore::open`], or a file that the settings name cannot be used.
    pub async fn open(&self, access: Access<'_>) -> anyhow::Result<AnyStore> {
        Ok(AnyStore::open(&self.url()?, access, self.store_options()?).await?)
    }

    /// Opens the store for reading; it has to exist.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn reader(&self) -> anyhow::Result<AnyStore> {
        self.open(Access::Read).await
    }

    /// How a one-shot command connects to brokers: it gives up after `connect_timeout`.
    ///
    /// # Errors
    /// As [`Self::daemon_brokers`].
    pub fn brokers(&self) -> Result<Brokers, KafkaError> {
        Ok(self.daemon_brokers(self.kafka.clone())?.within(self.connect_timeout))
    }

    /// How a daemon connects to brokers, for which it waits without limit; with these options of
    /// librdkafka.
    ///
    /// # Errors
    /// An option may not be set by the user, or the password file cannot be read.
    pub(crate) fn daemon_brokers(
        &self,
        options: BTreeMap<String, String>,
    ) -> Result<Brokers, KafkaError> {
        match &*self.kafka_password_file {
            "" => Brokers::new(&self.brokers, options),
            file => Brokers::with_password_file(&self.brokers, options, Some(Path::new(file))),
        }
    }

    /// The schema registry, if one is named.
    ///
    /// # Errors
    /// The file with its login cannot be used.
    pub fn registry(&self) -> anyhow::Result<Option<Arc<Registry>>> {
        let (url, file) = (&self.schema_registry, &self.schema_registry_auth_file);
        if url.is_empty() {
            return Ok(None);
        }
        let key = "schema_registry_auth_file";
        let content = (!file.is_empty()).then(|| self.secret_text(key, file)).transpose()?;
        let credentials = content.map(|content| Credentials::parse(&content)).transpose();
        let credentials = credentials.map_err(|problem| {
            PreconditionFailed(format!("{key} `{file}` cannot be used: {problem}"))
        })?;
        let url = RegistryUrl::parse(url).map_err(PreconditionFailed)?;
        let registry = Registry::new(url, credentials).map_err(PreconditionFailed)?;
        Ok(Some(Arc::new(registry)))
    }

    /// The topic that a flag, a variable or the settings file names; `None`: that of the newest
    /// epoch.
    #[must_use]
    pub(crate) fn given_topic(&self) -> Option<&str> {
        self.is_given("topic").then_some(&*self.topic)
    }
}
