//! Commands over one small store, and commands that fail before they read from a store.

use serde_json::{Value, json};

use super::Folder;

/// Ids of `truck-17`: the worked example of `design.md`, a trip across midnight, and one of the
/// next day.
const MERGED: &str = "truck-17~20261120T213800.123Z";
const NIGHT: &str = "truck-17~20261120T235800.123Z";
const NEXT: &str = "truck-17~20261121T073800.123Z";

/// The time of the first id, in ms since 1970.
const T: i64 = 1_795_210_680_123;
const MINUTE: i64 = 60_000;

/// Samples of a device, minutes after [`T`], in arrival order.
fn samples(device: &str, minutes: &[i64]) -> String {
    let line = |minute: &i64| {
        let time = T + minute * MINUTE;
        json!({"device_id": device, "time": time, "lat": 1.0, "lon": 2.0}).to_string() + "\n"
    };
    minutes.iter().map(line).collect()
}

/// A store with the three trips of `truck-17`, one trip of `a~b` between them, one of `z` on the
/// day before, and `y`, whose trips were erased.
fn store() -> Folder {
    let mut folder = Folder::new();
    // The times may lie ahead of the test machine's clock.
    folder.env("TSTAR_MAX_FUTURE", "36500d");
    let devices = [
        samples("truck-17", &[10, 12, 0, 2, 6, 140, 144, 600]),
        samples("a~b", &[5]),
        samples("z", &[-1440]),
        samples("y", &[-1440]),
    ];
    folder.write("log", devices.concat());
    folder.ingest("log");
    folder.run(&format!("forget y --before {T} --yes")).ends(0);
    folder
}

