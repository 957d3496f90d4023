//! Lookups: by time, by an id in every form, and without a result.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Folder, Ran, keys, minutes};

/// Keys of a trip, in the contract's order.
pub const TRIP: [&str; 23] = [
    "id",
    "device_id",
    "kind",
    "t_star",
    "start_time",
    "end_time",
    "duration_s",
    "moving_s",
    "idle_s",
    "parked_s",
    "samples",
    "distance_m",
    "avg_speed_mps",
    "max_speed_mps",
    "jumps",
    "driver",
    "start",
    "end",
    "bbox",
    "absorbed",
    "version",
    "tags",
    "open",
];

/// A store with the worked example of the contract.
fn example() -> Folder {
    let folder = Folder::with("log", minutes("truck-17", &[10, 12, 0, 2, 6]));
    folder.ingest("log");
    folder
}

#[test]
fn a_lookup_answers_with_one_object() {
    let folder = example();
    for time in ["2024-05-01T08:00:00Z", "2024-05-01T10:04:00+02:00", "1714551120000"] {
        let ran = folder.run(&format!("lookup truck-17 {time} --json")).ends(0);
        assert_eq!(keys(&ran.text()), TRIP);
        let trip = ran.json();
        assert_eq!(trip["id"], "truck-17~20240501T080000.000Z");
        assert_eq!(trip["duration_s"], 720.0);
        assert_eq!(trip["open"], false);
        assert!(trip["max_speed_mps"].is_null() && trip["driver"].is_null());
        assert!(ran.stderr.is_empty(), "{ran}");
    }
    // No test machine's clock has passed 2100.
    folder.write("later", minutes("truck-17", &[0]).replace("2024", "2100"));
    folder.ingest("later --max-future 36500d --store sqlite:later.db");
    let ran = folder.run("lookup truck-17 2100-05-01T08:00:00Z --json --store sqlite:later.db");
    assert_eq!(ran.ends(0).json()["open"], true);
    let path = folder.run("lookup truck-17 2024-05-01T08:00:00Z --json --path").ends(0).json();
    let path = &path["path"];
    for column in ["times", "coordinates", "speed_mps", "heading_deg"] {
        assert_eq!(path[column].as_array().unwrap().len(), 5, "{column}");
    }
    assert_eq!(path["times"][1], "2024-05-01T08:02:00.000Z");
    assert_eq!(path["coordinates"][1], json!([13.5, 52.02]));
}

#[test]
fn a_miss_says_why_and_prints_nothing() {
    let folder = example();
    folder.write("later", minutes("truck-17", &[40]));
    folder.ingest("later");
    let before = "the trip before is truck-17~20240501T080000.000Z, \
                  which ends 2024-05-01T08:12:00.000Z";
    let after = "the trip after is truck-17~20240501T084000.000Z, \
                 which starts 2024-05-01T08:40:00.000Z";
    let unknown = "similar: `truck-17`; list the devices with `tstar devices`";
    for (miss, why) in [
        (
            "lookup truck-17 2024-05-01T07:59:59.999Z",
            "tstar: no trip of device `truck-17` covers 2024-05-01T07:59:59.999Z; the trip after is \
             truck-17~20240501T080000.000Z, which starts 2024-05-01T08:00:00.000Z\n"
                .to_owned(),
        ),
        (
            "lookup truck-17 2024-05-01T08:12:00.001Z --json",
            format!("covers 2024-05-01T08:12:00.001Z; {before}; {after}\n"),
        ),
        ("lookup truck-17 2024-05-02T00:00:00Z", "which ends 2024-05-01T08:40:00.000Z\n".into()),
        (
            "lookup truck-18 2024-05-01T08:00:00Z",
            format!("tstar: the store has no device `truck-18`; {unknown}\n"),
        ),
        ("lookup Truck-17 2024-05-01T08:00:00Z", format!("no device `Truck-17`; {unknown}\n")),
        (
            "lookup a-ship-at-sea 2024-05-01T08:00:00Z",
            "no device `a-ship-at-sea`; list the devices with `tstar devices`\n".into(),
        ),
        (
            "trip truck-17~20240502T080000.000Z --json",
            "no trip has the id `truck-17~20240502T080000.000Z`: no trip of its device covers"
                .to_owned(),
        ),
        ("trip 01a1fae5-173b-8152-8ed4-88d4aacc8ddd", "01a1fae5".into()),
    ] {
        folder.run(miss).ends(1).prints_nothing().says(&[&why]);
    }
    folder.run("forget truck-17 --before 2024-05-01T09:00:00Z --yes").ends(0);
    folder
        .run("lookup truck-17 2024-05-01T10:00:00Z")
        .ends(1)
        .prints_nothing()
        .says(&["covers 2024-05-01T10:00:00.000Z; its trips were erased (tstar forget)\n"]);
}

