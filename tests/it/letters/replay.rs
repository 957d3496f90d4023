//! Dead letters that can be decoded are replayed, others stay, purged ones are deleted.

use serde_json::json;

use super::{REASONS, Site, by_place, reasons};

/// These fail whatever the names are; `missing_field` for `bad_time` once the time is found.
const STAY: [&str; 5] = ["bad_json", "bad_utf8", "key_mismatch", "missing_field", "time_in_future"];

#[test]
fn what_a_fix_decodes_goes_back_and_the_rest_stays() {
    let Some(site) = Site::new() else { return };
    let (before, records) = (site.ls(""), site.topic.records_of(&site.letter_topic()).len());
    let mut expected = json!({
        "dry_run": true,
        "replayed": 3,
        "still_failing": {
            "bad_json": 1, "bad_time": 1, "bad_utf8": 1, "key_mismatch": 1, "time_in_future": 1
        },
        "never": {},
    });
    let dry = site.run("replay --map time=when --dry-run").ends(0).json();
    assert_eq!(dry, expected);
    assert_eq!((site.ls(""), site.sent_back().len()), (before.clone(), 0));

    expected["dry_run"] = false.into();
    let ran = site.run("replay --map time=when").ends(0).says(&["sent at least once"]);
    assert_eq!(ran.json(), expected);
    let left = site.ls("");
    assert_eq!(reasons(&left), STAY);
    assert!(left.iter().all(|letter| before.contains(letter)), "{left:?}");
    let gone = before.iter().find(|letter| !left.contains(letter)).unwrap();
    site.run(&format!("show {}", gone["id"].as_str().unwrap())).ends(1);

    // A second run does nothing.
    expected["replayed"] = 0.into();
    assert_eq!(site.run("replay --map time=when").ends(0).json(), expected);
    assert_eq!(site.ls(""), left);
    let now = site.topic.records_of(&site.letter_topic()).len();
    assert_eq!(now, records + 3, "a fate for each");

    went_back(&site);
    site.run_until("the trips", || (site.samples() == 7).then_some(()));
    assert_eq!(site.ls(""), left, "nothing of it came again");
}

/// To the partition of its device, in a form that the log's rules read.
fn went_back(site: &Site) {
    let sent = site.sent_back();
    assert_eq!(sent.len(), 3);
    let records = site.topic.records_of(&site.topic.name);
    for (origin, kept) in &sent {
        let [kept] = &kept[..] else { panic!("{origin} went back more than once") };
        let place: Vec<&str> = origin.split(':').collect();
        let came = records
            .iter()
            .find(|it| place[1..3] == [it.partition.to_string(), it.offset.to_string()]);
        let came = came.unwrap();
        assert_eq!((place[0], kept.timestamp_ms), (site.topic.name.as_str(), came.timestamp_ms));
        let object: serde_json::Value = serde_json::from_slice(&kept.value).unwrap();
        assert_eq!(kept.key.as_deref(), object["device_id"].as_str().map(str::as_bytes));
        assert!(object["time"].is_string(), "{object}");
        match &came.key {
            // It is replayed unchanged, and names its origin.
            None => {
                assert_eq!((&kept.value, &kept.headers["trace"]), (&came.value, &vec![7, 0xff]));
            }
            Some(_) => assert_eq!(kept.partition, came.partition),
        }
        let headers = kept.headers.keys().filter(|it| it.starts_with("__connect")).count();
        assert_eq!(headers, 0);
    }
    assert_eq!(
        sent.keys()
            .filter(|origin| origin.ends_with(":1") && origin.matches(':').count() == 3)
            .count(),
        1
    );
}

#[test]
fn a_time_ahead_is_judged_by_its_timestamp_or_by_the_clock() {
    let Some(site) = Site::new() else { return };
    let only = "replay --reason time_in_future";
    let summary = site.run(only).ends(0).json();
    assert_eq!(summary["still_failing"], json!({"time_in_future": 1}));
    let summary = site.run(&format!("{only} --now")).ends(0).json();
    assert_eq!(summary["still_failing"], json!({"time_in_future": 1}), "it is a century ahead");
    assert_eq!((site.ls("").len(), site.sent_back().len()), (REASONS.len(), 0));
}

#[test]
fn what_is_thrown_away_goes_and_frees_its_space() {
    let Some(site) = Site::new() else { return };
    let before = site.ls("");
    let purge = "purge --reason missing_field --device truck-1 --yes";
    assert_eq!(site.run(purge).ends(0).json(), json!({"purged": 2}));
    let left = site.ls("");
    let stays = |it: &&serde_json::Value| it["reason"] != "missing_field" || it["key"] != "truck-1";
    let expected: Vec<_> = before.iter().filter(stays).cloned().collect();
    assert_eq!(by_place(left.clone()), by_place(expected));
    // No record before the first wanted dead letter remains.
    let first = |partition: i64| {
        let in_partition = left
            .iter()
            .filter(|it| it["id"].as_str().unwrap().starts_with(&format!("{partition}:")));
        let offset = |it: &serde_json::Value| {
            it["id"].as_str().unwrap().split_once(':').unwrap().1.parse::<i64>().unwrap()
        };
        in_partition.map(offset).min()
    };
    let kept = site.topic.records_of(&site.letter_topic());
    for record in &kept {
        let wanted = first(record.partition.into());
        assert!(wanted.is_none_or(|wanted| record.offset >= wanted), "{record:?}");
    }
    let rest = left.len();
    assert_eq!(site.run("purge --all --yes").ends(0).json(), json!({"purged": rest}));
    assert_eq!(site.ls("").len(), 0);
    let kept = site.topic.records_of(&site.letter_topic());
    let letters = kept.iter().filter(|it| it.headers.contains_key("__connect.errors.topic"));
    assert_eq!(letters.count(), 0, "the space of every dead letter is freed");
    assert_eq!(site.run("purge --all --yes").ends(0).json(), json!({"purged": 0}));
    assert_eq!(site.run("replay").ends(0).json()["replayed"], 0);
}
