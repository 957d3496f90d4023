//! Keys are added and take over from others; an instance that lacks a needed key stops.

use std::os::unix::fs::PermissionsExt;

use super::{FILE, NAME, folder, key, read, signed_by, write};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::forget::lines_of;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::file::until_read;
use crate::topic::keyspace::until_committed;
use crate::topic::{PARTITIONS, Topic, drain, start};
use tstar::internals::model::scalar::DeviceTime;

const LATER: &str = "2025-01-01T00:00:00Z";

/// The key that signed the last control record.
fn signer(topic: &Topic) -> String {
    let records = topic.records_of(&topic.name).into_iter();
    let signed = records.filter(|it| it.headers.contains_key("tstar-signature"));
    let last = signed.max_by_key(|it| it.timestamp_ms).unwrap();
    last.header("tstar-signature").split(':').next().unwrap().to_owned()
}

#[test]
fn a_new_key_signs_once_every_instance_has_it_and_old_ones_stay() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let mut folder = folder();
    let lines = ["truck-1", "truck-2", "truck-3"].map(|device| minutes(device, &[1, 2])).concat();
    topic.send_lines(lines.as_bytes(), "no-device");
    read(&folder, &topic, "t.db");
    let forget = |folder: &Folder, device: &str| {
        let words = format!("forget {device} --before {LATER} --yes {}", topic.flags());
        folder.run(&format!("{words} --store sqlite:t.db"))
    };
    forget(&folder, "truck-1").ends(0);
    assert_eq!(signer(&topic), NAME);

    // No instance accepts the new key's signature yet.
    let (old, new) = (key(NAME, 7), key("ops-2", 9));
    let ends = topic.ends(PARTITIONS);
    write(&mut folder, &[new.clone(), old.clone()]);
    let refused = forget(&folder, "truck-2").ends(78).prints_nothing();
    refused.says(&["does not name control key `ops-2` yet", "restart those"]);
    assert_eq!(topic.ends(PARTITIONS), ends);
    write(&mut folder, &[old.clone(), new.clone()]);
    read(&folder, &topic, "t.db");
    forget(&folder, "truck-2").ends(0);
    assert_eq!(signer(&topic), NAME, "the first one signs");
    write(&mut folder, &[new.clone(), old.clone()]);
    forget(&folder, "truck-3").ends(0);
    assert_eq!(signer(&topic), "ops-2");
    read(&folder, &topic, "t.db");
    assert_eq!(folder.trips("t.db").len(), 0);
    let verify = format!("verify --store sqlite:t.db --brokers {}", topic.brokers);
    folder.run(&verify).ends(0);

    // The log holds records by both keys, so stores copied from this one know both.
    let exported = folder.text("epoch export --store sqlite:t.db");
    folder.write("epochs.json", exported);
    folder.run("epoch import epochs.json --store sqlite:copy.db").ends(0);
    let doctor = format!("doctor --store sqlite:t.db --brokers {}", topic.brokers);
    let found = folder.run(&doctor);
    for key in [&old, &new] {
        assert!(found.text().contains(&key.named().fingerprint), "{found}");
    }
    write(&mut folder, &[new]);
    for store in ["t.db", "copy.db"] {
        let words = format!("run {} --from earliest --store sqlite:{store}", topic.flags());
        folder.run(&words).ends(78).says(&[&format!("control_key_file lacks: `{NAME}`")]);
    }
    folder.run(&verify).ends(78).says(&["lacks"]);
}

#[test]
fn an_erasure_has_an_audit_line_with_the_key_that_signed_it() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = folder();
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    read(&folder, &topic, "t.db");
    let words = format!("forget truck-1 --before {LATER} --yes {}", topic.flags());
    folder.run(&format!("{words} --store sqlite:t.db")).ends(0);
    let words = format!("run {} --from earliest --store sqlite:t.db", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    let ran = drain(running, &words).ends(0);
    let erased = "audit: trips of device `truck-1` before 2025-01-01T00:00:00.000Z: erased, by the \
                  control record at offset ";
    ran.says(&[erased, &format!("signed by key `{NAME}`")]);
}

/// Arguments of a daemon on a keyspace.
fn words(topic: &Topic, keyspace: &Keyspace, group: &str) -> String {
    format!(
        "run {} --group {}{group} --store {} --from earliest --create-topics --flush-interval \
         100ms --max-staleness 1s",
        topic.flags(),
        topic.name,
        keyspace.url
    )
}

