//! Lookups that another instance of the group answers from its memory.

use serde_json::{Value, json};

use super::keyspace::{log, store};
use super::{PARTITIONS, Topic};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::http::{Answer, Server};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::free_port;

const TOKENS: [&str; 2] = ["token-of-letters-only", "token-of-other-letters"];

/// Devices of all partitions.
const DEVICES: u32 = 16;

/// Two instances that store nothing before they end; each has a token of its own file.
struct Group {
    topic: Topic,
    instances: [(Server, &'static str); 2],
    _keyspace: Keyspace,
    _folder: Folder,
}

impl Group {
    fn start(tokens: [&'static str; 2]) -> Option<Self> {
        Self::with_files(tokens.map(|token| (token, format!("ops:read,write:{token}"))))
    }

    /// The same with a token file each; the first one of a pair is that of the test.
    fn with_files(files: [(&'static str, String); 2]) -> Option<Self> {
        let (topic, keyspace) = (Topic::new(PARTITIONS)?, Keyspace::new(ClusteringOrder::Desc)?);
        let folder = Folder::new();
        let instances = files.map(|(token, file)| {
            folder.write(token, file);
            let address = format!("127.0.0.1:{}", free_port());
            let words = format!(
                "run {} {} --from earliest --create-topics --flush-interval 1h --max-staleness 1h \
                 --token-file {token} --listen {address} --advertise http://{address}",
                log(&topic),
                store(&keyspace)
            );
            let server = Server::start(&folder, &words);
            let reads = || server.said().contains("reading from offset").then_some(());
            until("the instance to read partitions", reads);
            (server, token)
        });
        Some(Self { topic, instances, _keyspace: keyspace, _folder: folder })
    }

    fn get(&self, nth: usize, target: &str) -> Answer {
        let (server, token) = &self.instances[nth];
        server.request("GET", target, &format!("authorization: Bearer {token}\r\n"), b"")
    }

    fn lookup(&self, nth: usize, device: u32) -> Answer {
        self.get(nth, &format!("/v1/trips/lookup?device=truck-{device}&at=2024-05-01T08:01:00Z"))
    }

    /// Questions to another instance, by result.
    fn questions(&self, nth: usize, result: &str) -> f64 {
        let text = self.get(nth, "/metrics").is(200).text();
        let series = format!("tstar_memory_questions_total{{result=\"{result}\"}} ");
        let value = |line: &str| line.strip_prefix(&series)?.parse().ok();
        text.lines().find_map(value).unwrap_or(0.0)
    }

    /// Sends a sample of each device, and waits until an instance has read it. Returns the
    /// instances that found it first.
    fn send(&self) -> Vec<usize> {
        let found = |device: u32| (0..2).find(|&nth| self.lookup(nth, device).status == 200);
        let devices = (1..=DEVICES).map(|device| {
            let line = minutes(&format!("truck-{device}"), &[1]);
            self.topic.send_lines(line.as_bytes(), "no-device");
            until("a sample to be found", || found(device))
        });
        devices.collect()
    }
}

#[test]
fn every_instance_finds_what_one_of_them_has_not_stored() {
    let Some(group) = Group::start([TOKENS[0]; 2]) else { return };
    group.send();
    for nth in 0..2 {
        for device in 1..=DEVICES {
            let find = || Some(group.lookup(nth, device)).filter(|answer| answer.status == 200);
            let found = until("the owner to be asked", find).json();
            assert_eq!((&found["fresh"], &found["samples"]), (&json!(true), &json!(1)));
            let (id, version) = (found["id"].as_str().unwrap(), &found["version"]);
            let by_id = group.get(nth, &format!("/v1/trips/{id}?min_version={version}"));
            assert_eq!(by_id.is(200).json()["id"], *id);
            let list = group.get(nth, &format!("/v1/devices/truck-{device}/trips")).is(200).json();
            assert_eq!(list["trips"][0]["id"], *id);
        }
        assert!(group.questions(nth, "forwarded") > 0.0, "instance {nth} asked the other one");
        assert!(group.questions(nth, "answered") > 0.0, "instance {nth} has devices of its own");
    }
    // Only instances ask, and no one else reads memory without the token.
    let (server, token) = &group.instances[0];
    let question = json!({"device_id": "truck-1", "from_ms": 0, "upto_ms": 1, "order": "Asc",
        "limit": 1});
    let question = question.to_string();
    for headers in [String::new(), format!("authorization: Bearer {token}\r\n")] {
        let headers = format!("{headers}content-type: application/json\r\n");
        let answer = server.request("POST", "/internal/memory", &headers, question.as_bytes());
        answer.fails(401, "unauthorized");
    }
    let document: Value = group.get(0, "/openapi.json").is(200).json();
    assert_eq!(document["paths"].get("/internal/memory"), None);
}

#[test]
fn instances_answer_each_other_while_their_tokens_are_replaced() {
    let [old, new] = TOKENS;
    // One has both, the other only the new one, which is not its first.
    let gateway = "gateway:write:token-of-a-gateway";
    let files = [
        (old, format!("old:read,write:{old}\nnew:read,write:{new}\n")),
        (new, format!("{gateway}\nnew:read,write:{new}\n")),
    ];
    let Some(group) = Group::with_files(files) else { return };
    let owners = group.send();
    for (device, owner) in (1..).zip(owners) {
        let find = || Some(group.lookup(1 - owner, device)).filter(|answer| answer.status == 200);
        assert_eq!(until("the owner to be asked", find).json()["fresh"], json!(true));
    }
    for nth in 0..2 {
        assert!(group.questions(nth, "forwarded") > 0.0, "instance {nth} asked the other one");
    }
}

#[test]
fn an_instance_with_another_token_is_not_answered() {
    let Some(group) = Group::start(TOKENS) else { return };
    let owners = group.send();
    let asked = || {
        for device in (1..).zip(&owners).map(|(device, _)| device) {
            for nth in 0..2 {
                group.lookup(nth, device);
            }
        }
        (0..2).all(|nth| group.questions(nth, "not_forwarded") > 0.0).then_some(())
    };
    until("each instance to ask the other one", asked);
    for (device, owner) in (1..).zip(owners) {
        assert_eq!(group.lookup(owner, device).is(200).json()["fresh"], json!(true));
        group.lookup(1 - owner, device).fails(404, "no_trip");
    }
    for nth in 0..2 {
        assert_eq!(group.questions(nth, "forwarded"), 0.0);
    }
}
