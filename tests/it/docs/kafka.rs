//! The Kafka commands of README and docs, on the servers of the tests.

use std::path::Path;
use std::process::Stdio;

use super::blocks::{run, shell, shown};
use super::console::{is_shown, steps};
use super::{Block, page};
use crate::cli::Folder;
use crate::faults::{Running, until};
use crate::keyspace::Keyspace;
use crate::servers::free_port;
use crate::topic::Topic;

/// Partitions of the pages' topic.
const PARTITIONS: i32 = 16;

/// How a block of a page begins, before the name of the topic.
const CREATE: &str = "kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic ";

/// The pages' address of a daemon.
const PAGE: &str = "127.0.0.1:8080";

/// The pages' name for the keyspace.
const KEYSPACE: &str = "scylla://127.0.0.1:9042/tstar";

/// A topic with samples, a daemon, a query in another terminal, and transcripts of the time in
/// which the daemon runs.
struct Sequence {
    topic: Block,
    daemon: Block,
    question: Block,
    transcripts: Vec<Block>,
}

/// Whether a block is a transcript of a running daemon or its topic.
fn needs_daemon(block: &Block) -> bool {
    let has = |address| block.text.contains(address);
    block.language == "console" && (has("127.0.0.1:9092") || has(PAGE))
}

/// The sequences of blocks of a page.
fn sequences(path: &str) -> Vec<Sequence> {
    let page = page(path);
    let mut blocks = page.blocks().into_iter();
    let mut found: Vec<Sequence> = Vec::new();
    while let Some(block) = blocks.next() {
        if block.text.starts_with("kafka-topics.sh ") {
            let mut next = || blocks.find(|block| block.language == "sh").unwrap();
            let (daemon, question) = (next(), next());
            found.push(Sequence { topic: block, daemon, question, transcripts: Vec::new() });
        } else if needs_daemon(&block) {
            found.last_mut().expect("a daemon runs").transcripts.push(block);
        }
    }
    found
}

/// Runs a transcript, with what `own` makes of the addresses of the page.
fn repeat(transcript: &Block, folder: &Path, own: impl Fn(&str) -> String) {
    for step in steps(&transcript.text) {
        let command = own(&step.command);
        let mut printed = String::new();
        let mut is_same = || {
            printed = shown(&command, folder);
            is_shown(&step.shown, &printed)
        };
        // What is only read may need a moment.
        let is_read = command.starts_with("curl ");
        let is_same =
            if is_read { until(&command, || is_same().then_some(true)) } else { is_same() };
        assert!(is_same, "{command}\nshown:\n{}\nprinted:\n{printed}", step.shown);
    }
}

/// Runs a sequence; `None` without a server for it.
fn follow(sequence: &Sequence) -> Option<()> {
    let Sequence { topic: made, daemon, question, transcripts } = sequence;
    let topic = Topic::new(PARTITIONS)?;
    // The tests' servers lack the tool of Kafka's distribution; the same request creates the topic.
    let (create, rest) = made.text.split_once('\n').unwrap();
    let name = create.strip_prefix(CREATE).and_then(|it| it.split_once(' '));
    let (name, partitions) = name.expect("a topic is created");
    assert_eq!(partitions, format!("--partitions {PARTITIONS}"));
    let folder = Folder::new();
    let needs_keyspace = daemon.text.contains(KEYSPACE);
    let keyspace = if needs_keyspace { Some(Keyspace::bare()?) } else { None };
    let address = format!("127.0.0.1:{}", free_port());
    let own = |text: &str| {
        let text = text.replace("127.0.0.1:9092", &topic.brokers).replace(PAGE, &address);
        let text = text.replace(&format!("--topic {name}"), &format!("--topic {}", topic.name));
        match &keyspace {
            Some(keyspace) => text.replace(KEYSPACE, &keyspace.url.to_string()),
            None => text,
        }
    };
    // The broker may see it a moment after its controller.
    until("the topic", || topic.exists().then_some(()));
    run(&own(rest), folder.dir.path());

    let mut command = shell(&format!("exec {}", own(&daemon.text)), folder.dir.path());
    // All topics of a broker share its groups, and all tests of a machine share its ports.
    command.env("TSTAR_GROUP", &topic.name).env("TSTAR_LISTEN", &address);
    let mut running = Running::start(&mut command);
    let question = own(&question.text);
    until("the trips", || {
        assert!(!running.has_ended(), "`{}` ended", daemon.text);
        // It fails until there is a store.
        let output = shell(&question, folder.dir.path()).stderr(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("\"truck-17~").then_some(())
    });
    for transcript in transcripts {
        assert!(!running.has_ended(), "`{}` ended", daemon.text);
        repeat(transcript, folder.dir.path(), own);
    }
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
    assert_eq!(page[0].transcripts.len(), 1);
    for sequence in &page {
        follow(sequence);
    }
}

#[test]
fn the_commands_for_operators_work_on_a_topic() {
    let page = sequences("docs/operations.md");
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].transcripts.len(), 3);
    follow(&page[0]);
}
