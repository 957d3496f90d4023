//! Mistakes with addresses and options of servers, and what a terminal shows of a wait for them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;

use crate::cli::Folder;
use crate::servers::free_port;
use crate::terminal::OnTerminal;

/// What a CQL server answers to the first request of a Kafka client, up to its text.
const OF_CQL: &[u8] = b"\x84\0\0\0\0\0\0\0\x17\0\0\0\x0a\0\x11Invalid or unsupp";

const OF_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

/// Starts a server of something else, which answers each connection with these bytes and closes it,
/// or waits for more. Returns its address.
fn other_server(answer: Option<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            match answer {
                Some(answer) => {
                    // The client may be gone again.
                    drop(connection.read(&mut [0; 512]));
                    drop(connection.write_all(answer));
                }
                None => waiting.push(connection),
            }
        }
    });
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
fn an_address_or_an_option_that_is_wrong_is_named_with_what_to_write() {
    let mut folder = Folder::new();
    folder.env("TSTAR_CONNECT_TIMEOUT", "1s");
    let (cql, http, mute) =
        (other_server(Some(OF_CQL)), other_server(Some(OF_HTTP)), other_server(None));
    let closed = format!("127.0.0.1:{}", free_port());
    let not_kafka = "what answers there is not a Kafka broker: check the port in --brokers";
    let topic = |address: &str| format!("inspect --topic t --brokers {address}");
    let with = |option: &str| format!("{} --kafka {option}", topic(&closed));
    for (words, code, says) in [
        (topic(&closed), 69, [&*closed, "Connection refused", "check that it is up"]),
        (topic(&cql), 69, [&*cql, "Invalid response size", not_kafka]),
        (topic(&http), 69, [&*http, "Invalid response size", not_kafka]),
        (
            topic("no-host.invalid:9092"),
            69,
            ["Failed to resolve 'no-host.invalid:9092'", "check the host name", "--brokers"],
        ),
        (
            topic("http://127.0.0.1:9092"),
            2,
            ["`http://127.0.0.1:9092`", "write 127.0.0.1:9092 without http://", "--brokers"],
        ),
        (topic("a:9092a"), 2, ["`a:9092a`", "`9092a` is not a port", "1 to 65535"]),
        (topic("a:99999"), 2, ["`a:99999`", "`99999` is not a port", "1 to 65535"]),
        (topic("a:1;b:2"), 2, ["`a:1;b:2`", "is not host:port", "separate brokers with commas"]),
        (
            with("acks=1,linger.ms=2"),
            2,
            ["`acks` and `linger.ms` are in one line", "--kafka KEY=VALUE", "of its own"],
        ),
        (
            with("acks=1;linger.ms=2"),
            2,
            ["`acks` and `linger.ms` are in one line", "--kafka KEY=VALUE", "of its own"],
        ),
        (with("linger.ms:5"), 2, ["--kafka", "is not KEY=VALUE", "part of a secret"]),
        (with("linger_ms=5"), 78, ["`linger_ms`", "cannot be set", "No such configuration"]),
        (
            with("security.protocol=SASL_PLAINTEXT"),
            78,
            ["`sasl.mechanism` is not set", "Kerberos", "--kafka sasl.mechanism=PLAIN"],
        ),
        (
            format!("devices --store scylla://{mute}/fleet"),
            69,
            [&*mute, "no node has answered as a CQL server within 1s", "check the port, 9042"],
        ),
        (
            format!("devices --store scylla://{closed}/fleet"),
            69,
            [&*closed, "Connection refused", "check its nodes"],
        ),
    ] {
        let ran = folder.run(&words).ends(code).prints_nothing().says(&says);
        // Of no use to anyone: the option is fixed.
        assert!(!ran.stderr.contains("increase receive.message.max.bytes"), "{ran}");
        assert!(!ran.stderr.contains("deadline has elapsed"), "{ran}");
    }
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
    let (closed, mute) = (format!("127.0.0.1:{}", free_port()), other_server(None));
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
