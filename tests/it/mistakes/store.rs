//! Stores that are not there, not readable, or built otherwise.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use super::{check, imported, run, typed};
use crate::cli::Ran;

#[test]
fn other_stores() {
    check(&[
        typed(
            "restore nofile.db",
            74,
            ["does not exist", "`nofile.db`", "a copy that `tstar backup` made"],
        ),
        typed(
            "restore nofile.db --check",
            74,
            ["does not exist", "`nofile.db`", "a copy that `tstar backup` made"],
        ),
        typed(
            "ingest log --max-gap 10m",
            78,
            [
                "built with other rules",
                "max_gap: the store has 5m, requested 10m",
                "`tstar rebuild --into` with these rules as flags",
            ],
        ),
        typed(
            "ingest log --stop-speed 1.5",
            78,
            [
                "built with other rules",
                "stop_speed: the store has 0.5, requested 1.5",
                "`tstar rebuild --into` with these rules as flags",
            ],
        ),
        typed(
            "verify",
            2,
            ["built from files", "`sqlite:trips.db`", "name all that were imported: log"],
        ),
        typed(
            "rebuild --into sqlite:n.db",
            2,
            ["built from files", "`sqlite:trips.db`", "name all that were imported: log"],
        ),
        // What was advised for other rules, without them.
        typed(
            "rebuild log --into sqlite:n.db",
            0,
            ["no rule is given", "`sqlite:n.db`", "gets those of `sqlite:trips.db`"],
        ),
        typed(
            "explain truck-17~20240501T080000.000Z --log",
            2,
            ["built from files", "`sqlite:trips.db`", "imported: log"],
        ),
        typed(
            "trips x --store sqlite://log",
            78,
            ["not a tstar store", "`log`", "use another --store"],
        ),
        typed(
            "export --out a.parquet --format csv",
            2,
            ["not have a suffix of format csv", "`--out a.parquet`", "leave out --format"],
        ),
    ]);
}

#[test]
fn a_folder_in_the_place_of_the_store() {
    let folder = imported();
    fs::create_dir(folder.path("d.db")).unwrap();
    for words in ["trips truck-17", "ingest log", "restore d.db"] {
        let ran = run(&folder, &format!("{words} --store sqlite:d.db"));
        ran.ends(78).says(&["not a tstar store", "`d.db`", "it is a folder; use another --store"]);
    }
}

#[test]
fn a_store_of_another_user() {
    let folder = imported();
    let store = folder.path("trips.db");
    fs::set_permissions(folder.dir.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&store, Permissions::from_mode(0o000)).unwrap();
    let mut command = folder.command("trips truck-17");
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let ran = Ran::new("trips truck-17", command.output().unwrap()).ends(74);
    let says = ["may not be read by this user", "has mode 0000", "run tstar as a user who may"];
    ran.says(&says);
}

#[test]
fn a_forget_of_a_store_that_is_written() {
    let folder = imported();
    let lock = File::create(folder.path("trips.db-lock")).unwrap();
    lock.lock().unwrap();
    let ran = folder.run("forget truck-17 --yes").ends(74).prints_nothing();
    assert!(!ran.stderr.contains("erasing"), "{ran}");
    ran.says(&["locked by another writer", "`trips.db`", "wait for it to end, or stop it"]);
    lock.unlock().unwrap();
    folder.run("forget truck-17 --yes").ends(0).says(&["erasing the trips of device `truck-17`"]);
}

#[test]
fn counts_of_a_rebuild_add_up() {
    let folder = imported();
    let ran = folder.run("rebuild log --into sqlite:n.db --max-gap 3m").ends(0).json();
    let count = |name: &str| ran[name].as_u64().unwrap();
    assert_eq!((count("old_trips"), count("new_trips")), (1, 3));
    assert_eq!((count("ids_kept"), count("ids_revived"), count("ids_minted")), (1, 1, 1));
    let back = "rebuild log --store sqlite:n.db --into sqlite:b.db --max-gap 5m --format table";
    let table = folder.text(back);
    let line = |name: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok());
        number.unwrap_or_else(|| panic!("no {name} in {table}"))
    };
    assert_eq!(line("ids of old trips"), line("kept") + line("retired") + line("not minted again"));
    assert_eq!(line("ids of old trips"), 3);
}

#[test]
fn a_long_delay_is_in_days() {
    let folder = imported();
    let words = "explain truck-17~20240501T080000.000Z log --format table";
    let table = folder.text(words);
    let row = table.lines().find(|line| line.contains("new")).unwrap();
    let late = row.split_whitespace().find(|cell| cell.contains('d') && cell.ends_with('s'));
    let (days, rest) =
        late.and_then(|late| late.split_once('d')).unwrap_or_else(|| panic!("{table}"));
    assert!(days.parse::<u32>().is_ok_and(|days| days > 365), "{table}");
    assert!(
        rest.split('h').next().is_some_and(|hours| hours.parse::<u8>().unwrap() < 24),
        "{table}"
    );
}

#[test]
fn files_that_are_not_to_be_replaced() {
    check(&[
        typed(
            "export --out trips.db --format csv",
            2,
            ["is a database, such as a store", "`trips.db`", "name another file"],
        ),
        typed(
            "export --out trips.db-wal --format csv",
            74,
            ["it belongs to the store", "trips.db`", "name another file"],
        ),
        typed(
            "backup trips.db-lock",
            74,
            ["it belongs to the store", "`trips.db`", "name another file"],
        ),
    ]);
    // Another store, while a process writes to it, or ended before it could.
    let folder = imported();
    folder.run("ingest log --store sqlite:other.db").ends(0);
    let lock = File::open(folder.path("other.db-lock")).unwrap();
    lock.lock().unwrap();
    let ran = folder.run("backup other.db");
    ran.ends(74).says(&["locked by another writer", "`other.db`", "wait for it to end"]);
    lock.unlock().unwrap();
    fs::write(folder.path("other.db-wal"), "of a process that was killed").unwrap();
    let ran = folder.run("backup other.db");
    ran.ends(78).says(&["`other.db-wal` is in the way of the copy", "move it away"]);
    fs::remove_file(folder.path("other.db-wal")).unwrap();
    folder.run("backup other.db").ends(0);
}
