//! Spills samples to disk and reads them back grouped by device.
//!
//! If the active devices do not fit into memory, each sample would load its device from the store
//! and evict another one. Spilled samples are read back in groups whose devices fit into memory, so
//! each device is loaded once. The samples of a device keep their arrival order.

use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Batch, DecodedSample, Entry, Span, span};
use crate::model::reading::ReadingSet;
use crate::model::scalar::{DeviceTime, LogTime, Offset};
use crate::timeline::{READINGS, Reading, Sample};

/// Number of groups of devices.
pub(crate) const GROUPS: usize = 64;

/// Size of a group's write buffer, bytes.
const BUFFER: usize = 32 << 10;

/// Maximum number of samples in a batch read back.
const BATCH_ENTRIES: usize = 2048;

/// A batch read back ends when its records exceed this size, bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Spilled samples, in unnamed temporary files that disappear when the process ends.
#[derive(Debug)]
pub struct Spill {
    folder: PathBuf,
    groups: Vec<Group>,
    hasher: foldhash::fast::RandomState,
    /// Origins of the samples; a sample stores an index into this list.
    origins: Vec<Arc<str>>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Group {
    file: Option<File>,
    /// Bytes that are not in the file yet.
    buffer: Vec<u8>,
}

/// A spilled sample. In the file, the bytes of its record follow it, and the length of both
/// precedes it.
#[derive(Serialize, Deserialize)]
struct SpilledSample<'a> {
    origin: u32,
    offset: Offset,
    element: Option<u32>,
    line: u64,
    log_time_ms: LogTime,
    again: bool,
    device: &'a str,
    driver: Option<&'a str>,
    ignition: Option<bool>,
    time_ms: DeviceTime,
    position: [i32; 2],
    /// In the order of [`ReadingKind::ALL`](crate::timeline::ReadingKind::ALL).
    readings: [Option<i32>; READINGS],
}

impl Spill {
    /// Creates an empty spill with files in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            groups: (0..GROUPS).map(|_| Group::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            origins: Vec::new(),
            bytes: 0,
        }
    }

    /// The folder of the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of spilled bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Spills a sample.
    ///
    /// # Errors
    /// The disk fails.
    pub fn push(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        decoded: &DecodedSample,
    ) -> io::Result<()> {
        let origin = self.origin_index(&batch.origin);
        let device = batch.text(&decoded.device);
        let sample = &decoded.sample;
        let spilled = SpilledSample {
            origin,
            offset: entry.offset,
            element: entry.element,
            line: entry.line,
            log_time_ms: entry.log_time_ms,
            again: entry.again,
            device,
            driver: decoded.driver.as_ref().map(|driver| batch.text(driver)),
            ignition: sample.ignition,
            time_ms: sample.time_ms,
            position: [sample.lat_e7, sample.lon_e7],
            readings: sample.readings().map(Reading::get),
        };
        let group = self.group_of(device);
        let group = &mut self.groups[group];
        let before = group.buffer.len();
        group.put(&spilled, batch.raw(entry))?;
        self.bytes += (group.buffer.len() - before) as u64;
        group.write_full(&self.folder)
    }

    /// Index of a device's group.
    #[must_use]
    pub(crate) fn group_of(&self, device: &str) -> usize {
        // Not the lowest bits, which the device maps use.
        let hash = self.hasher.hash_one(device) >> 40;
        usize::try_from(hash % GROUPS as u64).expect("it is below GROUPS")
    }

    /// Index of an origin in the list. The samples of one origin are consecutive.
    fn origin_index(&mut self, origin: &Arc<str>) -> u32 {
        if self.origins.last().is_none_or(|last| !Arc::ptr_eq(last, origin)) {
            self.origins.push(Arc::clone(origin));
        }
        u32::try_from(self.origins.len() - 1).expect("there are fewer than 2^32 input files")
    }

    /// Removes the samples of a group and returns them in arrival order.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn take_group(&mut self, group: usize) -> io::Result<GroupSamples> {
        let Group { mut file, buffer } = std::mem::take(&mut self.groups[group]);
        if let Some(file) = &mut file {
            file.rewind()?;
        }
        let disk: Box<dyn Read + Send> = match file {
            Some(file) => Box::new(BufReader::with_capacity(8 * BUFFER, file)),
            None => Box::new(io::empty()),
        };
        let bytes = disk.chain(io::Cursor::new(buffer));
        let origins = self.origins.clone();
        Ok(GroupSamples { bytes, origins, frame: Vec::new(), is_pending: false })
    }

    /// Resets the spill after all groups were taken.
    pub fn clear(&mut self) {
        let hasher = self.hasher.clone();
        *self = Self { hasher, ..Self::new(&self.folder) };
    }
}

