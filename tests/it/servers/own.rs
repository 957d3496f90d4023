//! Guarantees of the tests' servers.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::{Consistency, Statement};

use super::ready::{LIMIT, until};
use super::{cql, free_port, kafka, start_cassandra, start_kafka};
use crate::support::block_on;

/// Writes one record to a new topic and waits for the broker's acknowledgement.
pub fn produce(address: &str, topic: &str, value: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("message.timeout.ms", "60000");
    let producer: BaseProducer = config.create().unwrap();
    producer.send(BaseRecord::<str, str>::to(topic).key("truck-17").payload(value)).unwrap();
    producer.flush(LIMIT).unwrap();
}

/// The first `count` values of a topic.
pub fn consume(address: &str, topic: &str, count: usize) -> Vec<String> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", topic);
    config.set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let mut values = Vec::new();
    let next = || {
        let record = consumer.poll(Duration::from_secs(1))?.ok()?;
        values.push(String::from_utf8(record.payload()?.to_vec()).unwrap());
        (values.len() == count).then_some(())
    };
    until("records", LIMIT, next, || None);
    values
}

async fn session(address: &str) -> Session {
    SessionBuilder::new().known_node(address).build().await.unwrap()
}

async fn run(session: &Session, text: &str, consistency: Consistency) {
    let mut statement = Statement::new(text);
    statement.set_consistency(consistency);
    session.query_unpaged(statement, &[]).await.unwrap();
}

/// Creates a keyspace and a table, and writes one row with `copies` replicas.
pub fn write_row(address: &str, keyspace: &str, copies: usize) {
    block_on(async {
        let session = session(address).await;
        let made = format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}}"
        );
        run(&session, &made, Consistency::One).await;
        let table =
            format!("CREATE TABLE IF NOT EXISTS {keyspace}.row (id text PRIMARY KEY, n int)");
        run(&session, &table, Consistency::One).await;
        let row = format!("INSERT INTO {keyspace}.row (id, n) VALUES ('truck-17', 42)");
        run(&session, &row, Consistency::All).await;
    });
}

/// The value of the row of [`write_row`], read at a consistency level.
pub fn read_row(address: &str, keyspace: &str, consistency: Consistency) -> i32 {
    block_on(async {
        let session = session(address).await;
        let text = format!("SELECT n FROM {keyspace}.row WHERE id = 'truck-17'");
        let mut statement = Statement::new(text);
        statement.set_consistency(consistency);
        let rows = session.query_unpaged(statement, &[]).await.unwrap().into_rows_result().unwrap();
        rows.single_row::<(i32,)>().unwrap().0
    })
}

/// The version that a CQL server reports, or reports to be compatible with.
pub fn release(address: &str) -> String {
    block_on(async {
        let session = session(address).await;
        let rows = session.query_unpaged("SELECT release_version FROM system.local", &[]).await;
        let rows = rows.unwrap().into_rows_result().unwrap();
        rows.single_row::<(String,)>().unwrap().0
    })
}

#[test]
fn the_shared_broker_keeps_a_record() {
    let Some(address) = kafka() else { return };
    assert_eq!(kafka(), Some(address.clone()), "one for all");
    let topic = format!("tstar-tests-shared-{}", std::process::id());
    produce(&address, &topic, "a sample");
    assert_eq!(consume(&address, &topic, 1), ["a sample"]);
}

#[test]
fn the_shared_cql_server_keeps_a_row() {
    let Some(address) = cql() else { return };
    assert_eq!(cql(), Some(address.clone()), "one for all");
    let keyspace = format!("tstar_tests_shared_{}", std::process::id());
    write_row(&address, &keyspace, 1);
    assert_eq!(read_row(&address, &keyspace, Consistency::One), 42);
    block_on(async {
        let drop = format!("DROP KEYSPACE {keyspace}");
        run(&session(&address).await, &drop, Consistency::One).await;
    });
}

#[test]
fn a_broker_comes_back_with_its_records_after_a_kill_and_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = start_kafka(folder.path(), free_port()) else { return };
    server.wait_until_ready(LIMIT);
    let address = server.address();
    let first = server.pid();
    produce(&address, "kept", "before the kill");
    server.kill();
    server.restart();
    assert_ne!(server.pid(), first);
    server.wait_until_ready(LIMIT);
    produce(&address, "kept", "before the stop");
    server.stop();
    server.restart();
    server.wait_until_ready(LIMIT);
    assert_eq!(consume(&address, "kept", 2), ["before the kill", "before the stop"]);
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn three_nodes_are_one_cluster_that_outlives_the_loss_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut nodes = Vec::new();
    for host in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
        let place = folder.path().join(host);
        let Some(mut node) = start_cassandra(&place, port, host, "127.0.0.1") else { return };
        node.wait_until_ready(LIMIT);
        nodes.push(node);
    }
    // Three replicas at ALL: this needs all three.
    write_row(&nodes[0].address(), "kept", 3);
    nodes[2].kill();
    let read = |node: usize, at| read_row(&nodes[node].address(), "kept", at);
    assert_eq!(read(1, Consistency::Quorum), 42);
    nodes[2].restart();
    nodes[2].wait_until_ready(LIMIT);
    // It may have lost what its commit log had not synced; with the others it has the row.
    assert_eq!(read_row(&nodes[2].address(), "kept", Consistency::All), 42);
}
