use std::io::Write as _;

use super::trip_row::TripRow;
use super::*;
use crate::model::rules::Rules;
use crate::model::scalar::Version;
use crate::segment::{Kind, MintPoints, Segment, SegmentRules};
use crate::timeline::{Path, Reading, Sample};
use proptest::prelude::*;
use prost::Message as _;

/// The message as declared in `schema/path.proto`, with packed fields decoded by prost.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Published {
    #[prost(uint32, tag = "1")]
    pub(super) count: u32,
    #[prost(sint64, repeated, tag = "2")]
    pub(super) time_ms: Vec<i64>,
    #[prost(sint64, repeated, tag = "3")]
    pub(super) lat_e7: Vec<i64>,
    #[prost(sint64, repeated, tag = "4")]
    pub(super) lon_e7: Vec<i64>,
    #[prost(sint32, repeated, tag = "5")]
    pub(super) speed_cmps: Vec<i32>,
    #[prost(sint32, repeated, tag = "6")]
    pub(super) heading_ddeg: Vec<i32>,
    #[prost(sint32, repeated, tag = "7")]
    pub(super) altitude_dm: Vec<i32>,
    #[prost(sint32, repeated, tag = "8")]
    pub(super) accuracy_dm: Vec<i32>,
    #[prost(bytes = "vec", tag = "9")]
    pub(super) speed_present: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub(super) heading_present: Vec<u8>,
    #[prost(bytes = "vec", tag = "11")]
    pub(super) altitude_present: Vec<u8>,
    #[prost(bytes = "vec", tag = "12")]
    pub(super) accuracy_present: Vec<u8>,
    #[prost(sint64, repeated, tag = "13")]
    pub(super) version: Vec<i64>,
    #[prost(sint64, repeated, tag = "14")]
    pub(super) version_rank: Vec<i64>,
    #[prost(sint64, repeated, tag = "15")]
    pub(super) class_runs: Vec<i64>,
    #[prost(sint64, repeated, tag = "16")]
    pub(super) ignition_runs: Vec<i64>,
    #[prost(string, repeated, tag = "17")]
    pub(super) drivers: Vec<String>,
    #[prost(sint64, repeated, tag = "18")]
    pub(super) driver_runs: Vec<i64>,
}

pub(super) fn sample(time_ms: i64, lat_e7: i32, lon_e7: i32, readings: [Option<i32>; 4]) -> Sample {
    let [speed_cmps, heading_ddeg, altitude_dm, accuracy_dm] = readings.map(Reading::new);
    let time_ms = DeviceTime(time_ms);
    Sample::new(time_ms, (lat_e7, lon_e7), [speed_cmps, heading_ddeg, altitude_dm, accuracy_dm])
}

fn path(samples: &[Sample]) -> Path {
    Path::from_sorted(samples.iter().copied()).unwrap()
}

fn assert_round_trip(samples: &[Sample]) {
    let decoded = decode(&encode(&path(samples))).unwrap();
    assert!(decoded.iter().eq(samples.iter().copied()), "{samples:?}");
}

/// Three samples. The middle one has no speed, and none has an altitude.
fn three() -> Vec<Sample> {
    vec![
        sample(1_000, 5, -5, [Some(100), Some(3599), None, Some(7)]),
        sample(2_000, 6, -7, [None, Some(0), None, Some(7)]),
        sample(4_000, 8, -9, [Some(90), Some(1), None, Some(8)]),
    ]
}

/// Length of header and checksum.
pub(super) const HEAD: usize = 5;

fn published() -> Published {
    let blob = encode(&path(&three()));
    assert_eq!(blob[0], PLAIN);
    Published::decode(&blob[HEAD..]).unwrap()
}

fn unpacked(message: &[u8]) -> Vec<u8> {
    [&[PLAIN], &checksum(message)[..], message].concat()
}

pub(super) fn plain(message: &Published) -> Vec<u8> {
    unpacked(&message.encode_to_vec())
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[ZSTD], &checksum(message)[..], &zstd::bulk::compress(message, 3).unwrap()].concat()
}

#[test]
fn encodes_the_published_message() {
    let message = published();
    assert_eq!(message.count, 3);
    assert_eq!(message.time_ms, [1_000, 1_000, 1_000]);
    assert_eq!(message.lat_e7, [5, 1, 1]);
    assert_eq!(message.lon_e7, [-5, -2, 0]);
    assert_eq!(
        (message.speed_cmps.as_slice(), message.speed_present.as_slice()),
        (&[100, -10][..], &[0b101][..])
    );
    assert_eq!(message.heading_ddeg, [3599, -3599, 1]);
    assert_eq!(message.accuracy_dm, [7, 0, 1]);
    assert_eq!(message.altitude_dm, [0; 0]);
    for absent in [&message.heading_present, &message.altitude_present, &message.accuracy_present] {
        assert_eq!(absent, &[0; 0]);
    }
    assert_eq!(plain(&message), encode(&path(&three())));
    let schema = include_str!("../../schema/path.proto");
    for (field, tag) in [("uint32 count", 1), ("sint64 lon_e7", 4), ("bytes accuracy_present", 12)]
    {
        assert!(schema.contains(&format!("{field} = {tag};")), "{field}");
    }
}

