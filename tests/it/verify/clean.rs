//! Without faults nothing is found.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tstar::internals::log::Bounds;
use tstar::internals::log::reference::Reference;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{Day, DeviceTime, Version};
use tstar::internals::ops::verify::compare::compare;
use tstar::internals::segment::Kind;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{AnyStore, DeviceScope, Forget, Kinds, TripRow, TripStore};
use tstar::internals::timeline::DAY_MS;

use super::{FIRST_DAY, ImportedStore, below, compare_all, lines, signed};
use crate::cli::{Folder, minutes, number};
use crate::faults::Running;
use crate::support::block_on;

/// Number of fleets, each a comparison of its own.
const FLEETS: u64 = 1000;

#[test]
fn nothing_is_found_in_an_untouched_store() {
    let (mut copies, mut merged, mut erased, mut over) = (0, 0, 0, 0);
    for seed in 0..FLEETS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (devices, trips) = (1 + below(&mut random, 3), 2 + below(&mut random, 4));
        let mut made = ImportedStore::empty();
        let lines = lines(&mut random, devices, trips);
        // Up to three files, and erasures before, between and after them.
        let each = 1 + below(&mut random, lines.len() as u64) as usize;
        for part in lines.chunks(each.max(lines.len() / 3)) {
            made.import(part);
            if below(&mut random, 3) == 0 {
                let device = format!("truck-{}", 1 + below(&mut random, devices));
                let time_ms = FIRST_DAY * DAY_MS + signed(&mut random, 200_000_000);
                made.erase(&device, DeviceTime(time_ms));
                erased += 1;
            }
        }
        let reference = made.reference();
        let found = Arc::new(SqliteStore::open_reader(&made.store).unwrap());
        let (compared, seen) = compare_all(&reference, &found, false);
        assert_eq!(seen, [], "seed {seed}");
        assert_eq!(compared.ahead, 0);
        copies += compared.same;
        for device in block_on(found.devices(DeviceScope::All, None, 10)).unwrap() {
            let (all, asc) =
                ((DeviceTime::MIN, DeviceTime::MAX), tstar::internals::store::Order::Asc);
            let rows = block_on(found.range(&device, Kinds::All, all.0, all.1, asc, 1000)).unwrap();
            merged += rows.iter().filter(|row| row.absorbed().next().is_some()).count();
            over += rows.iter().filter(|row| row.days().count() > 1).count();
        }
    }
    println!(
        "verify: {FLEETS} clean stores, {copies} rows equal, {merged} trips merged, \
         {over} over midnight, {erased} erasures"
    );
    assert!(merged > 500 && over > 500 && erased > 500);
}

fn row(device: &str, partition: i32, minute: i64, version: i64) -> TripRow {
    let start_ms = DeviceTime(FIRST_DAY * DAY_MS + minute * 60_000);
    TripRow {
        device_id: device.into(),
        end_ms: start_ms + 60_000,
        start_ms,
        t_star_ms: start_ms,
        kind: Kind::Trip,
        ids: [(start_ms, vec![Version(version)])].into(),
        version: Version(version),
        partition,
        samples: 2,
        moving_ms: None,
        idle_ms: None,
        parked_ms: 0,
        distance_m: 0.0,
        max_speed_mps: None,
        start_lat: 0.0,
        start_lon: 0.0,
        end_lat: 0.0,
        end_lon: 0.0,
        min_lat: 0.0,
        min_lon: 0.0,
        max_lat: 0.0,
        max_lon: 0.0,
        driver: None,
        driver_ms: None,
        path: vec![1],
        jumps: None,
        jump_s: None,
    }
}

