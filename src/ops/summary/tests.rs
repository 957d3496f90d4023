use chrono_tz::TZ_VARIANTS;
use proptest::prelude::*;

use super::*;
use crate::model::scalar::Version;
use crate::model::time::parse_time;
use crate::segment::{Class, MintPoints};
use crate::timeline::{Path, READINGS, Reading, ReadingKind, Sample};

/// The row of a segment with samples at these times, ms, metres to the north, and classes.
fn row(kind: Kind, samples: &[(i64, i32, Class)], legs: LegFilter) -> TripRow {
    let sample = |&(ms, metres, class): &(i64, i32, Class)| {
        let mut readings = [Reading::ABSENT; READINGS];
        readings[ReadingKind::Speed as usize] = Reading::new(Some(0));
        Sample { class, ..Sample::new(DeviceTime(ms), (metres * 90, 0), readings) }
    };
    let path = Path::from_sorted(samples.iter().map(sample)).unwrap();
    let ids = MintPoints::new(path.first().time_ms, Version(4));
    TripRow { kind, ..TripRow::from_path("van", &path, (&ids, Version(4)), legs) }
}

fn ms(text: &str) -> i64 {
    parse_time(text).unwrap()
}

fn total(pieces: &[Piece]) -> Sums {
    let mut total = Sums::default();
    pieces.iter().for_each(|piece| total.add(&piece.sums));
    total
}

/// The pieces of a segment in a span, with and without midnights of a zone.
fn pieces(row: &TripRow, span: (i64, i64), days: Option<Zone>, legs: LegFilter) -> Vec<Piece> {
    let span = (DeviceTime(span.0), DeviceTime(span.1));
    let cutter = Cutter { span, days, legs };
    cutter.pieces(row, &cutter.cuts(row)).unwrap()
}

/// Through a day of 23 hours, and one of 25.
#[test]
fn a_trip_gives_each_day_its_part() {
    let berlin = Zone::from_name("Europe/Berlin").unwrap();
    for (start, end, expected) in [
        (
            "2024-03-30T23:30:00+01:00",
            "2024-04-01T00:30:00+02:00",
            [("2024-03-30", 30, 1), ("2024-03-31", 23 * 60, 0), ("2024-04-01", 30, 0)],
        ),
        (
            "2024-10-26T23:30:00+02:00",
            "2024-10-28T00:30:00+01:00",
            [("2024-10-26", 30, 1), ("2024-10-27", 25 * 60, 0), ("2024-10-28", 30, 0)],
        ),
    ] {
        let ends = [(ms(start), 0, Class::Moving), (ms(end), 1_000_000, Class::Moving)];
        let row = row(Kind::Trip, &ends, LegFilter::default());
        let span = (ms(start), ms(end));
        let found = pieces(&row, span, Some(berlin), LegFilter::default());
        let day = |it: &Piece| {
            let minutes = it.sums.moving_ms / 60_000;
            (berlin.day_of(it.start_ms).to_string(), minutes, it.sums.trips)
        };
        let found_days: Vec<_> = found.iter().map(day).collect();
        assert_eq!(found_days, expected.map(|(day, minutes, trips)| (day.into(), minutes, trips)));
        let all_minutes: i64 = expected.iter().map(|(_, minutes, _)| minutes).sum();
        let half_hour_dm = found[0].sums.distance_dm;
        let share_dm = distance_dm(row.distance_m) * 30 / all_minutes;
        assert!((0..=1).contains(&(half_hour_dm - share_dm)), "{half_hour_dm} {share_dm}");
        assert_eq!(total(&found), Sums { trips: 1, ..Sums::from_row(&row) });
    }
}

#[test]
fn a_stop_stands_until_the_ignition_goes_off() {
    let samples = [
        (ms("2024-05-01T20:00:00Z"), 0, Class::Slow),
        (ms("2024-05-01T21:00:00Z"), 0, Class::Separator),
        (ms("2024-05-02T06:00:00Z"), 0, Class::Separator),
    ];
    let row = row(Kind::Stop, &samples, LegFilter::default());
    let span = (ms("2024-05-01T20:30:00Z"), ms("2024-05-02T03:00:00Z") - 1);
    let hours = |days| {
        let found = pieces(&row, span, days, LegFilter::default());
        let hours = |sums: &Sums| (sums.standing_ms, sums.parked_ms);
        let mut found: Vec<_> = found.iter().map(|piece| hours(&piece.sums)).collect();
        found.iter_mut().for_each(|it| *it = (it.0 / 360_000, it.1 / 360_000));
        found
    };
    // In tenths of an hour.
    assert_eq!(hours(None), [(5, 60)]);
    assert_eq!(hours(Some(Zone::UTC)), [(5, 30), (0, 30)]);
    assert_eq!(hours(Some(Zone::from_name("Europe/Berlin").unwrap())), [(5, 10), (0, 50)]);
}

