//! Seeded logs: samples of a few devices in the order in which they arrive, and the rules.

use serde::{Deserialize, Serialize};
use tstar_core::{DeviceTime, LogTime, RawSample, Record, Rules};

use crate::support::Dice;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// 2026-11-20T00:00:00Z.
const START: i64 = 1_795_132_800_000;

/// Ids of devices: those that forms of ids have to escape, too.
const DEVICES: [&str; 12] = [
    "truck-17",
    "a~b",
    "..",
    ".",
    "Zoë/1",
    "日本 7",
    "\u{1}\u{7f}",
    "%7e",
    "UPPER_lower.0-9~",
    " lead",
    "0",
    "-",
];

/// The longest id.
const LONGEST: usize = 256;

/// The rules that decide segments and their columns; the others decide how records are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorRules {
    pub max_gap_ms: i64,
    pub min_stop_ms: Option<i64>,
    pub stop_speed_cmps: i32,
    pub max_samples: u32,
    pub min_time_ms: DeviceTime,
    pub max_future_ms: i64,
    pub max_accuracy_dm: Option<i32>,
    pub drop_zero_position: bool,
    pub max_leg_speed_cmps: Option<i32>,
}

impl From<&Rules> for VectorRules {
    fn from(rules: &Rules) -> Self {
        Self {
            max_gap_ms: rules.max_gap_ms,
            min_stop_ms: rules.min_stop_ms,
            stop_speed_cmps: rules.stop_speed_cmps,
            max_samples: rules.max_samples,
            min_time_ms: rules.min_time_ms,
            max_future_ms: rules.max_future_ms,
            max_accuracy_dm: rules.max_accuracy_dm,
            drop_zero_position: rules.drop_zero_position,
            max_leg_speed_cmps: rules.max_leg_speed_cmps,
        }
    }
}

impl VectorRules {
    pub fn rules(&self) -> Rules {
        Rules {
            max_gap_ms: self.max_gap_ms,
            min_stop_ms: self.min_stop_ms,
            stop_speed_cmps: self.stop_speed_cmps,
            max_samples: self.max_samples,
            min_time_ms: self.min_time_ms,
            max_future_ms: self.max_future_ms,
            max_accuracy_dm: self.max_accuracy_dm,
            drop_zero_position: self.drop_zero_position,
            max_leg_speed_cmps: self.max_leg_speed_cmps,
            ..Rules::default()
        }
    }
}

/// A sample as a device sent it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    pub device_id: String,
    pub time_ms: i64,
    pub lat: f64,
    pub lon: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading_deg: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altitude_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// When the log received it; none: no device time is too far in the future.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_time_ms: Option<i64>,
}

impl Sent {
    /// The record, for the core.
    pub fn record(&self) -> Record<'_> {
        let sample = RawSample {
            time_ms: DeviceTime(self.time_ms),
            lat: self.lat,
            lon: self.lon,
            speed_mps: self.speed_mps,
            heading_deg: self.heading_deg,
            altitude_m: self.altitude_m,
            accuracy_m: self.accuracy_m,
            ignition: self.ignition,
        };
        Record {
            driver: self.driver.as_deref(),
            log_time_ms: self.log_time_ms.map(LogTime),
            ..Record::new(&self.device_id, sample)
        }
    }

    /// The record as a line of a file, for the daemon.
    pub fn line(&self) -> Vec<u8> {
        let line = serde_json::json!({
            "device_id": self.device_id,
            "time": self.time_ms,
            "lat": self.lat,
            "lon": self.lon,
            "speed": self.speed_mps,
            "heading": self.heading_deg,
            "altitude": self.altitude_m,
            "accuracy": self.accuracy_m,
            "ignition": self.ignition,
            "driver": self.driver,
        });
        line.to_string().into_bytes()
    }
}

/// Records, and after which of them changes are taken: at the end at least.
#[derive(Clone, Debug)]
pub struct Log {
    pub name: String,
    pub rules: Rules,
    pub records: Vec<Sent>,
    pub flushes: Vec<usize>,
}

