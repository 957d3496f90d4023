//! The Kafka commands of README and docs, on the servers of the tests.

use std::process::Stdio;

use super::blocks::{run, shell};
use super::{Block, page};
use crate::cli::Folder;
use crate::faults::{Running, until};
use crate::keyspace::Keyspace;
use crate::servers::free_port;
use crate::topic::Topic;

/// Partitions of the pages' topic.
const PARTITIONS: i32 = 16;

/// The pages' name for the keyspace.
const KEYSPACE: &str = "scylla://127.0.0.1:9042/tstar";

/// A topic with samples, a daemon, and a query in another terminal.
type Sequence = [Block; 3];

/// The sequences of blocks of a page.
fn sequences(path: &str) -> Vec<Sequence> {
    let page = page(path);
    let mut blocks = page.blocks().into_iter().filter(|block| block.language == "sh");
    let mut found = Vec::new();
    while let Some(topic) = blocks.find(|block| block.text.starts_with("kafka-topics.sh")) {
        found.push([topic, blocks.next().unwrap(), blocks.next().unwrap()]);
    }
    found
}

/// Runs a sequence; `None` without a server for it.
fn follow([made, daemon, question]: &Sequence) -> Option<()> {
    let topic = Topic::new(PARTITIONS)?;
    let folder = Folder::new();
    let needs_keyspace = daemon.text.contains(KEYSPACE);
    let keyspace = if needs_keyspace { Some(Keyspace::bare()?) } else { None };
    let own = |text: &str| {
        let text = text.replace("127.0.0.1:9092", &topic.brokers);
        let text = text.replace("--topic samples", &format!("--topic {}", topic.name));
        match &keyspace {
            Some(keyspace) => text.replace(KEYSPACE, &keyspace.url.to_string()),
            None => text,
        }
    };
    // The tests' servers lack the tool of Kafka's distribution; the same request creates the topic.
    let (create, rest) = made.text.split_once('\n').unwrap();
    let created = "kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic samples";
    assert_eq!(create, format!("{created} --partitions {PARTITIONS}"));
    // The broker may see it a moment after its controller.
    until("the topic", || topic.exists().then_some(()));
    run(&own(rest), folder.dir.path());

    let mut command = shell(&format!("exec {}", own(&daemon.text)), folder.dir.path());
    let address = format!("127.0.0.1:{}", free_port());
    // All topics of a broker share its groups, and all tests of a machine share its ports.
    command.env("TSTAR_GROUP", &topic.name).env("TSTAR_LISTEN", address);
    let mut running = Running::start(&mut command);
    let question = own(&question.text);
    until("the trips", || {
        assert!(!running.has_ended(), "`{}` ended", daemon.text);
        // It fails until there is a store.
        let output = shell(&question, folder.dir.path()).stderr(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("\"truck-17~").then_some(())
    });
    running.signal("TERM");
    running.ran(&daemon.text).ends(0);
    Some(())
}

#[test]
fn the_readmes_commands_build_trips_from_a_topic() {
    let readme = sequences("README.md");
    assert_eq!(readme.len(), 1);
    for sequence in &readme {
        follow(sequence);
    }
}

#[test]
fn the_commands_of_the_page_on_kafka_build_trips_from_a_topic() {
    let page = sequences("docs/kafka.md");
    assert_eq!(page.len(), 2);
    for sequence in &page {
        follow(sequence);
    }
}
