//! The epochs of a topic.

use serde_json::Value;

use super::keyspace::{log, store, until_committed};
use super::{PARTITIONS, Topic, drain, start};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::keyspace::Keyspace;

/// Runs until the trips have this number of samples.
fn run_until(folder: &Folder, words: &str, samples: u64) {
    let running = start(folder, words);
    until("the samples to be stored", || {
        let found = folder.run("export --store sqlite:t.db");
        let trips = if found.code == Some(0) { found.objects() } else { vec![] };
        let kept: u64 = trips.iter().map(|trip| trip["samples"].as_u64().unwrap()).sum();
        (kept == samples).then_some(())
    });
    drain(running, words).ends(0);
}

fn epochs(folder: &Folder) -> Vec<Value> {
    folder.run("epoch show --store sqlite:t.db").ends(0).objects()
}

#[test]
fn a_changed_partition_count_needs_a_new_epoch_and_nothing_is_lost() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let flags = topic.flags();
    let words = format!("run {flags} --store sqlite:t.db --from earliest");
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    run_until(&folder, &words, 2);
    topic.send_lines(minutes("truck-1", &[3]).as_bytes(), "no-device");
    let early = folder.run(&format!("epoch new {flags} --store sqlite:t.db"));
    early.ends(78).says(&["1 records of partition 0 are not read yet", "lag 0"]);
    run_until(&folder, &words, 3);

    topic.grow(3);
    folder.run(&words).ends(78).says(&["has 3 partitions, and had 1", "tstar epoch new"]);
    let new = format!("epoch new {flags} --store sqlite:t.db");
    folder.run(&new).ends(0);
    let [first, second] = &epochs(&folder)[..] else { panic!("two epochs") };
    assert_eq!((&first["partitions"], &second["partitions"]), (&1.into(), &3.into()));
    assert!(second["base"].as_i64() > first["base"].as_i64());
    assert_eq!(second["start_offsets"]["0"], 3);
    topic.send_lines(minutes("truck-1", &[4]).as_bytes(), "no-device");
    // The device may have moved: its rows of the epoch before stay its own.
    run_until(&folder, &words, 4);
}

#[test]
fn an_epoch_is_of_one_topic_and_set_of_rules_and_none_is_made_for_nothing() {
    let (Some(topic), Some(other)) = (Topic::new(1), Topic::new(1)) else { return };
    let folder = Folder::new();
    let words = format!("run {} --store sqlite:t.db --from earliest", topic.flags());
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    run_until(&folder, &words, 2);
    let new = |more: &str| folder.run(&format!("epoch new {more} --store sqlite:t.db"));
    // Its offsets would be those of another log.
    let names = [format!("topic `{}`", topic.name), format!("topic `{}`", other.name)];
    new(&other.flags()).ends(78).says(&names.each_ref().map(String::as_str));
    let wide = format!("{} --max-gap 10m", topic.flags());
    new(&wide).ends(78).says(&["max_gap: the store has 5m, requested 10m"]);
    assert_eq!(epochs(&folder).len(), 1);

    // As after another program's writes, which a higher version overrides.
    new(&topic.flags()).ends(0);
    new(&topic.flags()).ends(78).says(&["epoch 2 holds no record yet", "continue with tstar run"]);
    assert_eq!(epochs(&folder).len(), 2);
    let verify = format!("verify --brokers {} --store sqlite:t.db", topic.brokers);
    folder.run(&verify).ends(0);
    topic.send_lines(minutes("truck-1", &[3]).as_bytes(), "no-device");
    run_until(&folder, &words, 3);
    new(&topic.flags()).ends(0);
    folder.run(&verify).ends(0);
}

