//! Bad fixes: positions at 0, and legs that no vehicle drives.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Folder;

/// Eleven fixes of a drive of 1.1 km, ten seconds apart, the given position instead of the sixth.
fn drive(odd: Option<(f64, f64)>) -> String {
    let line = |nth: u32| {
        let on_the_way = (52.5 + 0.001 * f64::from(nth), 13.4);
        let (lat, lon) = odd.filter(|_| nth == 5).unwrap_or(on_the_way);
        let time = format!("2026-11-20T07:{:02}:{:02}Z", nth / 6, nth % 6 * 10);
        json!({"device_id": "van-1", "time": time, "lat": lat, "lon": lon}).to_string() + "\n"
    };
    (0..11).map(line).collect()
}

/// The only trip of a log under these flags, and the summary of its import into a new store.
fn trip(log: &str, flags: &str) -> (Value, Value) {
    let folder = Folder::with("log", log);
    let summary = folder.ingest(&format!("log {flags}"));
    folder.run("verify log").ends(0);
    let [trip] = <[Value; 1]>::try_from(folder.trips("trips.db")).expect("one trip");
    (trip, summary)
}

fn number(trip: &Value, name: &str) -> f64 {
    trip[name].as_f64().expect(name)
}

#[test]
fn one_fix_at_0_0_does_not_change_the_distance() {
    let (clean, summary) = trip(&drive(None), "");
    assert_eq!((&clean["samples"], &summary["dropped"]), (&json!(11), &json!({})));
    assert!((number(&clean, "distance_m") - 1112.0).abs() < 0.1, "{clean}");
    assert_eq!(clean["jumps"], Value::Null);

    let (trip_of_ten, summary) = trip(&drive(Some((0.0, 0.0))), "");
    assert_eq!(summary["dropped"], json!({"zero_position": 1}));
    assert_eq!((&summary["delivered"], &summary["applied"]), (&json!(11), &json!(10)));
    assert_eq!(trip_of_ten["distance_m"], clean["distance_m"]);
    assert_eq!(trip_of_ten["bbox"], clean["bbox"]);

    let (kept, summary) = trip(&drive(Some((0.0, 0.0))), "--keep-zero-position");
    assert_eq!((&kept["samples"], &summary["dropped"]), (&json!(11), &json!({})));
    assert!(number(&kept, "distance_m") > 10_000_000.0, "{kept}");
}

#[test]
fn jumps_count_neither_for_distance_nor_for_average_speed() {
    let log = drive(Some((40.7, -74.0)));
    let (all, _) = trip(&log, "");
    assert!(number(&all, "distance_m") > 10_000_000.0, "{all}");
    assert_eq!(all["jumps"], Value::Null);
    let (limited, _) = trip(&log, "--max-leg-speed 60");
    // Eight of the ten legs, 111.2 m and 10 s each.
    assert!((number(&limited, "distance_m") - 889.6).abs() < 0.1, "{limited}");
    assert_eq!((&limited["avg_speed_mps"], &limited["jumps"]), (&json!(11.12), &json!(2)));
    for unchanged in ["duration_s", "samples", "max_speed_mps", "bbox", "id"] {
        assert_eq!(limited[unchanged], all[unchanged], "{unchanged}");
    }
    // Sorted backwards: the same trip under another id.
    let backwards: String = log.lines().rev().map(|line| format!("{line}\n")).collect();
    let (reversed, _) = trip(&backwards, "--max-leg-speed 60");
    for same in ["distance_m", "avg_speed_mps", "jumps"] {
        assert_eq!(reversed[same], limited[same], "{same}");
    }
    let at_the_limit = trip(&drive(None), "--max-leg-speed 11.12").0;
    assert_eq!(at_the_limit["jumps"], 0, "each leg has 11.1195 m/s");
    let below = trip(&drive(None), "--max-leg-speed 11.11").0;
    assert_eq!((&below["jumps"], &below["avg_speed_mps"]), (&json!(10), &Value::Null));
}

#[test]
fn the_odd_fixes_of_other_systems() {
    let odd = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/formats/odd/odd.ndjson");
    let odd = std::fs::read_to_string(odd).unwrap();
    let rows: Vec<_> = odd.lines().collect();
    let before = r#"{"device_id":"a","time":"2026-11-20T07:00:01Z","lat":52.0,"lon":13.0}"#;
    let log = format!("{before}\n{}\n{}\n", rows[5], rows[6]);
    let (limited, summary) = trip(&log, "--max-leg-speed 100");
    assert_eq!(summary["dropped"], json!({"zero_position": 1}));
    assert_eq!((&limited["samples"], &limited["jumps"]), (&json!(2), &json!(1)));
    assert_eq!((&limited["distance_m"], &limited["avg_speed_mps"]), (&json!(0.0), &Value::Null));
    assert_eq!(limited["bbox"], json!([-74.0, 40.7, 13.0, 52.0]), "the path stays");
}

#[test]
fn verify_compares_the_jumps_and_the_limit_is_a_rule() {
    let folder = Folder::new();
    let flags = "--max-leg-speed 60 --store sqlite:t.db";
    folder.write("log", drive(Some((40.7, -74.0))));
    folder.ingest(&format!("log {flags}"));
    folder.run("verify log --store sqlite:t.db").ends(0);
    let spoil = "UPDATE trips SET jumps = 3, jump_s = 1";
    Connection::open(folder.path("t.db")).unwrap().execute_batch(spoil).unwrap();
    let ran = folder.run("verify log --store sqlite:t.db --json").ends(1);
    assert!(ran.text().contains(r#""columns":["jumps","jump_s"]"#), "{ran}");
    folder.run("verify log --store sqlite:t.db --repair").ends(0);
    folder.run("verify log --store sqlite:t.db").ends(0);
    folder.write("later", drive(None).replace("2026-11-20", "2026-11-21"));
    let other = folder.run("ingest later --max-leg-speed 50 --store sqlite:t.db").ends(78);
    other.says(&["max_leg_speed: the store has 60, requested 50"]);
}
