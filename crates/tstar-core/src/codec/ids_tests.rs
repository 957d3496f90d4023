//! Which ids of a row are valid, and what follows from them.

use super::trip_row::TripRow;
use crate::model::limits::{LegFilter, SegmentRules};
use crate::model::sample::RawSample;
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::{Kind, Timeline};
use crate::timeline::Sample;

const MINUTE: i64 = 60_000;

fn at(minute: i64) -> DeviceTime {
    DeviceTime(minute * MINUTE)
}

/// The row of a trip of samples at minutes, in the order in which they arrive, each with the
/// version of its record.
fn row_of(arrivals: &[(i64, i64)]) -> TripRow {
    let mut timeline = Timeline::in_memory();
    for &(minute, version) in arrivals {
        let raw = RawSample { time_ms: at(minute), ..RawSample::default() };
        let sample = Sample::quantised(&raw).unwrap();
        let sample = Sample { version: Version(version), ..sample };
        timeline.absorb(&SegmentRules::default(), sample, None);
    }
    let trip = timeline.segments().next().unwrap();
    TripRow::from_segment("van", trip, LegFilter::default())
}

/// An id: minute and versions.
type Id<'a> = (i64, &'a [i64]);

/// A row from minute 0 to 10, of id 0, with these ids.
fn row(ids: &[Id<'_>]) -> TripRow {
    let histories = ids
        .iter()
        .map(|&(minute, history)| (at(minute), history.iter().copied().map(Version).collect()));
    TripRow { ids: histories.collect(), ..row_of(&[(0, 2), (5, 4), (10, 6)]) }
}

#[test]
fn ids_that_no_timeline_leaves_behind_are_malformed() {
    let cases: [(&[Id<'_>], &str); 13] = [
        (&[], "none of its ids is live"),
        (&[(0, &[2, 4])], "none of its ids is live"),
        (&[(0, &[2, 4]), (5, &[4, 6])], "none of its ids is live"),
        (&[(0, &[2]), (5, &[4])], "two ids are live: those of 0 ms and 300000 ms"),
        (&[(0, &[2]), (5, &[2, 4, 6])], "two ids are live: those of 0 ms and 300000 ms"),
        (&[(0, &[])], "the history of the id of 0 ms is empty"),
        (&[(0, &[2]), (5, &[])], "the history of the id of 300000 ms is empty"),
        (
            &[(0, &[2]), (5, &[4, 3])],
            "the history of the id of 300000 ms does not ascend: 3 after 4",
        ),
        (&[(0, &[2, 6, 5])], "the history of the id of 0 ms does not ascend: 5 after 6"),
        (&[(5, &[2])], "the id of 300000 ms is live, and t_star is 0 ms"),
        (&[(0, &[2, 4]), (5, &[4])], "the id of 300000 ms is live, and t_star is 0 ms"),
        (&[(-1, &[2, 4]), (0, &[2])], "the id of -60000 ms lies outside the trip"),
        (&[(0, &[2]), (11, &[2, 4])], "the id of 660000 ms lies outside the trip"),
    ];
    for (ids, reason) in cases {
        assert_eq!(row(ids).to_path().unwrap_err().reason, reason, "{ids:?}");
    }
}

#[test]
fn a_stop_survives_its_row() {
    let rules = SegmentRules::default();
    let mut timeline = Timeline::in_memory();
    for (minute, version) in [(0, 2), (4, 4), (9, 6)] {
        let raw = RawSample { time_ms: at(minute), ..RawSample::default() };
        let sample = Sample::quantised(&raw).unwrap();
        let ignition = Some(minute == 9);
        timeline.absorb(&rules, Sample { version: Version(version), ignition, ..sample }, None);
    }
    let rows = timeline.segments().map(|it| TripRow::from_segment("van", it, LegFilter::default()));
    let rows: Vec<_> = rows.collect();
    let kinds = rows.iter().map(|row| (row.kind, row.samples));
    assert!(kinds.eq([(Kind::Stop, 2), (Kind::Trip, 1)]));
    for row in rows {
        let segment = row.to_segment(&rules).unwrap();
        assert_eq!(TripRow::from_segment("van", &segment, LegFilter::default()), row);
    }
}

#[test]
fn ids_are_minted_and_retired_by_their_histories() {
    let ids: [Id<'_>; 4] =
        [(0, &[4, 6, 8]), (3, &[2, 2]), (5, &[2, 4, 6, 10]), (10, &[8, 8, 8, 8])];
    let row = row(&ids);
    assert!(row.to_path().is_ok());
    assert_eq!(row.minted(), Version(4));
    let absorbed = [(3, 2), (5, 10), (10, 8)].map(|(minute, it)| (at(minute), Version(it)));
    assert!(row.absorbed().eq(absorbed));
    assert_eq!([0, 5, 7].map(|it| row.retired_at(at(it))), [None, Some(Version(10)), None]);
}

#[test]
fn a_merge_keeps_both_histories() {
    let one_record = [(0, 2), (8, 2), (4, 2)];
    let later = [(0, 2), (8, 4), (4, 8)];
    for (arrivals, retired) in [(one_record, [2, 2]), (later, [4, 8])] {
        let row = row_of(&arrivals);
        let expected = [(at(0), vec![Version(2)]), (at(8), retired.map(Version).to_vec())];
        assert_eq!(row.ids, expected.into());
        let trip = row.to_segment(&SegmentRules::default()).unwrap();
        assert_eq!(TripRow::from_segment("van", &trip, LegFilter::default()), row);
    }
}
