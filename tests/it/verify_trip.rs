//! `explain --evidence` and `verify-trip`: a trip follows from its records, and whatever is changed
//! about them shows.

use serde_json::{Value, json};
use tstar_core::evidence::MAX_RECORDS;

use crate::cli::{Folder, minutes};

/// The evidence of the trip of `truck-1`, whose parts were merged.
fn evidence(folder: &Folder) -> String {
    let explain = "explain truck-1~20240501T080000.000Z a.ndjson b.ndjson --evidence";
    let printed = folder.run(explain).ends(0).stdout;
    String::from_utf8(printed).unwrap()
}

fn folder() -> Folder {
    let folder = Folder::with("a.ndjson", minutes("truck-1", &[10, 12, 0, 2, 6, 2]));
    folder.write("b.ndjson", minutes("truck-1", &[40]) + &minutes("truck-2", &[2]));
    folder.ingest("a.ndjson b.ndjson");
    folder
}

#[test]
fn a_trip_follows_from_its_evidence_without_a_store() {
    let of_store = folder();
    let document = evidence(&of_store);
    let parsed: Value = serde_json::from_str(&document).unwrap();
    let times = parsed["records"].as_array().unwrap().iter().map(|it| it["version"].as_i64());
    // Neither the duplicate, which is later than the trip, nor the record after it.
    assert!(times.eq([0, 2, 4, 6, 8].map(Some)));

    let elsewhere = Folder::with("trip.json", document.clone());
    let answer = elsewhere.run("verify-trip trip.json --json").ends(0).json();
    assert_eq!((&answer["follows"], &answer["kept"]), (&json!(true), &json!(5)));
    assert_eq!(answer["id"], "truck-1~20240501T080000.000Z");
    assert_eq!(answer["note"], "records that were left out of the file are not excluded");
    let text = elsewhere.run("verify-trip trip.json --format table").ends(0).stdout;
    assert!(String::from_utf8(text).unwrap().contains("follows from 5 records"));

    for (old, new, fact) in [
        ("\"samples\":5", "\"samples\":6", "samples"),
        ("\"max_gap_ms\":300000", "\"max_gap_ms\":180000", "samples"),
        ("\"distance_dm\":", "\"distance_dm\":1", "distance_dm"),
    ] {
        elsewhere.write("other.json", document.replace(old, new));
        let ran = elsewhere.run("verify-trip other.json --json").ends(1);
        let answer = ran.says(&["does not follow", "tstar explain --evidence"]).json();
        let facts = answer["differences"].as_array().unwrap().iter().map(|it| &it["fact"]);
        assert!(facts.into_iter().any(|it| it == fact), "{answer}");
    }
}

/// The file is from someone else: it may try to write over what the terminal shows.
#[test]
fn characters_that_a_terminal_obeys_are_shown_as_codes() {
    let document = evidence(&folder());
    assert!(document.contains("\"driver\":null,\"jumps\""));
    let said = "\"driver\":\"x\u{9b}2J\u{202e}\",\"jumps\"";
    let folder = Folder::with("a.json", document.replace("\"driver\":null,\"jumps\"", said));
    let shown = folder.run("verify-trip a.json --format table").ends(1).text();
    assert!(shown.contains("driver: the file says") && shown.contains("u{202e}"), "{shown}");
    assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn help_names_the_maximum_of_records() {
    let folder = Folder::new();
    for command in ["explain", "verify-trip"] {
        let help = folder.text(&format!("{command} --help"));
        assert!(help.contains(&format!("at most {MAX_RECORDS}")), "{help}");
    }
}

#[test]
fn what_is_no_evidence_is_refused() {
    let of_store = folder();
    let document = evidence(&of_store);
    let folder = Folder::new();
    for (text, why) in [
        (String::new(), "it is not evidence of a trip"),
        ("{}".into(), "missing field `format`"),
        (document.replace("tstar-trip/1", "tstar-trip/9"), "its format is `tstar-trip/9`"),
        (document.replace("\"version\":2,", "\"version\":20,"), "is past that of the trip"),
        (document.replace("\"max_gap_ms\":300000", "\"max_gap_ms\":-1"), "max_gap_ms is -1"),
        (document.replace("\"records\"", "\"record\""), "unknown field `record`"),
        (document[..document.len() / 2].into(), "EOF while parsing"),
    ] {
        folder.write("bad.json", text);
        folder.run("verify-trip bad.json").ends(65).prints_nothing().says(&["bad.json", why]);
    }
    folder.run("verify-trip none.json").ends(74).prints_nothing().says(&["none.json"]);
    of_store
        .run("explain truck-1~20240501T080000.000Z --evidence")
        .ends(2)
        .prints_nothing()
        .says(&["name all files", "--log"]);
}
