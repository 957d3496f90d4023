//! Proposes a field map by the names in records and what their values look like.

mod names;
mod values;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::names::{plain, rank};
use super::fields::Field;
use super::outline::{NameValues, Outline};
use crate::model::rules::SpeedUnit;

/// What surrounds records that have no device of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surroundings {
    /// The name of a file.
    File,
    /// The key of a record.
    Key,
    /// Nothing that names a device, such as stdin.
    Nothing,
}

/// A field map, as far as it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProposedMap {
    /// Source of each field by its canonical name, and what else the map says.
    pub fields: BTreeMap<String, String>,
    /// Canonical names of the required fields that were not found.
    pub missing: Vec<&'static str>,
    /// Unit of speeds, if the name of the field says it.
    pub speed_unit: Option<SpeedUnit>,
    /// The names that each required field may be, where several may or none surely is.
    pub candidates: BTreeMap<&'static str, Vec<String>>,
    /// What to check: fields that were found by their values alone.
    pub notes: Vec<String>,
}

impl ProposedMap {
    /// Adds the source of a name, unless it has one.
    fn add(&mut self, name: &str, source: String) {
        self.fields.entry(name.into()).or_insert(source);
    }
}

/// The unit that the name of a speed says.
fn unit_of(name: &str) -> Option<SpeedUnit> {
    let says = |texts: &[&str]| texts.iter().any(|text| name.ends_with(text));
    if says(&["kmh", "kph"]) {
        Some(SpeedUnit::KilometresPerHour)
    } else if says(&["mph", "milesperhour"]) {
        Some(SpeedUnit::MilesPerHour)
    } else if says(&["knots", "speedkn"]) {
        Some(SpeedUnit::Knots)
    } else if says(&["speedms", "mps", "meterspersecond"]) {
        Some(SpeedUnit::MetresPerSecond)
    } else {
        None
    }
}

/// A name that may be a field.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    path: &'a str,
    /// Rank of its name.
    rank: usize,
}

impl<'a> Candidate<'a> {
    /// The path of the object that it is in, and its own name.
    fn split(&self) -> (&'a str, &'a str) {
        // A point at the end is that of an abbreviation.
        let named = self.path.rsplit_once(['/', '.']).filter(|(_, name)| !name.is_empty());
        named.unwrap_or(("", self.path))
    }

    fn object(&self) -> &'a str {
        self.split().0
    }

    /// The path of the element of an array that it is in, up to the last `*`.
    fn element(&self) -> &'a str {
        self.path.rfind("/*").map_or("", |at| &self.path[..at + 2])
    }

    /// Its source in a map: in the element that it is in.
    fn source(&self) -> String {
        self.path[self.element().len()..].to_owned()
    }

    /// What to check of an ignition that was found by its values.
    fn choice(&self) -> String {
        format!(
            "`{}` is taken for the ignition by its values; write ignition=none in --map if it is \
             not",
            self.path
        )
    }

    /// Number of steps from an object to its own.
    fn distance(&self, object: &str) -> usize {
        let steps =
            |path: &str| -> Vec<String> { path.split(['/', '.']).map(str::to_owned).collect() };
        let (own, other) = (steps(self.object()), steps(object));
        let common = own.iter().zip(&other).take_while(|(one, other)| one == other).count();
        own.len() + other.len() - 2 * common
    }
}

/// Whether the values may be those of a field. `name` is empty if it means something only in its
/// object.
fn fits(field: Field, name: &str, seen: &NameValues) -> bool {
    if seen.count == 0 {
        // A column without values, or a table without rows: the number of a row, most likely.
        return !matches!(&*plain(name), "id" | "name" | "x" | "y" | "t");
    }
    match field {
        Field::Lat => seen.is_mostly_within(-90.0, 90.0),
        Field::Lon => seen.is_mostly_within(-180.0, 180.0),
        // As well the number of a record.
        Field::DeviceId if matches!(&*plain(name), "id" | "name") => seen.repeats(),
        Field::DeviceId | Field::Driver => seen.booleans == 0,
        Field::Time => {
            let digits = |text: &String| text.bytes().filter(u8::is_ascii_digit).count();
            let is_text = seen.numbers == 0 && seen.booleans == 0;
            let is_long = is_text && seen.examples.first().is_some_and(|it| digits(it) >= 8);
            let forms = seen.times();
            seen.is_within(3e8, 5e18)
                || forms.is_time()
                || (is_long && !forms.is_date() && !forms.is_clock())
        }
        Field::Ignition => seen.booleans == seen.count || seen.switches * 10 >= seen.count * 9,
        // States of an ignition, most likely.
        Field::Accuracy => seen.numbers == seen.count && seen.switches < seen.count,
        _ => seen.numbers == seen.count,
    }
}

