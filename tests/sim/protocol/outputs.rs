//! The topics of the change feed and of the dead letters: what the real journal sends, as anyone
//! reads it.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode as Code;
use serde::Deserialize;
use tstar::internals::identity::AnyId;
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::letter_record::Limit;
use tstar::internals::kafka::producer::{
    Delivery, Producer, ProducerClient, ProducerRecord, RecordMetadata,
};
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::model::time::parse_time;
use tstar::internals::sink::OutputTopics;
use tstar::internals::sink::table::TableTopic;

use super::hostile::MAX_LETTER;
use super::log::TOPIC;
use super::table::SimTransactions;
use super::world::{Append, Device, Place, Shared, lock};

/// Name of the topic of the dead letters.
const LETTERS: &str = "samples.dlq";

/// An event of the change feed.
#[derive(Clone, Debug)]
pub enum Event {
    Trip(Announced),
    Forgotten { device: Device, before_ms: DeviceTime, version: i64 },
}

/// A trip as an event shows it.
#[derive(Clone, Debug)]
pub struct Announced {
    pub kind: Kind,
    /// The ids that the event retires.
    pub retired: Vec<DeviceTime>,
    pub device: Device,
    pub t_star: DeviceTime,
    pub version: i64,
    pub start: DeviceTime,
    pub end: DeviceTime,
    pub samples: i32,
    pub is_stop: bool,
    pub driver: Option<String>,
    /// All ids that the trip retired.
    pub absorbed: Vec<DeviceTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Started,
    Changed,
    Merged,
    Split,
    Revived,
    Forgotten,
}

#[derive(Deserialize)]
struct Json<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    id: String,
    #[serde(default)]
    absorbed: Vec<String>,
    version: i64,
    trip: Option<Trip>,
    device_id: Option<&'a str>,
    before: Option<&'a str>,
}

#[derive(Deserialize)]
struct Trip {
    device_id: String,
    start_time: String,
    end_time: String,
    samples: i32,
    kind: String,
    driver: Option<String>,
    absorbed: Vec<String>,
    version: i64,
}

fn time(text: &str) -> DeviceTime {
    DeviceTime(parse_time(text).expect("a time"))
}

fn times(device: &str, ids: &[String]) -> Vec<DeviceTime> {
    let time = |id: &String| match AnyId::parse(id).expect("an id") {
        AnyId::Trip(id) => {
            assert_eq!(*id.device_id, *device, "an id of another device");
            id.t_star_ms
        }
        AnyId::Uuid(_) => panic!("an id without its device: {id}"),
    };
    ids.iter().map(time).collect()
}

impl Event {
    /// What a consumer of the feed reads.
    pub fn parse(record: &ProducerRecord) -> Self {
        let json: Json<'_> = serde_json::from_slice(&record.value).expect("an event");
        let key = std::str::from_utf8(record.key.as_deref().expect("a key")).expect("a device");
        let device = key.as_bytes()[0];
        if json.kind == Kind::Forgotten {
            assert_eq!(json.device_id, Some(key));
            let before_ms = time(json.before.expect("a time"));
            return Self::Forgotten { device, before_ms, version: json.version };
        }
        let trip = json.trip.expect("a trip");
        assert_eq!((&*trip.device_id, trip.version), (key, json.version));
        Self::Trip(Announced {
            kind: json.kind,
            retired: times(key, &json.absorbed),
            device,
            t_star: times(key, &[json.id])[0],
            version: json.version,
            start: time(&trip.start_time),
            end: time(&trip.end_time),
            samples: trip.samples,
            is_stop: trip.kind == "stop",
            driver: trip.driver,
            absorbed: times(key, &trip.absorbed),
        })
    }
}

/// A dead letter.
#[derive(Clone, Debug)]
pub struct Letter {
    pub place: Place,
    pub record: Arc<ProducerRecord>,
}

impl Letter {
    pub fn parse(record: &Arc<ProducerRecord>) -> Self {
        let header = |name: &str| {
            let mut values = record.headers.iter().rev().filter(|(of, _)| of == name);
            let (_, value) = values.next()?;
            std::str::from_utf8(value.as_deref()?).ok()?.parse::<i64>().ok()
        };
        let partition = header("__connect.errors.partition").expect("a partition") as i32;
        let offset = header("__connect.errors.offset").expect("an offset");
        let element = header("tstar-element").unwrap_or(0) as u32;
        Self { place: (partition, offset, element), record: Arc::clone(record) }
    }
}

pub fn shown(record: &ProducerRecord) -> String {
    String::from_utf8_lossy(&record.value).into_owned()
}

/// The client of a process that sends records.
#[derive(Clone)]
pub struct Sender {
    pub world: Shared,
    pub owner: usize,
}

impl ProducerClient for Sender {
    fn send(
        &self,
        topic: &str,
        record: &ProducerRecord,
    ) -> Result<impl Future<Output = Delivery> + Send + use<>, ClientError> {
        let mut world = lock(&self.world);
        if world.fails(10) {
            return Err(ClientError::MessageProduction(Code::QueueFull));
        }
        let append = world.append(self.owner, topic == LETTERS, record);
        let of = Arc::clone(&self.world);
        Ok(poll_fn(move |_| match lock(&of).outcome(append) {
            Append::Waits => Poll::Pending,
            Append::Acknowledged => Poll::Ready(Ok(RecordMetadata { partition: 0, offset: None })),
            Append::TimedOut | Append::Fenced => {
                Poll::Ready(Err(ClientError::MessageProduction(Code::MessageTimedOut)))
            }
        }))
    }

    type Transactions = SimTransactions;

    async fn transactions(
        &self,
        _: &Brokers,
        name: &str,
        _: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self::Transactions, KafkaError> {
        SimTransactions::begin(&self.world, self.owner, name)
    }

    fn unbatched(&self) -> Result<Self, ClientError> {
        Ok(self.clone())
    }
}

/// The output topics of a process.
pub fn topics(
    world: &Shared,
    owner: usize,
    brokers: &Brokers,
    table: Option<TableTopic>,
) -> OutputTopics<Sender> {
    let sender = Sender { world: Arc::clone(world), owner };
    OutputTopics {
        producer: Producer::over(sender, usize::MAX, brokers, Arc::new(|_: &str| ())),
        input: TOPIC.to_owned(),
        feed: Some("samples.trips".to_owned()),
        letters: Some(LETTERS.to_owned()),
        table,
        event_bytes: usize::MAX,
        letter_limit: Limit { record: MAX_LETTER, content: usize::MAX },
    }
}
