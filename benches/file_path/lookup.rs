//! Lookups in process: the store's answer compared with a bare query of the same rows.

use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};
use tokio::runtime::Runtime;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::MintPoints;
use tstar::internals::simulate::START_MS;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{TripRow, TripStore as _};
use tstar::internals::timeline::{LegFilter, Path, RawSample, Sample, day_of};

use crate::child::own_cpu;
use crate::http;
use crate::path::remove_store;
use crate::shuffle::below;
use crate::table::{grouped, ratio, table};

const DEVICES: u32 = 10_000;

const LOOKUPS: usize = 100_000;

/// Measured rounds of each kind, interleaved, after a warm-up round.
const ROUNDS: usize = 3;

/// Rows per transaction while the store is filled.
const ROWS: usize = 10_000;

/// Each device has one trip in each span of this length, ms.
const EACH_MS: i64 = 7_200_000;

/// The bare query: the first row that ends at or after the time, with its encoded path.
const BARE: &str = "SELECT start_time, path FROM trips
     WHERE device_id = ?1 AND bucket = ?2 AND end_time >= ?3
     ORDER BY end_time ASC, start_time ASC LIMIT 1";

/// A lookup: a device, and a time inside one of its trips.
pub struct Key {
    /// Device id.
    pub device: String,
    /// Device time, ms.
    pub time_ms: DeviceTime,
}

/// The cost of one round of lookups.
struct Round {
    cpu: Duration,
    /// Wall time of each lookup, ns, ascending.
    each: Vec<u64>,
}

/// Creates a store with `trips` trips and measures both kinds of lookup.
///
/// # Errors
/// The store fails, or does not find a trip.
pub fn measure(folder: &FilePath, trips: u32) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let file = folder.join("lookup.db");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let spans = fill(&runtime, &file, trips, &mut random)?;
    let devices = DEVICES.min(trips);
    let (mut keys, mut none) = (Vec::new(), Vec::new());
    for _ in 0..LOOKUPS {
        let at = below(&mut random, spans.len());
        let (start_ms, end_ms) = spans[at];
        let time_ms = DeviceTime(between(&mut random, start_ms.ms(), end_ms.ms()));
        let device = device(u32::try_from(at).unwrap_or(0) % devices);
        // The next trip of the device starts later.
        none.push(Key { device: device.clone(), time_ms: end_ms + 1 });
        keys.push(Key { device, time_ms });
    }
    let store = SqliteStore::open_reader(&file)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let bare = Connection::open_with_flags(&file, flags)?;
    // Without it, SQLite plans a prepared query again for each bound value, which doubles its cost.
    bare.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let (mut ours, mut bares) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        ours.push(runtime.block_on(covering(&store, &keys))?);
        bares.push(query(&bare, &keys)?);
    }
    let bytes = file.metadata()?.len();
    drop((store, bare));
    let by_http = http::measure(folder, &file, &keys, &none)?;
    remove_store(folder, "lookup")?;
    let (ours, bares) = (median(ours), median(bares));
    let times = |round: &Round| format!("{:.2}", round.cpu.div_duration_f64(bares.cpu));
    let row = |name: &str, round: &Round| {
        let lookups = u32::try_from(round.each.len()).unwrap_or(u32::MAX);
        let cpu = micros((round.cpu / lookups).as_nanos().try_into().unwrap_or(u64::MAX));
        let at = |percent| micros(round.each[round.each.len() * percent / 100]);
        [name.to_owned(), cpu, at(50), at(99), times(round)]
    };
    let rows =
        [row("the trip that covers a time", &ours), row("bare SQLite query, planned once", &bares)];
    let head = ["lookup", "CPU us", "p50 us (wall)", "p99 us (wall)", "CPU, times the bare"];
    Ok(format!(
        "lookup: {} trips of {} devices in {:.0} MiB, {} random lookups in process, warm; the round \
         of median CPU of {ROUNDS}\n\n{}\n\n{by_http}",
        grouped(trips.into()),
        grouped(devices.into()),
        ratio(bytes, 1 << 20),
        grouped(LOOKUPS as u64),
        table(head, &rows)
    ))
}

fn micros(nanos: u64) -> String {
    format!("{:.1}", ratio(nanos, 1000))
}

fn device(number: u32) -> String {
    format!("truck-{}", number + 1)
}

