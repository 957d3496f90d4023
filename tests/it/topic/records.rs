//! Records of all kinds: arrays, keys, headers, control records.

use tstar::internals::kafka::producer::ProducerRecord;

use super::{Topic, drain, start};
use crate::cli::{Folder, minutes};
use crate::control_keys;
use crate::faults::until;

fn keyed(key: &str, value: &str) -> ProducerRecord {
    ProducerRecord { key: Some(key.into()), value: value.into(), ..ProducerRecord::default() }
}

#[test]
fn a_forget_erases_what_ends_before_it_and_drops_what_comes_later() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = control_keys::folder();
    let lines = minutes("truck-1", &[1, 2, 30, 31, 50]) + &minutes("truck-2", &[1]);
    topic.send_lines(lines.as_bytes(), "no-device");
    topic.send(&[control_keys::forget(&topic, "truck-1", "2024-05-01T08:31:00Z")]);
    // One comes too late, one in time.
    let late = minutes("truck-1", &[3, 51]).trim().replace('\n', ",");
    topic.send(&[keyed("truck-1", &format!("[{late}]"))]);

    let words = format!("run {} --store sqlite:t.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until("everything to be read", || {
        let last = folder.run("lookup truck-1 2024-05-01T08:51:00Z --store sqlite:t.db");
        (last.code == Some(0)).then_some(())
    });
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(summary["dropped"]["forgotten"], 1);
    let trips = folder.trips("t.db");
    let found = trips.iter().map(|it| (it["device_id"].as_str(), it["samples"].as_u64()));
    // A trip that extends past the time stays whole.
    let (one, two) = (Some("truck-1"), Some("truck-2"));
    assert_eq!(found.collect::<Vec<_>>(), [(one, Some(2)), (one, Some(2)), (two, Some(1))]);
}

#[test]
fn what_is_wrong_with_a_record_is_kept_with_its_key_and_headers() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let good = minutes("truck-1", &[1]);
    let trace = ("trace".to_owned(), Some(b"4711".to_vec()));
    topic.send(&[
        keyed("truck-2", good.trim()),
        ProducerRecord {
            key: None,
            value: good.trim().into(),
            headers: vec![trace],
            ..ProducerRecord::default()
        },
        keyed("truck-1", &format!("[{}, 7]", good.trim())),
        keyed("truck-1", "[1, 2"),
    ]);
    let words = format!("run {} --store sqlite:t.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    let letters = until("the dead letters", || {
        let found = folder.run("dlq ls --store sqlite:t.db");
        let letters = if found.code == Some(0) { found.objects() } else { vec![] };
        (letters.len() == 4).then_some(letters)
    });
    let summary = drain(running, &words).ends(0).json();
    assert_eq!((&summary["delivered"], &summary["applied"]), (&5.into(), &1.into()));
    let reasons: Vec<_> = letters.iter().map(|it| it["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["key_mismatch", "no_key", "bad_json", "bad_json"]);
    assert_eq!(letters[0]["key"], "truck-2");
    assert_eq!(letters[1]["headers"], serde_json::json!([["trace", "4711"]]));
    assert_eq!((&letters[2]["element"], &letters[2]["value"]), (&1.into(), &"7".into()));

    // Another id that is as stable may be the key.
    let words = format!("run {} --key any --store sqlite:any.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until("the sample", || {
        let found = folder.run("lookup truck-1 2024-05-01T08:01:00Z --store sqlite:any.db");
        (found.code == Some(0)).then_some(())
    });
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(summary["dead_letters"], serde_json::json!({"bad_json": 2, "no_key": 1}));
}
