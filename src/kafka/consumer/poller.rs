//! The polling loop, in steps: polls records, sends batches, commits; in the end drains.

use std::rc::Rc;
use std::time::Duration;

use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode;
use tokio::time::Instant;

use super::client::{GroupClient, Polled, RecordClient};
use super::rebalance::RebalanceContext;
use super::{Assignment, ConsumerConfig, DrainResult, MAX_QUEUED_BATCHES};
use crate::kafka::partition_handle::WorkerExit;
use crate::kafka::record::Record;
use crate::kafka::rights::Right;
use crate::kafka::unreadable::{self, UnreadableBatch};
use crate::kafka::{KafkaError, client_error};
use crate::model::time::format_duration;

/// Maximum wait of one poll.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_millis(20);

/// Interval at which incomplete batches are sent.
const SEND_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of records of a batch.
const MAX_BATCH_RECORDS: usize = 4096;

/// Maximum size of a batch, bytes; the more partitions are assigned, the smaller.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Lower limit of the batch size, however many partitions are assigned, bytes.
const MIN_BATCH_BYTES: usize = 16 << 10;

/// The clock is read once per this number of records.
const CLOCK_CHECK_INTERVAL: usize = 64;

/// Minimum time for the brokers to answer a commit, also once the limit of a drain has passed.
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of commits.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Polls a client until it is to stop, then drains.
pub struct Poller<C> {
    client: Rc<C>,
    /// Time of the last commit.
    last_commit: Instant,
    /// Start of the current wait for a record from the brokers.
    silent_since: Option<Instant>,
    /// Set once it drains.
    closing: Option<Closing>,
}

/// The drain of the workers.
struct Closing {
    deadline: Instant,
    /// How the wait for the workers ended, if it did.
    drained: Option<DrainResult>,
    /// Why reading ended, if not because of a stop.
    error: Option<KafkaError>,
}

impl<C: RecordClient> Poller<C> {
    /// A poller of a client that has not joined its group yet.
    #[must_use]
    pub fn new(client: Rc<C>) -> Self {
        let (last_commit, silent_since, closing) = (Instant::now(), None, None);
        Self { client, last_commit, silent_since, closing }
    }

    /// Polls until its context is to stop, then drains.
    ///
    /// # Errors
    /// Those of [`Poller::start`] and [`Poller::step`].
    pub(super) fn run(mut self) -> Result<DrainResult, KafkaError> {
        self.start()?;
        loop {
            if let Some(drained) = self.step(self.context().is_stopping())? {
                return Ok(drained);
            }
        }
    }

    /// Joins the group, or assigns all partitions.
    ///
    /// # Errors
    /// The client fails.
    pub fn start(&self) -> Result<(), KafkaError> {
        let client = self.client.group();
        match &self.config().assignment {
            Assignment::Group { .. } => client.subscribe().map_err(client_error("subscribing")),
            Assignment::All(offsets) => {
                let unbounded = |&offset| offset..i64::MAX;
                let spans = (0..).zip(offsets.iter().map(unbounded));
                self.context().assign_all(client, spans)
            }
            Assignment::Spans(spans) => {
                // An empty span need not exist.
                let spans = (0..).zip(spans.iter().cloned()).filter(|(_, span)| !span.is_empty());
                self.context().assign_all(client, spans)
            }
        }
    }

    /// Polls once, or takes a step of the drain once `stop` was set. Returns the result at the end.
    ///
    /// # Errors
    /// The topic does not match the epoch, records expired, or the client failed.
    pub fn step(&mut self, stop: bool) -> Result<Option<DrainResult>, KafkaError> {
        let result = self.advance(stop);
        if !matches!(result, Ok(None)) {
            // A rebalance may be under way, and end while the client is closed.
            self.context().close_all();
        }
        result
    }

    fn advance(&mut self, stop: bool) -> Result<Option<DrainResult>, KafkaError> {
        if self.closing.is_some() {
            return self.drain();
        }
        if stop || self.is_finished() {
            self.close(None);
            return Ok(None);
        }
        self.poll_records()?;
        self.context().fault()?;
        self.context().report_caught_up();
        for asking in self.context().to_restart() {
            self.context().restart(self.client.group(), asking)?;
        }
        self.send_batches();
        self.commit();
        if let Some(error) = self.brokers_lost() {
            // Store what was read before failing.
            self.close(Some(error));
        }
        Ok(None)
    }

