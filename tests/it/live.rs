//! A fleet that sends live, in virtual time: rows written for each sample, and how long a sample
//! waits until a row contains it.
//!
//! `cargo test --locked --test it -- live:: --nocapture` prints the table of `docs/performance.md`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};
use tstar::internals::model::change::ChangeKind;
use tstar::internals::model::reading::ReadingSet;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset};
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::sink::Sink;
use tstar::internals::source::{Batch, DecodedSample, Entry, Source, SourceError};
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::{Flush, Position, StoreError};
use tstar::internals::timeline::{READINGS, Reading, Sample};

const DEVICES: u32 = 40;

/// 2026-11-20T10:00:00Z.
const MORNING: i64 = 1_795_168_800_000;

/// One in this number of samples is late, by up to [`MAX_LATE_MS`].
const LATE: u64 = 20;
const MAX_LATE_MS: u64 = 600_000;

/// Interval between two batches.
const TICK: Duration = Duration::from_millis(100);

/// Duration of a write to the store.
const WRITE: Duration = Duration::from_millis(5);

/// When samples came, by device, until a row contains them.
type Arrivals = Arc<Mutex<BTreeMap<String, Vec<Instant>>>>;

/// The samples of a fleet by the clock.
struct Fleet {
    period: Duration,
    began: Instant,
    ends: Instant,
    sent: u32,
    random: u64,
    waiting: Arrivals,
}

impl Fleet {
    /// When sample `nth` is sent.
    fn due(&self, nth: u32) -> Instant {
        self.began + self.period * (nth / DEVICES) + self.period * (nth % DEVICES) / DEVICES
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }

    fn add(&mut self, batch: &mut Batch) {
        let nth = self.sent;
        self.sent += 1;
        let device = format!("truck-{}", nth % DEVICES);
        let (begin, raw) = (u32::try_from(batch.text.len()).unwrap(), 0..0);
        batch.text.push_str(&device);
        let is_late = self.random().is_multiple_of(LATE);
        let late_ms = if is_late { self.random() % MAX_LATE_MS } else { 0 };
        let elapsed_ms = u64::try_from(self.due(nth).duration_since(self.began).as_millis());
        let time_ms = MORNING + i64::try_from(elapsed_ms.unwrap()).unwrap();
        let time_ms = DeviceTime(time_ms - i64::try_from(late_ms).unwrap());
        let sample =
            Sample::new(time_ms, (i32::try_from(nth).unwrap(), 7), [Reading::ABSENT; READINGS]);
        let content = Ok(DecodedSample {
            device: begin..u32::try_from(batch.text.len()).unwrap(),
            driver: None,
            sample,
            unknown: ReadingSet::default(),
        });
        self.waiting.lock().unwrap().entry(device).or_default().push(Instant::now());
        batch.entries.push(Entry {
            offset: Offset(nth.into()),
            element: None,
            line: u64::from(nth) + 1,
            log_time_ms: LogTime(MORNING),
            again: false,
            raw,
            key: None,
            content,
        });
    }
}

impl Source for Fleet {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        let due = self.due(self.sent);
        if due >= self.ends {
            return Ok(None);
        }
        sleep_until(due).await;
        let mut batch = Batch { origin: Arc::from("log"), ..Batch::default() };
        while self.due(self.sent) < (due + TICK).min(self.ends) {
            self.add(&mut batch);
        }
        Ok(Some(batch))
    }
}

/// What the writes of a fleet were.
#[derive(Default)]
struct Written {
    rows: u32,
    /// How long each sample waited.
    waited: Vec<Duration>,
    /// How long the latest samples of rows with new ids and merges waited.
    announced: Vec<Duration>,
}

/// A store that is some milliseconds away, and measures what is written.
struct MeasuringJournal<'a> {
    store: &'a MemoryStore,
    waiting: Arrivals,
    written: Mutex<Written>,
}

impl MeasuringJournal<'_> {
    fn measure(&self, flush: &Flush) {
        let mut written = self.written.lock().unwrap();
        for (change, row) in flush.changes() {
            let device = &row.device_id;
            let mut waiting = self.waiting.lock().unwrap();
            let waited: Vec<_> = waiting.remove(device).unwrap_or_default();
            let waited = waited.iter().map(Instant::elapsed);
            if change.kind != ChangeKind::Changed {
                written.announced.extend(waited.clone().min());
            }
            written.waited.extend(waited);
            written.rows += 1;
        }
    }
}

impl Sink for MeasuringJournal<'_> {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        sleep(WRITE).await;
        self.measure(ahead);
        self.store.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        sleep(WRITE).await;
        self.measure(flush);
        self.store.commit(flush).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.store.position().await
    }
}

/// The figures of a fleet.
struct Figures {
    rows_per_sample: f64,
    waited: Vec<Duration>,
    announced: Duration,
}

impl Figures {
    fn percentile(&self, percent: usize) -> Duration {
        self.waited[(self.waited.len() - 1) * percent / 100]
    }
}

/// Runs a fleet for a time, with the configuration of a daemon.
fn run(period: Duration, time: Duration) -> Figures {
    let pace =
        ProcessorConfig { by_trip: true, memory: 1_000_000_000, ..ProcessorConfig::default() };
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (store, waiting) = (MemoryStore::default(), Arrivals::default());
        let began = Instant::now();
        let mut fleet = Fleet {
            period,
            began,
            ends: began + time,
            sent: 0,
            random: 1,
            waiting: Arc::clone(&waiting),
        };
        let journal = MeasuringJournal { store: &store, waiting, written: Mutex::default() };
        let log = tstar::internals::model::epoch::LogPartition::of_files();
        let rules = Rules::default();
        let processor = Processor::of_log((&store, &journal), log, &rules, pace).await;
        let mut processor = processor.unwrap();
        processor.run(&mut fleet, |_, _| ()).await.unwrap();
        let written = journal.written.into_inner().unwrap();
        let mut waited = written.waited;
        assert_eq!(waited.len(), fleet.sent as usize, "every sample was written");
        waited.sort_unstable();
        Figures {
            rows_per_sample: f64::from(written.rows) / f64::from(fleet.sent),
            waited,
            announced: written.announced.into_iter().max().unwrap(),
        }
    })
}

#[test]
fn rows_gather_samples_within_the_maximum_delay() {
    // Seconds between two samples of a device, and the maximum number of rows for each.
    let most = [(1, 0.13), (2, 0.14), (5, 0.2), (10, 0.36), (20, 0.6), (30, 1.0), (60, 1.0)];
    println!("| period | rows a sample | until stored, p50 | p99 | maximum |");
    println!("|---|---|---|---|---|");
    for (period_s, max_rows) in most {
        let figures = run(Duration::from_secs(period_s), Duration::from_secs(7_200));
        let [p50, p99, max] = [50, 99, 100].map(|at| figures.percentile(at).as_secs_f64());
        let rows = figures.rows_per_sample;
        println!("| {period_s} s | {rows:.3} | {p50:.1} s | {p99:.1} s | {max:.1} s |");
        assert!(rows <= max_rows, "{rows} rows a sample at a period of {period_s} s");
        // A change waits until the flush before its maximum delay has passed.
        assert!(max <= 32.0, "{max} s at a period of {period_s} s");
        let announced = figures.announced.as_secs_f64();
        assert!(announced <= 1.5, "{announced} s at a period of {period_s} s");
    }
}

#[test]
fn a_backlog_gathers_more_samples() {
    let figures = run(Duration::from_millis(4), Duration::from_secs(20));
    assert!(figures.rows_per_sample <= 0.0036, "{} rows a sample", figures.rows_per_sample);
}
