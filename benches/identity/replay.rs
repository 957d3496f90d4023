//! The ids of every trip in the first pass over the log, and in replays.

use std::collections::HashMap;

use anyhow::Context as _;
use tstar::internals::identity::UuidId;
use tstar::internals::timeline::{DAY_MS, day_of};
use uuid::Uuid;

use crate::log::device_id;
use crate::mint::{MemoryStock, Minter};
use crate::names::{Course, Covering, Fate};
use crate::pass::{History, Way, by_span};
use crate::schemes::{Id, Scheme};

/// Number of workers that share the log, by device.
pub const WORKERS: u32 = 8;

/// First number of the workers that take over. Not a multiple of [`WORKERS`], so that each also
/// gets another counter.
const OTHERS: u32 = 11;

/// How much later the log is replayed, ms, so that clocks show another time.
const LATER_MS: i64 = 90 * DAY_MS;

/// The ids of the trips of a history, by index. A trip without an id has `None`: with natural keys,
/// the retired trips; with batches, trips that started and were merged within a batch.
///
/// # Errors
/// A trip has no id of that form.
pub fn ids(
    scheme: Scheme,
    history: &History,
    way: Way,
    is_replay: bool,
) -> anyhow::Result<Vec<Option<Id>>> {
    let mut ids = vec![None; history.trips.len()];
    if scheme.name().is_some() {
        let ordinals = ordinals(history);
        for (at, trip) in history.remaining() {
            ids[at as usize] = scheme.natural(trip, ordinals[at as usize])?;
        }
        return Ok(ids);
    }
    let mut minters = minters(scheme, 0)?;
    let (mut stock, half) = (MemoryStock::default(), history.trips.len() / 2);
    let later_ms = if is_replay { LATER_MS } else { 0 };
    for (at, clock_ms) in mintings(history, way) {
        if way == Way::TakenOver && at == half {
            minters = self::minters(scheme, OTHERS)?;
        }
        let worker = history.trips[at].device % WORKERS;
        let mut clock_ms = clock_ms + later_ms;
        let mut clock = || {
            clock_ms += 1;
            clock_ms - 1
        };
        let bytes = minters[worker as usize].mint(&mut clock, &mut stock)?;
        ids[at] = Some(scheme.minted(bytes)?);
    }
    Ok(ids)
}

fn minters(scheme: Scheme, first: u32) -> anyhow::Result<Vec<Box<dyn Minter>>> {
    let minters = (first..first + WORKERS).map(|worker| scheme.minter(worker));
    minters.collect::<Option<_>>().context("the scheme mints ids")
}

/// Which trips get ids, in order, and when. Straight: each trip when it starts. In batches: the
/// trips that remain at the end of the batch, worker by worker.
fn mintings(history: &History, way: Way) -> Vec<(usize, i64)> {
    let all = history.trips.iter().enumerate();
    let Way::Batches(samples) = way else {
        return all.map(|(at, trip)| (at, trip.clock_ms)).collect();
    };
    let batch = |nth: u64| nth / samples;
    let mut minted: Vec<_> =
        all.filter(|(_, trip)| batch(trip.born) != batch(trip.retired)).collect();
    minted.sort_by_key(|&(at, trip)| (batch(trip.born), trip.device % WORKERS, at));
    let mut ends: HashMap<u64, i64> = HashMap::new();
    for trip in &history.trips {
        let end = ends.entry(batch(trip.born)).or_insert(i64::MIN);
        *end = trip.clock_ms.max(*end);
    }
    minted.into_iter().map(|(at, trip)| (at, ends[&batch(trip.born)])).collect()
}

/// Number of each remaining trip among those of its device and start day, from 1.
fn ordinals(history: &History) -> Vec<u32> {
    let mut remaining: Vec<_> = history.remaining().collect();
    remaining.sort_by_key(|(_, trip)| (trip.device, trip.start_ms));
    let mut ordinals = vec![0; history.trips.len()];
    let (mut last, mut nth) = (None, 0);
    for (at, trip) in remaining {
        let day = (trip.device, day_of(trip.start_ms));
        nth = if last == Some(day) { nth + 1 } else { 1 };
        last = Some(day);
        ordinals[at as usize] = nth;
    }
    ordinals
}

