//! Copies of a store in a file, and what a lost store is restored to.

mod flips;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::{Folder, minutes};
use crate::faults::Running;
use crate::faults::disk::Mounted;
use crate::topic::file::until_read;
use crate::topic::{PARTITIONS, Topic, drain, start};

/// Trips without versions, which differ between epochs, and without tags.
fn spans(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.trips(store);
    for trip in &mut trips {
        trip.as_object_mut().unwrap().retain(|name, _| name != "version" && name != "tags");
    }
    trips
}

fn lose(folder: &Folder, running: Running) {
    running.kill();
    for suffix in ["", "-wal", "-shm", "-lock"] {
        // Not all of them exist.
        drop(std::fs::remove_file(folder.path(&format!("t.db{suffix}"))));
    }
}

#[test]
fn a_lost_store_is_restored_and_reads_on() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    let fleet = "simulate --mix 46,34,19,1 --devices 20 --samples 12000 --seed 8";
    let fleet = folder.run(fleet).ends(0).stdout;
    let lines: Vec<&[u8]> = fleet.split_inclusive(|&byte| byte == b'\n').collect();
    let flushes = "--flush-interval 5ms --max-staleness 20ms";
    let words = format!("run {} --store sqlite:t.db --from earliest {flushes}", topic.flags());
    let running = start(&folder, &words);
    let mut backup = Value::Null;
    // Copies are made while the daemon writes.
    for part in lines[..8000].chunks(800) {
        topic.send_lines(&part.concat(), "no-device");
        let ran = folder.run("backup copy.db --store sqlite:t.db");
        if ran.code == Some(0) {
            backup = ran.json();
            let hash = backup["sha256"].as_str().unwrap();
            let check = format!("restore copy.db --check --sha256 {hash}");
            assert_eq!(folder.run(&check).ends(0).json(), backup);
        }
    }
    until_read(&folder, "t.db", &topic);
    let id = folder.trips("t.db")[0]["id"].as_str().unwrap().to_owned();
    folder.run(&format!("tag {id} note=kept --store sqlite:t.db")).ends(0);
    let last = folder.run("backup copy.db --store sqlite:t.db").ends(0).json();
    assert_ne!(backup, Value::Null, "no copy was made while the daemon wrote");
    assert_ne!(last["sha256"], backup["sha256"]);
    assert_eq!(last["bytes"], folder.path("copy.db").metadata().unwrap().len());
    let read: BTreeMap<i32, i64> =
        serde_json::from_value(last["read"]["next_offsets"].clone()).unwrap();
    assert_eq!(read, topic.ends(PARTITIONS));
    assert_eq!((&last["read"]["topic"], &last["read"]["epoch"]), (&json!(topic.name), &json!(1)));

    topic.send_lines(&lines[8000..].concat(), "no-device");
    until_read(&folder, "t.db", &topic);
    lose(&folder, running);
    assert_eq!(folder.run("restore copy.db --store sqlite:t.db").ends(0).json(), last);
    let words = format!("run {} --store sqlite:t.db {flushes}", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(summary["delivered"], lines.len() - 8000, "what the copy has is not read again");

    let words = format!("run {} --store sqlite:whole.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "whole.db", &topic);
    drain(running, &words).ends(0);
    assert_eq!(spans(&folder, "t.db"), spans(&folder, "whole.db"));
    let tags = folder.run(&format!("tag {id} --store sqlite:t.db")).ends(0).objects();
    assert_eq!(tags[0]["value"], "kept");
    topic.remove();
}

#[test]
fn a_copy_of_an_import_continues_with_the_next_file() {
    let folder = Folder::new();
    folder.write("one.ndjson", minutes("truck-1", &[0, 2]));
    folder.write("two.ndjson", minutes("truck-1", &[4, 20]));
    folder.ingest("one.ndjson --store sqlite:t.db");
    let backup = folder.run("backup copy.db --store sqlite:t.db").ends(0).json();
    assert_eq!(backup["read"], json!({"records": 2}));
    folder.run("restore copy.db --store sqlite:new.db").ends(0);
    for store in ["t.db", "new.db"] {
        folder.ingest(&format!("two.ndjson --store sqlite:{store}"));
    }
    assert_eq!(folder.trips("new.db"), folder.trips("t.db"));
    // It needs no file next to it, and can be read where it is.
    assert!(!folder.path("copy.db-wal").exists() && !folder.path("copy.db-shm").exists());
    assert_eq!(folder.trips("copy.db").len(), 1);
}

/// Files of a folder that have not got their name.
fn unfinished(folder: &Folder, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".tstar-")).collect()
}

