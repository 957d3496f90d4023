//! How an import recognises files that were read before.

use serde_json::{Value, json};

use super::{EACH_BATCH, Outcome, delivered, letters, table};
use crate::cli::input::gzip;
use crate::cli::{Folder, minutes};

/// Lines of a small fleet, with bad ones.
fn lines() -> Vec<Vec<u8>> {
    let folder = Folder::new();
    let fleet = "simulate --mix 46,34,19,1 --devices 5 --samples 3000 --seed 4 --bad 0.02";
    let log = folder.run(fleet).ends(0).stdout;
    log.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Lines as a table.
fn rows(lines: &[Vec<u8>]) -> Vec<u8> {
    table(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn position(folder: &Folder) -> i64 {
    delivered(&folder.path("trips.db")).unwrap()
}

/// The store holds what a single import of these files gives, in trips and dead letters.
#[track_caller]
fn is_as_at_once(folder: &Folder, files: &str) {
    folder.ingest(&format!("{files} --store sqlite:once.db"));
    let once = Outcome::load(folder, "once.db");
    assert!(Outcome::load(folder, "trips.db").trips == once.trips, "other trips");
    let without_names = |store: &str| {
        let mut letters = letters(folder, store);
        letters.iter_mut().for_each(|letter| letter["file"] = Value::Null);
        letters
    };
    assert_eq!(without_names("trips.db"), without_names("once.db"));
}

/// The exit code of an import, which is 65 if each sample became a dead letter, and its summary.
fn import(folder: &Folder, words: &str) -> (i32, Value) {
    let ran = folder.run(&format!("ingest {words} --json"));
    let code = ran.code.unwrap();
    let summary = ran.ends(code).json();
    let dead = summary["dead_letters"].as_object().unwrap().values();
    let dead: u64 = dead.map(|count| count.as_u64().unwrap()).sum();
    let is_useless = dead > 0 && summary["delivered"] == dead;
    assert_eq!(code, if is_useless { 65 } else { 0 }, "{summary}");
    (code, summary)
}

/// Imports a file that is known to its end: nothing changes.
#[track_caller]
fn is_known(folder: &Folder, words: &str, code: i32) {
    let before = Outcome::load(folder, "trips.db");
    let summary = folder.run(&format!("ingest {words} --json")).ends(code).json();
    assert_eq!(summary["applied"], 0);
    before.is_in(folder, "trips.db");
}

#[test]
fn a_finished_file_is_known_under_another_name_and_form() {
    let lines = lines();
    let folder = Folder::with("log", lines.concat());
    folder.ingest("log");
    assert!(!letters(&folder, "trips.db").is_empty());
    folder.write("copy.gz", gzip(&lines.concat()));
    folder.write("copy.zst", zstd::encode_all(&lines.concat()[..], 1).unwrap());
    for words in ["log", "copy.gz", "copy.zst log", "log log"] {
        is_known(&folder, words, 0);
    }
    assert_eq!(position(&folder), 3000);
}

#[test]
fn a_copy_in_the_same_import_is_known_too() {
    let lines = lines();
    let folder = Folder::with("log", lines.concat());
    folder.write("copy.gz", gzip(&lines.concat()));
    folder.ingest("log --store sqlite:one.db");
    let summary = folder.ingest("log copy.gz");
    assert_eq!(summary["delivered"], 6000);
    Outcome::load(&folder, "one.db").is_in(&folder, "trips.db");
    is_known(&folder, "log copy.gz", 0);
}

#[test]
fn of_a_grown_file_the_new_lines_are_read() {
    let lines = lines();
    let folder = Folder::new();
    let mut before = 0;
    for (upto, name) in [(1, "log"), (700, "log"), (701, "log.gz"), (2999, "log"), (3000, "log")] {
        let content = lines[..upto].concat();
        folder.write(name, if name == "log" { content } else { gzip(&content) });
        assert_eq!(folder.ingest(name)["delivered"], upto - before, "{name}");
        before = upto;
        is_known(&folder, name, 0);
    }
    is_as_at_once(&folder, "log");
}

#[test]
fn of_a_grown_table_the_new_rows_are_read() {
    let lines = lines();
    let folder = Folder::new();
    let mut before = 0;
    for upto in [0, 1, 700, 701, 3000] {
        folder.write("log.csv", rows(&lines[..upto]));
        assert_eq!(folder.ingest("log.csv")["delivered"], upto - before);
        before = upto;
        is_known(&folder, "log.csv", 0);
    }
    is_as_at_once(&folder, "log.csv");
}

/// Imports the beginning of a file, twice, and then the whole file.
#[track_caller]
fn grows(begins: &[u8], whole: &[u8], delivered: u64) -> Folder {
    let folder = Folder::with("log", begins);
    let (code, _) = import(&folder, "log");
    is_known(&folder, "log", code);
    folder.write("log", whole);
    let (code, summary) = import(&folder, "log");
    assert_eq!(summary["delivered"], delivered);
    is_known(&folder, "log", code);
    import(&folder, "log --store sqlite:once.db");
    let path = |store: &str| {
        let trips = folder.run(&format!("export --path --store sqlite:{store}")).ends(0).objects();
        trips.iter().map(|trip| json!([trip["id"], trip["path"]])).collect::<Vec<_>>()
    };
    assert_eq!(path("trips.db"), path("once.db"));
    folder
}

#[test]
fn a_last_line_without_its_end_is_read_again_once_there_is_more() {
    let whole = minutes("truck-17", &[0, 2, 4, 6]).into_bytes();
    let line = whole.len() / 4;
    for (cut, delivered) in [
        (1, 4),
        (line - 1, 4),
        (line + 7, 3),
        (2 * line - 2, 3),
        (2 * line - 1, 3),
        (4 * line - 1, 1),
    ] {
        grows(&whole[..cut], &whole, delivered);
    }
    // No record precedes the only line, and still the line is recognised.
    grows(b"\xef\xbb\xbf{oops", b"\xef\xbb\xbf{oops}\n{}\n", 2);
    grows(b"\n \r\n{oops", b"\n \r\n{oops}\n{}\n", 2);
}

#[test]
fn a_last_row_without_its_end_is_read_again_once_there_is_more() {
    let header = "device_id,time,lat,lon,driver\n";
    let rows = "a,2024-05-01T08:00:00Z,1,2,\"B\nea\"\na,2024-05-01T08:02:00Z,1,2,C\n";
    let whole = format!("{header}{rows}");
    for (cut, delivered) in [
        (header.len() - 1, 2),
        (header.len(), 2),
        (header.len() + 3, 2),
        (header.len() + 32, 2),
        (header.len() + rows.len() / 2 + 5, 1),
        (whole.len() - 1, 1),
    ] {
        grows(&whole.as_bytes()[..cut], whole.as_bytes(), delivered);
    }
}

#[test]
fn a_line_over_the_size_limit_is_read_again_once_there_is_more_of_it() {
    let good = minutes("truck-17", &[0]).into_bytes();
    let long = vec![b'x'; 3 << 20];
    let begins = [&good[..], &long[..]].concat();
    let whole = [&begins[..], &long[..100], b"\n", minutes("truck-17", &[2]).as_bytes()].concat();
    let folder = grows(&begins, &whole, 2);
    let bytes: Vec<_> =
        letters(&folder, "trips.db").iter().map(|l| l["value_bytes"].clone()).collect();
    assert_eq!(bytes, [json!(3 << 20), json!((3 << 20) + 100)]);
}

#[test]
fn a_file_with_another_beginning_is_new() {
    let folder = Folder::with("log", minutes("truck-17", &[0, 2, 4]) + "oops\n");
    folder.ingest("log");
    folder.write("log", minutes("truck-18", &[0]) + &minutes("truck-17", &[2, 4, 6]) + "oops\n");
    let summary = folder.ingest("log");
    assert_eq!((&summary["delivered"], &summary["applied"]), (&json!(5), &json!(2)));
    assert_eq!(letters(&folder, "trips.db").len(), 2);
    // Also when the difference is far behind the head.
    let mut lines = lines();
    folder.write("long", lines.concat());
    folder.ingest("long");
    lines[2000] = minutes("truck-19", &[0]).into_bytes();
    folder.write("long", lines.concat());
    let summary = folder.ingest("long");
    assert_eq!((&summary["delivered"], &summary["applied"]), (&json!(3000), &json!(1)));
}

#[test]
fn a_cut_off_download_that_is_whole_now_is_resumed() {
    let lines = lines();
    let whole = gzip(&lines.concat());
    for share in [3, 2] {
        let folder = Folder::with("log.gz", &whole[..whole.len() / share]);
        let ran = folder.run("ingest log.gz --json").ends(65);
        let first = ran.json()["delivered"].as_i64().unwrap();
        assert!((100..2900).contains(&first), "{first}");
        is_known(&folder, "log.gz", 65);
        folder.write("log.gz", &whole);
        assert_eq!(folder.ingest("log.gz")["delivered"], 3000 - (first - 1));
        is_known(&folder, "log.gz", 0);
        folder.ingest("log.gz --store sqlite:once.db");
        let spans = |store: &str| {
            let trips =
                folder.run(&format!("export --path --store sqlite:{store}")).ends(0).objects();
            trips.iter().map(|trip| json!([trip["id"], trip["path"]])).collect::<Vec<_>>()
        };
        assert_eq!(spans("trips.db"), spans("once.db"));
        // One more than from the whole file: the cut itself.
        let count = |store: &str| letters(&folder, store).len();
        assert_eq!(count("trips.db"), count("once.db") + 1);
    }
}

#[test]
fn a_damaged_file_is_known() {
    let lines = lines();
    let gz = gzip(&lines.concat());
    let zst = zstd::encode_all(&lines.concat()[..], 1).unwrap();
    for (part, of) in [(1, 2), (2, 3), (4, 5)] {
        let mut damaged = gz.clone();
        damaged[gz.len() * part / of] ^= 0x55;
        let cut = zst[..zst.len() * part / of].to_vec();
        for content in [damaged, cut] {
            let folder = Folder::with("log", content);
            let ran = folder.run("ingest log --json").ends(65);
            assert_eq!(ran.json()["dead_letters"]["truncated_input"], 1);
            assert!(position(&folder) > 200, "{part}/{of}: {}", position(&folder));
            is_known(&folder, "log", 65);
        }
    }
}

#[test]
fn files_without_records_hide_no_other_file() {
    let lines = lines();
    let folder = Folder::with("header.csv", rows(&[]));
    folder.write("blank", "\n\n");
    folder.write("log", lines[..500].concat());
    folder.write("log.csv", rows(&lines[500..1000]));
    folder.write("header2.csv", [&b"\n"[..], &rows(&[])].concat());
    let words = "header.csv blank log header2.csv log.csv header.csv";
    assert_eq!(folder.ingest(words)["delivered"], 1000);
    is_known(&folder, words, 0);
    is_known(&folder, "log.csv header.csv", 0);
}

/// A log of gzip members whose last one is cut in its header: its content ends with a whole line.
fn cut_between_lines(lines: &[Vec<u8>]) -> Vec<u8> {
    [gzip(&lines[..1000].concat()), gzip(&lines[1000..].concat())[..5].to_vec()].concat()
}

#[test]
fn a_file_cut_off_between_two_lines_is_known() {
    let lines = lines();
    let folder = Folder::with("log.gz", cut_between_lines(&lines));
    let ran = folder.run("ingest log.gz --json").ends(65);
    assert_eq!(ran.json()["delivered"], 1001);
    is_known(&folder, "log.gz", 65);
    folder.write("log", lines.concat());
    assert_eq!(folder.ingest("log")["delivered"], 2000);
}

#[test]
fn an_import_stopped_behind_a_truncated_file_resumes() {
    let lines = lines();
    let whole = gzip(&lines[..1500].concat());
    for cut in [whole[..whole.len() / 2].to_vec(), cut_between_lines(&lines)] {
        let mut folder = Folder::with("cut.gz", cut);
        folder.write_fleet("log", "");
        let words = "ingest cut.gz log --json";
        folder.run(&format!("{words} --store sqlite:whole.db")).ends(65);
        let expected = Outcome::load(&folder, "whole.db");
        for abort in ["after:1", "after:2", "within:3"] {
            let store = format!("{}.db", abort.replace(':', ""));
            let words = format!("{words} {EACH_BATCH} --store sqlite:{store}");
            folder.env("TSTAR_TEST_ABORT", abort);
            assert_eq!(folder.run(&words).code, None, "{abort} was not reached");
            folder.env("TSTAR_TEST_ABORT", "");
            // Each run reports that the file is truncated.
            folder.run(&words).ends(65).says(&["is truncated"]);
            expected.is_in(&folder, &store);
        }
    }
}

#[test]
fn an_import_stopped_behind_a_table_truncated_in_its_header_resumes() {
    let columns: Vec<_> = (0..20_000).map(|n| format!("column {}", n * 7919 % 10_007)).collect();
    let whole = gzip(format!("device,ts,lat,lon,{}\na,5,1,2\n", columns.join(",")).as_bytes());
    let mut folder = Folder::with("table.csv.gz", &whole[..whole.len() / 2]);
    folder.write_fleet("log", "");
    let words = |store: &str| format!("ingest table.csv.gz log --json --store sqlite:{store}");
    folder.run(&words("whole.db")).ends(65);
    let expected = Outcome::load(&folder, "whole.db");
    let words = format!("{} {EACH_BATCH}", words("trips.db"));
    folder.env("TSTAR_TEST_ABORT", "before:3");
    assert_eq!(folder.run(&words).code, None, "the point was not reached");
    folder.env("TSTAR_TEST_ABORT", "");
    folder.run(&words).ends(65).says(&["is truncated"]);
    expected.is_in(&folder, "trips.db");
}

#[test]
fn what_was_read_in_the_wrong_form_hides_nothing() {
    let lines = lines();
    let folder = Folder::with("log.csv", rows(&lines));
    let (_, wrong) = import(&folder, "log.csv --input-format ndjson");
    assert_eq!(wrong["applied"], 0);
    let right = folder.ingest("log.csv");
    assert!(right["applied"].as_u64() > Some(2000), "{right}");
    // The first try left no sample, so the store did not remember it.
    let (_, wrong) = import(&folder, "log.csv --input-format ndjson");
    assert_eq!(wrong["applied"], 0);
    let again = ("log.csv --input-format ndjson", 65);
    for (words, code) in [again, ("log.csv", 0), again] {
        is_known(&folder, words, code);
    }
}
