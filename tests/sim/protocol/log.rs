//! The logs of a schedule, one per partition: records of one device each, some with a bad sample,
//! some that forget, some that cannot be used at all; where they lie; and their rules and epochs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tstar::internals::kafka;
use tstar::internals::kafka::control::{Authority, CONTROL_HEADER, SIGNATURE_HEADER};
use tstar::internals::kafka::record::RecordReader;
use tstar::internals::kafka::topics::StartFrom;
use tstar::internals::model::control::{Claim, ControlKey, ControlKeys};
use tstar::internals::model::epoch::{Epoch, LogPartition, Versions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset, Version};
use tstar::internals::segment::{self, Kinds};
use tstar::internals::source::{Decoder, Headers};
use tstar::internals::timeline::{DAY_MS, READINGS, Reading, Sample};

use super::hostile::Hostile;
use super::world::{Device, Dice};
use crate::model::{Class, Fix};

pub const HOUR: i64 = 3_600_000;
/// A midnight: times begin here, over [`DAYS`].
pub const ORIGIN: i64 = 20_000 * DAY_MS;
pub const DAYS: i64 = 3;
/// The first partition.
pub const PARTITION: i32 = 7;
const PARTITIONS: [i32; 4] = [PARTITION, 3, 0, 5];
/// The first device that may occur in several partitions: those after it may, too.
pub const CONTESTED: Device = b'c';
pub const TOPIC: &str = "samples";
const KEYS: &str = "ops:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// Below it, 0.01 m/s, vehicles stand.
const STOP_SPEED: i32 = 50;
pub const ENDLESS: i64 = 1_000 * DAY_MS;

#[derive(Clone, Debug)]
pub enum Record {
    /// `None` is a sample that cannot be read.
    Samples(Device, Vec<Option<Fix>>),
    Forget(Device, DeviceTime),
    /// A forget without a signature.
    Forged(Device, DeviceTime),
    /// A record that is a dead letter as a whole.
    Hostile(Device, Hostile),
}

impl Record {
    fn device(&self) -> Device {
        let (Self::Samples(device, _)
        | Self::Forget(device, _)
        | Self::Forged(device, _)
        | Self::Hostile(device, _)) = self;
        *device
    }
}

/// A record as it is in the topic.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Headers,
    /// The bytes of each sample, as dead letters contain them.
    pub elements: Vec<Vec<u8>>,
}

/// The log of one partition.
#[derive(Clone, Debug)]
pub struct Script {
    pub records: Vec<Record>,
    /// The offset of each record: markers of transactions and aborted records lie between them.
    pub offsets: Vec<i64>,
    /// The offset after the last record, and after what follows it.
    pub end: i64,
    pub encoded: Vec<Encoded>,
    /// The devices of its records.
    pub devices: BTreeSet<Device>,
    pub rules: Rules,
    pub log: LogPartition,
    pub epochs: Vec<Epoch>,
    /// The index of the first record of each epoch.
    pub starts: Vec<usize>,
}

/// The features of a schedule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub limits: bool,
    pub forgets: bool,
    pub epochs: bool,
    /// There are two partitions, and both have records of a device.
    pub contested: bool,
    /// Records expire before anyone reads them.
    pub is_lossy: bool,
    /// What processes do then.
    pub from: Option<StartFrom>,
    /// Processes have static ids.
    pub is_static: bool,
    /// What is written to a table topic, if there is one.
    pub table: Option<Kinds>,
    /// Some records cannot be used at all.
    pub is_hostile: bool,
    /// Times are not whole hours.
    pub is_fine: bool,
    /// There are many devices, with many records of many samples.
    pub is_large: bool,
    /// Vehicles stand, and are switched off.
    pub has_stops: bool,
}

pub fn hour(hour: i64) -> i64 {
    ORIGIN + hour * HOUR
}

