//! A consumer group from outside: who is in it, and how far it has read. Its calls block.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::Offset;

use super::client::Brokers;
use super::{KafkaError, client_error};

/// How long a question to a broker may take, where nobody says.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client takes no longer session than a poll may take, ms.
const MOST_MS: u128 = 300_000;

/// Asks about a group that this process is no member of.
pub struct Group {
    client: BaseConsumer,
    brokers: Brokers,
    name: String,
}

impl Group {
    /// A client of its own; nothing is asked yet.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn new(brokers: &Brokers, name: &str) -> Result<Self, KafkaError> {
        let session = brokers.patience().map(|it| it.as_millis().min(MOST_MS).to_string());
        let mut ours = vec![("group.id", name), ("enable.auto.commit", "false")];
        if let Some(session) = &session {
            // So long it looks for who keeps the offsets. The group it never joins.
            ours.push(("session.timeout.ms", session));
        }
        let config = brokers.config(&ours);
        let client = config.create().map_err(|error| brokers.refused(&error))?;
        Ok(Self { client, brokers: brokers.clone(), name: name.to_owned() })
    }

    /// How many members the group has now.
    ///
    /// # Errors
    /// No broker answers.
    pub fn members(&self) -> Result<usize, KafkaError> {
        let groups = self.client.fetch_group_list(Some(&self.name), self.brokers.limit(PATIENCE));
        let groups = groups.map_err(|error| self.unreachable(&error))?;
        Ok(groups.groups().iter().map(|group| group.members().len()).sum())
    }

    /// The offsets that the group has committed, by partition.
    ///
    /// # Errors
    /// No broker answers.
    pub fn committed(
        &self,
        topic: &str,
        partitions: i32,
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let mut asked = TopicPartitionList::new();
        for partition in 0..partitions {
            asked.add_partition(topic, partition);
        }
        let answer = self.client.committed_offsets(asked, self.brokers.limit(PATIENCE));
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let offset = |found: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match found
            .offset()
        {
            Offset::Offset(offset) => Some((found.partition(), offset)),
            _ => None,
        };
        Ok(answer.elements().into_iter().filter_map(offset).collect())
    }

    /// Sets the offsets of a group without members.
    ///
    /// # Errors
    /// The brokers refuse, or none answers.
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
