//! Chunks of a path. A chunk that has not grown for a while is packed to a third or a fifth of its
//! size.

use std::borrow::Cow;

use super::{READINGS, Reading, Sample};
use crate::model::column::{Steps, push, take_varint};
use crate::model::scalar::{DeviceTime, Version};

/// Part of a path, sorted and not empty.
#[derive(Clone, Debug)]
pub(super) enum Chunk {
    Open(Vec<Sample>),
    Packed(Packed),
}

impl Chunk {
    /// The earliest sample.
    pub(super) fn first(&self) -> &Sample {
        match self {
            Self::Open(samples) => samples.first().expect("no chunk is empty"),
            Self::Packed(packed) => packed.first(),
        }
    }

    /// The samples; a packed chunk is unpacked first.
    pub(super) fn samples(&self) -> Cow<'_, [Sample]> {
        match self {
            Self::Open(samples) => Cow::Borrowed(samples),
            Self::Packed(packed) => Cow::Owned(packed.unpacked()),
        }
    }
}

/// Number of columns: the fields of a sample, of which class and ignition share one.
const COLUMNS: usize = 5 + READINGS;

/// A sorted chunk, packed. Each sample is a number with one bit for each column whose second
/// difference is not 0, followed by those differences. A number below 64 is one byte, so columns
/// that seldom change come last.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    first: Sample,
    len: usize,
    bytes: Box<[u8]>,
}

/// The columns of a sample; `i32::MIN` for an absent reading.
fn numbers(sample: &Sample) -> [i64; COLUMNS] {
    let mut numbers = [0; COLUMNS];
    let (fixed, rest) = numbers.split_at_mut(4);
    let (lat, lon) = (sample.lat_e7.into(), sample.lon_e7.into());
    fixed.copy_from_slice(&[sample.time_ms.ms(), lat, lon, sample.version.get()]);
    for (number, reading) in rest.iter_mut().zip(sample.readings()) {
        *number = reading.get().unwrap_or(i32::MIN).into();
    }
    numbers[COLUMNS - 1] = i64::from(sample.mark());
    numbers
}

fn sample([time_ms, lat, lon, version, rest @ ..]: [i64; COLUMNS]) -> Sample {
    let [readings @ .., marks] = rest;
    let small = |number: i64| i32::try_from(number).expect("it was packed from an i32");
    let reading = |number: i64| Reading::new(Some(small(number)).filter(|&it| it != i32::MIN));
    let position = (small(lat), small(lon));
    let mut sample = Sample::new(DeviceTime(time_ms), position, readings.map(reading));
    sample.set_mark(u8::try_from(marks).expect("it was packed from a byte"));
    sample.version = Version(version);
    sample
}

impl Packed {
    /// Packs a chunk that is not empty.
    pub(super) fn new(chunk: &[Sample]) -> Self {
        let mut steps = [Steps::default(); COLUMNS];
        let mut bytes = Vec::with_capacity(chunk.len() * 12);
        for sample in chunk {
            let mut entries = [0; COLUMNS];
            let mut mask = 0;
            for (column, (steps, number)) in steps.iter_mut().zip(numbers(sample)).enumerate() {
                entries[column] = steps.entry(number);
                mask |= i64::from(entries[column] != 0) << column;
            }
            push(&mut bytes, mask);
            entries.iter().filter(|&&entry| entry != 0).for_each(|&entry| push(&mut bytes, entry));
        }
        Self { first: chunk[0], len: chunk.len(), bytes: bytes.into() }
    }

    pub(super) fn first(&self) -> &Sample {
        &self.first
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Memory used, bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }

    /// The samples.
    pub(super) fn unpacked(&self) -> Vec<Sample> {
        let mut steps = [Steps::default(); COLUMNS];
        let mut rest = &self.bytes[..];
        let mut next = || {
            let mask = take_varint(&mut rest)?;
            let mut numbers = [0; COLUMNS];
            for (column, (steps, number)) in steps.iter_mut().zip(&mut numbers).enumerate() {
                let differs = mask & (1 << column) != 0;
                *number = steps.value(if differs { take_varint(&mut rest)? } else { 0 });
            }
            Some(sample(numbers))
        };
        (0..self.len).map(|_| next().expect("`new` packed `len` samples")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Numbers = (i64, i32, i32, [Reading; READINGS], i64, u8);

    fn numbers() -> impl Strategy<Value = Numbers> {
        let reading = || {
            prop_oneof![Just(Reading::ABSENT), any::<i32>().prop_map(|it| Reading::new(Some(it)))]
        };
        let readings: [_; READINGS] = std::array::from_fn(|_| reading());
        (any::<i64>(), any::<i32>(), any::<i32>(), readings, any::<i64>(), 0..9_u8)
    }

    fn sample((time_ms, lat_e7, lon_e7, readings, version, mark): Numbers) -> Sample {
        let mut sample = Sample::new(DeviceTime(time_ms), (lat_e7, lon_e7), readings);
        sample.version = Version(version);
        sample.set_mark(mark);
        assert_eq!(sample.mark(), mark);
        sample
    }

    #[test]
    fn a_steady_chunk_needs_little_more_than_a_byte_a_sample() {
        let chunk = (0..100)
            .map(|nth| sample((1_000 * nth, 5, 6, [Reading::ABSENT; READINGS], 2 * nth, 0)));
        let chunk: Vec<_> = chunk.collect();
        let (memory, fixed) = (Packed::new(&chunk).memory(), size_of::<Packed>());
        assert!(fixed + 100 < memory && memory < fixed + 150, "{memory}");
    }

    proptest! {
        #[test]
        fn a_chunk_round_trips(
            all in prop::collection::vec(numbers(), 1..130), is_steady: bool,
        ) {
            let mut chunk: Vec<_> = all.into_iter().map(sample).collect();
            if is_steady {
                for (sample, nth) in chunk.iter_mut().zip(0..) {
                    sample.time_ms = DeviceTime(1_000 * nth);
                }
            }
            let packed = Packed::new(&chunk);
            prop_assert_eq!(packed.first(), &chunk[0]);
            prop_assert_eq!(packed.len(), chunk.len());
            prop_assert_eq!(packed.unpacked(), chunk);
        }
    }
}
