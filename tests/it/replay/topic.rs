//! Replays of the topic into a store: one that has it all, and an empty one.

use serde_json::Value;

use super::{ERASED, SAMPLES, Site, same};
use crate::chaos::replay::{assert_same, everything};
use crate::cli::{Folder, number};
use crate::keyspace::{ClusteringOrder, Keyspace};

fn numbers(report: &Value) -> (bool, u64, u64, u64) {
    let number = |name: &str| number(&report[name]);
    let applied = report["applied"].as_bool().unwrap();
    (applied, number("records"), number("rows"), number("rows_that_differ"))
}

/// Samples in the topic; its control record is not counted.
const ALL: u64 = SAMPLES as u64;

#[test]
fn a_keyspace_that_has_it_all_stays_as_it_is_and_an_empty_one_becomes_the_same() {
    let Some(site) = Site::new(SAMPLES) else { return };
    let Some(keyspace) = site.run_keyspace() else { return };
    let url = keyspace.url.to_string();
    let full = site.flags(&url, true);
    let (once, events) = (everything(&keyspace), site.events());
    assert!(once.len() > 50 && events > 20, "{} {events}", once.len());
    let (_, _, rows, _) = numbers(&site.replay(&format!("--from earliest {full}")).ends(0).json());
    for from in ["earliest", "offset:0", "offset:100", "2020-01-01T00:00:00Z"] {
        let preview = format!("--from {from} {full}");
        let ran = site.replay(&preview).ends(0).says(&["0 rows differ: the store has it all"]);
        assert_eq!(numbers(&ran.json()), (false, ALL, rows, 0), "{from}");
        let ran = site.replay(&format!("{preview} --apply")).ends(0).says(&["0 rows differ"]);
        let (applied, records, _, differ) = numbers(&ran.json());
        assert!(applied && records <= ALL && differ == 0, "{from}");
        assert_eq!(records == ALL, !from.ends_with(":100"), "{from}: {records}");
        assert_same(&everything(&keyspace), &once);
    }
    let one_device =
        site.replay(&format!("--from earliest {full} --device truck-3 --apply")).ends(0);
    let (_, records, _, differ) = numbers(&one_device.json());
    assert!(records > 0 && records < ALL && differ == 0, "{records}");
    assert_same(&everything(&keyspace), &once);
    assert_eq!(site.events(), events, "no events without --announce");
    site.replay(&format!("--from earliest {full} --apply --announce")).ends(0);
    assert!(site.events() > events, "events with --announce");
    assert_same(&everything(&keyspace), &once);

    let empty = site.empty(&url);
    let to_empty = site.flags(&empty.url.to_string(), false);
    let nothing = everything(&empty);
    let preview = site.replay(&format!("--from earliest {to_empty}")).ends(0);
    assert_eq!(numbers(&preview.json()), (false, ALL, rows, rows));
    let refused = site.replay(&format!("--from offset:40 {to_empty} --apply")).ends(78);
    refused.prints_nothing().says(&["start at 40", "--from earliest, or offset:0 or less"]);
    assert_same(&everything(&empty), &nothing);
    let events = site.events();
    let one_device = format!("--from earliest {to_empty} --device truck-3");
    let (_, _, _, would) = numbers(&site.replay(&one_device).ends(0).json());
    let ran = site.replay(&format!("{one_device} --apply")).ends(0);
    assert!(would > 0 && numbers(&ran.json()).3 > 0);
    let is_of = |line: &&String| line.contains("\"truck-3\"");
    let of_one: Vec<String> = once.iter().filter(is_of).cloned().collect();
    assert_same(&everything(&empty), &of_one);
    let erased = format!("--from earliest {to_empty} --device {ERASED} --apply");
    site.replay(&erased).ends(0);
    site.replay(&format!("--from earliest {to_empty} --apply")).ends(0);
    assert_same(&everything(&empty), &once);
    let preview = site.replay(&format!("--from earliest {to_empty}")).ends(0);
    assert_eq!(numbers(&preview.json()), (false, ALL, rows, 0));
    assert_eq!(site.events(), events);
}

#[test]
fn a_file_that_has_it_all_stays_as_it_is_and_an_empty_one_becomes_the_same() {
    let Some(site) = Site::new(SAMPLES) else { return };
    site.run_file("full.db", "");
    let (once, text) = (site.dump("full.db"), export(&site, "full.db"));
    let before = ["changes", "dead_letters"].map(|table| site.count("full.db", table));
    assert!(before[0] > 20 && before[1] > 20, "{before:?}");
    let full = site.flags("sqlite:full.db", true);
    let (_, _, rows, _) = numbers(&site.replay(&format!("--from earliest {full}")).ends(0).json());
    for from in ["earliest", "offset:100"] {
        let preview = format!("--from {from} {full}");
        assert_eq!(numbers(&site.replay(&preview).ends(0).json()), (false, ALL, rows, 0));
        let ran = site.replay(&format!("{preview} --apply")).ends(0).says(&["0 rows differ"]);
        assert_eq!(numbers(&ran.json()).3, 0);
        same(&site.dump("full.db"), &once, from);
        let now = ["changes", "dead_letters"].map(|table| site.count("full.db", table));
        assert_eq!(now, before, "events and dead letters, from {from}");
    }
    site.replay(&format!("--from earliest {full} --device truck-3")).ends(0);
    let refused = site.replay(&format!("--from earliest {full} --device truck-3 --apply")).ends(2);
    refused.says(&["--device with --apply needs a keyspace"]);

    site.import("sqlite:full.db", "sqlite:empty.db");
    let empty = site.flags("sqlite:empty.db", false);
    let preview = site.replay(&format!("--from earliest {empty}")).ends(0);
    assert_eq!(numbers(&preview.json()), (false, ALL, rows, rows));
    let nothing = site.dump("empty.db");
    let refused = site.replay(&format!("--from offset:40 {empty} --apply")).ends(78);
    refused.prints_nothing().says(&["start at 40"]);
    same(&site.dump("empty.db"), &nothing, "refused");
    site.replay(&format!("--from earliest {empty} --apply")).ends(0);
    same(&site.dump("empty.db"), &once, "replayed");
    assert!(export(&site, "empty.db") == text);
    assert_eq!(site.count("empty.db", "changes"), 0, "no events without --announce");
    site.import("sqlite:full.db", "sqlite:announced.db");
    let announced = site.flags("sqlite:announced.db", false);
    site.replay(&format!("--from earliest {announced} --apply --announce")).ends(0);
    assert!(site.count("announced.db", "changes") > 0);
    same(&site.dump("announced.db"), &once, "announced");
    // Verify agrees.
    let verify = format!("verify {empty} --json");
    assert_eq!(number(&site.folder.run(&verify).ends(0).json()["same"]), rows);
}

#[test]
fn a_keyspace_that_no_topic_was_read_into_says_what_is_missing() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let folder = Folder::new();
    for words in ["verify", "replay topic --from earliest", "rebuild --into sqlite:new.db"] {
        let words = format!("{words} --store {} --brokers 127.0.0.1:1", keyspace.url);
        let ran = folder.run(&words).ends(78).prints_nothing();
        ran.says(&["has no epoch", "`tstar run` reads one", "`tstar epoch import`"]);
    }
    assert!(!folder.has("new.db"));
}

fn export(site: &Site, store: &str) -> String {
    site.folder.text(&format!("export --path --store sqlite:{store}"))
}
