//! Members and committed offsets of a consumer group. All calls block.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::Offset;

use super::client::Brokers;
use super::{KafkaError, client_error};

/// Request timeout if [`Brokers`] sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Upper limit of librdkafka's `session.timeout.ms`: its default `max.poll.interval.ms`.
const MAX_SESSION_MS: u128 = 300_000;

/// Client for a group that this process does not join.
pub struct Group {
    client: BaseConsumer,
    brokers: Brokers,
    name: String,
}

impl Group {
    /// Creates a client; sends no request yet.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn new(brokers: &Brokers, name: &str) -> Result<Self, KafkaError> {
        let session = brokers.timeout().map(|it| it.as_millis().min(MAX_SESSION_MS).to_string());
        let mut ours = vec![("group.id", name), ("enable.auto.commit", "false")];
        if let Some(session) = &session {
            // The client looks for the group coordinator for this long. It never joins the group.
            ours.push(("session.timeout.ms", session));
        }
        let config = brokers.config(&ours);
        let client = config.create().map_err(|error| brokers.refused(&error))?;
        Ok(Self { client, brokers: brokers.clone(), name: name.to_owned() })
    }

    /// Number of members that the group has now.
    ///
    /// # Errors
    /// No broker responds.
    pub fn members(&self) -> Result<usize, KafkaError> {
        let groups = self
            .client
            .fetch_group_list(Some(&self.name), self.brokers.timeout_or(DEFAULT_TIMEOUT));
        let groups = groups.map_err(|error| self.unreachable(&error))?;
        Ok(groups.groups().iter().map(|group| group.members().len()).sum())
    }

    /// Committed offsets of the group, by partition.
    ///
    /// # Errors
    /// No broker responds.
    pub fn committed(
        &self,
        topic: &str,
        partitions: i32,
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition(topic, partition);
        }
        let committed =
            self.client.committed_offsets(list, self.brokers.timeout_or(DEFAULT_TIMEOUT));
        let committed = committed.map_err(|error| self.unreachable(&error))?;
        let offset =
            |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match element
                .offset()
            {
                Offset::Offset(offset) => Some((element.partition(), offset)),
                _ => None,
            };
        Ok(committed.elements().into_iter().filter_map(offset).collect())
    }

    /// Commits offsets for a group without members.
    ///
    /// # Errors
    /// The brokers refuse, or none responds.
    pub fn set(&self, topic: &str, offsets: &BTreeMap<i32, i64>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for (&partition, &offset) in offsets {
            list.add_partition_offset(topic, partition, Offset::Offset(offset))
                .map_err(client_error("naming an offset"))?;
        }
        let set = self.client.commit(&list, CommitMode::Sync);
        set.map_err(|error| self.brokers.failed("setting the offsets of the group", error))
    }

    fn unreachable(&self, error: &ClientError) -> KafkaError {
        let brokers = self.brokers.addresses().to_owned();
        KafkaError::Unreachable { brokers, problem: error.to_string() }
    }
}
