//! The table topic: the current form of each trip by its id, for consumers that keep a table; of
//! each stop, too, if that is chosen. A retired or erased id has no value. For each key, the last
//! record is right.
//!
//! Consumers go by the order of records, so an instance that has lost a partition must not write
//! what is older. Each input partition has a transactional id; its owner begins to use it before it
//! loads trips, which fences the owner before it. So whatever a writer loads includes all that was
//! written before, since the store gets a trip first. Of what it finds beyond its position it sends
//! nothing until that is passed, and then also no value for every id that was ever retired. A
//! writer that is fenced, or of which it is unclear whether a transaction was committed, starts
//! again in this order if it still has the partition.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::kafka::KafkaError;
use crate::kafka::partition_handle::{PartitionHandle, Restart};
use crate::kafka::producer::{Producer, ProducerClient, ProducerRecord, size};
use crate::kafka::topic_names::table_transactional_id;
use crate::kafka::transactions::{TransactionClient, TransactionRecord};
use crate::model::epoch::Division;
use crate::model::partitioner::Partitioner;
use crate::model::scalar::DeviceTime;
use crate::store::{Flush, Kinds, Result, StoreError, TripRow, WriteGroup};
use crate::views::table::TableFormat;
use crate::views::text_id;

/// How long a writer that ended waits to learn that its partition has another owner.
const FENCED_DELAY: Duration = Duration::from_secs(5);

/// The table topic of a log.
#[derive(Clone, Debug)]
pub struct TableTopic {
    /// Name of the topic.
    pub name: String,
    /// Which segments have a record.
    pub kinds: Kinds,
    /// Number of its partitions. Never changes: an id that moves would keep its old value.
    pub partitions: i32,
    /// Encoding of the values.
    pub format: TableFormat,
    /// The newest epoch of the log.
    pub division: Division,
    /// Maximum size of a record, bytes.
    pub max_bytes: usize,
}

/// Writes the segments of one input partition to the table topic.
pub(super) struct TableWriter<C: ProducerClient> {
    handle: Arc<PartitionHandle>,
    transactions: OnceCell<C::Transactions>,
}

impl<C: ProducerClient> TableWriter<C> {
    /// The writer of an assigned partition.
    pub(super) fn new(handle: Arc<PartitionHandle>) -> Self {
        Self { handle, transactions: OnceCell::new() }
    }

    /// Begins to write, and fences the former owner of the partition.
    pub(super) async fn begin(&self, topic: &TableTopic, producer: &Producer<C>) -> Result<()> {
        let name = table_transactional_id(&topic.name, self.handle.partition());
        let begun = self.transactions.get_or_try_init(|| producer.transactions(&name)).await;
        self.unless_ended(topic, begun.map(drop)).await
    }

    /// Sends the segments that a flush changed, and no value for the ids that this retires.
    pub(super) async fn send_changes(&self, topic: &TableTopic, flush: &Flush) -> Result<()> {
        let mut records = Vec::new();
        let events = flush.groups.iter().flat_map(WriteGroup::events);
        for (change, row) in events.filter(|(change, _)| !change.in_past) {
            if topic.is_written_by(self.handle.partition(), row) {
                if topic.kinds.has(row.kind) {
                    records.push(topic.segment(row)?);
                }
                for t_star_ms in &change.retired {
                    records.push(topic.tombstone(&row.device_id, *t_star_ms)?);
                }
            }
        }
        self.send(topic, records).await
    }

    /// Sends no value for every id that erased segments ever had.
    pub(super) async fn send_erased(&self, topic: &TableTopic, erased: &[TripRow]) -> Result<()> {
        let mut records = Vec::new();
        for row in erased {
            let others = row.ids.keys().filter(|t_star_ms| **t_star_ms != row.t_star_ms);
            for t_star_ms in [&row.t_star_ms].into_iter().chain(others) {
                records.push(topic.tombstone(&row.device_id, *t_star_ms)?);
            }
        }
        self.send(topic, records).await
    }

    async fn send(&self, topic: &TableTopic, records: Vec<TransactionRecord>) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let transactions = self.transactions.get().expect("the position was read before");
        let sent = transactions.send(records.into()).await;
        self.unless_ended(topic, sent).await
    }

    /// Returns how a call ended, unless it ended this writer: then never, as the worker is about to
    /// be cancelled or replaced.
    async fn unless_ended(&self, topic: &TableTopic, result: Result<(), KafkaError>) -> Result<()> {
        let why = match result {
            Err(KafkaError::Fenced { .. }) => Restart::Fenced,
            Err(KafkaError::Unusable { .. }) => Restart::Unusable,
            result => return result.map_err(|error| failed(topic, error)),
        };
        // Another instance has the partition, and this one is about to learn it. Or that one is a
        // former owner that has not learnt it.
        if tokio::time::timeout(FENCED_DELAY, self.handle.cancelled()).await.is_err() {
            self.handle.restart(why);
        }
        std::future::pending().await
    }
}

fn failed(topic: &TableTopic, error: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    let (location, doing) = (topic.name.clone(), "writing the table topic");
    StoreError::Failed { location, doing, source: error.into() }
}

impl TableTopic {
    /// Whether the owner of an input partition writes the record of a row: only one owner at a time
    /// does. Another one may have it while it reads an older epoch again, which is acknowledged,
    /// table included, before the next one begins.
    fn is_written_by(&self, partition: i32, row: &TripRow) -> bool {
        match self.division.computed(&row.device_id) {
            Some(home) => home == partition,
            None => row.partition == partition && self.division.holds(row.version),
        }
    }