/// A random time, most of them near the hour `middle`.
fn random_time(dice: &mut Dice, kind: Kind, middle: i64) -> i64 {
    let near = dice.percent(85);
    let of = if near { middle + dice.between(0, 20) } else { dice.between(0, DAYS * 24 - 1) };
    if !kind.is_fine {
        return hour(of);
    }
    // The longest gap is whole hours: some gaps are just that, or differ by the least.
    let any = dice.between(0, HOUR - 1);
    hour(of) + dice.one_of(&[0, 0, 1, HOUR - 1, any])
}

/// This number of random records of these devices.
fn records(
    dice: &mut Dice,
    kind: Kind,
    (devices, count): (&[Device], i64),
    middle: i64,
) -> Vec<Record> {
    let sizes: &[i32] = if kind.is_large { &[1, 1, 1, 2, 3, 20] } else { &[1, 1, 1, 2, 3] };
    let mut records = Vec::new();
    for nth in 0..count as i32 {
        let device = dice.one_of(devices);
        if kind.is_hostile && dice.percent(12) {
            records.push(Record::Hostile(device, dice.one_of(&Hostile::CHEAP)));
            continue;
        }
        if kind.forgets && dice.percent(if kind.is_large { 3 } else { 15 }) {
            let before_ms = DeviceTime(random_time(dice, kind, middle));
            let is_forged = dice.percent(20);
            let forget = if is_forged { Record::Forged } else { Record::Forget };
            records.push(forget(device, before_ms));
            continue;
        }
        let mut fixes = Vec::new();
        for element in 0..dice.one_of(sizes) {
            let driver = dice.one_of(&[None, None, None, Some("ann"), Some("bob")]);
            let time = random_time(dice, kind, middle);
            let class = if kind.has_stops {
                dice.one_of(&[Class::Moving, Class::Moving, Class::Slow, Class::Separator])
            } else {
                Class::Moving
            };
            let fix = Fix { time, place: 20 * nth + element, driver, class };
            fixes.push((!dice.percent(5)).then_some(fix));
        }
        records.push(Record::Samples(device, fixes));
    }
    if kind.is_large && dice.percent(30) {
        let nth = dice.below(records.len());
        records[nth] = Record::Hostile(devices[0], Hostile::Large);
    }
    records
}

/// The devices of each partition.
fn random_devices(dice: &mut Dice, kind: Kind) -> &'static [&'static [Device]] {
    if kind.is_large {
        return match dice.below(4) {
            0 => &[b"abcde"],
            1 => &[b"acde", b"bcde"],
            _ => &[b"acd", b"bde", b"ce", b"cde"],
        };
    }
    match (kind.contested, dice.percent(70)) {
        (true, _) => &[b"ac", b"bcc"],
        (false, true) => &[b"a"],
        (false, false) => &[b"ab"],
    }
}

impl Script {
    /// The logs of the partitions of a schedule. Of each, at most `most` records count.
    pub fn random(dice: &mut Dice, kind: Kind, most: usize) -> Vec<Self> {
        let middle = dice.one_of(&[24, 48]) - dice.between(3, 17);
        let devices = random_devices(dice, kind);
        let random = |of: &&[Device]| {
            let count = if kind.is_large {
                dice.between(20, 200) / devices.len() as i64
            } else {
                dice.between(3, 22)
            };
            records(dice, kind, (of, count), middle)
        };
        let logs: Vec<_> = devices.iter().map(random).collect();
        let samples = if kind.limits { dice.one_of(&[2, 3, 5, 100]) } else { 100 };
        let mut logs: Vec<_> =
            logs.into_iter().map(|records| Draft::new(records, most, dice)).collect();
        if kind.epochs {
            logs.iter_mut().for_each(|log| log.starts.push(dice.below(log.records.len())));
        }
        let min_stop_ms = if dice.percent(50) { Some(4 * HOUR) } else { None };
        Self::of_partitions(logs, samples, min_stop_ms)
    }

