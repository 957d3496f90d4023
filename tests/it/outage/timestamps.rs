//! Brokers refuse records for their timestamps, as they do when the clock of a machine is wrong.

use super::{Daemon, PARTITIONS, are_same, fleet, import, keyed};
use crate::cli::Folder;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::Topic;

/// How much older than the broker's clock a record may be, ms.
const MAX_AGE: &str = "message.timestamp.before.max.ms";

#[test]
fn timestamps_that_brokers_refuse_are_waited_for() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let (folder, store) = (Folder::new(), keyspace.url.to_string());
    // A change feed whose records have the time of their producer, as topics have by default.
    let name = format!("{}.trips", topic.name);
    let feed = Topic::on(topic.brokers.clone(), name, PARTITIONS, &[(MAX_AGE, "0")]);
    let words = format!(
        "run {} --group {} --store {store} --from earliest --create-topics --flush-interval 5ms",
        topic.flags(),
        topic.name
    );
    let mut daemon = Daemon::start(&folder, "daemon", &words);
    topic.send(&keyed(&fleet(&folder, 1_000, "0")));
    daemon.until_says("is the clock of this machine right?", 0);
    feed.set(MAX_AGE, "3600000");
    daemon.until_committed(&topic, &topic.name);
    daemon.drain();
    import(&folder, &topic);
    are_same(&folder, &store, "sqlite:calm.db");
    feed.remove();
    topic.remove();
}
