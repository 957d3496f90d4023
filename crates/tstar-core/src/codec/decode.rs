//! Decodes a path. The bytes are untrusted: every size is checked before memory is allocated, and
//! every value against the range of its field.

use std::borrow::Cow;

use super::column::ColumnReader;
use super::frame::decompress;
use super::runs::RunReader;
use super::{BlobError, MAX_MESSAGE_BYTES, Message, PLAIN, ZSTD, checksum, versions};
use crate::identity::check_device_id;
use crate::model::class::Class;
use crate::model::column::{entries, take_varint};
use crate::model::scalar::{DeviceTime, Version};
use crate::timeline::{Path, READINGS, Reading, ReadingKind, Run, Sample};

/// Decodes a blob written by [`super::encode()`] or by another writer of `schema/path.proto`.
///
/// Allocates the declared size of the message (at most [`MAX_MESSAGE_BYTES`]) twice, and the path
/// (at most 72 bytes for each 4 bytes of the message, and as much for its drivers).
///
/// # Errors
/// Why the bytes are not a valid path.
pub fn decode(blob: &[u8]) -> Result<Path, BlobError> {
    read(&message(blob)?)
}

/// Whether two blobs have the same message. Which messages are compressed, and to which bytes,
/// depends on the version that wrote them. A damaged blob equals only itself.
#[must_use]
pub fn is_same_message(one: &[u8], other: &[u8]) -> bool {
    let has_same = |other: &[u8]| message(one).is_ok_and(|one| message(other) == Ok(one));
    one == other || has_same(other)
}

/// The message of a blob, decompressed: the same for the same samples, whatever compressed it. It
/// is not decoded.
///
/// # Errors
/// The header, the frame or the checksum of the blob is wrong.
pub fn message(blob: &[u8]) -> Result<Cow<'_, [u8]>, BlobError> {
    let (&header, rest) = blob.split_first().ok_or(BlobError::Empty)?;
    if !matches!(header, PLAIN | ZSTD) {
        return Err(BlobError::Header(header));
    }
    let (written, body) = rest.split_first_chunk().ok_or(BlobError::Checksum)?;
    let message = match header {
        PLAIN => bounded(body.len() as u64).map(|_| Cow::Borrowed(body))?,
        _ => Cow::Owned(decompress(body)?),
    };
    if checksum(&message) != *written { Err(BlobError::Checksum) } else { Ok(message) }
}

pub(super) fn bounded(declared: u64) -> Result<usize, BlobError> {
    usize::try_from(declared)
        .ok()
        .filter(|&size| size <= MAX_MESSAGE_BYTES)
        .ok_or(BlobError::TooLarge { declared })
}

fn read(bytes: &[u8]) -> Result<Path, BlobError> {
    let message = Message::read(bytes)?;
    if message.count == 0 {
        return Err(BlobError::Message("its count is 0".to_owned()));
    }
    let mut fault = None;
    let mut samples = Samples::new(&message)?;
    let path = Path::from_sorted(std::iter::from_fn(|| {
        samples.next().map_err(|error| fault = Some(error)).ok().flatten()
    }));
    if let Some(fault) = fault {
        return Err(fault);
    }
    let mut path = path.ok_or_else(|| BlobError::Message("it has no samples".to_owned()))?;
    path.set_drivers(samples.drivers.end()?);
    Ok(path)
}

/// Decodes the samples of a message one by one.
struct Samples<'a> {
    count: usize,
    index: usize,
    before_ms: Option<DeviceTime>,
    time: ColumnReader<'a>,
    lat: ColumnReader<'a>,
    lon: ColumnReader<'a>,
    readings: [Readings<'a>; READINGS],
    versions: Vec<Version>,
    classes: RunReader<'a>,
    ignitions: RunReader<'a>,
    drivers: DriverReader<'a>,
}

impl<'a> Samples<'a> {
    fn new(message: &'a Message) -> Result<Self, BlobError> {
        let m = message;
        let count = m.count as usize;
        let mut samples = Self {
            count,
            index: 0,
            before_ms: None,
            time: ColumnReader::new("time_ms", &m.time_ms, count)?,
            lat: ColumnReader::new("lat_e7", &m.lat_e7, count)?,
            lon: ColumnReader::new("lon_e7", &m.lon_e7, count)?,
            readings: [Readings::default(); READINGS],
            versions: versions::read(&m.version, &m.version_rank, count)?,
            classes: RunReader::new("class_runs", &m.class_runs, 2)?,
            ignitions: RunReader::new("ignition_runs", &m.ignition_runs, 2)?,
            drivers: DriverReader::new(m)?,
        };
        for (readings, (kind, column, present)) in samples.readings.iter_mut().zip(m.readings()) {
            *readings = Readings::new(kind, column, present, count)?;
        }
        Ok(samples)
    }

    fn next(&mut self) -> Result<Option<Sample>, BlobError> {
        let index = self.index;
        if index == self.count {
            self.end()?;
            return Ok(None);
        }
        self.index += 1;
        let time_ms = DeviceTime(self.time.next()?);
        if self.before_ms.is_some_and(|before_ms| time_ms <= before_ms) {
            return Err(BlobError::NotRising { index, time_ms });
        }
        self.before_ms = Some(time_ms);
        let lat_e7 = within("lat_e7", index, self.lat.next()?, (-900_000_000, 900_000_000))?;
        let lon_e7 = within("lon_e7", index, self.lon.next()?, (-1_800_000_000, 1_800_000_000))?;
        let mut readings = [Reading::ABSENT; READINGS];
        for (reading, column) in readings.iter_mut().zip(&mut self.readings) {
            *reading = column.next(index)?;
        }
        let mut sample = Sample::new(time_ms, (lat_e7, lon_e7), readings);
        sample.version = self.versions[index];
        sample.class = Class::ALL[self.classes.next()? as usize];
        sample.ignition = match self.ignitions.next()? {
            0 => None,
            is_on => Some(is_on == 2),
        };
        self.drivers.next(time_ms)?;
        Ok(Some(sample))
    }