impl Log {
    /// The log of a seed.
    pub fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let dice = &mut dice;
        let (name, rules, records) = match dice.below(4) {
            0 => ("drive", drive_rules(dice), drives(dice)),
            _ => grid(dice),
        };
        let mut flushes = vec![records.len()];
        flushes.extend((0..dice.below(4)).map(|_| dice.below(records.len())));
        flushes.sort_unstable();
        flushes.dedup();
        Self { name: format!("{name} {seed}"), rules, records, flushes }
    }
}

fn device(dice: &mut Dice) -> String {
    match dice.below(40) {
        0 => "é".repeat(LONGEST / 2),
        1 => "x".repeat(LONGEST),
        _ => dice.one_of(&DEVICES).to_owned(),
    }
}

/// Few devices and times on a grid, of which every link, class and midnight may decide.
fn grid(dice: &mut Dice) -> (&'static str, Rules, Vec<Sent>) {
    // From a log within a second to one whose trips last for days, some of which fill days.
    let fills = dice.below(8) == 0;
    let unit = dice.one_of(&[1, MINUTE, HOUR, HOUR - 1]);
    let (unit, gap) = if fills { (HOUR, 6) } else { (unit, 1 + dice.below(6) as i64) };
    let origin = dice.one_of(&[0, DAY - 10 * unit, -20 * unit, 12 * HOUR, 365 * DAY]);
    let is_limited = !fills && dice.below(3) == 0;
    let rules = Rules {
        max_gap_ms: unit * gap,
        min_stop_ms: dice.one_of(&[None, Some(unit), Some(3 * unit)]),
        stop_speed_cmps: dice.one_of(&[50, 50, 0, 300]),
        max_samples: if is_limited { 1 + dice.below(9) as u32 } else { 100_000 },
        max_leg_speed_cmps: dice.one_of(&[None, Some(500)]),
        drop_zero_position: dice.percent(50),
        ..Rules::default()
    };
    let devices: Vec<String> = (0..=dice.below(2)).map(|_| device(dice)).collect();
    let units = 3 + dice.below(if fills { 50 } else { 100 });
    let is_plain = dice.below(4) == 0;
    let count = 1 + dice.below(40);
    let records = (0..count).map(|_| {
        let jitter = dice.one_of(&[0, 0, 0, 1, -1]);
        let place = dice.between(0, 2) as f64 * 1e-7;
        let class = if is_plain { 0 } else { dice.below(5) };
        Sent {
            device_id: devices[dice.below(devices.len())].clone(),
            time_ms: START + origin + unit * dice.below(units) as i64 + jitter,
            lat: place,
            lon: dice.one_of(&[0.0, 0.0, 13.4]),
            speed_mps: match class {
                3 => Some(dice.one_of(&[0.0, 0.49])),
                2 => Some(dice.one_of(&[0.5, 2.999, 30.0])),
                _ => None,
            },
            ignition: match class {
                4 => Some(false),
                1 => Some(true),
                _ => None,
            },
            driver: dice.one_of(&[None, None, Some("ann"), Some("bob")]).map(str::to_owned),
            ..Sent::default()
        }
    });
    ("grid", rules, records.collect())
}

fn drive_rules(dice: &mut Dice) -> Rules {
    Rules {
        max_gap_ms: dice.one_of(&[MINUTE, 5 * MINUTE, 10 * MINUTE, HOUR]),
        min_stop_ms: dice.one_of(&[None, Some(2 * MINUTE), Some(5 * MINUTE), Some(HOUR)]),
        stop_speed_cmps: dice.one_of(&[50, 150]),
        max_samples: dice.one_of(&[100_000, 100_000, 40]),
        max_accuracy_dm: dice.one_of(&[None, Some(500)]),
        max_leg_speed_cmps: dice.one_of(&[None, Some(6_000)]),
        max_future_ms: dice.one_of(&[DAY, MINUTE]),
        ..Rules::default()
    }
}

