//! The store in the hands of other programs: its views, and folders that may only be read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Value, json};
use tstar::internals::store::sqlite::SqliteStore;

use crate::cli::{Folder, Ran, copy_program, minutes};
use crate::support::Dice;

/// Device ids made of every kind of character, many of which a token escapes.
fn devices(dice: &mut Dice) -> Vec<String> {
    let odd = [
        "truck-17",
        "a~b",
        ".",
        "..",
        "...",
        "a.b",
        "-_",
        "Füß €",
        "日本",
        "x]y^[z",
        "\u{1}\n",
        "~",
    ];
    let mut devices: Vec<String> = odd.map(str::to_owned).to_vec();
    let characters: Vec<char> =
        (1..0x80).filter_map(char::from_u32).chain("äÿ€語🚚".chars()).collect();
    for _ in 0..60 {
        let length = dice.between(1, 12);
        devices.push((0..length).map(|_| dice.one_of(&characters)).collect());
    }
    devices.sort();
    devices.dedup();
    devices
}

/// Samples in any order, so that trips merge, around several midnights.
fn log(dice: &mut Dice) -> String {
    let mut lines = Vec::new();
    for device in devices(dice) {
        let minutes = dice.between(60, 4320);
        for _ in 0..dice.between(1, 60) {
            // 2026-11-20T00:00:00Z and three days.
            let time = 1_795_132_800_000 + dice.between(0, minutes) * 60_000 + dice.between(0, 999);
            let (lat, lon) = (dice.between(-90, 90), dice.between(-180, 180));
            let sample = json!({"device_id": device, "time": time, "lat": lat, "lon": lon,
                "speed": dice.between(0, 30), "driver": dice.one_of(&["Ann", "Bea"]),
                "ignition": dice.below(10) > 0});
            lines.push(sample.to_string() + "\n");
        }
    }
    for at in (1..lines.len()).rev() {
        lines.swap(at, dice.below(at + 1));
    }
    lines.concat()
}

fn store(seed: u64) -> Folder {
    let mut folder = Folder::with("log", log(&mut Dice::new(seed)));
    // The times may lie ahead of the test machine's clock.
    folder.env("TSTAR_MAX_FUTURE", "36500d");
    folder.ingest("log --max-gap 20m");
    folder
}

/// A row of view `trip` as the trip that `export` prints, without what the view lacks.
fn trip(row: &Row<'_>) -> rusqlite::Result<Value> {
    let number = |name: &str| row.get::<_, f64>(name);
    let text = |name: &str| row.get::<_, String>(name);
    Ok(json!({
        "id": text("id")?, "device_id": text("device_id")?, "t_star": text("t_star")?,
        "start_time": text("start_time")?, "end_time": text("end_time")?,
        "duration_s": number("duration_s")?, "moving_s": row.get::<_, Option<f64>>("moving_s")?,
        "idle_s": row.get::<_, Option<f64>>("idle_s")?, "parked_s": number("parked_s")?,
        "samples": row.get::<_, i64>("samples")?,
        "distance_m": (number("km")? * 10_000.0).round() / 10.0,
        "max_speed_mps": row.get::<_, Option<f64>>("max_speed_mps")?,
        "driver": row.get::<_, Option<String>>("driver")?,
        "start": {"lat": number("start_lat")?, "lon": number("start_lon")?},
        "end": {"lat": number("end_lat")?, "lon": number("end_lon")?},
        "bbox": [number("min_lon")?, number("min_lat")?, number("max_lon")?, number("max_lat")?],
        "version": row.get::<_, i64>("version")?,
    }))
}

