//! The events of the change feed. Each is a function of a row and of the change it reports.

use serde::Serialize;

use crate::codec::trip_row::TripRow;
use crate::model::change::{Change, Forgotten};
use crate::model::scalar::Version;
use crate::model::tag::Tag;
use crate::model::time::format_time;
use crate::views::{TripJson, ViewError, tagged_id, text_id};

/// A change event, keys in the order of the contract.
#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    change: &'static str,
    id: String,
    kind: &'static str,
    absorbed: Vec<String>,
    version: Version,
    /// Number of this part, from 1, if the event was split.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    /// Number of parts, if the event was split.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    trip: TripJson,
}

/// The event of an erasure.
#[derive(Serialize)]
struct ForgottenEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    device_id: &'a str,
    before: String,
    version: Version,
}

/// The event of a tag.
#[derive(Serialize)]
struct TaggedEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    device_id: &'a str,
    /// Null: it is a tag of the device.
    id: Option<String>,
    key: &'a str,
    /// Null: it was removed.
    value: Option<&'a str>,
    time: String,
    revision: String,
}

impl Event {
    fn new(change: &Change, row: &TripRow) -> Result<Self, ViewError> {
        let retired = change.retired.iter().map(|t_star_ms| text_id(&row.device_id, *t_star_ms));
        let absorbed = retired.collect::<Result<_, _>>()?;
        let trip = TripJson::from_row(row)?;
        let (id, kind, version) = (trip.id.clone(), row.kind.name(), row.version);
        let change = change.kind.name();
        Ok(Self { change, id, kind, absorbed, version, part: None, parts: None, trip })
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event is plain data")
    }
}

/// The event of a change, as one line of JSON: `{type, id, kind, absorbed, version, trip}`. `kind`
/// is trip or stop, `absorbed` holds the ids that this change retired, `trip` the trip or stop
/// without its path.
///
/// # Errors
/// An id of the trip has no text form.
pub fn event(change: &Change, row: &TripRow) -> Result<String, ViewError> {
    Ok(Event::new(change, row)?.to_json())
}

/// The event of a change, split into parts if it is longer than `max_bytes` and names retired ids.
/// Each part is a complete event with `part` (from 1) and `parts`, and holds a share of the ids in
/// `absorbed` and `trip.absorbed`. A consumer that only needs spans can use any part; one that
/// tracks ids gets every retired id from all of them.
///
/// # Errors
/// An id of the trip has no text form.
pub fn events(change: &Change, row: &TripRow, max_bytes: usize) -> Result<Vec<String>, ViewError> {
    let mut event = Event::new(change, row)?;
    let whole = event.to_json();
    let retired = std::mem::take(&mut event.absorbed);
    let absorbed = std::mem::take(&mut event.trip.absorbed);
    let Some(id) = retired.first().or(absorbed.first()).filter(|_| whole.len() > max_bytes) else {
        return Ok(vec![whole]);
    };
    (event.part, event.parts) = (Some(usize::MAX), Some(usize::MAX));
    // All ids of a device have the same length; quotes and a comma add 3 bytes.
    let per_part = (max_bytes.saturating_sub(event.to_json().len()) / (id.len() + 3)).max(1);
    let parts = (retired.len() + absorbed.len()).div_ceil(per_part);
    let share = |ids: &[String], nth: usize, before: usize| -> Vec<String> {
        let index = |at: usize| at.saturating_sub(before).min(ids.len());
        ids[index(nth * per_part)..index((nth + 1) * per_part)].to_vec()
    };
    let part = |nth| {
        (event.part, event.parts) = (Some(nth + 1), Some(parts));
        event.absorbed = share(&retired, nth, 0);
        event.trip.absorbed = share(&absorbed, nth, retired.len());
        event.to_json()
    };
    Ok((0..parts).map(part).collect())
}

/// The event of an executed forget, as one line of JSON: `{type, device_id, before, version}`.
/// Every trip of the device that ends before `before` is erased.
#[must_use]
pub fn forgotten(forgotten: &Forgotten) -> String {
    let event = ForgottenEvent {
        kind: "forgotten",
        device_id: &forgotten.device_id,
        before: format_time(forgotten.forget.before_ms.ms()),
        version: forgotten.forget.version,
    };
    serde_json::to_string(&event).expect("an event is plain data")
}

