//! Rows that cannot be decoded: they are named, and not taken for trips that do not exist.

use rusqlite::Connection;

use super::{Folder, minutes};

/// A store with a trip at 8:00 to 8:02, another at 8:40, and one of another device.
fn store() -> Folder {
    let log = minutes("truck-1", &[0, 2, 40]) + &minutes("van-1", &[5]);
    let folder = Folder::with("log", log);
    folder.ingest("log");
    folder
}

/// Overwrites the paths of some trips.
fn damage(folder: &Folder, which: &str, count: usize) {
    let connection = Connection::open(folder.path("trips.db")).unwrap();
    let update = format!("UPDATE trips SET path = x'0102030405' WHERE {which}");
    assert_eq!(connection.execute(&update, []).unwrap(), count);
}

const SAID: &[&str] = &["stored trip is malformed: device=`truck-1`", "tstar verify --repair"];

#[test]
fn a_lookup_of_a_malformed_trip_is_65_with_the_command_that_repairs_it() {
    let folder = store();
    damage(&folder, "device_id = 'truck-1' AND samples = 2", 1);
    folder.run("lookup truck-1 2024-05-01T08:01:00Z").ends(65).prints_nothing().says(SAID);
    folder.run("trip truck-1~20240501T080000.000Z").ends(65).prints_nothing().says(SAID);
    let between = folder.run("lookup truck-1 2024-05-01T08:20:00Z").ends(1).prints_nothing();
    between.says(&["no trip", "the trip after is", "malformed trips left out: 1"]).says(SAID);
    folder.run("lookup truck-1 2024-05-01T08:40:00Z").ends(0);
    // Processing continues past it.
    folder.write("more", minutes("truck-1", &[44]));
    assert_eq!(folder.ingest("more")["applied"], 1);
    assert_eq!(
        folder.run("doctor --json").ends(1).json().to_string().matches("\"fail\"").count(),
        1
    );
    folder.run("doctor --deep").ends(1);
    folder.run("verify log more --repair").ends(0);
    for words in ["lookup truck-1 2024-05-01T08:01:00Z", "export", "doctor --deep", "backup b.db"] {
        folder.run(words).ends(0);
    }
}

#[test]
fn lists_and_exports_without_a_malformed_trip_are_65() {
    let folder = store();
    damage(&folder, "device_id = 'truck-1' AND samples = 2", 1);
    for (words, left) in [
        ("trips truck-1", 1),
        ("trips truck-1 --prefix 20240501T08", 1),
        ("trips --day 2024-05-01", 2),
        ("export", 2),
        ("export --device truck-1 --points", 1),
        ("export --prefix 202405", 2),
    ] {
        let ran = folder.run(words).ends(65).says(SAID).says(&["malformed trips left out: 1"]);
        assert_eq!(ran.text().lines().count(), left, "{ran}");
    }
    for words in [
        "trips truck-1 --from 2024-05-01T08:30:00Z",
        "trips van-1",
        "export --device van-1",
        "export --from 2024-05-01T08:03:00Z",
    ] {
        assert_eq!(folder.run(words).ends(0).stderr, "", "{words}");
    }
    let none = folder.run("trips --day 2024-05-02").ends(0).prints_nothing();
    let around = "no trip touches 2024-05-02 (UTC); days with trips around: 2024-05-01\n";
    assert!(none.stderr.ends_with(around), "{none}");
    folder
        .run("export --out trips.csv")
        .ends(65)
        .says(SAID)
        .says(&["`trips.csv`", "--skip-malformed"]);
    assert!(!folder.has("trips.csv"));
    let ran = folder.run("export --out trips.csv --skip-malformed").ends(0).says(SAID);
    assert!(ran.says(&["malformed trips left out: 1"]).stdout.is_empty());
    assert_eq!(folder.read("trips.csv").split(|byte| *byte == b'\n').count(), 4);

    damage(&folder, "device_id = 'truck-1'", 2);
    let ran = folder.run("trips truck-1").ends(65).prints_nothing();
    ran.says(SAID).says(&["malformed trips left out: 2"]);
    folder.run("export --device truck-1").ends(65).says(SAID);
    folder.run("trips truck-2").ends(1).says(&["no device `truck-2`"]);
}
