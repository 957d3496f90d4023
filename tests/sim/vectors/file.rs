//! The committed vectors: `tests/vectors/v1.ndjson`, which `tests/vectors/README.md` describes.

use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tstar_core::codec::trip_row::TripRow;
use tstar_core::identity::TripId;
use tstar_core::{DeviceTime, Rules, codec};

use super::logs::{Log, Sent, VectorRules};
use super::{Decided, Taken};

/// Seeds of the random logs in the file.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=30;

/// The first line of a log.
#[derive(Serialize, Deserialize)]
struct Head {
    log: String,
    rules: VectorRules,
}

fn path() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    tests.join("vectors/v1.ndjson")
}

/// The logs of the file.
pub fn logs() -> Vec<Log> {
    let on = |minutes: &[i64]| minutes.iter().map(|minute| (*minute, None)).collect::<Vec<_>>();
    let named = [
        ("the worked example", on(&[10, 12, 0, 2, 6, 2])),
        ("the same samples, the latest first", on(&[12, 10, 6, 2, 0, 0])),
        // The merge at 5 retires 10, and the ignition off at 7 parts them again.
        ("a split revives an id", [on(&[10, 12, 0, 2, 5, 6]), vec![(7, Some(false))]].concat()),
    ];
    let named = named.into_iter().map(|(name, samples)| {
        let record = |(minute, ignition): (i64, Option<bool>)| Sent {
            device_id: "truck-17".into(),
            time_ms: 1_795_204_800_000 + minute * 60_000,
            lat: 52.5,
            lon: 13.4,
            ignition,
            ..Sent::default()
        };
        let records: Vec<_> = samples.into_iter().map(record).collect();
        let (name, rules, flushes) = (name.to_owned(), Rules::default(), vec![4, 6, records.len()]);
        Log { name, rules, records, flushes }
    });
    named.chain(SEEDS.map(Log::random)).collect()
}

/// The lines of a log and of what is decided about it.
pub fn lines(log: &Log, decided: &Decided) -> Vec<String> {
    let head = Head { log: log.name.clone(), rules: VectorRules::from(&log.rules) };
    let mut lines = vec![serde_json::to_value(head).unwrap()];
    let mut flushes = decided.flushes.iter();
    for (nth, (sent, effect)) in (1..).zip(log.records.iter().zip(&decided.effects)) {
        let mut record = serde_json::to_value(sent).unwrap();
        record["effect"] = json!(effect);
        lines.push(record);
        if log.flushes.contains(&nth) {
            let groups = flushes.next().unwrap().iter().map(group);
            lines.push(json!({ "changes": groups.collect::<Vec<_>>() }));
        }
    }
    lines.push(json!({ "segments": decided.rows.iter().map(segment).collect::<Vec<_>>() }));
    // As text: a number of many digits is not read as it was written.
    lines.iter().map(Value::to_string).collect()
}

fn text_id(device_id: &str, t_star_ms: DeviceTime) -> String {
    TripId::new(device_id, t_star_ms).unwrap().text().unwrap()
}

fn group(taken: &Taken) -> Value {
    let spans = taken.spans.iter().map(|span| json!([span.start_ms, span.end_ms, span.version]));
    let changes = taken.changes.iter().map(|(kind, retired, row)| {
        let absorbed = retired.iter().map(|at| text_id(&row.device_id, *at));
        json!({
            "id": text_id(&row.device_id, row.t_star_ms),
            "kind": row.kind.name(),
            "type": kind.name(),
            "absorbed": absorbed.collect::<Vec<_>>(),
        })
    });
    json!({
        "device_id": taken.device_id,
        "taken": spans.collect::<Vec<_>>(),
        "segments": changes.collect::<Vec<_>>(),
    })
}

/// A trip or stop: what is absent is left out.
fn segment(row: &TripRow) -> Value {
    let id = TripId::new(row.device_id.as_str(), row.t_star_ms).unwrap();
    let ids = row.ids.iter().map(|(at, history)| json!([at, history]));
    let message = codec::message(&row.path).unwrap();
    let fields = json!({
        "device_id": row.device_id,
        "id": id.text().unwrap(),
        "key": id.key_text(),
        "uuid": id.uuid().ok().map(|it| it.to_string()),
        "kind": row.kind.name(),
        "start_ms": row.start_ms,
        "end_ms": row.end_ms,
        "samples": row.samples,
        "version": row.version,
        "ids": ids.collect::<Vec<_>>(),
        "moving_ms": row.moving_ms,
        "idle_ms": row.idle_ms,
        "parked_ms": row.parked_ms,
        "distance_m": row.distance_m,
        "max_speed_mps": row.max_speed_mps,
        "start": [row.start_lat, row.start_lon],
        "end": [row.end_lat, row.end_lon],
        "bbox": [row.min_lon, row.min_lat, row.max_lon, row.max_lat],
        "driver": row.driver,
        "driver_ms": row.driver_ms,
        "jumps": row.jumps,
        "jump_s": row.jump_s,
        "path": BASE64.encode(&message),
    });
    let Value::Object(fields) = fields else { unreachable!("it is an object") };
    Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

/// Compares lines with the file, or writes it.
pub fn assert_committed(lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    if std::env::var_os("TSTAR_WRITE_VECTORS").is_some() {
        std::fs::write(path(), &text).unwrap();
    }
    let committed = std::fs::read_to_string(path()).unwrap();
    for (nth, (line, committed)) in (1..).zip(text.lines().zip(committed.lines())) {
        assert_eq!(line, committed, "line {nth}; TSTAR_WRITE_VECTORS=1 writes the file again");
    }
    assert_eq!(text.len(), committed.len(), "TSTAR_WRITE_VECTORS=1 writes the file again");
}

/// The logs of the committed file, with their lines.
pub fn read() -> Vec<(Log, Vec<String>)> {
    let text = std::fs::read_to_string(path()).unwrap();
    let mut all: Vec<(Log, Vec<String>)> = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if value.get("log").is_some() {
            let head: Head = serde_json::from_value(value).unwrap();
            let (records, flushes) = (Vec::new(), Vec::new());
            let rules = head.rules.rules();
            all.push((Log { name: head.log, rules, records, flushes }, vec![line.to_owned()]));
            continue;
        }
        let (log, lines) = all.last_mut().unwrap();
        if value.get("changes").is_some() {
            log.flushes.push(log.records.len());
        } else if value.get("segments").is_none() {
            let mut record: Map<String, Value> = value.as_object().unwrap().clone();
            record.remove("effect");
            log.records.push(serde_json::from_value(Value::Object(record)).unwrap());
        }
        lines.push(line.to_owned());
    }
    all
}