fn candidates<'a>(outline: &'a Outline, field: Field) -> Vec<Candidate<'a>> {
    let found = |(path, seen): (&'a str, &'a NameValues)| {
        let found = Candidate { path, rank: 0 };
        let (object, name) = found.split();
        let object = Candidate { path: object, rank: 0 }.split().1;
        let (rank, is_own) = rank(field, object, name)?;
        fits(field, if is_own { name } else { "" }, seen).then_some(Candidate { path, rank })
    };
    outline.names().filter_map(found).collect()
}

/// The column `id` of a table: that of a device, if its values repeat, or else the number of a row.
#[must_use]
pub(crate) fn id_column(outline: &Outline) -> Option<&str> {
    outline.names().map(|(name, _)| name).find(|name| plain(name) == "id")
}

/// The names that a field may be: if it is given, only that one.
fn candidates_over<'a>(
    given: &'a BTreeMap<String, String>,
    outline: &'a Outline,
    field: Field,
) -> Vec<Candidate<'a>> {
    let Some(source) = given.get(field.name()) else { return candidates(outline, field) };
    let is_it = |it: &Candidate<'_>| {
        let own = it.source();
        own == *source || own.strip_prefix('/') == Some(source)
    };
    let known = outline.names().map(|(path, _)| Candidate { path, rank: 0 }).find(is_it);
    vec![known.unwrap_or(Candidate { path: source, rank: 0 })]
}

/// The names of the place that fit each other best.
fn find_place<'a>(
    given: &'a BTreeMap<String, String>,
    outline: &'a Outline,
) -> Option<(Candidate<'a>, Candidate<'a>)> {
    let [lats, lons] = [Field::Lat, Field::Lon].map(|it| candidates_over(given, outline, it));
    let is_given = given.contains_key("lat") || given.contains_key("lon");
    let pairs = lats.iter().flat_map(|lat| lons.iter().map(move |lon| (*lat, *lon)));
    pairs
        .filter(|(lat, lon)| is_given || lat.object() == lon.object())
        .filter(|(lat, lon)| lat.path != lon.path)
        .min_by_key(|(lat, lon)| (lat.rank + lon.rank, lat.path.len()))
}

/// Proposes a field map, in which what is `given` holds. `surroundings` name the device where
/// records do not.
#[must_use]
pub(crate) fn propose(
    outline: &Outline,
    surroundings: Surroundings,
    given: &BTreeMap<String, String>,
) -> ProposedMap {
    let mut map = ProposedMap { fields: given.clone(), ..ProposedMap::default() };
    let pair = find_place(given, outline);
    let by_values = if pair.is_none() { values::places(outline) } else { None };
    let lat = match (pair, &by_values) {
        (Some((lat, lon)), _) => {
            map.add("lat", lat.source());
            map.add("lon", lon.source());
            lat
        }
        (None, Some(found)) => {
            map.add("lat", found.lat.into());
            map.add("lon", found.lon.into());
            map.notes.push(found.to_check());
            Candidate { path: found.lat, rank: 0 }
        }
        // In a table, the other columns are those of the place.
        (None, None) => Candidate { path: "", rank: 0 },
    };
    if let Some((arrays, _)) = lat.path.rsplit_once("/*") {
        map.add("samples", arrays.into());
    }
    if let Some(opened) = outline.opened().filter(|path| lat.path.starts_with(*path)) {
        map.add("open", opened.into());
    }
    add_others(&mut map, outline, &lat);
    if !map.fields.contains_key("time") {
        map.fields.extend(values::time(outline).map(|source| ("time".into(), source)));
    }
    if !map.fields.contains_key("device_id") {
        let device = match surroundings {
            Surroundings::File => Some("@file"),
            Surroundings::Key => Some("@key"),
            Surroundings::Nothing => None,
        };
        map.fields.extend(device.map(|source| ("device_id".into(), source.into())));
    }
    let required = Field::REQUIRED.map(Field::name).into_iter();
    map.missing = required.filter(|name| !map.fields.contains_key(*name)).collect();
    map.candidates = values::candidates(outline, &map);
    map
}