    pub fn of_partitions(
        logs: Vec<Draft>,
        max_samples: u32,
        min_stop_ms: Option<i64>,
    ) -> Vec<Self> {
        let rules = Rules {
            max_gap_ms: 3 * HOUR,
            min_stop_ms,
            max_samples,
            max_future_ms: ENDLESS,
            ..Rules::default()
        };
        let starts = |nth: usize| {
            let start = |log: &Draft| if nth == 0 { 0 } else { log.offsets[log.starts[nth]] };
            logs.iter().zip(PARTITIONS).map(|(log, of)| (of, start(log))).collect()
        };
        let epoch = |nth: usize| Epoch {
            epoch: nth as i32 + 1,
            topic: TOPIC.into(),
            partitions: 8,
            start_offsets: starts(nth),
            base: Version((nth as i64 + 1) * 1_000_000),
            rules: rules.clone(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: true,
        };
        let epochs: Vec<_> = (0..logs[0].starts.len()).map(epoch).collect();
        let script = |(log, partition): (Draft, i32)| {
            let versions = Versions::of_partition(&epochs, partition);
            Self {
                devices: log.records.iter().map(Record::device).collect(),
                encoded: log.records.iter().enumerate().map(encode).collect(),
                records: log.records,
                offsets: log.offsets,
                end: log.end,
                rules: rules.clone(),
                log: LogPartition { partition, versions },
                epochs: epochs.clone(),
                starts: log.starts,
            }
        };
        logs.into_iter().zip(PARTITIONS).map(script).collect()
    }

    /// The number of the epoch of a record.
    pub fn epoch_of(&self, offset: i64) -> i32 {
        self.log.versions.division_of(Offset(offset)).expect("it is a topic").epoch
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Number of records before an offset.
    pub fn before(&self, offset: i64) -> usize {
        self.offsets.partition_point(|of| *of < offset)
    }

    /// The end offset after this number of records.
    pub fn end_after(&self, records: usize) -> i64 {
        self.offsets.get(records).copied().unwrap_or(self.end)
    }

    /// Number of records in the first `epochs` epochs.
    pub fn upto(&self, epochs: usize) -> usize {
        self.starts.get(epochs).copied().unwrap_or(self.len())
    }

    /// A record as the client reads it.
    pub fn record(&self, nth: usize) -> kafka::record::Record<'_> {
        let Encoded { key, value, headers, .. } = &self.encoded[nth];
        kafka::record::Record {
            partition: self.log.partition,
            offset: Offset(self.offsets[nth]),
            log_time_ms: LogTime(log_time(nth)),
            key: key.as_deref(),
            value: value.as_deref(),
            headers: headers.clone(),
            oversize: None,
        }
    }

    /// A reader of its records.
    pub fn reader(&self) -> RecordReader {
        let authority =
            Authority { topic: TOPIC.into(), keys: control_keys(), max_future_ms: ENDLESS };
        RecordReader::new(Decoder::new(&self.rules).unwrap(), true).allowing(authority)
    }
}

/// The records of a partition, and where they lie.
pub struct Draft {
    records: Vec<Record>,
    offsets: Vec<i64>,
    end: i64,
    starts: Vec<usize>,
}

impl Draft {
    fn new(mut records: Vec<Record>, most: usize, dice: &mut Dice) -> Self {
        records.truncate(most.max(1));
        let mut next = 0;
        let mut offset = || {
            next += dice.one_of(&[0, 0, 0, 0, 1, 2]);
            next += 1;
            next - 1
        };
        let offsets = records.iter().map(|_| offset()).collect();
        Self { records, offsets, end: offset() + dice.one_of(&[0, 0, 1]), starts: vec![0] }
    }

