//! Trips, stops and change events as JSON, with the fields of tstar's HTTP API.

use serde::Serialize;
use tstar_core::fleet::{ChangeGroup, SegmentChange};
use tstar_core::identity::{IdError, TripId};
use tstar_core::model::time::format_time;
use tstar_core::segment::TakenSpan;
use tstar_core::timeline::{LegFilter, PathStats, ReadingKind, Sample, distance_dm};
use tstar_core::{DeviceTime, Segment, Version};

use crate::error::CallError;

/// The largest answer, bytes: a host reads it as one text.
const MAX_ANSWER: usize = 256 << 20;

/// A position, degrees.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct LatLon {
    lat: f64,
    lon: f64,
}

/// A trip or stop.
#[derive(Serialize)]
pub(crate) struct TripJson {
    id: String,
    device_id: String,
    kind: &'static str,
    t_star: String,
    start_time: String,
    end_time: String,
    duration_s: f64,
    moving_s: Option<f64>,
    idle_s: Option<f64>,
    parked_s: f64,
    samples: usize,
    distance_m: f64,
    avg_speed_mps: Option<f64>,
    max_speed_mps: Option<f64>,
    jumps: Option<usize>,
    driver: Option<String>,
    start: LatLon,
    end: LatLon,
    bbox: [f64; 4],
    absorbed: Vec<String>,
    version: i64,
}

/// Changes of a device that belong together.
#[derive(Serialize)]
pub(crate) struct GroupJson<'a> {
    device_id: &'a str,
    taken: Vec<TakenJson>,
    events: Vec<EventJson>,
}

/// A span of which nothing is left: what ends within it, unless its version is greater.
#[derive(Serialize)]
struct TakenJson {
    start_time: String,
    end_time: String,
    version: i64,
}

/// An id of a segment.
#[derive(Serialize)]
pub(crate) struct IdHistory {
    id: String,
    /// At which it was minted, retired, revived and so on.
    versions: Vec<i64>,
}

/// A change event.
#[derive(Serialize)]
struct EventJson {
    #[serde(rename = "type")]
    change: &'static str,
    id: String,
    kind: &'static str,
    /// The ids that the change retired.
    absorbed: Vec<String>,
    version: i64,
    trip: TripJson,
}

#[expect(clippy::cast_precision_loss, reason = "a duration below 2^53 ms")]
fn seconds(duration_ms: i64) -> f64 {
    duration_ms as f64 / 1e3
}

fn position(sample: &Sample) -> LatLon {
    LatLon { lat: sample.lat(), lon: sample.lon() }
}

fn texts(device_id: &str, times: impl Iterator<Item = DeviceTime>) -> Result<Vec<String>, IdError> {
    times.map(|at| TripId::new(device_id, at)?.text()).collect()
}

impl TripJson {
    /// A segment of a device.
    pub(crate) fn new(
        device_id: &str,
        segment: &Segment,
        legs: LegFilter,
    ) -> Result<Self, CallError> {
        let (path, t_star_ms) = (segment.path(), segment.t_star_ms());
        let (first, last) = (path.first(), path.last());
        let stats = PathStats::from_path(path, legs);
        let time = |at: DeviceTime| format_time(at.ms());
        let retired = segment.outline().points.iter().map(|(at, _)| at);
        let retired = retired.filter(|at| *at != t_star_ms);
        let duration_s = seconds(last.time_ms - first.time_ms);
        let counted_s = duration_s - stats.jumps.map_or(0.0, |jumps| seconds(jumps.duration_ms));
        let average = |counted_s: f64| (stats.distance_m / counted_s * 100.0).round() / 100.0;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let distance_m = distance_dm(stats.distance_m) as f64 / 10.0;
        Ok(Self {
            id: TripId::new(device_id, t_star_ms)?.text()?,
            device_id: device_id.to_owned(),
            kind: segment.outline().kind.name(),
            t_star: time(t_star_ms),
            start_time: time(first.time_ms),
            end_time: time(last.time_ms),
            duration_s,
            moving_s: stats.moving_ms().map(seconds),
            idle_s: stats.idle_ms().map(seconds),
            parked_s: seconds(stats.parked_ms()),
            samples: path.len(),
            distance_m,
            avg_speed_mps: (counted_s > 0.0).then(|| average(counted_s)),
            max_speed_mps: stats.max(ReadingKind::Speed),
            jumps: stats.jumps.map(|jumps| jumps.count),
            driver: path.first_driver().map(|(_, name)| name.to_owned()),
            start: position(first),
            end: position(last),
            bbox: [stats.min_lon, stats.min_lat, stats.max_lon, stats.max_lat],
            absorbed: texts(device_id, retired)?,
            version: segment.version().get(),
        })
    }
}

impl<'a> GroupJson<'a> {
    /// A group of changes.
    pub(crate) fn new(group: &ChangeGroup<'a>, legs: LegFilter) -> Result<Self, CallError> {
        let device_id = group.device_id;
        let taken = |span: &TakenSpan| TakenJson {
            start_time: format_time(span.start_ms.ms()),
            end_time: format_time(span.end_ms.ms()),
            version: span.version.get(),
        };
        let events = group.segments.iter().map(|it| EventJson::new(device_id, it, legs));
        let taken = group.taken.iter().map(taken).collect();
        Ok(Self { device_id, taken, events: events.collect::<Result<_, _>>()? })
    }
}

/// The ids of a segment by time, with their histories.
pub(crate) fn history(device_id: &str, segment: &Segment) -> Result<Vec<IdHistory>, CallError> {
    let points = segment.outline().points.iter();
    let of = |(at, versions): (DeviceTime, &[Version])| {
        let id = TripId::new(device_id, at)?.text()?;
        Ok(IdHistory { id, versions: versions.iter().map(|it| it.get()).collect() })
    };
    points.map(of).collect()
}

impl EventJson {
    /// A change of a device.
    fn new(
        device_id: &str,
        change: &SegmentChange<'_>,
        legs: LegFilter,
    ) -> Result<Self, CallError> {
        let trip = TripJson::new(device_id, change.segment, legs)?;
        Ok(Self {
            change: change.event.kind.name(),
            id: trip.id.clone(),
            kind: trip.kind,
            absorbed: texts(device_id, change.event.retired.iter().copied())?,
            version: trip.version,
            trip,
        })
    }
}

/// Appends a JSON array.
pub(crate) fn write_list<T: Serialize>(
    answer: &mut Vec<u8>,
    items: impl Iterator<Item = Result<T, CallError>>,
) -> Result<(), CallError> {
    answer.push(b'[');
    let mut is_first = true;
    for item in items {
        if !std::mem::take(&mut is_first) {
            answer.push(b',');
        }
        serde_json::to_writer(&mut *answer, &item?)
            .map_err(|error| CallError::input("answer", error))?;
        if answer.len() > MAX_ANSWER {
            return Err(CallError::Answer { limit: MAX_ANSWER });
        }
    }
    answer.push(b']');
    Ok(())
}
