//! The processor: whatever the batches, the flushes and the memory, the store ends the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tstar::internals::identity::DeviceId;
use tstar::internals::model::change::ChangeKind;
use tstar::internals::model::epoch::{Epoch, LogPartition, Versions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::reading::ReadingSet;
use tstar::internals::model::reason::{DeadReason, DropReason};
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset, Version};
use tstar::internals::pipeline::processor::{
    Budget, FlushSettings, Processor, ProcessorConfig, RunError, SampleCounts,
};
use tstar::internals::segment::{Class, Timeline};
use tstar::internals::sink::Sink;
use tstar::internals::source::spill::Spill;
use tstar::internals::source::{
    Batch, Control, DecodedSample, Entry, NoSample, SampleError, Source, SourceError,
};
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::sqlite::{LetterFilter, SqliteStore};
use tstar::internals::store::{DeadLetter, DeviceScope, Kinds, Order, TripRow, TripStore};
use tstar::internals::timeline::{READINGS, Reading, Sample};

use crate::model::legs;
use crate::support::block_on;

const MINUTE: i64 = 60_000;
/// 2026-11-20T23:00:00Z: an hour before a midnight.
const EVENING: DeviceTime = DeviceTime(1_795_215_600_000);

/// One entry of a test's log.
#[derive(Clone, Debug)]
enum LogEntry {
    Sample { device: u8, minute: i64, lat_e7: i32 },
    Unreadable,
    Inaccurate,
    ZeroPosition,
    TooEarly,
    TooLate,
}

/// One record: its entries share an offset.
type Record = Vec<LogEntry>;

fn sample(time_ms: DeviceTime, lat_e7: i32) -> Sample {
    let sample = Sample::new(time_ms, (lat_e7, 134_050_000), [Reading::ABSENT; READINGS]);
    Sample { ignition: Some(true), ..sample }
}

fn decoded(batch: &mut Batch, device: u8, time_ms: DeviceTime, lat_e7: i32) -> DecodedSample {
    let start = u32::try_from(batch.text.len()).unwrap();
    batch.text.push_str(&format!("truck-{device}"));
    let device = start..u32::try_from(batch.text.len()).unwrap();
    let (sample, unknown) = (sample(time_ms, lat_e7), ReadingSet::default());
    DecodedSample { device, driver: None, sample, unknown }
}

fn zero_position(batch: &mut Batch) -> DecodedSample {
    let decoded = decoded(batch, 0, EVENING, 0);
    DecodedSample { sample: Sample { lon_e7: 0, ..decoded.sample }, ..decoded }
}

fn inaccurate(batch: &mut Batch) -> DecodedSample {
    let decoded = decoded(batch, 0, EVENING, 0);
    let accuracy_dm = Reading::new(Some(900));
    DecodedSample { sample: Sample { accuracy_dm, ..decoded.sample }, ..decoded }
}

/// Splits records into batches of `records_each`.
fn batches(log: &[Record], records_each: usize, first_offset: i64) -> Vec<Batch> {
    let mut offset = first_offset;
    let mut all = Vec::new();
    for records in log.chunks(records_each) {
        let mut batch = Batch { origin: Arc::from("log"), ..Batch::default() };
        for record in records {
            for (log_entry, element) in record.iter().zip(0..) {
                let from = u32::try_from(batch.raw.len()).unwrap();
                batch.raw.extend_from_slice(format!("{log_entry:?}").as_bytes());
                let raw = from..u32::try_from(batch.raw.len()).unwrap();
                let content = match log_entry {
                    LogEntry::Sample { device, minute, lat_e7 } => {
                        Ok(decoded(&mut batch, *device, EVENING + minute * MINUTE, *lat_e7))
                    }
                    LogEntry::Unreadable => {
                        let error = SampleError::new(DeadReason::BadJson, "no");
                        Err(NoSample::Dead(Box::new(error)))
                    }
                    LogEntry::Inaccurate => Ok(inaccurate(&mut batch)),
                    LogEntry::ZeroPosition => Ok(zero_position(&mut batch)),
                    LogEntry::TooEarly => Ok(decoded(&mut batch, 0, DeviceTime(1_795_210_680), 0)),
                    LogEntry::TooLate => Ok(decoded(&mut batch, 0, EVENING + 90_000 * MINUTE, 0)),
                };
                let (line, log_time_ms) =
                    (u64::try_from(offset).unwrap() + 1, LogTime(EVENING.ms()));
                let element = (record.len() > 1).then_some(element);
                let (again, key) = (false, None);
                let entry = Entry {
                    offset: Offset(offset),
                    element,
                    line,
                    log_time_ms,
                    again,
                    raw,
                    key,
                    content,
                };
                batch.entries.push(entry);
            }
            offset += 1;
        }
        all.push(batch);
    }
    all
}