#[test]
fn a_copy_or_an_export_that_fails_leaves_nothing() {
    let folder = Folder::new();
    // More than SQLite keeps in its cache, so that it writes a journal.
    let fleet = folder
        .run("simulate --mix 46,34,19,1 --devices 20 --samples 200000 --seed 3")
        .ends(0)
        .stdout;
    folder.write("fleet.ndjson", fleet);
    folder.ingest("fleet.ndjson --store sqlite:t.db");
    let Some(_mounted) = Mounted::new(&folder, "small", "64k") else { return };
    for words in ["backup small/copy.db", "export --path --out small/e.ndjson"] {
        let ran = folder.run(&format!("{words} --store sqlite:t.db")).ends(74).prints_nothing();
        let left: Vec<_> = std::fs::read_dir(folder.path("small")).unwrap().collect();
        assert!(left.is_empty(), "{ran}: {left:?}");
    }
}

#[test]
fn what_a_killed_export_left_is_removed_by_the_next() {
    let folder = Folder::new();
    folder.write_fleet("fleet.ndjson", "");
    folder.ingest("fleet.ndjson --store sqlite:t.db");
    // Until one is killed before its end.
    for _ in 0..1000 {
        let mut export = folder.command("export --path --out e.ndjson --store sqlite:t.db");
        let mut export = export.spawn().unwrap();
        while unfinished(&folder, "").is_empty() && export.try_wait().unwrap().is_none() {}
        export.kill().unwrap();
        export.wait().unwrap();
        if !unfinished(&folder, "").is_empty() {
            break;
        }
    }
    assert_eq!(unfinished(&folder, "").len(), 1, "no export was killed while it wrote");
    folder.run("backup copy.db --store sqlite:t.db").ends(0);
    assert_eq!(unfinished(&folder, ""), [""; 0]);
}

#[test]
fn what_would_lose_data_is_refused() {
    let folder = Folder::new();
    folder.write("one.ndjson", minutes("truck-1", &[0, 2]));
    folder.ingest("one.ndjson --store sqlite:t.db");
    folder.run("backup t.db --store sqlite:t.db").ends(2).says(&["is the store itself"]);
    folder.run("backup no/copy.db --store sqlite:t.db").ends(74).says(&["no/copy.db"]);
    folder.run("backup copy.db --store sqlite:none.db").ends(74).says(&["none.db"]);
    folder.run("backup copy.db --store sqlite:t.db").ends(0);
    let restore = |words: &str| folder.run(&format!("restore {words}"));
    restore("copy.db --store sqlite:t.db").ends(78).says(&["`t.db` is in the way", "move it"]);
    folder.write("new.db-wal", "left by another store");
    restore("copy.db --store sqlite:new.db").ends(78).says(&["`new.db-wal` is in the way"]);
    assert!(!folder.path("new.db").exists());
    let other = "0".repeat(64);
    restore(&format!("copy.db --sha256 {other} --store sqlite:c.db")).ends(65).says(&["SHA-256"]);
    restore("one.ndjson --check").ends(78).says(&["is not a tstar store"]);
    restore("none.db --check").ends(74).says(&["none.db"]);
    restore("copy.db --store scylla://127.0.0.1/fleet").ends(2).says(&["docs/operations.md"]);

    // Pages that hold something else.
    let mut bytes = std::fs::read(folder.path("copy.db")).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xA5);
    folder.write("damaged.db", bytes);
    let said = ["damaged.db"];
    for words in ["damaged.db --check", "damaged.db --store sqlite:d.db"] {
        let ran = restore(words);
        assert!(matches!(ran.code, Some(65 | 74)), "{:?}", ran.code);
        ran.says(&said);
    }
    assert!(!folder.path("d.db").exists());
}
