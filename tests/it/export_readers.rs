//! Every export format, read by programs of others: equal to the store. And the page that shows
//! these programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::Folder;
use crate::docs;
use crate::servers::skip;
use crate::support::Dice;

/// Where `tests/all` installs Python packages.
const READERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/readers");

/// The script that reads the files.
const CHECK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/export_readers/check.py");

/// The files that are read: their names, and the flags that make them.
const FILES: [(&str, &str); 10] = [
    ("trips.parquet", "--format parquet"),
    ("points.parquet", "--format parquet --points"),
    ("trips.geojson", "--format geojson"),
    ("trips.kepler.json", "--format kepler"),
    ("trips.mf.json", "--format mfjson"),
    ("trips.kml", "--format kml"),
    ("trips.gpx", "--format gpx"),
    ("trips.csv", "--format csv"),
    ("points.csv", "--format csv --points"),
    ("truth.ndjson", "--format ndjson --path"),
];

/// The number of readers in the script.
const CHECKS: usize = 14;

/// The Python with the packages, if they, GDAL and SQLite are installed.
pub fn python() -> Option<PathBuf> {
    // The last to be installed.
    if !Path::new(READERS).join("home/.duckdb/extensions").exists() {
        return skip("no outside readers: tests/all puts them into target/readers");
    }
    for program in ["ogr2ogr", "sqlite3"] {
        let ran = Command::new(program).arg("--version").output();
        if !ran.is_ok_and(|ran| ran.status.success()) {
            return skip(&format!("no {program}: tests/all installs gdal-bin and sqlite3"));
        }
    }
    Some(Path::new(READERS).join("bin/python"))
}

/// Samples of odd devices with readings that come and go, some of them alone, some across the
/// antimeridian, some over midnight.
fn log(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut lines = Vec::new();
    for device in ["truck-1", "a~b", "x,\"<&>'", "Füß 日本", ".."] {
        // 2025-11-21T00:00:00Z, or some days later.
        let midnight = 1_763_683_200_000 + dice.between(0, 3) * 86_400_000;
        let mut time = midnight - dice.between(1, 30_000);
        let (mut lat, mut lon) = (dice.between(-800, 800), dice.between(-1_790, 1_790));
        for nth in 0..dice.between(200, 600) {
            let pause = if nth > 20 && dice.percent(4) { 3_600_000 } else { 20_000 };
            time += dice.between(1, pause);
            lat += dice.between(-20, 20);
            lon += dice.between(-20, 20);
            let degrees = |tenths: i64, most: i64, more: i64| {
                (tenths.clamp(-10 * most, 10 * most) * 1_000_000 + more)
                    .clamp(-most * 10_000_000, most * 10_000_000) as f64
                    / 1e7
            };
            let [north, east] = [0, 1].map(|_| dice.between(-999_999, 999_999));
            let around = (lon + 1800).rem_euclid(3600) - 1800;
            let mut sample = json!({"device_id": device, "time": time,
                "lat": degrees(lat, 90, north), "lon": degrees(around, 180, east)});
            for (name, most) in
                [("speed", 4000), ("heading", 3599), ("altitude", 30_000), ("accuracy", 500)]
            {
                if dice.percent(70) {
                    sample[name] = json!(dice.between(0, most) as f64 / 10.0);
                }
            }
            if dice.percent(30) {
                sample["driver"] = json!(dice.one_of(&["Ann", "Bea \"<&>\""]));
            }
            lines.push(sample.to_string() + "\n");
        }
    }
    // A burst arrives late now and then, so that trips merge.
    for _ in 0..lines.len() / 3 {
        let at = dice.below(lines.len());
        let line = lines.remove(at);
        lines.push(line);
    }
    lines.concat()
}

fn exported(seed: u64) -> Folder {
    let folder = Folder::with("log", log(seed));
    folder.ingest("log");
    for (name, flags) in FILES {
        folder.run(&format!("export {flags} --out {name}")).ends(0);
    }
    folder
}

/// Runs the script; returns its lines.
fn check(python: &Path, folder: &Folder, words: &[&str]) -> Vec<Value> {
    let mut command = Command::new(python);
    command.arg(CHECK).args(words).current_dir(folder.dir.path());
    command.env("HOME", Path::new(READERS).join("home"));
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{words:?}: {said}");
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_format_read_by_others_equals_the_store() {
    let Some(python) = python() else { return };
    for seed in 1..4 {
        let folder = exported(seed);
        let over_midnight = |trip: &Value| {
            trip["start_time"].as_str().unwrap()[..10] != trip["end_time"].as_str().unwrap()[..10]
        };
        assert!(folder.trips("trips.db").iter().any(over_midnight), "seed {seed}");
        let found = check(&python, &folder, &[]);
        assert_eq!(found.len(), CHECKS, "{found:?}");
        for line in &found {
            println!("seed {seed}: {line}");
            assert_eq!(line["difference"], Value::Null, "seed {seed}: {line}");
            assert!(line["trips"].as_u64() > Some(50), "{line}");
        }
    }
}

#[test]
fn a_difference_is_seen_in_every_format() {
    let Some(python) = python() else { return };
    let folder = exported(4);
    let truth = String::from_utf8(folder.read("truth.ndjson")).unwrap();
    let shortened = truth.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    let mut moved: Vec<Value> =
        truth.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for trip in &mut moved {
        let later = |time: &mut Value| {
            // A ms more or less.
            let text = time.as_str().unwrap().replace("Z", "");
            let (text, last) = text.split_at(text.len() - 1);
            *time = json!(format!("{text}{}Z", (last.parse::<u8>().unwrap() + 1) % 10));
        };
        later(&mut trip["start_time"]);
        trip["path"]["times"].as_array_mut().unwrap().iter_mut().for_each(later);
        let place = &mut trip["path"]["coordinates"][0];
        *place = json!([place[0].as_f64().unwrap() - 2e-7, place[1].as_f64().unwrap()]);
        trip["start"]["lon"] = place[0].clone();
    }
    let moved: String = moved.iter().map(|trip| format!("{trip}\n")).collect();
    for changed in [shortened, moved] {
        folder.write("truth.ndjson", changed);
        for line in check(&python, &folder, &[]) {
            assert_ne!(line["difference"], Value::Null, "it was not seen: {line}");
        }
    }
}

#[test]
fn the_page_shows_what_works() {
    if python().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{READERS}/bin:{}", std::env::var("PATH").unwrap());
    let (mut ran, mut printed) = (0, String::new());
    for block in docs::page("docs/data-out.md").blocks() {
        let script = match block.language.as_str() {
            "sh" => block.text,
            "text" => continue,
            "python" => format!("python - <<'END'\n{}END\n", block.text),
            other => panic!("line {}: what is a block of `{other}`?", block.line),
        };
        // `shell` puts the built program before this path.
        let script = format!("export PATH=\"$PATH:{path}\" HOME={READERS}/home\n{script}");
        let script = script.replace("python -", &format!("{READERS}/bin/python -"));
        let output = docs::shell(&script, folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "line {}: {script}\n{said}", block.line);
        printed += &String::from_utf8_lossy(&output.stdout);
        ran += 1;
    }
    println!("{printed}");
    assert_eq!(ran, 9, "blocks of the page");
    for word in ["truck-17", "('OGC', 'CRS84') 325", "Layer name: trip\n", "Layer name: trips\n"] {
        assert!(printed.contains(word), "{word} is not printed");
    }
}