/// A source that returns batches, then ends or fails.
struct TestSource {
    batches: std::vec::IntoIter<Batch>,
    fails: bool,
}

impl Source for TestSource {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        match self.batches.next() {
            None if self.fails => {
                Err(SourceError::Form { origin: "log".into(), problem: "planted".into() })
            }
            next => Ok(next),
        }
    }
}

fn rules() -> Rules {
    Rules {
        max_accuracy_dm: Some(800),
        max_samples: 6,
        max_future_ms: 864_000_000,
        max_leg_speed_cmps: Some(5000),
        ..Rules::default()
    }
}

fn process(
    store: &(impl TripStore + Sink),
    log: &[Record],
    each: usize,
    pace: ProcessorConfig,
) -> SampleCounts {
    process_with(store, log, each, pace, None)
}

/// With a folder, samples may be spilled there.
fn process_with(
    store: &(impl TripStore + Sink),
    log: &[Record],
    each: usize,
    pace: ProcessorConfig,
    folder: Option<&Path>,
) -> SampleCounts {
    block_on(async {
        let mut processor = Processor::new(store, &rules(), pace).await.unwrap();
        if let Some(folder) = folder {
            processor.enable_spill(Spill::new(folder)).await.unwrap();
        }
        let first = processor.position().delivered;
        let batches = batches(log, each, first.get()).into_iter();
        let mut source = TestSource { batches, fails: false };
        processor.run(&mut source, |_, _| ()).await.unwrap();
        assert_eq!(processor.position().delivered, first + log.len() as i64);
        assert_eq!(store.position().await.unwrap(), processor.position());
        processor.counts().clone()
    })
}

fn rows(store: &impl TripStore) -> Vec<TripRow> {
    block_on(async {
        let mut all = Vec::new();
        for device in store.devices(DeviceScope::All, None, usize::MAX).await.unwrap() {
            let of_device = store
                .range(
                    &device,
                    Kinds::All,
                    DeviceTime::MIN,
                    DeviceTime::MAX,
                    Order::Asc,
                    usize::MAX,
                )
                .await;
            all.extend(of_device.unwrap());
        }
        all
    })
}

/// The rows by the timeline only, which the models of `arrivals` compare with the contract.
fn expected(log: &[Record]) -> Vec<TripRow> {
    let mut devices: BTreeMap<String, Timeline> = BTreeMap::new();
    for (record, offset) in log.iter().zip(0..) {
        for log_entry in record {
            if let LogEntry::Sample { device, minute, lat_e7 } = log_entry {
                let timeline = devices.entry(format!("truck-{device}"));
                let timeline = timeline.or_insert_with(Timeline::in_memory);
                let sample = sample(EVENING + minute * MINUTE, *lat_e7);
                let sample = Sample { version: Version(2 * offset), ..sample };
                timeline.absorb(&rules().segments(), sample, None);
            }
        }
    }
    let rows_of_device = |(device, timeline): (&String, &Timeline)| {
        timeline
            .segments()
            .map(|trip| TripRow::from_segment(device, trip, rules().legs()))
            .collect::<Vec<_>>()
    };
    devices.iter().flat_map(rows_of_device).collect()
}

