//! SIGINT and SIGTERM.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use super::{EACH_BATCH, Outcome, Running, Work, delivered, until};
use crate::cli::{Folder, Ran, minutes, number, sum};

const SIGNALS: [(&str, i32); 2] = [("INT", 130), ("TERM", 143)];

/// The messages and the summary of a stopped run.
#[track_caller]
fn is_stopped(folder: &Folder, ran: Ran, store: &str) -> Value {
    let ran = ran.says(&[
        "a second signal",
        "stopped by SIG",
        "what was read is stored",
        "rerun to continue",
    ]);
    let summary = ran.json();
    let count = |name: &str| number(&summary[name]);
    assert_eq!(delivered(&folder.path(store)), Some(count("delivered").cast_signed()));
    assert_eq!(folder.trips(store).len() as u64, count("trips"));
    let kept: u64 = folder.trips(store).iter().map(|trip| number(&trip["samples"])).sum();
    assert_eq!(kept, count("applied"));
    let letters = folder.run(&format!("dlq ls --store sqlite:{store}")).ends(0).objects();
    let dead: u64 = letters.iter().map(|letter| number(&letter["count"])).sum();
    assert_eq!(dead, sum(&summary["dead_letters"]));
    summary
}

#[test]
fn a_stopped_import_has_stored_what_it_counts_and_resumes() {
    let work = Work::new(60_000);
    for (name, code) in SIGNALS {
        let store = format!("{name}.db");
        let words = work.import(&store);
        let path = work.folder.path(&store);
        // On a busy machine a run may end before its signal arrives.
        let stopped = until("a run that a signal meets", || {
            work.folder.remove_store(&store);
            let mut running = Running::start(&mut work.folder.command(&words));
            until("the first flush", || {
                let begun = delivered(&path).is_some_and(|now| now > 0);
                (begun || running.has_ended()).then_some(())
            });
            running.signal(name);
            let ran = running.ran(&words);
            (ran.code != Some(0)).then_some(ran)
        });
        let summary = is_stopped(&work.folder, stopped.ends(code), &store);
        assert!(number(&summary["delivered"]).cast_signed() < work.expected.delivered);
        let rest = work.folder.run(&words).ends(0).says(&["by an earlier run; continuing"]).json();
        let both = number(&summary["delivered"]) + number(&rest["delivered"]);
        assert_eq!(both.cast_signed(), work.expected.delivered);
        work.is_whole(&store);
    }
}

#[test]
fn what_a_pipe_brought_before_it_fell_silent_is_stored() {
    let folder = Folder::new();
    // Long enough for the first samples to arrive.
    let words = "ingest - --json --flush-interval 300ms";
    let mut running = Running::start(folder.command(words).stdin(Stdio::piped()));
    let mut stdin = running.child().stdin.take().unwrap();
    stdin.write_all(minutes("truck-17", &[0, 2, 6]).as_bytes()).unwrap();
    until("three records", || (delivered(&folder.path("trips.db"))? == 3).then_some(()));
    assert!(!running.has_ended());
    drop(stdin);
    running.ran(words).ends(0);
}

#[test]
fn a_signal_ends_a_run_that_waits_for_a_silent_pipe() {
    for (name, code) in SIGNALS {
        let folder = Folder::new();
        let words = format!("ingest - --json {EACH_BATCH}");
        let mut running = Running::start(folder.command(&words).stdin(Stdio::piped()));
        let mut stdin = running.child().stdin.take().unwrap();
        stdin.write_all(minutes("truck-17", &[0, 2, 6]).as_bytes()).unwrap();
        stdin.write_all(b"no sample\n").unwrap();
        until("four records", || (delivered(&folder.path("trips.db"))? == 4).then_some(()));
        running.signal(name);
        let summary = is_stopped(&folder, running.ran(&words).ends(code), "trips.db");
        assert_eq!((&summary["delivered"], &summary["applied"]), (&4.into(), &3.into()));
        drop(stdin);
        // A pipe cannot be resumed: its content is always new.
        folder.write("more", minutes("truck-17", &[8, 10]));
        let more = folder.run_from("ingest - --json", "more").ends(0).json();
        assert_eq!((&more["delivered"], &more["applied"]), (&2.into(), &2.into()));
        folder.write("log", minutes("truck-17", &[0, 2, 6]) + "no sample\n");
        folder.ingest("log more --store sqlite:whole.db");
        let whole = Outcome::load(&folder, "whole.db");
        let found = Outcome::load(&folder, "trips.db");
        assert_eq!(found.delivered, whole.delivered);
        assert!(found.trips == whole.trips, "other trips");
    }
}