#[test]
fn a_device_in_the_place_of_a_trip_id_is_called_a_device() {
    let folder = example();
    let spaced = minutes("my truck", &[0]);
    folder.write("spaced", spaced);
    folder.ingest("spaced");
    let usage = "list the trips of a device with `tstar trips DEVICE`";
    for command in ["trip", "explain", "tag"] {
        for (given, why) in [
            (
                "truck-17",
                "`truck-17` is a device, not a trip id; list its trips with `tstar trips \
              truck-17`",
            ),
            ("truck-18", "\"truck-18\" is not a trip id: it has no `~`; a trip id looks like"),
            ("truck-18", usage),
            ("4711", "\"4711\" is not a trip id: it has no `~`"),
            ("4711", usage),
        ] {
            folder.run(&format!("{command} {given}")).ends(2).prints_nothing().says(&[why]);
        }
        let mut spaced = folder.command(command);
        let ran = Ran::run(command, spaced.arg("my truck")).ends(2).prints_nothing();
        ran.says(&["`my truck` is a device", "`tstar trips 'my truck'`"]);
    }
}

#[test]
fn an_id_resolves_in_every_form_also_when_it_is_retired() {
    let folder = example();
    let current = "truck-17~20240501T080000.000Z";
    for (minute, matched, merged) in
        [("00", "current", false), ("10", "retired", true), ("06", "covers", false)]
    {
        let time = format!("2024-05-01T08:{minute}:00Z");
        for form in ["text", "bytes", "uuid"] {
            let id = folder.text(&format!("id encode truck-17 {time} --form {form}"));
            let id = id.trim_end();
            let ran = folder.run(&format!("trip {id} --json")).ends(0);
            let added = ["requested_id", "match", "merged"];
            let mut expected: Vec<_> = TRIP.iter().chain(&added).collect();
            let found = keys(&ran.text());
            let mut sorted: Vec<_> = found.iter().map(String::as_str).collect();
            expected.sort();
            sorted.sort_unstable();
            assert!(sorted.iter().eq(expected.into_iter()), "keys {found:?}");
            let trip = ran.json();
            let said = (&trip["requested_id"], &trip["id"], &trip["match"], &trip["merged"]);
            assert_eq!(said, (&json!(id), &json!(current), &json!(matched), &json!(merged)));
        }
    }
}

#[test]
fn the_vectors_of_the_contract() {
    let folder = Folder::new();
    for (device, form, id) in [
        ("truck-17", "text", "truck-17~20261120T213800.123Z"),
        ("truck-17", "bytes", "ehp7aorb5koje040000q3un52stg"),
        ("truck-17", "uuid", "01a1fae5-173b-8152-8ed4-88d4aacc8ddd"),
        ("a~b", "text", "a~7eb~20261120T213800.123Z"),
        ("..", "text", "~2e~2e~20261120T213800.123Z"),
    ] {
        let encoded = folder.text(&format!("id encode {device} 1795210680123 --form {form}"));
        assert_eq!(encoded, format!("{id}\n"));
        let decoded = folder.run(&format!("id decode {id} --json")).ends(0).json();
        assert_eq!(decoded["t_star_ms"], 1_795_210_680_123_u64);
        if form != "uuid" {
            assert_eq!(decoded["device_id"], device);
        }
    }
    assert_eq!(folder.text("id prefix truck-17 2026-11-20"), "truck-17~20261120\n");
}