fn log_entry() -> impl Strategy<Value = LogEntry> {
    prop_oneof![
        // 10,000,000 quanta are 111 km: a jump, whatever the gap.
        12 => (0..3_u8, 0..150_i64, prop_oneof![4 => 0..3_i32, 1 => Just(10_000_000)])
            .prop_map(|(device, minute, lat_e7)| LogEntry::Sample { device, minute, lat_e7 }),
        1 => Just(LogEntry::ZeroPosition),
        1 => Just(LogEntry::Unreadable),
        1 => Just(LogEntry::Inaccurate),
        1 => Just(LogEntry::TooEarly),
        1 => Just(LogEntry::TooLate),
    ]
}

fn conserved(counts: &SampleCounts, log: &[Record]) {
    let delivered = log.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(counts.delivered, delivered);
    let dropped: u64 = counts.dropped.values().sum();
    assert_eq!(counts.applied + counts.duplicates + dropped + counts.dead(), delivered, "I3");
    let arrivals: u64 = counts.arrivals.by_kind().map(|(_, count)| count).sum();
    assert_eq!(arrivals, counts.applied);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn batches_flushes_and_memory_do_not_change_the_trips(
        log in prop::collection::vec(prop::collection::vec(log_entry(), 1..4), 1..60),
        each in 1..40_usize,
        interval_ms in prop_oneof![Just(0_u64), Just(60_000)],
        memory in prop_oneof![Just(0_usize), Just(2_500), Just(1_000_000)],
        may_set_aside: bool,
        staleness_s in prop_oneof![Just(0_u64), Just(60)],
        by_trip: bool,
        gather in 1..9_u32,
        loads in 1..5_usize,
    ) {
        let pace = ProcessorConfig {
            flush: FlushSettings::new(
                Duration::from_millis(interval_ms),
                Duration::from_secs(staleness_s),
            ),
            memory,
            by_trip,
            gather,
            loads,
        };
        let folder = may_set_aside.then(|| tempfile::tempdir().unwrap());
        let folder = folder.as_ref().map(|folder| folder.path());
        let store = MemoryStore::default();
        let counts = process_with(&store, &log, each, pace, folder);
        conserved(&counts, &log);
        prop_assert_eq!(rows(&store), expected(&log));
        rows(&store).iter().for_each(has_the_models_legs);
        let zero = log.iter().flatten().filter(|entry| matches!(entry, LogEntry::ZeroPosition));
        let dropped = counts.dropped.get(&DropReason::ZeroPosition).copied().unwrap_or(0);
        prop_assert_eq!(dropped, zero.count() as u64);
        prop_assert_eq!(store.dead_letters().iter().map(|it| it.count).sum::<u64>(), counts.dead());
        if folder.is_none() {
            prop_assert_eq!(split_runs(store.dead_letters()), by_offset(&store));
        }
        let at_once = MemoryStore::default();
        let all_at_once = process(&at_once, &log, 1_000, ProcessorConfig::default());
        prop_assert_eq!(&counts.arrivals, &all_at_once.arrivals);
        prop_assert_eq!(&counts.dead_letters, &all_at_once.dead_letters);
        prop_assert_eq!(by_offset(&store), by_offset(&at_once));
        announced(&store);

        let again = process_with(&store, &log, each, pace, folder);
        prop_assert_eq!(again.applied, 0, "a log read again adds nothing");
        prop_assert_eq!(rows(&store), expected(&log));
    }
}

