//! Instances of a group: each answers from its own memory and the store, and names the owner of a
//! device that another one reads.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::Value;

use super::keyspace::{log, store};
use super::{PARTITIONS, Topic};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::http::{Answer, Server};
use crate::keyspace::{ClusteringOrder, Keyspace};

const NAMES: [&str; 2] = ["tstar-0", "tstar-1"];

/// Devices of all partitions.
const DEVICES: u32 = 16;

fn lookup(server: &Server, device: u32, more: &str) -> Answer {
    let at = "2024-05-01T08:01:00Z";
    server.get(&format!("/v1/trips/lookup?device=truck-{device}&at={at}{more}"))
}

/// A member of the group whose client id is a URL takes partitions over: it is neither named nor
/// sent anything.
fn no_url_is_asked(topic: &Topic, instances: &[Server; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &topic.brokers)
        .set("client.id", format!("http://{}/latest/meta-data?x=", listener.local_addr().unwrap()))
        .set("group.id", &topic.name)
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    member.subscribe(&[&topic.name]).unwrap();
    let assigned = || {
        member.poll(Duration::from_millis(100));
        (member.assignment().unwrap().count() > 0).then_some(())
    };
    until("the member to get partitions", assigned);
    // Some device is its own now, which neither instance finds nor names an owner of.
    let of_member = || {
        member.poll(Duration::ZERO);
        let unnamed = |device: &u32| {
            instances.iter().all(|it| {
                let found = lookup(it, *device, "").json();
                assert!(!found["owner"].to_string().contains("http"), "{found}");
                found["fresh"] != true && found["owner"].is_null()
            })
        };
        (1..=DEVICES).find(unnamed)
    };
    until("a device of the member", of_member);
    let asked = listener.accept().map(drop).unwrap_err().kind();
    assert_eq!(asked, ErrorKind::WouldBlock, "it was sent a request");
}

#[test]
fn the_owner_answers_from_memory_and_the_others_name_it() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let folder = Folder::new();
    // They store nothing before they end.
    let instances = NAMES.map(|name| {
        let words = format!(
            "run {} {} --from earliest --create-topics --flush-interval 1h --max-staleness 1h \
             --instance-id {name}",
            log(&topic),
            store(&keyspace)
        );
        let server = Server::start(&folder, &words);
        let reads = || server.said().contains("reading from offset").then_some(());
        until("the instance to read partitions", reads);
        server
    });
    let mut owners = Vec::new();
    for device in 1..=DEVICES {
        topic.send_lines(minutes(&format!("truck-{device}"), &[1]).as_bytes(), "no-device");
        let reads = |nth: &usize| lookup(&instances[*nth], device, "").status == 200;
        let owner = until("a sample to be found", || (0..2).find(reads));
        owners.push(owner);
        let found = lookup(&instances[owner], device, "").is(200).json();
        assert_eq!((&found["fresh"], &found["owner"]), (&Value::Bool(true), &Value::Null));
        // The store has nothing yet.
        let (other, name) = (&instances[1 - owner], NAMES[owner]);
        let named = || Some(lookup(other, device, "").json()).filter(|it| it["owner"] == name);
        let none = until("the owner to be named", named);
        assert_eq!(none["code"], "no_device");
        let more = format!("&min_version={}", found["version"]);
        let not_yet = lookup(other, device, &more).fails(503, "not_yet");
        assert_eq!(not_yet["owner"], name);
        let by_id = other.get(&format!("/v1/trips/{}", found["id"].as_str().unwrap()));
        assert_eq!(by_id.fails(404, "no_trip")["owner"], name);
    }
    assert!((0..2).all(|nth| owners.contains(&nth)), "{owners:?}");
    no_url_is_asked(&topic, &instances);
    let [one, other] = instances;
    one.drain();
    let fresh = (1..=DEVICES).map(|device| {
        let found = || Some(lookup(&other, device, "")).filter(|answer| answer.status == 200);
        until("what was stored", found).json()["fresh"].as_bool().unwrap()
    });
    assert!(fresh.collect::<Vec<_>>().contains(&false), "all is its own");
}
