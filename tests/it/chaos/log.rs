//! The log of a schedule: a fleet with bad samples, with separators, some of its samples in arrays,
//! and erasures in between.

use std::collections::BTreeMap;

use serde_json::Value;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::time::format_time;

use super::expected::{Read, samples};
use crate::cli::Folder;
use crate::control_keys;
use crate::support::Dice;
use crate::topic::{Topic, records};

/// Erasures in a log.
const FORGETS: usize = 12;

/// Of 100 samples whose device has no array open, how many open one.
const ARRAYS: usize = 2;

/// Of 100 samples, how many have the ignition off: late ones split trips.
const SEPARATORS: usize = 2;

/// Devices, and their samples.
pub struct Size {
    pub devices: u32,
    pub samples: usize,
}

/// The records, in arrival order.
pub fn mixed(folder: &Folder, topic: &Topic, size: Size, seed: u64) -> Vec<ProducerRecord> {
    let Size { devices, samples } = size;
    let words = format!(
        "simulate --mix 46,34,19,1 --devices {devices} --samples {samples} --seed {seed} --bad 0.01"
    );
    let lines = records(&folder.run(&words).ends(0).stdout, "no-device");
    assert_eq!(lines.len(), samples);
    let mut dice = Dice::new(seed);
    let lines = lines.into_iter().map(|line| with_ignition(line, &mut dice)).collect();
    let arrays = in_arrays(lines, &mut dice);
    with_forgets(topic, arrays, &mut dice)
}

/// Some samples get the ignition, which is off.
fn with_ignition(line: ProducerRecord, dice: &mut Dice) -> ProducerRecord {
    if !dice.percent(SEPARATORS) {
        return line;
    }
    match serde_json::from_slice::<Value>(&line.value) {
        Ok(Value::Object(mut sample)) => {
            sample.insert("ignition".to_owned(), false.into());
            ProducerRecord { value: Value::Object(sample).to_string().into_bytes(), ..line }
        }
        _ => line,
    }
}

/// Puts some samples of a device into one record, which comes where the last of them would.
fn in_arrays(lines: Vec<ProducerRecord>, dice: &mut Dice) -> Vec<ProducerRecord> {
    let mut open: BTreeMap<Vec<u8>, (usize, Vec<Value>)> = BTreeMap::new();
    let mut records = Vec::new();
    let array = |key: Vec<u8>, samples: Vec<Value>| ProducerRecord {
        key: Some(key),
        value: Value::Array(samples).to_string().into_bytes(),
        ..ProducerRecord::default()
    };
    for line in lines {
        let sample = serde_json::from_slice(&line.value).ok();
        let key = line.key.clone().unwrap();
        let is_own = |sample: &Value| sample["device_id"].as_str().map(str::as_bytes) == Some(&key);
        let Some(sample) = sample.filter(is_own) else {
            records.push(line);
            continue;
        };
        if !open.contains_key(&key) && !dice.percent(ARRAYS) {
            records.push(line);
            continue;
        }
        let fresh = || (2 + dice.below(4), Vec::new());
        let (length, samples) = open.entry(key.clone()).or_insert_with(fresh);
        samples.push(sample);
        if samples.len() == *length {
            let (_, samples) = open.remove(&key).unwrap();
            records.push(array(key, samples));
        }
    }
    records.extend(open.into_iter().map(|(key, (_, samples))| array(key, samples)));
    records
}

/// Inserts control records, each of which erases up to a time that its device has had.
fn with_forgets(topic: &Topic, lines: Vec<ProducerRecord>, dice: &mut Dice) -> Vec<ProducerRecord> {
    let at: Vec<_> = (0..FORGETS).map(|_| dice.below(lines.len() * 9 / 10)).collect();
    let mut times: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut records = Vec::new();
    for (nth, line) in lines.into_iter().enumerate() {
        for item in samples(&line.value) {
            if let Read::Sample { device, fix, .. } = item {
                times.entry(device).or_default().push(fix.time);
            }
        }
        records.push(line);
        for _ in at.iter().filter(|at| **at == nth) {
            let Some((device, times)) = times.iter().nth(dice.below(times.len().max(1))) else {
                continue;
            };
            // A late one, so that most erase a trip.
            let before = (0..3).map(|_| times[dice.below(times.len())]).max().unwrap();
            records.push(control_keys::forget(topic, device, &format_time(before)));
        }
    }
    records
}