fn between(random: &mut ChaCha8Rng, min: i64, max: i64) -> i64 {
    let width = usize::try_from(max.abs_diff(min)).unwrap_or(usize::MAX - 1) + 1;
    min + i64::try_from(below(random, width)).unwrap_or(0)
}

/// Writes the trips, the first one of each device, then the second, and returns their spans.
fn fill(
    runtime: &Runtime,
    file: &FilePath,
    trips: u32,
    random: &mut ChaCha8Rng,
) -> anyhow::Result<Vec<(DeviceTime, DeviceTime)>> {
    let store = SqliteStore::open_writer(file, &Rules::default(), 0)?;
    let devices = DEVICES.min(trips);
    let (mut spans, mut rows) = (Vec::new(), Vec::new());
    for number in 0..trips {
        let begin_ms = START_MS + i64::from(number / devices) * EACH_MS;
        let path = path(begin_ms, random)?;
        let (start_ms, version) = (path.first().time_ms, Version(i64::from(number)));
        spans.push((start_ms, path.last().time_ms));
        let ids = (&MintPoints::new(start_ms, version), version);
        let device = device(number % devices);
        rows.push(TripRow::from_path(&device, &path, ids, LegFilter::default()));
        if rows.len() == ROWS || number + 1 == trips {
            runtime.block_on(store.apply(&rows))?;
            rows.clear();
        }
    }
    Ok(spans)
}

/// A path of 10 to 30 samples, 5 to 60 s apart, that starts at random within [`EACH_MS`].
fn path(begin_ms: DeviceTime, random: &mut ChaCha8Rng) -> anyhow::Result<Path> {
    let mut time_ms = begin_ms + between(random, 0, EACH_MS / 2);
    let (mut lat, mut lon) = (degrees(random, 60), degrees(random, 170));
    let mut samples = Vec::new();
    for _ in 0..between(random, 10, 30) {
        time_ms += between(random, 5_000, 60_000);
        lat += degrees(random, 1) * 1e-3;
        lon += degrees(random, 1) * 1e-3;
        let raw = RawSample { time_ms, lat, lon, ..RawSample::default() };
        samples.push(Sample::quantised(&raw).ok().context("a field is out of range")?);
    }
    Path::from_sorted(samples).context("times do not rise")
}

/// A random angle from `-max` to `max` degrees.
fn degrees(random: &mut ChaCha8Rng, max: u32) -> f64 {
    let share = f64::from(u32::try_from(below(random, 1 << 24)).unwrap_or(0)) / f64::from(1 << 23);
    (share - 1.0) * f64::from(max)
}

async fn covering(store: &SqliteStore, keys: &[Key]) -> anyhow::Result<Round> {
    let (cpu, mut each) = (own_cpu()?, Vec::with_capacity(keys.len()));
    for Key { device, time_ms } in keys {
        let began = Instant::now();
        let row = store.covering(device, *time_ms).await?;
        each.push(began.elapsed());
        ensure!(row.is_some(), "no trip of {device} covers {time_ms} ms");
    }
    round(cpu, &each)
}

fn query(connection: &Connection, keys: &[Key]) -> anyhow::Result<Round> {
    let (cpu, mut each) = (own_cpu()?, Vec::with_capacity(keys.len()));
    for Key { device, time_ms } in keys {
        let began = Instant::now();
        let bucket = day_of(*time_ms).start_ms().ms();
        let mut statement = connection.prepare_cached(BARE)?;
        let (start_ms, path) = statement
            .query_row(params![device, bucket, time_ms.ms()], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?;
        each.push(began.elapsed());
        ensure!(start_ms <= time_ms.ms() && !path.is_empty(), "the bare query found another row");
    }
    round(cpu, &each)
}

fn round(began: Duration, each: &[Duration]) -> anyhow::Result<Round> {
    let cpu = own_cpu()?.saturating_sub(began);
    let mut each: Vec<_> =
        each.iter().map(|took| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)).collect();
    each.sort_unstable();
    Ok(Round { cpu, each })
}

/// The round with the median CPU time, without the warm-up round.
fn median(mut rounds: Vec<Round>) -> Round {
    rounds.remove(0);
    rounds.sort_by_key(|round| round.cpu);
    rounds.swap_remove(rounds.len() / 2)
}
