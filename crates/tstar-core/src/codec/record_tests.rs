//! What a path keeps of the record of each sample: version, class, ignition, driver.

use prost::Message as _;

use super::tests::{Case, HEAD, Published, plain, sample};
use super::*;
use crate::model::class::Class;
use crate::model::scalar::Version;
use crate::timeline::{Path, Sample};

/// A path of ten samples: a driver takes over from another, and the ignition goes off.
fn driven() -> Path {
    let samples = (0..10).map(|nth: i64| Sample {
        version: Version(7 + 4 * nth),
        class: if nth < 7 { Class::ALL[nth as usize / 5] } else { Class::Separator },
        ignition: (nth > 0).then_some(nth < 7),
        ..sample(1_000 * nth, 5, -5, [None; 4])
    });
    let mut path = Path::from_sorted(samples).unwrap();
    let at = |nth: i64| DeviceTime(1_000 * nth);
    path.set_drivers(vec![
        (at(1), Some("bo".into())),
        (at(3), None),
        (at(4), Some("ann".into())),
        (at(8), Some("bo".into())),
    ]);
    path
}

#[test]
fn what_is_kept_of_each_sample_round_trips() {
    let blob = encode(&driven());
    let message = Published::decode(&blob[HEAD..]).unwrap();
    assert_eq!(message.version, [7, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
    assert_eq!(message.version_rank, [0; 0]);
    assert_eq!(message.class_runs, [0, 5, 1, 2, 2, 3]);
    assert_eq!(message.ignition_runs, [0, 1, 2, 6, 1, 3]);
    assert_eq!(message.drivers, ["bo", "ann"]);
    assert_eq!(message.driver_runs, [0, 1, 1, 2, 0, 1, 2, 4, 1, 2]);
    let read = decode(&blob).unwrap();
    assert!(read.iter().eq(driven().iter()));
    assert!(read.drivers().eq(driven().drivers()));
    assert_eq!(encode(&read), blob);
}

/// Four samples of three records: the second and the third arrived first, together.
fn reordered() -> Path {
    let versions = [9, 4, 4, 6].into_iter().zip(0..);
    let samples = versions.map(|(version, nth)| Sample {
        version: Version(version),
        ..sample(1_000 * nth, 5, -5, [None; 4])
    });
    Path::from_sorted(samples).unwrap()
}

#[test]
fn versions_in_any_order_round_trip() {
    let blob = encode(&reordered());
    let message = Published::decode(&blob[HEAD..]).unwrap();
    assert_eq!((message.version, message.version_rank), (vec![4, 0, 2, 3], vec![3, -3, 1, 1]));
    assert!(decode(&blob).unwrap().iter().eq(reordered().iter()));
    let cases: [Case; 6] = [
        ("descending", |m| m.version[2] = -2),
        ("rank too high", |m| m.version_rank[0] = 4),
        ("negative rank", |m| m.version_rank[1] = -4),
        ("rank twice", |m| m.version_rank[3] = 0),
        ("ranks of one record", |m| m.version_rank = vec![3, -2, -1, 2]),
        ("ranks in order", |m| m.version_rank = vec![0, 1, 1, 1]),
    ];
    for (name, breaks) in cases {
        let mut message = Published::decode(&encode(&reordered())[HEAD..]).unwrap();
        breaks(&mut message);
        let error = decode(&plain(&message)).expect_err(name).to_string();
        assert!(error.contains("column version"), "{name}: {error}");
    }
}

/// Each case breaks the message of the driven path in one way.
#[test]
fn refuses_runs_and_drivers_that_do_not_fit() {
    let cases: [Case; 17] = [
        ("version", |m| m.version.push(0)),
        ("class without a length", |m| m.class_runs.push(1)),
        ("unknown class", |m| m.class_runs[0] = 3),
        ("negative class", |m| m.class_runs[0] = -1),
        ("no samples", |m| m.class_runs[1] = 0),
        ("negative length", |m| m.class_runs[1] = -5),
        ("too few samples", |m| m.class_runs[1] = 4),
        ("too many samples", |m| m.class_runs[5] = 4),
        ("a run too many", |m| m.class_runs.extend([0, 1])),
        ("equal neighbours", |m| m.class_runs[2] = 0),
        ("redundant classes", |m| m.class_runs = vec![0, 10]),
        ("unknown ignition", |m| m.ignition_runs[0] = 3),
        ("unknown driver", |m| m.driver_runs[8] = 3),
        ("order of drivers", |m| m.drivers.swap(0, 1)),
        ("driver twice", |m| m.drivers[1] = "bo".to_owned()),
        ("empty driver", |m| m.drivers[1] = String::new()),
        ("driver that no sample names", |m| m.drivers.push("cy".to_owned())),
    ];
    for (name, breaks) in cases {
        let mut message = Published::decode(&encode(&driven())[HEAD..]).unwrap();
        breaks(&mut message);
        if name == "order of drivers" {
            // The runs contradict the order of the names.
            message.driver_runs = vec![0, 1, 2, 2, 0, 1, 1, 4, 2, 2];
        }
        let error = decode(&plain(&message)).expect_err(name).to_string();
        assert!(error.contains("rebuild"), "{name}: {error}");
    }
}

#[test]
fn the_longest_path_can_be_decoded_whatever_its_samples() {
    // Each value is as far from the one before as it can be, and only one sample lacks readings, so
    // that all bitmaps are there. Steps between times are up to 366 days.
    let count = 10_000;
    let mut time_ms = 0;
    let widest = (0..count).map(|nth| {
        let is_high = nth % 2 == 0;
        time_ms += if is_high { 366 * 86_400_000 } else { 1 };
        let sign = if is_high { 1 } else { -1 };
        let readings = ReadingKind::ALL.map(|kind| {
            let (min, max) = kind.quanta_range();
            (nth > 0).then_some(if is_high { max } else { min })
        });
        Sample {
            version: Version(if is_high { count + nth } else { nth } << 38),
            class: if is_high { Class::Separator } else { Class::Slow },
            ignition: Some(is_high),
            ..sample(time_ms, sign * 900_000_000, sign * 1_800_000_000, readings)
        }
    });
    let mut path = Path::from_sorted(widest).unwrap();
    let times = path.iter().map(|it| it.time_ms).zip(0..);
    path.set_drivers(times.map(|(at, nth)| (at, Some(format!("{nth:03x}").into()))).collect());
    let blob = encode(&path);
    assert_eq!(blob[0], ZSTD);
    let message = zstd::bulk::decompress(&blob[HEAD..], MAX_MESSAGE_BYTES).unwrap();
    let bytes = message.len() * MAX_SAMPLES / path.weight();
    assert!(bytes <= MAX_MESSAGE_BYTES, "{bytes} bytes, {} a sample", message.len() / path.len());
    assert!(bytes * 5 / 4 > MAX_MESSAGE_BYTES, "{bytes} bytes: it could be longer");
}