impl Group {
    fn put(&mut self, spilled: &SpilledSample<'_>, raw: &[u8]) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        let buffer = std::mem::take(&mut self.buffer);
        self.buffer = postcard::to_extend(spilled, buffer).map_err(io::Error::other)?;
        self.buffer.extend_from_slice(raw);
        let length = u32::try_from(self.buffer.len() - start - 4).map_err(io::Error::other)?;
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn write_full(&mut self, folder: &Path) -> io::Result<()> {
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(folder)?),
        };
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        // Release the memory of a long record.
        self.buffer.shrink_to(2 * BUFFER);
        Ok(())
    }
}

/// The samples of a group.
pub(crate) struct GroupSamples {
    bytes: io::Chain<Box<dyn Read + Send>, io::Cursor<Vec<u8>>>,
    origins: Vec<Arc<str>>,
    frame: Vec<u8>,
    /// Whether `frame` contains a sample that was not returned yet.
    is_pending: bool,
}

impl GroupSamples {
    /// The next samples, all with the same origin; `None` at the end.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        let mut batch = Batch::default();
        let mut origin = None;
        while batch.entries.len() < BATCH_ENTRIES
            && batch.raw.len() < BATCH_BYTES
            && self.read_frame()?
        {
            let (sample, raw) = postcard::take_from_bytes::<SpilledSample<'_>>(&self.frame)
                .map_err(io::Error::other)?;
            if *origin.get_or_insert(sample.origin) != sample.origin {
                self.is_pending = true;
                break;
            }
            push(&mut batch, &sample, raw);
        }
        let Some(origin) = origin else { return Ok(None) };
        batch.origin = Arc::clone(&self.origins[origin as usize]);
        Ok(Some(batch))
    }

    /// Reads the bytes of the next sample; false at the end.
    fn read_frame(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.is_pending) {
            return Ok(true);
        }
        let mut length = [0; 4];
        if self.bytes.read(&mut length[..1])? == 0 {
            return Ok(false);
        }
        self.bytes.read_exact(&mut length[1..])?;
        self.frame.resize(u32::from_le_bytes(length) as usize, 0);
        self.bytes.read_exact(&mut self.frame)?;
        Ok(true)
    }
}

