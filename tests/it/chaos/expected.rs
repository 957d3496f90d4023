//! What the literal model says of the records of a topic, in the order of its partitions: trips,
//! erasures and dead letters.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::AddAssign;
use std::sync::Mutex;

use serde_json::Value;
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::model::time::parse_time;
use tstar::internals::store::{DeviceScope, Forget, Kinds, Order, TripRow, TripStore};

use crate::hostile::judge::{Verdict, judge};
use crate::topic::StoredRecord;
use tstar_sim::model::legs::{Point, legs};
use tstar_sim::model::literal::{Device, Limits, Trip};
use tstar_sim::model::{Class, Fix, literal};

/// The limits of the default rules.
pub const LIMITS: Limits =
    Limits { max_gap: 300_000, min_stop: Some(300_000), max_samples: 100_000 };

/// A clock for bad times, which are centuries away.
const NOW_MS: i64 = 1_795_210_680_123;

/// The source of a dead letter: partition, offset, element.
pub type Place = (i32, i64, Option<u32>);

/// What a record holds, or an element of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    Sample { device: String, fix: Fix, at: Position },
    Bad { element: Option<u32> },
    Forget { before: i64 },
}

/// Latitude and longitude, 1e-7 degrees.
pub type Position = (i32, i32);

/// Reads a record.
pub fn read(record: &StoredRecord) -> Vec<Read> {
    if !record.headers.contains_key("tstar-control") {
        return samples(&record.value);
    }
    let value: Value = serde_json::from_slice(&record.value).unwrap();
    let before = &value["before"];
    // The program writes text, the tests a number.
    let text = || parse_time(before.as_str().unwrap()).unwrap();
    vec![Read::Forget { before: before.as_i64().unwrap_or_else(text) }]
}

/// Reads a value of samples.
pub fn samples(value: &[u8]) -> Vec<Read> {
    let elements: Option<Vec<Value>> = serde_json::from_slice(value).ok();
    let Some(elements) = elements else { return vec![sample(value, None)] };
    let element = |(nth, it): (u32, Value)| sample(it.to_string().as_bytes(), Some(nth));
    (0..).zip(elements).map(element).collect()
}

fn sample(line: &[u8], element: Option<u32>) -> Read {
    let (device, time) = match judge(line, NOW_MS) {
        Verdict::Good(device, time) => (device, time),
        Verdict::Bad(_) => return Read::Bad { element },
        other => panic!("{other:?} in a log of a fleet"),
    };
    let value: Value = serde_json::from_slice(line).unwrap();
    let e7 = |name: &str| (value[name].as_f64().unwrap() * 1e7).round() as i32;
    let driver = value["driver"].as_str().map(interned);
    let class = Class::new(value["speed"].as_f64(), value["ignition"].as_bool());
    let fix = Fix { time, place: 0, driver, class };
    Read::Sample { device, fix, at: (e7("lat"), e7("lon")) }
}

/// A name that lives as long as the process: there are few.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap();
    if let Some(name) = names.get(name) {
        return name;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

/// The literal model of a device, and its erasures.
struct Own {
    model: Device,
    partition: i32,
    /// Version and `before` of each.
    forgets: Vec<Forget>,
}

impl Own {
    /// Samples before this are dropped.
    fn floor(&self) -> i64 {
        self.forgets.iter().map(|forget| forget.before_ms.ms()).max().unwrap_or(i64::MIN)
    }
}

/// Events of a log, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub arrays: usize,
    pub bad_elements: usize,
    /// Trips that an erasure removed.
    pub erased: usize,
    /// Samples that came after the erasure of their time.
    pub forgotten: usize,
    pub merges: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.arrays += other.arrays;
        self.bad_elements += other.bad_elements;
        self.erased += other.erased;
        self.forgotten += other.forgotten;
        self.merges += other.merges;
    }
}