/// A vehicle that drives and stands, and how its samples arrive.
fn drives(dice: &mut Dice) -> Vec<Sent> {
    let device_id = device(dice);
    let names = ["ann", "bob", "Zoë \"Z\"", ""];
    let mut time = START + dice.between(18, 25) * HOUR + dice.between(0, HOUR);
    let (mut lat, mut lon) = (dice.between(-89, 89) as f64, dice.one_of(&[13.4, 179.999, -180.0]));
    let mut sent: Vec<Sent> = Vec::new();
    for _ in 0..=dice.below(5) {
        let driver = dice.one_of(&[None, Some(0), Some(1), Some(2), Some(3)]);
        let driver = driver.map(|nth: usize| names[nth].to_owned());
        let (stands, step) = (dice.percent(40), dice.one_of(&[10_000, 30_000, 61_000]));
        let is_off = stands && dice.percent(50);
        for _ in 0..=dice.below(15) {
            time += step + dice.one_of(&[0, 0, 1, 400]);
            if !stands {
                lat = rounded(lat + dice.between(-90, 90) as f64 * 4e-5).clamp(-90.0, 90.0);
                lon = rounded(wrapped(lon + dice.between(0, 90) as f64 * 4.333_3e-5));
            }
            let speed = if stands { 0.1 } else { 13.888_9 };
            sent.push(Sent {
                device_id: device_id.clone(),
                time_ms: time,
                lat,
                lon,
                speed_mps: dice.percent(80).then_some(speed),
                heading_deg: dice
                    .percent(50)
                    .then(|| dice.one_of(&[0.0, 359.96, 360.0, -1.0, 90.04])),
                altitude_m: dice.percent(30).then(|| dice.one_of(&[-1.0, 34.56, -0.05, 99_999.9])),
                accuracy_m: dice.percent(30).then(|| dice.one_of(&[3.0, 50.0, 50.1, -1.0])),
                ignition: dice.percent(60).then_some(!is_off),
                driver: driver.clone(),
                log_time_ms: None,
            });
        }
        time += dice.one_of(&[0, 3 * MINUTE, 8 * MINUTE, 2 * HOUR]);
    }
    spoil(dice, &mut sent);
    arriving(dice, sent)
}

/// A longitude of -180 to 180.
fn wrapped(lon: f64) -> f64 {
    if lon > 180.0 { lon - 360.0 } else { lon }
}

/// With nine decimals, which every reader of JSON reads alike.
fn rounded(degrees: f64) -> f64 {
    (degrees * 1e9).round() / 1e9
}

/// Some samples that are refused or dropped, and some that are sent twice.
fn spoil(dice: &mut Dice, sent: &mut Vec<Sent>) {
    for _ in 0..dice.below(6) {
        let nth = dice.below(sent.len());
        let mut copy = sent[nth].clone();
        match dice.below(9) {
            0 => copy.lat = dice.one_of(&[90.000_000_1, -91.0, 1e300]),
            1 => copy.lon = dice.one_of(&[180.1, -180.000_001]),
            2 => (copy.lat, copy.lon) = (0.0, -0.0),
            3 => copy.time_ms = dice.one_of(&[0, 946_684_799_999, 253_402_300_800_000]),
            4 => copy.speed_mps = Some(dice.one_of(&[-0.5, 1000.1])),
            5 => copy.device_id = dice.one_of(&["", "a\0b"]).to_owned(),
            6 => copy.driver = Some("n".repeat(LONGEST + 1)),
            7 => copy.lat = rounded(copy.lat + 1e-6).min(90.0),
            _ => {}
        }
        sent.insert(nth, copy);
    }
}

/// Samples in an order of arrival: late blocks, bursts that are newest first, late single ones.
fn arriving(dice: &mut Dice, mut sent: Vec<Sent>) -> Vec<Sent> {
    for _ in 0..dice.below(5) {
        let from = dice.below(sent.len());
        let upto = (from + 1 + dice.below(20)).min(sent.len());
        match dice.below(3) {
            0 => sent[from..upto].reverse(),
            1 => {
                let late: Vec<Sent> = sent.drain(from..upto).collect();
                let at = if sent.is_empty() { 0 } else { from.min(sent.len() - 1) };
                let at = at + dice.below(sent.len() - at + 1);
                sent.splice(at..at, late);
            }
            _ => {
                let one = sent.remove(from);
                let at = dice.below(sent.len() + 1);
                sent.insert(at, one);
            }
        }
    }
    if dice.percent(30) {
        let start = sent.iter().map(|it| it.time_ms).min().unwrap_or(START);
        for (nth, it) in (0..).zip(&mut sent) {
            it.log_time_ms = Some(start + nth * 30_000 + dice.one_of(&[0, 0, 0, -7 * HOUR]));
        }
    }
    sent
}
