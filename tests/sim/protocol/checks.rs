//! The invariants: at a hand-over, for a reader at any moment, and once all is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use scylla::value::CqlTimestamp;
use sha2::{Digest, Sha256};
use tstar::internals::identity;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::scalar::{Day, DeviceTime, Offset};
use tstar::internals::segment::Kind as SegmentKind;
use tstar::internals::store::TripRow;
use tstar::internals::timeline::day_of;

use super::hostile::{HEAD, MAX_LETTER};
use super::log::{DAYS, ORIGIN, log_time, name};
use super::outputs::{Announced, Event, Kind, Letter};
use super::truth::{Named, Truth, device_of};
use super::world::{Device, Place, World};
use crate::nodes::PAIRS;

fn devices(world: &World) -> BTreeSet<Device> {
    world.scripts.iter().flat_map(|script| &script.devices).copied().collect()
}

fn days() -> std::ops::Range<i64> {
    let first = day_of(DeviceTime(ORIGIN)).get();
    first..first + DAYS
}

/// Statements about the entries of a device and a day.
const OF_DEVICE: &str = "SELECT bucket FROM days_of_device WHERE device_id = ? AND bucket = ?";
const OF_DAY: &str =
    "SELECT device_id FROM device_days WHERE bucket = ? AND shard = ? AND device_id = ?";

/// I6: what lies below the committed offset of a partition is in every pair of replicas, announced,
/// and in the dead letters.
pub fn commit(world: &mut World, truth: &Truth, lane: usize) {
    let (committed, passed) = (world.committed(lane), world.passed(lane));
    let state = truth.state(lane, passed).iter();
    for row in state {
        let holds = |found: &TripRow| found.overlaps(row) && found.version >= row.version;
        let mut is_in =
            |day: Day, pair: usize| world.trips_from(device_of(row), day, pair).iter().any(holds);
        let mut days = kept_times(row, truth).into_iter().map(day_of);
        if !days.all(|day| (0..PAIRS.len()).all(|pair| is_in(day, pair))) {
            world.bad.insert("I6 rows");
        }
    }
    let dead: BTreeSet<_> = world.letters.iter().map(|letter| letter.place).collect();
    let log = &world.scripts[lane].log;
    let is_passed = |place: &Place| place.0 == log.partition && place.1 < committed;
    let lacks_letter = truth.dead.iter().any(|place| is_passed(place) && !dead.contains(place));
    let version = log.versions.version_at(Offset(committed));
    let merges = announced(trips(&world.feed), truth);
    let mut of_lane = truth.merges.iter().filter(|(merge, of)| {
        **of == lane && merge.2 < version.get() && !truth.is_revived(merge, version.get())
    });
    // Past what is committed, it may be known to live again, or to be retired again.
    let is_outdated = |&(device, t_star, retired): &Named| {
        let since = (device, t_star, retired);
        merges.range(since..=(device, t_star, i64::MAX)).next().is_some()
            || trips(&world.feed).any(|event| {
                (event.device, event.t_star) == (device, t_star) && event.version > retired
            })
    };
    let lacking = of_lane.find(|(it, _)| !is_outdated(it));
    if lacks_letter {
        world.bad.insert("I6 dead letters");
    }
    if let Some((merge, _)) = lacking {
        world.log(|| format!("no event before {committed} names the merge {merge:?}"));
        world.bad.insert("I6 feed");
    }
}

/// The trips that events show.
pub fn trips(events: &[Event]) -> impl Iterator<Item = &Announced> {
    events.iter().filter_map(|event| match event {
        Event::Trip(trip) => Some(trip),
        Event::Forgotten { .. } => None,
    })
}

/// The merges that some event names, the event's trip being the survivor or a later one.
fn announced<'e>(events: impl Iterator<Item = &'e Announced>, truth: &Truth) -> BTreeSet<Named> {
    let mut merges = BTreeSet::new();
    for event in events.filter(|event| !event.retired.is_empty()) {
        let Some(row) = truth.ever.get(&event.named()) else { continue };
        let named = row.absorbed().filter(|(t_star, _)| event.retired.contains(t_star));
        merges.extend(named.map(|(t_star, version)| (event.device, t_star, version.get())));
    }
    merges
}

