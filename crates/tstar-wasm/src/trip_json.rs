//! Trips, stops and change events as JSON, with the fields of tstar's HTTP API.

use serde::Serialize;
use tstar_core::codec::trip_fields::trip_fields;
use tstar_core::codec::trip_row::TripRow;
use tstar_core::fleet::{ChangeGroup, SegmentChange};
use tstar_core::identity::{IdError, TripId};
use tstar_core::model::time::format_time;
use tstar_core::segment::TakenSpan;
use tstar_core::timeline::LegFilter;
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

/// The zone of times.
struct Utc;

impl Utc {
    fn text(&self, at: DeviceTime) -> String {
        format_time(at.ms())
    }
}

macro_rules! define_trip {
    (($row:ident, $zone:ident, $text_id:ident), $(
        $(#[doc = $doc:literal])* $(#[schema($($schema:tt)*)])?
        $name:ident: $type:ty, $columns:tt = $value:expr;
    )*) => {
        /// A trip or stop.
        #[derive(Serialize)]
        pub(crate) struct TripJson {
            $($(#[doc = $doc])* $name: $type,)*
        }

        impl TripJson {
            /// A segment of a device.
            pub(crate) fn new(
                device_id: &str,
                segment: &Segment,
                legs: LegFilter,
            ) -> Result<Self, CallError> {
                let $row = &TripRow::without_path(device_id, segment, legs);
                let ($zone, $text_id) = (Utc, |_: &TripRow, at| text_id(device_id, at));
                Ok(Self { $($name: $value,)* })
            }
        }
    };
}

trip_fields!(define_trip);

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
    kind: String,
    /// The ids that the change retired.
    absorbed: Vec<String>,
    version: i64,
    trip: TripJson,
}

fn text_id(device_id: &str, at: DeviceTime) -> Result<String, IdError> {
    TripId::new(device_id, at)?.text()
}

fn texts(device_id: &str, times: impl Iterator<Item = DeviceTime>) -> Result<Vec<String>, IdError> {
    times.map(|at| text_id(device_id, at)).collect()
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
        let id = text_id(device_id, at)?;
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
            kind: trip.kind.clone(),
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
