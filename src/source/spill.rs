//! Samples set aside on the disk, to be read again device by device.
//!
//! Where more devices send than fit into memory, each arrival would load its device from the store
//! and push another one out. Set aside by device, samples come back in groups whose devices fit:
//! each device is loaded once. Of one device they come back in the order they came.

use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Batch, DecodedSample, Entry, Span, span};
use crate::timeline::{Reading, Sample};

/// Into how many groups the devices are divided.
pub const GROUPS: usize = 64;

/// Bytes of a group that wait for the disk.
const BUFFER: usize = 32 << 10;

/// Samples that come back in one batch.
const BATCH_ENTRIES: usize = 2048;

/// A batch that comes back ends where its records take so many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Samples on the disk, in files without a name: they vanish with the process.
#[derive(Debug)]
pub struct Spill {
    folder: PathBuf,
    groups: Vec<Group>,
    hasher: foldhash::fast::RandomState,
    /// Where the samples came from; they name a place in this list.
    origins: Vec<Arc<str>>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Group {
    file: Option<File>,
    /// What is not in the file yet.
    buffer: Vec<u8>,
}

/// A sample as it lies on the disk, before the bytes of its record; in front of both their length.
#[derive(Serialize, Deserialize)]
struct SpilledSample<'a> {
    origin: u32,
    offset: i64,
    element: Option<u32>,
    line: u64,
    log_time_ms: i64,
    again: bool,
    device: &'a str,
    driver: Option<&'a str>,
    ignition: Option<bool>,
    time_ms: i64,
    position: [i32; 2],
    /// Speed, heading, altitude, accuracy.
    readings: [Option<i32>; 4],
}

impl Spill {
    /// A place for samples, in files of a folder.
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

    /// Bytes set aside.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets a sample aside.
    ///
    /// # Errors
    /// The disk fails.
    pub fn push(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        decoded: &DecodedSample,
    ) -> io::Result<()> {
        let origin = self.slot_of(&batch.origin);
        let device = batch.text(&decoded.device);
        let Sample { time_ms, lat_e7, lon_e7, speed_cmps, heading_ddeg, altitude_dm, accuracy_dm } =
            decoded.sample;
        let set_aside = SpilledSample {
            origin,
            offset: entry.offset,
            element: entry.element,
            line: entry.line,
            log_time_ms: entry.log_time_ms,
            again: entry.again,
            device,
            driver: decoded.driver.as_ref().map(|driver| batch.text(driver)),
            ignition: decoded.ignition,
            time_ms,
            position: [lat_e7, lon_e7],
            readings: [speed_cmps, heading_ddeg, altitude_dm, accuracy_dm].map(Reading::get),
        };
        let group = self.group_of(device);
        let group = &mut self.groups[group];
        let before = group.buffer.len();
        group.put(&set_aside, batch.raw(entry))?;
        self.bytes += (group.buffer.len() - before) as u64;
        group.write_full(&self.folder)
    }

    /// Which group a device is in.
    #[must_use]
    pub fn group_of(&self, device: &str) -> usize {
        // Not by the lowest bits, which tables of devices use.
        let hash = self.hasher.hash_one(device) >> 40;
        usize::try_from(hash % GROUPS as u64).expect("it is below GROUPS")
    }

    /// The place of an origin in the list; samples of one origin come side by side.
    fn slot_of(&mut self, origin: &Arc<str>) -> u32 {
        if self.origins.last().is_none_or(|last| !Arc::ptr_eq(last, origin)) {
            self.origins.push(Arc::clone(origin));
        }
        u32::try_from(self.origins.len() - 1).expect("no command line names so many files")
    }

    /// Takes back the samples of a group, in the order they came.
    ///
    /// # Errors
    /// The disk fails.
    pub fn take_group(&mut self, group: usize) -> io::Result<GroupSamples> {
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
        Ok(GroupSamples { bytes, origins, frame: Vec::new(), is_held: false })
    }

    /// Forgets everything, once all groups were taken.
    pub fn clear(&mut self) {
        let hasher = self.hasher.clone();
        *self = Self { hasher, ..Self::new(&self.folder) };
    }
}

