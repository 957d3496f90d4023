//! The table topic: the brokers' transactions, and what its readers hold in the end.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use serde::Deserialize;
use tstar::internals::identity::TripId;
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::transactions::TransactionClient;
use tstar::internals::kafka::transactions::TransactionRecord;
use tstar::internals::model::epoch::Division;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::sink::table::TableTopic;
use tstar::internals::store::{Kinds, TripRow};
use tstar::internals::views::table::TableFormat;

use super::truth::Truth;
use super::world::{Append, Shared, World, lock};

const NAME: &str = "samples.trips.table";

/// The table topic of processes that know this epoch as the newest, with these segments.
pub fn topic(division: Division, kinds: Kinds) -> TableTopic {
    let (name, format) = (NAME.to_owned(), TableFormat::Json);
    TableTopic { name, kinds, partitions: 4, format, division, max_bytes: usize::MAX }
}

/// The transactional ids, and what committed transactions have written.
#[derive(Default)]
pub struct Table {
    /// Number of producers that each id has had.
    producers: BTreeMap<String, u64>,
    /// The last record of each key; `None`: a tombstone.
    records: BTreeMap<Vec<u8>, Option<TableTrip>>,
}

/// A trip as its record shows it.
#[derive(Debug, Deserialize, PartialEq)]
struct TableTrip {
    id: String,
    start_time: DeviceTime,
    end_time: DeviceTime,
    samples: i32,
    driver: Option<String>,
    absorbed: String,
    version: i64,
}

#[derive(Deserialize)]
struct Connect {
    payload: TableTrip,
}

impl Table {
    /// Whether a producer is the latest one of its id.
    pub fn is_current(&self, (name, producer): &(String, u64)) -> bool {
        self.producers[name] == *producer
    }

    /// A new producer begins to use an id.
    fn begin(&mut self, name: &str) -> (String, u64) {
        let producer = self.producers.entry(name.to_owned()).or_default();
        *producer += 1;
        (name.to_owned(), *producer)
    }

    /// No producer that exists may write any more.
    pub fn fence(&mut self) {
        self.producers.values_mut().for_each(|producer| *producer += 1);
    }

    /// A transaction is committed. Returns the number of tombstones in it.
    pub fn commit(&mut self, records: &[TransactionRecord]) -> u64 {
        let mut tombstones = 0;
        for TransactionRecord { record, is_tombstone, .. } in records {
            let parse = || serde_json::from_slice::<Connect>(&record.value).expect("a trip");
            let trip = (!is_tombstone).then(|| parse().payload);
            tombstones += u64::from(*is_tombstone);
            self.records.insert(record.key.clone().expect("a key"), trip);
        }
        tombstones
    }
}

fn id(row: &TripRow, t_star_ms: DeviceTime) -> String {
    TripId::new(&*row.device_id, t_star_ms).and_then(|id| id.text()).expect("it has an id")
}

/// What the record of a row shows.
fn table_trip(row: &TripRow) -> TableTrip {
    let absorbed: Vec<_> = row.absorbed().map(|(t_star_ms, _)| id(row, t_star_ms)).collect();
    TableTrip {
        id: id(row, row.t_star_ms),
        start_time: row.start_ms,
        end_time: row.end_ms,
        samples: row.samples,
        driver: row.driver.clone(),
        absorbed: absorbed.join(" "),
        version: row.version.get(),
    }
}

/// The last record of each key is right, and no other key has a segment.
pub fn check(world: &mut World, truth: &Truth, kinds: Kinds) {
    let held = world.table.records.iter();
    let held: BTreeMap<_, _> =
        held.filter_map(|(key, trip)| Some((key.clone(), trip.as_ref()?))).collect();
    let end = truth.end();
    let rows = end.iter().filter(|row| kinds.has(row.kind));
    let want: Vec<_> = rows.map(|row| table_trip(row)).collect();
    let want: BTreeMap<_, _> =
        want.iter().map(|trip| (trip.id.clone().into_bytes(), trip)).collect();
    if held != want {
        world.log(|| format!("the table has {held:?}, not {want:?}"));
        world.bad.insert("table");
    }
}

/// A producer of transactions of a process.
pub struct SimTransactions {
    world: Shared,
    owner: usize,
    producer: (String, u64),
}

impl SimTransactions {
    pub fn begin(world: &Shared, owner: usize, name: &str) -> Result<Self, KafkaError> {
        let mut shared = lock(world);
        let producer = shared.table.begin(name);
        if shared.fails(30) {
            // A former owner begins at the same time, is later, and then learns what it is.
            shared.see("beginnings that are fenced");
            let (name, _) = shared.table.begin(name);
            return Err(KafkaError::Fenced { name });
        }
        Ok(Self { world: Arc::clone(world), owner, producer })
    }
}

impl TransactionClient for SimTransactions {
    async fn send(&self, records: Arc<[TransactionRecord]>) -> Result<(), KafkaError> {
        let mut sent = None;
        poll_fn(move |_| {
            let mut world = lock(&self.world);
            match sent.map(|append| world.outcome(append)) {
                Some(Append::Waits) => return Poll::Pending,
                Some(Append::Acknowledged) => return Poll::Ready(Ok(())),
                Some(Append::Fenced) => {
                    let name = self.producer.0.clone();
                    return Poll::Ready(Err(KafkaError::Fenced { name }));
                }
                Some(Append::TimedOut) if world.fails(300) => {
                    // It may arrive yet, and the client can neither know nor abort it.
                    world.see("transactions whose end is unclear");
                    let (name, problem) = (self.producer.0.clone(), "timed out".to_owned());
                    return Poll::Ready(Err(KafkaError::Unusable { name, problem }));
                }
                None | Some(Append::TimedOut) => (),
            }
            // What was aborted is sent again, once the brokers answer.
            sent = world.send_transaction(self.owner, &self.producer, &records);
            Poll::Pending
        })
        .await
    }
}
