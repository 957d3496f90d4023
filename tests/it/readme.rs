//! The figures that the README states.

use crate::docs::run;

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
