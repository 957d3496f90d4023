//! Connection settings of the brokers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, DefaultConsumerContext};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_extra::{HasClient, LoggedIn};
use tokio::time::Instant;

use super::login::Login;
use super::options::CODE_OPTIONS;
use super::rights::{Right, is_denial};
use super::{KafkaError, client_error, options};

/// Client options that the commit rule depends on, each with the reason why a user may not set it.
const FIXED_OPTIONS: [(&str, &str); 10] = [
    ("bootstrap.servers", "use --brokers"),
    ("group.id", "use --group"),
    ("group.instance.id", "use --instance-id"),
    ("enable.auto.commit", "tstar commits an offset once everything before it is durable"),
    ("enable.auto.offset.store", "tstar commits an offset once everything before it is durable"),
    ("auto.offset.reset", "use --from"),
    ("enable.partition.eof", "each reader sets it as it needs"),
    ("isolation.level", "records of aborted transactions are not part of the log"),
    (
        "receive.message.max.bytes",
        "it has to be the same whoever reads it: a batch that unpacks to more is a dead letter",
    ),
    (
        "transactional.id",
        "it is derived from the topic, so that the later of two replays fences the earlier",
    ),
];

/// Option: interval of the statistics, ms.
pub(super) const STATISTICS: &str = "statistics.interval.ms";

/// Connection settings of the brokers.
#[derive(Clone)]
pub struct Brokers {
    addresses: String,
    /// As the user gave them.
    options: BTreeMap<String, String>,
    /// As librdkafka gets them.
    client_options: BTreeMap<String, String>,
    /// The login, if it is by tokens.
    login: Option<Arc<Login>>,
    /// Longest time without progress; `None`: each caller's default.
    timeout: Option<Duration>,
}