fn push(batch: &mut Batch, spilled: &SpilledSample<'_>, raw: &[u8]) {
    let mut put = |text: &str| -> Span {
        let start = batch.text.len();
        batch.text.push_str(text);
        span(start, batch.text.len())
    };
    let (device, driver) = (put(spilled.device), spilled.driver.map(&mut put));
    // Unknown readings were counted when the sample was spilled.
    let unknown = ReadingSet::default();
    let [lat_e7, lon_e7] = spilled.position;
    let readings = spilled.readings.map(Reading::new);
    let sample = Sample::new(spilled.time_ms, (lat_e7, lon_e7), readings);
    let sample = Sample { ignition: spilled.ignition, ..sample };
    let start = batch.raw.len();
    batch.raw.extend_from_slice(raw);
    batch.entries.push(Entry {
        offset: spilled.offset,
        element: spilled.element,
        line: spilled.line,
        log_time_ms: spilled.log_time_ms,
        again: spilled.again,
        raw: span(start, batch.raw.len()),
        key: None,
        content: Ok(DecodedSample { device, driver, sample, unknown }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Samples of a few devices, in batches as from a source.
    fn batches(log: &[(u8, i64, Option<i32>, bool)]) -> Vec<Batch> {
        let mut all: Vec<Batch> = Vec::new();
        for (offset, &(device, time_ms, reading, named)) in (0..).zip(log) {
            if offset % 7 == 0 {
                let origin = Arc::from(format!("file {}", offset / 14));
                all.push(Batch { origin, ..Batch::default() });
            }
            let batch = all.last_mut().unwrap();
            let sample = SpilledSample {
                origin: 0,
                offset: Offset(offset),
                element: reading.map(i32::cast_unsigned),
                line: offset.cast_unsigned(),
                log_time_ms: LogTime(-time_ms),
                again: named,
                device: &format!("truck-{device}"),
                driver: named.then_some("Farid"),
                ignition: reading.map(|_| named),
                time_ms: DeviceTime(time_ms),
                position: [1, -2],
                readings: [reading, None, Some(3), reading],
            };
            push(batch, &sample, format!("raw {offset}").as_bytes());
        }
        all
    }

    /// The device of a sample, and a description of everything else.
    fn describe(batch: &Batch, entry: &Entry) -> (String, String) {
        let good = entry.content.as_ref().unwrap();
        let driver = good.driver.as_ref().map(|driver| batch.text(driver));
        let (offset, element, line) = (entry.offset, entry.element, entry.line);
        let place = (offset, element, line, entry.log_time_ms, entry.again, &batch.origin);
        let all = format!("{place:?} {driver:?} {:?}", good.sample);
        let raw = String::from_utf8_lossy(batch.raw(entry)).into_owned();
        (batch.text(&good.device).to_owned(), all + &raw)
    }

    #[test]
    fn batches_of_long_records_are_small() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(folder.path());
        let log = [(1, 5, None, false); 10];
        for batch in &mut batches(&log) {
            batch.raw = vec![b'x'; BATCH_BYTES - 1];
            for entry in &mut batch.entries {
                entry.raw = span(0, BATCH_BYTES - 1);
            }
            for entry in &batch.entries {
                spill.push(batch, entry, entry.content.as_ref().unwrap()).unwrap();
            }
        }
        let mut samples = spill.take_group(spill.group_of("truck-1")).unwrap();
        let mut found = 0;
        while let Some(batch) = samples.next_batch().unwrap() {
            assert!(batch.entries.len() <= 2, "{} long records in one batch", batch.entries.len());
            found += batch.entries.len();
        }
        assert_eq!(found, log.len());
    }

    proptest! {
        #[test]
        fn every_sample_is_read_back_unchanged_and_in_order(
            log in prop::collection::vec(
                (0..100_u8, any::<i64>(), prop::option::of(-9..9_i32), any::<bool>()), 0..2000),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut spill = Spill::new(folder.path());
            let mut expected = Vec::new();
            for batch in &batches(&log) {
                for entry in &batch.entries {
                    spill.push(batch, entry, entry.content.as_ref().unwrap()).unwrap();
                    expected.push(describe(batch, entry));
                }
            }
            let mut found = Vec::new();
            for group in 0..GROUPS {
                let mut samples = spill.take_group(group).unwrap();
                while let Some(batch) = samples.next_batch().unwrap() {
                    prop_assert!(!batch.entries.is_empty());
                    found.extend(batch.entries.iter().map(|entry| describe(&batch, entry)));
                }
            }
            // A stable sort: the order of each device's samples is compared, too.
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            found.sort_by(|a, b| a.0.cmp(&b.0));
            prop_assert_eq!(found, expected);
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
