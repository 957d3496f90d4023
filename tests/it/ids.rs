//! Ids against another implementation of their description, `ids.py`. `tests/sim/random_ids.rs`
//! reads random ones back.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tstar::internals::identity::{AnyId, TripId, prefix};
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::model::time::format_time;

use crate::cli::Folder;
use crate::servers::skip;
use tstar_sim::counts;

/// The ids by the other implementation.
fn others(ids: &[(String, DeviceTime)]) -> Option<Vec<Value>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ids.py");
    let mut python = Command::new("python3");
    let spawned = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else { return skip("no python3 to compare ids with") };
    let lines: String = ids.iter().map(|id| format!("{}\n", json!(id))).collect();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let ran = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(ran.status.success(), "{}", ran.status);
    let output = String::from_utf8(ran.stdout).unwrap();
    Some(output.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// 0001-01-01T00:00:00Z, the start of Python's calendar.
const YEAR_1: i64 = -62_135_596_800_000;

/// Every kind of device id and time, and many random ones.
pub fn vectors() -> Vec<(String, DeviceTime)> {
    let devices =
        ["truck-17", "a~b", ".", "..", "a.b", "é", "日本", "🚚", " ", "\n", "%41", "x/../y", "~"];
    let long = "x".repeat(256);
    let times = [
        0,
        -1,
        1,
        1_795_210_680_123,
        (1 << 48) - 1,
        1 << 48,
        YEAR_1,
        253_402_300_799_999,
        253_402_300_800_000,
        i64::MIN,
        i64::MAX,
    ];
    let mut ids = Vec::new();
    for device in devices.into_iter().chain([long.as_str()]) {
        ids.extend(times.map(|time_ms| (device.to_owned(), DeviceTime(time_ms))));
    }
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..3000 {
        let length = random.usize(1..40);
        let device = (0..length).map(|_| random.char('\u{1}'..='\u{10ffff}')).collect();
        ids.push((device, DeviceTime(random.i64(YEAR_1..=253_402_300_799_999))));
    }
    ids
}

/// How many ids the other implementation writes alike in every form: all of them.
#[track_caller]
pub fn assert_alike(ids: &[(String, DeviceTime)], others: &[Value]) -> u64 {
    assert_eq!(others.len(), ids.len());
    let mut forms = 0;
    for ((device, t_star_ms), other) in ids.iter().zip(others) {
        let id = TripId::new(device.as_str(), *t_star_ms).unwrap();
        let uuid = id.uuid().map(|uuid| uuid.to_string());
        let own = [("text", id.text().ok()), ("bytes", Some(id.key_text())), ("uuid", uuid.ok())];
        for (form, written) in own {
            assert_eq!(json!(written), other[form], "{form} of {device:?} at {t_star_ms}");
            let Some(written) = written else { continue };
            forms += 1;
            match AnyId::parse(&written).unwrap() {
                AnyId::Trip(read) => assert_eq!(read, id, "{written}"),
                AnyId::Uuid(read) => assert!(read.matches(device, *t_star_ms), "{written}"),
            }
        }
        if id.text().is_ok() {
            let day = &format_time(t_star_ms.ms())[..10];
            assert_eq!(json!(prefix(device, day).unwrap()), other["prefix"], "{device:?} on {day}");
        }
    }
    assert!(forms > 7000, "{forms} forms");
    ids.len() as u64
}

#[test]
fn every_form_is_as_another_implementation_writes_it() {
    let vectors = vectors();
    let Some(others) = others(&vectors) else { return };
    counts::SPELLINGS.print(assert_alike(&vectors, &others));
}

#[test]
fn the_command_line_writes_them_too() {
    let ids: Vec<_> = ["truck-17", "a~b", "..", "日本"]
        .map(|device| (device.to_owned(), DeviceTime(1_795_210_680_123)))
        .into();
    let Some(others) = others(&ids) else { return };
    let folder = Folder::new();
    for ((device, t_star_ms), other) in ids.iter().zip(&others) {
        for form in ["text", "bytes", "uuid"] {
            let words = format!("id encode {device} {t_star_ms} --form {form}");
            assert_eq!(folder.text(&words).trim_end(), other[form], "{words}");
        }
        let words = format!("id prefix {device} 2026-11-20");
        assert_eq!(folder.text(&words).trim_end(), other["prefix"], "{words}");
    }
}
