//! The records that are sent while the group rebalances, and the trips of what the topic has.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tstar::internals::kafka::control::Authority;
use tstar::internals::kafka::record::RecordReader;
use tstar::internals::model::control::ControlKeys;
use tstar::internals::model::epoch::{Epoch, Versions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{Offset, Version};
use tstar::internals::source::Decoder;
use tstar::internals::store::TripRow;

use super::cluster::{Cluster, PARTITIONS, TOPIC};
use crate::model::literal;
use crate::model::{Class, Fix};
use crate::protocol::log::{ENDLESS, ORIGIN, json, log_time, name};
use crate::protocol::truth::row_of;
use crate::support::Dice;

pub const DEVICES: std::ops::RangeInclusive<u8> = b'a'..=b'x';
const MINUTE: i64 = 60_000;

/// Pause between two lots of records.
const PAUSE: Duration = Duration::from_millis(50);

/// Places repeat after this number of samples.
const PLACES: usize = 5_000;

/// Partition, offset, element.
pub type Place = (i32, i64, u32);

pub fn partition_of(device: u8) -> i32 {
    i32::from(device - DEVICES.start()) % PARTITIONS
}

pub fn epoch() -> Epoch {
    Epoch {
        epoch: 1,
        topic: TOPIC.into(),
        partitions: PARTITIONS,
        start_offsets: BTreeMap::new(),
        base: Version(1_000_000),
        rules: Rules {
            max_gap_ms: 12 * MINUTE,
            max_samples: 40,
            max_future_ms: ENDLESS,
            ..Rules::default()
        },
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: true,
    }
}

pub fn reader() -> RecordReader {
    let authority =
        Authority { topic: TOPIC.into(), keys: ControlKeys::default(), max_future_ms: ENDLESS };
    RecordReader::new(Decoder::new(&epoch().rules).unwrap(), true).allowing(authority)
}

/// A record of the topic: its device, and its sample if that can be read.
#[derive(Clone, Copy)]
struct Sent {
    device: u8,
    fix: Option<Fix>,
}

/// What was sent, by the bytes of its value.
type Known = BTreeMap<Vec<u8>, Sent>;

/// Sends records until it is stopped.
pub struct Feeding {
    stop: Sender<()>,
    thread: JoinHandle<Known>,
}

impl Feeding {
    pub fn start(cluster: &Cluster, seed: u64) -> Self {
        let (stop, stopped) = mpsc::channel();
        let addresses = cluster.addresses.clone();
        let thread = std::thread::spawn(move || {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", addresses).set("enable.idempotence", "true");
            let producer: BaseProducer = config.create().unwrap();
            let (mut dice, mut known, mut nth) = (Dice::new(seed), Known::new(), 0);
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                for _ in 0..dice.between(1, 4) {
                    send(&producer, &mut dice, nth, &mut known);
                    nth += 1;
                }
                producer.poll(Duration::ZERO);
            }
            producer.flush(Duration::from_secs(60)).unwrap();
            known
        });
        Self { stop, thread }
    }

    fn stop(self) -> Known {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

fn send(producer: &BaseProducer, dice: &mut Dice, nth: usize, known: &mut Known) {
    let device = DEVICES.start() + dice.below(DEVICES.count()) as u8;
    let of_device = (nth / DEVICES.count()) as i64;
    let time = ORIGIN + (of_device * 10 + dice.between(0, 90)) * MINUTE;
    let driver = dice.one_of(&[None, None, None, Some("ann"), Some("bob")]);
    let fix = Fix { time, place: (nth % PLACES) as i32, driver, class: Class::Moving };
    let fix = (!dice.percent(4)).then_some(fix);
    let value = json(device, fix.as_ref(), nth).into_bytes();
    let key = name(device);
    let record = BaseRecord::to(TOPIC).key(&key).payload(&value).timestamp(log_time(nth));
    producer.send(record.partition(partition_of(device))).unwrap();
    known.insert(value, Sent { device, fix });
}

/// What an undisturbed run gives.
#[derive(Default)]
pub struct Truth {
    /// By device and start.
    pub trips: Vec<TripRow>,
    pub letters: Vec<Place>,
    /// Number of records of each partition.
    pub ends: Vec<i64>,
}

impl Truth {
    /// By the literal model, from what the topic has once nothing more is sent.
    pub fn new(cluster: &Cluster, feeding: Feeding) -> Self {
        let known = feeding.stop();
        let (epoch, mut truth) = (epoch(), Self { ends: cluster.ends(TOPIC), ..Self::default() });
        let limits = literal::Limits {
            max_gap: epoch.rules.max_gap_ms,
            min_stop: epoch.rules.min_stop_ms,
            max_samples: epoch.rules.max_samples as usize,
        };
        let epochs = [epoch];
        let mut devices = BTreeMap::new();
        for (partition, offset, record) in cluster.records(TOPIC) {
            let Sent { device, fix } = known[&record.value];
            assert_eq!(partition, partition_of(device));
            let version = Versions::of_partition(&epochs, partition).version_at(Offset(offset));
            let model = devices.entry(device).or_insert_with(|| literal::Device::new(limits));
            let is_dead = |fix| model.arrive(version.get(), fix) == literal::Did::TripFull;
            if fix.is_none_or(is_dead) {
                truth.letters.push((partition, offset, 0));
            }
        }
        for (device, model) in devices {
            let row = |trip| row_of(device, trip, partition_of(device));
            let mut trips: Vec<_> = model.trips.iter().map(row).collect();
            trips.sort_by_key(|trip| trip.start_ms);
            truth.trips.append(&mut trips);
        }
        truth
    }
}