#[test]
fn the_views_have_each_trip_once_with_the_values_of_an_export() {
    let (mut trips, mut retired) = (0, 0);
    for seed in 1..4 {
        let folder = store(seed);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = Connection::open_with_flags(folder.path("trips.db"), flags).unwrap();
        let mut all = file.prepare("SELECT * FROM trip ORDER BY device_id, start_time").unwrap();
        let found: Vec<Value> = all.query_map([], trip).unwrap().map(Result::unwrap).collect();
        let mut of_one = "SELECT absorbed_id FROM trip_absorbed WHERE id = ?1".to_owned();
        of_one += " AND device_id = ?2 AND version > 0 ORDER BY absorbed_id";
        let mut absorbed = file.prepare(&of_one).unwrap();
        let expected = folder.trips("trips.db");
        assert_eq!(found.len(), expected.len());
        for (found, mut expected) in found.into_iter().zip(expected) {
            let fields = expected.as_object_mut().unwrap();
            fields.retain(|name, _| {
                !["kind", "avg_speed_mps", "jumps", "tags"].contains(&name.as_str())
            });
            let ids = fields.remove("absorbed").unwrap();
            assert_eq!(found, expected);
            let key = [&expected["id"], &expected["device_id"]].map(|it| it.as_str().unwrap());
            let rows = absorbed.query_map(key, |row| row.get::<_, String>(0)).unwrap();
            let rows: Vec<_> = rows.map(Result::unwrap).collect();
            assert_eq!(json!(rows), ids, "{key:?}");
            (trips, retired) = (trips + 1, retired + rows.len());
        }
        let rows: i64 = file.query_row("SELECT count(*) FROM trips", [], |row| row.get(0)).unwrap();
        let of_view: i64 =
            file.query_row("SELECT count(*) FROM trip", [], |row| row.get(0)).unwrap();
        assert!(rows > of_view, "no trip over midnight");
        let count = "SELECT count(*) FROM trip_absorbed";
        let all_retired: i64 = file.query_row(count, [], |row| row.get(0)).unwrap();
        assert!(all_retired > 0);
    }
    println!("{trips} trips and {retired} retired ids");
    assert!(trips > 1000 && retired > 100, "{trips} {retired}");
}

/// A row of view `stop` as the stop that `export` prints, without what the view lacks.
fn stop(row: &Row<'_>) -> rusqlite::Result<Value> {
    let number = |name: &str| row.get::<_, f64>(name);
    let text = |name: &str| row.get::<_, String>(name);
    Ok(json!({
        "id": text("id")?, "device_id": text("device_id")?,
        "start_time": text("start_time")?, "end_time": text("end_time")?,
        "duration_s": number("duration_s")?, "idle_s": row.get::<_, Option<f64>>("idle_s")?,
        "parked_s": number("parked_s")?, "start": {"lat": number("lat")?, "lon": number("lon")?},
        "samples": row.get::<_, i64>("samples")?, "version": row.get::<_, i64>("version")?,
    }))
}

#[test]
fn a_view_has_each_stop_once_with_the_values_of_an_export() {
    let folder = store(5);
    let file = Connection::open(folder.path("trips.db")).unwrap();
    let mut all = file.prepare("SELECT * FROM stop ORDER BY device_id, start_time").unwrap();
    let found: Vec<Value> = all.query_map([], stop).unwrap().map(Result::unwrap).collect();
    let mut expected = folder.run("export --kind stop --format ndjson").ends(0).objects();
    for stop in &mut expected {
        let shown = found[0].as_object().unwrap();
        stop.as_object_mut().unwrap().retain(|name, _| shown.contains_key(name));
    }
    assert_eq!(found, expected);
    let is_parked = |stop: &Value| stop["parked_s"].as_f64() > Some(0.0);
    assert!(found.iter().any(is_parked) && !found.iter().all(is_parked), "{}", found.len());
}

#[test]
fn a_view_reads_no_path_and_a_device_only_its_own_trips() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2]));
    folder.ingest("log");
    let file = Connection::open(folder.path("trips.db")).unwrap();
    let tables = ["trip_rows", "trip_rows", "absorbed_rows"];
    for (view, table) in ["trip", "stop", "trip_absorbed"].into_iter().zip(tables) {
        let plan = format!("EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE device_id = 'truck-17'");
        let step: String = file.query_row(&plan, [], |row| row.get(3)).unwrap();
        assert_eq!(step, format!("SEARCH {table} USING PRIMARY KEY (device_id=?)"));
    }
}

