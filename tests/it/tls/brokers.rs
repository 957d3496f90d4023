//! A broker that accepts TLS only, and requires client certificates.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tstar::internals::store::sqlite::SqliteStore;

use super::authority::Authority;
use crate::cli::{Folder, number};
use crate::faults::{Running, until};
use crate::servers::{LIMIT, free_port, start_kafka};
use crate::support::block_on;

const SAMPLES: i64 = 2000;
const PARTITIONS: i32 = 4;

/// Creates the topic with the certificates in a folder; waits for a broker that starts.
fn make_topic(folder: &Folder, broker: &str) {
    let path = |name| folder.path(name).display().to_string();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker).set("security.protocol", "ssl");
    config.set("ssl.ca.location", path("ca.pem"));
    config.set("ssl.certificate.location", path("cert.pem"));
    config.set("ssl.key.location", path("key.pem"));
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let topic = NewTopic::new("samples", PARTITIONS, TopicReplication::Fixed(1));
    let options = AdminOptions::new().operation_timeout(Some(LIMIT)).request_timeout(Some(LIMIT));
    let made = block_on(admin.create_topics([&topic], &options)).unwrap();
    made.into_iter().for_each(|made| drop(made.unwrap()));
}

#[test]
fn a_topic_is_filled_and_read_over_tls() {
    let authority = Authority::new("tstar tests");
    let mut folder = Folder::with("ca.pem", authority.pem());
    let (certificate, key) = authority.sign(&["127.0.0.1"]);
    folder.write("cert.pem", certificate);
    folder.write("key.pem", key);
    folder.write("stranger.pem", Authority::new("a stranger").pem());
    let data = folder.path("broker");
    authority.equip(&data, &["127.0.0.1"]);
    let Some(mut broker) = start_kafka(&data, free_port()) else { return };
    broker.wait_until_heard(LIMIT);
    let topic = format!("--brokers {} --topic samples", broker.address());
    let trusting = |ca: &str| {
        format!(
            "{topic} --kafka security.protocol=ssl --kafka ssl.ca.location={ca} \
             --kafka ssl.certificate.location=cert.pem --kafka ssl.key.location=key.pem"
        )
    };
    let tls = trusting("ca.pem");

    make_topic(&folder, &broker.address());
    let fill = format!("simulate --mix 46,34,19,1 --devices 5 --samples {SAMPLES} --seed 5");
    folder.run(&format!("{fill} {tls}")).ends(0);
    let words = format!("run {tls} --store sqlite:trips.db --from earliest");
    let mut running = Running::start(&mut folder.command(&words));
    until("everything to be read", || {
        let store = SqliteStore::open_reader(&folder.path("trips.db")).ok()?;
        let read = |partition| store.position_of(partition).ok().flatten().unwrap_or(0);
        ((0..PARTITIONS).map(read).sum::<i64>() == SAMPLES).then_some(())
    });
    running.signal("TERM");
    let summary = running.ran(&words).ends(0).json();
    assert_eq!(i64::try_from(number(&summary["delivered"])).unwrap(), SAMPLES);

    // Without a CA of its own, the client uses the system's.
    let system = tls.replace("--kafka ssl.ca.location=ca.pem", "");
    folder.env("SSL_CERT_FILE", "ca.pem");
    folder.run(&format!("{fill} {system}")).ends(0);
    folder.env("SSL_CERT_FILE", "stranger.pem");
    for words in [system, trusting("stranger.pem"), topic] {
        folder.run(&format!("{fill} {words}")).ends(69);
    }
}