#[test]
fn extreme_values_round_trip() {
    let readings = [Some(100_000), Some(3599), Some(1_000_000), Some(1_000_000_000)];
    let lowest = [Some(0), Some(0), Some(-120_000), Some(0)];
    let (north, east) = (900_000_000, 1_800_000_000);
    assert_round_trip(&[sample(0, 0, 0, [None; 4])]);
    assert_round_trip(&[sample(i64::MIN, north, -east, readings)]);
    assert_round_trip(&[
        sample(i64::MIN, -north, east, readings),
        sample(i64::MIN + 1, north, -east, lowest),
        sample(-1, -north, east, [None; 4]),
        sample(i64::MAX - 1, north, -east, readings),
        sample(i64::MAX, -north, east, lowest),
    ]);
    assert_round_trip(&[
        sample(i64::MIN, 0, 0, [None; 4]),
        sample(i64::MAX, 0, 0, [None, None, None, Some(3)]),
    ]);
}

#[test]
fn long_paths_are_compressed_and_small_ones_are_not() {
    let long: Vec<_> = (0..5_000).map(|k| sample(k * 1_000, 10, 20, [None; 4])).collect();
    let blob = encode(&path(&long));
    assert_eq!(blob[0], ZSTD);
    assert!(blob.len() < 500);
    assert_round_trip(&long);
    assert_eq!(encode(&path(&long[..70]))[0], PLAIN);
    // Another writer may compress it.
    let message = &encode(&path(&long[..70]))[HEAD..];
    assert!(framed(message).len() < message.len());
    assert!(decode(&framed(message)).unwrap().iter().eq(long[..70].iter().copied()));
}

#[test]
fn a_flipped_bit_is_found_in_both_kinds_of_blob() {
    let drive = (0..200).map(|k| sample(k * 1_000 + k * k % 7, 10 * k as i32, -20, [None; 4]));
    let long = encode(&path(&drive.collect::<Vec<_>>()));
    let short = encode(&path(&three()));
    assert_eq!([long[0], short[0]], [ZSTD, PLAIN]);
    for blob in [long, short] {
        for bit in 0..8 * blob.len() {
            let mut flipped = blob.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Some bits of a zstd frame have no meaning.
            if let Ok(read) = decode(&flipped) {
                assert_eq!((encode(&read) == blob, blob[0]), (true, ZSTD), "bit {bit}");
            }
        }
    }
}

#[test]
fn a_message_is_the_same_however_it_is_compressed() {
    let blob = encode(&path(&three()));
    let (frame, shorter) = (framed(&blob[HEAD..]), encode(&path(&three()[..2])));
    assert_ne!(blob, frame);
    for (one, other, is_same) in [
        (&blob, &blob, true),
        (&blob, &frame, true),
        (&frame, &blob, true),
        (&blob, &shorter, false),
        (&frame, &shorter, false),
        (&frame[..20].to_vec(), &frame, false),
        (&vec![3], &vec![3], true),
        (&vec![3], &vec![0], false),
        (&Vec::new(), &blob, false),
    ] {
        assert_eq!(is_same_message(one, other), is_same, "{one:?} {other:?}");
    }
}

#[test]
fn refuses_bytes_that_are_not_a_path() {
    assert_eq!(decode(&[]).unwrap_err(), BlobError::Empty);
    for header in [0, 3, 0x0a, 0x28, 0xff] {
        assert_eq!(decode(&[header, 8, 1]).unwrap_err(), BlobError::Header(header));
    }
    let good = encode(&path(&three()));
    for cut in 1..good.len() {
        assert_eq!(decode(&good[..cut]).unwrap_err(), BlobError::Checksum, "{cut}");
    }
    let message = &good[HEAD..];
    // Every sample needs a version, which is the last field here.
    for cut in 1..message.len() {
        assert!(decode(&unpacked(&message[..cut])).is_err(), "{cut}");
    }
    for tail in [&[0][..], &[0x0a, 0], &[0x68, 1], &[0x08, 3], &[0x4a, 0]] {
        let longer = decode(&unpacked(&[message, tail].concat()));
        assert!(matches!(longer, Err(BlobError::Message(_))), "{tail:?}");
    }
    let frame = framed(message);
    assert!(decode(&frame).is_ok());
    for tail in [&[0][..], &frame[HEAD..], &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]] {
        assert!(matches!(decode(&[&frame, tail].concat()), Err(BlobError::Frame(_))), "{tail:?}");
    }
    // A lone skippable frame, and an empty frame.
    assert!(decode(&[ZSTD, 0, 0, 0, 0, 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]).is_err());
    assert!(decode(&framed(&[])).is_err());
}