/// Partitions grow at their own pace: what is newer in one has a version that is old in another.
#[test]
fn what_a_newer_record_erased_is_not_missing_whatever_other_partitions_have() {
    let rows = [row("truck-1", 0, 1, 70), row("truck-2", 1, 1, 4000)];
    let before_ms = Day(FIRST_DAY + 2).start_ms();
    // An old forget explains nothing.
    for (version, expected) in [(150, 0), (80, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let stores = ["right.db", "found.db"].map(|name| {
            let path = folder.path().join(name);
            let store = SqliteStore::open_for_topic(&path, &Rules::default(), 0).unwrap();
            block_on(store.apply(&rows)).unwrap();
            Arc::new(store)
        });
        // After what was read of its own partition, far before the end of the other one.
        block_on(stores[1].forget("truck-1", &Forget { version: Version(version), before_ms }))
            .unwrap();
        let bounds = Bounds {
            last: [(0, Version(100)), (1, Version(5000))].into(),
            limit: [(0, Version(200)), (1, Version(5000))].into(),
            log: None,
        };
        let any = AnyStore::from(Arc::clone(&stores[1]));
        let reference = Reference { store: Arc::clone(&stores[0]), records: 0, bounds };
        let found = compare(reference, &any, (None, false), |_, _| ());
        let found = block_on(found).unwrap();
        // A trip and its day in the indexes.
        assert_eq!(found.count(), expected, "{version}: {found:?}");
    }
}

#[test]
fn a_record_may_be_an_empty_array() {
    let folder = Folder::new();
    let sample = |minute: u32| {
        format!(
            r#"{{"device_id":"van-1","time":"2025-03-01T10:{minute:02}:00Z","lat":52,"lon":13}}"#
        )
    };
    let files = [
        ("first.ndjson", format!("[]\n{}\n[]\n[]\n{}\n[]\n", sample(1), sample(2))),
        ("empty.ndjson", "[]\n[]\n".to_owned()),
        ("last.ndjson", format!("[]\n{}\n[]", sample(30))),
    ];
    for (name, content) in &files {
        folder.write(name, content);
        folder.ingest(&format!("{name} --store sqlite:t.db"));
        let forget = "forget van-1 --before 2025-03-01T00:00:00Z --yes --store sqlite:t.db";
        folder.run(forget).ends(0);
    }
    let imported = "last.ndjson empty.ndjson first.ndjson --store sqlite:t.db";
    let found = folder.run(&format!("verify {imported} --json")).ends(0).json();
    assert_eq!((number(&found["records"]), number(&found["same"])), (3, 2), "{found}");
    let rebuild = format!("rebuild {imported} --into sqlite:new.db --json");
    let rebuilt = folder.run(&rebuild).ends(0).json();
    assert_eq!((number(&rebuilt["new_trips"]), number(&rebuilt["equal"])), (2, 2), "{rebuilt}");
    for (trip, lines) in folder.trips("t.db").iter().zip([vec![2, 5], vec![2]]) {
        let id = trip["id"].as_str().unwrap();
        let explained = folder.run(&format!("explain {id} {imported} --json")).ends(0).json();
        let records = explained["log"]["records"].as_array().unwrap();
        let read: Vec<u64> = records.iter().map(|record| number(&record["line"])).collect();
        assert_eq!(read, lines, "{explained}");
    }
    for missing in ["last.ndjson empty.ndjson", "last.ndjson first.ndjson", "first.ndjson"] {
        let words = format!("verify {missing} --store sqlite:t.db");
        folder.run(&words).ends(65).says(&["name every file that was imported"]);
    }
}

/// A table of four rows, and the length of its beginning with two of them.
fn table() -> (String, usize) {
    let row = |minute: u32| format!("truck-17,2024-05-01T08:{minute:02}:00Z,52.{minute},13.25\n");
    let first = "device_id,time,lat,lon\n".to_owned() + &row(0) + &row(1);
    let end = first.len();
    (first + &row(2) + &row(3), end)
}

#[test]
fn a_file_that_grew_after_its_last_line_is_still_the_log() {
    let (whole, end) = table();
    // After a line end, or after a line without one.
    for cut in [whole.len() - 1, end, end - 1] {
        let folder = Folder::with("log", &whole[..cut]);
        folder.ingest("log");
        folder.write("log", &whole);
        folder.ingest("log");
        folder.run("verify log").ends(0);
        let rebuilt = folder.run("rebuild log --into sqlite:new.db --json").ends(0).json();
        assert_eq!((number(&rebuilt["records"]), number(&rebuilt["ids_kept"])), (4, 1));
        let trips = folder.trips("trips.db");
        let id = trips[0]["id"].as_str().unwrap();
        let explained = folder.run(&format!("explain {id} log --json")).ends(0).json();
        assert_eq!(explained["log"]["records"].as_array().unwrap().len(), 4, "{explained}");
        // The file is known as a whole.
        assert_eq!(folder.ingest("log")["applied"], 0);
        folder.run("verify log").ends(0);
    }
}

#[test]
fn a_file_that_grew_within_its_last_line_cannot_be_compared() {
    let (whole, end) = table();
    // Within the last number, where a sample of another place was read; and where no sample was.
    for cut in [end - 2, end - 3, end - 12, end - 30] {
        let folder = Folder::with("log", &whole[..cut]);
        folder.ingest("log");
        let trips = folder.trips("trips.db");
        let id = trips[0]["id"].as_str().unwrap();
        folder.write("log", &whole);
        let reasons =
            ["cannot be compared", "grew within its last line", "import it into a new store"];
        folder.run("verify log").ends(65).says(&reasons);
        folder.ingest("log");
        for words in
            ["verify log", "rebuild log --into sqlite:new.db", &format!("explain {id} log")]
        {
            folder.run(words).ends(65).says(&reasons);
        }
        let samples = number(&folder.trips("trips.db")[0]["samples"]);
        assert_eq!(samples, 4, "the grown line is read");
        assert_eq!(folder.ingest("log")["applied"], 0);
    }
}

#[test]
fn files_of_which_one_begins_as_the_other_are_one_log() {
    let lines = minutes("truck-17", &[0, 1, 2]);
    let folder = Folder::with("day1", lines.trim_end());
    folder.ingest("day1");
    folder.write("day2", &lines);
    folder.write("day3", lines + &minutes("truck-17", &[3]));
    folder.ingest("day2");
    folder.ingest("day3");
    folder.run("verify day1 day2 day3").ends(0);
    folder.run("verify day3").ends(0);
}

#[test]
fn an_import_that_was_stopped_before_a_forget_is_read_again_in_its_order() {
    let made = ImportedStore::empty();
    let folder = &made.folder;
    let fleet = "simulate --mix 46,34,19,1 --devices 30 --samples 20000 --seed 3 --bad 0.01";
    let log = folder.run(fleet).ends(0).stdout;
    folder.write("all.ndjson", log);
    let import = "ingest all.ndjson --json --flush-interval 1ms --max-staleness 1ms \
                  --store sqlite:t.db";
    let mut command = folder.command(import);
    let mut stopped = Running::start(command.env("TSTAR_TEST_ABORT", "after:2"));
    crate::faults::until("the abort", || stopped.has_ended().then_some(()));
    let forget = "forget truck-7 --before 2025-03-01T00:00:00Z --yes --store sqlite:t.db";
    folder.run(forget).ends(0);
    folder.run(import).ends(0);
    let found = folder.run("verify all.ndjson --store sqlite:t.db --json").ends(0).json();
    assert!(number(&found["same"]) > 50, "{found}");
    assert_eq!(number(&found["records"]), 20_000);
}
