//! Mistakes in the settings file.

use super::{check, typed};

const CHECK: &str = "config check a.toml";

#[test]
fn text_without_quotes() {
    check(&[
        typed(
            CHECK,
            78,
            [
                "a.toml:1: ",
                "`127.0.0.1:9092` is not in quotes",
                "write brokers = \"127.0.0.1:9092\"",
            ],
        )
        .with(&[("a.toml", "brokers = 127.0.0.1:9092\n")]),
        typed(CHECK, 78, ["a.toml:2: ", "`5m` is not in quotes", "write max_gap = \"5m\""])
            .with(&[("a.toml", "# rules\nmax_gap = 5m  # short\n")]),
        typed(CHECK, 78, ["a.toml:1: ", "`none` is not in quotes", "write time_zone = \"none\""])
            .with(&[("a.toml", "time_zone = none\n")]),
        typed(
            CHECK,
            78,
            [
                "a.toml:1: ",
                "`device_id=x,lat=y` is not in quotes",
                "write map = \"device_id=x,lat=y\"",
            ],
        )
        .with(&[("a.toml", "map = device_id=x,lat=y\n")]),
        typed(
            CHECK,
            78,
            ["a.toml:1: ", "`sqlite:a.db` is not in quotes", "write store = \"sqlite:a.db\""],
        )
        .with(&[("a.toml", "store: sqlite:a.db\n")]),
        typed(CHECK, 78, ["a.toml:1: ", "invalid basic string", "expected `\"`"])
            .with(&[("a.toml", "store = \"a.db\n")]),
        typed(CHECK, 78, ["a.toml:1: ", "`yes` is not true or false", "insecure = false"])
            .with(&[("a.toml", "insecure = yes\n")]),
        typed(CHECK, 78, ["a.toml:1: ", "`100k` is not a whole number", "max_samples = 100000"])
            .with(&[("a.toml", "max_samples = 100k\n")]),
        typed(CHECK, 78, ["a.toml:1: ", "`max_gpa`", "did you mean `max_gap`?"])
            .with(&[("a.toml", "max_gpa = \"5m\"\n")]),
    ]);
    // Each line once, and no value of a line that is not TOML.
    let folder = crate::cli::Folder::with(
        "a.toml",
        "map = device_id=x,lat=y\nstore = \"a.db\nmax_gap = 5\n",
    );
    let ran = folder.run(CHECK).ends(78);
    assert_eq!(ran.stderr.matches("a.toml:").count(), 3, "{ran}");
    // An option may be a secret.
    let folder = crate::cli::Folder::with("a.toml", "kafka = sasl.password=hunter2\n");
    let ran = folder.run(CHECK).ends(78).says(&["a.toml:1: kafka: not TOML"]);
    assert!(!ran.stderr.contains("hunter2"), "{ran}");
}
