//! The figures that the README states, and its demo.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tstar::internals::model::time::parse_time;

use crate::cli::Folder;
use crate::docs::run;
use crate::page::browser::Browser;
use crate::terminal::OnTerminal;

#[test]
fn a_late_fleet_has_the_figures_that_the_readme_states() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = "tstar simulate --mix 46,34,19,1 --devices 50 --samples 200000 --seed 17";
    let commands = format!("{fleet} > late.ndjson && tstar ingest late.ndjson --format table");
    let shown = run(&commands, folder.path());
    let share = |name: &str| {
        let line = shown.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no line of {name} in:\n{shown}"));
        line.trim_end().trim_end_matches(" %").rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    for (name, percent) in [
        ("extended its end", 46.0),
        ("fell inside", 34.0),
        ("extended its beginning", 19.0),
        ("joined it to another", 1.0),
        ("device + t_star", 1.0),
        ("device + start ", 20.0),
        ("device + end", 47.0),
        ("device + start + end", 66.0),
    ] {
        assert!((share(name) - percent).abs() < 0.05, "{name}: {}", share(name));
    }
}

#[test]
fn the_demo_shows_a_merged_trip_and_a_split_one() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run("tstar demo", folder.path());
    for words in ["joined it to another", "retired", "has split a trip", "has kept its id"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let again = run("tstar demo", folder.path());
    assert_eq!(shown, again, "the demo is created from scratch each time");
}

#[test]
fn the_demo_drives_on_and_late_bursts_join_and_split_trips() {
    let folder = Folder::new();
    folder.write("tstar.toml", "listen = \"127.0.0.1:0\"\n");
    let mut demo = OnTerminal::start(&folder, "demo");
    let mut line = String::new();
    while !line.contains("listening on ") {
        line = demo.next().expect("it serves its page");
    }
    let url = line.split("listening on ").nth(1).unwrap().to_owned();
    let (mut merged, mut split) = (None, None);
    while merged.is_none() || split.is_none() {
        let line = demo.next().expect("it drives on until it is interrupted");
        let ids = || line.split([' ', ',']).filter(|word| word.contains('~')).map(str::to_owned);
        if line.contains("late samples have joined two trips") {
            merged = Some(ids().collect::<Vec<_>>());
        } else if line.contains("a late sample has split a trip") {
            split = Some(ids().collect::<Vec<_>>());
        }
    }
    let found = |id: &str| {
        folder.run(&format!("trip {id} --store sqlite:tstar-demo.db --json")).ends(0).json()
    };
    let merged = merged.unwrap();
    let [retired, id] = &merged[..] else { panic!("{merged:?}") };
    let by_retired = found(retired);
    assert_eq!((&by_retired["match"], &by_retired["id"]), (&json!("retired"), &json!(id)));
    let split = split.unwrap();
    let [kept, new] = &split[..] else { panic!("{split:?}") };
    let after = found(new);
    assert_eq!((&found(kept)["id"], &after["id"]), (&json!(kept), &json!(new)));
    // It is at the present: samples come at most hours late.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let end_ms = parse_time(after["end_time"].as_str().unwrap()).unwrap();
    assert!((0..12 * 3_600_000).contains(&(now_ms - end_ms)), "{after}");
    if let Some(browser) = Browser::start() {
        browser.goto(&url);
        browser.until_count(".device", 50);
        browser.until("document.querySelector('#fleet-map canvas.leaflet-tile-loaded') !== null");
        browser.until_says("#device-list", "Moving");
        browser.picture("demo");
    }
    demo.interrupt();
    demo.ends(0);
}
