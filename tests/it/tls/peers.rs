//! Instances that ask each other over HTTPS.

use std::rc::Rc;

use super::authority::Authority;
use super::https::{Https, SECRET, write_certificate};
use crate::cli::{Folder, minutes};
use crate::http::Server;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::ready::until;
use crate::servers::{LIMIT, free_port};
use crate::topic::Topic;
use crate::topic::keyspace::{log, store};

const PARTITIONS: i32 = 4;

/// Devices of all partitions.
const DEVICES: u32 = 16;

/// Questions that another instance answered, and those that could not be asked.
const FORWARDED: &str = "tstar_memory_questions_total{result=\"forwarded\"}";
const NOT_FORWARDED: &str = "tstar_memory_questions_total{result=\"not_forwarded\"}";

/// An instance that stores nothing before it ends, and trusts the authority of a file.
fn start(folder: &Folder, flags: &str, (authority, trusted): (&Rc<Authority>, &str)) -> Https {
    let address = format!("127.0.0.1:{}", free_port());
    let words = format!(
        "run {flags} --from earliest --create-topics --flush-interval 1h --max-staleness 1h \
         --token-file token --tls-cert cert.pem --tls-key key.pem --tls-ca {trusted} \
         --listen {address} --advertise https://{address}"
    );
    let server = Server::launch(folder, &words);
    let reads = || server.said().contains("reading from offset").then_some(());
    until("the instance to read partitions", LIMIT, reads, || None);
    Https::new(server, authority)
}

#[test]
fn instances_ask_each_other_if_they_trust_the_certificate() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (folder, authority) = (Folder::new(), Rc::new(Authority::new("tstar tests")));
    write_certificate(&folder, &authority);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    folder.write("ca.pem", authority.pem());
    folder.write("other.pem", Authority::new("another").pem());
    let flags = format!("{} {}", log(&topic), store(&keyspace));
    let [trusting, other] =
        ["ca.pem", "other.pem"].map(|trusted| start(&folder, &flags, (&authority, trusted)));
    let finds = |instance: &Https, device: u32| {
        let target = format!("/v1/trips/lookup?device=truck-{device}&at=2024-05-01T08:01:00Z");
        instance.get(&target).status == 200
    };
    for device in 1..=DEVICES {
        topic.send_lines(minutes(&format!("truck-{device}"), &[1]).as_bytes(), "no-device");
        until("a sample to be found", LIMIT, || finds(&trusting, device).then_some(()), || None);
    }
    assert!(trusting.metric(FORWARDED) > 0.0, "all devices are its own");
    let refused = || {
        for device in 1..=DEVICES {
            finds(&other, device);
        }
        (other.metric(NOT_FORWARDED) > 0.0).then_some(())
    };
    until("a certificate to be refused", LIMIT, refused, || None);
    assert_eq!(other.metric(FORWARDED), 0.0);
}