    fn context(&self) -> &RebalanceContext {
        self.client.group().context()
    }

    fn config(&self) -> &ConsumerConfig {
        &self.context().config
    }

    /// Polls records until the next send is due, or none is available.
    fn poll_records(&mut self) -> Result<(), KafkaError> {
        let client = Rc::clone(&self.client);
        let deadline = Instant::now() + SEND_INTERVAL;
        let budget = self.config().memory / (MAX_QUEUED_BATCHES + 1);
        let limit = budget / self.context().state().held.len().max(1);
        let limit = limit.clamp(MIN_BATCH_BYTES, MAX_BATCH_BYTES);
        let (mut polled, mut timeout, mut errors) = (0, Duration::ZERO, Vec::new());
        loop {
            let count = client.poll(timeout, |polled| match polled {
                Polled::Record(record) => self.push_record(record, limit),
                Polled::End(partition) => self.mark_at_end(partition),
                Polled::Failed(error) => errors.push(error),
            });
            // All of its records are in the batches before an error moves a partition.
            for error in errors.drain(..) {
                self.handle_error(&error)?;
            }
            if count == 0 {
                if timeout > Duration::ZERO || Instant::now() >= deadline {
                    return Ok(());
                }
                // No record is available without waiting: wait once.
                timeout = POLL_TIMEOUT;
                continue;
            }
            // Fetch buffered records without waiting, and read the clock only now and then.
            timeout = Duration::ZERO;
            polled += count;
            if polled >= CLOCK_CHECK_INTERVAL {
                if Instant::now() >= deadline {
                    return Ok(());
                }
                polled = 0;
            }
        }
    }

    fn mark_at_end(&mut self, partition: i32) {
        self.context().mark_at_end(partition);
        self.silent_since = None;
    }

    /// Adds a record to the batch of its partition, and sends the batch once it reaches `limit`
    /// bytes.
    fn push_record(&mut self, record: Record<'_>, limit: usize) {
        self.silent_since = None;
        let client = self.client.group();
        let mut state = client.context().state();
        // The partition was revoked meanwhile: its next worker reads the record.
        let Some(held) = state.held.get_mut(&record.partition) else { return };
        if !held.note_polled(record.offset.get()) {
            return;
        }
        held.batch.push(record);
        if held.batch.len() >= MAX_BATCH_RECORDS || held.batch.memory() >= limit {
            held.finish_batch();
            held.send_ready(client);
        }
    }

    /// Replaces each batch that the client cannot unpack with one dead letter, and continues after
    /// it. The error does not name the partition, and recurs until the batch is skipped.
    fn skip_unreadable(&self) {
        for (partition, offset) in self.context().fetching() {
            match self.client.group().unreadable(partition, offset) {
                Ok(None) => (),
                Ok(Some(batch)) => self.skip_batch(partition, batch),
                Err(error) => self.context().warn(error.to_string()),
            }
        }
    }

    fn skip_batch(&self, partition: i32, batch: UnreadableBatch) {
        let UnreadableBatch { first, last, problem } = &batch;
        if let Err(error) = self.client.group().seek(partition, last + 1) {
            return self.context().warn(format!(
                "partition {partition}: cannot skip the batch from offset {first} to {last}: \
                 {error}"
            ));
        }
        self.context().warn(format!(
            "partition {partition}: the batch from offset {first} to {last} cannot be unpacked, \
             and is now one dead letter: {problem}"
        ));
        let mut state = self.context().state();
        let Some(held) = state.held.get_mut(&partition) else { return };
        if held.note_polled(*last) {
            held.batch.push_unreadable(batch);
        }
    }

    /// Sends all batches, and resumes partitions whose channels have room again.
    fn send_batches(&self) {
        self.context().report_stopped();
        let client = self.client.group();
        let mut state = self.context().state();
        for held in state.held.values_mut() {
            held.finish_batch();
            held.send_ready(client);
            held.resume(client);
            held.close_at_end(client);
        }
    }

    /// Whether every span was read and processed.
    fn is_finished(&self) -> bool {
        matches!(self.config().assignment, Assignment::Spans(_)) && self.context().all_ended()
    }

