//! Runs every example of every command's help.

use super::Folder;
use super::input::gzip;
use crate::keyspace::Keyspace;

/// A folder in which the examples succeed.
fn prepared() -> Folder {
    let mut folder = Folder::new();
    // The times of the examples may lie ahead of the test machine's clock.
    folder.env("TSTAR_MAX_FUTURE", "36500d");
    let sample = |time: &str| {
        format!(
            "{{\"device_id\":\"truck-17\",\"time\":\"2026-11-20T21:{time}Z\",\
             \"lat\":52.5,\"lon\":13.4,\"speed\":8.5,\"heading\":90}}\n"
        )
    };
    // The first to arrive gives the trip its id.
    let times = ["38:00.123", "38:00", "38:30.500"].map(sample).concat();
    folder.write("day1.ndjson.gz", gzip(format!("{times}no sample\n").as_bytes()));
    let table = "vehicle,time,lat,lon,speed\nvan-2,2026-11-20T09:00:00Z,52.5,13.4,36\n";
    folder.write("day1.csv", table);
    let summary = folder.ingest("day1.ndjson.gz");
    assert_eq!((&summary["applied"], &summary["trips"]), (&3.into(), &1.into()));
    let explain = "explain truck-17~20261120T213800.123Z day1.ndjson.gz --evidence";
    folder.write("trip.json", folder.run(explain).ends(0).stdout);
    // For the examples that show and remove tags, which come before those that set them.
    folder.run("tag truck-17~20261120T213800.123Z purpose=private seen=yes").ends(0);
    folder
}

/// The commands that a help lists, without clap's own.
fn commands(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then_some(name)
    });
    names.collect()
}

/// Collects the examples of a command and its subcommands; counts the commands that do something.
fn collect(folder: &Folder, command: &str, found: &mut Vec<String>, leaves: &mut usize) {
    let help = folder.text(&format!("{command} --help"));
    let below = commands(&help);
    let list = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let examples: Vec<_> = list.take_while(|line| line.starts_with("  ")).collect();
    assert!(!examples.is_empty() || !below.is_empty(), "`{command}` has no examples\n{help}");
    found.extend(examples.iter().filter_map(|line| line.strip_prefix("  tstar ")).map(Into::into));
    *leaves += usize::from(below.is_empty());
    for name in below {
        collect(folder, format!("{command} {name}").trim(), found, leaves);
    }
}

/// An example with its address replaced by that of a running server.
fn at(example: &str, url: &str) -> String {
    let word =
        |word: &str| if word.starts_with("scylla://") { url.into() } else { word.to_owned() };
    example.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Whether an example needs a topic, or runs until it is stopped: the tests of `topic`, `http` and
/// `outage` run such commands.
fn wants_more(example: &str) -> bool {
    let first = example.split(' ').next();
    matches!(first, Some("run" | "serve" | "epoch" | "replay"))
        || example.contains("--brokers")
        || example.contains(" positions ")
}

#[test]
fn every_example_of_the_help_succeeds() {
    let folder = prepared();
    let (mut examples, mut leaves) = (Vec::new(), 0);
    collect(&folder, "", &mut examples, &mut leaves);
    examples.sort();
    examples.dedup();
    // Fewer would mean that the help is no longer parsed correctly.
    assert!(leaves >= 17 && examples.len() >= 35, "{leaves} commands, {examples:#?}");
    let before = examples.len();
    examples.retain(|example| !wants_more(example));
    assert!(before > examples.len(), "those of `run` are gone");
    // Commands that erase come last.
    examples.sort_by_key(|example| example.starts_with("forget"));
    let (served, alone): (Vec<_>, Vec<_>) =
        examples.iter().cloned().partition(|example| example.contains("scylla://"));
    let keyspace = Keyspace::bare();
    let served = keyspace.iter().flat_map(|keyspace| {
        let url = keyspace.url.to_string();
        served.iter().map(move |example| at(example, &url))
    });
    for example in alone.into_iter().chain(served) {
        let ran = folder.run(&example).ends(0);
        let mut words = example.split(' ');
        match words.find(|word| *word == "--out").and(words.next()) {
            Some(file) if folder.path(file).is_file() => {
                assert!(!folder.read(file).is_empty(), "{file} is empty\n{ran}");
            }
            _ => assert!(!ran.stdout.is_empty(), "an example that prints nothing\n{ran}"),
        }
    }
    println!("{} examples of {leaves} commands", examples.len());
}