/// The columns that legs decide, against the model; it gets the kept samples as the row has them.
fn has_the_models_legs(row: &TripRow) {
    let path = row.to_path().unwrap();
    let point = |sample: Sample| legs::Point {
        time: sample.time_ms.ms(),
        lat: sample.lat(),
        lon: sample.lon(),
        stands: sample.class != Class::Moving,
    };
    let expected = legs::legs(path.iter().map(point), Some(50.0));
    assert_eq!(row.jumps, Some(expected.jumps as i32), "{row:?}");
    assert_eq!(row.jump_s, Some(expected.jump_ms as f64 / 1000.0), "{row:?}");
    assert!((row.distance_m - expected.counted_m).abs() < 1e-6, "{row:?} {expected:?}");
}

/// A letter for each sample of a run, whose records are lines one after the other.
fn split_runs(letters: Vec<DeadLetter>) -> Vec<DeadLetter> {
    let of_run = |letter: DeadLetter| {
        (0..letter.count).map(move |nth| {
            let mut one = DeadLetter { count: 1, ..letter.clone() };
            match &mut one.element {
                Some(element) => *element += nth as u32,
                None => (one.offset, one.line) = (one.offset + nth as i64, one.line + nth),
            }
            one
        })
    };
    letters.into_iter().flat_map(of_run).collect()
}

/// The dead letters by log position: those of spilled samples come later.
fn by_offset(store: &MemoryStore) -> Vec<DeadLetter> {
    let mut letters = split_runs(store.dead_letters());
    letters.sort_by_key(|letter| (letter.offset, letter.element));
    letters
}

/// Every retired id was announced as retired, every live one as started or as the survivor of a
/// merge.
fn announced(store: &MemoryStore) {
    let mut retired = Vec::new();
    for (change, row) in store.changes() {
        retired.extend(change.retired.iter().map(|t_star_ms| (row.device_id.clone(), *t_star_ms)));
        assert_eq!(change.kind == ChangeKind::Merged, !change.retired.is_empty());
    }
    for row in rows(store) {
        for (t_star_ms, _) in row.absorbed() {
            assert!(retired.contains(&(row.device_id.clone(), t_star_ms)), "{row:?}");
        }
    }
}

