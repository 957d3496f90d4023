//! Where a run begins, and that it starts without a port that is taken.

use std::net::TcpListener;

use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::time::parse_time;
use tstar::internals::store::SideTables;
use tstar::internals::store::sqlite::SqliteStore;

use super::file::until_read;
use super::{PARTITIONS, Topic, drain, records, start};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::support::block_on;

/// Samples of truck-1, each with its minute as the timestamp of its record.
fn timed(of: &[u32]) -> Vec<ProducerRecord> {
    let minute_ms = |minute: &u32| parse_time(&format!("2024-05-01T08:{minute:02}:00Z")).unwrap();
    let records = records(minutes("truck-1", of).as_bytes(), "truck-1");
    let timed = records
        .into_iter()
        .zip(of)
        .map(|(record, minute)| ProducerRecord { timestamp_ms: Some(minute_ms(minute)), ..record });
    timed.collect()
}

#[test]
fn a_new_store_begins_where_from_says() {
    let Some(topic) = Topic::with(PARTITIONS, &[("retention.ms", "-1")]) else { return };
    let folder = Folder::new();
    topic.send(&timed(&[1, 2, 3, 4]));
    for (from, minute, read) in [
        ("latest", 5, 1),
        ("2024-05-01T08:03:00Z", 6, 4),
        ("2024-05-01T08:02:59.999Z", 7, 5),
        ("2024-05-01T09:00:00Z", 8, 1),
        ("earliest", 9, 9),
    ] {
        let name = format!("{minute}.db");
        let words = format!("run {} --store sqlite:{name} --from {from}", topic.flags());
        let running = start(&folder, &words);
        until("an epoch", || {
            let store = SqliteStore::open_reader(&folder.path(&name)).ok()?;
            block_on(store.epochs()).ok().filter(|epochs| !epochs.is_empty())
        });
        topic.send(&timed(&[minute]));
        until_read(&folder, &name, &topic);
        let summary = drain(running, &words).ends(0).json();
        assert_eq!(summary["delivered"], read, "--from {from}: {summary}");
    }
}

#[test]
fn only_a_run_that_asks_for_a_port_ends_if_it_is_taken() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    topic.send(&timed(&[1]));
    let words = |name: &str| format!("run {} --store sqlite:{name} --from earliest", topic.flags());
    let mut names = (1..).map(|nth| format!("{nth}.db"));
    let ran = until("a start that finds the default port taken", || {
        // If it cannot be bound, another program holds it, and may release it before the start.
        let _held = TcpListener::bind("127.0.0.1:8080");
        let name = names.next()?;
        let running = start(&folder, &words(&name));
        until_read(&folder, &name, &topic);
        let ran = drain(running, &words(&name));
        ran.stderr.contains("continuing without HTTP: ").then_some(ran)
    });
    assert_eq!(ran.ends(0).json()["applied"], 1);
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    folder.run(&format!("{} --listen {address}", words("t.db"))).ends(74).says(&[address.as_str()]);
}
