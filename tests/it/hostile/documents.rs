//! Documents of 100 MB, and XML and NMEA that are made to grow: each is read within `--memory`, or
//! is an error that names what failed. The program runs under a system limit, as in [`memory`].
//!
//! [`memory`]: super::memory

use std::io::Write;

use serde_json::{Value, json};

use super::memory::{create, run_limited, write_filled};
use super::{letters, summary};
use crate::cli::Folder;

/// Limit of writable memory, KiB: the memory of a run, and as much again for what it does not
/// count, such as the cache of the store.
const LIMIT: u32 = 2 * (512 << 10);

/// The same for `--memory 64MB`.
const SMALL_LIMIT: u32 = 2 * (64 << 10);

/// Size of a large document, bytes.
const LARGE: u64 = 100_000_000;

/// Imports a file, and returns its summary.
fn ingest(folder: &Folder, words: &str, limit: u32, code: i32) -> Value {
    summary(run_limited(folder, &format!("ingest {words} --json"), limit), code)
}

/// A feature of GeoJSON, pretty-printed.
fn feature(minute: u32) -> String {
    let point = format!("{{\n \"type\": \"Point\", \"coordinates\": [13.4, 52.{minute:02}]\n}}");
    let time = format!("2026-11-20T22:{minute:02}:00Z");
    format!(
        "{{\n\"type\": \"Feature\",\n\"geometry\": {point},\n\
         \"properties\": {{ \"device_id\": \"van-1\", \"timestamp\": \"{time}\" }}\n}}"
    )
}

const PRESET: &str = "--preset overland";

#[test]
fn a_document_of_100_mb_is_read_within_the_memory() {
    let folder = Folder::new();
    let head = format!("{{\n\"locations\": [\n{},\n", feature(0));
    let tail = format!("{}\n]\n}}\n", feature(1));
    // Blanks, as between the values of a document that is printed for people.
    write_filled(create(&folder, "blanks.json"), [&head, &tail], b' ', LARGE);
    // A member that the map does not name.
    let parts = [String::from("{\n\"x\": \""), format!("\",\n{}", &head[2..]) + &tail];
    write_filled(create(&folder, "member.json"), [&parts[0], &parts[1]], b'y', LARGE);
    for name in ["blanks", "member"] {
        let words = format!("{name}.json {PRESET} --store sqlite:{name}.db");
        let read = ingest(&folder, &words, LIMIT, 0);
        assert_eq!((&read["applied"], &read["delivered"]), (&json!(2), &json!(2)), "{name}");
        let words = format!("{name}.json {PRESET} --store sqlite:{name}-small.db --memory 64MB");
        let read = ingest(&folder, &words, SMALL_LIMIT, 65);
        assert_eq!(read["dead_letters"], json!({ "oversize": 1 }), "{name}");
        let letter = &letters(&folder, &format!("{name}-small.db"))[0];
        assert!(letter.value_bytes > LARGE && letter.sha256.is_some(), "{name}");
    }
}

#[test]
fn an_array_of_100_mb_is_split_within_the_memory() {
    let folder = Folder::new();
    let mut out = create(&folder, "many.json");
    out.write_all(b"{\n\"locations\": [\n").unwrap();
    let (mut bytes, mut count) = (0, 0_u64);
    while bytes < LARGE {
        let feature = feature(u32::try_from(count % 60).unwrap());
        let mark = if count == 0 { "" } else { ",\n" };
        out.write_all(format!("{mark}{feature}").as_bytes()).unwrap();
        bytes += (mark.len() + feature.len()) as u64;
        count += 1;
    }
    out.write_all(b"\n]\n}\n").unwrap();
    drop(out);
    let read = ingest(&folder, &format!("many.json {PRESET}"), LIMIT, 0);
    assert_eq!((&read["applied"], &read["duplicates"]), (&json!(60), &json!(count - 60)));
}

#[test]
fn brackets_that_never_close_are_one_dead_letter() {
    let folder = Folder::new();
    for (name, head, byte) in [
        ("arrays", "{\n\"locations\": ", b'['),
        ("objects", "{\n\"locations\": [\n{\"a\":", b'['),
        ("quotes", "{\n\"locations\": [\n\"", b'\\'),
    ] {
        let file = format!("{name}.json");
        write_filled(create(&folder, &file), [head, ""], byte, LARGE);
        for (memory, limit) in [("512MB", LIMIT), ("64MB", SMALL_LIMIT)] {
            let words = format!("{file} {PRESET} --store sqlite:{name}-{memory}.db");
            let read = ingest(&folder, &format!("{words} --memory {memory}"), limit, 65);
            let reasons = read["dead_letters"].as_object().unwrap();
            assert_eq!(reasons.values().collect::<Vec<_>>(), [&json!(1)], "{name}: {read}");
        }
    }
}

