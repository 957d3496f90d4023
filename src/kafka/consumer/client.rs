//! What the polling thread needs of a client: [`RecordClient`] and [`GroupClient`]. Tests replace
//! both.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_extra::{QueuedMessage, RecordConsumer};
use tokio::time::Instant;

use super::Assignment;
use super::poller::POLL_TIMEOUT;
use super::rebalance::RebalanceContext;
use crate::kafka::partition_handle::{PartitionHandle, WorkerExit};
use crate::kafka::record::Record;
use crate::kafka::topics::{OffsetRange, at_time};
use crate::kafka::unreadable::{self, UnreadableBatch};
use crate::kafka::{KafkaError, offset_list, offsets_of, partition_list};

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for leaving the group: others may have to join it before.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of records of a poll.
const MAX_POLLED: usize = 512;

/// A part of the result of a poll.
#[derive(Debug)]
pub enum Polled<'a> {
    /// A record.
    Record(Record<'a>),
    /// Every record of a partition was polled.
    End(i32),
    /// An error of the client.
    Failed(ClientError),
}

/// A client of a consumer group that reads the records of one topic.
pub trait RecordClient {
    /// The client of the group.
    type Group: GroupClient;

    /// The client of the group.
    fn group(&self) -> &Self::Group;

    /// Polls once: calls [`RebalanceContext::rebalanced`] if there was a rebalance, then passes
    /// records and errors to `take`. Returns how many there were in time. Each record is passed on:
    /// the client does not fetch it again.
    fn poll(&self, timeout: Duration, take: impl FnMut(Polled<'_>)) -> usize;
}

/// A client of a consumer group, without its records.
pub trait GroupClient {
    /// The state that the callbacks share with the polling loop.
    fn context(&self) -> &RebalanceContext;

    /// Joins the group.
    ///
    /// # Errors
    /// The client fails.
    fn subscribe(&self) -> KafkaResult<()>;

    /// Whether rebalances are incremental.
    fn is_cooperative(&self) -> bool;

    /// Whether the partitions being revoked may already have another owner.
    fn is_assignment_lost(&self) -> bool;

    /// Reads these partitions, from an offset each, instead of all others.
    ///
    /// # Errors
    /// The client fails.
    fn assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()>;

    /// Reads no partition.
    ///
    /// # Errors
    /// The client fails.
    fn unassign(&self) -> KafkaResult<()>;

    /// Reads more partitions, from an offset each.
    ///
    /// # Errors
    /// The client fails.
    fn incremental_assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()>;

    /// Does not read these partitions any more.
    ///
    /// # Errors
    /// The client fails.
    fn incremental_unassign(&self, partitions: &[i32]) -> KafkaResult<()>;

    /// Answers that partitions are assigned: reads these, from an offset each.
    ///
    /// # Errors
    /// The client fails.
    fn answer_assignment(&self, starts: &[(i32, i64)]) -> KafkaResult<()> {
        if self.is_cooperative() { self.incremental_assign(starts) } else { self.assign(starts) }
    }

    /// Answers that partitions are revoked: does not read these any more.
    ///
    /// # Errors
    /// The client fails.
    fn answer_revocation(&self, partitions: &[i32]) -> KafkaResult<()> {
        if self.is_cooperative() { self.incremental_unassign(partitions) } else { self.unassign() }
    }

    /// Stops fetching partitions.
    ///
    /// # Errors
    /// The client fails.
    fn pause(&self, partitions: &[i32]) -> KafkaResult<()>;

    /// Fetches paused partitions again.
    ///
    /// # Errors
    /// The client fails.
    fn resume(&self, partitions: &[i32]) -> KafkaResult<()>;

    /// Continues a partition at another offset.
    ///
    /// # Errors
    /// The client fails.
    fn seek(&self, partition: i32, offset: i64) -> KafkaResult<()>;

    /// Commits an offset for each of these partitions, without waiting: statistics confirm it.
    ///
    /// # Errors
    /// The client fails.
    fn commit_later(&self, offsets: &[(i32, i64)]) -> KafkaResult<()>;

    /// Commits an offset for each of these partitions, and waits for the answer at most until a
    /// time: while a member waits for others to join the group, the brokers answer nothing else. A
    /// commit that is not answered may still arrive.
    ///
    /// # Errors
    /// The brokers refuse, or do not answer in time.
    fn commit_by(&self, offsets: &[(i32, i64)], deadline: Instant) -> KafkaResult<()>;

    /// The committed offsets, by partition, of those that have one.
    ///
    /// # Errors
    /// The brokers refuse, or do not answer in time.
    fn committed(&self, partitions: &[i32]) -> KafkaResult<BTreeMap<i32, i64>>;

    /// The id of the topic; `None` if the brokers give none.
    ///
    /// # Errors
    /// The brokers refuse, or do not answer in time.
    fn topic_id(&self) -> KafkaResult<Option<String>>;

    /// The offsets that a partition has.
    ///
    /// # Errors
    /// The brokers refuse, or do not answer in time.
    fn extent(&self, partition: i32) -> KafkaResult<OffsetRange>;

    /// Offset of the first record of a partition at or past a time, or its end.
    ///
    /// # Errors
    /// The brokers refuse, or do not answer in time.
    fn offset_at(&self, partition: i32, extent: OffsetRange, time_ms: i64) -> KafkaResult<i64>;

    /// Finds the batch at an offset, if the client cannot unpack it.
    ///
    /// # Errors
    /// No broker responds in time.
    fn unreadable(
        &self,
        partition: i32,
        offset: i64,
    ) -> Result<Option<UnreadableBatch>, KafkaError>;

    /// Waits for a worker to exit; `None` if it has not by the deadline.
    fn wait(&self, handle: &PartitionHandle, deadline: Instant) -> Option<WorkerExit>;

    /// Lets time pass before a request is repeated.
    fn sleep(&self, delay: Duration);
}

/// Redirects partitions that are about to be assigned to the queue of many records.
fn redirect(client: &BaseConsumer<RebalanceContext>, starts: &[(i32, i64)]) {
    let Some(queue) = Consumer::context(client).queue.get() else { return };
    for &(partition, _) in starts {
        // What is not redirected comes to the client's own queue, which is polled as well.
        queue.redirect(client, topic(client), partition);
    }
}

/// Converts a record or an error of a partition. Like the client does for those of its own queue,
/// reports the error to the context.
fn convert<'a>(context: &RebalanceContext, message: &QueuedMessage<'a>) -> Polled<'a> {
    let Some((code, reason)) = message.error() else {
        return Polled::Record(Record::from_message(message));
    };
    context.error(ClientError::Global(code), &reason);
    match code {
        RDKafkaErrorCode::PartitionEOF => Polled::End(message.partition()),
        code => Polled::Failed(ClientError::MessageConsumption(code)),
    }
}

