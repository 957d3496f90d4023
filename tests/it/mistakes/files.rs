//! Files that are not what they should be.

use serde_json::Value;

use super::{check, imported, typed};
use crate::cli::Folder;

const GERMAN: &str = "Fahrzeug;Zeit;Breite;Länge\nB-MW 1;27.03.2026 06:04:00;48,137;11,57\n";

const TRACK: &str = "<gpx><trk><trkseg>\
    <trkpt lat=\"48.1\" lon=\"11.5\"><time>2024-05-01T08:00:00Z</time></trkpt>\
    </trkseg></trk></gpx>";

#[test]
fn other_files() {
    check(&[
        typed(
            "ingest https://x.org/a.csv",
            74,
            ["URLs are not read", "`https://x.org/a.csv`", "curl -fsSL"],
        ),
        typed(
            "ingest zero --store sqlite:n.db",
            65,
            ["NUL bytes", "`zero`", "name a file of NDJSON"],
        )
        .with(&[("zero", "\0\0\0\0\0\0\0\0\n\0\0\0\n")]),
        typed(
            "ingest de.csv --store sqlite:n.db",
            65,
            ["device_id is absent", "Fahrzeug;Zeit", "`tstar inspect de.csv`"],
        )
        .with(&[("de.csv", GERMAN)]),
        typed(
            "ingest titled.csv --store sqlite:n.db",
            65,
            ["device_id is absent", "`Report of May`", "remove the lines above the header"],
        )
        .with(&[("titled.csv", "Report of May\ndevice_id,time,lat,lon\n")]),
        typed("ingest empty", 0, ["no new record", "`empty`", "check that it is the right file"])
            .with(&[("empty", "")]),
        typed(
            "ingest a.gpx --preset gpx --map device_id=phone --store sqlite:n.db",
            65,
            ["device_id is absent", "no `phone`", "--map device_id==phone"],
        )
        .with(&[("a.gpx", TRACK)]),
    ]);
}

#[test]
fn random_bytes() {
    let folder = imported();
    folder.write(
        "random",
        (0..4000_u32).map(|n| (n * n / 7 + 200).to_le_bytes()[0]).collect::<Vec<_>>(),
    );
    let ran = folder.run("ingest random --store sqlite:n.db").ends(65);
    ran.says(&["not UTF-8", "`random`", "--encoding cp1252"]);
}

#[test]
fn what_the_answers_advise_works() {
    let folder = Folder::with("a.gpx", TRACK);
    folder.run("ingest a.gpx --preset gpx --map device_id==phone").ends(0);
    folder.write("empty", "");
    let summary = folder.ingest("empty --preset gpx --map device_id==phone");
    assert_eq!(summary["warnings"][0]["warning"], Value::from("no_records"));
    folder.write("de.csv", GERMAN);
    let inspected = folder.run("inspect de.csv");
    assert!(!inspected.text().contains("tstar inspect"), "{inspected}");
}