#[test]
fn an_instance_that_lacks_a_key_that_another_one_added_stops_at_its_record() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (old, mut new) = (folder(), Folder::new());
    write(&mut new, &[key("ops-2", 9), key(NAME, 7)]);
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    let first = words(&topic, &keyspace, "");
    let mut behind = start(&old, &first);
    until_committed(&topic, &topic.name);
    // Signed by a key that no store names: a dead letter, and the daemon continues.
    topic.send(&[signed_by(
        &key("stranger", 8),
        &topic.name,
        "truck-1",
        DeviceTime(1_800_000_000_000),
    )]);
    until_committed(&topic, &topic.name);

    // Two groups on one store: the second is ahead, as the next owner of a partition may be.
    let second = words(&topic, &keyspace, "-second");
    keyspace.read_as(&format!("{}-second", topic.name));
    let ahead = start(&new, &second);
    until_committed(&topic, &format!("{}-second", topic.name));
    drain(ahead, &second).ends(0);
    let store = &keyspace.url;
    let forget = format!("forget truck-1 --before {LATER} --yes {} --store {store}", topic.flags());
    let ran = new.run(&forget).ends(0);
    assert_eq!((lines_of(&ran, "requested").len(), signer(&topic)), (1, "ops-2".to_owned()));
    until("the first instance to stop", || behind.has_ended().then_some(()));
    let stopped = behind.ran(&first).ends(78);
    stopped.says(&["is signed by key `ops-2`, which the store names", "add that key to the file"]);
    old.run(&first).ends(78).says(&["control_key_file lacks: `ops-2`"]);
    assert_eq!(old.run(&format!("trips truck-1 --store {store}")).ends(0).objects().len(), 1);

    keyspace.read_as(&topic.name);
    let again = start(&new, &first);
    until_committed(&topic, &topic.name);
    drain(again, &first).ends(0);
    assert_eq!(old.run(&format!("trips truck-1 --store {store}")).ends(0).objects().len(), 0);
    let letters = new.run(&format!("dlq ls --brokers {} --store {store}", topic.brokers)).ends(0);
    let reasons: Vec<_> = letters.objects().iter().map(|it| it["reason"].clone()).collect();
    assert_eq!(reasons, ["not_authorised", "not_authorised"], "one of each group");
}

#[test]
fn without_a_key_a_topic_takes_no_forget_and_the_command_says_how_to_make_one() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let mut folder = Folder::new();
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    read(&folder, &topic, "t.db");
    let words = format!("forget truck-1 --yes {} --store sqlite:t.db", topic.flags());
    let refused = folder.run(&words).ends(78).prints_nothing();
    refused.says(&["tstar forget --new-key NAME >> FILE", "--control-key-file"]);

    let line = folder.text("forget --new-key ops-2026");
    assert_ne!(line, folder.text("forget --new-key ops-2026"));
    let secret = line.trim().strip_prefix("ops-2026:").unwrap();
    assert_eq!(secret.len(), 64);
    folder.run("forget --new-key ops:2026").ends(2).prints_nothing().says(&["`ops:2026`"]);
    folder.run("forget truck-1 --new-key ops").ends(2).prints_nothing();
    folder.env("TSTAR_CONTROL_KEY_FILE", FILE);
    folder.run(&words).ends(74).says(&["control_key_file `control.keys` cannot be read"]);
    folder.write(FILE, format!("# fine\nops-2026 {secret}\n"));
    let bad = folder.run(&words).ends(78).says(&["control_key_file `control.keys`: line 2: "]);
    assert!(!bad.stderr.contains(secret), "{bad}");

    // A file that others can read lets others erase.
    folder.write(FILE, &line);
    let mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path(FILE), permissions).unwrap();
    };
    mode(0o644);
    let open = folder.run(&words).ends(78);
    let open = open.says(&["can be read by every user", "chmod 600", "does not name control key"]);
    assert!(!open.stderr.contains(secret), "{open}");
    mode(0o600);
    // A record to be waited for: the key is recorded before the first one is read.
    topic.send_lines(minutes("truck-1", &[3]).as_bytes(), "no-device");
    read(&folder, &topic, "t.db");
    let ran = folder.run(&words).ends(0);
    assert!(!ran.stderr.contains("can be read") && !ran.stderr.contains(secret), "{ran}");
    read(&folder, &topic, "t.db");
    assert_eq!(folder.trips("t.db").len(), 0);
}
