//! What is shown of servers that do not answer.

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::json;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;

use crate::cli::Folder;
use crate::servers::free_port;
use crate::terminal::OnTerminal;

/// Starts a server that takes connections and answers none. Returns its address.
fn mute_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    address
}

/// A store of a topic that no broker has.
fn store_of_topic(folder: &Folder) {
    let epoch = Epoch {
        epoch: 1,
        topic: "samples".into(),
        partitions: 1,
        start_offsets: BTreeMap::from([(0, 0)]),
        base: Version(1),
        rules: Rules::default(),
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    };
    let epochs = json!({ "epochs": [epoch], "control_keys": [] });
    folder.write("epochs.json", epochs.to_string());
    folder.text("epoch import epochs.json --store sqlite:topic.db");
}

#[test]
fn what_only_reads_ends_with_the_error_alone() {
    let mut folder = Folder::new();
    folder.env("TSTAR_CONNECT_TIMEOUT", "1s");
    store_of_topic(&folder);
    let closed = format!("127.0.0.1:{}", free_port());
    for words in ["verify", "replay topic --from earliest"] {
        let words = format!("{words} --store sqlite:topic.db --brokers {closed}");
        let ran = folder.run(&words).ends(69).prints_nothing();
        let begin = format!("tstar: no Kafka broker of `{closed}` answers: ");
        assert!(ran.stderr.starts_with(&begin) && !ran.stderr.contains("stored"), "{ran}");
    }
}

#[test]
fn a_terminal_shows_what_is_waited_for_and_then_a_table() {
    let folder = Folder::new();
    let (closed, mute) = (format!("127.0.0.1:{}", free_port()), mute_server());
    for (words, wait) in [
        (
            format!("--brokers {closed} --store sqlite:t.db --from earliest"),
            format!("tstar: waiting for the Kafka brokers `{closed}`"),
        ),
        (
            format!("--brokers {closed} --store scylla://{mute}/fleet"),
            format!("tstar: waiting for the CQL nodes of `scylla://{mute}/fleet`"),
        ),
    ] {
        let words = format!("run {words} --listen off");
        let mut terminal = OnTerminal::start(&folder, &words);
        let before = terminal.until_shows(&wait);
        assert_eq!(before, [""; 0], "nothing else until then");
        terminal.interrupt();
        let shown = terminal.ends(0);
        let delivered = shown.iter().any(|line| line.ends_with("samples delivered  0"));
        assert!(delivered && shown.iter().all(|line| !line.starts_with('{')), "{shown:#?}");
    }
}