/// The ids that trips have when a database first sees them, in arrival order.
///
/// # Errors
/// A trip has no id of that form.
pub fn at_birth(
    scheme: Scheme,
    history: &History,
    minted: &[Option<Id>],
) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut days: HashMap<(u32, i64), u32> = HashMap::new();
    let mut ids = Vec::with_capacity(history.trips.len());
    for (trip, id) in history.trips.iter().zip(minted) {
        let mut first = *trip;
        (first.start_ms, first.end_ms) = (trip.t_star_ms, trip.t_star_ms);
        // In the log, a merge frees the number of the retired trip. Here every number is used only
        // once, so that none has to be deleted.
        let nth = days.entry((trip.device, day_of(trip.t_star_ms).get())).or_default();
        *nth += 1;
        let id = match scheme.natural(&first, *nth)? {
            Some(id) => id.bytes,
            None => id.as_ref().context("every trip was minted an id")?.bytes.clone(),
        };
        ids.push(id);
    }
    Ok(ids)
}

/// Looks up the minted ids among the remaining trips. A minted id stays in its row, so rows never
/// move, and only a merge removes an id.
pub fn minted_course(history: &History, ids: &[Option<Id>]) -> Course {
    let mut table = HashMap::new();
    for (at, _) in history.remaining() {
        if let Some(id) = &ids[at as usize] {
            table.insert(&id.bytes, at);
        }
    }
    let mut course = Course::default();
    for (at, id) in (0..).zip(ids) {
        if let Some(id) = id {
            let found = table.get(&id.bytes).copied();
            course.fate.count(found, history.root(at));
            course.changes.merge += u64::from(found != Some(at));
        }
    }
    course
}

/// Looks up tstar's UUIDs: the device by its hash, then the trip by the time.
///
/// # Errors
/// A UUID is not valid.
pub fn uuid_fate(history: &History) -> anyhow::Result<Fate> {
    let (covering, mut fate) = (Covering::new(history), Fate::default());
    // Like the day index, but for all days: the last 10 bytes depend only on the device.
    let mut devices: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
    let mut uuids = Vec::with_capacity(history.trips.len());
    for trip in &history.trips {
        let id = Scheme::TStarUuid.natural(trip, 0)?.context("a trip of the log has a UUID")?;
        let known = devices.entry(id.bytes[6..].to_vec()).or_default();
        if !known.contains(&trip.device) {
            known.push(trip.device);
        }
        uuids.push(id.bytes);
    }
    for (at, bytes) in (0..).zip(uuids) {
        let uuid = UuidId::from_uuid(Uuid::from_slice(&bytes)?)?;
        let time_ms = uuid.t_star_ms;
        let mut candidates = devices[&bytes[6..]].iter().copied();
        let device = candidates.find(|&device| uuid.matches(&device_id(device), time_ms));
        let found = device.and_then(|device| covering.find(device, time_ms));
        fate.count(found, history.root(at));
    }
    Ok(fate)
}

/// Share of the remaining trips that have the same id in both histories, percent.
pub fn equal(
    history: &History,
    ids: &[Option<Id>],
    replayed: &History,
    replayed_ids: &[Option<Id>],
) -> f64 {
    let same = by_span(replayed);
    let (mut trips, mut equal) = (0, 0);
    for (at, trip) in history.remaining() {
        trips += 1;
        let other = same.get(&(trip.device, trip.start_ms, trip.end_ms));
        let other = other.and_then(|&other| replayed_ids[other as usize].as_ref());
        equal += u64::from(other.is_some() && other == ids[at as usize].as_ref());
    }
    100.0 * crate::table::ratio(equal, trips)
}