#[test]
fn an_erased_trip_leaves_the_views() {
    let folder = store(4);
    let file = Connection::open(folder.path("trips.db")).unwrap();
    let count = |table: &str| {
        let count = format!("SELECT count(*) FROM {table}");
        file.query_row(&count, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert!(["trip", "stop", "trip_absorbed"].iter().all(|view| count(view) > 0));
    folder.run("forget --all-before 2026-11-22T00:00:00Z --yes").ends(0);
    assert_eq!(count("trip"), folder.trips("trips.db").len() as i64);
    folder.run("forget --all-before 2027-01-01T00:00:00Z --yes").ends(0);
    assert_eq!(["trip", "stop", "trip_absorbed"].map(count), [0, 0, 0]);
}

/// A user other than root, who may write to everything.
const OTHER_USER: u32 = 65_534;

/// A folder that another user may read, but not write.
struct Shared {
    folder: Folder,
    /// Where the program is, for the other user.
    program: tempfile::TempDir,
    is_root: bool,
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

impl Shared {
    fn new(folder: Folder) -> Self {
        let program = tempfile::tempdir().unwrap();
        copy_program(&program.path().join("tstar"));
        set_mode(program.path(), 0o755);
        for entry in fs::read_dir(folder.dir.path()).unwrap() {
            set_mode(&entry.unwrap().path(), 0o644);
        }
        set_mode(folder.dir.path(), 0o555);
        let is_root = fs::write(folder.path("probe"), "").is_ok();
        if is_root {
            fs::remove_file(folder.path("probe")).unwrap();
        }
        Self { folder, program, is_root }
    }

    /// Runs a command as a user who may not write to the folder.
    fn read(&self, words: &str) -> Ran {
        let mut command = Command::new(self.program.path().join("tstar"));
        command.args(words.split(' ')).current_dir(self.folder.dir.path()).stdin(Stdio::null());
        if self.is_root {
            command.uid(OTHER_USER).gid(OTHER_USER);
        }
        Ran::run(words, &mut command)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // So that it can be removed.
        set_mode(self.folder.dir.path(), 0o755);
    }
}

#[test]
fn a_store_opens_from_a_folder_that_may_only_be_read() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2, 4]));
    folder.ingest("log");
    let expected = folder.text("export --path");
    let shared = Shared::new(folder);
    let before = shared.names();
    assert_eq!(shared.read("export --path").ends(0).text(), expected);
    assert_eq!(shared.read("devices").ends(0).objects().len(), 1);
    shared.read("ingest log").ends(74).says(&["trips.db"]);
    assert_eq!(shared.names(), before);
    // A copy without a lock file.
    let copy = Folder::new();
    copy.write("trips.db", shared.folder.read("trips.db"));
    assert_eq!(Shared::new(copy).read("export --path").ends(0).text(), expected);
}

#[test]
fn a_reader_without_permissions_sees_what_a_writer_has_written_or_nothing() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2, 4]));
    folder.ingest("log");
    let expected = folder.text("export --path");
    let store = folder.path("trips.db");
    set_mode(&store, 0o644);
    let rules = SqliteStore::open_reader(&store).unwrap().rules().unwrap().unwrap();
    let writer = SqliteStore::open_writer(&store, &rules, 0).unwrap();
    // It is not in the file yet.
    let row = Connection::open(&store).unwrap();
    row.execute_batch("UPDATE log SET delivered = delivered + 1").unwrap();
    let left = Folder::new();
    for name in ["trips.db", "trips.db-wal"] {
        left.write(name, folder.read(name));
    }
    let shared = Shared::new(folder);
    // The files that the writer made are there to be used,
    assert_eq!(shared.read("export --path").ends(0).text(), expected);
    // or not.
    for name in ["trips.db-wal", "trips.db-shm"] {
        set_mode(&shared.folder.path(name), 0o600);
        if !shared.is_root {
            set_mode(&shared.folder.path(name), 0);
        }
    }
    shared.read("export").ends(74).prints_nothing().says(&["locked by another writer"]);
    set_mode(&shared.folder.path("trips.db-lock"), 0o600);
    if shared.is_root {
        shared.read("export").ends(74).prints_nothing().says(&["trips.db-lock", "readable"]);
    }
    set_mode(&shared.folder.path("trips.db-lock"), 0o644);
    drop((row, writer));
    assert_eq!(shared.read("export --path").ends(0).text(), expected);

    // A writer that was killed.
    let left = Shared::new(left);
    left.read("export").ends(74).prints_nothing().says(&["trips.db-wal", "was killed"]);
}