fn json(folder: &Folder, words: &str) -> Value {
    let text = folder.text(words);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Ids of trips printed as NDJSON.
fn ids(folder: &Folder, words: &str) -> Vec<String> {
    let trips = folder.run(words).ends(0).objects();
    trips.iter().map(|trip| trip["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lookup_finds_the_trip_that_covers_a_time() {
    let folder = store();
    let trip = json(&folder, "lookup truck-17 2026-11-20T21:40:00Z --json");
    assert_eq!(trip["id"], MERGED);
    assert_eq!(trip["absorbed"], json!(["truck-17~20261120T214800.123Z"]));
    let trip = json(&folder, "lookup z 2026-11-19T22:38:00.123+01:00");
    assert_eq!(trip["id"], "z~20261119T213800.123Z");
    let path = json(&folder, "lookup truck-17 1795210680123 --path --json");
    assert_eq!(path["path"]["times"].as_array().unwrap().len(), 5);
    let none = folder.run("lookup truck-17 2026-11-20T22:00:00Z").ends(1).prints_nothing();
    none.says(&["tstar: no trip of device `truck-17` covers 2026-11-20T22:00:00.000Z; the trip "]);
    folder.run("lookup truck-17 yesterday").ends(2).prints_nothing();
    folder.run("lookup truck-17 0 --path --format csv").ends(2).prints_nothing();
}

#[test]
fn trip_accepts_any_form_of_an_id_and_reports_the_match() {
    let folder = store();
    for (id, time, matched, merged) in [
        (MERGED, "2026-11-20T21:38:00.123Z", "current", false),
        ("truck-17~20261120T214800.123Z", "2026-11-20T21:48:00.123Z", "retired", true),
        ("truck-17~20261120T213900.123Z", "2026-11-20T21:39:00.123Z", "covers", false),
    ] {
        for form in ["text", "bytes", "uuid"] {
            let encoded = folder.text(&format!("id encode truck-17 {time} --form {form}"));
            let encoded = encoded.trim_end();
            assert!(form != "text" || encoded == id);
            let trip = json(&folder, &format!("trip {encoded} --json"));
            assert_eq!((&trip["id"], &trip["requested_id"]), (&MERGED.into(), &encoded.into()));
            assert_eq!((&trip["match"], &trip["merged"]), (&matched.into(), &merged.into()));
        }
    }
    for unknown in ["truck-18~20261120T213800.123Z", "01a1fae5-173b-8152-8ed4-88d4aacc8dde"] {
        folder.run(&format!("trip {unknown}")).ends(1).prints_nothing();
    }
    folder.run("trip truck-17").ends(2).prints_nothing();
}

#[test]
fn erased_trips_are_reported_as_gone() {
    let folder = store();
    let gone = "gone: the trips of y before 2026-11-20T21:38:00.123Z were erased (tstar forget)";
    for line in ["lookup y 2026-11-20T21:38:00.122Z", "trip y~20261119T213800.123Z"] {
        let ran = folder.run(line).ends(1).prints_nothing();
        assert_eq!(ran.stderr, format!("tstar: {gone}\n"));
    }
    let uuid = folder.text("id encode y 2026-11-19T21:38:00.123Z --form uuid");
    for line in ["lookup y 2026-11-20T21:38:00.123Z", &format!("trip {}", uuid.trim_end())] {
        // A UUID contains no device id.
        let ran = folder.run(line).ends(1).prints_nothing();
        assert!(ran.stderr.starts_with("tstar: no trip"), "{ran}");
    }
}

#[test]
fn forget_requires_one_device_or_all() {
    let folder = Folder::new();
    for line in [
        "forget",
        "forget y --all-before 0",
        "forget --all-before 0 --before 0",
        "forget y --before yesterday",
        "forget y --wait-timeout 5",
    ] {
        folder.run(&format!("{line} --store sqlite:none.db")).ends(2).prints_nothing();
        assert!(!folder.has("none.db"));
    }
}

#[test]
fn trips_of_a_device_are_selected_by_overlap_or_by_prefix() {
    let folder = store();
    assert_eq!(ids(&folder, "trips truck-17"), [MERGED, NIGHT, NEXT]);
    assert_eq!(ids(&folder, "trips truck-17 --order desc --limit 1"), [NEXT]);
    let late = "trips truck-17 --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z";
    assert_eq!(ids(&folder, late), [NIGHT], "it began the day before");
    assert_eq!(ids(&folder, "trips truck-17 --prefix 20261121"), [NEXT], "by t_star alone");
    let two = "trips truck-17 --prefix truck-17~2026 --limit 2";
    assert_eq!(ids(&folder, two), [MERGED, NIGHT]);
    folder.run("trips truck-99").ends(1).prints_nothing().says(&["truck-99", "tstar devices"]);
    assert_eq!(ids(&folder, "trips truck-17 --day 2026-11-01"), [""; 0]);
    for line in [
        "trips",
        "trips truck-17 --prefix truck-1~2026",
        "trips truck-17 --prefix 2026113",
        "trips truck-17 --from 2 --to 1",
    ] {
        folder.run(line).ends(2).prints_nothing();
    }
}

#[test]
fn trips_of_a_day_show_each_trip_once_by_start() {
    let folder = store();
    let day = ids(&folder, "trips --day 2026-11-20");
    assert_eq!(day, [MERGED, "a~7eb~20261120T214300.123Z", NIGHT]);
    assert_eq!(ids(&folder, "trips --day 2026-11-21 --order desc"), [NEXT, NIGHT]);
    assert_eq!(ids(&folder, "trips truck-17 --day 2026-11-21 --order desc"), [NEXT, NIGHT]);
    folder.run("trips truck-17 --day 2026-11-21 --prefix 2026").ends(2);
    assert_eq!(json(&folder, "trips --day 2026-11-01 --json"), json!([]));
    let map = json(&folder, "trips --day 2026-11-20 --format geojson --limit 1");
    assert_eq!(map["features"][0]["geometry"]["type"], "LineString");
}

#[test]
fn devices_and_export_sort_by_device_bytes() {
    let folder = store();
    let line = |device| format!("{{\"device_id\":\"{device}\",\"tags\":{{}}}}\n");
    let devices = ["a~b", "truck-17", "z"].map(line).concat();
    assert_eq!(folder.text("devices"), devices);
    let csv = folder.text("devices --day 2026-11-21 --format csv");
    assert_eq!(csv, "device_id,tags\ntruck-17,\n");
    assert_eq!(folder.text("devices --day 2026-11-01 --json"), "[]\n");
    let list = devices.trim_end().replace('\n', ",\n");
    assert_eq!(folder.text("devices --json"), format!("[\n{list}\n]\n"));
    let all = ids(&folder, "export");
    assert_eq!(all, ["a~7eb~20261120T214300.123Z", MERGED, NIGHT, NEXT, "z~20261119T213800.123Z"]);
    assert_eq!(ids(&folder, "export --device z"), [all[4].as_str()]);
    assert_eq!(folder.text("export --format csv").lines().count(), 6);
    assert_eq!(folder.text("export --format gpx").matches("<trk>").count(), 5);
    folder.run("export --format table").ends(2).prints_nothing();
}

#[test]
fn times_of_flags_are_not_seconds_or_years() {
    let folder = store();
    // As ms these are times of 1970, before which nothing ended.
    for words in [
        "trips truck-17 --from 1735776000",
        "trips truck-17 --to 1735776000",
        "export --from 1735776000 --to 2026-11-22T00:00:00Z",
        "forget truck-17 --before 1735776000 --yes",
        "forget --all-before 1735776000 --yes",
        "dlq ls --from 1735776000",
        "run --from 1735776000 --topic t --store scylla://127.0.0.1:9/k",
        "replay topic --from 1735776000",
    ] {
        let ran = folder.run(words).ends(2).prints_nothing();
        ran.says(&["1735776000", "for seconds, write 2025-01-02T00:00:00.000Z or 1735776000000"]);
    }
    let ran = folder.run("forget truck-17 --before 2026 --yes").ends(2).prints_nothing();
    ran.says(&["--before 2026", "for the year, write 2026-01-01T00:00:00Z"]);
    // Eight digits that are a date, and eight that are none.
    for words in ["trips truck-17 --from 20251120", "export --from 20251120"] {
        let ran = folder.run(words).ends(2).prints_nothing();
        ran.says(&["--from 20251120", "1970-01-01T05:37:31.120Z", "for the day, write 2025-11-20"]);
    }
    assert_eq!(ids(&folder, "trips truck-17 --from 29990101").len(), 3);
    // Other numbers are ms, however small.
    assert_eq!(ids(&folder, "trips truck-17 --from 0 --to 999999999999999").len(), 3);
    assert_eq!(ids(&folder, "trips truck-17 --from -1 --to 2101").len(), 0);
}

/// One noisy sample of a parked vehicle is a trip, which lists and exports may leave out.
#[test]
fn short_trips_are_left_out_on_request() {
    let mut folder = Folder::new();
    folder.env("TSTAR_MAX_FUTURE", "36500d");
    let line = |minute: i64, lat: f64, ignition: bool| {
        let time = T + minute * MINUTE;
        let sample = json!({
            "device_id": "truck-17", "time": time, "lat": lat, "lon": 2.0, "ignition": ignition
        });
        sample.to_string() + "\n"
    };
    let drive = [line(0, 1.0, true), line(1, 1.001, true)];
    folder.write("log", drive.concat() + &line(60, 1.001, true) + &line(90, 1.001, false));
    folder.ingest("log");
    for words in ["trips truck-17", "trips --day 2026-11-20", "export --device truck-17"] {
        let words = format!("{words} --kind all --format ndjson");
        let count = |metres: i64| ids(&folder, &format!("{words} --min-distance {metres}")).len();
        assert_eq!(ids(&folder, &words).len(), 3, "{words}");
        assert_eq!([count(100), count(1000)], [2, 1], "{words}");
    }
    let ran = folder.run("trips truck-17 --min-distance 0").ends(2).prints_nothing();
    ran.says(&["--min-distance", "above 0"]);
}

#[test]
fn csv_without_trips_has_the_columns_of_csv_with_them() {
    let folder = store();
    for words in ["trips truck-17", "trips --day 2026-11-20", "export"] {
        let header = |flags: &str| {
            let text = folder.text(&format!("{words} --format csv {flags}"));
            text.lines().next().map(str::to_owned).unwrap()
        };
        let (all, none) = (header(""), header("--tag reviewed"));
        assert!(all.ends_with(",version,tags"), "{all}");
        assert_eq!(none, all, "{words}");
    }
}

#[test]
fn an_export_of_a_device_that_the_store_does_not_know_fails() {
    let folder = store();
    let ran = folder.run("export --device truck-71 --out trips.csv").ends(1).prints_nothing();
    ran.says(&["the store has no device `truck-71`", "tstar devices"]);
    assert!(!folder.has("trips.csv"));
    assert_eq!(folder.text("export --device y"), "", "its trips were erased");
    assert_eq!(folder.text("export --device z --day 2026-11-20"), "");
}

#[test]
fn formats_that_a_command_has_not_are_usage_errors() {
    let folder = store();
    for (words, formats) in [
        ("verify log", "table, ndjson, json]"),
        ("doctor", "table, ndjson, json]"),
        ("dlq ls", "table, ndjson, json]"),
        ("devices", "table, ndjson, json, csv]"),
    ] {
        let ran = folder.run(&format!("{words} --format gpx")).ends(2).prints_nothing();
        ran.says(&[formats]);
    }
}

#[test]
fn the_demo_has_its_own_store() {
    let folder = Folder::new();
    let ran = folder.run("demo --store sqlite:mine.db").ends(2).prints_nothing();
    ran.says(&["sqlite:tstar-demo.db", "leave out --store"]);
    assert!(!folder.has("tstar-demo.db"));
}

#[test]
fn tables_contain_ids_and_positions() {
    let folder = store();
    let one = folder.text("lookup truck-17 2026-11-20T21:40:00Z --format table");
    assert!(one.contains(MERGED) && one.contains("lat 1.0, lon 2.0"), "{one}");
    let list = folder.text("trips truck-17 --format table");
    assert_eq!(list.lines().filter(|line| line.contains("truck-17~")).count(), 3, "{list}");
    let devices = folder.text("devices --format table");
    assert!(devices.contains("truck-17") && !devices.contains("tags"), "{devices}");
    let none = folder.text("devices --day 2026-11-01 --format table");
    assert!(none.contains("device_id"), "{none}");
}

#[test]
fn ids_are_decoded_without_a_store() {
    let folder = Folder::new();
    let uuid = "01a1fae5-173b-8152-8ed4-88d4aacc8ddd";
    let forms = json(&folder, &format!("id decode {MERGED} --json"));
    assert_eq!((&forms["uuid"], &forms["device_id"]), (&uuid.into(), &"truck-17".into()));
    assert_eq!(forms["bytes"], "ehp7aorb5koje040000q3un52stg");
    let forms = json(&folder, &format!("id decode {uuid} --json"));
    assert_eq!((&forms["text"], &forms["t_star_ms"]), (&Value::Null, &T.into()));
    assert_eq!(folder.text("id prefix a~b 2026-11"), "a~7eb~202611\n");
    folder.run(&format!("id decode {uuid} --format csv")).ends(2).prints_nothing();
}

#[test]
fn config_show_prints_a_valid_settings_file() {
    let folder = Folder::with("settings.toml", "max_gap = \"1m\"\n");
    let shown = folder.text("config show --config settings.toml --settle 2h --keep-zero-position");
    assert!(shown.contains("# settings.toml:1\n") && shown.contains("# --settle\n"), "{shown}");
    assert!(shown.contains("keep_zero_position = true"), "{shown}");
    folder.write("copy.toml", &shown);
    assert_eq!(folder.text("config check copy.toml"), "ok\n");
    folder.run("config show --max-gap 5").ends(2).prints_nothing();
    folder.run("config check missing.toml").ends(78).prints_nothing();
}

#[test]
fn readers_open_stores_by_url_and_never_create_one() {
    let folder = Folder::new();
    for command in ["devices", "export", "lookup x 0", "trips x", "trip x~19700101T000000.000Z"] {
        folder.run(&format!("{command} --store sqlite:none.db")).ends(74).prints_nothing();
        assert!(!folder.has("none.db"));
        folder.run(&format!("{command} --store trips.db")).ends(2).prints_nothing();
        folder.run(&format!("{command} --store scylla://a")).ends(2).prints_nothing();
    }
}

#[test]
fn unsupported_store_kinds_are_rejected_with_a_reason() {
    let folder = Folder::with("log", samples("a", &[0]));
    let ran = folder.run_from("ingest - --store scylla://127.0.0.1:1/fleet", "log").ends(2);
    ran.prints_nothing().says(&["would have no order"]);
    let ran = folder.run("schema apply --store sqlite:x.db").ends(2).prints_nothing();
    ran.says(&["creates its tables itself"]);
}

#[test]
fn an_unresponsive_server_is_reported_after_the_timeout() {
    let folder = Folder::new();
    for command in ["devices", "lookup x 0", "schema apply", "dlq ls"] {
        let at = "--store scylla://127.0.0.1:1/fleet --connect-timeout 100ms";
        let ran = folder.run(&format!("{command} {at}")).ends(69).prints_nothing();
        ran.says(&["scylla://127.0.0.1:1/fleet"]);
    }
}

#[test]
fn schema_and_completions_print() {
    let folder = Folder::new();
    assert!(folder.text("schema print trips").contains("CREATE TABLE"));
    assert!(folder.text("schema print trips-cql").contains("frozen<map"));
    assert!(folder.text("schema print log-cql").contains("forgets"));
    assert!(folder.text("schema print tags-cql").contains("trip_tags"));
    assert!(folder.text("completions bash").contains("_tstar"));
}