/// The event of a tag that was set at an id or, if `is_removed`, removed from it, as one line of
/// JSON: `{type, device_id, id, key, value, time, revision}`. `id` is null if it is a tag of the
/// device. The trip does not change: the event has no version, and its place among other events
/// means nothing.
///
/// # Errors
/// The id has no text form.
pub fn tagged(device_id: &str, tag: &Tag, is_removed: bool) -> Result<String, ViewError> {
    let event = TaggedEvent {
        kind: "tagged",
        device_id,
        id: tagged_id(device_id, tag)?,
        key: tag.key.as_str(),
        value: (!is_removed).then(|| tag.value.as_str()),
        time: format_time(tag.written_ms),
        revision: tag.revision.to_string(),
    };
    Ok(serde_json::to_string(&event).expect("an event is plain data"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::model::change::ChangeKind;
    use crate::model::scalar::DeviceTime;
    use crate::segment::{SegmentRules, Timeline};
    use crate::timeline::{LegFilter, RawSample, Sample};

    /// A trip with many retired ids, of a device with the longest possible id: every second sample
    /// joins two trips.
    fn merged(samples: i64) -> (Change, TripRow) {
        let mut timeline = Timeline::in_memory();
        let limits = SegmentRules { max_gap_ms: 1000, ..SegmentRules::default() };
        let (even, odd) = ((0..samples).step_by(2), (1..samples - 1).step_by(2));
        for (version, second) in (1..).zip(even.chain(odd)) {
            let raw = RawSample { time_ms: DeviceTime(second * 1000), ..RawSample::default() };
            let sample = Sample::quantised(&raw).unwrap();
            let sample = Sample { version: Version(version * 2), ..sample };
            timeline.absorb(&limits, sample, None);
        }
        let trip = timeline.segments().next().unwrap();
        let row = TripRow::from_segment(&"\u{1}".repeat(256), trip, LegFilter::default());
        let retired = row.absorbed().map(|(t_star_ms, _)| t_star_ms).skip(3).collect();
        (Change { kind: ChangeKind::Merged, retired, row: 0, in_past: false }, row)
    }

    fn ids(array: &Value) -> impl Iterator<Item = String> {
        array.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned())
    }

    #[test]
    fn a_long_event_is_split_and_names_every_id_once() {
        let (change, row) = merged(2001);
        let whole = event(&change, &row).unwrap();
        assert!(whole.len() > 1_500_000, "{} bytes", whole.len());
        assert_eq!(events(&change, &row, whole.len()).unwrap(), [whole.as_str()]);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        for max_bytes in [8_000, 100_000, 1_000_000] {
            let parts = events(&change, &row, max_bytes).unwrap();
            let (mut absorbed, mut of_trip) = (Vec::new(), Vec::new());
            for (nth, part) in (1..).zip(&parts) {
                assert!(part.len() <= max_bytes, "{} of {max_bytes}", part.len());
                let mut part: Value = serde_json::from_str(part).unwrap();
                absorbed.extend(ids(&part["absorbed"]));
                of_trip.extend(ids(&part["trip"]["absorbed"]));
                assert_eq!((&part["part"], &part["parts"]), (&nth.into(), &parts.len().into()));
                let rest = part.as_object_mut().unwrap();
                rest.retain(|name, _| name != "part" && name != "parts");
                part["absorbed"] = whole["absorbed"].clone();
                part["trip"]["absorbed"] = whole["trip"]["absorbed"].clone();
                assert_eq!(part, whole);
            }
            assert!(absorbed.iter().eq(ids(&whole["absorbed"]).collect::<Vec<_>>().iter()));
            assert!(of_trip.iter().eq(ids(&whole["trip"]["absorbed"]).collect::<Vec<_>>().iter()));
            assert_eq!(of_trip.iter().collect::<BTreeSet<_>>().len(), 1000);
        }
    }

    #[test]
    fn an_event_without_retired_ids_is_not_split() {
        let (change, row) = merged(1);
        let whole = event(&change, &row).unwrap();
        assert_eq!(events(&change, &row, 10).unwrap(), [whole]);
    }
}
