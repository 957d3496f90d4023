//! Fields that are found by values alone, where names say nothing.

use std::collections::BTreeMap;

use super::{Candidate, ProposedMap};
use crate::source::outline::{NameValues, Outline};
use crate::source::time_forms::TimeForms;

/// Maximum number of names that a field may be.
const MAX_CANDIDATES: usize = 8;

/// Part of the way between neighbours that is more than a step of a vehicle, degrees.
const STEP: f64 = 0.1;

/// Latitudes of Europe, and longitudes of it that are none of these: where a pair of numbers is in
/// these ranges, it is known which is which.
const EUROPE: [(f64, f64); 2] = [(34.0, 72.0), (-25.0, 34.0)];

/// The columns of the place, by their values.
pub(super) struct Places<'a> {
    pub lat: &'a str,
    pub lon: &'a str,
    first: (f64, f64),
}

impl Places<'_> {
    /// What to check.
    pub(super) fn to_check(&self) -> String {
        let Self { lat, lon, first } = self;
        format!(
            "`{lat}` and `{lon}` are taken for lat and lon by their values: the first place is {} \
             degrees north, {} east; exchange them if it is not",
            first.0, first.1
        )
    }
}

/// Whether the values are those of a coordinate: a smooth way of many decimals.
fn is_coordinate(seen: &NameValues) -> bool {
    let numbers: Vec<f64> = seen.first_numbers().collect();
    let decimals = |text: &&String| text.split_once('.').is_some_and(|(_, part)| part.len() >= 3);
    let exact = seen.examples.iter().filter(decimals).count();
    if numbers.len() < 3 || exact * 2 < numbers.len() || !seen.is_mostly_within(-180.0, 180.0) {
        return false;
    }
    let steps = numbers.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let smooth = steps.filter(|step| *step < STEP).count();
    let first = numbers[0];
    let is_constant = numbers.iter().all(|number| (number - first).abs() < f64::EPSILON);
    !is_constant && smooth * 10 >= (numbers.len() - 1) * 8
}

/// The columns that are coordinates, in their order.
fn coordinates(outline: &Outline) -> Vec<(&str, &NameValues)> {
    let mut found: Vec<_> = outline.names().filter(|(_, seen)| is_coordinate(seen)).collect();
    found.sort_by_key(|(_, seen)| seen.order);
    found
}

/// The place, if two columns are coordinates, and their ranges show which is the latitude.
pub(super) fn places(outline: &Outline) -> Option<Places<'_>> {
    let [one, other] = coordinates(outline)[..] else { return None };
    let is_lat = |lat: &NameValues, lon: &NameValues| {
        let is_beyond = !lon.is_mostly_within(-90.0, 90.0) && lat.is_mostly_within(-90.0, 90.0);
        let [lats, lons] = EUROPE;
        is_beyond || (lat.is_mostly_within(lats.0, lats.1) && lon.is_mostly_within(lons.0, lons.1))
    };
    let ((lat, lats), (lon, lons)) = match (is_lat(one.1, other.1), is_lat(other.1, one.1)) {
        (true, false) => (one, other),
        (false, true) => (other, one),
        _ => return None,
    };
    let first = (lats.first_numbers().next()?, lons.first_numbers().next()?);
    Some(Places { lat, lon, first })
}

/// The time: the only name with times, or the only date with the only time of a day.
pub(super) fn time(outline: &Outline) -> Option<String> {
    let all = |is: fn(&TimeForms) -> bool| -> Vec<&str> {
        outline.names().filter(|(_, seen)| is(seen.times())).map(|(name, _)| name).collect()
    };
    let (times, dates, clocks) =
        (all(TimeForms::is_time), all(TimeForms::is_date), all(TimeForms::is_clock));
    match (&times[..], &dates[..], &clocks[..]) {
        ([time], _, _) => Some(source(time)),
        ([], [date], [clock]) => Some(join(date, clock)),
        _ => None,
    }
}

/// The ignition: the only name around the position whose values are words for on and off.
pub(super) fn ignition<'a>(
    outline: &'a Outline,
    is_around: impl Fn(&Candidate<'_>) -> bool,
) -> Option<Candidate<'a>> {
    let switches = outline.names().filter(|(_, seen)| seen.is_on_and_off());
    let switches = switches.map(|(path, _)| Candidate { path, rank: 0 });
    let switches: Vec<_> = switches.filter(is_around).collect();
    match switches[..] {
        [switch] => Some(switch),
        _ => None,
    }
}

/// A name as a source of the time: with a `+` in it, it is a pointer.
fn source(name: &str) -> String {
    match name.contains('+') && !name.starts_with('/') {
        true => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        false => name.to_owned(),
    }
}

fn join(date: &str, clock: &str) -> String {
    let is_plain = |name: &str| !name.starts_with('/') && !name.contains('+');
    match is_plain(date) && is_plain(clock) {
        true => format!("{date}+{clock}"),
        false => [date, clock]
            .map(|name| match name.starts_with('/') {
                true => name.to_owned(),
                false => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            })
            .join("+"),
    }
}

/// The names that each missing field may be. Of a device that nothing names, those whose values
/// repeat.
pub(super) fn candidates(
    outline: &Outline,
    map: &ProposedMap,
) -> BTreeMap<&'static str, Vec<String>> {
    let is_used = |name: &str| map.fields.values().any(|source| source == name);
    let fitting = |is: &dyn Fn(&NameValues) -> bool| -> Vec<String> {
        let mut names: Vec<_> =
            outline.names().filter(|(name, seen)| !is_used(name) && is(seen)).collect();
        names.sort_by_key(|(_, seen)| seen.order);
        names.into_iter().take(MAX_CANDIDATES).map(|(name, _)| name.to_owned()).collect()
    };
    let mut candidates = BTreeMap::new();
    for field in &map.missing {
        let names = match *field {
            "time" => fitting(&|seen| {
                let times = seen.times();
                times.is_time() || times.is_date() || times.is_clock()
            }),
            "lat" | "lon" => fitting(&|seen| {
                seen.numbers == seen.count && seen.count > 0 && seen.is_mostly_within(-180.0, 180.0)
            }),
            _ => fitting(&NameValues::repeats),
        };
        candidates.insert(*field, names);
    }
    if map.fields.get("device_id").is_some_and(|source| source == "@file") {
        let is_device = |seen: &NameValues| {
            seen.repeats() && seen.switches < seen.count && !seen.times().is_date()
        };
        candidates.insert("device_id", fitting(&is_device));
    }
    candidates.retain(|_, names| !names.is_empty());
    candidates
}
