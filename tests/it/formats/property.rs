//! For random samples, every format gives the trips of canonical NDJSON, as far as it can say what
//! decides them.

use std::path::Path;

use proptest::prelude::*;
use tstar::internals::model::preset::PRESETS;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::source::{Batch, SourceError};
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::{DeviceScope, Kinds, Order, TripRow, TripStore as _};
use tstar::path::{Path as TripPath, decode, encode};
use tstar::{Sample, Version};

use super::encode::{BASELINES, Form, Format, Point, Reader, formats};
use super::read::Input;
use crate::support::block_on;

/// 2026-11-20T22:00:00Z: two hours before a midnight.
const EVENING_MS: i64 = 1_795_212_000_000;

/// The canonical format in the form of another one: a list where that has several samples in a
/// record.
fn canonical_like(format: &Format) -> Format {
    let lines = |points: &[Point]| (BASELINES[0].encode)(points);
    let list = |points: &[Point]| format!("[{}]", (BASELINES[0].encode)(points).replace('\n', ","));
    let (form, encode): (_, fn(&[Point]) -> String) = match format.form {
        Form::Files(_) => (Form::Files("ndjson"), lines),
        Form::Records(1) => (format.form, lines),
        Form::Records(_) => (format.form, list),
    };
    Format { carries: format.carries, form, encode, ..BASELINES[0] }
}

/// A path whose samples all have version 0.
fn without_versions(path: &[u8]) -> Vec<u8> {
    let path = decode(path).unwrap();
    let samples = path.iter().map(|sample| Sample { version: Version(0), ..sample });
    let mut same = TripPath::from_sorted(samples).unwrap();
    for (sample, driver) in path.iter().map(|it| (it, path.driver_at(it.time_ms))) {
        same.name_driver(sample.time_ms, driver);
    }
    encode(&same)
}

/// The trips of samples in a format, without versions, and the numbers of samples that were
/// applied, and were duplicates.
fn trips(format: &Format, points: &[Point], folder: &Path) -> (Vec<TripRow>, u64, u64) {
    let store = MemoryStore::default();
    let input = Input::new(format, points, folder).unwrap();
    block_on(async {
        let (rules, config) = (format.rules(), ProcessorConfig::default());
        let mut processor = Processor::new(&store, &rules, config).await.unwrap();
        let read = input.read(format, async |batch: &Batch| {
            processor.absorb(batch).await.unwrap();
            Ok::<_, SourceError>(())
        });
        read.await.unwrap();
        processor.flush().await.unwrap();
        assert_eq!(store.dead_letters(), [], "{}", format.name);
        let mut rows = Vec::new();
        for device in store.devices(DeviceScope::All, None, usize::MAX).await.unwrap() {
            let range = (DeviceTime::MIN, DeviceTime::MAX);
            let of_device =
                store.range(&device, Kinds::All, range.0, range.1, Order::Asc, usize::MAX).await;
            rows.extend(of_device.unwrap());
        }
        for row in &mut rows {
            row.version = Version(0);
            row.ids.values_mut().flatten().for_each(|version| *version = Version(0));
            row.path = without_versions(&row.path);
        }
        (rows, processor.counts().applied, processor.counts().duplicates)
    })
}

prop_compose! {
    fn point()(
        device in prop::sample::select(vec!["a", "van-1", "truck-17x"]),
        // Within a trip, apart, on another day; now and then in the same second.
        seconds in prop_oneof![0_i64..600, 0_i64..7_000, 0_i64..90_000],
        ms in prop_oneof![Just(0_i64), 0_i64..1000],
        // The limits of their ranges, too.
        lat in prop_oneof![6_400_i32..6_500, -90 * 128..=90 * 128],
        lon in prop_oneof![-128_i32..128, -180 * 128..=180 * 128],
        speed in prop::option::of(0_u16..=40),
        heading in prop::option::of(0_u16..360),
        altitude in prop::option::of(-400_i16..9_000),
        accuracy in prop::option::of(0_u16..500),
        ignition: bool,
        driver in prop::option::of(prop::sample::select(vec!["ada", "Chen"])),
    ) -> Point {
        Point {
            device: device.into(),
            time_ms: EVENING_MS + 1000 * seconds + ms,
            lat: f64::from(lat) / 128.0,
            lon: f64::from(lon) / 128.0,
            speed: speed.map(|speed| 5 * speed),
            heading,
            altitude,
            accuracy,
            ignition: Some(ignition),
            driver: driver.map(Into::into),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_format_gives_the_same_trips(points in prop::collection::vec(point(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        for (nth, format) in formats().iter().enumerate() {
            let folder = |side: &str| folder.path().join(format!("{nth}-{side}"));
            let found = trips(format, &points, &folder("own"));
            let expected = trips(&canonical_like(format), &points, &folder("canonical"));
            prop_assert_eq!(found.1 + found.2, points.len() as u64, "{}", format.name);
            prop_assert_eq!(found, expected, "{}", format.name);
        }
    }
}

#[test]
fn every_preset_is_among_the_formats() {
    for preset in PRESETS {
        let is_read = |format: &Format| format.reader == Reader::Preset(preset.name);
        assert!(formats().iter().any(is_read), "{}", preset.name);
    }
}
