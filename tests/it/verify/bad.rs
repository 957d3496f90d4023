//! What cannot be compared, replayed or rebuilt is refused, and changes nothing.

use crate::cli::{Folder, minutes, number};
use crate::replay::Site;
use crate::topic::{Topic, records};

use super::file::dump;

const TOGETHER: [&str; 3] =
    ["verify", "replay topic --from earliest", "rebuild --into sqlite:n.db"];

#[test]
fn files_have_to_be_all_that_were_imported_and_no_others() {
    let folder = Folder::new();
    folder.write("a.ndjson", minutes("truck-1", &[1, 2, 3]));
    folder.write("b.ndjson", minutes("truck-2", &[1, 2, 3]));
    folder.write("c.ndjson", minutes("truck-3", &[1, 2, 3]));
    folder.write("more.ndjson", minutes("truck-1", &[1, 2, 3]) + &minutes("truck-1", &[9]));
    folder.ingest("a.ndjson b.ndjson --store sqlite:t.db");
    let before = dump(&folder.path("t.db"));
    let refused = |words: &str, code: i32, says: &[&str]| {
        for repair in ["", "--repair"] {
            folder
                .run(&format!("verify {words} {repair} --store sqlite:t.db"))
                .ends(code)
                .prints_nothing()
                .says(says);
        }
        assert!(dump(&folder.path("t.db")) == before, "`{words}` changed the store");
    };
    refused("", 2, &["name all that were imported"]);
    refused("a.ndjson", 65, &["built from 6 records, and these files hold 3"]);
    refused("b.ndjson", 65, &["record 0 comes before it"]);
    refused(
        "a.ndjson b.ndjson c.ndjson",
        65,
        &["c.ndjson", "leave it out, or, if they were never imported, import it first"],
    );
    refused("c.ndjson", 65, &["c.ndjson", "tstar ingest"]);
    refused("more.ndjson b.ndjson", 65, &["more.ndjson"]);
    refused("gone.ndjson", 74, &["gone.ndjson"]);
    refused("a.ndjson b.ndjson --format csv", 2, &["table, ndjson, json"]);
    refused("a.ndjson b.ndjson --device truck-9", 1, &["truck-9"]);
    // In any order, and twice.
    for words in ["a.ndjson b.ndjson", "b.ndjson a.ndjson", "b.ndjson a.ndjson b.ndjson"] {
        folder.run(&format!("verify {words} --store sqlite:t.db")).ends(0);
    }
    let ran = folder.run("verify a.ndjson b.ndjson --device truck-2 --json --store sqlite:t.db");
    assert_eq!(number(&ran.ends(0).json()["same"]), 1);
    folder.run("verify a.ndjson --store sqlite:none.db").ends(74).says(&["does not exist"]);
    assert!(!folder.has("none.db"));
    let replay = "replay topic --from earliest --store sqlite:t.db";
    folder.run(replay).ends(78).prints_nothing().says(&["has no epoch", "tstar ingest"]);
    folder.run(&format!("{replay} --apply")).ends(78).prints_nothing().says(&["has no epoch"]);
    folder.run("rebuild --store sqlite:t.db --into sqlite:n.db").ends(2);
    assert!(!folder.has("n.db"));
    assert!(dump(&folder.path("t.db")) == before);
}

#[test]
fn a_topic_has_to_be_there_with_all_its_records() {
    let Some(site) = Site::new(3000) else { return };
    site.run_file("t.db", "");
    let flags = site.flags("sqlite:t.db", true);
    let before = site.dump("t.db");
    let folder = &site.folder;
    for (words, code, says) in [
        (format!("verify {flags} a.ndjson"), 2, "replayed; do not name files"),
        (format!("verify {flags} --device unknown"), 1, "unknown"),
        (format!("verify {flags} --device unknown --repair"), 1, "unknown"),
        (format!("replay topic --from earliest {flags} --device unknown"), 1, "unknown"),
        (format!("replay topic --from offset:999999 {flags}"), 78, "before 999999"),
        (format!("replay topic --from offset:999999 {flags} --apply"), 78, "before 999999"),
        (format!("replay topic --from offset:-1 {flags}"), 2, "N is not a valid offset"),
        (format!("replay topic --from soon {flags}"), 2, "--from soon"),
        (format!("replay topic --from earliest --announce {flags}"), 2, "--apply"),
    ] {
        folder.write("a.ndjson", "");
        folder.run(&words).ends(code).prints_nothing().says(&[says]);
    }
    let unused_port = crate::servers::free_port();
    for words in TOGETHER {
        let words = format!("{words} --store sqlite:t.db --brokers 127.0.0.1:{unused_port}");
        folder.run(&words).ends(69).prints_nothing();
    }
    assert!(!folder.has("n.db"), "a store was made of nothing");
    site.topic.delete_records_before(1, 50);
    for words in TOGETHER {
        let ran = folder.run(&format!("{words} {flags}")).ends(78).prints_nothing();
        ran.says(&["records 0 to 49 of partition 1", "have expired", "keep the topic"]);
    }
    let apply = format!("replay topic --from earliest --apply {flags}");
    folder.run(&apply).ends(78).says(&["have expired"]);
    // The rest is enough for a store that has what expired.
    let rest = format!("replay topic --from offset:50 --apply {flags}");
    assert_eq!(number(&folder.run(&rest).ends(0).json()["rows_that_differ"]), 0);
    assert!(site.dump("t.db") == before, "the store changed");
    site.topic.remove();
    site.topic.make(4, &[]);
    for words in TOGETHER {
        let ran = folder.run(&format!("{words} {flags}"));
        assert!(matches!(ran.code, Some(78 | 69)), "{ran}");
    }
    assert!(site.dump("t.db") == before, "the store changed");
}

/// A device that occurs in two partitions is built from one of them, on every replay.
#[test]
fn a_device_in_two_partitions_makes_no_difference() {
    let Some(topic) = Topic::new(4) else { return };
    let site = Site { topic, folder: Folder::new() };
    let (topic, folder) = (&site.topic, &site.folder);
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    site.run_file("t.db", "--key any");
    let mut astray = records(minutes("truck-1", &[3, 4]).as_bytes(), "no-device");
    let partition = topic.records_of(&topic.name)[0].partition;
    for nth in 0.. {
        astray.iter_mut().for_each(|it| it.key = Some(format!("key-{nth}").into_bytes()));
        topic.send(&astray);
        if topic.records_of(&topic.name).iter().any(|it| it.partition != partition) {
            break;
        }
    }
    let of = site.flags("sqlite:t.db", true);
    let summary = site.run_file("t.db", "--key any");
    assert_eq!(summary["dead_letters"]["other_partition"], 2, "{summary}");
    folder.run(&format!("verify {of}")).ends(0);
    for words in ["replay topic --from earliest", "replay topic --from earliest --apply"] {
        let ran = folder.run(&format!("{words} {of}")).ends(0);
        assert_eq!(number(&ran.json()["rows_that_differ"]), 0);
    }
    folder.run(&format!("rebuild --into sqlite:n.db {of}")).ends(0);
    assert_eq!(folder.trips("n.db").len(), folder.trips("t.db").len());
}
