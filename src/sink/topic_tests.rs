use std::collections::BTreeMap;
use std::sync::Mutex;

use rdkafka::types::RDKafkaErrorCode;

use super::*;
use crate::kafka::client::Brokers;
use crate::kafka::letter_fixture::letter_with_headers;
use crate::kafka::letter_record;
use crate::kafka::producer::{Delivery, ProducerRecord, RecordMetadata, size};
use crate::kafka::transactions::KafkaTransactions;
use crate::model::change::ChangeKind;
use crate::model::rules::Rules;
use crate::model::scalar::{Offset, Version};
use crate::segment::MintPoints;
use crate::store::{Change, DeadLetter, Forgotten, TripRow, WriteGroup};
use crate::timeline::{Path, READINGS, Reading, Sample};

/// A topic that refuses larger records, and has what was sent: records that were accepted, by the
/// requests that were not waited for in between.
#[derive(Clone)]
struct TestTopic {
    max_bytes: usize,
    refuses_times: bool,
    log: Arc<Mutex<TestLog>>,
}

#[derive(Default)]
struct TestLog {
    requests: Vec<Vec<ProducerRecord>>,
    is_waited_for: bool,
}

impl ProducerClient for TestTopic {
    fn send(
        &self,
        _topic: &str,
        record: &ProducerRecord,
    ) -> Result<impl Future<Output = Delivery> + Send + use<>, ClientError> {
        let mut log = self.log.lock().unwrap();
        if std::mem::take(&mut log.is_waited_for) || log.requests.is_empty() {
            log.requests.push(Vec::new());
        }
        let refusal = if size(record) > self.max_bytes {
            Some(RDKafkaErrorCode::MessageSizeTooLarge)
        } else if self.refuses_times && record.timestamp_ms.is_some() {
            Some(RDKafkaErrorCode::InvalidTimestamp)
        } else {
            log.requests.last_mut().expect("one was added").push(record.clone());
            None
        };
        let log = Arc::clone(&self.log);
        Ok(async move {
            log.lock().unwrap().is_waited_for = true;
            match refusal {
                Some(code) => Err(ClientError::MessageProduction(code)),
                None => Ok(RecordMetadata { partition: 0, offset: None }),
            }
        })
    }

    type Transactions = KafkaTransactions;