impl RecordClient for RecordConsumer<RebalanceContext> {
    type Group = BaseConsumer<RebalanceContext>;

    fn group(&self) -> &Self::Group {
        self.consumer()
    }

    fn poll(&self, timeout: Duration, mut take: impl FnMut(Polled<'_>)) -> usize {
        let context = Consumer::context(self.consumer());
        // Rebalances, statistics, and errors of the whole client.
        let of_client = match self.consumer().poll(Duration::ZERO) {
            None => 0,
            Some(polled) => {
                match polled {
                    Ok(message) => {
                        let record = Record::from_message(&QueuedMessage::from_borrowed(&message));
                        take(Polled::Record(record));
                    }
                    Err(ClientError::PartitionEOF(partition)) => take(Polled::End(partition)),
                    Err(error) => take(Polled::Failed(error)),
                }
                1
            }
        };
        let timeout = if of_client == 0 { timeout } else { Duration::ZERO };
        of_client + self.read(timeout, MAX_POLLED, |message| take(convert(context, message)))
    }
}

impl GroupClient for BaseConsumer<RebalanceContext> {
    fn context(&self) -> &RebalanceContext {
        Consumer::context(self)
    }

    fn subscribe(&self) -> KafkaResult<()> {
        Consumer::subscribe(self, &[topic(self)])
    }

