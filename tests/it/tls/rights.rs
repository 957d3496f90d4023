//! What is reported if brokers deny a right, or want another login.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::consumer::{
    self, Assignment, ConsumerConfig, ConsumerEvent, MemberSettings,
};
use tstar::internals::kafka::group::Group;
use tstar::internals::kafka::producer::{Producer, ProducerRecord};
use tstar::internals::kafka::scan::Scan;
use tstar::internals::kafka::topics::{OffsetRange, Topics};
use tstar::internals::kafka::transactions::Transactions;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;
use tstar::internals::ops::readiness::Readiness;
use tstar::internals::pipeline::daemon::DaemonEvent;

use super::sasl::{Cluster, PARTITIONS, PASSWORD};
use crate::servers::LIMIT;
use crate::support::block_on;

/// Time limit of a request that brokers do not answer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A user who may produce to `samples` only, and does not log in by a command.
fn tracker(cluster: &Cluster) -> Brokers {
    let ca = cluster.folder.path("ca.pem").display().to_string();
    let options = [
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", &ca),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "tracker"),
        ("sasl.password", PASSWORD),
    ];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Brokers::new(&cluster.broker.address(), BTreeMap::from(options)).unwrap().within(TIMEOUT)
}

/// An error has to name the right and the command that grants it.
#[track_caller]
fn check(error: &KafkaError, right: &str, grant: &str) {
    assert!(matches!(error, KafkaError::Denied { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("the brokers deny {right} ")), "{text}");
    assert!(
        text.contains(&format!("--allow-principal User:tracker --operation {grant};")),
        "{text}"
    );
}

/// Checks the answer to each request that the brokers deny.
pub fn check_denials(cluster: &Cluster) {
    let brokers = tracker(cluster);
    let topics = Topics::new(&brokers).unwrap();
    let unseen = topics.needed("secret").unwrap_err();
    check(
        &unseen,
        "Describe on topic `secret`, and do not say whether it exists,",
        "Describe --topic secret",
    );
    assert_eq!(block_on(topics.settings("samples")).unwrap(), BTreeMap::new());
    let grant = topics.no_settings("samples");
    assert!(grant.ends_with("User:tracker --operation DescribeConfigs --topic samples"), "{grant}");
    let error = block_on(topics.create(&["samples.x".to_owned()], 1)).unwrap_err();
    check(&error, "Create on topic `samples.x`", "Create --topic samples.x");

    let all = vec![(0, OffsetRange { first: 0, next: 1 })];
    let error = Scan::new(&brokers, "samples", all).unwrap().next_record().unwrap_err();
    check(&error, "Read on topic `samples`", "Read --topic samples");
    let producer = Producer::new(&brokers, Arc::new(|_: &str| ())).unwrap();
    let sent = block_on(producer.send("samples.dlq", &[ProducerRecord::default()])).unwrap_err();
    let error = producer.failed("sending", "samples.dlq")(sent);
    check(&error, "Write on topic `samples.dlq`", "Write --topic samples.dlq");
    let error = Transactions::init(&brokers, "mine", None).err().unwrap();
    check(&error, "Write on transactional id `mine`", "Write --transactional-id mine");
    let group = Group::new(&brokers, "strangers").unwrap();
    let error = group.committed("samples", PARTITIONS).unwrap_err();
    check(&error, "Describe on group `strangers`", "Describe --group strangers");
    check_member(brokers);
}

/// A member of a group that it may not join waits for the right, and is not ready until then.
fn check_member(brokers: Brokers) {
    let (sender, events) = mpsc::channel();
    let on_event = move |event| drop(sender.send(event));
    let stop = Arc::new(AtomicBool::new(false));
    let config = ConsumerConfig {
        brokers,
        topic: "samples".into(),
        member: MemberSettings {
            revoke_timeout: TIMEOUT,
            drain_timeout: TIMEOUT,
            ..MemberSettings::new("strangers")
        },
        assignment: Assignment::Group { from: None },
        epoch: Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: PARTITIONS,
            start_offsets: BTreeMap::new(),
            base: Version(1),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: true,
        },
        memory: 1 << 20,
    };
    let readiness = Readiness::not_yet("not read yet");
    let stopping = Arc::clone(&stop);
    let member = std::thread::spawn(move || {
        let (assigned, _assignments) = tokio::sync::mpsc::unbounded_channel();
        let ended = |drained: Result<_, _>| assert!(drained.is_ok());
        consumer::run(&config, assigned, &(Arc::new(on_event) as _), stopping, ended);
    });
    loop {
        let event = events.recv_timeout(LIMIT).expect("the group is denied");
        let is_denied = matches!(event, ConsumerEvent::Denied(_));
        readiness.hear(&DaemonEvent::Consumer(event));
        if is_denied {
            break;
        }
    }
    let unmet = readiness.unmet_reason().unwrap();
    assert!(unmet.contains("deny Read on group `strangers`"), "{unmet}");
    stop.store(true, Ordering::Release);
    member.join().unwrap();
}

/// Checks what is said to users whose listener wants TLS or a login.
pub fn check_listeners(cluster: &Cluster) {
    let fill =
        format!("simulate --topic samples --samples 10 --brokers {}", cluster.broker.address());
    let plain = cluster.folder.run(&fill).ends(69);
    plain.says(&["if it wants TLS, set --kafka security.protocol=SSL, or SASL_SSL"]);
    let tls = "--kafka security.protocol=SSL --kafka ssl.ca.location=ca.pem";
    let no_login = cluster.folder.run(&format!("{fill} {tls}")).ends(69);
    no_login.says(&["if it wants a login, set --kafka security.protocol=SASL_SSL"]);
}
