//! A broker that is silent while a worker begins to write the table topic, and is replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::producer::{Producer, ProducerRecord};
use tstar::internals::kafka::transactions::TransactionClient;
use tstar::internals::kafka::transactions::TransactionRecord;

use crate::cli::Folder;
use crate::servers::{LIMIT, free_port, start_kafka};
use crate::support::{block_on, signal};
use crate::topic::Topic;

/// Which of two requests a broker takes first differs from time to time.
const ROUNDS: usize = 4;

/// Enough for the request of the first worker to arrive meanwhile.
const TRANSACTIONS: usize = 20;

/// Time in which a client sends its request.
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_worker_that_was_cancelled_fences_no_later_one() {
    let folder = Folder::new();
    let Some(mut broker) = start_kafka(&folder.path("kafka"), free_port()) else { return };
    broker.wait_until_ready(LIMIT);
    let topic = Topic::on(broker.address(), "table".into(), 1, &[]);
    let brokers = Brokers::new(&topic.brokers, BTreeMap::new()).unwrap();
    let producer = Producer::new(&brokers, Arc::new(|_: &str| ())).unwrap();
    let record = TransactionRecord {
        topic: topic.name.clone(),
        record: ProducerRecord {
            value: b"trip".to_vec(),
            partition: Some(0),
            ..ProducerRecord::default()
        },
        is_tombstone: false,
    };
    block_on(async {
        // The coordinator of transactions takes its time to become one.
        drop(producer.transactions("first").await.unwrap());
        for round in 0..ROUNDS {
            let name = format!("worker-{round}");
            signal(broker.pid(), "STOP");
            let cancelled = timeout(SHORT, producer.transactions(&name)).await;
            assert!(cancelled.is_err(), "a broker that is silent answered");
            let mut later = Box::pin(producer.transactions(&name));
            let waits = timeout(SHORT, &mut later).await;
            signal(broker.pid(), "CONT");
            assert!(waits.is_err(), "a broker that is silent answered");
            let later = later.await.unwrap();
            for nth in 0..TRANSACTIONS {
                let sent = later.send([record.clone()].into()).await;
                sent.unwrap_or_else(|error| panic!("round {round}, transaction {nth}: {error}"));
            }
        }
    });
}
