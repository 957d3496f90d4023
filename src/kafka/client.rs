//! How brokers are reached.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;

use super::{KafkaError, client_error, options};

/// Options of the client that the commit rule rests on, with why nobody may set them.
const OURS: [(&str, &str); 10] = [
    ("bootstrap.servers", "it is --brokers"),
    ("group.id", "it is --group"),
    ("group.instance.id", "it is --instance-id"),
    ("enable.auto.commit", "offsets are committed when what they stand for is durable"),
    ("enable.auto.offset.store", "offsets are committed when what they stand for is durable"),
    ("auto.offset.reset", "it is --from"),
    ("enable.partition.eof", "whether the end of a partition is an event is the reader's to say"),
    ("isolation.level", "what a producer took back is no part of the log"),
    (
        "receive.message.max.bytes",
        "what a batch may unpack to has to be the same whoever reads it: beyond it is a dead letter",
    ),
    ("transactional.id", "it is made of the topic, so that of two replays one gives way"),
];

/// How often the client tells what it knows, ms.
pub(super) const STATISTICS: &str = "statistics.interval.ms";

/// How brokers are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokers {
    addresses: String,
    options: BTreeMap<String, String>,
    /// How long they may keep silent; `None` leaves it to who asks.
    patience: Option<Duration>,
}

/// Shorter than what a record waits for others to go with, no record would ever be sent.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// The client knows no longer times than some days.
const MOST_PATIENCE: Duration = Duration::from_secs(86_400);

/// How long to wait before the same question.
const ASK_AGAIN: Duration = Duration::from_millis(200);

impl Brokers {
    /// `addresses` as `host:port,host:port`; `options` are librdkafka's own.
    ///
    /// # Errors
    /// An option is not the user's to set, or asks for TLS in a build without it.
    pub fn new(addresses: &str, options: BTreeMap<String, String>) -> Result<Self, KafkaError> {
        for (name, why) in OURS {
            if options.contains_key(name) {
                let problem = format!("`{name}` cannot be set with --kafka: {why}");
                return Err(KafkaError::Options { problem });
            }
        }
        if options.get(STATISTICS).is_some_and(|ms| ms.trim() == "0") {
            let problem = format!(
                "`{STATISTICS}` cannot be 0 with --kafka: the client's statistics tell which commits the brokers keep; leave it out, or give ms"
            );
            return Err(KafkaError::Options { problem });
        }
        #[cfg(not(feature = "tls"))]
        if is_tls(&options) {
            let problem = "`security.protocol` asks for TLS, and this program was built without it: build it with `cargo build --release --features tls`".into();
            return Err(KafkaError::Options { problem });
        }
        Ok(Self { addresses: addresses.to_owned(), options, patience: None })
    }

    /// The same for a command that ends: brokers that get nothing done for so long are given up.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience: Some(patience.clamp(LEAST_PATIENCE, MOST_PATIENCE)), ..self }
    }

    /// How long brokers may keep silent, where that is bounded.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// How long to wait for an answer, by its own measure `usual`.
    pub(super) fn limit(&self, usual: Duration) -> Duration {
        self.patience.unwrap_or(usual)
    }

    /// What a failure of the client comes to: brokers that do not answer, or something else.
    pub(super) fn failed(&self, doing: &'static str, error: ClientError) -> KafkaError {
        use RDKafkaErrorCode as Code;
        match error.rdkafka_error_code() {
            Some(
                Code::OperationTimedOut
                | Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::MessageTimedOut
                | Code::WaitingForCoordinator
                | Code::Resolve,
            ) => {
                let problem = format!("{error} while {doing}");
                KafkaError::Unreachable { brokers: self.addresses.clone(), problem }
            }
            _ => client_error(doing)(error),
        }
    }

    /// Asks again until there is an answer, or the time is up: a partition that was just made, or
    /// that moves, has no leader for a while. Blocks.
    pub(super) fn insist<T>(
        &self,
        until: Instant,
        mut ask: impl FnMut() -> KafkaResult<T>,
    ) -> Result<T, KafkaError> {
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(error) if Instant::now() >= until => {
                    let problem = error.to_string();
                    return Err(KafkaError::Unreachable {
                        brokers: self.addresses.clone(),
                        problem,
                    });
                }
                Err(_) => std::thread::sleep(ASK_AGAIN),
            }
        }
    }

    /// The addresses, for messages.
    #[must_use]
    pub fn addresses(&self) -> &str {
        &self.addresses
    }

    /// A configuration with these options over those of the program, the user's over both.
    pub(super) fn config(&self, ours: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.addresses);
        config.set("client.id", "tstar");
        for (name, value) in ours {
            config.set(*name, *value);
        }
        #[cfg(feature = "tls")]
        if let Some(file) = self.authorities() {
            config.set("ssl.ca.location", file);
        }
        for (name, value) in &self.options {
            config.set(name, value);
        }
        config
    }

    /// A consumer that belongs to no group's work: it reads what was committed by producers, and
    /// commits nothing itself. What expired, or a topic that was made anew, begins where it begins.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub(super) fn onlooker(&self, ours: &[(&str, &str)]) -> Result<BaseConsumer, KafkaError> {
        let common = [
            // The client assigns nothing without one.
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
        config.create().map_err(|error| self.refused(&error))
    }

    /// What is wrong with options that the client refuses, without the secrets among them.
    pub(super) fn refused(&self, error: &ClientError) -> KafkaError {
        options::refused(&self.options, error)
    }

    /// A text of the client without the secrets among the options.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        options::without_secrets(&self.options, text)
    }

    /// Whom the system trusts, where TLS is asked for and nobody is named: the library is built
    /// with the program and looks where no system keeps its certificates.
    #[cfg(feature = "tls")]
    fn authorities(&self) -> Option<String> {
        let mut named = ["ssl.ca.location", "ssl.ca.pem"].into_iter();
        if !is_tls(&self.options) || named.any(|name| self.options.contains_key(name)) {
            return None;
        }
        openssl_probe::probe().cert_file?.into_os_string().into_string().ok()
    }
}

