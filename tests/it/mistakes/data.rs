//! Data in other names, units and orders than they are read in.

use super::{check, typed};
use crate::cli::Folder;

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
