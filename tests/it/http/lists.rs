//! Lists of trips: filters, fields, paths and formats, held against the export.

use serde_json::Value;

use super::Server;
use crate::cli::Folder;

/// A rule by which the fleet stops.
const STOPS: &str = "stop_radius_m=5000&stop_min_s=120";

/// A fleet of some days, of which half of the devices name a driver.
fn fleet(folder: &Folder) {
    let samples = folder.run("simulate --devices 30 --samples 20000 --seed 7").ends(0).text();
    let name_driver = |line: &str| {
        let mut sample: Value = serde_json::from_str(line).unwrap();
        let device = sample["device_id"].as_str().unwrap().to_owned();
        if device.bytes().last().unwrap().is_multiple_of(2) {
            sample["driver"] = format!("driver of {device}").into();
        }
        format!("{sample}\n")
    };
    folder.write("fleet.ndjson", samples.lines().map(name_driver).collect::<String>());
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
    let least = metres(&all[all.len() / 2]);
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

#[test]
fn a_summary_equals_the_sums_of_an_export() {
    let folder = Folder::new();
    fleet(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let all = folder
        .run("export --store sqlite:trips.db --stops --stop-radius 5000 --stop-min 2m")
        .ends(0)
        .objects();
    let mut starts: Vec<_> = all.iter().map(|trip| trip["start_time"].as_str().unwrap()).collect();
    starts.sort_unstable();
    let (from, to) = (starts[starts.len() / 5], starts[starts.len() - 2]);
    let inside: Vec<_> = all
        .iter()
        .filter(|trip| (from..=to).contains(&trip["start_time"].as_str().unwrap()))
        .collect();
    assert!(inside.len() > 50 && inside.len() < all.len(), "{} of {}", inside.len(), all.len());
    assert!(inside.iter().any(|trip| trip["moving_s"] != trip["duration_s"]), "nothing stops");
    // In tenths and in ms, so that the order of the sums does not matter.
    let sums = |trips: &[&Value]| {
        let sum = |name: &str, scale: f64| -> f64 {
            trips.iter().map(|trip| (trip[name].as_f64().unwrap() * scale).round()).sum::<f64>()
                / scale
        };
        serde_json::json!({
            "trips": trips.len(),
            "distance_m": sum("distance_m", 10.0),
            "duration_s": sum("duration_s", 1e3),
            "moving_s": sum("moving_s", 1e3),
        })
    };
    for by in ["day", "device", "driver"] {
        let key = |trip: &Value| match by {
            "day" => trip["start_time"].as_str().unwrap()[..10].into(),
            "device" => trip["device_id"].clone(),
            _ => trip["driver"].clone(),
        };
        let target = format!("/v1/summary?from={from}&to={to}&by={by}&{STOPS}");
        let summary = server.get(&target).is(200).json();
        assert_eq!(summary["total"], sums(&inside));
        let rows = summary["rows"].as_array().unwrap();
        assert!(
            rows.len() > usize::from(by != "day")
                && rows
                    .windows(2)
                    .all(|pair| { pair[0]["key"].as_str() < pair[1]["key"].as_str() }),
            "{by}"
        );
        for row in rows {
            let of_key: Vec<_> =
                inside.iter().copied().filter(|trip| key(trip) == row["key"]).collect();
            let mut expected = sums(&of_key);
            expected["key"] = row["key"].clone();
            assert_eq!(*row, expected, "{by}");
        }
    }
    let device = inside[0]["device_id"].as_str().unwrap();
    let of_device: Vec<_> =
        inside.iter().copied().filter(|trip| trip["device_id"] == device).collect();
    let target = format!("/v1/summary?from={from}&to={to}&device={device}&stop_min_s=86400");
    let summary = server.get(&target).is(200).json();
    let mut expected = sums(&of_device);
    expected["moving_s"] = expected["duration_s"].clone();
    assert_eq!(summary["total"], expected);
    let unknown = format!("/v1/summary?from={from}&to={to}&device=unknown");
    assert_eq!(server.get(&unknown).is(200).json()["rows"], Value::Array(vec![]));
    server.get("/v1/summary?by=day").fails(400, "bad_request");
    server.get(&format!("/v1/summary?from={from}&to={to}&by=week")).fails(400, "bad_request");
}

#[test]
fn every_interface_gives_the_same_stops() {
    let sample = |minute: u32, metres: u32| {
        let lat = 52.5 + f64::from(metres) / 111_195.0;
        format!(
            "{{\"device_id\":\"truck-17\",\"time\":\"2024-05-01T08:{minute:02}:00Z\",\
             \"lat\":{lat:.7},\"lon\":13.4}}\n"
        )
    };
    let drive = [(0, 0), (1, 900), (3, 930), (7, 880), (8, 2000), (9, 3000), (14, 3020)];
    let folder = Folder::with("log", drive.map(|(at, metres)| sample(at, metres)).concat());
    folder.ingest("log --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let id = "truck-17~20240501T080000.000Z";
    let spans = |trip: &Value| -> Vec<String> {
        let text = |stop: &Value, name: &str| stop[name].as_str().unwrap()[14..16].to_owned();
        let stops = trip["stops"].as_array().unwrap().iter();
        stops.map(|stop| text(stop, "start_time") + "-" + &text(stop, "end_time")).collect()
    };
    let trip = server.get(&format!("/v1/trips/{id}?stops=true")).is(200).json();
    assert_eq!(spans(&trip), ["01-07", "09-14"]);
    assert_eq!((&trip["duration_s"], &trip["moving_s"]), (&840.0.into(), &180.0.into()));
    assert_eq!(trip["stops"][0]["duration_s"], 360.0);
    assert_eq!(trip["stops"][0]["position"]["lon"], 13.4);
    assert!(trip.get("path").is_none());
    let narrow = format!("/v1/trips/{id}?stops=true&stop_radius_m=25&stop_min_s=240&simplify=500");
    assert_eq!(spans(&server.get(&narrow).is(200).json()), ["09-14"]);
    let long = format!("/v1/trips/{id}?stops=true&stop_min_s=301");
    assert_eq!(spans(&server.get(&long).is(200).json()), ["01-07"]);
    let at = "/v1/trips/lookup?device=truck-17&at=2024-05-01T08:05:00Z&stops=true";
    assert_eq!(server.get(at).is(200).json()["stops"], trip["stops"]);
    let list = server.get("/v1/trips?day=2024-05-01&fields=stops,moving_s").is(200).json();
    let expected = serde_json::json!({ "stops": trip["stops"], "moving_s": 180.0 });
    assert_eq!(list["trips"][0], expected);
    let store = "--store sqlite:trips.db";
    for words in [
        format!("trip {id} --stops --json"),
        "lookup truck-17 2024-05-01T08:05:00Z --stops --json".to_owned(),
        "trips truck-17 --stops".to_owned(),
        "export --stops".to_owned(),
    ] {
        let printed = folder.run(&format!("{words} {store}")).ends(0).json();
        assert_eq!(printed["stops"], trip["stops"], "{words}");
        assert_eq!(printed["moving_s"], 180.0);
    }
    let wide = format!("trip {id} --stops --stop-radius 5000 --stop-min 10m --json {store}");
    assert_eq!(spans(&folder.run(&wide).ends(0).json()), ["00-14"]);
    for words in ["export --stops --format csv", "trips truck-17 --stops --stop-radius 0"] {
        folder.run(&format!("{words} {store}")).ends(2).prints_nothing();
    }
    server.get(&format!("/v1/trips/{id}.gpx?stops=true")).fails(400, "bad_request");
    server.get("/v1/trips.csv?day=2024-05-01&stops=true").fails(400, "bad_request");
    server.get(&format!("/v1/trips/{id}?stop_radius_m=0")).fails(400, "bad_request");
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