/// Adds the fields other than the place, by their names.
fn add_others(map: &mut ProposedMap, outline: &Outline, lat: &Candidate<'_>) {
    let is_open = |field: &Field| !map.fields.contains_key(field.name());
    let rest: Vec<_> = Field::ALL.into_iter().filter(is_open).collect();
    for field in rest.into_iter().filter(|it| !matches!(it, Field::Lat | Field::Lon)) {
        // In the same element of an array as the position, or in one around it.
        let is_around = |it: &Candidate<'_>| {
            lat.path.starts_with(it.element())
                && !map.fields.values().any(|used| *used == it.source())
        };
        let around = candidates(outline, field).into_iter().filter(is_around);
        let best = match field {
            Field::DeviceId => {
                around.min_by_key(|it| (it.rank, it.distance(lat.object()), it.path.len()))
            }
            _ => around
                .min_by_key(|it| (Reverse(it.element().len()), it.distance(lat.object()), it.rank)),
        };
        let by_values = (best.is_none() && field == Field::Ignition)
            .then(|| values::ignition(outline, is_around))
            .flatten();
        map.notes.extend(by_values.map(|found| found.choice()));
        let best = best.or(by_values);
        if let Some(best) = best {
            map.fields.insert(field.name().into(), best.source());
            if field == Field::Speed {
                map.speed_unit = unit_of(&plain(best.path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::TableSample;

    fn outline(records: &[&str]) -> Outline {
        let mut outline = Outline::default();
        records.iter().for_each(|record| outline.observe(record.as_bytes()));
        outline
    }

    /// The entries of the map that is proposed.
    fn map(outline: &Outline, surroundings: Surroundings) -> String {
        let map = propose(outline, surroundings, &BTreeMap::new());
        let entries = map.fields.iter().map(|(name, source)| format!("{name}={source}"));
        entries
            .chain(map.missing.iter().map(|name| format!("no {name}")))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn nested_names_are_found() {
        for (record, expected) in [
            (
                r#"{"vehicle":{"id":"a"},"gps":{"latitude":1,"lng":2,"time":"2026-11-20T07:00:00Z"},
                    "createdAt":"2026-11-20T07:00:00Z","gpsSpeed":3}"#,
                "device_id=/vehicle/id lat=/gps/latitude lon=/gps/lng speed=/gpsSpeed time=/gps/time",
            ),
            (
                r#"{"imei":35,"points":[{"ts":1795158000,"y":{"lat":1,"lon":2},"spd":1},{}]}"#,
                "device_id=/imei lat=/y/lat lon=/y/lon samples=/points speed=/spd time=/ts",
            ),
            (
                r#"{"dev":{"unit_id":"a"},"p":{"coordinates":[13.4,52.5]},"t":1795158000000}"#,
                "device_id=/dev/unit_id lat=/p/coordinates/1 lon=/p/coordinates/0 time=/t",
            ),
            (
                r#"{"client_id":"a","payload":"{\"lat\":1,\"lon\":2,\"tst\":1795158000}"}"#,
                "device_id=/client_id lat=/payload/lat lon=/payload/lon open=/payload \
                 time=/payload/tst",
            ),
            (
                r#"{"ident":"a","timestamp":1795158000,"position.latitude":1,"position.longitude":2}"#,
                "device_id=/ident lat=/position.latitude lon=/position.longitude time=/timestamp",
            ),
        ] {
            assert_eq!(map(&outline(&[record]), Surroundings::File), expected, "{record}");
        }
    }

    #[test]
    fn values_that_cannot_be_a_field_are_not_taken() {
        for (record, expected) in [
            // Coordinates of another system, a text that is not a time, and the number of a record.
            (r#"{"lat":5820000,"lon":390000}"#, "device_id=@key no time no lat no lon"),
            (
                r#"{"id":"a","lat":1,"lon":2,"time":"noon"}"#,
                "device_id=@key lat=/lat lon=/lon no time",
            ),
            (r#"{"a":{"lat":1},"b":{"lon":2}}"#, "device_id=@key no time no lat no lon"),
            ("{}", "device_id=@key no time no lat no lon"),
        ] {
            assert_eq!(map(&outline(&[record]), Surroundings::Key), expected, "{record}");
        }
        let same = r#"{"id":"a","lat":1,"lon":2,"time":1795158000}"#;
        let repeats = outline(&[same, same]);
        assert_eq!(
            map(&repeats, Surroundings::Nothing),
            "device_id=/id lat=/lat lon=/lon time=/time"
        );
        let without = outline(&[r#"{"lat":1,"lon":2,"time":1795158000}"#]);
        assert_eq!(
            map(&without, Surroundings::Nothing),
            "lat=/lat lon=/lon time=/time no device_id"
        );
    }

    #[test]
    fn columns_are_found_by_their_names_alone() {
        let table = Outline::of_table(&TableSample::new(
            b"row id;Vehicle ID;GPS Time;Latitude;Longitude;Speed (km/h)",
        ));
        let found = propose(&table, Surroundings::File, &BTreeMap::new());
        assert_eq!(
            map(&table, Surroundings::File),
            "device_id=Vehicle ID lat=Latitude lon=Longitude speed=Speed (km/h) time=GPS Time"
        );
        assert_eq!(found.speed_unit, Some(SpeedUnit::KilometresPerHour));
        for device in ["Asset Name", "Plate No.", "Vehicle Registration", "Objektname", "Fzg"] {
            let table = format!("{device},GPS Time,Lat.,Long.,Speed (mph),Contact moteur");
            let table = Outline::of_table(&TableSample::new(table.as_bytes()));
            let expected = format!(
                "device_id={device} ignition=Contact moteur lat=Lat. lon=Long. speed=Speed (mph) \
                 time=GPS Time"
            );
            assert_eq!(map(&table, Surroundings::File), expected);
        }
    }

    #[test]
    fn what_is_given_holds_and_the_rest_is_found() {
        let table = TableSample::new(b"Lat,Lon,Breite,Zeit,Wagen,Speed\n1,2,3,,a,4");
        let table = Outline::of_table(&table);
        let given = [("lat", "Breite"), ("device_id", "Speed")];
        let given = given.map(|(name, source)| (name.to_owned(), source.to_owned())).into();
        let found = propose(&table, Surroundings::File, &given).fields;
        let found: Vec<_> = found.iter().map(|(name, source)| format!("{name}={source}")).collect();
        assert_eq!(found, ["device_id=Speed", "lat=Breite", "lon=Lon", "time=Zeit"]);
        // In an element of an array, too.
        let record = r#"{"imei":35,"points":[{"ts":1795158000,"y":{"lat":1,"lon":2,"n":3}},{}]}"#;
        let given = [("lat".to_owned(), "/y/n".to_owned())].into();
        let found = propose(&outline(&[record]), Surroundings::Nothing, &given).fields;
        let sources: Vec<_> = found.values().collect();
        assert_eq!(sources, ["/imei", "/y/n", "/y/lon", "/points", "/ts"], "{found:?}");
    }

    #[test]
    fn an_ignition_is_found_by_its_words_where_no_name_says_it() {
        let found = |columns: &str, values: [&str; 2]| {
            let rows = values.map(|value| format!("\na,1795158000,1,2,{value}")).concat();
            let table = format!("vehicle,time,lat,lon,{columns}{rows}");
            let outline = Outline::of_table(&TableSample::new(table.as_bytes()));
            let map = propose(&outline, Surroundings::File, &BTreeMap::new());
            (map.fields.get("ignition").cloned(), map.notes.len())
        };
        assert_eq!(found("Zustand", ["Ein", "aus"]), (Some("Zustand".into()), 1));
        // A name says it; of two, none does; and one state or plain values say nothing.
        assert_eq!(found("ACC,Door", ["1,on", "0,off"]), (Some("ACC".into()), 0));
        for (columns, values) in [
            ("Panic,Door", ["on,on", "off,off"]),
            ("Panic", ["off", "off"]),
            ("Panic", ["0", "1"]),
            ("Panic", ["True", "False"]),
            ("Panic", ["on", "new"]),
        ] {
            assert_eq!(found(columns, values), (None, 0), "{columns} {values:?}");
        }
    }
}