#[test]
fn lists_of_trips_and_devices() {
    let folder = Folder::with("log", minutes("b", &[0, 20, 40]) + &minutes("a", &[0]));
    folder.ingest("log");
    let starts = |words: &str| {
        let trips = folder.run(words).ends(0).objects();
        let starts =
            trips.iter().map(|trip| trip["start_time"].as_str().unwrap()[14..16].to_owned());
        starts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(starts("trips b"), "00 20 40");
    assert_eq!(starts("trips b --order desc --limit 2"), "40 20");
    let range = "--from 2024-05-01T08:20:00Z --to 2024-05-01T08:39:59.999Z";
    assert_eq!(starts(&format!("trips b {range}")), "20");
    assert_eq!(starts("trips b --prefix 20240501T08"), "00 20 40");
    assert_eq!(starts("trips b --prefix 20240501T09"), "");
    folder.run("trips unknown").ends(1).prints_nothing().says(&["no device `unknown`"]);
    assert_eq!(starts("trips --day 2024-05-01"), "00 00 20 40");
    assert_eq!(folder.text("devices --format csv"), "device_id,tags\na,\nb,\n");
    assert_eq!(folder.text("devices --day 2024-05-02 --json"), "[]\n");
}

#[test]
fn schema_and_completions_are_printed() {
    let folder = Folder::new();
    let schema = folder.text("schema print");
    let trips = ["trips", "device_days", "days_of_device"];
    for table in trips.into_iter().chain([
        "log",
        "imports",
        "dead_letters",
        "changes",
        "control_keys",
        "schemas",
    ]) {
        assert!(schema.contains(&format!("CREATE TABLE {table} ")), "no {table} in\n{schema}");
    }
    assert!(folder.text("schema print path").contains("message "));
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.text(&format!("completions {shell}"));
        assert!(script.contains("tstar") && script.contains("lookup"), "{shell}");
    }
    assert!(folder.text("--version").starts_with(concat!("tstar ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn man_pages_are_written() {
    let folder = Folder::with("taken", "a file");
    let listed = folder.text("man --out pages/man1");
    let listed: BTreeSet<_> = listed.lines().map(str::to_owned).collect();
    for name in ["tstar", "tstar-ingest", "tstar-schema-apply", "tstar-man"] {
        assert!(listed.contains(&format!("pages/man1/{name}.1")), "no {name} in {listed:?}");
    }
    let mut references = 0;
    for path in &listed {
        let page = String::from_utf8(folder.read(path)).unwrap();
        let version = concat!("\" \"1\" \"\" \"tstar ", env!("CARGO_PKG_VERSION"));
        assert!(page.starts_with(".TH \"tstar") && page.contains(version), "{page}");
        assert!(page.contains(".SH EXAMPLES\n.nf\ntstar"), "{path}: {page}");
        let subcommands = page.split(".SH SUBCOMMANDS").nth(1).unwrap_or_default();
        for line in subcommands.lines().filter_map(|line| line.strip_suffix("(1)")) {
            let other = line.replace("\\-", "-");
            assert!(listed.contains(&format!("pages/man1/{other}.1")), "{path} names {other}");
            references += 1;
        }
    }
    // Each page but the first is named by the page of the command above it.
    assert_eq!(references, listed.len() - 1);
    assert_eq!(folder.text("man --out pages/man1").lines().count(), listed.len());
    folder.run("man --out taken").ends(74).prints_nothing().says(&["folder `taken`", "--out"]);
}
