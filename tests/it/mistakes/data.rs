//! Data in other names, units and orders than they are read in.

use super::{check, typed};
use crate::cli::Folder;

const SAMPLE: &str =
    "{\"device_id\":\"a\",\"time\":\"2024-05-01T08:00:00Z\",\"lat\":1,\"lon\":2}\n";

/// A table of `lat,lon` of a device, a row each 10 s.
macro_rules! table {
    ($($row:literal)*) => {
        concat!("device_id,time,lat,lon,speed\n", $("v,2024-05-01T08:0", $row, "\n",)*)
    };
}

const E7: &str = table!("0:00Z,521234567,135000000," "0:10Z,521244567,135000000,");
const E6: &str = table!("0:00Z,52123456,13500000,");
const SWAPPED: &str = table!("0:00Z,151.2,-33.9,");
/// In the middle of Europe both orders are valid.
const PARTLY_SWAPPED: &str =
    table!("0:00Z,13.5,52.1," "0:10Z,13.5,52.1," "0:20Z,151.2,-33.9," "0:30Z,13.5,52.1,");
/// 15 m/s, and 54 km/h.
const KMH: &str = table!(
    "0:00Z,52.00000,13.5,54" "0:10Z,52.00135,13.5,54" "0:20Z,52.00270,13.5,54"
    "0:30Z,52.00405,13.5,54" "0:40Z,52.00540,13.5,54"
);
const REPEATED: &str = "device_id,time,lat,lon\nv,2026-10-25 02:30:00,52,13\n";
const MISSING: &str = "device_id,time,lat,lon\nv,2026-03-29 02:30:00,52,13\n";

#[test]
fn maps_and_presets() {
    check(&[
        typed(
            "ingest log --map 'device_id=vehicle lat=y'",
            2,
            ["no comma", "`device_id=vehicle lat=y`", "device_id=NAME,lat=y"],
        ),
        typed(
            "ingest log --map device_id:vehicle",
            2,
            ["is not FIELD=NAME", "`device_id:vehicle`", "device_id=vehicle,lat="],
        ),
        typed(
            "ingest log --preset GPX",
            2,
            ["not one of the presets", "`GPX`", "did you mean `gpx`?"],
        ),
        typed(
            "ingest log --preset tracar",
            2,
            ["not one of the presets", "`tracar`", "did you mean `traccar`?"],
        ),
        typed(
            "ingest log --preset Traccar-API",
            2,
            ["not one of the presets", "`Traccar-API`", "did you mean `traccar-api`?"],
        ),
    ]);
    // A name of a column may contain spaces, and a condition anything.
    let folder =
        Folder::with("a.csv", "Vehicle Name,time,lat,lon,k\nv,2024-05-01T08:00:00Z,1,2,a lat=1\n");
    let mut command = folder.command("ingest a.csv --json --map");
    let ended = command.arg("device_id=Vehicle Name,when=k=a lat=1").output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn coordinates() {
    check(&[
        typed(
            "ingest a.csv --store sqlite:n.db",
            65,
            ["outside of -90 to 90", "it would be 52.1234567", "divide lat and lon by 10000000"],
        )
        .with(&[("a.csv", E7)]),
        typed(
            "ingest a.csv --store sqlite:n.db",
            65,
            ["outside of -90 to 90", "it would be 52.123456:", "divide lat and lon by 1000000 "],
        )
        .with(&[("a.csv", E6)]),
        typed(
            "ingest a.csv --store sqlite:n.db",
            65,
            ["may be swapped", "`151.2`", "exchange them in --map"],
        )
        .with(&[("a.csv", SWAPPED)]),
        typed(
            "ingest a.csv --store sqlite:n.db",
            0,
            ["1 samples would be valid only", "lat is `151.2`", "exchanged in --map"],
        )
        .with(&[("a.csv", PARTLY_SWAPPED)]),
    ]);
    // One bad fix among many good ones does not show it.
    let good =
        (0..200).map(|nth| format!("v,2024-05-01T09:{:02}:{:02}Z,52,13,\n", nth / 60, nth % 60));
    let folder = Folder::with("a.csv", SWAPPED.to_owned() + &good.collect::<String>());
    let ran = folder.run("ingest a.csv --json").ends(0);
    assert!(!ran.text().contains("swapped"), "{ran}");
}

#[test]
fn units_and_zones() {
    check(&[
        typed(
            "ingest a.csv --store sqlite:n.db",
            0,
            ["read as mps", "are 3.6 times", "--speed-unit kmh"],
        )
        .with(&[("a.csv", KMH)]),
        typed(
            "ingest a.csv --store sqlite:n.db --time-zone Europe/Berlin",
            65,
            [
                "occurs twice in Europe/Berlin",
                "2026-10-25T00:30:00.000Z (by +02:00) or 2026-10-25T01:30:00.000Z (by +01:00)",
                "such as 2026-10-25T02:30:00+01:00",
            ],
        )
        .with(&[("a.csv", REPEATED)]),
        typed(
            "ingest a.csv --store sqlite:n.db --time-zone Europe/Berlin",
            65,
            [
                "does not exist in Europe/Berlin",
                "2026-03-29T01:30:00.000Z (by +01:00)",
                "such as 2026-03-29T02:30:00+02:00",
            ],
        )
        .with(&[("a.csv", MISSING)]),
        typed(
            "ingest a --store sqlite:n.db --time-zone berlin",
            2,
            ["not a time zone", "`berlin`", "Europe/Berlin"],
        )
        .with(&[("a", SAMPLE)]),
    ]);
    // As advised.
    let folder = Folder::with("a.csv", REPEATED.replace("25 02:30:00", "25T02:30:00+01:00"));
    folder.run("ingest a.csv --time-zone Europe/Berlin").ends(0);
    assert_eq!(folder.trips("trips.db")[0]["start_time"], "2026-10-25T01:30:00.000Z");
}
