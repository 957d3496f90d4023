//! Converts trips to and from rows: the columns of `schema/trips.sql` and `schema/trips.cql`.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::kind::{self, ColumnKind};
use crate::identity::TripId;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::model::units::seconds;
use crate::segment::{Class, Kind, MintPoints, Segment, SegmentRules};
use crate::timeline::{LegFilter, Path, PathStats, ReadingKind, day_of};

/// A stored row that is not a valid trip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored trip is malformed: device=`{device}` bucket={bucket} end_time={end_ms}: {reason}")]
pub struct RowError {
    /// Device id.
    pub device: String,
    /// UTC day of the copy, ms.
    pub bucket: DeviceTime,
    /// Start of the trip, ms.
    pub start_ms: DeviceTime,
    /// End of the trip, ms.
    pub end_ms: DeviceTime,
    /// What is wrong.
    pub reason: String,
}

/// Calls a macro with the list of columns of table `trips` after the key, in the order of
/// `schema/trips.cql`. An entry here, its line in both schemas, and its value in
/// [`TripRow::from_trip`] make a column: stores write and read it, and `verify` compares it.
///
/// Existing stores need it, too. SQLite: an `ALTER TABLE` in a new entry of `FORMATS`
/// (`store/sqlite/open.rs`). CQL: the same by `schema apply`, and a new format in the comment of
/// the table. Rows written before have no value, so the kind is `Optional`.
///
/// `name: kind => field of TripRow`
#[macro_export]
#[doc(hidden)]
macro_rules! trip_columns {
    ($callback:ident) => {
        $callback! {
            /// Identity time, ms.
            t_star: kind::Time => t_star_ms,
            /// Whether it is a trip or a stop.
            kind: kind::SegmentKind => kind,
            /// Maps each mint point, ms, to the versions at which that id was minted, retired,
            /// revived, retired and so on. An odd number of them: the id is `t_star`.
            ids: kind::Histories => ids,
            /// Version of the last sample that changed the trip.
            version: kind::Version => version,
            /// Partition of the log; 0 for files.
            partition: kind::Int => partition,
            /// Number of kept samples.
            samples: kind::Int => samples,
            /// How long it is moving, ms: a sample has its class until the next one. Null if no
            /// sample has a speed.
            moving_ms: kind::Optional<kind::Duration> => moving_ms,
            /// How long it stands and the ignition is not off, ms. Null if no sample has a speed.
            idle_ms: kind::Optional<kind::Duration> => idle_ms,
            /// How long the ignition is off, ms.
            parked_ms: kind::Duration => parked_ms,
            /// Length along the path without its jumps, m.
            distance_m: kind::Double => distance_m,
            /// Largest reported speed, m/s.
            max_speed_mps: kind::Optional<kind::Double> => max_speed_mps,
            /// Latitude of the first position, degrees north.
            start_lat: kind::Double => start_lat,
            /// Longitude of the first position, degrees east.
            start_lon: kind::Double => start_lon,
            /// Latitude of the last position, degrees north.
            end_lat: kind::Double => end_lat,
            /// Longitude of the last position, degrees east.
            end_lon: kind::Double => end_lon,
            /// Southern edge of the bbox, degrees.
            min_lat: kind::Double => min_lat,
            /// Western edge of the bbox, degrees.
            min_lon: kind::Double => min_lon,
            /// Northern edge of the bbox, degrees.
            max_lat: kind::Double => max_lat,
            /// Eastern edge of the bbox, degrees.
            max_lon: kind::Double => max_lon,
            /// Driver of the earliest kept sample that names one.
            driver: kind::Optional<kind::Text> => driver,
            /// Device time of that sample, ms.
            driver_time: kind::Optional<kind::Time> => driver_ms,
            /// Number of jumps: legs faster than rule `max_leg_speed`. Unset without that rule.
            jumps: kind::Optional<kind::Int> => jumps,
            /// Their durations together, s.
            jump_s: kind::Optional<kind::Double> => jump_s,
            /// The kept samples, encoded by [`super::encode()`].
            path: kind::Blob => path,
        }
    };
}

pub use trip_columns;

