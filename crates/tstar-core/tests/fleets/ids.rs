//! What became of ids while samples arrived.

use std::collections::BTreeMap;

use tstar_core::segment::Kind;
use tstar_core::{DeviceTime, Sample, SegmentRules, Timeline};

use crate::absorb;

/// Segments that end before a sample among which those that it changed are looked for.
const CHANGED_BEFORE: usize = 4;

/// Changes of ids of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdChanges {
    /// Ids that were minted.
    pub minted: usize,
    /// Those of them that were minted by a split, so later than their sample arrived.
    pub split: usize,
    /// Retirements, by a merge or because the kind of a segment changed.
    pub retired: usize,
    /// Ids that a split revived.
    pub revived: usize,
}

impl IdChanges {
    pub fn add(&mut self, other: Self) {
        self.minted += other.minted;
        self.split += other.split;
        self.retired += other.retired;
        self.revived += other.revived;
    }
}

/// What arrivals did to ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdCounts {
    pub arrivals: usize,
    pub trips: IdChanges,
    pub stops: IdChanges,
}

impl IdCounts {
    /// Absorbs the samples, and checks the promise of ids: the id of a trip names the trip that has
    /// its sample, for ever.
    pub fn new(rules: &SegmentRules, samples: &[Sample]) -> Self {
        let mut timeline = Timeline::in_memory();
        let mut published: BTreeMap<DeviceTime, Kind> = BTreeMap::new();
        for (sample, nth) in samples.iter().zip(0..) {
            absorb(&mut timeline, rules, *sample, nth);
            publish(&timeline, sample.time_ms, &mut published);
        }
        let mut counts = Self { arrivals: samples.len(), ..Self::default() };
        let mut born = 0;
        for segment in timeline.segments() {
            for (time_ms, history) in segment.outline().points.iter() {
                let kind = published.get(&time_ms).expect("every id was published");
                let position = segment.path().get(time_ms).expect("an id has a sample").version;
                counts.of_kind(*kind).add(IdChanges {
                    minted: 1,
                    split: usize::from(history[0] > position),
                    retired: history.len() / 2,
                    revived: (history.len() - 1) / 2,
                });
                born += 1;
            }
        }
        assert_eq!(published.len(), born, "no id is lost");
        for (time_ms, kind) in published {
            let segment = timeline.covering(time_ms).expect("its sample is kept");
            let is_trip = segment.outline().kind == Kind::Trip;
            assert!(kind == Kind::Stop || is_trip, "{time_ms:?} names no trip any more");
        }
        counts
    }

    pub fn add(&mut self, other: Self) {
        self.arrivals += other.arrivals;
        self.trips.add(other.trips);
        self.stops.add(other.stops);
    }

    fn of_kind(&mut self, kind: Kind) -> &mut IdChanges {
        match kind {
            Kind::Trip => &mut self.trips,
            Kind::Stop => &mut self.stops,
        }
    }
}

/// Notes the live ids of the segments that the last sample changed. An id that was that of a trip
/// once remains so.
fn publish(timeline: &Timeline, time_ms: DeviceTime, published: &mut BTreeMap<DeviceTime, Kind>) {
    let version = timeline.covering(time_ms).expect("it is kept").version();
    let mut before = 0;
    for segment in timeline.segments().rev() {
        if segment.version() == version {
            let kind = segment.outline().kind;
            let known = published.entry(segment.t_star_ms()).or_insert(kind);
            if kind == Kind::Trip {
                *known = kind;
            }
        }
        before += usize::from(segment.end_ms() < time_ms);
        if before > CHANGED_BEFORE {
            break;
        }
    }
}
