//! Stores with a flipped bit: what passes the check exports what the store did.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::ops::backup::check;
use tstar::internals::ops::export::{Selection, export};
use tstar::internals::ops::trip_filter::TripFilter;
use tstar::internals::ops::trip_list::TripSpan;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{AnyStore, Kinds};
use tstar::internals::views::{Detail, Extras, Form, TripWriter};

use crate::cli::{Folder, minutes};
use crate::support::{Dice, block_on};

/// Every trip with its path, as `tstar export --path` prints it.
fn exported(file: &Path) -> anyhow::Result<Vec<u8>> {
    let store = AnyStore::from(Arc::new(SqliteStore::open_reader(file)?));
    let all = TripSpan::Overlapping(DeviceTime::MIN, DeviceTime::MAX);
    let mut out = Vec::new();
    let detail = Detail { path: true, ..Detail::default() };
    let mut writer = TripWriter::new(&mut out, Form::Ndjson, detail)?;
    block_on(export(
        &store,
        &Selection::new(None, Kinds::All, all, TripFilter::default())?,
        |(row, _)| Ok(writer.write(row, &Extras::default())?),
    ))?;
    writer.finish()?;
    Ok(out)
}

/// A copy of a store with merges, drivers, long and short trips, and trips over midnight.
fn copy(folder: &Folder) -> Vec<u8> {
    let mut log =
        folder.run("simulate --mix 46,34,19,1 --devices 6 --samples 6000 --seed 4").ends(0).text();
    for (minute, driver) in [(10, "ada"), (12, "bea"), (0, "cem"), (2, "dan"), (6, "eva")] {
        log += &minutes("van-1", &[minute]).replace('{', &format!("{{\"driver\": \"{driver}\", "));
    }
    folder.write("log", log);
    folder.ingest("log");
    folder.run("backup copy.db").ends(0);
    folder.read("copy.db")
}

#[test]
fn a_flipped_bit_that_changes_an_export_does_not_pass_the_check() {
    let folder = Folder::new();
    let whole = copy(&folder);
    let expected = exported(&folder.path("copy.db")).unwrap();
    let file = folder.path("flipped.db");
    let (mut dice, mut refused) = (Dice::new(47), 0);
    let flips = 300;
    for _ in 0..flips {
        let bit = dice.between(0, 8 * whole.len() as i64 - 1) as usize;
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, flipped).unwrap();
        if block_on(check(&file, None)).is_err() {
            refused += 1;
            continue;
        }
        let found = exported(&file).unwrap_or_else(|error| panic!("bit {bit}: {error:#}"));
        assert!(found == expected, "bit {bit} passes the check, and changes the export");
    }
    println!("{refused} of {flips} stores of {} bytes were refused", whole.len());
    assert!(refused > flips / 10, "{refused}");
}

#[test]
fn a_column_that_does_not_follow_from_the_path_is_named() {
    let folder = Folder::new();
    copy(&folder);
    for (change, problem) in [
        ("distance_m = distance_m + 1", "distance_m does not follow from the path"),
        ("parked_ms = parked_ms + 1", "parked_ms does not follow from the path"),
        ("moving_ms = 1, idle_ms = 2", "moving_ms, idle_ms does not follow"),
        ("samples = samples + 1", "another number of samples"),
        ("min_lat = min_lat - 1, max_lon = 3", "min_lat, max_lon does not follow"),
        (
            "ids = json_set(ids, '$.\"' || (start_time + 1) || '\"', json('[2, 4]'))",
            "the path has no sample at",
        ),
        ("ids = '{\"7\": [2]}'", "the id of 7 ms lies outside the trip"),
        ("t_star = t_star + 1", "is live, and t_star is"),
        ("kind = 'stop'", "a sample of the stop is moving"),
        ("kind = 'pause'", "its kind is not valid"),
        ("ids = substr(ids, 1, length(ids) - 2) || '9]}'", "tables `trips` and `trip_rows` differ"),
        ("version = version + 2", "tables `trips` and `trip_rows` differ"),
        ("driver = 'mallory'", "the path has another driver"),
        ("path = x'01'", "another checksum"),
    ] {
        let file = folder.path("changed.db");
        fs::copy(folder.path("copy.db"), &file).unwrap();
        let connection = rusqlite::Connection::open(&file).unwrap();
        let update = format!("UPDATE trips SET {change} WHERE device_id = 'van-1'");
        assert_eq!(connection.execute(&update, []).unwrap(), 1);
        drop(connection);
        let ran = folder.run("restore changed.db --check").ends(65).prints_nothing();
        ran.says(&["`changed.db` is damaged", problem, "take another backup"]);
        let ran = folder.run("backup again.db --store sqlite:changed.db").ends(65);
        ran.prints_nothing().says(&["store `changed.db` is damaged", problem, "tstar "]);
        assert!(!folder.has("again.db"));
    }
}
