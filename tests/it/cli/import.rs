//! `simulate` and `ingest`: the summary, its sums, and repeated imports.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use serde_json::{Value, json};

use super::{Folder, fields, keys, minutes, number, sum};

/// Shares of end, inside, beginning and merge among the arrivals that are neither new nor
/// duplicate, percent.
fn mix(summary: &Value) -> [f64; 4] {
    let count = |name: &str| number(&summary["arrivals"][name]) as f64;
    let counts = ["end", "inside", "beginning", "merge"].map(count);
    counts.map(|part| 100.0 * part / counts.iter().sum::<f64>())
}

#[test]
fn the_summary_is_one_object_whose_sums_hold() {
    let folder = Folder::new();
    folder.write_fleet("log", "");
    let ran = folder.run("ingest log --json").ends(0);
    let (text, summary) = (ran.text(), ran.json());
    let names = "delivered applied duplicates conflicting skipped dropped dead_letters arrivals \
                 trips ids_retired key_changes";
    assert_eq!(keys(&text).join(" "), names);
    let inner = fields(&text);
    let kinds = ["new", "end", "inside", "beginning", "merge", "split", "turn"];
    assert_eq!(keys(inner["arrivals"].get()), kinds);
    assert_eq!(keys(inner["key_changes"].get()), ["t_star", "start", "end", "start_end"]);

    let count = |name: &str| number(&summary[name]);
    let arrived = |name: &str| number(&summary["arrivals"][name]);
    assert_eq!(count("delivered"), 20_000);
    assert_eq!(sum(&summary["arrivals"]), count("applied"));
    let left_out = sum(&summary["dropped"]) + sum(&summary["dead_letters"]);
    assert_eq!(count("delivered"), count("applied") + count("duplicates") + left_out);
    assert!(count("conflicting") > 0 && count("conflicting") <= count("duplicates"), "{ran}");
    let (beginning, end, merge) = (arrived("beginning"), arrived("end"), arrived("merge"));
    let expected = json!({
        "t_star": merge, "start": beginning + merge, "end": end + merge,
        "start_end": beginning + end + merge,
    });
    assert_eq!(summary["key_changes"], expected);
    assert_eq!(count("ids_retired"), merge);
    assert_eq!(count("trips"), arrived("new") - merge);
    assert_eq!(count("trips"), folder.trips("trips.db").len() as u64);
}