/// Whether brokers are to be reached over TLS, with or without SASL.
fn is_tls(options: &BTreeMap<String, String>) -> bool {
    let protocol = options.get("security.protocol");
    protocol.is_some_and(|protocol| protocol.to_ascii_lowercase().ends_with("ssl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_commit_rule_rests_on_cannot_be_set() {
        let option = |name: &str| BTreeMap::from([(name.to_owned(), "x".to_owned())]);
        for (name, why) in OURS {
            let refused = Brokers::new("b:1", option(name)).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains(why), "{refused}");
        }
        let silent = [(STATISTICS.to_owned(), "0".to_owned())];
        let refused = Brokers::new("b:1", silent.into()).unwrap_err().to_string();
        assert!(refused.contains("which commits the brokers keep"), "{refused}");
        let brokers = Brokers::new("b:1", option("fetch.queue.backoff.ms")).unwrap();
        let config = brokers.config(&[("fetch.queue.backoff.ms", "10"), ("acks", "all")]);
        assert_eq!(config.get("fetch.queue.backoff.ms"), Some("x"), "the user's stands");
        assert_eq!(config.get("acks"), Some("all"));
    }

    #[test]
    fn a_partition_without_a_leader_is_asked_for_again_until_the_time_is_up() {
        let brokers = Brokers::new("b:1", BTreeMap::new()).unwrap();
        let no_leader = || ClientError::MetadataFetch(RDKafkaErrorCode::NotLeaderForPartition);
        let mut asked = 0;
        let soon = Instant::now() + Duration::from_mins(1);
        let answer = brokers.insist(soon, || {
            asked += 1;
            if asked < 3 { Err(no_leader()) } else { Ok(asked) }
        });
        assert_eq!(answer.unwrap(), 3);
        let refused = brokers.insist(Instant::now(), || Err::<(), _>(no_leader())).unwrap_err();
        assert!(matches!(refused, KafkaError::Unreachable { .. }), "{refused}");
    }

    /// Options of TLS, and one more.
    #[cfg(feature = "tls")]
    fn over_tls(protocol: &str, name: &str, value: &str) -> ClientConfig {
        let options = [("security.protocol", protocol), (name, value)];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Brokers::new("b:1", options.into()).unwrap().config(&[])
    }

    #[cfg(feature = "tls")]
    #[test]
    fn whom_the_system_trusts_is_trusted_where_nobody_is_named() {
        let system = openssl_probe::probe().cert_file.expect("this system trusts somebody");
        for protocol in ["ssl", "SASL_SSL"] {
            let config = over_tls(protocol, "acks", "all");
            assert_eq!(config.get("ssl.ca.location"), system.to_str(), "{protocol}");
            let config = over_tls(protocol, "ssl.ca.location", "ca.pem");
            assert_eq!(config.get("ssl.ca.location"), Some("ca.pem"), "{protocol}");
            let config = over_tls(protocol, "ssl.ca.pem", "-----BEGIN");
            assert_eq!(config.get("ssl.ca.location"), None, "nobody but those named");
        }
        let config = over_tls("sasl_plaintext", "acks", "all");
        assert_eq!(config.get("ssl.ca.location"), None);
    }
}
