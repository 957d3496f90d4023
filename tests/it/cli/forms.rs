//! `export` in each output format.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use super::answers::TRIP;
use super::{Folder, keys, minutes, xml};

/// A fleet, and a device whose name needs escaping everywhere, with trips of one sample.
fn fleet() -> Folder {
    let folder = Folder::new();
    let odd = minutes("a,b<c>&'d", &[0, 20, 40]);
    folder.write_fleet("log", &(odd + &minutes("truck-2", &[0])));
    folder.ingest("log");
    folder
}

fn text<'a>(trip: &'a Value, name: &str) -> &'a str {
    trip[name].as_str().unwrap()
}

#[test]
fn ndjson_is_sorted_and_has_each_trip_once() {
    let folder = fleet();
    let ran = folder.run("export --format ndjson").ends(0);
    for line in ran.text().lines() {
        assert_eq!(keys(line), TRIP[..22]);
    }
    let trips = ran.objects();
    assert!(trips.len() > 50);
    for pair in trips.windows(2) {
        let [exported, next] = pair else { unreachable!() };
        let place = |trip| (text(trip, "device_id").as_bytes(), text(trip, "start_time"));
        assert!(place(exported) < place(next), "{exported}\nbefore\n{next}");
        if exported["device_id"] == next["device_id"] {
            assert!(
                text(exported, "end_time") < text(next, "start_time"),
                "{exported}\ntouches\n{next}"
            );
        }
    }
    // In byte order `truck-2` comes after `truck-19`.
    let index_of = |device: &str| trips.iter().position(|trip| text(trip, "device_id") == device);
    assert!(index_of("truck-19").unwrap() < index_of("truck-2").unwrap());
    assert_eq!(folder.text("export"), ran.text());
    let array = folder.text("export --format json");
    assert_eq!(serde_json::from_str::<Vec<Value>>(&array).unwrap(), trips);
    let exported = folder.run("export --device truck-2").ends(0).objects();
    let of_one: Vec<_> = trips.iter().filter(|trip| trip["device_id"] == "truck-2").collect();
    assert!(!exported.is_empty() && exported.iter().eq(of_one));
}

#[test]
fn csv_has_a_row_for_each_trip() {
    let folder = fleet();
    let trips = folder.trips("trips.db");
    let table = folder.text("export --format csv");
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), trips.len());
    for (row, trip) in rows.iter().zip(&trips) {
        let cell = |name: &str| {
            let at = head.iter().position(|column| column == name);
            &row[at.unwrap_or_else(|| panic!("no column {name} in {head:?}"))]
        };
        for name in ["id", "device_id", "t_star", "start_time", "end_time"] {
            assert_eq!(cell(name), text(trip, name));
        }
        assert_eq!(cell("driver"), trip["driver"].as_str().unwrap_or_default());
        assert_eq!(cell("samples"), trip["samples"].to_string());
        let places = [("start_lat", &trip["start"]["lat"]), ("end_lon", &trip["end"]["lon"])];
        for (name, value) in places {
            assert_eq!(cell(name).parse::<f64>().unwrap(), value.as_f64().unwrap(), "{name}");
        }
        let absorbed = trip["absorbed"].as_array().unwrap();
        assert!(
            cell("absorbed").split_whitespace().eq(absorbed.iter().map(|id| id.as_str().unwrap()))
        );
    }
    assert!(trips.iter().any(|trip| trip["absorbed"].as_array().unwrap().len() > 1));
}

#[test]
fn geojson_is_one_feature_collection() {
    let folder = fleet();
    let trips = folder.trips("trips.db");
    let map: Value = serde_json::from_str(&folder.text("export --format geojson")).unwrap();
    assert_eq!(map["type"], "FeatureCollection");
    let features = map["features"].as_array().unwrap();
    assert_eq!(features.len(), trips.len());
    let mut points = 0;
    for (feature, trip) in features.iter().zip(&trips) {
        assert_eq!((&feature["type"], &feature["id"]), (&"Feature".into(), &trip["id"]));
        let (geometry, samples) = (&feature["geometry"], trip["samples"].as_u64().unwrap());
        let places = geometry["coordinates"].as_array().unwrap();
        if samples == 1 {
            points += 1;
            assert_eq!(geometry["type"], "Point");
            assert_eq!((&places[0], &places[1]), (&trip["start"]["lon"], &trip["start"]["lat"]));
        } else {
            assert_eq!(geometry["type"], "LineString");
            assert_eq!(places.len() as u64, samples);
            assert_eq!(places[0][0], trip["start"]["lon"]);
        }
    }
    assert!(points >= 3, "{points} trips of one sample");
}

#[test]
fn gpx_has_a_track_for_each_trip() {
    let folder = fleet();
    let trips = folder.trips("trips.db");
    let gpx = folder.text("export --format gpx");
    let elements = xml::elements(&gpx).unwrap_or_else(|why| panic!("not well-formed: {why}"));
    assert_eq!(elements[0], "gpx");
    let count = |name: &str| elements.iter().filter(|element| *element == name).count() as u64;
    assert_eq!(count("trk"), trips.len() as u64);
    let samples: u64 = trips.iter().map(|trip| trip["samples"].as_u64().unwrap()).sum();
    assert_eq!(count("trkpt"), samples);
    assert!(gpx.contains("<gpx version=\"1.1\""));
    assert!(gpx.contains("<src>a,b&lt;c&gt;&amp;&apos;d</src>"));
}

#[test]
fn an_empty_store_gives_whole_documents() {
    let folder = Folder::with("log", "");
    folder.ingest("log");
    assert_eq!(folder.text("export"), "");
    assert_eq!(folder.text("export --format json").trim(), "[]");
    assert_eq!(folder.text("export --format csv").lines().count(), 1);
    let map: Value = serde_json::from_str(&folder.text("export --format geojson")).unwrap();
    assert_eq!(map, serde_json::json!({"type": "FeatureCollection", "features": []}));
    assert_eq!(xml::elements(&folder.text("export --format gpx")).unwrap(), ["gpx"]);
    folder.run("export --format table").ends(2).prints_nothing().says(&["table"]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = fleet();
    for words in ["export --path", "simulate --mix 46,34,19,1 --samples 1000000"] {
        let mut command = folder.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut head = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut head).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), said.as_ref()), (Some(0), ""), "{words}");
    }
    // More than a pipe holds, or the command might end before the pipe closes.
    assert!(folder.text("export --path").len() > 1 << 20);
}

#[test]
fn a_closed_stderr_changes_nothing() {
    let folder = Folder::with("log", "{no sample\n");
    let mut command = folder.command("ingest log --json");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = command.stderr(writer).output().unwrap();
    assert_eq!(ended.status.code(), Some(65), "{ended:?}");
    assert!(ended.stdout.starts_with(b"{\"delivered\":1,"), "{ended:?}");
}
