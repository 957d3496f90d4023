//! The events of the change feed: each a function of a trip's row and of the changes it tells.

use serde::Serialize;

use crate::model::time::format_time;
use crate::store::{Change, Forgotten, TripRow};
use crate::views::{SurfaceError, TripJson, text_id};

/// An event, keys in the order of the contract.
#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    absorbed: Vec<String>,
    version: i64,
    /// Which part of it this is, from 1, and of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    trip: TripJson,
}

/// The event of trips that were erased.
#[derive(Serialize)]
struct ForgottenEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    device_id: &'a str,
    before: String,
    version: i64,
}

impl Event {
    fn new(change: &Change, row: &TripRow) -> Result<Self, SurfaceError> {
        let retired = change.retired.iter().map(|t_star_ms| text_id(&row.device_id, *t_star_ms));
        let absorbed = retired.collect::<Result<_, _>>()?;
        let trip = TripJson::from_row(row)?;
        let (kind, id, version) = (change.kind.name(), trip.id.clone(), row.version);
        Ok(Self { kind, id, absorbed, version, part: None, parts: None, trip })
    }

    fn text(&self) -> String {
        serde_json::to_string(self).expect("an event is plain data")
    }
}

/// The event of a change, as one line of JSON: `{type, id, absorbed, version, trip}`, `absorbed`
/// being the ids that this change retired, `trip` the trip without its path.
///
/// # Errors
/// An id of the trip has no text form.
pub fn event(change: &Change, row: &TripRow) -> Result<String, SurfaceError> {
    Ok(Event::new(change, row)?.text())
}

/// The event of a change within so many bytes: where it is longer, and names ids, in parts. Each is
/// an event of the trip as it is, with `part` (from 1) and `parts`, and has its share of the ids of
/// `absorbed` and of `trip.absorbed`: a consumer that needs spans alone may take any of them, and
/// one that keeps ids apart learns of every one that was retired.
///
/// # Errors
/// An id of the trip has no text form.
pub fn events(change: &Change, row: &TripRow, most: usize) -> Result<Vec<String>, SurfaceError> {
    let mut event = Event::new(change, row)?;
    let whole = event.text();
    let retired = std::mem::take(&mut event.absorbed);
    let absorbed = std::mem::take(&mut event.trip.absorbed);
    let Some(id) = retired.first().or(absorbed.first()).filter(|_| whole.len() > most) else {
        return Ok(vec![whole]);
    };
    (event.part, event.parts) = (Some(usize::MAX), Some(usize::MAX));
    // Of one device every id is as long, with quotes and a comma.
    let each = (most.saturating_sub(event.text().len()) / (id.len() + 3)).max(1);
    let parts = (retired.len() + absorbed.len()).div_ceil(each);
    let share = |ids: &[String], nth: usize, before: usize| -> Vec<String> {
        let place = |at: usize| at.saturating_sub(before).min(ids.len());
        ids[place(nth * each)..place((nth + 1) * each)].to_vec()
    };
    let part = |nth| {
        (event.part, event.parts) = (Some(nth + 1), Some(parts));
        event.absorbed = share(&retired, nth, 0);
        event.trip.absorbed = share(&absorbed, nth, retired.len());
        event.text()
    };
    Ok((0..parts).map(part).collect())
}

/// The event of a forget that was carried out, as one line of JSON: `{type, device_id, before,
/// version}`: every trip of the device that ends before `before` is gone.
#[must_use]
pub fn forgotten(forgotten: &Forgotten) -> String {
    let event = ForgottenEvent {
        kind: "forgotten",
        device_id: &forgotten.device_id,
        before: format_time(forgotten.forget.before_ms),
        version: forgotten.forget.version,
    };
    serde_json::to_string(&event).expect("an event is plain data")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::store::ChangeKind;
    use crate::timeline::{Limits, RawSample, Sample, Timeline};

    /// A trip of a device with the longest id there is, as a small `--max-gap` allows: every second
    /// sample joins two trips.
    fn merged(samples: i64) -> (Change, TripRow) {
        let mut timeline = Timeline::default();
        let limits = Limits { max_gap_ms: 1000, ..Limits::default() };
        let (even, odd) = ((0..samples).step_by(2), (1..samples - 1).step_by(2));
        for (version, second) in (1..).zip(even.chain(odd)) {
            let stated = RawSample { time_ms: second * 1000, ..RawSample::default() };
            timeline.absorb(&limits, version * 2, Sample::quantised(&stated).unwrap(), None);
        }
        let row = TripRow::from_trip(&"\u{1}".repeat(256), timeline.trips().next().unwrap());
        let retired = row.absorbed.keys().copied().skip(3).collect();
        (Change { kind: ChangeKind::Merged, retired, row: 0 }, row)
    }

    fn ids(of: &Value) -> impl Iterator<Item = String> {
        of.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned())
    }

    #[test]
    fn an_event_that_is_too_long_comes_in_parts_that_name_every_id_once() {
        let (change, row) = merged(2001);
        let whole = event(&change, &row).unwrap();
        assert!(whole.len() > 1_500_000, "{} bytes", whole.len());
        assert_eq!(events(&change, &row, whole.len()).unwrap(), [whole.as_str()]);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        for most in [8_000, 100_000, 1_000_000] {
            let parts = events(&change, &row, most).unwrap();
            let (mut absorbed, mut of_trip) = (Vec::new(), Vec::new());
            for (nth, part) in (1..).zip(&parts) {
                assert!(part.len() <= most, "{} of {most}", part.len());
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
    fn an_event_that_names_no_ids_has_no_parts() {
        let (change, row) = merged(1);
        let whole = event(&change, &row).unwrap();
        assert_eq!(events(&change, &row, 10).unwrap(), [whole]);
    }
}
