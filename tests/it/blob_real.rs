//! The size of path blobs of real drives.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use chrono::DateTime;
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use tstar::internals::codec;
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::timeline::{Path, RawSample, Sample};

use crate::support::data;

fn sample(line: &str) -> (String, Sample) {
    let value: Value = serde_json::from_str(line).unwrap();
    let number = |name: &str| value[name].as_f64();
    let time = DateTime::parse_from_rfc3339(value["time"].as_str().unwrap()).unwrap();
    let stated = RawSample {
        time_ms: DeviceTime(time.timestamp_millis()),
        lat: number("lat").unwrap(),
        lon: number("lon").unwrap(),
        speed_mps: number("speed"),
        heading_deg: number("heading"),
        ..RawSample::default()
    };
    (value["device_id"].as_str().unwrap().to_owned(), Sample::quantised(&stated).unwrap())
}

/// The runs of each device, split where more than 300 s lie between samples. Each sample has the
/// version of its line.
fn runs(file: PathBuf) -> Vec<Vec<Sample>> {
    let mut devices: BTreeMap<String, Vec<Vec<Sample>>> = BTreeMap::new();
    let lines = BufReader::new(MultiGzDecoder::new(std::fs::File::open(file).unwrap())).lines();
    for (nth, line) in (0..).zip(lines) {
        let (device_id, sample) = sample(&line.unwrap());
        let sample = Sample { version: Version(2 * nth), ..sample };
        let runs = devices.entry(device_id).or_default();
        match runs.last_mut() {
            Some(run) if sample.time_ms == run.last().unwrap().time_ms => {}
            Some(run) if sample.time_ms - run.last().unwrap().time_ms <= 300_000 => {
                run.push(sample);
            }
            _ => runs.push(vec![sample]),
        }
    }
    devices.into_values().flatten().collect()
}

/// Bytes and points of the paths of runs.
fn size(runs: &[Vec<Sample>]) -> (usize, usize) {
    let (mut bytes, mut points) = (0, 0);
    for run in runs {
        let path = Path::from_sorted(run.iter().copied()).unwrap();
        let blob = codec::encode(&path);
        assert!(codec::decode(&blob).unwrap().iter().eq(run.iter().copied()));
        bytes += blob.len();
        points += run.len();
    }
    (bytes, points)
}

/// Prints and returns the bytes a point, and those without versions.
fn bytes_a_point(runs: &[Vec<Sample>]) -> (f64, f64) {
    let unversioned = |sample: &Sample| Sample { version: Version(0), ..*sample };
    let plain: Vec<Vec<_>> = runs.iter().map(|run| run.iter().map(unversioned).collect()).collect();
    let [(bytes, points), (bytes_without, _)] = [size(runs), size(&plain)];
    let (each, without) = (bytes as f64 / points as f64, bytes_without as f64 / points as f64);
    println!(
        "{bytes} bytes, {points} points, {} runs: {each:.3} bytes a point, {without:.3} without versions",
        runs.len()
    );
    (each, without)
}

#[test]
fn real_cars_take_at_most_four_bytes_a_point() {
    let runs = runs(data("ndsbr-cars.ndjson.gz"));
    let both = |s: &&Sample| s.speed_cmps.get().is_some() && s.heading_ddeg.get().is_some();
    let with_both: usize = runs.iter().map(|run| run.iter().filter(both).count()).sum();
    assert_eq!((runs.len(), size(&runs).1, with_both), (9, 18_012, 14_724));
    let (each, _) = bytes_a_point(&runs);
    assert!(each <= 4.0, "{each} bytes a point");
}

#[test]
fn positions_in_the_log_of_real_buses_take_a_quarter_of_the_rest() {
    let runs = runs(data("capmetro-buses.ndjson.gz"));
    let (each, without) = bytes_a_point(&runs);
    assert!(each <= 1.25 * without, "{each} bytes a point");
}
