//! First imports: tries that fail, what they leave, and what a summary warns of.

use serde_json::{Value, json};

use super::{Folder, minutes};

#[test]
fn a_first_try_that_fails_fixes_nothing() {
    let row = |minute: u32| format!("truck-17,2024-05-01T08:{minute:02}:00Z,52.{minute:02},13.5\n");
    let table = |head: &str| head.to_owned() + "\n" + &(0..3).map(row).collect::<String>();
    let folder = Folder::with("a.csv", table("device_id,time,lat,lon"));
    let wrong = "ingest a.csv --map lat=lon,lon=lat --min-time 2030-01-01T00:00:00Z --json";
    let ran = folder.run(wrong).ends(65);
    let ran = ran.says(&["time_before_min (3 samples), first a.csv:2: ", "none of the 3 samples"]);
    let first = &ran.json()["problems"][0];
    assert_eq!((&first["reason"], &first["count"]), (&json!("time_before_min"), &json!(3)));
    assert_eq!((&first["first"]["origin"], &first["first"]["line"]), (&json!("a.csv"), &json!(2)));
    // Tried again it fails again, and its letters are there once.
    folder.run(wrong).ends(65).says(&["3 dead letters of earlier tries were removed"]);
    assert_eq!(folder.text("dlq ls").lines().count(), 3);

    // The corrected command reads the same file.
    let ran = folder.run("ingest a.csv --json").ends(0);
    let ran = ran.says(&["3 dead letters of earlier tries were removed"]);
    assert_eq!((&ran.json()["applied"], &ran.json()["trips"]), (&json!(3), &json!(1)));
    assert_eq!(folder.text("dlq ls"), "");
    folder.run("verify a.csv").ends(0);
    // Now there is a sample: the rules are fixed, and the file was read.
    folder
        .run(wrong)
        .ends(78)
        .prints_nothing()
        .says(&["min_time: the store has 2000-01-01T00:00:00.000Z, requested 2030-01"]);
    assert_eq!(folder.ingest("a.csv")["duplicates"], 3);
    assert_eq!(folder.trips("trips.db")[0]["version"], 4, "the log begins with the file");
}

#[test]
fn files_with_other_names_belong_in_another_store() {
    let folder = Folder::with("a.csv", "imei,when,lat,lon\n7,2024-05-01T08:00:00Z,52.5,13.5\n");
    let hint = "into another store, such as --store sqlite:other.db";
    let mapped = "ingest a.csv --map device_id=imei,time=when";
    let first = folder.run("ingest a.csv").ends(65);
    assert!(!first.stderr.contains(hint), "the store has no map yet: {first}");
    folder.run(mapped).ends(0);
    folder.write("b.csv", "vehicle,when,lat,lon\n7,2024-05-01T08:00:00Z,52.5,13.5\n");
    folder.run("ingest b.csv").ends(65).says(&["device_id is absent", hint]);
    folder.write("c", minutes("truck-17", &[0]));
    folder.run("ingest c").ends(65).says(&["missing_field", hint]);
    folder.run("ingest c --store sqlite:other.db").ends(0);
    folder.write("e.kml", "<kml></kml>\n");
    let other = folder.run("ingest e.kml").ends(65).says(&["convert it to GPX"]);
    assert!(!other.stderr.contains(hint), "{other}");
    // One field of one of two samples is another matter.
    folder.write("d.csv", "imei,when,lat,lon\n8,2024-05-01T08:00:00Z,52.5,13.5\n8,,1,1\n");
    let some = folder.run("ingest d.csv").ends(0);
    assert!(!some.stderr.contains(hint), "{some}");
}

#[test]
fn a_store_whose_trips_were_erased_keeps_its_rules() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 1]));
    folder.ingest("log");
    folder.run("forget truck-17 --yes").ends(0);
    assert_eq!(folder.text("devices"), "");
    folder
        .run("ingest log --max-gap 10m")
        .ends(78)
        .says(&["max_gap: the store has 5m, requested 10m"]);
    folder.ingest("log");
}

