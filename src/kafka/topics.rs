//! Topic metadata and administration.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_extra::{LoggedIn, topic_id};
use tokio::time::Instant;

use super::client::Brokers;
use super::problems::{self, Problems};
use super::rights::Right;
use super::topic_settings::{self, TopicSettings};
use super::{KafkaError, client_error, offset_list};

/// Request timeout if [`Brokers`] sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to start on the first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// At the oldest record.
    Earliest,
    /// At the next record to be written.
    Latest,
    /// At the first record with this timestamp or a later one, ms since 1970.
    Time(i64),
}

/// Offset range of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// Oldest offset.
    pub first: i64,
    /// End offset: that of the next record to be written.
    pub next: i64,
}

/// Queries and changes topics. Calls that are not `async` block.
pub struct Topics {
    brokers: Brokers,
    client: LoggedIn<BaseConsumer<Problems>>,
    admin: LoggedIn<AdminClient<DefaultClientContext>>,
}

impl Topics {
    /// The addresses of the brokers, as given.
    #[must_use]
    pub fn addresses(&self) -> &str {
        self.brokers.addresses()
    }

    /// Partition count of a topic that has to exist.
    ///
    /// # Errors
    /// [`KafkaError::NoTopic`], or no broker responds.
    pub fn needed(&self, topic: &str) -> Result<i32, KafkaError> {
        self.partitions(topic)?.ok_or_else(|| KafkaError::NoTopic {
            brokers: self.addresses().to_owned(),
            topic: topic.to_owned(),
        })
    }

    /// Connection settings.
    #[must_use]
    pub fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    fn timeout(&self) -> Duration {
        self.brokers.timeout_or(DEFAULT_TIMEOUT)
    }

