//! Real drives: in order, reversed and shuffled they give the same spans.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset, Version};
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use tstar::internals::segment::{Arrival, Kind};
use tstar::internals::source::Decoder;
use tstar::internals::source::file::{FileSource, Options};
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::{DeviceScope, Kinds, Order, TripRow, TripStore};
use tstar::internals::timeline::Sample;

use crate::support::{block_on, data};

/// 2026-11-21: later than every sample.
const LOG_TIME_MS: i64 = 1_795_219_200_000;

/// Properties of a file, from the README next to it.
struct Known {
    name: &'static str,
    max_gap_ms: i64,
    samples: u64,
    duplicates: u64,
    /// Number of trips if silence alone ends them.
    trips: usize,
    /// Numbers of trips and stops if standing ends trips, too. No car stood for 5 minutes.
    with_stops: (usize, usize),
}

const BUSES: Known = Known {
    name: "capmetro-buses.ndjson.gz",
    max_gap_ms: 300_000,
    samples: 376_375,
    duplicates: 12_388,
    trips: 30_657,
    with_stops: (34_367, 15_105),
};

const CARS: Known = Known {
    name: "ndsbr-cars.ndjson.gz",
    max_gap_ms: 300_000,
    samples: 18_012,
    duplicates: 0,
    trips: 9,
    with_stops: (9, 0),
};

/// The trips of a file, by device and start.
fn import(file: PathBuf, rules: &Rules) -> (SampleCounts, Vec<TripRow>) {
    let decoder = Arc::new(Decoder::new(rules).unwrap());
    let options = Options {
        format: None,
        decoder,
        max_document: 1 << 26,
        log_time_ms: LogTime(LOG_TIME_MS),
        first_offset: Offset(0),
        known: vec![],
        redelivers: false,
    };
    let mut source = FileSource::open(&[file], options).unwrap();
    let store = MemoryStore::default();
    block_on(async {
        let mut processor =
            Processor::new(&store, rules, ProcessorConfig::default()).await.unwrap();
        processor.run(&mut source, |_, _| ()).await.unwrap();
        let mut rows = Vec::new();
        for device in store.devices(DeviceScope::All, None, usize::MAX).await.unwrap() {
            let trips = store
                .range(
                    &device,
                    Kinds::All,
                    DeviceTime::MIN,
                    DeviceTime::MAX,
                    Order::Asc,
                    usize::MAX,
                )
                .await;
            rows.extend(trips.unwrap());
        }
        (processor.counts().clone(), rows)
    })
}

/// The fields of a segment that do not depend on the arrival order.
fn span(row: &TripRow) -> (Kind, &str, DeviceTime, DeviceTime, i32, f64) {
    (row.kind, &row.device_id, row.start_ms, row.end_ms, row.samples, row.distance_m)
}

fn check_counts(known: &Known, counts: &SampleCounts, rows: &[TripRow]) {
    assert_eq!((counts.delivered, counts.duplicates), (known.samples, known.duplicates));
    assert_eq!((counts.applied, counts.dead()), (known.samples - known.duplicates, 0));
    assert_eq!(rows.len(), known.trips);
    // A limit would have separated trips nearer than the gap; spans would then depend on arrival.
    for pair in rows.windows(2).filter(|pair| pair[0].device_id == pair[1].device_id) {
        let gap_ms = pair[1].start_ms - pair[0].end_ms;
        assert!(gap_ms > known.max_gap_ms, "a limit is reached: {:?}", span(&pair[1]));
    }
    let samples: i64 = rows.iter().map(|row| i64::from(row.samples)).sum();
    assert_eq!(samples, counts.applied as i64);
}

fn assert_same_spans(found: &[TripRow], expected: &[TripRow], order: &str) {
    assert_eq!(found.len(), expected.len(), "{order}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(span(found), span(expected), "{order}");
        // The versions of the samples are their places in the log, so they depend on the order.
        let (found, expected) = (found.to_path().unwrap(), expected.to_path().unwrap());
        let unversioned = |sample: Sample| Sample { version: Version(0), ..sample };
        assert!(found.iter().map(unversioned).eq(expected.iter().map(unversioned)), "{order}");
        assert!(found.drivers().eq(expected.drivers()), "{order}");
    }
}

fn written(folder: &Path, name: &str, lines: &[String]) -> PathBuf {
    let path = folder.join(name);
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    lines.iter().for_each(|line| writeln!(out, "{line}").unwrap());
    out.flush().unwrap();
    path
}

fn shuffle(lines: &mut [String], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for at in (1..lines.len()).rev() {
        lines.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
    }
}

fn lines(file: &Path) -> Vec<String> {
    let reader = BufReader::new(MultiGzDecoder::new(std::fs::File::open(file).unwrap()));
    reader.lines().map(Result::unwrap).collect()
}

/// Where silence alone ends trips, they are as many as the README says.
fn check_orders(known: &Known) {
    let file = data(known.name);
    let mut lines = lines(&file);
    let max_gap_ms = known.max_gap_ms;
    let rules = Rules { max_gap_ms, stop_speed_cmps: 0, ..Rules::default() };
    let (counts, expected) = import(file, &rules);
    check_counts(known, &counts, &expected);
    for row in &expected {
        assert_eq!((row.t_star_ms, row.absorbed().count()), (row.start_ms, 0), "{:?}", span(row));
    }

    let folder = tempfile::tempdir().unwrap();
    lines.reverse();
    let (counts, rows) = import(written(folder.path(), "reversed", &lines), &rules);
    check_counts(known, &counts, &rows);
    assert_same_spans(&rows, &expected, "reversed");
    for row in &rows {
        assert_eq!((row.t_star_ms, row.absorbed().count()), (row.end_ms, 0), "{:?}", span(row));
    }

    for seed in [1, 2] {
        shuffle(&mut lines, seed);
        let (counts, rows) = import(written(folder.path(), "shuffled", &lines), &rules);
        check_counts(known, &counts, &rows);
        assert_same_spans(&rows, &expected, &format!("shuffled by seed {seed}"));
        let retired: usize = rows.iter().map(|row| row.absorbed().count()).sum();
        assert!(
            retired > 0 && retired as u64 == counts.arrivals.number_of(Arrival::Merge),
            "{retired} ids retired"
        );
    }
}

/// By default, standing ends them, too.
fn check_stops(known: &Known) {
    let file = data(known.name);
    let (mut lines, rules) = (lines(&file), Rules::default());
    let (_, expected) = import(file, &rules);
    let stops = expected.iter().filter(|row| row.kind == Kind::Stop).count();
    assert_eq!((expected.len() - stops, stops), known.with_stops);
    let samples: i64 = expected.iter().map(|row| i64::from(row.samples)).sum();
    assert_eq!(samples as u64, known.samples - known.duplicates);
    let folder = tempfile::tempdir().unwrap();
    shuffle(&mut lines, 3);
    let (_, rows) = import(written(folder.path(), "shuffled", &lines), &rules);
    assert_same_spans(&rows, &expected, "shuffled");
}

#[test]
fn buses_give_the_same_trips_and_stops_in_any_order() {
    check_stops(&BUSES);
}

#[test]
fn cars_give_the_same_trips_and_stops_in_any_order() {
    check_stops(&CARS);
}

#[test]
fn buses_give_the_same_trips_in_any_order() {
    check_orders(&BUSES);
}

#[test]
fn buses_give_the_same_trips_in_any_order_under_a_wider_gap() {
    check_orders(&Known { max_gap_ms: 600_000, trips: 2_178, ..BUSES });
}

#[test]
fn cars_give_the_same_trips_in_any_order() {
    check_orders(&CARS);
}