#[test]
fn problems_are_reported_if_most_samples_could_not_be_used() {
    let bad = |nth: u32| format!("{{\"device_id\":\"a\",\"time\":{nth}}}\n");
    let lines = |good: u32, bad_ones: u32| {
        let good: Vec<u32> = (0..good).collect();
        minutes("truck-17", &good) + &(0..bad_ones).map(bad).collect::<String>()
    };
    let folder = Folder::with("half", lines(3, 3));
    let summary = folder.ingest("half");
    assert_eq!(summary["problems"], Value::Null);
    folder.write("most", lines(3, 4) + "no JSON\n");
    let ran = folder.run("ingest most --json --store sqlite:m.db").ends(0);
    let ran = ran.says(&["missing_field (4 samples), first most:4: ", "bad_json (1 samples)"]);
    let problems = ran.json()["problems"].clone();
    let reasons: Vec<_> = problems.as_array().unwrap().iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, ["missing_field", "bad_json"]);
    // Read again, its letters are stored already.
    let again = folder.run("ingest most --json --store sqlite:m.db").ends(0).json();
    assert_eq!(again["problems"], problems);
    // Duplicates and dropped samples could be used.
    folder.run("ingest half --store sqlite:m.db --json").ends(0);
    let all = "--max-accuracy 10 --store sqlite:d.db --json";
    folder.write("off", minutes("truck-17", &[0]).replace('}', ",\"accuracy\":50}"));
    let dropped = folder.run(&format!("ingest off {all}")).ends(0).json();
    assert_eq!(dropped["dropped"], json!({"bad_fix": 1}));
}

/// Samples every `seconds`, each this far north of the one before, m, and with this speed.
fn track(count: u32, seconds: u32, north_m: f64, speed: f64) -> String {
    let line = |nth: u32| {
        let time_ms = 1_714_550_400_000 + i64::from(nth * seconds) * 1000;
        let lat = 52.0 + f64::from(nth) * north_m / 111_195.08;
        let sample = json!({
            "device_id": "van-1", "time": time_ms, "lat": lat, "lon": 13.5, "speed": speed,
        });
        sample.to_string() + "\n"
    };
    (0..count).map(line).collect()
}

