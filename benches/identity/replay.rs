//! The ids of every trip, as the log gives them once, and as it gives them again.

use std::collections::HashMap;

use anyhow::Context as _;
use tstar::identity::UuidId;
use tstar::timeline::{DAY_MS, day_of};
use uuid::Uuid;

use crate::log::device_id;
use crate::mint::{Minter, Shelf};
use crate::names::{Course, Covering, Fate};
use crate::pass::{History, Way, by_span};
use crate::schemes::{Id, Scheme};

/// Workers that share the log: as many partitions, by device.
pub const WORKERS: u32 = 8;

/// The numbers of those that take over begin here; no multiple of [`WORKERS`], so that each has
/// another counter too.
const OTHERS: u32 = 11;

/// How much later the log is replayed, ms: what tells the time tells another one then.
const LATER_MS: i64 = 90 * DAY_MS;

/// The ids of a history's trips, by their place in it. A trip that never had one has none: of
/// natural keys those that do not stand, and what began and ended within a batch.
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
        for (at, trip) in history.standing() {
            ids[at as usize] = scheme.natural(trip, ordinals[at as usize])?;
        }
        return Ok(ids);
    }
    let mut minters = minters(scheme, 0)?;
    let (mut stock, half) = (Shelf::default(), history.trips.len() / 2);
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
    minters.collect::<Option<_>>().context("the scheme mints")
}

/// Which trips are given ids, in order, and when. Straight: each as it begins. In batches: at the
/// end of the batch, worker by worker, those that are still there.
fn mintings(history: &History, way: Way) -> Vec<(usize, i64)> {
    let all = history.trips.iter().enumerate();
    let Way::Batches(samples) = way else {
        return all.map(|(at, trip)| (at, trip.clock_ms)).collect();
    };
    let batch = |nth: u64| nth / samples;
    let mut kept: Vec<_> =
        all.filter(|(_, trip)| batch(trip.born) != batch(trip.retired)).collect();
    kept.sort_by_key(|&(at, trip)| (batch(trip.born), trip.device % WORKERS, at));
    let mut ends: HashMap<u64, i64> = HashMap::new();
    for trip in &history.trips {
        let end = ends.entry(batch(trip.born)).or_insert(i64::MIN);
        *end = trip.clock_ms.max(*end);
    }
    kept.into_iter().map(|(at, trip)| (at, ends[&batch(trip.born)])).collect()
}

/// Which of the trips that start that day each trip is, from 1; of those that stand.
fn ordinals(history: &History) -> Vec<u32> {
    let mut standing: Vec<_> = history.standing().collect();
    standing.sort_by_key(|(_, trip)| (trip.device, trip.start_ms));
    let mut ordinals = vec![0; history.trips.len()];
    let (mut last, mut nth) = (None, 0);
    for (at, trip) in standing {
        let day = (trip.device, day_of(trip.start_ms));
        nth = if last == Some(day) { nth + 1 } else { 1 };
        last = Some(day);
        ordinals[at as usize] = nth;
    }
    ordinals
}

/// The ids under which a database first sees the trips, in the order of their arrival.
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
        // A trip that a merge retires frees its number there; here every number is used once, so
        // that none has to be deleted.
        let nth = days.entry((trip.device, day_of(trip.t_star_ms))).or_default();
        *nth += 1;
        let id = match scheme.natural(&first, *nth)? {
            Some(id) => id.bytes,
            None => id.as_ref().context("every trip was minted an id")?.bytes.clone(),
        };
        ids.push(id);
    }
    Ok(ids)
}

/// What became of the ids that were minted: each is looked up among those that stand. They stay in
/// their rows, so that a row never moves, and only a merge takes one away.
pub fn minted_course(history: &History, ids: &[Option<Id>]) -> Course {
    let mut table = HashMap::new();
    for (at, _) in history.standing() {
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

/// What becomes of tstar's UUIDs: each is looked up by its device's hash, then by the time in it.
///
/// # Errors
/// One is no such UUID.
pub fn uuid_fate(history: &History) -> anyhow::Result<Fate> {
    let (covering, mut fate) = (Covering::of(history), Fate::default());
    // As a day's list of devices does, but for all days: the last 10 bytes are the device's own.
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
        let mut of = devices[&bytes[6..]].iter().copied();
        let device = of.find(|&device| uuid.matches(&device_id(device), time_ms));
        let found = device.and_then(|device| covering.find(device, time_ms));
        fate.count(found, history.root(at));
    }
    Ok(fate)
}

/// Share of the trips that stand which have the same id in both histories, percent.
pub fn equal(
    history: &History,
    ids: &[Option<Id>],
    again: &History,
    ids_again: &[Option<Id>],
) -> f64 {
    let same = by_span(again);
    let (mut trips, mut equal) = (0, 0);
    for (at, trip) in history.standing() {
        trips += 1;
        let other = same.get(&(trip.device, trip.start_ms, trip.end_ms));
        let other = other.and_then(|&other| ids_again[other as usize].as_ref());
        equal += u64::from(other.is_some() && other == ids[at as usize].as_ref());
    }
    100.0 * crate::table::ratio(equal, trips)
}