    fn segment(&self, row: &TripRow) -> Result<TransactionRecord> {
        let mut record = self.tombstone(&row.device_id, row.t_star_ms)?;
        let max_bytes = self.max_bytes.saturating_sub(size(&record.record));
        let value = self.format.encode(row, max_bytes).map_err(|error| failed(self, error))?;
        (record.record.value, record.is_tombstone) = (value, false);
        Ok(record)
    }

    fn tombstone(&self, device_id: &str, t_star_ms: DeviceTime) -> Result<TransactionRecord> {
        let id = text_id(device_id, t_star_ms).map_err(|error| failed(self, error))?;
        let partition = Partitioner::Murmur2.partition(device_id.as_bytes(), self.partitions);
        let key = Some(id.into_bytes());
        let record = ProducerRecord { key, partition, ..ProducerRecord::default() };
        Ok(TransactionRecord { topic: self.name.clone(), record, is_tombstone: true })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Refusal};

    use super::*;
    use crate::kafka::client::Brokers;
    use crate::kafka::partition_handle::WorkerExit;
    use crate::model::change::ChangeKind;
    use crate::model::epoch::Epoch;
    use crate::model::rules::Rules;
    use crate::model::scalar::Version;
    use crate::segment::{SegmentRules, Timeline};
    use crate::store::{Change, WriteGroup};
    use crate::timeline::{LegFilter, RawSample, Sample};

    fn topic(partitioner: Partitioner) -> TableTopic {
        let epoch = Epoch {
            epoch: 2,
            topic: "samples".into(),
            partitions: 6,
            start_offsets: (0..6).map(|partition| (partition, 0)).collect(),
            base: Version(1000),
            rules: Rules::default(),
            partitioner,
            topic_id: None,
            keeps_positions: false,
        };
        let (name, division) = ("samples.trips.table".into(), epoch.division());
        let (kinds, format) = (Kinds::Trips, TableFormat::Json);
        TableTopic { name, kinds, partitions: 4, format, division, max_bytes: 10_000 }
    }

    fn row(partition: i32, version: i64) -> TripRow {
        let (mut timeline, sample) = (Timeline::in_memory(), RawSample::default());
        let sample = Sample::quantised(&sample).unwrap();
        timeline.absorb(
            &SegmentRules::default(),
            Sample { version: Version(version), ..sample },
            None,
        );
        let trip = timeline.segments().next().unwrap();
        TripRow { partition, ..TripRow::from_segment("21", trip, LegFilter::default()) }
    }

    #[test]
    fn a_trip_has_one_writer() {
        // The partition of a key among six, as Kafka's client for Java computes it.
        let (computed, home) = (topic(Partitioner::Murmur2), 0);
        assert_eq!(computed.division.computed("21"), Some(home));
        let writers = |table: &TableTopic, row: &TripRow| -> Vec<i32> {
            (0..6).filter(|partition| table.is_written_by(*partition, row)).collect()
        };
        // Where the device is at home counts, not who wrote the row.
        assert_eq!(writers(&computed, &row(1, 2000)), [home]);
        assert_eq!(writers(&computed, &row(home, 2)), [home]);
        let claimed = topic(Partitioner::None);
        assert_eq!(writers(&claimed, &row(1, 2000)), [1]);
        // Everything of an earlier epoch is acknowledged before the next one begins.
        assert_eq!(writers(&claimed, &row(1, 998)), [] as [i32; 0]);
    }

    #[test]
    fn a_device_has_one_partition_whatever_the_keys_of_its_trips() {
        let table = topic(Partitioner::None);
        let (trip, gone) =
            (table.segment(&row(1, 2000)).unwrap(), table.tombstone("21", DeviceTime(7)));
        let gone = gone.unwrap();
        assert_eq!(trip.record.partition, Partitioner::Murmur2.partition(b"21", 4));
        assert_eq!(gone.record.partition, trip.record.partition);
        assert_ne!(gone.record.key, trip.record.key);
        assert_eq!((gone.is_tombstone, trip.is_tombstone), (true, false));
        assert!(size(&trip.record) <= table.max_bytes);
    }

    /// The end of a transaction is unclear, and the client cannot abort it either.
    #[tokio::test(start_paused = true)]
    async fn a_writer_whose_client_is_of_no_use_starts_again_and_fails_nothing() {
        let cluster = MockCluster::new(1).unwrap();
        let table = topic(Partitioner::None);
        cluster.create_topic(&table.name, table.partitions, 1).unwrap();
        let brokers = Brokers::new(&cluster.bootstrap_servers(), BTreeMap::new()).unwrap();
        let producer = Producer::new(&brokers, Arc::new(|_| ())).unwrap();
        let handle = Arc::new(PartitionHandle::new(1, 0));
        let writer = TableWriter::new(Arc::clone(&handle));
        writer.begin(&table, &producer).await.unwrap();
        let answers =
            [Refusal::RD_KAFKA_RESP_ERR_UNKNOWN, Refusal::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE];
        cluster.request_errors(RDKafkaApiKey::EndTxn, &answers);
        let change =
            Change { kind: ChangeKind::Started, retired: Vec::new(), row: 0, in_past: false };
        let group = WriteGroup { changes: vec![change], ..row(1, 2000).into() };
        let flush = Flush { groups: vec![group], ..Flush::default() };
        let sent = tokio::time::timeout(2 * FENCED_DELAY, writer.send_changes(&table, &flush));
        assert!(sent.await.is_err(), "a worker that is to be replaced does nothing more");
        assert_eq!(handle.to_restart(), Some(Restart::Unusable));
        assert_eq!(handle.has_ended(), Some(WorkerExit::BrokenOff));
    }
}