/// The warnings of an import into a new store, each with its count.
fn warnings(log: &str, flags: &str) -> Vec<(String, u64)> {
    let folder = Folder::with("log", log);
    let ran = folder.run(&format!("ingest log --json {flags}")).ends(0);
    let summary = ran.json();
    let warnings = summary["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(ran.stderr.matches("tstar: warning: ").count(), warnings.len(), "{ran}");
    for warning in warnings {
        assert!(ran.stderr.contains(warning["message"].as_str().unwrap()), "{ran}");
    }
    let warning =
        |it: &Value| (it["warning"].as_str().unwrap().to_owned(), it["count"].as_u64().unwrap());
    warnings.iter().map(warning).collect()
}

#[test]
fn a_heartbeat_as_long_as_the_gap_is_warned_of() {
    let parked = track(36, 300, 0.0, 0.0);
    let found = [("heartbeat_near_gap".to_owned(), 35)];
    assert_eq!(warnings(&parked, ""), found);
    assert_eq!(warnings(&parked, "--max-gap 290s"), found);
    for flags in ["--max-gap 10m", "--max-gap 2m"] {
        assert_eq!(warnings(&parked, flags), [], "{flags}");
    }
    assert_eq!(warnings(&track(36, 300, 3000.0, 10.0), ""), [], "it drives");
}

#[test]
fn a_wrong_unit_of_speed_is_named() {
    let folder = Folder::with("log", track(30, 10, 150.0, 54.0));
    let ran = folder.run("ingest log --json").ends(0);
    ran.says(&["read as mps, are 3.6 times", "in kmh", "--speed-unit kmh"]);
    for (speed, flags) in [(15.0, ""), (54.0, "--speed-unit kmh"), (29.16, "--speed-unit kn")] {
        assert_eq!(warnings(&track(30, 10, 150.0, speed), flags), [], "{speed} {flags}");
    }
    let found = [("speed_unit".to_owned(), 29)];
    assert_eq!(warnings(&track(30, 10, 150.0, 15.0), "--speed-unit kmh"), found);
    assert_eq!(
        warnings(&track(5, 10, 150.0, 54.0), ""),
        [("speed_unit".to_owned(), 4)],
        "all agree"
    );
    assert_eq!(warnings(&track(4, 10, 150.0, 54.0), ""), [], "too few legs");
}

#[test]
fn times_without_seconds_and_shared_ids_are_warned_of() {
    // 120 samples, one each 30 s, of which a format without seconds keeps the minute.
    let rows = |step_m: f64, time: &dyn Fn(u32) -> String| {
        let row = |nth: u32| {
            let lat = 52.0 + f64::from(nth) * step_m / 111_195.08;
            format!("van-1,{},{lat},13.5\n", time(nth))
        };
        (0..120).map(row).fold("device_id,time,lat,lon\n".to_owned(), |text, row| text + &row)
    };
    let minute = |nth: u32| format!("2024-05-01 {:02}:{:02}", 8 + nth / 120, nth / 2 % 60);
    let cut = rows(300.0, &minute);
    let format = "--input-format csv --time-zone UTC --time-format %Y-%m-%dT%H:%M";
    let found = [("conflicting".to_owned(), 60)];
    assert_eq!(warnings(&cut.replace(' ', "T"), format), found);
    let folder = Folder::with("log", cut.replace(' ', "T"));
    let cause = "60 of 120 samples have the device and time of another sample";
    folder.run(&format!("ingest log {format}")).ends(0).says(&[cause, "lost their seconds"]);
    let inspected = folder.text(&format!("inspect log {format}"));
    assert!(inspected.contains(cause) && inspected.contains("lost their seconds"), "{inspected}");
    // Two vehicles, 100 km apart, each second.
    let seconds = |nth: u32| format!("2024-05-01T08:00:{:02}Z", nth / 2);
    let shared = (0..120_u32).map(|nth| {
        let lat = 52.0 + f64::from(nth % 2) * 0.9;
        format!("van-1,{},{lat},13.5\n", seconds(nth))
    });
    let shared = shared.fold("device_id,time,lat,lon\n".to_owned(), |text, row| text + &row);
    assert_eq!(warnings(&shared, "--input-format csv"), found);
    let folder = Folder::with("log", shared);
    folder.run("ingest log --input-format csv").ends(0).says(&["two vehicles share an id"]);
    // A few conflicts are usual.
    let usual = |nth: u32| format!("2024-05-01T08:{:02}:{:02}Z", nth.max(5) / 60, nth.max(5) % 60);
    assert_eq!(warnings(&rows(10.0, &usual), "--input-format csv"), []);
}

#[test]
fn trips_at_a_limit_and_jumps_are_counted() {
    let drive = track(40, 60, 900.0, 15.0);
    let trips = [("max_samples_reached".to_owned(), 3)];
    assert_eq!(warnings(&drive, "--max-samples 10"), trips);
    let jumps = [("jumps".to_owned(), 3)];
    assert_eq!(warnings(&track(4, 60, 90_000.0, 15.0), ""), jumps);
    assert_eq!(warnings(&track(4, 60, 90_000.0, 15.0), "--max-leg-speed 60"), []);
    // Trips have them in whatever order their samples arrive.
    let far = track(4, 60, 90_000.0, 15.0);
    let backwards: String = far.lines().rev().map(|line| format!("{line}\n")).collect();
    assert_eq!(warnings(&backwards, ""), jumps);
}