/// I7: what was committed is found at any moment. I2: an id that was published resolves.
pub fn reader(world: &mut World, truth: &Truth) {
    for row in &committed(world, truth) {
        // It may be split later, so that only its samples are certain to be covered.
        let times = kept_times(row, truth);
        if times.is_empty() {
            continue;
        }
        let time_ms = times[world.dice.below(times.len())];
        if world.covering(device_of(row), time_ms).is_none() {
            world.bad.insert("I7 not found");
        }
    }
    listing(world, truth);
    let end = truth.end();
    let stays = |trip: &&Announced| {
        let has_id = |row: &Arc<TripRow>| {
            device_of(row) == trip.device
                && (row.t_star_ms == trip.t_star || row.retired_at(trip.t_star).is_some())
        };
        // One that got shorter may have been erased with its first sample.
        let floor = truth.floor(trip.device);
        trip.end >= floor && (trip.t_star >= floor || end.iter().any(has_id))
    };
    let published: Vec<_> = trips(&world.feed).filter(stays).collect();
    if published.is_empty() {
        return;
    }
    let nth = world.dice.below(published.len());
    let (device, t_star) = (published[nth].device, published[nth].t_star);
    let found = world.covering(device, t_star);
    let resolves =
        found.is_some_and(|row| row.t_star_ms == t_star || row.retired_at(t_star).is_some());
    if !resolves {
        world.log(|| format!("{t_star:?} of {device} does not resolve"));
        world.bad.insert("I2 id does not resolve");
    }
}

/// The times of the samples of a row that are kept in the end.
fn kept_times(row: &TripRow, truth: &Truth) -> Vec<DeviceTime> {
    let path = row.to_path().expect("the truth has whole rows");
    let times = path.iter().map(|sample| sample.time_ms);
    times.filter(|time_ms| truth.stays(device_of(row), *time_ms)).collect()
}

/// The trips of the committed records.
pub fn committed(world: &World, truth: &Truth) -> Vec<Arc<TripRow>> {
    let lanes = 0..truth.states.len();
    lanes.flat_map(|lane| truth.state(lane, world.passed(lane)).to_vec()).collect()
}

/// I7 for a reader of several days: each sample that was committed is within a trip of the list.
fn listing(world: &mut World, truth: &Truth) {
    let committed = committed(world, truth);
    for device in devices(world) {
        let list = world.list(device);
        let covers =
            |it: &TripRow, time_ms: DeviceTime| (it.start_ms..=it.end_ms).contains(&time_ms);
        let of_device = committed.iter().filter(|row| device_of(row) == device);
        let times = of_device.flat_map(|row| kept_times(row, truth));
        let missing = |time_ms: &DeviceTime| !list.iter().any(|it| covers(it, *time_ms));
        let missing: Vec<_> = times.filter(missing).collect();
        if missing.is_empty() {
            continue;
        }
        // A change that has reached one of two days hides the older form in the other. A reader
        // reads them again, and here nothing happens meanwhile.
        let mut rows = Vec::new();
        for (day, pair) in days().flat_map(|day| (0..PAIRS.len()).map(move |pair| (day, pair))) {
            rows.extend(world.trips_from(device, Day(day), pair).iter().cloned());
        }
        let is_torn = |time_ms: &DeviceTime| {
            let newer =
                |old: &TripRow, row: &TripRow| old.overlaps(row) && old.version < row.version;
            let old = |old: &&TripRow| rows.iter().any(|row| newer(old, row));
            rows.iter().filter(old).any(|it| covers(it, *time_ms))
        };
        if !missing.iter().all(is_torn) {
            world.bad.insert("I7 not in the list");
        }
    }
}

