//! Encodes a path. Each flush encodes the whole path of each dirty trip, so buffers are reused per
//! thread.

use std::cell::RefCell;

use super::frame::compress;
use super::runs::RunWriter;
use super::{Message, PLAIN, ZSTD, checksum, versions};
use crate::model::column::{Steps, push};
use crate::timeline::{Path, Reading, Sample};

/// Minimum size of a message that is compressed, bytes. Of smaller ones, compression saves at most
/// an eighth, and makes encoding four to ten times dearer: zstd builds its tables for each frame.
const MIN_COMPRESSED: usize = 400;

#[derive(Default)]
struct Encoder {
    samples: Vec<Sample>,
    message: Message,
    plain: Vec<u8>,
    frame: Vec<u8>,
}

thread_local! {
    static ENCODER: RefCell<Encoder> = RefCell::default();
}

/// Encodes a path. The same samples always give the same bytes; without feature `zstd`, those of
/// an uncompressed message.
///
/// # Panics
/// Never: at 48 bytes each, memory ends before a path has 2^32 samples.
#[must_use]
pub fn encode(path: &Path) -> Vec<u8> {
    ENCODER.with_borrow_mut(|encoder| {
        encoder.samples.clear();
        encoder.samples.extend(path.iter());
        encoder.message.fill(&encoder.samples);
        encoder.message.fill_drivers(path);
        encoder.plain.clear();
        encoder.message.write(&mut encoder.plain);
        encoder.blob()
    })
}

impl Encoder {
    /// The message with its header and checksum, compressed if that makes it smaller.
    fn blob(&mut self) -> Vec<u8> {
        let (mut header, mut body) = (PLAIN, &self.plain);
        if self.plain.len() >= MIN_COMPRESSED && compress(&self.plain, &mut self.frame) {
            (header, body) = (ZSTD, &self.frame);
        }
        let checksum = checksum(&self.plain);
        let mut blob = Vec::with_capacity(1 + checksum.len() + body.len());
        blob.push(header);
        blob.extend_from_slice(&checksum);
        blob.extend_from_slice(body);
        blob
    }
}

impl Message {
    /// Replaces the content by the columns of a path, reusing the buffers.
    fn fill(&mut self, samples: &[Sample]) {
        self.clear();
        self.count = samples.len().try_into().expect("memory ends before 2^32 samples of 48 bytes");
        let [mut time, mut lat, mut lon] = [Steps::default(); 3];
        let (mut classes, mut ignitions) = (RunWriter::default(), RunWriter::default());
        for sample in samples {
            push(&mut self.time_ms, time.entry(sample.time_ms.ms()));
            push(&mut self.lat_e7, lat.entry(sample.lat_e7.into()));
            push(&mut self.lon_e7, lon.entry(sample.lon_e7.into()));
            classes.push(&mut self.class_runs, sample.class as i64);
            let ignition = sample.ignition.map_or(0, |is_on| 1 + i64::from(is_on));
            ignitions.push(&mut self.ignition_runs, ignition);
        }
        classes.end(&mut self.class_runs);
        ignitions.end(&mut self.ignition_runs);
        versions::fill(samples, &mut self.version, &mut self.version_rank);
        self.fill_readings(samples);
    }

    /// Writes the drivers, in the order in which the path names them first, and who drove when.
    fn fill_drivers(&mut self, path: &Path) {
        let mut runs = path.drivers().peekable();
        if runs.peek().is_none() {
            return;
        }
        let (mut writer, mut driver) = (RunWriter::default(), 0);
        for sample in path.iter() {
            if let Some((_, name)) = runs.next_if(|(from_ms, _)| *from_ms == sample.time_ms) {
                driver = name.map_or(0, |name| self.number_of_driver(name));
            }
            writer.push(&mut self.driver_runs, driver);
        }
        writer.end(&mut self.driver_runs);
    }

    /// The number of a driver in the list, from 1.
    fn number_of_driver(&mut self, name: &str) -> i64 {
        let known = self.drivers.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.drivers.push(name.to_owned());
            self.drivers.len() - 1
        });
        1 + i64::try_from(at).expect("memory ends before 2^63 names")
    }
}

/// Writes the first differences of the readings, and a bitmap if only some samples have one.
pub(super) fn fill_readings(
    readings: impl ExactSizeIterator<Item = Reading>,
    column: &mut Vec<u8>,
    present: &mut Vec<u8>,
) {
    let count = readings.len();
    present.resize(count.div_ceil(8), 0);
    let (mut before, mut found) = (0_i32, 0);
    for (index, reading) in readings.enumerate() {
        if let Some(value) = reading.get() {
            push(column, value.wrapping_sub(before).into());
            present[index / 8] |= 1 << (index % 8);
            before = value;
            found += 1;
        }
    }
    if found == 0 || found == count {
        present.clear();
    }
}
