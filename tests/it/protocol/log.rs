//! The logs of a schedule, one per partition: records of one device each, some with a bad sample,
//! some that forget; and their rules and epochs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tstar::internals::kafka;
use tstar::internals::kafka::control::{Authority, CONTROL_HEADER, SIGNATURE_HEADER};
use tstar::internals::kafka::record::{RecordContent, RecordReader};
use tstar::internals::model::control::{Claim, ControlKey, ControlKeys};
use tstar::internals::model::epoch::{Epoch, Log, Versions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::reading::ReadingSet;
use tstar::internals::model::reason::DeadReason;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset, Version};
use tstar::internals::source::{Batch, DecodedSample, Decoder, Entry, NoSample, SampleError};
use tstar::internals::timeline::{DAY_MS, READINGS, Reading, Sample};

use super::world::{Device, Dice};
use crate::model::Fix;

pub const HOUR: i64 = 3_600_000;
/// A midnight: times are whole hours from here, over [`DAYS`].
pub const ORIGIN: i64 = 20_000 * DAY_MS;
pub const DAYS: i64 = 3;
pub const PARTITION: i32 = 7;
/// Another partition, and a device that occurs in both.
pub const OTHER: i32 = 3;
pub const CONTESTED: Device = b'c';
const TOPIC: &str = "samples";
const KEYS: &str = "ops:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const ENDLESS: i64 = 1_000 * DAY_MS;

#[derive(Clone, Debug)]
pub enum Record {
    /// `None` is a sample that cannot be read.
    Samples(Device, Vec<Option<Fix>>),
    Forget(Device, DeviceTime),
    /// A forget without a signature.
    Forged(Device, DeviceTime),
}

impl Record {
    fn device(&self) -> Device {
        let (Self::Samples(device, _) | Self::Forget(device, _) | Self::Forged(device, _)) = self;
        *device
    }
}

/// The log of one partition.
#[derive(Clone, Debug)]
pub struct Script {
    pub records: Vec<Record>,
    /// The devices of its records.
    pub devices: BTreeSet<Device>,
    pub rules: Rules,
    pub log: Log,
    /// The first offset of each epoch.
    pub starts: Vec<i64>,
}

/// The features of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub limits: bool,
    pub forgets: bool,
    pub epochs: bool,
    /// There are two partitions, and both have records of a device.
    pub contested: bool,
}

pub fn hour(hour: i64) -> i64 {
    ORIGIN + hour * HOUR
}

/// Random records of these devices, most of them near the hour `middle`.
fn records(dice: &mut Dice, kind: Kind, devices: &[Device], middle: i64) -> Vec<Record> {
    let when = |dice: &mut Dice| {
        let near = dice.percent(85);
        hour(if near { middle + dice.between(0, 20) } else { dice.between(0, DAYS * 24 - 1) })
    };
    let mut records = Vec::new();
    for nth in 0..dice.between(3, 22) as i32 {
        let device = dice.one_of(devices);
        if kind.forgets && dice.percent(15) {
            let before_ms = DeviceTime(when(dice));
            let is_forged = dice.percent(20);
            let forget = if is_forged { Record::Forged } else { Record::Forget };
            records.push(forget(device, before_ms));
            continue;
        }
        let mut fixes = Vec::new();
        for element in 0..dice.one_of(&[1, 1, 1, 2, 3]) {
            let driver = dice.one_of(&[None, None, None, Some("ann"), Some("bob")]);
            let fix = Fix { time: when(dice), place: 10 * nth + element, driver };
            fixes.push((!dice.percent(5)).then_some(fix));
        }
        records.push(Record::Samples(device, fixes));
    }
    records
}

impl Script {
    /// The logs of the partitions of a schedule: [`PARTITION`], then [`OTHER`] if there are two.
    pub fn random(dice: &mut Dice, kind: Kind) -> Vec<Self> {
        let middle = dice.one_of(&[24, 48]) - dice.between(3, 17);
        let devices: &[&[Device]] = match (kind.contested, dice.percent(70)) {
            (true, _) => &[&[b'a', CONTESTED], &[b'b', CONTESTED, CONTESTED]],
            (false, true) => &[b"a"],
            (false, false) => &[b"ab"],
        };
        let logs: Vec<_> = devices.iter().map(|of| records(dice, kind, of, middle)).collect();
        let (hours, samples) = if kind.limits {
            (dice.one_of(&[2, 4, 6, 9, 10_000]), dice.one_of(&[2, 3, 5, 100]))
        } else {
            (10_000, 100)
        };
        let mut start = |records: Vec<Record>| {
            let second = kind.epochs.then(|| dice.below(records.len()));
            (records, [0].into_iter().chain(second).collect())
        };
        let logs = logs.into_iter().map(&mut start).collect();
        Self::of_partitions(logs, hours * HOUR, samples)
    }