impl Group {
    fn put(&mut self, set_aside: &SpilledSample<'_>, raw: &[u8]) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        let buffer = std::mem::take(&mut self.buffer);
        self.buffer = postcard::to_extend(set_aside, buffer).map_err(io::Error::other)?;
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
        // One long record shall not cost its room for good.
        self.buffer.shrink_to(2 * BUFFER);
        Ok(())
    }
}

/// The samples of a group.
pub struct GroupSamples {
    bytes: io::Chain<Box<dyn Read + Send>, io::Cursor<Vec<u8>>>,
    origins: Vec<Arc<str>>,
    frame: Vec<u8>,
    /// The frame was read, and not given.
    is_held: bool,
}

impl GroupSamples {
    /// The next samples, all of one origin; `None` at the end.
    ///
    /// # Errors
    /// The disk fails.
    pub fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        let mut batch = Batch::default();
        let mut origin = None;
        while batch.entries.len() < BATCH_ENTRIES
            && batch.raw.len() < BATCH_BYTES
            && self.read_frame()?
        {
            let (sample, raw) = postcard::take_from_bytes::<SpilledSample<'_>>(&self.frame)
                .map_err(io::Error::other)?;
            if *origin.get_or_insert(sample.origin) != sample.origin {
                self.is_held = true;
                break;
            }
            push(&mut batch, &sample, raw);
        }
        let Some(origin) = origin else { return Ok(None) };
        batch.origin = Arc::clone(&self.origins[origin as usize]);
        Ok(Some(batch))
    }

    /// Reads the next sample's bytes; false at the end.
    fn read_frame(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.is_held) {
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

fn push(batch: &mut Batch, set_aside: &SpilledSample<'_>, raw: &[u8]) {
    let mut put = |text: &str| -> Span {
        let start = batch.text.len();
        batch.text.push_str(text);
        span(start, batch.text.len())
    };
    let (device, driver) = (put(set_aside.device), set_aside.driver.map(&mut put));
    let [lat_e7, lon_e7] = set_aside.position;
    let [speed_cmps, heading_ddeg, altitude_dm, accuracy_dm] = set_aside.readings.map(Reading::new);
    let sample = Sample {
        time_ms: set_aside.time_ms,
        lat_e7,
        lon_e7,
        speed_cmps,
        heading_ddeg,
        altitude_dm,
        accuracy_dm,
    };
    let start = batch.raw.len();
    batch.raw.extend_from_slice(raw);
    batch.entries.push(Entry {
        offset: set_aside.offset,
        element: set_aside.element,
        line: set_aside.line,
        log_time_ms: set_aside.log_time_ms,
        again: set_aside.again,
        raw: span(start, batch.raw.len()),
        key: None,
        content: Ok(DecodedSample { device, driver, ignition: set_aside.ignition, sample }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Samples of a few devices, as a source would give them.
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
                offset,
                element: reading.map(i32::cast_unsigned),
                line: offset.cast_unsigned(),
                log_time_ms: -time_ms,
                again: named,
                device: &format!("truck-{device}"),
                driver: named.then_some("Farid"),
                ignition: reading.map(|_| named),
                time_ms,
                position: [1, -2],
                readings: [reading, None, Some(3), reading],
            };
            push(batch, &sample, format!("raw {offset}").as_bytes());
        }
        all
    }

    /// What is known of a sample, with its device in front.
    fn describe(batch: &Batch, entry: &Entry) -> (String, String) {
        let good = entry.content.as_ref().unwrap();
        let driver = good.driver.as_ref().map(|driver| batch.text(driver));
        let (offset, element, line) = (entry.offset, entry.element, entry.line);
        let place = (offset, element, line, entry.log_time_ms, entry.again, &batch.origin);
        let all = format!("{place:?} {driver:?} {:?} {:?}", good.ignition, good.sample);
        let raw = String::from_utf8_lossy(batch.raw(entry)).into_owned();
        (batch.text(&good.device).to_owned(), all + &raw)
    }

    #[test]
    fn long_records_come_back_a_few_at_a_time() {
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
            assert!(batch.entries.len() <= 2, "{} long records at once", batch.entries.len());
            found += batch.entries.len();
        }
        assert_eq!(found, log.len());
    }

    proptest! {
        #[test]
        fn every_sample_comes_back_as_it_was_and_in_its_device_s_order(
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
            // Sorting is stable, so this compares the order in each device too.
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            found.sort_by(|a, b| a.0.cmp(&b.0));
            prop_assert_eq!(found, expected);
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