/// Options may be secrets.
impl fmt::Debug for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brokers").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Has to exceed `linger.ms`: with a shorter timeout no record would ever be sent.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// librdkafka limits its timeouts to some days.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// Delay before the same request is sent again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Brokers {
    /// `addresses` as `host:port,host:port`; `options` are librdkafka's own.
    ///
    /// # Errors
    /// An option may not be set, or needs TLS in a build without it.
    pub fn new(addresses: &str, options: BTreeMap<String, String>) -> Result<Self, KafkaError> {
        Self::with_password_file(addresses, options, None)
    }

    /// [`Brokers::new`] with a file that has the password of `sasl.username`, or the secret of the
    /// client of an OAuth token endpoint. It is read once.
    ///
    /// # Errors
    /// Those of [`Brokers::new`]; the file cannot be read, or there is no user for it.
    pub(crate) fn with_password_file(
        addresses: &str,
        options: BTreeMap<String, String>,
        password_file: Option<&Path>,
    ) -> Result<Self, KafkaError> {
        for (name, why) in FIXED_OPTIONS.into_iter().chain(CODE_OPTIONS) {
            if options.contains_key(name) {
                let problem = format!("`{name}` cannot be set with --kafka: {why}");
                return Err(KafkaError::Options { problem });
            }
        }
        if options.get(STATISTICS).is_some_and(|ms| ms.trim() == "0") {
            let problem = format!(
                "`{STATISTICS}` cannot be 0 with --kafka: the client's statistics show which \
                 commits the brokers keep; leave it out, or set it in ms"
            );
            return Err(KafkaError::Options { problem });
        }
        #[cfg(not(feature = "tls"))]
        if is_tls(&options) {
            let problem = "`security.protocol` needs TLS, which this build lacks; build \
                           without `--no-default-features`"
                .into();
            return Err(KafkaError::Options { problem });
        }
        let mut client_options = options.clone();
        let login = Login::from_options(&mut client_options, password_file)
            .map_err(|problem| KafkaError::Options { problem })?;
        let addresses = addresses.to_owned();
        Ok(Self { addresses, options, client_options, login, timeout: None })
    }

    /// Sets the longest time without progress, for commands that end by themselves.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout.clamp(MIN_TIMEOUT, MAX_TIMEOUT)), ..self }
    }

    /// The longest time without progress, if one is set.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The longest time without progress, or `default` if none is set.
    pub(super) fn timeout_or(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
    }

    /// Converts an error of a request that needs these rights: [`KafkaError::Denied`] if one is
    /// missing, [`KafkaError::Unreachable`] if no broker responded, else [`KafkaError::Client`].
    pub(super) fn failed(
        &self,
        doing: &'static str,
        rights: &[Right],
        error: ClientError,
    ) -> KafkaError {
        use RDKafkaErrorCode as Code;
        let code = error.rdkafka_error_code();
        if let Some(denied) = code.and_then(|code| self.denied(rights, code)) {
            return denied;
        }
        match code {
            Some(
                Code::OperationTimedOut
                | Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::MessageTimedOut
                | Code::WaitingForCoordinator
                | Code::Resolve,
            ) => self.unreachable(format!("{error} while {doing}")),
            _ => client_error(doing)(error),
        }
    }

    /// The error of a request that needs these rights, if brokers answered that one is missing.
    pub(super) fn denied(&self, rights: &[Right], code: RDKafkaErrorCode) -> Option<KafkaError> {
        let right = is_denial(code).then(|| Right::denied(rights, code)).flatten()?;
        let (brokers, principal) = (self.addresses.clone(), self.principal());
        Some(KafkaError::Denied { brokers, principal, right })
    }

    /// The command that grants a right to this client.
    pub(super) fn grant(&self, right: &Right) -> String {
        right.grant(&self.addresses, &self.principal())
    }

    /// Who the brokers take this client for, as their tools write it.
    fn principal(&self) -> String {
        match self.options.get("sasl.username") {
            Some(user) => format!("User:{user}"),
            None if self.options.contains_key("security.protocol") => "User:NAME".to_owned(),
            None => "User:ANONYMOUS".to_owned(),
        }
    }

    /// Repeats a request until it succeeds or the deadline has passed: a partition that was just
    /// created, or that moves, has no leader for a while. Blocks.
    pub(super) fn retry_until<T>(
        &self,
        rights: &[Right],
        deadline: Instant,
        request: impl FnMut() -> KafkaResult<T>,
    ) -> Result<T, KafkaError> {
        self.retry_with(rights, std::thread::sleep, || Instant::now() >= deadline, request)
    }

    /// Like [`Brokers::retry_until`], until a failure when `is_over` returns true. Calls `sleep`
    /// between the requests.
    pub(super) fn retry_with<T>(
        &self,
        rights: &[Right],
        sleep: impl Fn(Duration),
        is_over: impl Fn() -> bool,
        mut request: impl FnMut() -> KafkaResult<T>,
    ) -> Result<T, KafkaError> {
        let denied = |error: &ClientError| self.denied(rights, error.rdkafka_error_code()?);
        loop {
            let answer = request();
            if let Some(denied) = answer.as_ref().err().and_then(denied) {
                return Err(denied);
            }
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) if is_over() => return Err(self.unreachable(error.to_string())),
                Err(_) => sleep(RETRY_INTERVAL),
            }
        }
    }

    /// No broker responded. Adds why this program cannot log in, if it cannot.
    pub(super) fn unreachable(&self, problem: String) -> KafkaError {
        let login = self.login.as_ref().and_then(|login| login.problem());
        let login = login.map_or_else(String::new, |login| format!("; no login: {login}"));
        let brokers = self.addresses.clone();
        KafkaError::Unreachable { brokers, problem: format!("{problem}{login}") }
    }

    /// The addresses, as given.
    #[must_use]
    pub fn addresses(&self) -> &str {
        &self.addresses
    }

    /// Builds a client configuration from these options and the user's, which take precedence.
    pub(super) fn config(&self, ours: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.addresses);
        config.set("client.id", "tstar");
        for (name, value) in ours {
            config.set(*name, *value);
        }
        #[cfg(feature = "tls")]
        if let Some(file) = self.system_ca() {
            config.set("ssl.ca.location", file);
        }
        for (name, value) in &self.client_options {
            config.set(name, value);
        }
        config
    }

    /// Creates a client that logs in at these brokers.
    ///
    /// # Errors
    /// An option is unknown to the client, or it does not accept the login.
    pub(super) fn create<C, T>(
        &self,
        config: &ClientConfig,
        context: C,
    ) -> Result<LoggedIn<T>, KafkaError>
    where
        C: ClientContext,
        T: FromClientConfigAndContext<C> + HasClient,
    {
        let client: T =
            config.create_with_context(context).map_err(|error| self.refused(&error))?;
        let Some(login) = &self.login else { return Ok(client.into()) };
        login.add(client).map_err(|problem| KafkaError::Options { problem })
    }

    /// Creates a consumer that joins no group: it reads committed records and commits no offsets.
    /// If an offset has expired, or the topic was recreated, it starts at the oldest record.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub(super) fn standalone_consumer(
        &self,
        ours: &[(&str, &str)],
    ) -> Result<LoggedIn<BaseConsumer>, KafkaError> {
        let common = [
            // The client assigns nothing without a group id.
            ("group.id", "tstar-scan"),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "earliest"),
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
            ("check.crcs", "true"),
            ("allow.auto.create.topics", "false"),
        ];
        let config = self.config(&[&common, ours].concat());
        self.create(&config, DefaultConsumerContext)
    }

    /// Describes options that the client refuses, without the secrets among them.
    pub(super) fn refused(&self, error: &ClientError) -> KafkaError {
        options::refused(&self.options, error)
    }

    /// Removes the secrets among the options from a text of the client.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        options::without_secrets(&self.options, text)
    }

    /// The system's CA file, if TLS is on and no CA is configured: the OpenSSL built into the
    /// program does not know where the system keeps its certificates.
    #[cfg(feature = "tls")]
    fn system_ca(&self) -> Option<String> {
        let mut explicit = ["ssl.ca.location", "ssl.ca.pem"].into_iter();
        if !is_tls(&self.options) || explicit.any(|name| self.options.contains_key(name)) {
            return None;
        }
        openssl_probe::probe().cert_file?.into_os_string().into_string().ok()
    }
}