/// Everything has arrived and all owners are idle.
pub fn end(world: &mut World, truth: &Truth) {
    if world.nodes().differs {
        world.bad.insert("one timestamp, two rows");
    }
    rows(world, truth);
    letters(world, truth);
    feed(world, truth);
    let mut shuffled = world.feed.clone();
    for nth in (1..shuffled.len()).rev() {
        shuffled.swap(nth, world.dice.below(nth + 1));
    }
    let want: BTreeSet<Named> = truth.end().iter().map(|row| named(row)).collect();
    for (events, by_span, by_id) in [
        (&world.feed, "consumer by span", "consumer by id"),
        (&shuffled, "consumer by span, shuffled", "consumer by id, shuffled"),
    ] {
        if by_overlap(events) != want {
            world.bad.insert(by_span);
        }
        if by_ids(events) != want {
            world.bad.insert(by_id);
        }
    }
}

/// Each bad sample has a letter with the bytes of its record.
fn letters(world: &mut World, truth: &Truth) {
    let dead: BTreeSet<_> = world.letters.iter().map(|letter| letter.place).collect();
    if dead != truth.dead {
        world.bad.insert("dead letters");
        return;
    }
    let is_right = |letter: &Letter| {
        let (partition, offset, element) = letter.place;
        let mut scripts = world.scripts.iter();
        let script = scripts.find(|of| of.log.partition == partition).expect("a partition");
        let nth = script.before(offset);
        let (record, sent) = (&script.encoded[nth], &letter.record);
        is_whole_or_cut(sent, &record.elements[element as usize])
            && sent.key == record.key
            && sent.headers.starts_with(&record.headers)
            && sent.timestamp_ms == Some(log_time(nth))
    };
    if !world.letters.iter().all(is_right) {
        world.bad.insert("a letter differs from its record");
    }
}

/// Whether a letter has the bytes of a sample, or if that is too large, its head, length and hash.
fn is_whole_or_cut(sent: &ProducerRecord, sample: &[u8]) -> bool {
    let header = |name: &str| {
        let (_, value) = sent.headers.iter().find(|(of, _)| of == name)?;
        String::from_utf8(value.clone()?).ok()
    };
    let (length, hash) = (header("tstar-length"), header("tstar-sha256"));
    if sample.len() <= MAX_LETTER {
        return sent.value == sample && (length, hash) == (None, None);
    }
    let of_sample = HEXLOWER.encode(&Sha256::digest(sample));
    sent.value == sample[..HEAD]
        && length == Some(sample.len().to_string())
        && hash == Some(of_sample)
}

impl Announced {
    fn named(&self) -> Named {
        (self.device, self.t_star, self.version)
    }

    /// Whether the event shows a trip as it was.
    fn shows(&self, row: &TripRow) -> bool {
        (self.start, self.end, self.samples) == (row.start_ms, row.end_ms, row.samples)
            && self.is_stop == (row.kind == SegmentKind::Stop)
            && self.driver == row.driver
            && self.absorbed.iter().copied().eq(row.absorbed().map(|(t_star, _)| t_star))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.device == other.device && self.start <= other.end && other.start <= self.end
    }
}

pub fn named(row: &TripRow) -> Named {
    (device_of(row), row.t_star_ms, row.version.get())
}

/// Each pair of replicas holds the rows of the truth in each day, all columns, and indexes the
/// days.
fn rows(world: &mut World, truth: &Truth) {
    let (end, devices) = (truth.end(), devices(world));
    for pair in 0..PAIRS.len() {
        for (device, day) in devices.iter().flat_map(|of| days().map(move |day| (*of, day))) {
            let found = world.trips_from(device, Day(day), pair);
            let is_here = |row: &&Arc<TripRow>| {
                device_of(row) == device && row.days().any(|of| of.get() == day)
            };
            let mut want: Vec<_> = end.iter().filter(is_here).collect();
            want.sort_by_key(|row| row.end_ms);
            if !found.iter().eq(want.iter().map(|row| &***row)) {
                world.bad.insert("rows");
            }
            let (bucket, id) = (CqlTimestamp(Day(day).start_ms().ms()), name(device));
            let of_day = (bucket, i32::from(identity::shard(&id)), &id);
            let lists =
                [world.holds(pair, OF_DEVICE, (&id, bucket)), world.holds(pair, OF_DAY, of_day)];
            let erased = truth.gone.get(&device).is_some_and(|gone| day < day_of(*gone).get());
            if !want.is_empty() && lists != [true; 2] {
                world.bad.insert("a list misses a day");
            } else if want.is_empty() && erased && lists != [false; 2] {
                world.bad.insert("a list names an erased day");
            }
        }
    }
}

