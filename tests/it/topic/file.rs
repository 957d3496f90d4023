//! `run` into a file: one instance, positions in the file.

use serde_json::Value;
use tstar::internals::store::sqlite::SqliteStore;

use super::{PARTITIONS, Topic, drain, fleet, start};
use crate::cli::fleets::service_log;
use crate::cli::{Folder, minutes, number, sum};
use crate::faults::until;
use crate::terminal::OnTerminal;

/// Waits until a store has read everything of a topic.
pub fn until_read(folder: &Folder, store: &str, topic: &Topic) {
    let ends = topic.ends(PARTITIONS);
    until("everything to be read", || {
        let store = SqliteStore::open_reader(&folder.path(store)).ok()?;
        let read = |(at, end): (&i32, &i64)| {
            *end == 0 || store.position_of(*at).ok().flatten() >= Some(*end)
        };
        ends.iter().all(read).then_some(())
    });
}

/// Trips without versions, which differ between logs.
fn spans(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.trips(store);
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

#[test]
fn a_topic_gives_the_trips_that_a_file_of_its_records_gives() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    let lines = fleet(&folder, 20_000);
    topic.send_lines(&lines, "no-device");
    folder.write("all.ndjson", &lines);
    let expected = folder.ingest("all.ndjson --store sqlite:file.db");

    let words = format!("run {} --store sqlite:topic.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "topic.db", &topic);
    let summary = drain(running, &words).ends(0).json();
    for count in ["delivered", "applied", "duplicates", "conflicting", "arrivals", "dead_letters"] {
        assert_eq!(summary[count], expected[count], "{count}");
    }
    assert_eq!(spans(&folder, "topic.db"), spans(&folder, "file.db"));
    let letters = folder.run("dlq ls --limit 100000 --store sqlite:topic.db").ends(0).objects();
    assert_eq!(letters.len() as u64, sum(&expected["dead_letters"]));

    // The next start reads nothing again (I10).
    let words = format!("run {} --store sqlite:topic.db", topic.flags());
    let running = start(&folder, &words);
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    until_read(&folder, "topic.db", &topic);
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(number(&summary["delivered"]), 2);

    // On a terminal it says when it has read everything, and counts in a table.
    let mut terminal = OnTerminal::start(&folder, &format!("{words} --listen off"));
    terminal.until_shows("tstar: caught up: 0 samples read, lag 0");
    topic.send_lines(minutes("truck-1", &[3]).as_bytes(), "no-device");
    until_read(&folder, "topic.db", &topic);
    terminal.interrupt();
    let shown = terminal.ends(0);
    let has = |text: &str| shown.iter().any(|line| line.ends_with(text));
    assert!(has("samples delivered  1") && has("trips written      1"), "{shown:#?}");
}

#[test]
fn a_store_belongs_to_one_log_and_one_set_of_rules() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    topic.send_lines(minutes("truck-1", &[1, 2, 3]).as_bytes(), "no-device");
    let flags = topic.flags();
    folder
        .run(&format!("run {flags} --store sqlite:t.db"))
        .ends(78)
        .says(&["has not read topic", "--from earliest"]);
    let words = format!("run {flags} --store sqlite:t.db --from earliest");
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    // A second instance is refused.
    folder.run(&words).ends(74).says(&["locked by another writer"]);
    drain(running, &words).ends(0);
    // Without its file it ends by itself, at the next flush.
    let gone = format!("run {flags} --store sqlite:gone.db --from earliest");
    let running = start(&folder, &gone);
    until_read(&folder, "gone.db", &topic);
    folder.remove_store("gone.db");
    topic.send_lines(minutes("truck-1", &[5]).as_bytes(), "no-device");
    running.ran(&gone).ends(74).says(&["gone.db", "was removed, moved or replaced"]);

    folder
        .run(&format!("{words} --max-gap 10m"))
        .ends(78)
        .says(&["max_gap: the store has 5m, requested 10m"]);
    folder.write("more.ndjson", minutes("truck-1", &[4]));
    let refused = folder.run("ingest more.ndjson --store sqlite:t.db");
    refused.ends(78).says(&["was built from a topic, not files"]);
    folder.ingest("more.ndjson --store sqlite:files.db");
    let refused = folder.run(&format!("run {flags} --store sqlite:files.db --from earliest"));
    refused.ends(78).says(&["was built from files, not a topic"]);
    let other = Topic::new(PARTITIONS).unwrap();
    let refused = folder.run(&format!("run {} --store sqlite:t.db --from earliest", other.flags()));
    refused.ends(78).says(&["was built from topic", &topic.name]);
    let none = format!("--brokers {} --topic no-such-topic", topic.brokers);
    for words in [
        format!("run {none} --store sqlite:n.db --from earliest --create-topics"),
        format!("simulate {none} --devices 1 --samples 1"),
    ] {
        let ran = folder.run(&words).ends(78).says(&["topic `no-such-topic` does not exist"]);
        // No flag creates the input topic, so the message names none.
        let ran = ran.says(&["--create --topic no-such-topic", "--bootstrap-server"]);
        assert!(!ran.stderr.contains("--create-topics"), "{ran}");
    }
    let invalid = format!("simulate --brokers {} --topic no:topic --samples 1", topic.brokers);
    folder.run(&invalid).ends(78).says(&["topic `no:topic` is not a valid name"]);
    // The store that the first one left does not count as a store of files.
    let verify = format!("verify --brokers {} --store sqlite:n.db", topic.brokers);
    folder.run(&verify).ends(78).says(&["has no epoch"]);
}

#[test]
fn a_compacted_topic_is_refused() {
    let Some(topic) = Topic::with(1, &[("cleanup.policy", "compact")]) else { return };
    let folder = Folder::new();
    folder
        .run(&format!("run {} --store sqlite:t.db --from earliest", topic.flags()))
        .ends(78)
        .says(&["cleanup.policy", "delete"]);
}

#[test]
fn a_broker_that_is_not_there_is_waited_for() {
    let folder = Folder::new();
    let port = crate::servers::free_port();
    let words = format!("run --brokers 127.0.0.1:{port} --store sqlite:t.db --from earliest");
    let mut running = start(&folder, &words);
    let mut said = String::new();
    running.until_says("waiting: no Kafka broker", &mut said);
    assert!(!running.has_ended());
    running.signal("TERM");
    let ran = running.ran(&words).ends(0);
    let summary = ran.json();
    assert!(said.contains(&port.to_string()), "{said}");
    assert!(!(said + &ran.stderr).contains("waiting for "), "progress is for terminals\n{ran}");
    assert_eq!((&summary["delivered"], &summary["flushes"]), (&0.into(), &0.into()), "{summary}");
}

#[test]
fn rules_that_do_not_suit_a_topic_are_warned_of_once() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    // Whether one or both partitions have enough samples of it, depends on the hashes of names.
    topic.send_lines(service_log(6).as_bytes(), "no-device");
    let words = format!("run {} --store sqlite:topic.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "topic.db", &topic);
    let ran = drain(running, &words).ends(0);
    let warnings = ran.stderr.matches("warning: by the rules of the store, --max-gap 5m").count();
    assert_eq!(warnings, 1, "{ran}");
    assert!(ran.stderr.contains("by --max-gap 15m --min-stop off"), "{ran}");
}