/// Whether the connection uses TLS, with or without SASL.
fn is_tls(options: &BTreeMap<String, String>) -> bool {
    let protocol = options.get("security.protocol");
    protocol.is_some_and(|protocol| protocol.to_ascii_lowercase().ends_with("ssl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_commit_rule_cannot_be_set() {
        let option = |name: &str| BTreeMap::from([(name.to_owned(), "x".to_owned())]);
        for (name, why) in FIXED_OPTIONS.into_iter().chain(CODE_OPTIONS) {
            let refused = Brokers::new("b:1", option(name)).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains(why), "{refused}");
        }
        let no_statistics = [(STATISTICS.to_owned(), "0".to_owned())];
        let refused = Brokers::new("b:1", no_statistics.into()).unwrap_err().to_string();
        assert!(refused.contains("which commits the brokers keep"), "{refused}");
        let brokers = Brokers::new("b:1", option("fetch.queue.backoff.ms")).unwrap();
        let config = brokers.config(&[("fetch.queue.backoff.ms", "10"), ("acks", "all")]);
        assert_eq!(config.get("fetch.queue.backoff.ms"), Some("x"), "the user's value wins");
        assert_eq!(config.get("acks"), Some("all"));
    }

    #[test]
    fn debug_output_has_no_secret() {
        let options = BTreeMap::from([("sasl.password".to_owned(), "hush".to_owned())]);
        let printed = format!("{:?}", Brokers::new("b:1", options).unwrap());
        assert_eq!(printed, r#"Brokers { addresses: "b:1", .. }"#);
    }

    #[test]
    fn a_partition_without_a_leader_is_retried_until_the_deadline() {
        let brokers = Brokers::new("b:1", BTreeMap::new()).unwrap();
        let no_leader = || ClientError::MetadataFetch(RDKafkaErrorCode::NotLeaderForPartition);
        let mut calls = 0;
        let deadline = Instant::now() + Duration::from_mins(1);
        let answer = brokers.retry_until(&[], deadline, || {
            calls += 1;
            if calls < 3 { Err(no_leader()) } else { Ok(calls) }
        });
        assert_eq!(answer.unwrap(), 3);
        let refused =
            brokers.retry_until(&[], Instant::now(), || Err::<(), _>(no_leader())).unwrap_err();
        assert!(matches!(refused, KafkaError::Unreachable { .. }), "{refused}");
    }

    #[test]
    fn a_denied_request_is_not_repeated_and_the_command_that_grants_it_is_named() {
        let grant = |options: &[(&str, &str)]| {
            let pairs = options.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let brokers = Brokers::new("b:1", pairs.collect()).unwrap();
            let denied = || ClientError::OffsetFetch(RDKafkaErrorCode::GroupAuthorizationFailed);
            let rights = [Right::group("Describe", "tstar")];
            let never = Instant::now() + Duration::from_hours(1);
            let refused = brokers.retry_until(&rights, never, || Err::<(), _>(denied()));
            refused.unwrap_err().to_string()
        };
        let anonymous = grant(&[]);
        assert!(anonymous.starts_with("the brokers deny Describe on group `tstar`"), "{anonymous}");
        assert!(anonymous.contains("--allow-principal User:ANONYMOUS"), "{anonymous}");
        let user = grant(&[("sasl.username", "ann")]);
        assert!(user.contains("--bootstrap-server b:1 --add --allow-principal User:ann"), "{user}");
    }

    /// Configuration with `security.protocol` and one more option.
    #[cfg(feature = "tls")]
    fn tls_config(protocol: &str, name: &str, value: &str) -> ClientConfig {
        let options = [("security.protocol", protocol), (name, value)];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Brokers::new("b:1", options.into()).unwrap().config(&[])
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_systems_cas_are_trusted_unless_others_are_configured() {
        let system = openssl_probe::probe().cert_file.expect("the system has CA certificates");
        for protocol in ["ssl", "SASL_SSL"] {
            let config = tls_config(protocol, "acks", "all");
            assert_eq!(config.get("ssl.ca.location"), system.to_str(), "{protocol}");
            let config = tls_config(protocol, "ssl.ca.location", "ca.pem");
            assert_eq!(config.get("ssl.ca.location"), Some("ca.pem"), "{protocol}");
            let config = tls_config(protocol, "ssl.ca.pem", "-----BEGIN");
            assert_eq!(config.get("ssl.ca.location"), None, "only the configured CAs");
        }
        let config = tls_config("sasl_plaintext", "acks", "all");
        assert_eq!(config.get("ssl.ca.location"), None);
    }
}