macro_rules! define_row {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        /// A trip as a store contains it. Each UTC day that the trip touches has a copy of the row.
        #[derive(Clone, Debug, PartialEq)]
        pub struct TripRow {
            /// Device id.
            pub device_id: String,
            /// Device time of the latest kept sample, ms.
            pub end_ms: DeviceTime,
            /// Device time of the earliest kept sample, ms.
            pub start_ms: DeviceTime,
            $($(#[$doc])* pub $field: <$kind as ColumnKind>::Value,)*
        }

        impl TripRow {
            /// The first column whose value is not finite, and the value.
            fn not_finite(&self) -> Option<(&'static str, f64)> {
                let reals =
                    [$((stringify!($name), <$kind as ColumnKind>::real(&self.$field))),*];
                let reals = reals.into_iter().filter_map(|(name, value)| Some((name, value?)));
                reals.into_iter().find(|(_, value)| !value.is_finite())
            }
        }
    };
}

trip_columns!(define_row);

impl TripRow {
    /// Converts a segment to its row. `legs` are the rules under which it was built.
    #[must_use]
    pub fn from_segment(device_id: &str, segment: &Segment, legs: LegFilter) -> Self {
        let path = super::encode(segment.path());
        Self { path, ..Self::without_path(device_id, segment, legs) }
    }

    /// As [`TripRow::from_segment`], with an empty `path`: for output without samples, which need
    /// not be encoded for it.
    #[must_use]
    pub fn without_path(device_id: &str, segment: &Segment, legs: LegFilter) -> Self {
        let ids = (&segment.outline().points, segment.version());
        let kind = segment.outline().kind;
        Self { kind, ..Self::with_ids(device_id, segment.path(), ids, legs) }
    }

    /// The row of a trip with these samples and ids, at a version.
    ///
    /// # Panics
    /// No id is live.
    #[must_use]
    pub fn from_path(
        device_id: &str,
        path: &Path,
        ids: (&MintPoints, Version),
        legs: LegFilter,
    ) -> Self {
        Self { path: super::encode(path), ..Self::with_ids(device_id, path, ids, legs) }
    }

    /// As [`TripRow::from_path`], with an empty `path`.
    fn with_ids(
        device_id: &str,
        path: &Path,
        (points, version): (&MintPoints, Version),
        legs: LegFilter,
    ) -> Self {
        let (t_star_ms, _) = points.live().expect("one id of a segment is live");
        Self {
            device_id: device_id.to_owned(),
            t_star_ms,
            ids: points.iter().map(|(at, history)| (at, history.to_vec())).collect(),
            version,
            ..Self::of_path(path, legs)
        }
    }

    /// The same row, with all that follows from its path computed again.
    #[must_use]
    pub fn rebuilt(&self, path: &Path, legs: LegFilter) -> Self {
        Self {
            device_id: self.device_id.clone(),
            t_star_ms: self.t_star_ms,
            kind: self.kind,
            ids: self.ids.clone(),
            version: self.version,
            partition: self.partition,
            path: super::encode(path),
            ..Self::of_path(path, legs)
        }
    }

    /// What follows from a path, which is not encoded.
    fn of_path(path: &Path, legs: LegFilter) -> Self {
        let (first, last) = (path.first(), path.last());
        let driver = path.first_driver();
        let derived = PathStats::from_path(path, legs);
        let jump_s = derived.jumps.map(|jumps| seconds(jumps.duration_ms));
        Self {
            device_id: String::new(),
            end_ms: last.time_ms,
            start_ms: first.time_ms,
            t_star_ms: first.time_ms,
            kind: Kind::Trip,
            ids: BTreeMap::new(),
            version: Version::MIN,
            partition: 0,
            samples: samples_of(path.len()),
            moving_ms: derived.moving_ms(),
            idle_ms: derived.idle_ms(),
            parked_ms: derived.parked_ms(),
            distance_m: derived.distance_m,
            max_speed_mps: derived.max(ReadingKind::Speed),
            start_lat: first.lat(),
            start_lon: first.lon(),
            end_lat: last.lat(),
            end_lon: last.lon(),
            min_lat: derived.min_lat,
            min_lon: derived.min_lon,
            max_lat: derived.max_lat,
            max_lon: derived.max_lon,
            driver: driver.map(|(_, name)| name.to_owned()),
            driver_ms: driver.map(|(time_ms, _)| time_ms),
            path: Vec::new(),
            jumps: derived.jumps.map(|jumps| samples_of(jumps.count)),
            jump_s,
        }
    }

    /// The path of a row.
    ///
    /// # Errors
    /// [`RowError`] if the path cannot be decoded or contradicts the columns, or these each other.
    pub fn to_path(&self) -> Result<Path, RowError> {
        let malformed = |reason: String| RowError {
            device: self.device_id.clone(),
            bucket: day_of(self.start_ms).start_ms(),
            start_ms: self.start_ms,
            end_ms: self.end_ms,
            reason,
        };
        self.check().map_err(malformed)?;
        let path = super::decode(&self.path).map_err(|error| malformed(error.to_string()))?;
        if (path.first().time_ms, path.last().time_ms) != (self.start_ms, self.end_ms) {
            return Err(malformed("the path has other ends than the row".into()));
        }
        if usize::try_from(self.samples) != Ok(path.len()) {
            return Err(malformed("the path has another number of samples than the row".into()));
        }
        if path.first_driver().unzip() != (self.driver_ms, self.driver.as_deref()) {
            return Err(malformed("the path has another driver than the row".into()));
        }
        if self.kind == Kind::Stop && path.iter().any(|it| it.class == Class::Moving) {
            return Err(malformed("a sample of the stop is moving".into()));
        }
        if self.kind == Kind::Trip
            && path.get(self.t_star_ms).is_some_and(|it| it.class != Class::Moving)
        {
            return Err(malformed("the sample of its t_star is not moving".into()));
        }
        Ok(path)
    }

    /// Converts a row to its segment. `rules` are those under which it was built.
    ///
    /// # Errors
    /// Those of [`TripRow::to_path`].
    pub fn to_segment(&self, rules: &SegmentRules) -> Result<Segment, RowError> {
        let path = self.to_path()?;
        let history = |versions: &Vec<Version>| versions.iter().copied().collect();
        let points = self.ids.iter().map(|(&at, versions)| (at, history(versions))).collect();
        let mut segment = Segment::loaded(rules, self.kind, points, self.version, path);
        segment.partition = Some(self.partition);
        Ok(segment)
    }

    /// Checks the columns without the path.
    fn check(&self) -> Result<(), String> {
        if self.version < Version(0) {
            return Err(format!("its version is {}", self.version));
        }
        if !(self.start_ms..=self.end_ms).contains(&self.t_star_ms) {
            return Err("t_star lies outside the trip".to_owned());
        }
        self.check_ids()?;
        // An id without a text form cannot be published.
        for &t_star_ms in self.ids.keys() {
            let id = TripId::new(&*self.device_id, t_star_ms).and_then(|id| id.text());
            id.map_err(|error| error.to_string())?;
        }
        match self.not_finite() {
            Some((name, value)) => Err(format!("its {name} is {value}")),
            None => Ok(()),
        }
    }

    /// The UTC days that the trip touches, as whole days since 1970.
    pub fn days(&self) -> impl DoubleEndedIterator<Item = Day> + Clone + use<> {
        day_of(self.start_ms).through(day_of(self.end_ms))
    }

    /// Whether the spans of two rows intersect.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start_ms <= other.end_ms && other.start_ms <= self.end_ms
    }
}

