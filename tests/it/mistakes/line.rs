//! Mistakes in the command line itself.

use super::{check, typed};

#[test]
fn numbers_below_the_least() {
    check(&[
        typed("trips truck-17 --limit -1", 2, ["'--limit <N>'", "'-1'", "number of at least 1"]),
        typed("trips truck-17 --limit 0", 2, ["'--limit <N>'", "'0'", "number of at least 1"]),
        typed("trips truck-17 --limit many", 2, ["'--limit <N>'", "'many'", "whole number"]),
        typed("dlq ls --limit -1", 2, ["'--limit <N>'", "'-1'", "number of at least 1"]),
        typed("dlq ls --limit 0", 2, ["'--limit <N>'", "'0'", "number of at least 1"]),
        typed("verify log --limit -1", 2, ["'--limit <N>'", "'-1'", "number of at least 0"]),
        typed("ingest log --max-gap -5m", 2, ["--max-gap: ", "`-5m`", "such as 90s"]),
        typed("ingest log --memory -1", 2, ["--memory: ", "`-1`", "such as"]),
        typed("ingest log --max-samples -1", 2, ["--max-samples: ", "`-1`", "at least 0"]),
        typed(
            "forget truck-17 --before -1 --yes",
            2,
            ["before 1970", "1969-12-31T23:59", "no trip"],
        ),
    ]);
}

#[test]
fn words_of_other_programs() {
    check(&[
        typed("ls", 2, ["unrecognized subcommand", "'ls'", "`tstar trips DEVICE` trips"]),
        typed("help looup", 2, ["unrecognized subcommand", "'looup'", "exists: 'lookup'"]),
        typed("looup truck-17", 2, ["unrecognized subcommand", "'looup'", "exists: 'lookup'"]),
        typed("completions powershll", 2, ["invalid value", "'powershll'", "exists: 'powershell'"]),
        typed(
            "demo --listen 127.0.0.1:1",
            2,
            ["unexpected", "'--listen'", "TSTAR_LISTEN=127.0.0."],
        ),
        typed("ingest", 2, ["were not provided", "<FILE>", "`tstar ingest -` stdin"]),
        typed("inspect", 2, ["nothing to inspect", "--topic TOPIC", "name files, - for stdin"]),
    ]);
    // The tip of clap, `-- --colour`, does not help either.
    let ran = super::run(&super::imported(), "devices --colour red").ends(2);
    assert!(!ran.stderr.contains("tip: to pass"), "{ran}");
}
