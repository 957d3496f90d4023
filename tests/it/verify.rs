//! `verify`: planted faults are found and repaired, and nothing else is reported.

mod bad;
mod clean;
mod daemon;
pub mod file;
mod keyspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use serde_json::json;
use tstar::internals::identity::DeviceId;
use tstar::internals::log::Bounds;
use tstar::internals::log::files::FilesLog;
use tstar::internals::log::reference::{Reference, Workspace};
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{Day, DeviceTime, LogTime};
use tstar::internals::model::time::format_time;
use tstar::internals::ops::verify::compare::compare;
use tstar::internals::ops::verify::{Comparison, Difference};
use tstar::internals::pipeline::processor::{FlushSettings, Processor, ProcessorConfig};
use tstar::internals::source::file::{FileSource, Options};
use tstar::internals::source::{Batch, Control, Decoder};
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{AnyStore, StoreError};
use tstar::internals::timeline::DAY_MS;

use crate::cli::Folder;
use crate::faults::until;
use crate::support::block_on;

/// 2024-02-28, shortly before a leap day.
pub const FIRST_DAY: i64 = 19_781;

pub fn below(random: &mut ChaCha8Rng, limit: u64) -> u64 {
    random.next_u64() % limit
}

fn signed(random: &mut ChaCha8Rng, limit: u64) -> i64 {
    below(random, limit).cast_signed()
}

/// Lines of some devices in arrival order: trips of some minutes, one in three over midnight, late
/// by up to two hours, so that some merge.
pub fn lines(random: &mut ChaCha8Rng, devices: u64, trips: u64) -> Vec<String> {
    let mut samples = Vec::new();
    for device in 1..=devices {
        let mut time_ms = FIRST_DAY * DAY_MS + signed(random, 80_000_000) + 1_000_000;
        for trip in 0..trips {
            if below(random, 3) == 0 {
                // The next evening, minutes before midnight.
                time_ms += DAY_MS - time_ms.rem_euclid(DAY_MS) - 60_000 - signed(random, 300_000);
            }
            for nth in 0..2 + below(random, 9) {
                time_ms += 1000 + signed(random, 250_000);
                let mut line = json!({
                    "device_id": format!("truck-{device}"), "time": format_time(time_ms),
                    "lat": 52.0 + f64::from(random.next_u32() % 1000) / 1e4, "lon": 13.5,
                });
                if trip % 2 == 0 {
                    line["speed"] = json!(random.next_u32() % 30);
                    line["driver"] = json!(format!("driver-{}", nth / 4));
                }
                let late = if below(random, 4) == 0 { signed(random, 7_200_000) } else { 0 };
                samples.push((time_ms + late, line.to_string()));
            }
            time_ms += 200_000 + signed(random, 20_000_000);
        }
    }
    samples.sort();
    samples.into_iter().map(|(_, line)| line + "\n").collect()
}

/// A store of files, built with the library, and the files.
pub struct ImportedStore {
    pub folder: Folder,
    pub store: PathBuf,
    pub files: Vec<PathBuf>,
}

impl ImportedStore {
    pub fn empty() -> Self {
        let folder = Folder::new();
        Self { store: folder.path("clean.db"), files: Vec::new(), folder }
    }

    /// All kinds of trips, in two files, with an erasure between them.
    pub fn new(random: &mut ChaCha8Rng, devices: u64, trips: u64) -> Self {
        let mut made = Self::empty();
        let lines = lines(random, devices, trips);
        let (first, second) = lines.split_at(lines.len() / 3);
        made.import(first);
        made.erase("truck-1", Day(FIRST_DAY + 1).start_ms());
        made.import(second);
        made
    }

    fn writer(&self) -> SqliteStore {
        writer(&self.store)
    }

