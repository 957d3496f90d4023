//! What a topic is, checked before anything is read from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;

use super::client::Brokers;
use super::dead_letters::LETTERS;
use super::{KafkaError, client_error};

/// How long a question to a broker may take, where nobody says.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where reading begins where nothing tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// At the oldest record there is.
    Earliest,
    /// At the next record to come.
    Latest,
    /// At the first record whose timestamp is at or past it, ms since 1970.
    Time(i64),
}

/// Offsets that a partition has: `first` is the oldest one, `next` that of the next record to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The oldest offset there is.
    pub first: i64,
    /// The offset of the next record to come.
    pub next: i64,
}

/// Asks brokers about topics, and makes them. Its calls block.
pub struct Topics {
    brokers: Brokers,
    client: BaseConsumer,
    admin: AdminClient<DefaultClientContext>,
}

impl Topics {
    /// The addresses of the brokers, for messages.
    #[must_use]
    pub fn addresses(&self) -> &str {
        self.brokers.addresses()
    }

    /// How many partitions a topic has that has to be there.
    ///
    /// # Errors
    /// [`KafkaError::NoTopic`], or no broker answers.
    pub fn needed(&self, topic: &str) -> Result<i32, KafkaError> {
        self.partitions(topic)?.ok_or_else(|| KafkaError::NoTopic {
            brokers: self.addresses().to_owned(),
            topic: topic.to_owned(),
        })
    }

    /// How the brokers are reached.
    #[must_use]
    pub fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    fn patience(&self) -> Duration {
        self.brokers.limit(PATIENCE)
    }