#[test]
fn a_field_map_splits_skips_and_drops() {
    let folder = Folder::new();
    let at = |minute: u32| format!(r#""t":"2026-11-20T07:{minute:02}:00Z","lat":52.5,"lon":13.4"#);
    let lines = [
        format!(r#"{{"k":"fix","id":"a","s":[{{{}}},{{{}}},{{"lat":1}}]}}"#, at(0), at(1)),
        r#"{"k":"other"}"#.to_owned(),
        format!(r#"[{{"k":"fix","s":[{{{}}}]}},{{"k":"fix","s":[]}}]"#, at(2)),
        format!(r#"{{"k":"fix","ok":0,"s":[{{{}}},{{"ok":true,{}}}]}}"#, at(3), at(4)),
    ];
    folder.write("van-9.day.ndjson", lines.join("\n"));
    let map = "--map samples=/s,device_id=/id|@file,time=t,when=/k=fix,valid=/ok";
    let summary = folder.ingest(&format!("van-9.day.ndjson {map} --store sqlite:map.db"));
    assert_eq!(number(&summary["delivered"]), 7);
    assert_eq!(number(&summary["applied"]), 4);
    assert_eq!(number(&summary["skipped"]), 1);
    assert_eq!(summary["dropped"], json!({ "bad_fix": 1 }));
    assert_eq!(summary["dead_letters"], json!({ "missing_field": 1 }));
    let devices = folder.run("devices --format ndjson --store sqlite:map.db").ends(0).objects();
    let names: Vec<_> = devices.iter().map(|device| device["device_id"].clone()).collect();
    assert_eq!(names, ["a", "van-9"]);
    // The letter of an element keeps the record around it, and is not lost by a replay.
    let letters = folder.run("dlq ls --format ndjson --store sqlite:map.db").ends(0).objects();
    assert_eq!(letters.len(), 1, "{letters:?}");
    folder.run("dlq replay --store sqlite:map.db").ends(0);
    let again = folder.run("dlq ls --format ndjson --store sqlite:map.db").ends(0).objects();
    assert_eq!(again.len(), 1, "{again:?}");
    folder.run("verify van-9.day.ndjson --store sqlite:map.db").ends(0);
    // The same file gives duplicates alone, and no letter twice.
    let again = folder.ingest(&format!("van-9.day.ndjson {map} --store sqlite:map.db"));
    assert_eq!(number(&again["applied"]), 0);
    assert_eq!(number(&again["duplicates"]), 4);
}

#[test]
fn simulate_gives_the_asked_mix_and_the_same_bytes() {
    let folder = Folder::new();
    let fleet = "simulate --devices 20 --samples 20000 --seed 3";
    for asked in [[46.0, 34.0, 19.0, 1.0], [70.0, 10.0, 18.0, 2.0]] {
        let flags = format!("--mix {}", asked.map(|weight| weight.to_string()).join(","));
        let log = folder.text(&format!("{fleet} {flags}"));
        assert_eq!(log.lines().count(), 20_000);
        assert!(log == folder.text(&format!("{fleet} {flags}")), "one seed gave two logs");
        folder.write("log", &log);
        let found = mix(&folder.ingest(&format!("log --store sqlite:{}.db", asked[0])));
        for (found, asked) in found.iter().zip(asked) {
            assert!((found - asked).abs() <= 1.0, "{found} % where {asked} % was requested");
        }
    }
    let other = folder.text("simulate --devices 20 --samples 20000 --seed 4");
    assert!(folder.text(fleet) != other, "two seeds gave one log");
}

#[test]
fn what_is_imported_again_changes_nothing() {
    let folder = Folder::new();
    folder.write_fleet("log", "");
    let first = folder.ingest("log");
    let before = folder.text("export --path");
    let second = folder.ingest("log");
    assert_eq!(second["applied"], 0);
    assert_eq!(second["delivered"], 20_000);
    assert_eq!(second["dead_letters"], first["dead_letters"]);
    let dead = sum(&second["dead_letters"]);
    assert!(dead > 0);
    assert_eq!(number(&second["duplicates"]), 20_000 - dead);
    assert_eq!(second["trips"], first["trips"]);
    assert!(folder.text("export --path") == before, "a second import changed the trips");
}

/// Whether a line has what a sample needs, by the contract only.
fn is_good(line: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return false };
    let within = |name: &str, most: f64| {
        value[name].as_f64().is_some_and(|number| (-most..=most).contains(&number))
    };
    let time = value["time"].as_str().and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    let time_is_good =
        time.is_some_and(|time| (946_684_800..4_000_000_000).contains(&time.timestamp()));
    let speed_is_good = value.get("speed").is_none_or(|speed| speed.as_f64() >= Some(0.0));
    let device = value["device_id"].as_str().unwrap_or_default();
    let device_is_good = (1..=256).contains(&device.len()) && !device.contains('\0');
    device_is_good && time_is_good && within("lat", 90.0) && within("lon", 180.0) && speed_is_good
}

#[test]
fn every_malformed_line_becomes_a_dead_letter() {
    let folder = Folder::new();
    let log = folder
        .run("simulate --mix 46,34,19,1 --devices 5 --samples 4000 --seed 9 --bad 0.5")
        .ends(0)
        .stdout;
    folder.write("log", &log);
    let lines: Vec<_> = log.split(|&byte| byte == b'\n').collect();
    let numbered = lines[..lines.len() - 1].iter().zip(1..);
    let bad: BTreeSet<u64> = numbered.filter(|(line, _)| !is_good(line)).map(|(_, n)| n).collect();
    assert!((1800..2200).contains(&bad.len()), "{} malformed lines", bad.len());
    let summary = folder.ingest("log");
    assert_eq!(sum(&summary["dead_letters"]), bad.len() as u64);
    assert!(summary["dead_letters"].as_object().unwrap().len() >= 8, "{summary}");

    let letters = folder.run("dlq ls").ends(0).objects();
    // A run of equal lines is one letter.
    let lines = |letter: &Value| {
        let first = number(&letter["line"]);
        first..first + number(&letter["count"])
    };
    let found: BTreeSet<u64> = letters.iter().flat_map(lines).collect();
    assert_eq!(found, bad);
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for letter in &letters {
        *reasons.entry(letter["reason"].as_str().unwrap()).or_default() += number(&letter["count"]);
    }
    assert_eq!(json!(reasons), summary["dead_letters"]);
}

#[test]
fn a_dead_letter_keeps_the_original_bytes_and_their_place() {
    let folder = Folder::new();
    let log = folder
        .run("simulate --mix 46,34,19,1 --devices 5 --samples 800 --seed 2 --bad 0.05")
        .ends(0)
        .stdout;
    folder.write("log", &log);
    let lines: Vec<_> = log.split(|&byte| byte == b'\n').collect();
    folder.ingest("log");
    let letters = folder.run("dlq ls").ends(0).objects();
    assert!(letters.len() > 20, "{} dead letters", letters.len());
    for letter in &letters {
        assert_eq!(letter["file"], "log");
        let line = lines[number(&letter["line"]) as usize - 1];
        let shown = folder.run(&format!("dlq show {} --raw", letter["id"])).ends(0);
        assert!(shown.stdout == line, "not the bytes of line {}\n{shown}", letter["line"]);
        assert_eq!(number(&letter["value_bytes"]), line.len() as u64);
    }
    assert!(letters.iter().any(|letter| letter["value"].is_null()), "no line that is not UTF-8");
    folder.run("dlq show 999999").ends(1).prints_nothing().says(&["no dead letter 999999"]);
}

#[test]
fn strict_tells_by_its_exit_alone() {
    let folder = Folder::new();
    folder
        .write("log", folder.text("simulate --mix 46,34,19,1 --devices 3 --samples 500 --seed 3"));
    folder.ingest("log --strict --store sqlite:good.db");
    folder.write_fleet("log", "");
    folder.ingest("log --store sqlite:lax.db");
    let strict = folder.run("ingest log --json --strict --store sqlite:strict.db").ends(65);
    assert_eq!(number(&strict.json()["delivered"]), 20_000);
    assert!(strict.stderr.contains("--strict"), "{strict}");
    let export = |store: &str| folder.text(&format!("export --path --store sqlite:{store}.db"));
    assert!(export("strict") == export("lax"), "--strict gave other trips");
    let letters = |store: &str| folder.text(&format!("dlq ls --store sqlite:{store}.db"));
    assert_eq!(letters("strict").lines().count(), letters("lax").lines().count());
}

#[test]
fn the_worked_example_of_the_contract() {
    for (order, t_star, absorbed) in
        [([10, 12, 0, 2, 6], "00", vec!["10"]), ([12, 10, 6, 2, 0], "12", vec![])]
    {
        let folder = Folder::with("log", minutes("truck-17", &order));
        let summary = folder.ingest("log");
        let trips = folder.trips("trips.db");
        assert_eq!((&summary["trips"], trips.len()), (&json!(1), 1));
        let id = |minute: &str| format!("truck-17~20240501T08{minute}00.000Z");
        let trip = &trips[0];
        assert_eq!(trip["id"], id(t_star));
        assert_eq!(trip["start_time"], "2024-05-01T08:00:00.000Z");
        assert_eq!(trip["end_time"], "2024-05-01T08:12:00.000Z");
        assert_eq!(trip["samples"], 5);
        assert_eq!(trip["absorbed"], json!(absorbed.into_iter().map(id).collect::<Vec<_>>()));
        assert_eq!(summary["ids_retired"], trip["absorbed"].as_array().unwrap().len());
    }
}

#[test]
fn dead_letters_without_end_stop_an_import_that_resumes_once_they_have_place() {
    let bad =
        |nth: u32| format!("{{\"device_id\":\"van\",\"bad\":{nth},\"pad\":\"{:900}\"}}\n", "");
    let lines = minutes("van", &[0, 1]) + &(0..400).map(bad).collect::<String>();
    let folder = Folder::with("log", lines + &minutes("van", &[2]));
    let bounded = "ingest log --json --max-dead-letters 200KB";
    let words = ["no more dead letters", "200000 bytes", "tstar dlq purge", "rerun the command"];
    folder.run(bounded).ends(65).says(&words);
    // It stops there again, and loses nothing when there is place.
    folder.run(bounded).ends(65).says(&words);
    let summary = folder.run("ingest log --json").ends(0).json();
    assert_eq!(summary["dead_letters"], json!({ "missing_field": 400 }));
    assert_eq!(folder.run("dlq ls --limit 1000").ends(0).objects().len(), 400);
    assert_eq!(folder.trips("trips.db")[0]["samples"], 3);
}

#[test]
fn a_run_of_equal_rows_is_one_letter_and_counts_as_what_it_is() {
    let folder = Folder::with("log", "0\n".repeat(50_000));
    let summary = folder.run("ingest log --input-format ndjson --json").ends(65).json();
    assert_eq!(summary["delivered"], 50_000);
    assert_eq!(summary["dead_letters"], json!({ "bad_json": 50_000 }));
    let letters = folder.run("dlq ls").ends(0).objects();
    assert_eq!((letters.len(), &letters[0]["count"]), (1, &json!(50_000)));
    let shown = folder.run("dlq ls --format table").ends(0).text();
    assert!(shown.contains("(50000 times in a row)") && shown.contains("log:1"), "{shown}");
    let size = std::fs::metadata(folder.path("trips.db")).unwrap().len();
    assert!(size < 300_000, "{size} bytes");
}