    /// With the offsets at which the epochs of each begin.
    pub fn of_partitions(
        logs: Vec<(Vec<Record>, Vec<usize>)>,
        max_duration_ms: i64,
        max_samples: u32,
    ) -> Vec<Self> {
        let rules = Rules {
            max_gap_ms: 3 * HOUR,
            max_duration_ms: max_duration_ms.min(ENDLESS),
            max_samples,
            max_future_ms: ENDLESS,
            ..Rules::default()
        };
        let starts = |nth: usize| {
            let of =
                |((_, starts), partition): (&(_, Vec<usize>), i32)| (partition, starts[nth] as i64);
            logs.iter().zip([PARTITION, OTHER]).map(of).collect::<BTreeMap<_, _>>()
        };
        let epoch = |nth: usize| Epoch {
            epoch: nth as i32 + 1,
            topic: TOPIC.into(),
            partitions: 8,
            start_offsets: starts(nth),
            base: Version((nth as i64 + 1) * 1_000_000),
            rules: rules.clone(),
            partitioner: Some(Partitioner::None),
        };
        let epochs: Vec<_> = (0..logs[0].1.len()).map(epoch).collect();
        let script = |((records, starts), partition): ((Vec<Record>, Vec<usize>), i32)| {
            let versions = Versions::of_partition(&epochs, partition);
            let starts = starts.into_iter().map(|start| start as i64).collect();
            let (log, rules) = (Log { partition, versions }, rules.clone());
            let devices = records.iter().map(Record::device).collect();
            Self { records, devices, rules, log, starts }
        };
        logs.into_iter().zip([PARTITION, OTHER]).map(script).collect()
    }

    /// The number of the epoch of a record.
    pub fn epoch_of(&self, offset: i64) -> i32 {
        self.log.versions.division_of(Offset(offset)).expect("it is a topic").epoch
    }

    pub fn len(&self) -> i64 {
        self.records.len() as i64
    }

    /// The end offset of the first `epochs` epochs.
    pub fn upto(&self, epochs: usize) -> i64 {
        self.starts.get(epochs).copied().unwrap_or(self.len())
    }

    /// At most `most` records from an offset on; a forget comes alone. `None` at the end.
    pub fn batch(&self, offset: i64, most: usize) -> Option<Batch> {
        let rest = &self.records[usize::try_from(offset).unwrap()..];
        let mut batch = Batch { origin: Arc::from("samples"), ..Batch::default() };
        for (record, offset) in rest.iter().zip(offset..).take(most) {
            match record {
                Record::Samples(device, fixes) => put(&mut batch, offset, *device, fixes),
                Record::Forget(device, before_ms) if batch.entries.is_empty() => {
                    self.control(&mut batch, offset, (*device, *before_ms), true);
                    break;
                }
                Record::Forget(..) => break,
                Record::Forged(device, before_ms) => {
                    self.control(&mut batch, offset, (*device, *before_ms), false);
                }
            }
        }
        (!batch.entries.is_empty()).then_some(batch)
    }

    /// Adds what a reader makes of a forget, signed or not.
    fn control(
        &self,
        batch: &mut Batch,
        offset: i64,
        forget: (Device, DeviceTime),
        is_signed: bool,
    ) {
        let (key, body) = (name(forget.0), format!("{{\"before\":{}}}", forget.1));
        let keys = ControlKeys::parse(KEYS).expect("a key");
        let mut headers = vec![(CONTROL_HEADER.into(), Some(b"forget".to_vec()))];
        if is_signed {
            let (topic, kind) = (TOPIC, &b"forget"[..]);
            let claim = Claim { topic, device: key.as_bytes(), kind, before_ms: forget.1 };
            let signature = keys.signing().map(|by: &ControlKey| by.sign(&claim).into_bytes());
            headers.push((SIGNATURE_HEADER.into(), signature));
        }
        let record = kafka::record::Record {
            partition: self.log.partition,
            offset: Offset(offset),
            log_time_ms: LogTime(ORIGIN),
            key: Some(key.as_bytes()),
            value: Some(body.as_bytes()),
            headers,
        };
        let authority = Authority { topic: TOPIC.into(), keys, max_future_ms: ENDLESS };
        let reader = RecordReader::new(Decoder::new(&self.rules).unwrap(), true);
        if let RecordContent::Control(control) = reader.allowing(authority).read(&record, batch) {
            batch.control = Some(control);
            // Its dead letter.
            put_entry(batch, offset, None, Err(DeadReason::NotAuthorised));
        }
    }
}

pub fn name(device: Device) -> String {
    char::from(device).to_string()
}

pub fn sample(fix: &Fix) -> Sample {
    let position = (fix.place * 1_000, 134_050_000);
    let none = [Reading::ABSENT; READINGS];
    let speed_cmps = Reading::new(Some(fix.place));
    Sample { speed_cmps, ..Sample::new(DeviceTime(fix.time), position, none) }
}

fn put(batch: &mut Batch, offset: i64, device: Device, fixes: &[Option<Fix>]) {
    let write = |batch: &mut Batch, text: &str| {
        let start = batch.text.len() as u32;
        batch.text.push_str(text);
        start..batch.text.len() as u32
    };
    let device = write(batch, &name(device));
    for (fix, element) in fixes.iter().zip(0..) {
        let content = match fix {
            Some(fix) => Ok(DecodedSample {
                device: device.clone(),
                driver: fix.driver.map(|driver| write(batch, driver)),
                ignition: None,
                sample: sample(fix),
                unknown: ReadingSet::default(),
            }),
            None => Err(DeadReason::BadJson),
        };
        put_entry(batch, offset, (fixes.len() > 1).then_some(element), content);
    }
}

fn put_entry(
    batch: &mut Batch,
    offset: i64,
    element: Option<u32>,
    content: Result<DecodedSample, DeadReason>,
) {
    let error = |reason| NoSample::Dead(Box::new(SampleError::new(reason, "planted")));
    let content = content.map_err(error);
    let (line, log_time_ms, again) = (0, ORIGIN, false);
    let (raw, key) = (0..0, None);
    let entry = Entry {
        offset: Offset(offset),
        element,
        line,
        log_time_ms: LogTime(log_time_ms),
        again,
        raw,
        key,
        content,
    };
    batch.entries.push(entry);
}