#[test]
fn what_only_touches_a_span_adds_nothing() {
    let (noon, one) = (ms("2024-05-01T12:00:00Z"), ms("2024-05-01T13:00:00Z"));
    let ends = [(noon, 0, Class::Moving), (one, 9000, Class::Moving)];
    let row = row(Kind::Trip, &ends, LegFilter::default());
    let count = |span| pieces(&row, span, Some(Zone::UTC), LegFilter::default()).len();
    assert_eq!(count((one, one + 1000)), 0, "it started before");
    assert_eq!(count((noon, noon)), 1);
    assert_eq!(total(&pieces(&row, (noon, noon), None, LegFilter::default())).trips, 1);
}

#[test]
fn rows_and_their_keys_are_bounded() {
    let request = |by| {
        let span = (DeviceTime(0), DeviceTime(1));
        SummaryRequest { span, device: None, by, zone: Zone::UTC }
    };
    // Adds pieces of some devices, with ids of that many bytes.
    let fill = |count: usize, bytes: usize, by| {
        let mut sums = SpanSums::default();
        let piece = |nth: usize| Piece {
            device_id: format!("{nth:0bytes$}"),
            driver: None,
            start_ms: DeviceTime(0),
            sums: Sums { trips: 1, ..Sums::default() },
        };
        let outcome = (0..count).try_for_each(|nth| sums.add(piece(nth), &request(by)));
        (outcome.map_err(|error| error.to_string()), sums.total.trips)
    };
    assert_eq!(fill(MAX_ROWS, 8, SummaryKey::Device), (Ok(()), 10_000));
    let too_many = fill(MAX_ROWS + 1, 8, SummaryKey::Device).0.unwrap_err();
    assert!(too_many.contains("10000 rows, or 1 MiB of keys"), "{too_many}");
    assert_eq!(fill(MAX_KEYS / 256, 256, SummaryKey::Device), (Ok(()), 4096));
    assert!(fill(MAX_KEYS / 256 + 1, 256, SummaryKey::Device).0.is_err());
    // A key counts once.
    assert_eq!(fill(20_000, 256, SummaryKey::Driver), (Ok(()), 20_000));
}

fn segment() -> impl Strategy<Value = (Kind, Vec<(i64, i32, Class)>)> {
    let step = (1_i64..7_000_000, -20_000_i32..20_000, any::<bool>());
    let start = 0_i64..2_145_916_800_000;
    (any::<bool>(), start, prop::collection::vec(step, 1..40)).prop_map(
        |(is_trip, start, steps)| {
            let classes = if is_trip {
                [Class::Moving, Class::Slow]
            } else {
                [Class::Separator, Class::Slow]
            };
            let mut at_ms = start;
            let mut samples = vec![(start, 0, classes[0])];
            samples.extend(steps.into_iter().map(|(step_ms, metres, is_slow)| {
                at_ms += step_ms;
                (at_ms, metres, classes[usize::from(is_slow)])
            }));
            (if is_trip { Kind::Trip } else { Kind::Stop }, samples)
        },
    )
}

proptest! {
    #[test]
    fn the_sums_of_days_are_those_of_segments(
        (kind, samples) in segment(),
        zone in prop::sample::select(TZ_VARIANTS.as_slice()),
        limit in prop::option::of(1000_i32..9000),
        at in 0.0..1.0,
    ) {
        let zone = Zone::from_name(zone.name()).unwrap();
        let legs = LegFilter { max_speed_cmps: limit, ..LegFilter::default() };
        let row = row(kind, &samples, legs);
        let expected = Sums { trips: u64::from(kind == Kind::Trip), ..Sums::from_row(&row) };
        let (from, to) = (row.start_ms.ms() - 5, row.end_ms.ms() + 5);
        let days = pieces(&row, (from, to), Some(zone), legs);
        prop_assert_eq!(total(&days), expected);
        prop_assert_eq!(total(&pieces(&row, (from, to), None, legs)), expected);
        let names: Vec<_> = days.iter().map(|it| zone.day_of(it.start_ms).to_string()).collect();
        prop_assert!(names.is_sorted_by(|one, next| one < next), "{:?}", names);
        for piece in &days {
            let sums = piece.sums;
            let lasts_ms = sums.duration_ms + sums.standing_ms + sums.parked_ms;
            prop_assert!(lasts_ms <= zone.day_of(piece.start_ms).end_ms() - piece.start_ms);
            prop_assert!(sums.distance_dm >= 0);
        }
        // Of two spans that follow each other as of both together.
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any time")]
        let between = from + ((to - from) as f64 * at) as i64;
        for days in [None, Some(zone)] {
            let mut both = pieces(&row, (from, between - 1), days, legs);
            both.extend(pieces(&row, (between, to), days, legs));
            prop_assert_eq!(total(&both), expected);
        }
    }
}
