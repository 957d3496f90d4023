//! Records of other systems in a topic, with their keys.

use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;

use super::{Topic, drain, start};
use crate::cli::Folder;
use crate::faults::until;
use crate::formats::{comparable, expected};
use crate::support::data;

/// Records of a file with a record in each line: key, tab, value.
fn records(name: &str) -> Vec<ProducerRecord> {
    let text = std::fs::read_to_string(data("formats").join(name)).unwrap();
    let record = |line: &str| {
        let (key, value) = line.split_once('\t').unwrap();
        let (key, value) = (Some(key.into()), value.into());
        ProducerRecord { key, value, ..ProducerRecord::default() }
    };
    text.lines().map(record).collect()
}

#[test]
fn every_topic_gives_the_reference_trips() {
    let (vans, vins) = (["van-1", "van-2"], ["5YJ3E1EA0PF000001", "5YJ3E1EA0PF000002"]);
    for (file, preset, devices, has_driver) in [
        ("traccar/kafka.tsv", "traccar", vans, true),
        ("traccar/kafka-epoch-ms.tsv", "traccar", vans, true),
        ("traccar/kafka-offset-0000.tsv", "traccar", vans, true),
        ("owntracks/mqtt-to-kafka.tsv", "owntracks", vans, false),
        ("mqtt-bridge/emqx.tsv", "emqx", vans, false),
        ("hfp/mqtt-to-kafka.tsv", "hfp", vans, false),
        ("nammayatri/kafka.tsv", "namma-yatri", vans, false),
        ("tesla/kafka-V-decoded.tsv", "tesla", vins, false),
    ] {
        let Some(topic) = Topic::new(1) else { return };
        let folder = Folder::new();
        topic.send(&records(file));
        let flags = topic.flags();
        let words = format!("run {flags} --store sqlite:t.db --from earliest --preset {preset}");
        let running = start(&folder, &words);
        let expected = expected(devices, has_driver);
        until("the reference trips", || {
            let exported = folder.run("export --store sqlite:t.db");
            let trips = if exported.code == Some(0) { exported.objects() } else { vec![] };
            (comparable(trips) == expected).then_some(())
        });
        let summary = drain(running, &words).ends(0).json();
        assert_eq!(
            (&summary["applied"], &summary["duplicates"]),
            (&json!(14), &json!(1)),
            "{file}"
        );
        folder.run(&format!("verify --store sqlite:t.db --brokers {}", topic.brokers)).ends(0);
    }
}

#[test]
fn traps_of_traccar_are_no_trips() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    topic.send(&records("traccar/traps.tsv"));
    let words = format!(
        "run {} --store sqlite:t.db --from earliest --preset traccar --max-gap 10m",
        topic.flags()
    );
    let running = start(&folder, &words);
    until("the trip", || {
        let exported = folder.run("export --store sqlite:t.db");
        let trips = if exported.code == Some(0) { exported.objects() } else { vec![] };
        trips.iter().any(|trip: &Value| trip["samples"] == 2).then_some(())
    });
    let summary = drain(running, &words).ends(0).json();
    // No fix; the last fix again; from the buffer; an event, whose position came before.
    assert_eq!((&summary["applied"], &summary["skipped"]), (&json!(2), &json!(1)), "{summary}");
    assert_eq!(summary["dropped"], json!({"bad_fix": 1}));
}