    /// Returns an error if the brokers of a bounded read have sent no record for longer than their
    /// timeout. Time spent waiting for workers does not count.
    fn brokers_lost(&mut self) -> Option<KafkaError> {
        let is_bounded = matches!(self.config().assignment, Assignment::Spans(_));
        let timeout = self.config().brokers.timeout().filter(|_| is_bounded)?;
        if !self.context().is_fetching() {
            self.silent_since = None;
            return None;
        }
        let silent_for = self.silent_since.get_or_insert_with(Instant::now).elapsed();
        (silent_for >= timeout).then(|| {
            let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            let (topic, timeout) = (&self.config().topic, format_duration(timeout_ms));
            let problem = format!("no record of topic `{topic}` for {timeout}");
            KafkaError::Unreachable {
                brokers: self.config().brokers.addresses().to_owned(),
                problem,
            }
        })
    }

    /// Commits acknowledged offsets of the assigned partitions, at most once per interval.
    fn commit(&mut self) {
        if self.is_group() && self.last_commit.elapsed() >= COMMIT_INTERVAL {
            self.last_commit = Instant::now();
            self.context().commit_held(self.client.group(), None);
        }
    }

    fn is_group(&self) -> bool {
        matches!(self.config().assignment, Assignment::Group { .. })
    }

    fn handle_error(&self, error: &ClientError) -> Result<(), KafkaError> {
        use RDKafkaErrorCode as Code;
        let mismatch = |problem: String| KafkaError::TopicMismatch {
            topic: self.config().topic.clone(),
            problem,
        };
        match error {
            _ if unreadable::is_unreadable(error) => {
                self.skip_unreadable();
                Ok(())
            }
            ClientError::MessageConsumptionFatal(_) => Err(client_error("polling")(error.clone())),
            ClientError::MessageConsumption(code @ Code::TopicAuthorizationFailed) => {
                let config = self.config();
                let denied = config.brokers.denied(&[Right::topic("Read", &config.topic)], *code);
                denied.map_or(Ok(()), Err)
            }
            ClientError::MessageConsumption(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                Err(mismatch(
                    "has no record at the next offset: it was recreated, or its records expired; \
                     restart to find out which"
                        .to_owned(),
                ))
            }
            ClientError::MessageConsumption(Code::LogTruncation) => Err(mismatch(
                "lost records that were already read (unclean leader election), and reuses their \
                 offsets; stop all instances, then start a new epoch: tstar epoch new"
                    .to_owned(),
            )),
            // The context has already reported it, and the client recovers by itself.
            _ => Ok(()),
        }
    }

    /// Closes the channels of all workers, for them to store what they have.
    fn close(&mut self, error: Option<KafkaError>) {
        let deadline = Instant::now() + self.config().member.drain_timeout;
        let partitions = self.context().close_all();
        // Without the pause, the client would keep fetching records that no worker takes.
        if let Err(error) = self.client.group().pause(&partitions) {
            self.context().warn(error.to_string());
        }
        self.closing = Some(Closing { deadline, drained: None, error });
    }

    /// Waits for the workers, commits what they have stored, and ends.
    fn drain(&mut self) -> Result<Option<DrainResult>, KafkaError> {
        let Some(Closing { deadline, mut drained, .. }) = self.closing else { return Ok(None) };
        if drained.is_none() {
            self.context().report_stopped();
            if self.context().all_ended() {
                drained = Some(DrainResult::All);
            } else if Instant::now() >= deadline {
                drained = Some(DrainResult::NotInTime);
            }
        }
        // The commit fails during a rebalance: it is repeated once polling has completed it.
        let commit_by = deadline.max(Instant::now() + COMMIT_TIMEOUT);
        let is_committed = drained.is_some()
            && (!self.is_group()
                || self.context().commit_held(self.client.group(), Some(commit_by)));
        let closing = self.closing.as_mut().expect("it drains");
        closing.drained = drained;
        if !is_committed && (drained.is_none() || Instant::now() < deadline) {
            // Polling handles a rebalance that revokes partitions meanwhile.
            self.client.poll(POLL_TIMEOUT, |_| ());
            return Ok(None);
        }
        let error = closing.error.take();
        let exits = self.context().cancel_all();
        self.context().fault()?;
        if let Some(error) = error {
            return Err(error);
        }
        let all_drained = exits.iter().all(|exit| *exit == Some(WorkerExit::Drained));
        Ok(Some(if drained != Some(DrainResult::All) || !is_committed {
            DrainResult::NotInTime
        } else if !all_drained || self.context().is_incomplete() {
            DrainResult::Interrupted
        } else {
            DrainResult::All
        }))
    }
}