    fn is_cooperative(&self) -> bool {
        matches!(self.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    fn is_assignment_lost(&self) -> bool {
        self.assignment_lost()
    }

    fn assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()> {
        redirect(self, starts);
        Consumer::assign(self, &offset_list(topic(self), starts.iter().copied())?)
    }

    fn unassign(&self) -> KafkaResult<()> {
        Consumer::unassign(self)
    }

    fn incremental_assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()> {
        redirect(self, starts);
        Consumer::incremental_assign(self, &offset_list(topic(self), starts.iter().copied())?)
    }

    fn incremental_unassign(&self, partitions: &[i32]) -> KafkaResult<()> {
        Consumer::incremental_unassign(
            self,
            &partition_list(topic(self), partitions.iter().copied()),
        )
    }

    fn pause(&self, partitions: &[i32]) -> KafkaResult<()> {
        Consumer::pause(self, &partition_list(topic(self), partitions.iter().copied()))
    }

    fn resume(&self, partitions: &[i32]) -> KafkaResult<()> {
        Consumer::resume(self, &partition_list(topic(self), partitions.iter().copied()))
    }

    fn seek(&self, partition: i32, offset: i64) -> KafkaResult<()> {
        Consumer::seek(self, topic(self), partition, Offset::Offset(offset), REQUEST_TIMEOUT)
    }

    fn commit_later(&self, offsets: &[(i32, i64)]) -> KafkaResult<()> {
        let offsets = offset_list(topic(self), offsets.iter().copied())?;
        Consumer::commit(self, &offsets, CommitMode::Async)
    }

    fn commit_by(&self, offsets: &[(i32, i64)], deadline: Instant) -> KafkaResult<()> {
        let offsets = offset_list(topic(self), offsets.iter().copied())?;
        let timeout = deadline.saturating_duration_since(Instant::now());
        rdkafka_extra::commit_within(self, &offsets, timeout)
    }

    fn committed(&self, partitions: &[i32]) -> KafkaResult<BTreeMap<i32, i64>> {
        let asked = partition_list(topic(self), partitions.iter().copied());
        offsets_of(&self.committed_offsets(asked, REQUEST_TIMEOUT)?)
    }

    fn extent(&self, partition: i32) -> KafkaResult<OffsetRange> {
        let found = self.fetch_watermarks(topic(self), partition, REQUEST_TIMEOUT);
        if found.is_err() {
            // For minutes, the client does not ask again for the leader of a partition that had
            // none.
            self.fetch_metadata(Some(topic(self)), REQUEST_TIMEOUT).ok();
        }
        found.map(|(first, next)| OffsetRange { first, next })
    }

    fn topic_id(&self) -> KafkaResult<Option<String>> {
        rdkafka_extra::topic_id(self, topic(self), REQUEST_TIMEOUT)
    }

    fn offset_at(&self, partition: i32, extent: OffsetRange, time_ms: i64) -> KafkaResult<i64> {
        let extents = [(partition, extent)];
        let offsets = at_time(self, topic(self), time_ms, &extents, REQUEST_TIMEOUT)?;
        Ok(offsets[&partition])
    }

    fn unreadable(
        &self,
        partition: i32,
        offset: i64,
    ) -> Result<Option<UnreadableBatch>, KafkaError> {
        unreadable::find(&Consumer::context(self).config.brokers, topic(self), partition, offset)
    }

    fn wait(&self, handle: &PartitionHandle, deadline: Instant) -> Option<WorkerExit> {
        handle.wait(deadline.into_std())
    }

    fn sleep(&self, delay: Duration) {
        std::thread::sleep(delay);
    }
}

/// Leaves the group, unless the member is static: the brokers keep its place for the next start.
///
/// The client's own close leaves it only while partitions are assigned, and not while a rebalance
/// is under way. The others would then wait for this member until its session ends.
pub(super) fn leave(client: &RecordConsumer<RebalanceContext>) {
    let (consumer, config) = (client.consumer(), &Consumer::context(client.consumer()).config);
    let is_static = config.member.instance_id.is_some();
    if is_static || !matches!(config.assignment, Assignment::Group { .. }) {
        return;
    }
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    // Takes effect once a rebalance that is under way has ended.
    consumer.unsubscribe();
    while rdkafka_extra::is_member(consumer) && Instant::now() < deadline {
        client.poll(POLL_TIMEOUT, |_| ());
    }
}

fn topic(client: &BaseConsumer<RebalanceContext>) -> &str {
    &Consumer::context(client).config.topic
}
