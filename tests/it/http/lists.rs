//! Lists of trips: filters, fields, paths and formats, held against the export.

use serde_json::Value;
use tstar::internals::model::time::{format_time, parse_time};

use super::Server;
use crate::cli::Folder;

/// A fleet of some days, of which half of the devices name a driver, a few report no speed, and the
/// others seem to stand now and then.
fn fleet(folder: &Folder) {
    let samples = folder
        .run("simulate --mix 46,34,19,1 --devices 30 --samples 20000 --seed 7")
        .ends(0)
        .text();
    let change = |(nth, line): (usize, &str)| {
        let mut sample: Value = serde_json::from_str(line).unwrap();
        let device = sample["device_id"].as_str().unwrap().to_owned();
        if device.bytes().last().unwrap().is_multiple_of(2) {
            sample["driver"] = format!("driver of {device}").into();
        }
        if device.ends_with('3') {
            sample.as_object_mut().unwrap().remove("speed").unwrap();
        } else if nth.is_multiple_of(4) {
            sample["speed"] = 0.into();
        }
        format!("{sample}\n")
    };
    folder.write("fleet.ndjson", samples.lines().enumerate().map(change).collect::<String>());
    folder.ingest("fleet.ndjson --store sqlite:trips.db");
}

/// All pages of a list.
fn pages(server: &Server, target: &str) -> Vec<Value> {
    let (mut trips, mut target) = (Vec::new(), target.to_owned());
    loop {
        let answer = server.get(&target).is(200);
        let page = answer.json();
        trips.extend(page["trips"].as_array().unwrap().iter().cloned());
        if page["next"].is_null() {
            return trips;
        }
        let link = answer.header("link").unwrap();
        target = link[1..link.find('>').unwrap()].to_owned();
    }
}

fn ids<'a>(trips: impl IntoIterator<Item = &'a Value>) -> Vec<&'a str> {
    trips.into_iter().map(|trip| trip["id"].as_str().unwrap()).collect()
}