    /// A client of its own; nothing is asked yet.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn new(brokers: &Brokers) -> Result<Self, KafkaError> {
        let config = brokers.config(&[]);
        let options = |error: ClientError| brokers.refused(&error);
        let (client, admin) =
            (config.create().map_err(options)?, config.create().map_err(options)?);
        Ok(Self { brokers: brokers.clone(), client, admin })
    }

    /// How many partitions a topic has; `None` where there is no such topic.
    ///
    /// # Errors
    /// No broker answers.
    pub fn partitions(&self, topic: &str) -> Result<Option<i32>, KafkaError> {
        let metadata = self.client.fetch_metadata(Some(topic), self.patience());
        let metadata = metadata.map_err(|error| self.unreachable(&error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let count = found.filter(|found| found.error().is_none()).map(|it| it.partitions().len());
        Ok(count.filter(|count| *count > 0).and_then(|count| i32::try_from(count).ok()))
    }

    /// The name of the cluster, which no other one has.
    ///
    /// # Errors
    /// No broker answers.
    pub fn cluster(&self) -> Result<String, KafkaError> {
        self.client.client().fetch_cluster_id(self.patience()).ok_or_else(|| {
            let brokers = self.brokers.addresses().to_owned();
            let problem = "it does not tell the id of its cluster".to_owned();
            KafkaError::Unreachable { brokers, problem }
        })
    }

    fn unreachable(&self, error: &ClientError) -> KafkaError {
        let brokers = self.brokers.addresses().to_owned();
        KafkaError::Unreachable { brokers, problem: error.to_string() }
    }

    /// The offsets that each partition has.
    ///
    /// # Errors
    /// No broker answers.
    pub fn extents(&self, topic: &str, partitions: i32) -> Result<Vec<OffsetRange>, KafkaError> {
        let until = Instant::now() + self.patience();
        let extent = |partition| {
            let ask = || self.client.fetch_watermarks(topic, partition, self.patience());
            let (first, next) = self.brokers.insist(until, ask)?;
            Ok(OffsetRange { first, next })
        };
        (0..partitions).map(extent).collect()
    }

    /// Where reading of each partition begins.
    ///
    /// # Errors
    /// No broker answers.
    pub fn offsets_from(
        &self,
        topic: &str,
        from: StartFrom,
        extents: &[OffsetRange],
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let numbered = || (0..).zip(extents.iter().copied());
        let time_ms = match from {
            StartFrom::Earliest => {
                return Ok(numbered().map(|(at, extent)| (at, extent.first)).collect());
            }
            StartFrom::Latest => {
                return Ok(numbered().map(|(at, extent)| (at, extent.next)).collect());
            }
            StartFrom::Time(time_ms) => time_ms,
        };
        let numbered: Vec<_> = numbered().collect();
        let ask = || at_time(&self.client, topic, time_ms, &numbered, self.patience());
        self.brokers.insist(Instant::now() + self.patience(), ask)
    }

    /// A setting of a topic; `None` where the brokers do not tell.
    ///
    /// # Errors
    /// No broker answers.
    pub async fn setting(&self, topic: &str, name: &str) -> Result<Option<String>, KafkaError> {
        let asked = [ResourceSpecifier::Topic(topic)];
        let answer = self.admin.describe_configs(&asked, &self.admin_options()).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let mut found = answer.into_iter().flatten();
        Ok(found.find_map(|resource| resource.get(name).and_then(|entry| entry.value.clone())))
    }

    /// The size of the largest batch of records that a topic takes, bytes; `None` where the brokers
    /// do not tell.
    ///
    /// # Errors
    /// No broker answers.
    pub async fn max_bytes(&self, topic: &str) -> Result<Option<usize>, KafkaError> {
        let found = self.setting(topic, "max.message.bytes").await?;
        Ok(found.and_then(|bytes| bytes.parse().ok()))
    }

    /// Refuses a topic whose records go by key: samples of a device share theirs.
    ///
    /// # Errors
    /// The topic is compacted, or no broker answers.
    pub async fn check_retention(&self, topic: &str) -> Result<(), KafkaError> {
        let policy = self.setting(topic, "cleanup.policy").await?;
        if policy.is_some_and(|policy| policy.contains("compact")) {
            let problem = "its cleanup.policy is `compact`, which keeps one sample a device \
                 and loses the others; set cleanup.policy=delete"
                .to_owned();
            return Err(KafkaError::Unfit { topic: topic.to_owned(), problem });
        }
        Ok(())
    }

    /// Deletes the records before an offset, by partition, so that brokers give their space back.
    ///
    /// # Errors
    /// The brokers refuse, or none answers.
    pub async fn delete_before(
        &self,
        topic: &str,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<(), KafkaError> {
        let doing = "deleting dead letters that were dealt with";
        let mut list = TopicPartitionList::new();
        for (&partition, &offset) in offsets {
            list.add_partition_offset(topic, partition, Offset::Offset(offset))
                .map_err(client_error(doing))?;
        }
        let deleted = self.admin.delete_records(&list, &self.admin_options()).await;
        let deleted = deleted.map_err(|error| self.unreachable(&error))?;
        let mut each = deleted.elements().into_iter();
        each.try_for_each(|partition| partition.error()).map_err(client_error(doing))
    }

    /// Makes topics that are not there.
    ///
    /// # Errors
    /// The brokers refuse, or none answers.
    pub async fn create(&self, topics: &[String], partitions: i32) -> Result<(), KafkaError> {
        let made = topics.iter().map(|name| new_topic(name, partitions)).collect::<Vec<_>>();
        let made = self.admin.create_topics(&made, &self.admin_options()).await;
        let made = made.map_err(|error| self.unreachable(&error))?;
        for outcome in made {
            match outcome {
                // Another instance was sooner.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => (),
                Err((topic, code)) => {
                    let problem = format!("it could not be made: {code}");
                    return Err(KafkaError::Unfit { topic, problem });
                }
            }
        }
        Ok(())
    }

    fn admin_options(&self) -> AdminOptions {
        let patience = Some(self.patience());
        AdminOptions::new().request_timeout(patience).operation_timeout(patience)
    }
}

/// A topic to make. A letter has the time of its record: by the brokers' default one of a record
/// that is a week old would be gone minutes after it was written.
fn new_topic(name: &str, partitions: i32) -> NewTopic<'_> {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
    if name.ends_with(LETTERS) { topic.set("retention.ms", "-1") } else { topic }
}

/// The first offset of each partition whose record is at or past a time; the next one to come where
/// every record is older.
pub(super) fn at_time<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topic: &str,
    time_ms: i64,
    extents: &[(i32, OffsetRange)],
    patience: Duration,
) -> KafkaResult<BTreeMap<i32, i64>> {
    let mut asked = TopicPartitionList::new();
    for &(partition, _) in extents {
        asked.add_partition_offset(topic, partition, Offset::Offset(time_ms))?;
    }
    let answer = client.offsets_for_times(asked, patience)?;
    let mut offsets = BTreeMap::new();
    for &(partition, extent) in extents {
        let found = answer.find_partition(topic, partition);
        let offset = match found {
            Some(found) => {
                found.error()?;
                found.offset()
            }
            None => Offset::End,
        };
        offsets.insert(partition, offset.to_raw().filter(|raw| *raw >= 0).unwrap_or(extent.next));
    }
    Ok(offsets)
}