    fn end(&self) -> Result<(), BlobError> {
        self.time.end()?;
        self.lat.end()?;
        self.lon.end()?;
        self.classes.end()?;
        self.ignitions.end()?;
        self.readings.iter().try_for_each(Readings::end)
    }
}

/// Decodes who drove.
struct DriverReader<'a> {
    names: &'a [String],
    runs: RunReader<'a>,
    /// Number of names that a run had.
    used: usize,
    /// The runs so far.
    found: Vec<Run>,
    /// Length of their names, bytes.
    name_bytes: usize,
    now: i64,
}

impl<'a> DriverReader<'a> {
    fn new(message: &'a Message) -> Result<Self, BlobError> {
        let names = &message.drivers;
        let most = i64::try_from(names.len()).expect("a message is far below 2^63 bytes");
        if names.iter().any(|name| check_device_id(name).is_err()) {
            return Err(Self::wrong("it has a name that is empty, too long, or contains NUL"));
        }
        let runs = RunReader::new("driver_runs", &message.driver_runs, most)?;
        Ok(Self { names, runs, used: 0, found: Vec::new(), name_bytes: 0, now: 0 })
    }

    fn wrong(reason: &'static str) -> BlobError {
        BlobError::Column { column: "drivers", reason }
    }

    #[inline]
    fn next(&mut self, time_ms: DeviceTime) -> Result<(), BlobError> {
        let driver = self.runs.next()?;
        if driver != self.now {
            self.now = driver;
            let at = usize::try_from(driver).expect("it is not negative").checked_sub(1);
            match at {
                Some(at) if at == self.used => self.used += 1,
                Some(at) if at > self.used => {
                    return Err(Self::wrong("its names are not in the order of the samples"));
                }
                _ => {}
            }
            let name = at.map(|at| self.names[at].as_str());
            self.name_bytes += name.map_or(0, str::len);
            if self.name_bytes > MAX_MESSAGE_BYTES {
                return Err(Self::wrong("the names of its runs are too long"));
            }
            self.found.push((time_ms, name.map(Into::into)));
        }
        Ok(())
    }

    /// The runs.
    fn end(self) -> Result<Vec<Run>, BlobError> {
        self.runs.end()?;
        if self.used < self.names.len() {
            return Err(Self::wrong("no sample names one of them"));
        }
        let mut sorted: Vec<_> = self.names.iter().collect();
        sorted.sort();
        if sorted.windows(2).any(|two| two[0] == two[1]) {
            return Err(Self::wrong("it has a name twice"));
        }
        Ok(self.found)
    }
}

/// Checks that a value is in the range of its field.
fn within(
    column: &'static str,
    index: usize,
    value: i64,
    (min, max): (i32, i32),
) -> Result<i32, BlobError> {
    i32::try_from(value)
        .ok()
        .filter(|value| (min..=max).contains(value))
        .ok_or(BlobError::OutOfRange { column, index, value, min: min.into(), max: max.into() })
}

/// Decodes the readings of one kind: a column of first differences, and a bitmap of the samples
/// that have one.
#[derive(Clone, Copy, Default)]
struct Readings<'a> {
    name: &'static str,
    range: (i32, i32),
    rest: &'a [u8],
    present: &'a [u8],
    /// Without a bitmap: whether all samples have a reading, or none has.
    all: bool,
    before: i32,
}

impl<'a> Readings<'a> {
    fn new(
        kind: ReadingKind,
        column: &'a [u8],
        present: &'a [u8],
        count: usize,
    ) -> Result<Self, BlobError> {
        let (name, range) = (kind.column(), kind.quanta_range());
        let wrong = |reason| Err(BlobError::Column { column: name, reason });
        let found = entries(column);
        if present.is_empty() {
            if found != 0 && found != count {
                return wrong("its length differs from the count, and it has no bitmap");
            }
        } else {
            if present.len() != count.div_ceil(8) {
                return wrong("the length of its bitmap does not match the count");
            }
            if !count.is_multiple_of(8) && present[count / 8] >> (count % 8) != 0 {
                return wrong("its bitmap has bits past the count");
            }
            let set: usize = present.iter().map(|byte| byte.count_ones() as usize).sum();
            if set != found {
                return wrong("its length differs from the number of bits set in its bitmap");
            }
            if set == 0 || set == count {
                return wrong("its bitmap is redundant");
            }
        }
        Ok(Self { name, range, rest: column, present, all: found > 0, before: 0 })
    }

    #[inline]
    fn next(&mut self, index: usize) -> Result<Reading, BlobError> {
        let has = self.present.get(index / 8).map_or(self.all, |byte| byte >> (index % 8) & 1 == 1);
        if !has {
            return Ok(Reading::ABSENT);
        }
        let entry = take_varint(&mut self.rest)
            .and_then(|entry| i32::try_from(entry).ok())
            .ok_or(BlobError::Column { column: self.name, reason: "it has a malformed number" })?;
        self.before = self.before.wrapping_add(entry);
        let value = within(self.name, index, self.before.into(), self.range)?;
        Ok(Reading::new(Some(value)))
    }

    fn end(&self) -> Result<(), BlobError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(BlobError::Column { column: self.name, reason: "bytes follow its last number" })
    }
}
