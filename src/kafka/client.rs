//! How brokers are reached.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;

use super::KafkaError;

/// Options of the client that the commit rule rests on, with why nobody may set them.
const OURS: [(&str, &str); 9] = [
    ("bootstrap.servers", "it is --brokers"),
    ("group.id", "it is --group"),
    ("group.instance.id", "it is --instance-id"),
    ("enable.auto.commit", "offsets are committed when what they stand for is durable"),
    ("enable.auto.offset.store", "offsets are committed when what they stand for is durable"),
    ("auto.offset.reset", "it is --from"),
    ("enable.partition.eof", "whether the end of a partition is an event is the reader's to say"),
    ("isolation.level", "what a producer took back is no part of the log"),
    ("transactional.id", "it is made of the topic, so that of two replays one gives way"),
];

/// How brokers are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokers {
    addresses: String,
    options: BTreeMap<String, String>,
}

impl Brokers {
    /// `addresses` as `host:port,host:port`; `options` are librdkafka's own.
    ///
    /// # Errors
    /// An option is not the user's to set.
    pub fn new(addresses: &str, options: BTreeMap<String, String>) -> Result<Self, KafkaError> {
        for (name, why) in OURS {
            if options.contains_key(name) {
                let problem = format!("`{name}` cannot be set with --kafka: {why}");
                return Err(KafkaError::Options { problem });
            }
        }
        Ok(Self { addresses: addresses.to_owned(), options })
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
        for (name, value) in &self.options {
            config.set(name, value);
        }
        config
    }
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
        let brokers = Brokers::new("b:1", option("fetch.queue.backoff.ms")).unwrap();
        let config = brokers.config(&[("fetch.queue.backoff.ms", "10"), ("acks", "all")]);
        assert_eq!(config.get("fetch.queue.backoff.ms"), Some("x"), "the user's stands");
        assert_eq!(config.get("acks"), Some("all"));
    }
}