#[test]
fn sqlite_ends_like_memory_and_keeps_every_dead_letter() {
    let sample = |device, minute| vec![LogEntry::Sample { device, minute, lat_e7: 7 }];
    let mut log: Vec<Record> = (0..200).map(|n| sample((n % 3) as u8, n * 7 % 160)).collect();
    log.insert(20, vec![LogEntry::Unreadable]);
    log.insert(40, vec![LogEntry::TooEarly, LogEntry::Inaccurate, LogEntry::TooLate]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let pace = ProcessorConfig {
        flush: FlushSettings { interval: Duration::ZERO, ..FlushSettings::default() },
        memory: 2_500,
        ..ProcessorConfig::default()
    };
    let counts = {
        let store = SqliteStore::open_writer(&file, &rules(), 1_000).unwrap();
        process(&store, &log, 10, pace)
    };
    conserved(&counts, &log);
    assert_eq!(counts.dropped, BTreeMap::from([(DropReason::BadFix, 1)]));
    let store = SqliteStore::open_reader(&file).unwrap();
    assert_eq!(rows(&store), expected(&log));
    assert_eq!(store.count_trips().unwrap(), expected(&log).len() as u64);
    let letters = store.dead_letters(&LetterFilter::default(), 0, usize::MAX).unwrap();
    assert_eq!(letters.len() as u64, counts.dead());
    let unreadable = letters.iter().find(|kept| kept.letter.reason == DeadReason::BadJson).unwrap();
    assert_eq!(
        (unreadable.letter.value.as_slice(), unreadable.letter.line),
        (&b"Unreadable"[..], 21)
    );
}

#[test]
fn a_time_in_seconds_is_hinted_at() {
    let log = [vec![LogEntry::TooEarly], vec![LogEntry::TooLate]];
    let counts = process(&MemoryStore::default(), &log, 1, ProcessorConfig::default());
    assert_eq!(counts.looks_like_seconds, 1);
    let reasons = [(DeadReason::TimeBeforeMin, 1), (DeadReason::TimeInFuture, 1)];
    assert_eq!(counts.dead_letters, BTreeMap::from(reasons));
}

#[test]
fn what_a_source_returned_before_it_failed_is_stored() {
    let log =
        [vec![LogEntry::Sample { device: 1, minute: 3, lat_e7: 7 }], vec![LogEntry::Unreadable]];
    let store = MemoryStore::default();
    block_on(async {
        let mut processor =
            Processor::new(&store, &rules(), ProcessorConfig::default()).await.unwrap();
        let mut source = TestSource { batches: batches(&log, 1, 0).into_iter(), fails: true };
        let ended = processor.run(&mut source, |_, _| ()).await;
        assert!(matches!(ended, Err(RunError::Source(_))), "{ended:?}");
    });
    assert_eq!(rows(&store), expected(&log));
    assert_eq!(store.dead_letters().len(), 1);
}

#[test]
fn a_forget_finds_samples_spilled_before_it() {
    let at = |minute| vec![LogEntry::Sample { device: 1, minute, lat_e7: 7 }];
    let mut all = batches(&[at(0), at(2)], 1, 0);
    let before_ms = EVENING + MINUTE;
    let control = Some(Control::Forget {
        offset: Offset(2),
        device_id: DeviceId::from_store("truck-1"),
        before_ms,
        key: None,
    });
    all.push(Batch { control, next_offset: Some(Offset(3)), ..Batch::default() });
    let (store, folder) = (MemoryStore::default(), tempfile::tempdir().unwrap());
    block_on(async {
        let pace = ProcessorConfig { memory: 1, ..ProcessorConfig::default() };
        let mut processor = Processor::new(&store, &rules(), pace).await.unwrap();
        processor.enable_spill(Spill::new(folder.path())).await.unwrap();
        let mut source = TestSource { batches: all.into_iter(), fails: false };
        processor.run(&mut source, |_, _| ()).await.unwrap();
    });
    // The trip extends past the time, so it stays whole.
    let samples: Vec<_> = rows(&store).iter().map(|row| row.samples).collect();
    assert_eq!(samples, [2]);
}

fn log(partition: i32) -> LogPartition {
    let epoch = Epoch {
        epoch: 1,
        topic: "samples".into(),
        partitions: 8,
        start_offsets: BTreeMap::new(),
        base: Version(0),
        rules: rules(),
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    };
    LogPartition { partition, versions: Versions::of_partition(&[epoch], partition) }
}

#[test]
fn of_two_partitions_that_have_a_device_in_memory_one_builds_it() {
    let records = [vec![LogEntry::Sample { device: 1, minute: 0, lat_e7: 1 }]];
    let batch = &batches(&records, 1, 0)[0];
    for loads in 1..=2 {
        let (store, budget) = (MemoryStore::default(), Budget::new(1 << 20));
        let absorb = |partition| {
            let pace = ProcessorConfig { loads, ..ProcessorConfig::default() };
            let rules = rules();
            block_on(async {
                let stores = (&store, &store);
                let processor =
                    Processor::of_log(stores, log(partition), &rules, pace).await.unwrap();
                let mut processor = processor.sharing(Arc::clone(&budget));
                processor.absorb(batch).await.unwrap();
                processor.flush().await.unwrap();
                (processor.counts().applied, processor.counts().dead_letters.clone())
            })
        };
        let (none, letter) = (BTreeMap::new(), BTreeMap::from([(DeadReason::OtherPartition, 1)]));
        assert_eq!(absorb(3), (1, none.clone()));
        assert_eq!(absorb(5), (0, letter));
        // Another worker reads it again, and the rows stay as they are.
        assert_eq!(absorb(3), (1, none));
        assert_eq!(store.dead_letters()[0].partition, 5);
        let rows: Vec<_> = rows(&store).iter().map(|row| row.partition).collect();
        assert_eq!(rows, [3]);
    }
}
