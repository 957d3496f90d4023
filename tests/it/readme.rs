//! The figures that the README states.

use crate::docs::run;

#[test]
fn the_demo_shows_the_figures_that_the_readme_states() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run("tstar demo", folder.path());
    let share = |name: &str| {
        let line = shown.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no line of {name} in:\n{shown}"));
        line.trim_end().trim_end_matches(" %").rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    for (name, percent) in [
        ("extended its end", 46.0),
        ("fell inside", 34.0),
        ("extended its beginning", 19.0),
        ("joined two trips", 1.0),
        ("device + t_star", 1.0),
        ("device + start ", 20.0),
        ("device + end", 47.0),
        ("device + start + end", 66.0),
    ] {
        assert!((share(name) - percent).abs() < 0.05, "{name}: {}", share(name));
    }
    assert!(shown.contains("retired"), "{shown}");
    let again = run("tstar demo", folder.path());
    assert_eq!(shown, again, "the demo is created from scratch each time");
}