/// What is wrong, and the change that causes it.
pub(super) type Case = (&'static str, fn(&mut Published));

/// Each case breaks the published message in one way.
#[test]
fn refuses_messages_that_are_not_a_path() {
    let cases: [Case; 19] = [
        ("count 0", |m| m.count = 0),
        ("count", |m| m.count = 4),
        ("huge count", |m| m.count = u32::MAX),
        ("no lat", |m| m.lat_e7.clear()),
        ("lon too long", |m| m.lon_e7.push(0)),
        ("time repeats", |m| m.time_ms[1] = 0),
        ("time falls", |m| m.time_ms[2] = -3_000),
        ("time wraps", |m| m.time_ms[1] = i64::MAX),
        ("lat", |m| m.lat_e7[0] = 900_000_001),
        ("lat beyond i32", |m| m.lat_e7[0] = 1 << 40),
        ("lon", |m| m.lon_e7[0] = -1_800_000_001),
        ("speed", |m| m.speed_cmps[0] = -1),
        ("speed absent", |m| m.speed_cmps = vec![i32::MIN, 0]),
        ("heading", |m| m.heading_ddeg[0] = 3_600),
        ("accuracy", |m| m.accuracy_dm[2] = 1_000_000_000),
        ("bitmap bits", |m| m.speed_present = vec![0b111]),
        ("bitmap past the count", |m| m.speed_present = vec![0b1001]),
        ("bitmap length", |m| m.speed_present.push(0)),
        ("redundant bitmap", |m| m.altitude_present = vec![0]),
    ];
    for (name, breaks) in cases {
        let mut message = published();
        breaks(&mut message);
        let error = decode(&plain(&message)).expect_err(name).to_string();
        assert!(error.contains("rebuild"), "{name}: {error}");
        assert_eq!(decode(&framed(&message.encode_to_vec())).unwrap_err().to_string(), error);
    }
    assert!(decode(&plain(&published())).is_ok());
}

#[test]
fn refuses_overlong_varints() {
    let mut message = Message { count: 1, ..Message::default() };
    let columns = [&mut message.time_ms, &mut message.lat_e7, &mut message.lon_e7];
    for column in columns.into_iter().chain([&mut message.version]) {
        column.push(2);
    }
    let blob = |message: &Message| {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        unpacked(&bytes)
    };
    assert!(decode(&blob(&message)).is_ok());
    for long in [&[0x82, 0][..], &[0x82, 0x80, 0], &[0x82; 11], &[0xff; 9], &[0x80], &[2, 0x80]] {
        message.lat_e7 = long.to_vec();
        assert!(decode(&blob(&message)).is_err(), "{long:?}");
        message.lat_e7 = vec![2];
        message.speed_cmps = long.to_vec();
        assert!(decode(&blob(&message)).is_err(), "speed {long:?}");
        message.speed_cmps.clear();
    }
    // A varint of ten bytes is valid only if the tenth is 1.
    message.lat_e7.clear();
    message.time_ms = [&[0xff; 9][..], &[1]].concat();
    message.lat_e7.push(0);
    assert_eq!(decode(&blob(&message)).unwrap().first().time_ms, DeviceTime::MIN);
    message.time_ms[9] = 2;
    assert!(decode(&blob(&message)).is_err());
}

/// A single-segment zstd frame that declares `size`, with blocks of 4 bytes that decompress to
/// 128 KiB of zeros each.
fn zeros(size: u64, blocks: usize) -> Vec<u8> {
    let checksum = checksum(&vec![0; blocks << 17]);
    let mut frame = [&[ZSTD], &checksum[..]].concat();
    frame.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000]);
    frame.extend_from_slice(&size.to_le_bytes());
    for block in 0..blocks {
        let last = u32::from(block + 1 == blocks);
        let header: u32 = last | 1 << 1 | (128 << 10) << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn bombs_are_refused_by_their_declared_size() {
    for declared in [MAX_MESSAGE_BYTES as u64 + 1, 1 << 40, u64::MAX - 2] {
        assert_eq!(decode(&zeros(declared, 8)).unwrap_err(), BlobError::TooLarge { declared });
    }
    let block = 128 << 10;
    // A correct size passes the frame and fails as a message. A wrong size fails the frame.
    assert!(matches!(decode(&zeros(8 * block, 8)), Err(BlobError::Message(_))));
    for wrong in [8 * block - 1, 8 * block + 1, 1, MAX_MESSAGE_BYTES as u64] {
        assert!(matches!(decode(&zeros(wrong, 8)), Err(BlobError::Frame(_))), "{wrong}");
    }
    // No declared size, as written by streaming writers.
    let plain = encode(&path(&three()));
    let head = [&[ZSTD], &plain[1..HEAD]].concat();
    let mut writer = zstd::stream::Encoder::new(head, 3).unwrap();
    writer.include_contentsize(false).unwrap();
    writer.write_all(&plain[HEAD..]).unwrap();
    let frame = writer.finish().unwrap();
    assert_eq!(decode(&frame).unwrap_err(), BlobError::NoSize);
}

#[test]
fn a_row_with_a_number_that_is_not_finite_is_no_trip() {
    let path = path(&three());
    let (t_star_ms, version) = (path.first().time_ms, Version(2));
    let (rules, points) = (SegmentRules::default(), MintPoints::new(t_star_ms, version));
    let trip = Segment::loaded(&rules, Kind::Trip, points, version, path);
    let row = TripRow::from_segment("van", &trip, Rules::default().legs());
    assert!(row.to_path().is_ok());
    let cases = [
        (TripRow { distance_m: f64::NAN, ..row.clone() }, "its distance_m is NaN"),
        (TripRow { max_speed_mps: Some(f64::INFINITY), ..row.clone() }, "its max_speed_mps is inf"),
        (TripRow { jump_s: Some(f64::NEG_INFINITY), ..row }, "its jump_s is -inf"),
    ];
    for (row, reason) in cases {
        assert_eq!(row.to_path().unwrap_err().reason, reason);
    }
}

fn reading(range: std::ops::RangeInclusive<i32>) -> impl Strategy<Value = Option<i32>> {
    prop_oneof![2 => Just(None), 5 => range.prop_map(Some)]
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let row = (
        prop_oneof![0..10_000_000_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)],
        -900_000_000..=900_000_000,
        -1_800_000_000..=1_800_000_000,
        (
            reading(0..=100_000),
            reading(0..=3599),
            reading(-120_000..=1_000_000),
            reading(0..=1_000_000_000),
        ),
    );
    // The masks make each column absent, partial or full.
    (prop::collection::vec(row, 1..300), any::<[bool; 4]>(), any::<[bool; 4]>()).prop_map(
        |(mut rows, none, all)| {
            rows.sort_by_key(|row| row.0);
            rows.dedup_by_key(|row| row.0);
            rows.into_iter()
                .map(|(time_ms, lat, lon, (speed, heading, altitude, accuracy))| {
                    let readings = [speed, heading, altitude, accuracy];
                    let kept = std::array::from_fn(|k| match readings[k] {
                        _ if none[k] => None,
                        None if all[k] => Some(3),
                        reading => reading,
                    });
                    sample(time_ms, lat, lon, kept)
                })
                .collect()
        },
    )
}