    /// Imports lines as the next file.
    pub fn import(&mut self, lines: &[String]) {
        let name = format!("{}.ndjson", self.files.len());
        self.folder.write(&name, lines.concat());
        self.files.push(self.folder.path(&name));
        let (store, rules) = (self.writer(), Rules::default());
        block_on(async {
            let pace = ProcessorConfig {
                flush: FlushSettings { interval: Duration::ZERO, ..FlushSettings::default() },
                ..ProcessorConfig::default()
            };
            let mut processor = Processor::new(&store, &rules, pace).await.unwrap();
            store.begin_import(0, std::slice::from_ref(&name)).unwrap();
            let options = Options {
                format: None,
                decoder: Arc::new(Decoder::new(&rules).unwrap()),
                max_document: 1 << 26,
                log_time_ms: LogTime(i64::MAX / 2),
                first_offset: processor.position().delivered,
                known: store.parts().unwrap(),
                redelivers: false,
            };
            let file = &self.files[self.files.len() - 1..];
            let mut source = FileSource::open(file, options).unwrap();
            processor.run(&mut source, |_, _| ()).await.unwrap();
            store.end_import().unwrap();
        });
    }

    /// Erases as `tstar forget` does.
    pub fn erase(&self, device_id: &str, before_ms: DeviceTime) {
        let (store, rules) = (self.writer(), Rules::default());
        block_on(async {
            let mut processor =
                Processor::new(&store, &rules, ProcessorConfig::default()).await.unwrap();
            let offset = processor.position().delivered;
            let device_id = DeviceId::new(device_id).unwrap();
            let control = Some(Control::Forget { offset, device_id, before_ms, key: None });
            let next_offset = Some(offset + 1);
            let batch = Batch { control, next_offset, ..Batch::default() };
            processor.absorb(&batch).await.unwrap();
            processor.flush().await.unwrap();
        });
    }

    /// The reference store.
    pub fn reference(&self) -> Arc<SqliteStore> {
        let store = Arc::new(SqliteStore::open_reader(&self.store).unwrap());
        let log = FilesLog { store, files: self.files.clone() };
        let room = Workspace { folder: self.folder.dir.path(), memory: 100_000_000 };
        Arc::new(block_on(log.build(room, |_, _| ())).unwrap().0)
    }

    /// The names of the files, as command arguments.
    pub fn names(&self) -> String {
        let names = self.files.iter().map(|file| file.display().to_string());
        names.collect::<Vec<_>>().join(" ")
    }
}

/// Opens a store to write to it. A child that another test has just forked may hold the released
/// lock until it executes its program.
pub fn writer(store: &Path) -> SqliteStore {
    until("the lock", || match SqliteStore::open_writer(store, &Rules::default(), 100) {
        Err(StoreError::Locked { .. }) => None,
        opened => Some(opened.unwrap()),
    })
}

/// The result of a comparison, with each difference and whether it is left.
pub type CompareResult = (Comparison, Vec<(Difference, bool)>);

/// Compares a whole store of files with its reference.
pub fn compare_all(
    reference: &Arc<SqliteStore>,
    found: &Arc<SqliteStore>,
    repair: bool,
) -> CompareResult {
    block_on(compare_with(reference, &Arc::clone(found).into(), repair))
}

pub async fn compare_with(
    reference: &Arc<SqliteStore>,
    found: &AnyStore,
    repair: bool,
) -> CompareResult {
    let mut seen = Vec::new();
    let see = |difference: &Difference, left| seen.push((difference.clone(), left));
    let store = Arc::clone(reference);
    let reference = Reference { store, records: 0, bounds: Bounds::default() };
    let compared = compare(reference, found, (None, repair), see).await.unwrap();
    assert_eq!(compared.count(), seen.len() as u64);
    assert_eq!(compared.count_left(), seen.iter().filter(|(_, left)| *left).count() as u64);
    (compared, seen)
}

/// Copies a store that no process has open.
pub fn copy(from: &Path, to: &Path) {
    for suffix in ["-wal", "-shm"] {
        // Not all of them exist.
        drop(std::fs::remove_file(format!("{}{suffix}", to.display())));
    }
    std::fs::copy(from, to).unwrap();
}