/// The points of a GPX file, with text before them and inside the second.
fn gpx(doctype: &str, inside: &str) -> [String; 2] {
    let point = |minute: u32, inside: &str| {
        format!(
            "<trkpt lat=\"52.{minute:02}\" lon=\"13.4\"><time>2026-11-20T22:{minute:02}:00Z</time>\
             {inside}"
        )
    };
    let head = format!("<?xml version=\"1.0\"?>{doctype}<gpx><trk><trkseg>");
    let tail = format!("</trkpt>{}</trkpt></trkseg></trk></gpx>", point(2, ""));
    [format!("{head}{}</trkpt>{}", point(0, ""), point(1, inside)), tail]
}

#[test]
fn entities_of_xml_are_never_expanded() {
    let folder = Folder::new();
    // Each entity is ten of the one before: a gigabyte, if they were expanded.
    let entity = |nth: u32| match nth {
        0 => "<!ENTITY a0 \"aaaaaaaaaa\">".into(),
        nth => format!("<!ENTITY a{nth} \"{}\">", format!("&a{};", nth - 1).repeat(10)),
    };
    let bomb = format!("<!DOCTYPE gpx [{}]>", (0..9).map(entity).collect::<String>());
    let secret = folder.path("secret");
    folder.write("secret", "the secret");
    let external = format!("<!DOCTYPE gpx [<!ENTITY a8 SYSTEM \"file://{}\">]>", secret.display());
    for (name, doctype) in [("bomb", bomb), ("external", external)] {
        for inside in ["<name>&a8;</name>", "<speed>&a8;</speed>"] {
            let text = gpx(&doctype, inside).concat();
            folder.write("log.gpx", text);
            let store = format!("sqlite:{name}-{}.db", inside.len());
            let words = format!("log.gpx --map device_id==van-1 --store {store} --memory 64MB");
            let read = ingest(&folder, &words, SMALL_LIMIT, 0);
            assert_eq!(read["dead_letters"], json!({ "bad_record": 1 }), "{name}: {inside}");
            assert_eq!(read["applied"], 2, "{name}: {inside}");
            let listed = folder.run(&format!("dlq ls --json --store {store}")).ends(0);
            assert!(!String::from_utf8_lossy(&listed.stdout).contains("the secret"), "{listed}");
        }
    }
}

#[test]
fn a_point_of_100_mb_is_one_dead_letter() {
    let folder = Folder::new();
    for (name, opening, byte, reason) in [
        ("text", "<name>", b'x', "oversize"),
        ("markup", "<name>", b'<', "oversize"),
        // A quote or a comment that does not end takes the rest of the file.
        ("tag", "<name a=\"", b'x', "truncated_input"),
        ("comment", "<!--", b'-', "truncated_input"),
    ] {
        let [before, after] = gpx("", opening);
        let file = format!("{name}.gpx");
        write_filled(create(&folder, &file), [&before, &after], byte, LARGE);
        let words = format!("{file} --map device_id==van-1 --store sqlite:{name}.db --memory 64MB");
        let is_whole = reason == "oversize";
        let read = ingest(&folder, &words, SMALL_LIMIT, if is_whole { 0 } else { 65 });
        assert_eq!(read["applied"], if is_whole { 2 } else { 1 }, "{name}: {read}");
        assert_eq!(read["dead_letters"], json!({ reason: 1 }), "{name}");
    }
    // A million elements, one in the other.
    let nested = "<a>".repeat(1_000_000);
    folder.write("nested.gpx", gpx("", &nested).concat());
    let words = "nested.gpx --map device_id==van-1 --store sqlite:nested.db --memory 64MB";
    let read = ingest(&folder, words, SMALL_LIMIT, 0);
    assert_eq!((&read["applied"], &read["delivered"]), (&json!(2), &json!(3)), "{read}");
}

#[test]
fn a_sentence_of_100_mb_is_one_dead_letter() {
    let folder = Folder::new();
    let rmc = |minute: u32| {
        let body = format!("GPRMC,22{minute:02}00,A,5230.0,N,01324.0,E,10.0,90.0,201126,,");
        let sum = body.bytes().fold(0, |sum, byte| sum ^ byte);
        format!("${body}*{sum:02X}\r\n")
    };
    let head = format!("{}$GPRMC,", rmc(0));
    let tail = format!("\r\n{}", rmc(1));
    write_filled(create(&folder, "log.nmea"), [&head, &tail], b'9', LARGE);
    let read = ingest(&folder, "log.nmea --map device_id==van-1 --memory 64MB", SMALL_LIMIT, 0);
    assert_eq!(read["applied"], 2, "{read}");
    assert_eq!(read["dead_letters"], json!({ "oversize": 1 }));
}