/// An accepted path round-trips.
fn check_hostile(bytes: &[u8]) {
    if let Ok(path) = decode(bytes) {
        let decoded = decode(&encode(&path)).unwrap();
        assert!(decoded.iter().eq(path.iter()));
    }
}

proptest! {
    #[test]
    fn round_trips_and_is_a_function_of_the_samples(samples in samples(), other in samples()) {
        assert_round_trip(&samples);
        let blob = encode(&path(&samples));
        // The bytes depend neither on earlier encodings nor on the arrival order.
        drop(encode(&path(&other)));
        let mut newest_first = Path::new(*samples.last().unwrap());
        for sample in samples.iter().rev().skip(1) {
            newest_first.insert(*sample).unwrap();
        }
        prop_assert_eq!(&encode(&newest_first), &blob);
        let elsewhere = std::thread::spawn(move || encode(&path(&samples))).join().unwrap();
        prop_assert_eq!(elsewhere, blob);
    }

    #[test]
    fn random_bytes_never_panic(header in 0..4_u8, bytes: Vec<u8>) {
        check_hostile(&bytes);
        check_hostile(&[&[header], bytes.as_slice()].concat());
        check_hostile(&unpacked(&bytes));
        check_hostile(&framed(&bytes));
    }

    #[test]
    fn mutated_blobs_never_panic(
        samples in samples(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let blob = encode(&path(&samples));
        let mutate = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes
        };
        check_hostile(&mutate(&blob));
        check_hostile(&blob[..cut.index(blob.len())]);
        // Mutations inside the compressed message too.
        let message = match blob[0] {
            PLAIN => blob[HEAD..].to_vec(),
            _ => zstd::bulk::decompress(&blob[HEAD..], MAX_MESSAGE_BYTES).unwrap(),
        };
        let message = mutate(&message);
        check_hostile(&framed(&message));
        check_hostile(&unpacked(&message));
    }
}