/// Store, feed and dead letters as they have to be.
pub struct Expected {
    limits: Limits,
    devices: BTreeMap<String, Own>,
    /// Positions by number, for [`Fix::place`].
    positions: Vec<Position>,
    numbers: HashMap<Position, i32>,
    pub letters: BTreeSet<Place>,
    pub counts: Counts,
}

impl Expected {
    /// What `records`, by partition and offset, give in an epoch with this base.
    pub fn new(records: &[StoredRecord], base: i64) -> Self {
        Self::under(LIMITS, records, base)
    }

    /// The same under other limits.
    pub fn under(limits: Limits, records: &[StoredRecord], base: i64) -> Self {
        let mut all = Self {
            limits,
            devices: BTreeMap::new(),
            positions: Vec::new(),
            numbers: HashMap::new(),
            letters: BTreeSet::new(),
            counts: Counts::default(),
        };
        records.iter().for_each(|record| all.arrive(record, base + 2 * record.offset));
        all
    }

    fn arrive(&mut self, record: &StoredRecord, version: i64) {
        let items = read(record);
        self.counts.arrays += usize::from(items.len() > 1);
        for (item, nth) in items.into_iter().zip(0..) {
            let element = record.value.starts_with(b"[").then_some(nth);
            match item {
                Read::Bad { element } => {
                    self.counts.bad_elements += usize::from(element.is_some());
                    self.letters.insert((record.partition, record.offset, element));
                }
                Read::Sample { device, fix, at } => {
                    let place = self.number(at);
                    let fix = Fix { place, ..fix };
                    if self.sample(record.partition, &device, version, fix) {
                        self.letters.insert((record.partition, record.offset, element));
                    }
                }
                Read::Forget { before } => {
                    let device = String::from_utf8(record.key.clone().unwrap()).unwrap();
                    let own = self.device(&device, record.partition);
                    // One that raises no floor and erases nothing leaves nothing.
                    let mut trips = own.model.trips.iter();
                    if before <= own.floor() && trips.all(|trip| trip.end() >= before) {
                        continue;
                    }
                    let before_ms = DeviceTime(before);
                    own.forgets.push(Forget { version: Version(version), before_ms });
                    let trips = own.model.trips.len();
                    own.model.trips.retain(|trip| trip.end() >= before);
                    let erased = trips - own.model.trips.len();
                    self.counts.erased += erased;
                }
            }
        }
    }

    /// Whether the sample is a dead letter.
    fn sample(&mut self, partition: i32, device: &str, version: i64, fix: Fix) -> bool {
        let own = self.device(device, partition);
        if fix.time < own.floor() {
            self.counts.forgotten += 1;
            return false;
        }
        let did = own.model.arrive(version, fix);
        self.counts.merges += usize::from(did == literal::Did::Merge);
        did == literal::Did::TripFull
    }

    fn device(&mut self, device: &str, partition: i32) -> &mut Own {
        let fresh = || Own { model: Device::new(self.limits), partition, forgets: Vec::new() };
        let own = self.devices.entry(device.to_owned()).or_insert_with(fresh);
        assert_eq!(own.partition, partition, "{device} is in one partition");
        own
    }

    fn number(&mut self, at: Position) -> i32 {
        let positions = &mut self.positions;
        *self.numbers.entry(at).or_insert_with(|| {
            positions.push(at);
            i32::try_from(positions.len() - 1).unwrap()
        })
    }

    /// Every trip, by device and start, and its partition.
    pub fn trips(&self) -> Vec<(&str, i32, &Trip)> {
        let mut trips = Vec::new();
        for (device, own) in &self.devices {
            let of_it = own.model.trips.iter().map(|trip| (device.as_str(), own.partition, trip));
            trips.extend(of_it);
        }
        trips.sort_unstable_by_key(|(device, _, trip)| (*device, trip.start()));
        trips
    }

    /// The erasures of each device that has some.
    pub fn forgets(&self) -> BTreeMap<&str, &[Forget]> {
        let own = self.devices.iter().filter(|(_, own)| !own.forgets.is_empty());
        own.map(|(device, own)| (device.as_str(), &own.forgets[..])).collect()
    }

