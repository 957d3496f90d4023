//! A group client without brokers: it records what it is asked, and answers as a test says.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::{GroupClient, Polled, RecordClient};
use super::rebalance::RebalanceContext;
use super::{AssignedPartition, Assignment, ConsumerConfig, MemberSettings};
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::partition_handle::{PartitionHandle, WorkerExit};
use crate::kafka::topics::{OffsetRange, StartFrom};
use crate::kafka::unreadable::UnreadableBatch;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::Version;

/// Its limits for workers to store what they have.
pub(super) const REVOKE_TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);

/// An epoch of two partitions, of which the first begins at offset 100.
pub(super) fn epoch(topic_id: Option<&str>) -> Epoch {
    Epoch {
        epoch: 3,
        topic: "samples".into(),
        partitions: 2,
        start_offsets: BTreeMap::from([(0, 100)]),
        base: Version(1),
        rules: Rules::default(),
        partitioner: Partitioner::None,
        topic_id: topic_id.map(str::to_owned),
        keeps_positions: false,
    }
}

/// The client. Both partitions have the records from 50 to 199.
pub(super) struct FakeGroup {
    context: RebalanceContext,
    pub(super) assigned: mpsc::UnboundedReceiver<AssignedPartition>,
    /// What it was asked, in order.
    asked: RefCell<Vec<String>>,
    pub(super) committed: BTreeMap<i32, i64>,
    /// Refuses commits.
    pub(super) refusal: Cell<Option<Code>>,
    /// How long the last commit may wait for an answer.
    pub(super) commit_by: Cell<Option<Instant>>,
    /// No broker answers, until the member is to stop.
    pub(super) is_away: Cell<bool>,
    stop: Arc<AtomicBool>,
}

impl FakeGroup {
    /// A member of a group without committed offsets.
    pub(super) fn new(from: Option<StartFrom>) -> Self {
        let config = ConsumerConfig {
            brokers: Brokers::new("127.0.0.1:9", BTreeMap::new()).unwrap(),
            topic: "samples".into(),
            member: MemberSettings {
                revoke_timeout: REVOKE_TIMEOUT,
                drain_timeout: DRAIN_TIMEOUT,
                ..MemberSettings::new("trips")
            },
            assignment: Assignment::Group { from },
            epoch: epoch(None),
            memory: 1 << 20,
        };
        let (sender, assigned) = mpsc::unbounded_channel();
        let stop = Arc::<AtomicBool>::default();
        let context = RebalanceContext::new(config, sender, Arc::new(drop), Arc::clone(&stop));
        let (asked, committed, refusal, commit_by, is_away) = Default::default();
        Self { context, assigned, asked, committed, refusal, commit_by, is_away, stop }
    }

    fn record(&self, request: String) {
        self.asked.borrow_mut().push(request);
    }

    /// What it was asked since the last call.
    pub(super) fn take_asked(&self) -> Vec<String> {
        self.asked.take()
    }
}

impl RecordClient for FakeGroup {
    type Group = Self;

    fn group(&self) -> &Self {
        self
    }

    fn poll(&self, _: Duration, _: impl FnMut(Polled<'_>)) -> usize {
        0
    }
}

impl GroupClient for FakeGroup {
    fn context(&self) -> &RebalanceContext {
        &self.context
    }

    fn subscribe(&self) -> KafkaResult<()> {
        Ok(())
    }

    fn is_cooperative(&self) -> bool {
        true
    }

    fn is_assignment_lost(&self) -> bool {
        false
    }

    fn assign(&self, _: &[(i32, i64)]) -> KafkaResult<()> {
        unreachable!("the group is cooperative")
    }

    fn unassign(&self) -> KafkaResult<()> {
        unreachable!("the group is cooperative")
    }

    fn incremental_assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()> {
        self.record(format!("assign {starts:?}"));
        Ok(())
    }

    fn incremental_unassign(&self, partitions: &[i32]) -> KafkaResult<()> {
        self.record(format!("unassign {partitions:?}"));
        Ok(())
    }

    fn pause(&self, partitions: &[i32]) -> KafkaResult<()> {
        self.record(format!("pause {partitions:?}"));
        Ok(())
    }

    fn resume(&self, partitions: &[i32]) -> KafkaResult<()> {
        self.record(format!("resume {partitions:?}"));
        Ok(())
    }

    fn seek(&self, partition: i32, offset: i64) -> KafkaResult<()> {
        self.record(format!("seek {partition} {offset}"));
        Ok(())
    }

    fn commit_later(&self, offsets: &[(i32, i64)]) -> KafkaResult<()> {
        self.record(format!("commit {offsets:?} later"));
        Ok(())
    }

    fn commit_by(&self, offsets: &[(i32, i64)], deadline: Instant) -> KafkaResult<()> {
        self.record(format!("commit {offsets:?}"));
        self.commit_by.set(Some(deadline));
        self.refusal.get().map_or(Ok(()), |code| Err(ClientError::ConsumerCommit(code)))
    }

    fn committed(&self, partitions: &[i32]) -> KafkaResult<BTreeMap<i32, i64>> {
        self.record(format!("committed {partitions:?}"));
        match self.is_away.get() {
            false => Ok(self.committed.clone()),
            true => Err(ClientError::OffsetFetch(Code::OperationTimedOut)),
        }
    }

    fn topic_id(&self) -> KafkaResult<Option<String>> {
        unreachable!("the epoch has no id of the topic")
    }

    fn extent(&self, partition: i32) -> KafkaResult<OffsetRange> {
        self.record(format!("extent {partition}"));
        Ok(OffsetRange { first: 50, next: 200 })
    }

    fn offset_at(&self, _: i32, _: OffsetRange, _: i64) -> KafkaResult<i64> {
        unreachable!("no test starts at a time")
    }

    fn unreadable(&self, _: i32, _: i64) -> Result<Option<UnreadableBatch>, KafkaError> {
        unreachable!("it has no records")
    }

    fn wait(&self, handle: &PartitionHandle, _: Instant) -> Option<WorkerExit> {
        handle.has_ended()
    }

    fn sleep(&self, _: Duration) {
        assert!(self.is_away.get(), "repeats what was refused: {:?}", self.asked.borrow().last());
        self.stop.store(true, Ordering::Release);
    }
}