#[test]
fn a_span_of_all_devices_has_the_trips_that_overlap_it() {
    let folder = Folder::new();
    fleet(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let all = folder.run("export --store sqlite:trips.db --format ndjson --path").ends(0).objects();
    let mut starts: Vec<_> = all.iter().map(|trip| trip["start_time"].as_str().unwrap()).collect();
    starts.sort_unstable();
    let (first, middle, last) = (starts[0], starts[starts.len() / 2], starts[starts.len() - 1]);
    let spans = [
        (middle, middle),
        (first, middle),
        (first, last),
        ("2023-01-01T00:00:00Z", "2023-01-31T00:00:00Z"),
    ];
    let mut counts = Vec::new();
    for (from, to) in spans {
        let overlaps = |trip: &&Value| {
            trip["end_time"].as_str().unwrap() >= from && trip["start_time"].as_str().unwrap() <= to
        };
        let expected: Vec<_> = all.iter().filter(overlaps).collect();
        for limit in [7, 1000] {
            let found = pages(&server, &format!("/v1/trips?from={from}&to={to}&limit={limit}"));
            assert_eq!(ids(&found), ids(expected.iter().copied()), "{from} to {to}");
        }
        counts.push(expected.len());
    }
    assert!(counts[0] > 0 && counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
    assert_eq!((counts[2], counts[3]), (all.len(), 0));

    let span = format!("from={first}&to={last}");
    let with_driver: Vec<_> = all.iter().filter(|trip| trip["driver"].is_string()).collect();
    let driver = with_driver[0]["driver"].as_str().unwrap();
    let by_driver: Vec<_> = all.iter().filter(|trip| trip["driver"] == driver).collect();
    let found =
        pages(&server, &format!("/v1/trips?{span}&driver={}&limit=2", driver.replace(' ', "%20")));
    assert_eq!(ids(&found), ids(by_driver.iter().copied()));
    assert!(by_driver.len() > 2 && by_driver.len() < all.len());

    let metres = |trip: &Value| trip["distance_m"].as_f64().unwrap();
    // An export has fewer digits than what is compared.
    let least = metres(&all[all.len() / 2]) - 0.1;
    let long: Vec<_> = all.iter().filter(|trip| metres(trip) >= least).collect();
    let found = pages(&server, &format!("/v1/trips?{span}&min_distance_m={least}&limit=3"));
    assert_eq!(ids(&found), ids(long.iter().copied()));
    assert!(long.len() > 1 && long.len() < all.len());

    let [west, south, east, north] = [0, 1, 2, 3].map(|nth| all[0]["bbox"][nth].as_f64().unwrap());
    let overlaps = |trip: &&Value| {
        let [w, s, e, n] = [0, 1, 2, 3].map(|nth| trip["bbox"][nth].as_f64().unwrap());
        w <= east && e >= west && s <= north && n >= south
    };
    let inside: Vec<_> = all.iter().filter(overlaps).collect();
    let bbox = format!("bbox={west},{south},{east},{north}");
    let found = pages(&server, &format!("/v1/trips?{span}&{bbox}&limit=3"));
    assert_eq!(ids(&found), ids(inside.iter().copied()));
    let nowhere = pages(&server, &format!("/v1/trips?{span}&bbox=0,-89,1,-88"));
    assert_eq!(nowhere, Vec::<Value>::new());

    let paths = pages(&server, &format!("/v1/trips?{span}&path=true&fields=id,path&limit=9"));
    let expected: Vec<Value> = all
        .iter()
        .map(|trip| serde_json::json!({ "id": trip["id"], "path": trip["path"] }))
        .collect();
    assert_eq!(paths, expected);
    let device = all[0]["device_id"].as_str().unwrap();
    let found = pages(&server, &format!("/v1/devices/{device}/trips?fields=id&limit=2"));
    let of_device: Vec<_> = all.iter().filter(|trip| trip["device_id"] == device).collect();
    assert_eq!(ids(&found), ids(of_device.iter().copied()));
    assert!(found.iter().all(|trip| trip.as_object().unwrap().len() == 1));
}

/// Sums in tenths of a metre and in ms, so that their order does not matter.
const SUMS: [(&str, f64); 7] = [
    ("trips", 1.0),
    ("distance_m", 10.0),
    ("duration_s", 1e3),
    ("moving_s", 1e3),
    ("idle_s", 1e3),
    ("standing_s", 1e3),
    ("parked_s", 1e3),
];

fn whole(value: &Value, name: &str, scale: f64) -> i64 {
    (value[name].as_f64().unwrap_or_default() * scale).round() as i64
}

/// The sums of rows of a summary.
fn added(rows: &[Value]) -> Vec<i64> {
    let sum = |(name, scale)| rows.iter().map(|row| whole(row, name, scale)).sum();
    SUMS.map(sum).to_vec()
}

/// What a summary has to have of whole trips and stops.
fn expected(segments: &[&Value]) -> Vec<i64> {
    let sums_of = |it: &Value| {
        let [duration, parked] = ["duration_s", "parked_s"].map(|name| whole(it, name, 1e3));
        match it["kind"].as_str().unwrap() {
            "stop" => [0, 0, 0, 0, 0, duration - parked, parked],
            _ => {
                let [moving, idle] = ["moving_s", "idle_s"].map(|name| whole(it, name, 1e3));
                [1, whole(it, "distance_m", 10.0), duration, moving, idle, 0, parked]
            }
        }
    };
    let sum = |nth: usize| segments.iter().map(|it| sums_of(it)[nth]).sum();
    (0..SUMS.len()).map(sum).collect()
}

#[test]
fn a_summary_equals_the_sums_of_an_export() {
    let folder = Folder::new();
    fleet(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let all = folder.run("export --kind all --store sqlite:trips.db").ends(0).objects();
    let all: Vec<_> = all.iter().collect();
    let ms = |it: &Value, name: &str| parse_time(it[name].as_str().unwrap()).unwrap();
    let from = all.iter().map(|it| ms(it, "start_time")).min().unwrap();
    let to = all.iter().map(|it| ms(it, "end_time")).max().unwrap() + 1;
    let total = expected(&all);
    assert!(total.iter().take(6).all(|sum| *sum > 0), "{total:?}");
    assert!(all.iter().any(|it| it["idle_s"].is_null()), "all report speeds");
    let sums = |more: &str| {
        let summary = server.get(&format!("/v1/summary?{more}")).is(200).json();
        let rows = summary["rows"].as_array().unwrap().clone();
        let keys: Vec<_> = rows.iter().map(|row| row["key"].as_str()).collect();
        assert!(keys.is_sorted_by(|one, next| one < next), "{more}");
        assert_eq!(added(&rows), added(std::slice::from_ref(&summary["total"])), "{more}");
        rows
    };
    for (by, name) in [("device", "device_id"), ("driver", "driver")] {
        let rows = sums(&format!("from={from}&to={to}&by={by}"));
        assert!(rows.len() > 1, "{by}");
        for row in &rows {
            let of_key: Vec<_> = all.iter().copied().filter(|it| it[name] == row["key"]).collect();
            assert_eq!(added(std::slice::from_ref(row)), expected(&of_key), "{by} {}", row["key"]);
        }
    }
    // Half an hour off the days of UTC, without changes of its clocks.
    for (tz, offset_ms) in [("UTC", 0), ("Asia/Kolkata", 19_800_000)] {
        let rows = sums(&format!("from={from}&to={to}&by=day&tz={tz}"));
        assert_eq!(added(&rows), total, "{tz}");
        for row in &rows {
            let is_of_day = |it: &&&Value| {
                let local = format_time(ms(it, "start_time") + offset_ms);
                it["kind"] == "trip" && local.starts_with(row["key"].as_str().unwrap())
            };
            assert_eq!(row["trips"], all.iter().filter(is_of_day).count(), "{tz} {}", row["key"]);
        }
    }
    // In two spans that divide trips and stops.
    let middle = from + (to - from) / 2;
    for by in ["day", "device"] {
        let mut halves = sums(&format!("from={from}&to={middle}&by={by}"));
        halves.extend(sums(&format!("from={middle}&to={to}&by={by}")));
        assert_eq!(added(&halves), total, "{by}");
    }
    let device = all[0]["device_id"].as_str().unwrap();
    let of_device: Vec<_> = all.iter().copied().filter(|it| it["device_id"] == device).collect();
    let rows = sums(&format!("from={from}&to={to}&device={device}"));
    assert_eq!(added(&rows), expected(&of_device));
    let unknown = format!("/v1/summary?from={from}&to={to}&device=unknown");
    server.get(&unknown).fails(404, "no_device");
    for (from, to) in
        [(i64::MIN, i64::MAX), (-6_000_000_000_000_000_000, 6_000_000_000_000_000_000)]
    {
        for route in ["summary?", "summary?device=truck-1&", "trips?", "devices?"] {
            let far = server.get(&format!("/v1/{route}from={from}&to={to}"));
            far.fails(400, "bad_request");
        }
    }
    server.get("/v1/summary?by=day").fails(400, "bad_request");
    server.get(&format!("/v1/summary?from={from}&to={to}&by=week")).fails(400, "bad_request");
    // The same on the command line.
    let (first, last) = (format_time(from), format_time(to));
    for by in ["day", "device", "driver"] {
        let flags = format!("--from {first} --to {last} --by {by} --tz Asia/Kolkata");
        let printed = folder.run(&format!("summary {flags} --store sqlite:trips.db"));
        let rows = sums(&format!("from={from}&to={to}&by={by}&tz=Asia/Kolkata"));
        assert_eq!(printed.ends(0).objects(), rows, "{by}");
    }
}

#[test]
fn every_interface_gives_the_same_durations() {
    let sample = |(minute, speed, is_on): (u32, f64, bool)| {
        let lat = 52.5 + f64::from(minute) / 1000.0;
        format!(
            "{{\"device_id\":\"truck-17\",\"time\":\"2024-05-01T08:{minute:02}:00Z\",\
             \"lat\":{lat},\"lon\":13.4,\"speed\":{speed},\"ignition\":{is_on}}}\n"
        )
    };
    let drive = [(0, 0.0, true), (1, 9.0, true), (4, 0.2, true), (6, 8.0, true), (9, 0.0, false)];
    let parked = [(12, 0.0, false), (16, 0.0, false)];
    let folder =
        Folder::with("log", drive.iter().chain(&parked).copied().map(sample).collect::<String>());
    folder.ingest("log --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let durations = |trip: &Value| {
        ["duration_s", "moving_s", "idle_s", "parked_s"].map(|name| trip[name].as_f64())
    };
    let id = "truck-17~20240501T080000.000Z";
    let trip = server.get(&format!("/v1/trips/{id}")).is(200).json();
    assert_eq!(durations(&trip), [Some(360.0), Some(180.0), Some(180.0), Some(0.0)]);
    let at = server.get("/v1/trips/lookup?device=truck-17&at=2024-05-01T08:05:00Z").is(200).json();
    assert_eq!(durations(&at), durations(&trip));
    let list = "/v1/trips?day=2024-05-01&kind=all&fields=kind,duration_s,moving_s,idle_s,parked_s";
    let list = server.get(list).is(200).json();
    let [first, stop] = list["trips"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!(durations(first), durations(&trip));
    assert_eq!(stop["kind"], "stop");
    assert_eq!(durations(stop), [Some(420.0), Some(0.0), Some(0.0), Some(420.0)]);
    let store = "--store sqlite:trips.db";
    for words in [
        format!("trip {id} --json"),
        "lookup truck-17 2024-05-01T08:05:00Z --json".to_owned(),
        "trips truck-17".to_owned(),
        "export".to_owned(),
    ] {
        let printed = folder.run(&format!("{words} {store}")).ends(0).json();
        assert_eq!(durations(&printed), durations(&trip), "{words}");
    }
}

#[test]
fn a_list_has_the_same_trips_in_every_format() {
    let folder = Folder::new();
    fleet(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let devices = folder.run("devices --format ndjson").ends(0).objects();
    let device = devices[0]["device_id"].as_str().unwrap();
    let of_device = folder.run(&format!("trips {device}")).ends(0).objects();
    let day = &of_device[of_device.len() / 2]["start_time"].as_str().unwrap()[..10];
    let list = server.get(&format!("/v1/trips?day={day}&limit=1000")).is(200).json();
    let trips = list["trips"].as_array().unwrap();
    assert!(trips.len() > 10 && list["next"].is_null());
    let types = [
        ("csv", "text/csv"),
        ("ndjson", "application/x-ndjson"),
        ("geojson", "application/geo+json"),
        ("parquet", "application/vnd.apache.parquet"),
    ];
    let mut bodies = Vec::new();
    for (name, media_type) in types {
        let by_suffix = server.get(&format!("/v1/trips.{name}?day={day}&limit=1000")).is(200);
        assert!(by_suffix.header("content-type").unwrap().starts_with(media_type), "{name}");
        let accept = format!("accept: {media_type}\r\n");
        let target = format!("/v1/trips?day={day}&limit=1000");
        let by_accept = server.request("GET", &target, &accept, b"").is(200);
        assert_eq!(by_accept.body, by_suffix.body, "{name}");
        assert_eq!(by_accept.header("vary").map(|vary| vary.contains("accept")), Some(true));
        bodies.push(by_suffix.body);
    }
    let [csv, ndjson, geojson, parquet] = &bodies[..] else { unreachable!() };
    let csv = std::str::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), trips.len() + 1);
    let header = csv.lines().next().unwrap();
    assert!(header.ends_with(",version,tags,open"), "{header}");
    let none = server.get("/v1/trips.csv?day=2001-01-01").is(200).body;
    assert_eq!(none.trim_ascii_end(), header.as_bytes(), "a list without trips");
    for (line, trip) in csv.lines().skip(1).zip(trips) {
        assert!(line.starts_with(trip["id"].as_str().unwrap()), "{line}");
    }
    let lines: Vec<Value> = ndjson
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(&lines, trips);
    let geojson: Value = serde_json::from_slice(geojson).unwrap();
    let features = geojson["features"].as_array().unwrap();
    assert_eq!(ids(features.iter().map(|feature| &feature["properties"])), ids(trips));
    folder
        .run(&format!(
            "export --store sqlite:trips.db --day {day} --format parquet --out day.parquet"
        ))
        .ends(0);
    assert!(*parquet == folder.read("day.parquet"), "the file is not that of the export");

    // The first page names the changes that follow it.
    let newest = server.get("/v1/changes").is(200).json()["next"].clone();
    let first = server.get(&format!("/v1/trips?day={day}&limit=3")).is(200);
    assert_eq!(first.json()["changes"], newest);
    let link = first.header("link").unwrap();
    let (_, changes) = link.split_once(", <").unwrap();
    let (target, rel) = changes.split_once('>').unwrap();
    assert_eq!(rel, "; rel=\"changes\"");
    assert_eq!(server.get(target).is(200).json()["changes"], Value::Array(vec![]));
    let second = link[1..link.find('>').unwrap()].to_owned();
    assert_eq!(server.get(&second).is(200).json()["changes"], Value::Null);
}
