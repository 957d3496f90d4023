//! A partition that stopped: the others continue, and readiness and metrics show it.

use tstar::internals::kafka::producer::ProducerRecord;

use super::{Topic, drain, start};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::http::Server;
use crate::keyspace::{ClusteringOrder, Keyspace};

/// Sends a record under a key, whatever its device.
fn send(topic: &Topic, key: &str, value: &str) {
    topic.send(&[ProducerRecord {
        key: Some(key.into()),
        value: value.into(),
        ..ProducerRecord::default()
    }]);
}

/// A key of each partition; afterwards both partitions hold records.
fn keys(topic: &Topic) -> [String; 2] {
    let mut keys = [None, None];
    for nth in 0.. {
        let (key, before) = (format!("key-{nth}"), topic.ends(2));
        send(topic, &key, "[]");
        let moved = (0..2).find(|at| topic.ends(2)[at] > before[at]).unwrap();
        keys[usize::try_from(moved).unwrap()].get_or_insert(key);
        if let [Some(first), Some(second)] = &keys {
            return [first.clone(), second.clone()];
        }
    }
    unreachable!("some key is of each partition")
}

#[test]
fn a_partition_that_stopped_makes_readiness_say_so_until_a_restart() {
    let (Some(topic), Some(keyspace)) = (Topic::new(2), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (folder, [bad, good]) = (Folder::new(), keys(&topic));
    let words = format!(
        "run {} --store {} --group {} --key any --from earliest --create-topics",
        topic.flags(),
        keyspace.url,
        topic.name
    );
    let mut first = start(&folder, &words);
    first.until_says("reading from offset", &mut String::new());
    drain(first, &words).ends(0);
    let set_base = |base: i64| {
        let set = format!("UPDATE epochs SET base = {base} WHERE log = 'log' AND epoch = 1");
        keyspace.run(&set);
    };
    // In a damaged epoch the next versions of one partition are invalid, those of the other are
    // valid.
    while topic.ends(2)[&1] < topic.ends(2)[&0] + 5 {
        send(&topic, &good, "[]");
    }
    set_base(-2 * (topic.ends(2)[&0] + 2));

    let server = Server::start(&folder, &words);
    until("readiness", || (server.get("/readyz").status == 200).then_some(()));
    send(&topic, &bad, &minutes("bad-1", &[1]));
    let answer = until("readiness to end", || {
        Some(server.get("/readyz?verbose")).filter(|answer| answer.status == 503)
    });
    let checks = answer.json()["checks"].clone();
    let problem = checks[1]["problem"].as_str().unwrap();
    assert_eq!((&checks[1]["name"], &checks[0]["ok"]), (&"log".into(), &true.into()), "{checks}");
    for words in ["partition 0 stopped until restart", "bad-1", "tstar verify --repair"] {
        assert!(problem.contains(words), "{problem}");
    }
    // The other partition continues, and readiness stays false.
    send(&topic, &good, &minutes("good-1", &[1]));
    let lookup = "/v1/trips/lookup?device=good-1&at=2024-05-01T08:01:00Z";
    until("the other partition", || (server.get(lookup).status == 200).then_some(()));
    server.get("/readyz").is(503);
    let stopped = |at: i32| {
        let labels = format!("topic=\"{}\",partition=\"{at}\"", topic.name);
        server.metric(&format!("tstar_kafka_partition_stopped{{{labels}}}"))
    };
    assert_eq!((stopped(0), stopped(1)), (Some(1.0), Some(0.0)));
    // Not all that was read is stored.
    let said = server.ends(143);
    assert_eq!(said.matches("partition 0 stopped until restart").count(), 1, "{said}");
    assert!(said.contains("could be stored before partitions stopped"), "{said}");

    // The epoch is repaired: a start resumes where the partition had stopped.
    set_base(1_000_000);
    let server = Server::start(&folder, &words);
    let lookup = "/v1/trips/lookup?device=bad-1&at=2024-05-01T08:01:00Z";
    until("the partition", || (server.get(lookup).status == 200).then_some(()));
    // The position of the other one was written at an older version, under the wrong epoch: it
    // catches up.
    until("readiness", || (server.get("/readyz").status == 200).then_some(()));
    server.drain();
}