#[test]
fn an_epoch_waits_for_the_instances_of_its_own_store() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let (folder, store) = (Folder::new(), store(&keyspace));
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    let flags = log(&topic);
    run_until(&folder, &format!("run {flags} --store sqlite:t.db --from earliest"), 2);
    folder.run(&format!("schema apply {store}")).ends(0);
    let words = format!("run {flags} {store} --from earliest --create-topics");
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    let new = |store: &str| folder.run(&format!("epoch new {flags} {store}"));
    let group = format!("group `{}` has 1 members; stop all instances first", topic.name);
    new(&store).ends(78).says(&[&group]);
    // The member is not one of the file: its lock says that no instance has it.
    new("--store sqlite:t.db").ends(0);
    drain(running, &words).ends(0);
    new(&store).ends(0);
}

#[test]
fn a_topic_that_was_recreated_needs_a_new_epoch() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let flags = topic.flags();
    let words = format!("run {flags} --store sqlite:t.db --from earliest");
    topic.send_lines(minutes("truck-1", &[1, 2, 3, 4]).as_bytes(), "no-device");
    run_until(&folder, &words, 4);
    topic.remove();
    until("the topic to be deleted", || (!topic.exists()).then_some(()));
    topic.make(1, &[]);
    topic.send_lines(minutes("truck-1", &[5]).as_bytes(), "no-device");
    folder.run(&words).ends(78).says(&["was recreated", "tstar epoch new"]);
    folder.run(&format!("epoch new {flags} --store sqlite:t.db")).ends(0);
    assert_eq!(epochs(&folder)[1]["start_offsets"]["0"], 0);
    run_until(&folder, &words, 5);

    let exported = folder.text("epoch export --store sqlite:t.db");
    folder.write("epochs.json", &exported);
    folder.run("epoch import epochs.json --store sqlite:copy.db").ends(0);
    assert_eq!(folder.text("epoch export --store sqlite:copy.db"), exported);
    let again = folder.run("epoch import epochs.json --store sqlite:copy.db");
    again.ends(78).says(&["has epochs of its own"]);
}

#[test]
fn a_topic_that_was_recreated_is_known_by_its_id() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let flags = topic.flags();
    let words = format!("run {flags} --store sqlite:t.db --from earliest");
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    run_until(&folder, &words, 2);
    topic.remove();
    until("the topic to be deleted", || (!topic.exists()).then_some(()));
    topic.make(1, &[]);
    // By its offsets it might be the same topic with records that are not read yet.
    topic.send_lines(minutes("truck-1", &[3, 4, 5, 6]).as_bytes(), "no-device");
    let verify = format!("verify --brokers {} --store sqlite:t.db", topic.brokers);
    for words in [&words, &verify] {
        folder.run(words).ends(78).says(&["was recreated: its id is", "tstar epoch new"]);
    }
    folder.run(&format!("epoch new {flags} --store sqlite:t.db")).ends(0);
    let kept = epochs(&folder);
    assert_eq!(kept[1]["start_offsets"]["0"], 0);
    assert_ne!(kept[0]["topic_id"].as_str().unwrap(), kept[1]["topic_id"].as_str().unwrap());
    run_until(&folder, &words, 6);
    let trips = folder.trips("t.db");
    assert_eq!((trips.len(), &trips[0]["samples"]), (1, &6.into()), "{trips:?}");
    folder.run(&verify).ends(78).says(&["was recreated before epoch 2"]);
}

#[test]
fn rules_that_are_not_given_are_those_of_the_epoch() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let words = format!("run {} --store sqlite:t.db --from earliest", topic.flags());
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    run_until(&folder, &format!("{words} --max-gap 10m"), 2);
    let rules = epochs(&folder)[0]["rules"].clone();
    assert_eq!(rules["max_gap_ms"], 600_000);

    topic.send_lines(minutes("truck-1", &[12]).as_bytes(), "no-device");
    run_until(&folder, &words, 3);
    assert_eq!(folder.trips("t.db").len(), 1, "the gap of the epoch");
    assert_eq!(epochs(&folder)[0]["rules"], rules);
    let refused = folder.run(&format!("{words} --max-gap 5m")).ends(78);
    refused.says(&["max_gap: the store has 10m, requested 5m"]);
    let verify = format!("verify --brokers {} --store sqlite:t.db", topic.brokers);
    folder.run(&verify).ends(0);
}