    async fn transactions(
        &self,
        _brokers: &Brokers,
        _name: &str,
        _on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self::Transactions, KafkaError> {
        unreachable!("there is no table topic")
    }

    fn unbatched(&self) -> Result<Self, ClientError> {
        Ok(self.clone())
    }
}

/// Outputs to one topic, whose limit brokers do not report.
fn outputs(max_bytes: usize) -> OutputTopics<TestTopic> {
    outputs_to(TestTopic { max_bytes, refuses_times: false, log: Arc::default() })
}

fn outputs_to(client: TestTopic) -> OutputTopics<TestTopic> {
    let brokers = Brokers::new("b:1", BTreeMap::new()).unwrap();
    OutputTopics {
        producer: Producer::over(client, usize::MAX, &brokers, Arc::new(|_| ())),
        input: "samples".to_owned(),
        feed: Some("samples.trips".to_owned()),
        letters: Some("samples.dlq".to_owned()),
        table: None,
        event_bytes: usize::MAX,
        letter_limit: Limit { record: usize::MAX, content: usize::MAX },
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(future)
}

/// Takes the requests of which the topic has accepted a record.
fn requests(outputs: &OutputTopics<TestTopic>) -> Vec<Vec<ProducerRecord>> {
    let mut requests = std::mem::take(&mut outputs.producer.client().log.lock().unwrap().requests);
    requests.retain(|records| !records.is_empty());
    requests
}

/// A merge that retired this number of ids.
fn merge(retired: i64) -> Flush {
    let at = |time_ms: i64| Sample::new(DeviceTime(time_ms), (1, 1), [Reading::ABSENT; READINGS]);
    let path = Path::from_sorted([at(0), at(retired)]).unwrap();
    let ids = (1..=retired).map(DeviceTime);
    let retired = ids.clone().map(|id| (id, [0, 2].map(Version).into_iter().collect()));
    let live = (DeviceTime(0), std::iter::once(Version(2)).collect());
    let points: MintPoints = retired.chain([live]).collect();
    let row = TripRow::from_path("van", &path, (&points, Version(2)), Rules::default().legs());
    let change =
        Change { kind: ChangeKind::Merged, retired: ids.collect(), row: 0, in_past: false };
    let group = WriteGroup { changes: vec![change], ..row.into() };
    Flush { groups: vec![group], ..Flush::default() }
}

/// The attribute `ce_id` of each record, without what precedes the version.
fn ids(records: &[ProducerRecord]) -> Vec<String> {
    let id = |record: &ProducerRecord| {
        let (_, id) = record.headers.iter().find(|(name, _)| name == "ce_id").unwrap();
        let id = String::from_utf8(id.clone().unwrap()).unwrap();
        id.split_once('@').unwrap().1.to_owned()
    };
    records.iter().map(id).collect()
}

#[test]
fn the_parts_of_an_event_have_ids_of_their_own() {
    let (flush, mut outputs) = (merge(1000), outputs(usize::MAX));
    block_on(outputs.send_changes(&flush)).unwrap();
    let whole = requests(&outputs);
    assert_eq!(ids(&whole[0]), ["2"]);
    outputs.event_bytes = size(&whole[0][0]) / 2;
    block_on(outputs.send_changes(&flush)).unwrap();
    assert_eq!(ids(&requests(&outputs)[0]), ["2.1", "2.2", "2.3"]);
}

/// The topic takes a third of the event: the parts are halved twice, and no further.
#[test]
fn an_event_that_a_topic_refuses_is_halved_until_it_fits() {
    let (flush, large) = (merge(1000), outputs(usize::MAX));
    block_on(large.send_changes(&flush)).unwrap();
    let bytes = size(&requests(&large)[0][0]);
    let small = outputs(bytes / 3);
    block_on(small.send_changes(&flush)).unwrap();
    let parts = requests(&small).pop().unwrap();
    let largest = parts.iter().map(size).max().unwrap();
    assert!(largest > bytes / 5 && largest <= bytes / 3, "{largest} of {bytes}");
    // One that cannot be split: the row itself is too large.
    let refused = block_on(outputs(300).send_changes(&flush)).unwrap_err().to_string();
    assert!(refused.contains("samples.trips"), "{refused}");
}

/// Both are events of one request.
#[test]
fn a_forget_is_announced_after_the_changes() {
    let outputs = outputs(usize::MAX);
    let forget = Forget { version: Version(8), before_ms: DeviceTime(0) };
    let forgotten = Forgotten { device_id: crate::identity::DeviceId::from_store("van"), forget };
    let flush = Flush { forgotten: vec![forgotten; 3], ..merge(1) };
    block_on(outputs.send_changes(&flush)).unwrap();
    assert_eq!(ids(&requests(&outputs)[0]), ["2", "8", "8", "8"]);
}

fn letter(offset: i64, bytes: usize) -> DeadLetter {
    let (value, value_bytes) = (vec![b'x'; bytes], bytes as u64);
    DeadLetter { offset: Offset(offset), value, value_bytes, ..letter_with_headers(Vec::new()) }
}

#[test]
fn letters_are_sent_a_few_megabytes_at_a_time() {
    let outputs = outputs(usize::MAX);
    let letters: Vec<_> = (0..9).map(|offset| letter(offset, 1 << 20)).collect();
    block_on(outputs.send_dead_letters(&letters)).unwrap();
    let sent: Vec<_> = requests(&outputs).iter().map(Vec::len).collect();
    assert_eq!(sent, [4, 4, 1]);
}

/// The value is cut as far as it has to be, and the message stays.
#[test]
fn a_letter_that_a_topic_refuses_is_cut_until_it_fits() {
    let outputs = outputs(60_000);
    block_on(outputs.send_dead_letters(&[letter(1, 100), letter(2, 100_000)])).unwrap();
    let sent: Vec<_> = requests(&outputs).into_iter().flatten().collect();
    let lengths: Vec<_> = sent.iter().map(|record| record.value.len()).collect();
    assert_eq!(lengths, [100, 1024]);
    let is_message = |(name, value): &(String, Option<Vec<u8>>)| {
        name == letter_record::MESSAGE && value.as_deref() == Some(b"time has no value")
    };
    assert!(sent.iter().all(|record| record.headers.iter().any(is_message)));
    let refused = block_on(self::outputs(100).send_dead_letters(&[letter(1, 10)])).unwrap_err();
    assert!(refused.to_string().contains("samples.dlq"), "{refused}");
}

/// Topics limit how far the timestamp of a record may be from now.
#[test]
fn a_letter_whose_timestamp_is_refused_has_it_in_a_header() {
    let log = Arc::default();
    let outputs = outputs_to(TestTopic { max_bytes: 60_000, refuses_times: true, log });
    block_on(outputs.send_dead_letters(&[letter(1, 100), letter(2, 100_000)])).unwrap();
    let sent: Vec<_> = requests(&outputs).into_iter().flatten().collect();
    let is_time = |(name, value): &(String, Option<Vec<u8>>)| {
        name == letter_record::LOG_TIME && value.as_deref() == Some(b"1795210680123")
    };
    assert!(sent.iter().all(|record| record.headers.iter().any(is_time)));
    let lengths: Vec<_> = sent.iter().map(|record| record.value.len()).collect();
    assert_eq!(lengths, [100, 1024]);
}