    /// Creates the clients; sends no request yet.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn new(brokers: &Brokers) -> Result<Self, KafkaError> {
        let config = brokers.config(&[]);
        let client = Problems::observed(brokers, config.clone())?;
        let admin = brokers.create(&config, DefaultClientContext)?;
        Ok(Self { brokers: brokers.clone(), client, admin })
    }

    /// Partition count of a topic; `None` if it does not exist.
    ///
    /// # Errors
    /// The topic may not be described, its name is not valid, or no broker responds.
    pub fn partitions(&self, topic: &str) -> Result<Option<i32>, KafkaError> {
        use RDKafkaErrorCode as Code;
        let failed = |error: &ClientError| self.failed(&describe(topic), error);
        let metadata = match self.client.fetch_metadata(Some(topic), self.timeout()) {
            Err(error) if is_unknown(&error) => return Ok(None),
            metadata => metadata.map_err(|error| failed(&error))?,
        };
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        match found.error().map(Code::from) {
            None => Ok(i32::try_from(found.partitions().len()).ok().filter(|count| *count > 0)),
            Some(code) if is_unknown(&ClientError::MetadataFetch(code)) => Ok(None),
            Some(Code::InvalidTopic) => {
                let problem = "is not a valid name: Kafka allows up to 249 letters, digits, `.`, \
                               `_` and `-`";
                let (topic, problem) = (topic.to_owned(), problem.to_owned());
                Err(KafkaError::TopicMismatch { topic, problem })
            }
            Some(code) => Err(failed(&ClientError::MetadataFetch(code))),
        }
    }

    /// The globally unique id of the cluster.
    ///
    /// # Errors
    /// No broker responds.
    pub fn cluster(&self) -> Result<String, KafkaError> {
        self.client.client().fetch_cluster_id(self.timeout()).ok_or_else(|| {
            let brokers = self.brokers.addresses().to_owned();
            let problem = "they report no cluster id".to_owned();
            KafkaError::Unreachable { brokers, problem }
        })
    }

    /// The id of a topic, which distinguishes it from others of its name; `None` if the brokers
    /// give none.
    ///
    /// # Errors
    /// No broker responds.
    pub fn id(&self, topic: &str) -> Result<Option<String>, KafkaError> {
        match topic_id(&*self.client, topic, self.timeout()) {
            Err(ClientError::AdminOp(RDKafkaErrorCode::UnsupportedFeature)) => Ok(None),
            Err(error) if is_unknown(&error) => {
                self.needed(topic)?;
                Err(self.failed(&describe(topic), &error))
            }
            id => id.map_err(|error| self.failed(&describe(topic), &error)),
        }
    }

    /// Repeats a request about a topic. Brokers forget a deleted topic one by one: one of them may
    /// have described what the next one does not know any more.
    fn retried<T>(
        &self,
        topic: &str,
        deadline: Instant,
        mut request: impl FnMut() -> KafkaResult<T>,
    ) -> Result<T, KafkaError> {
        let mut last = None;
        let noted = || request().inspect_err(|error| last = Some(error.clone()));
        let answer = self.brokers.retry_until(&describe(topic), deadline, noted);
        if answer.is_err() && last.as_ref().is_some_and(is_unknown) {
            self.needed(topic)?;
        }
        answer
    }

    /// Converts the error of a request that needs these rights.
    fn failed(&self, rights: &[Right], error: &ClientError) -> KafkaError {
        problems::explain(&self.brokers, &self.client, rights, error)
    }

    /// Offset range of each partition.
    ///
    /// # Errors
    /// No broker responds.
    pub fn extents(&self, topic: &str, partitions: i32) -> Result<Vec<OffsetRange>, KafkaError> {
        let deadline = Instant::now() + self.timeout();
        let extent = |partition| {
            let request = || self.client.fetch_watermarks(topic, partition, self.timeout());
            let (first, next) = self.retried(topic, deadline, request)?;
            Ok(OffsetRange { first, next })
        };
        (0..partitions).map(extent).collect()
    }

    /// Start offset of each partition.
    ///
    /// # Errors
    /// No broker responds.
    pub(crate) fn offsets_from(
        &self,
        topic: &str,
        from: StartFrom,
        extents: &[OffsetRange],
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let by_partition = || (0..).zip(extents.iter().copied());
        let time_ms = match from {
            StartFrom::Earliest => {
                return Ok(by_partition().map(|(at, extent)| (at, extent.first)).collect());
            }
            StartFrom::Latest => {
                return Ok(by_partition().map(|(at, extent)| (at, extent.next)).collect());
            }
            StartFrom::Time(time_ms) => time_ms,
        };
        let by_partition: Vec<_> = by_partition().collect();
        let request = || at_time(&self.client, topic, time_ms, &by_partition, self.timeout());
        self.retried(topic, Instant::now() + self.timeout(), request)
    }

    /// A setting of a topic; `None` if the brokers do not report it.
    ///
    /// # Errors
    /// No broker responds.
    pub async fn setting(&self, topic: &str, name: &str) -> Result<Option<String>, KafkaError> {
        Ok(self.settings(topic).await?.remove(name))
    }

    /// The settings of a topic that the brokers report: none if the user may not read them, as the
    /// client drops that error.
    ///
    /// # Errors
    /// No broker responds.
    pub async fn settings(&self, topic: &str) -> Result<TopicSettings, KafkaError> {
        let resources = [ResourceSpecifier::Topic(topic)];
        let answer = self.admin.describe_configs(&resources, &self.admin_options()).await;
        let answer = answer.map_err(|error| self.failed(&describe(topic), &error))?;
        let entries = answer.into_iter().flatten().flat_map(|resource| resource.entries);
        Ok(entries.filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    /// What helps if the brokers report no setting of a topic.
    #[must_use]
    pub fn no_settings(&self, topic: &str) -> String {
        let grant = self.brokers.grant(&Right::topic("DescribeConfigs", topic));
        format!(
            "the brokers report no settings of topic `{topic}`, as to a user who lacks \
             DescribeConfigs; grant it: {grant}"
        )
    }

    /// Maximum size of a batch of records that a topic accepts, bytes; `None` if the brokers do not
    /// report it.
    ///
    /// # Errors
    /// No broker responds.
    pub async fn max_bytes(&self, topic: &str) -> Result<Option<usize>, KafkaError> {
        let found = self.setting(topic, "max.message.bytes").await?;
        Ok(found.and_then(|bytes| bytes.parse().ok()))
    }

    /// Checks that a topic is not compacted: compaction would delete all but the last record of
    /// each device.
    ///
    /// # Errors
    /// The topic is compacted, or no broker responds.
    pub(crate) async fn check_retention(&self, topic: &str) -> Result<(), KafkaError> {
        let policy = self.setting(topic, "cleanup.policy").await?;
        if policy.is_some_and(|policy| policy.contains("compact")) {
            let problem = "its cleanup.policy is `compact`, which keeps only the last record \
                 of each device; set cleanup.policy=delete"
                .to_owned();
            return Err(KafkaError::Unsuitable { topic: topic.to_owned(), problem });
        }
        Ok(())
    }

    /// Deletes the records before an offset, by partition, to free disk space on the brokers.
    ///
    /// # Errors
    /// The brokers refuse, or none responds.
    pub async fn delete_before(
        &self,
        topic: &str,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<(), KafkaError> {
        let doing = "deleting resolved dead letters";
        let offsets = offsets.iter().map(|(&partition, &offset)| (partition, offset));
        let list = offset_list(topic, offsets).map_err(client_error(doing))?;
        let deleted = self.admin.delete_records(&list, &self.admin_options()).await;
        let rights = [Right::topic("Delete", topic)];
        let deleted = deleted.map_err(|error| self.failed(&rights, &error))?;
        let mut each = deleted.elements().into_iter();
        let done = each.try_for_each(|partition| partition.error());
        done.map_err(|error| self.brokers.failed(doing, &rights, error))
    }

    /// Creates topics that do not exist.
    ///
    /// # Errors
    /// The brokers refuse, or none responds.
    pub async fn create(&self, topics: &[String], partitions: i32) -> Result<(), KafkaError> {
        let new = |name| {
            let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
            let settings = topic_settings::initial(name).iter();
            settings.fold(topic, |topic, (name, value)| topic.set(name, value))
        };
        let new: Vec<_> = topics.iter().map(|name| new(name)).collect();
        let results = self.admin.create_topics(&new, &self.admin_options()).await;
        let rights = |topic: &str| [Right::topic("Create", topic)];
        let first = topics.first().map_or("", String::as_str);
        let results = results.map_err(|error| self.failed(&rights(first), &error))?;
        for result in results {
            match result {
                // Another instance was faster.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => (),
                Err((topic, code)) => {
                    let denied = self.brokers.denied(&rights(&topic), code);
                    let problem = format!("cannot be created: {code}");
                    return Err(denied.unwrap_or(KafkaError::TopicMismatch { topic, problem }));
                }
            }
        }
        Ok(())
    }

    fn admin_options(&self) -> AdminOptions {
        let timeout = Some(self.timeout());
        AdminOptions::new().request_timeout(timeout).operation_timeout(timeout)
    }
}

/// Whether a broker answered that it does not know a topic, or the client that it has no partition.
fn is_unknown(error: &ClientError) -> bool {
    use RDKafkaErrorCode::{UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    let (ClientError::AdminOp(code) | ClientError::MetadataFetch(code)) = error else {
        return false;
    };
    matches!(code, UnknownTopicOrPartition | UnknownTopic | UnknownPartition)
}

/// The right that requests about a topic need.
fn describe(topic: &str) -> [Right; 1] {
    [Right::topic("Describe", topic)]
}

/// Offset of the first record at or past a time, by partition; the end offset if every record is
/// older.
pub(super) fn at_time<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topic: &str,
    time_ms: i64,
    extents: &[(i32, OffsetRange)],
    timeout: Duration,
) -> KafkaResult<BTreeMap<i32, i64>> {
    let times = offset_list(topic, extents.iter().map(|&(partition, _)| (partition, time_ms)))?;
    let answer = client.offsets_for_times(times, timeout)?;
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