/// A number of samples, or of the legs between them, as a column.
fn samples_of(count: usize) -> i32 {
    i32::try_from(count).expect("max_samples is an i32")
}

/// What the overlap rule compares: a row, or a part of one.
pub trait VersionedSpan {
    /// Times of the first and last sample.
    fn span(&self) -> (DeviceTime, DeviceTime);

    /// Version of the last sample that changed the trip.
    fn version(&self) -> Version;
}

impl<R: Borrow<TripRow>> VersionedSpan for R {
    fn span(&self) -> (DeviceTime, DeviceTime) {
        let row = self.borrow();
        (row.start_ms, row.end_ms)
    }

    fn version(&self) -> Version {
        self.borrow().version
    }
}

/// Applies the overlap rule: of overlapping trips of one device, the one with the highest version
/// wins, whole, and the others are discarded. Accepts rows of one device in any order, with copies;
/// returns each trip once, by start time: of equal copies, the first.
#[must_use]
pub fn resolve_overlaps<R: VersionedSpan>(mut rows: Vec<R>) -> Vec<R> {
    rows.sort_by_key(|row| (std::cmp::Reverse(row.version()), row.span().0));
    let mut stand: BTreeMap<DeviceTime, R> = BTreeMap::new();
    for row in rows {
        let (start_ms, end_ms) = row.span();
        // The winners are disjoint, so only the last one that starts before this row's end can
        // overlap it.
        let before = stand.range(..=end_ms).next_back();
        if before.is_none_or(|(_, other)| start_ms > other.span().1) {
            stand.insert(start_ms, row);
        }
    }
    stand.into_values().collect()
}
