//! The log of a schedule: records of one device each, some with a bad sample, some that forget; the
//! rules and epochs it is read by.

use std::collections::BTreeMap;
use std::sync::Arc;

use tstar::epoch::{Epoch, Log, Versions};
use tstar::kafka;
use tstar::kafka::control::CONTROL_HEADER;
use tstar::kafka::record::RecordReader;
use tstar::partitioner::Partitioner;
use tstar::reason::DeadReason;
use tstar::rules::Rules;
use tstar::source::{Batch, Control, Decoded, Decoder, Entry, Fault};
use tstar::timeline::{DAY_MS, Reading, Sample};

use super::world::{Device, Dice};
use crate::model::Fix;

pub const HOUR: i64 = 3_600_000;
/// A midnight: times are whole hours from here, over [`DAYS`].
pub const ORIGIN: i64 = 20_000 * DAY_MS;
pub const DAYS: i64 = 3;
pub const PARTITION: i32 = 7;
/// Another partition, and a device that comes in both.
pub const OTHER: i32 = 3;
pub const CONTESTED: Device = b'c';
const ENDLESS: i64 = 1_000 * DAY_MS;

#[derive(Clone, Debug)]
pub enum Record {
    /// `None` is a sample that cannot be read.
    Samples(Device, Vec<Option<Fix>>),
    Forget(Device, i64),
    /// A forget that nobody signed.
    Forged(Device, i64),
}

#[derive(Clone, Debug)]
pub struct Script {
    pub records: Vec<Record>,
    pub rules: Rules,
    pub log: Log,
}

/// What a kind of schedule has.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub limits: bool,
    pub forgets: bool,
    pub epochs: bool,
    /// Another partition has records of a device, too, and may claim it first.
    pub contested: bool,
}

pub fn hour(hour: i64) -> i64 {
    ORIGIN + hour * HOUR
}

impl Script {
    pub fn random(dice: &mut Dice, kind: Kind) -> Self {
        let middle = dice.one_of(&[24, 48]) - dice.between(3, 17);
        let when = |dice: &mut Dice| {
            let near = dice.percent(85);
            hour(if near { middle + dice.between(0, 20) } else { dice.between(0, DAYS * 24 - 1) })
        };
        let devices: &[Device] = match (kind.contested, dice.percent(70)) {
            (true, _) => &[b'a', CONTESTED],
            (false, true) => b"a",
            (false, false) => b"ab",
        };
        let mut records = Vec::new();
        for nth in 0..dice.between(3, 22) as i32 {
            let device = dice.one_of(devices);
            if kind.forgets && device != CONTESTED && dice.percent(15) {
                let before_ms = when(dice);
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
        let (hours, samples) = if kind.limits {
            (dice.one_of(&[2, 4, 6, 9, 10_000]), dice.one_of(&[2, 3, 5, 100]))
        } else {
            (10_000, 100)
        };
        let starts: &[usize] = if kind.epochs { &[0, dice.below(records.len())] } else { &[0] };
        Self::new(records, hours * HOUR, samples, starts)
    }

    /// With the offsets at which its epochs begin.
    pub fn new(
        records: Vec<Record>,
        max_duration_ms: i64,
        max_samples: u32,
        starts: &[usize],
    ) -> Self {
        let rules = Rules {
            max_gap_ms: 3 * HOUR,
            max_duration_ms: max_duration_ms.min(ENDLESS),
            max_samples,
            max_future_ms: ENDLESS,
            ..Rules::default()
        };
        let epoch = |(&start, number): (&usize, i32)| Epoch {
            epoch: number,
            topic: "samples".into(),
            partitions: 8,
            start_offsets: BTreeMap::from([(PARTITION, start as i64)]),
            base: i64::from(number) * 1_000_000,
            rules: rules.clone(),
            partitioner: Some(Partitioner::None),
        };
        let epochs: Vec<_> = starts.iter().zip(1..).map(epoch).collect();
        let versions = Versions::of_partition(&epochs, PARTITION);
        Self { records, rules, log: Log { partition: PARTITION, versions } }
    }

    /// The number of the epoch of a record.
    pub fn epoch_of(&self, offset: i64) -> i32 {
        self.log.versions.division_of(offset).expect("it is a topic").epoch
    }

    pub fn len(&self) -> i64 {
        self.records.len() as i64
    }

    /// The records from an offset on, at most so many; a forget comes alone. `None` at the end.
    pub fn batch(&self, offset: i64, most: usize) -> Option<Batch> {
        let rest = &self.records[usize::try_from(offset).unwrap()..];
        let mut batch = Batch { origin: Arc::from("samples"), ..Batch::default() };
        for (record, offset) in rest.iter().zip(offset..).take(most) {
            match record {
                Record::Samples(device, fixes) => put(&mut batch, offset, *device, fixes),
                Record::Forget(device, before_ms) if batch.entries.is_empty() => {
                    let (device_id, before_ms) = (name(*device), *before_ms);
                    batch.control = Some(Control::Forget { offset, device_id, before_ms });
                    break;
                }
                Record::Forget(..) => break,
                Record::Forged(device, before_ms) => {
                    self.forge(&mut batch, offset, *device, *before_ms)
                }
            }
        }
        (!rest.is_empty()).then_some(batch)
    }
}

impl Script {
    /// Puts what a reader makes of a forget without a signature.
    fn forge(&self, batch: &mut Batch, offset: i64, device: Device, before_ms: i64) {
        let (key, body) = (name(device), format!("{{\"before\":{before_ms}}}"));
        let record = kafka::record::Record {
            partition: PARTITION,
            offset,
            log_time_ms: ORIGIN,
            key: Some(key.as_bytes()),
            value: Some(body.as_bytes()),
            headers: vec![(CONTROL_HEADER.into(), Some(b"forget".to_vec()))],
        };
        RecordReader::new(Decoder::new(&self.rules).unwrap(), true).read(&record, batch);
    }
}

pub fn name(device: Device) -> String {
    char::from(device).to_string()
}

pub fn sample(fix: &Fix) -> Sample {
    let none = Reading::ABSENT;
    Sample {
        time_ms: fix.time,
        lat_e7: fix.place * 1_000,
        lon_e7: 134_050_000,
        speed_cmps: Reading::new(Some(fix.place)),
        heading_ddeg: none,
        altitude_dm: none,
        accuracy_dm: none,
    }
}

fn put(batch: &mut Batch, offset: i64, device: Device, fixes: &[Option<Fix>]) {
    let mut write = |text: &str| {
        let start = batch.text.len() as u32;
        batch.text.push_str(text);
        start..batch.text.len() as u32
    };
    let device = write(&name(device));
    for (fix, element) in fixes.iter().zip(0..) {
        let content = match fix {
            Some(fix) => Ok(Decoded {
                device: device.clone(),
                driver: fix.driver.map(&mut write),
                ignition: None,
                sample: sample(fix),
            }),
            None => Err(Box::new(Fault::new(DeadReason::BadJson, "planted"))),
        };
        let element = (fixes.len() > 1).then_some(element);
        let (line, log_time_ms, again) = (0, ORIGIN, false);
        let (raw, key) = (0..0, None);
        let entry = Entry { offset, element, line, log_time_ms, again, raw, key, content };
        batch.entries.push(entry);
    }
}