    /// Records at offsets without gaps, and the indices at which epochs begin.
    pub fn plain(records: Vec<Record>, starts: Vec<usize>) -> Self {
        let end = records.len() as i64;
        Self { records, offsets: (0..end).collect(), end, starts }
    }
}

/// The log timestamp of a record.
pub fn log_time(nth: usize) -> i64 {
    ORIGIN + nth as i64 * 1_000
}

pub fn control_keys() -> ControlKeys {
    ControlKeys::parse(KEYS).expect("a key")
}

fn encode((nth, record): (usize, &Record)) -> Encoded {
    let key = name(record.device()).into_bytes();
    let (value, headers, elements) = match record {
        Record::Samples(device, fixes) => {
            let texts = fixes.iter().zip(nth..).map(|(fix, bad)| json(*device, fix.as_ref(), bad));
            let texts: Vec<_> = texts.collect();
            let value = match &texts[..] {
                [alone] => alone.clone(),
                texts => format!("[{}]", texts.join(", ")),
            };
            let elements = texts.into_iter().map(String::into_bytes).collect();
            (value.into_bytes(), Headers::new(), elements)
        }
        Record::Forget(_, before_ms) => control(&key, *before_ms, true),
        Record::Forged(_, before_ms) => control(&key, *before_ms, false),
        Record::Hostile(device, hostile) => return hostile.encode(*device, nth),
    };
    Encoded { key: Some(key), value: Some(value), headers, elements }
}

/// A sample, or the nth way to be none.
pub fn json(device: Device, fix: Option<&Fix>, bad: usize) -> String {
    let name = name(device);
    let Some(fix) = fix else {
        return match bad % 3 {
            0 => format!("{{\"device_id\": \"{name}\"}}"),
            1 => format!("\"{name}\""),
            _ => format!(
                "{{\"device_id\": \"{name}\", \"time\": \"no time\", \"lat\": 1, \"lon\": 1}}"
            ),
        };
    };
    let Fix { time, place, driver, class } = fix;
    let (degrees, speed) = (f64::from(*place) / 10_000.0, f64::from(speed(fix)) / 100.0);
    let mut text = format!(
        "{{\"device_id\": \"{name}\", \"time\": {time}, \"lat\": {degrees:.4}, \"lon\": 13.405, \
         \"speed\": {speed:.2}"
    );
    if *class == Class::Separator {
        text.push_str(", \"ignition\": false");
    }
    if let Some(driver) = driver {
        write!(text, ", \"driver\": \"{driver}\"").expect("it is a string");
    }
    text + "}"
}

/// A forget, signed or not.
fn control(key: &[u8], before_ms: DeviceTime, is_signed: bool) -> (Vec<u8>, Headers, Vec<Vec<u8>>) {
    let body = format!("{{\"before\":{before_ms}}}").into_bytes();
    let mut headers = vec![(CONTROL_HEADER.into(), Some(b"forget".to_vec()))];
    if is_signed {
        let claim = Claim { topic: TOPIC, device: key, kind: b"forget", before_ms };
        let keys = control_keys();
        let signature = keys.signing().map(|by: &ControlKey| by.sign(&claim).into_bytes());
        headers.push((SIGNATURE_HEADER.into(), signature));
    }
    (body.clone(), headers, vec![body])
}

pub fn name(device: Device) -> String {
    char::from(device).to_string()
}

/// The speed of a fix, 0.01 m/s. Samples of a place have one.
fn speed(fix: &Fix) -> i32 {
    if fix.class == Class::Slow { fix.place % STOP_SPEED } else { STOP_SPEED + fix.place }
}

pub fn sample(fix: &Fix) -> Sample {
    let position = (fix.place * 1_000, 134_050_000);
    let none = [Reading::ABSENT; READINGS];
    let speed_cmps = Reading::new(Some(speed(fix)));
    let (class, ignition) = match fix.class {
        Class::Moving => (segment::Class::Moving, None),
        Class::Slow => (segment::Class::Slow, None),
        Class::Separator => (segment::Class::Separator, Some(false)),
    };
    let sample = Sample::new(DeviceTime(fix.time), position, none);
    Sample { speed_cmps, class, ignition, ..sample }
}
