//! Dead letters in a table: of files, and of a topic that is read into a file.

use serde_json::json;

use super::{PARTITIONS, REASONS, Topic, bad_records, reasons, renamed, sample};
use crate::cli::{Folder, Ran};
use crate::faults::until;
use crate::topic::{drain, start};

fn samples(folder: &Folder) -> u64 {
    let found = folder.run("export");
    let trips = if found.code == Some(0) { found.objects() } else { vec![] };
    trips.iter().map(|trip| trip["samples"].as_u64().unwrap()).sum()
}

fn ls(folder: &Folder, words: &str) -> Vec<serde_json::Value> {
    folder.run(&format!("dlq ls {words}")).ends(0).objects()
}

fn replay(folder: &Folder, words: &str) -> Ran {
    folder.run(&format!("dlq replay {words}")).ends(0)
}

#[test]
fn letters_of_files_become_records_at_the_end_of_the_log() {
    let folder = Folder::new();
    let soon = renamed("truck-1", 4).replace("2024-05-01T08:04:00Z", "soon");
    let long = format!("{}{}", sample("truck-1", 5), " ".repeat(2 << 20));
    let lines = [sample("truck-1", 1), renamed("truck-1", 2), renamed("truck-1", 3), soon, long];
    folder.write("log", lines.join("\n") + "\nno sample\n");
    folder.write("rows.csv", "device_id,time,lat,lon\ntruck-2,soon,1,2\ntruck-2\n");
    folder.ingest("log rows.csv");
    assert_eq!(ls(&folder, "").len(), 7);
    let dry = replay(&folder, "--map time=when --dry-run").json();
    let summary = replay(&folder, "--map time=when").json();
    assert_eq!(summary["still_failing"], json!({"bad_json": 1, "bad_time": 1}));
    assert_eq!(summary["never"], json!({"csv_row": 2, "cut": 1}));
    for count in ["replayed", "still_failing", "never"] {
        assert_eq!(summary[count], dry[count], "{count}");
    }
    assert_eq!(summary["replayed"], 2);
    assert_eq!((samples(&folder), ls(&folder, "").len()), (3, 5));
    assert_eq!(ls(&folder, "--device truck-1 --reason missing_field").len(), 1);
    assert_eq!(replay(&folder, "--map time=when").json()["replayed"], 0);

    // Importing the files again changes nothing.
    let summary = folder.ingest("log rows.csv");
    assert_eq!((&summary["applied"], samples(&folder), ls(&folder, "").len()), (&0.into(), 3, 5));
    let purged = folder.run("dlq purge --reason bad_time --yes").ends(0).json();
    assert_eq!((purged, ls(&folder, "").len()), (json!({"purged": 1}), 4));
    folder.run("dlq purge --all --yes").ends(0);
    assert_eq!(ls(&folder, "").len(), 0);
    folder.run("dlq show 1").ends(1).says(&["no dead letter 1"]);
    folder.run("dlq show one").ends(2).says(&["a number"]);
}

#[test]
fn what_the_trips_refuse_is_a_letter_again() {
    let folder = Folder::new();
    let lines = [sample("truck-1", 1), sample("truck-1", 5), sample("truck-1", 3)];
    folder.write("log", lines.join("\n") + "\n" + &renamed("truck-1", 4) + "\n");
    folder.ingest("log --max-samples 2");
    let before = ls(&folder, "");
    assert_eq!(reasons(&before), ["missing_field", "trip_full"]);
    let summary = replay(&folder, "--map time=when").json();
    assert_eq!(summary["still_failing"], json!({"trip_full": 2}));
    assert_eq!((&summary["replayed"], samples(&folder)), (&0.into(), 2));
    let after = ls(&folder, "");
    assert_eq!(reasons(&after), ["trip_full", "trip_full"]);
    for name in ["file", "line", "log_time"] {
        let of =
            |letters: &[serde_json::Value]| letters.iter().map(|it| it[name].clone()).collect();
        let (before, after): (Vec<_>, Vec<_>) = (of(&before), of(&after));
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn letters_of_a_topic_go_back_to_it() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    topic.send(&bad_records());
    let words = format!("run {} --store sqlite:trips.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until("the dead letters", || {
        let found = folder.run("dlq ls");
        (found.code == Some(0) && found.objects().len() == REASONS.len()).then_some(())
    });
    let at = format!("--map time=when --brokers {}", topic.brokers);
    folder.run(&format!("dlq replay {at}")).ends(74).says(&["locked by another writer"]);
    drain(running, &words).ends(0);

    let summary = replay(&folder, &at).json();
    assert_eq!(summary["replayed"], 3);
    let left = ls(&folder, "");
    assert_eq!(left.len(), 5);
    assert_eq!(replay(&folder, &at).json()["replayed"], 0);
    let origins = topic
        .records_of(&topic.name)
        .into_iter()
        .filter_map(|mut kept| kept.headers.remove("tstar-dlq-origin"));
    assert_eq!(origins.count(), 3);
    let running = start(&folder, &words);
    until("the trips", || (samples(&folder) == 7).then_some(()));
    drain(running, &words).ends(0);
    assert_eq!(ls(&folder, ""), left);
}