    /// The trip whose id this is or was; `None` if it was erased.
    pub fn trip_of(&self, device: &str, t_star: i64) -> Option<&Trip> {
        let own = &self.devices[device];
        let has_it = |trip: &&Trip| trip.t_star() == t_star || trip.ids.contains_key(&t_star);
        let found = own.model.trips.iter().find(has_it);
        assert!(found.is_some() || t_star < own.floor(), "{device} never had a trip {t_star}");
        found
    }

    /// Trips and erasures of a store are those of the model.
    pub async fn assert_store(&self, store: &impl TripStore) {
        self.assert_rows(rows(store).await);
        for (device, expected) in self.forgets() {
            assert_eq!(store.forgets(device).await.unwrap(), expected, "{device}");
        }
    }

    #[track_caller]
    fn assert_rows(&self, mut rows: Vec<TripRow>) {
        rows.sort_unstable_by(|a, b| (&a.device_id, a.start_ms).cmp(&(&b.device_id, b.start_ms)));
        let expected = self.trips();
        for (row, (device, partition, trip)) in rows.iter().zip(&expected) {
            assert_eq!((row.device_id.as_str(), row.partition), (*device, *partition));
            self.assert_row(row, trip);
        }
        assert_eq!(rows.len(), expected.len(), "trips");
    }

    #[track_caller]
    fn assert_row(&self, row: &TripRow, trip: &Trip) {
        let what = format!("found {row:?}\nexpected {trip:?}");
        let times = [row.start_ms, row.end_ms, row.t_star_ms].map(DeviceTime::ms);
        assert_eq!(times, [trip.start(), trip.end(), trip.t_star()], "{what}");
        assert_eq!(row.version.get(), trip.version, "{what}");
        let versions = |history: &Vec<Version>| history.iter().map(|it| it.get()).collect();
        let ids = row.ids.iter().map(|(t_star, history)| (t_star.ms(), versions(history)));
        assert_eq!(ids.collect::<BTreeMap<_, Vec<_>>>(), trip.ids, "{what}");
        let driver = row.driver.as_deref().zip(row.driver_ms.map(DeviceTime::ms));
        assert_eq!(driver, trip.driver(), "{what}");
        let mut kept: Vec<_> = trip.kept.iter().map(|fix| (fix.time, self.position(fix))).collect();
        kept.sort_unstable();
        assert_eq!(usize::try_from(row.samples), Ok(kept.len()), "{what}");
        let found = row.to_path().unwrap();
        let path = found.iter().map(|it| (it.time_ms.ms(), (it.lat_e7, it.lon_e7)));
        assert!(path.eq(kept.iter().copied()), "{what}");
        let degrees = |e7: i32| f64::from(e7) / 1e7;
        let point = |fix: &Fix| {
            let (lat, lon) = self.position(fix);
            let stands = fix.class != Class::Moving;
            Point { time: fix.time, lat: degrees(lat), lon: degrees(lon), stands }
        };
        let metres = legs(trip.kept.iter().map(point), None).counted_m;
        // A micrometre: far below the quantum of a position.
        assert!((row.distance_m - metres).abs() < 1e-6, "{metres} m, {what}");
    }

    fn position(&self, fix: &Fix) -> Position {
        self.positions[usize::try_from(fix.place).unwrap()]
    }
}

/// Every trip of a store.
pub async fn rows(store: &impl TripStore) -> Vec<TripRow> {
    let mut rows = Vec::new();
    for device in store.devices(DeviceScope::All, None, usize::MAX).await.unwrap() {
        let all = store.range(
            &device,
            Kinds::All,
            DeviceTime::MIN,
            DeviceTime::MAX,
            Order::Asc,
            usize::MAX,
        );
        rows.append(&mut all.await.unwrap());
    }
    rows
}