fn feed(world: &mut World, truth: &Truth) {
    let mut once: BTreeMap<Named, &Announced> = BTreeMap::new();
    let mut known: BTreeSet<(Device, DeviceTime)> = BTreeSet::new();
    let mut bad = Vec::new();
    let stays = |merge: &&Named| !truth.is_revived(merge, i64::MAX);
    let merges: BTreeSet<Named> = truth.merges.keys().filter(stays).copied().collect();
    for event in trips(&world.feed) {
        once.entry(event.named()).or_insert(event);
        if event.kind != Kind::Changed {
            known.insert((event.device, event.t_star));
        }
        if !truth.ever.get(&event.named()).is_some_and(|row| event.shows(row)) {
            bad.push("an event shows a trip that never was");
        }
        if (event.kind == Kind::Merged) == event.retired.is_empty() {
            bad.push("the kind of an event does not fit");
        }
    }
    if !announced(trips(&world.feed), truth).is_superset(&merges) {
        bad.push("a merge was not announced");
    }
    if !announced(once.into_values(), truth).is_superset(&merges) {
        bad.push("to drop repeats of (id, version) loses a merge");
    }
    if truth.end().iter().any(|row| !known.contains(&(device_of(row), row.t_star_ms))) {
        bad.push("an id was not announced");
    }
    world.bad.extend(bad);
}

/// What events erased of each device: before which time, and up to which version.
#[derive(Default)]
struct Floors(BTreeMap<Device, Vec<(DeviceTime, i64)>>);

impl Floors {
    fn raise(&mut self, device: Device, floor: (DeviceTime, i64)) {
        self.0.entry(device).or_default().push(floor);
    }

    fn covers(&self, trip: &Announced) -> bool {
        let mut floors = self.0.get(&trip.device).into_iter().flatten();
        floors.any(|(before_ms, version)| trip.end < *before_ms && trip.version < *version)
    }
}

/// A consumer that knows spans: of overlapping trips the one with the highest version wins.
fn by_overlap(events: &[Event]) -> BTreeSet<Named> {
    let (mut trips, mut floors) = (Vec::<&Announced>::new(), Floors::default());
    for event in events {
        match event {
            Event::Forgotten { device, before_ms, version } => {
                floors.raise(*device, (*before_ms, *version));
                trips.retain(|trip| !floors.covers(trip));
            }
            Event::Trip(new) if !floors.covers(new) => {
                let mut met = trips.iter().filter(|trip| trip.overlaps(new));
                let is_old = met.any(|trip| trip.version >= new.version);
                if !is_old {
                    trips.retain(|trip| !trip.overlaps(new));
                    trips.push(new);
                }
            }
            Event::Trip(_) => {}
        }
    }
    trips.into_iter().map(Announced::named).collect()
}

/// A consumer that knows ids only: the highest version of an id wins, unless an event of at least
/// that version has retired it, or was erased.
fn by_ids(events: &[Event]) -> BTreeSet<Named> {
    let mut trips: BTreeMap<(Device, DeviceTime), &Announced> = BTreeMap::new();
    let mut gone: BTreeMap<(Device, DeviceTime), i64> = BTreeMap::new();
    let mut floors = Floors::default();
    for event in events {
        match event {
            Event::Forgotten { device, before_ms, version } => {
                floors.raise(*device, (*before_ms, *version));
            }
            Event::Trip(new) => {
                for t_star in &new.absorbed {
                    let retired = gone.entry((new.device, *t_star)).or_insert(new.version);
                    *retired = new.version.max(*retired);
                }
                let id = (new.device, new.t_star);
                let is_old = trips.get(&id).is_some_and(|trip| trip.version >= new.version);
                if !is_old {
                    trips.insert(id, new);
                }
            }
        }
    }
    // An erased one still hides what is older. So it makes no difference when it is removed.
    trips.retain(|id, trip| {
        !floors.covers(trip) && gone.get(id).is_none_or(|retired| *retired < trip.version)
    });
    trips.into_values().map(Announced::named).collect()
}
