//! The metrics of a run over a real topic, compared with its summary.

use tstar::internals::telemetry::{Kind, TABLE};

use super::{Scrape, get, labels_of, metric_of};
use crate::cli::{Folder, number};
use crate::faults::until;
use crate::servers::free_port;
use crate::topic::file::until_read;
use crate::topic::{Topic, drain, start};

/// Every metric has its type, help and labels, and no label is a device.
fn is_whole(scrape: &Scrape) {
    for metric in TABLE {
        let name = metric.name;
        let kind = scrape.types.get(name).unwrap_or_else(|| panic!("no {name}:\n{}", scrape.text));
        assert_eq!(kind, metric.kind.name(), "{name}");
        assert!(scrape.text.contains(&format!("# HELP {name} {}\n", metric.help)), "{name}");
    }
    for value in &scrape.values {
        let metric = metric_of(&value.name).unwrap_or_else(|| panic!("{value:?} is in no table"));
        let mut labels: Vec<&str> = value.labels.keys().map(String::as_str).collect();
        labels.retain(|label| *label != "le");
        assert!(labels.iter().copied().eq(labels_of(metric)), "{value:?}");
        assert!(metric.kind == Kind::Gauge || value.value >= 0.0 || value.name.ends_with("_sum"));
        for (label, text) in &value.labels {
            assert!(!text.contains("truck"), "{label} of {value:?} is a device");
        }
    }
}

#[test]
fn a_run_exposes_every_metric_and_counts_what_its_summary_says() {
    let Some(topic) = Topic::new(4) else { return };
    let folder = Folder::new();
    let fleet = "simulate --mix 46,34,19,1 --devices 20 --samples 20000 --seed 5 --bad 0.01";
    let mut lines = folder.run(fleet).ends(0).stdout;
    let zero = r#"{"device_id":"van","time":"2025-01-02T00:00:00Z","lat":0,"lon":0}"#;
    lines.extend(format!("{zero}\n").into_bytes());
    topic.send_lines(&lines, "no-device");
    let address = format!("127.0.0.1:{}", free_port());
    let words =
        format!("run {} --store sqlite:t.db --from earliest --listen {address}", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    // Requests over HTTP are counted, too, once they are answered.
    until("a first answer", || get(&address, "/metrics"));
    until("the store to answer", || get(&address, "/readyz"));
    get(&address, "/v1/trips/lookup?device=unknown&at=2024-05-01T08:00:00Z");
    let scrape = until("the lag to be shown", || {
        let scrape = Scrape::fetch(&address)?;
        (scrape.all("tstar_kafka_consumer_lag").len() == 4).then_some(scrape)
    });
    let summary = drain(running, &words).ends(0).json();
    is_whole(&scrape);

    let count = |value: &serde_json::Value| u32::try_from(number(value)).unwrap().into();
    let samples = |result| scrape.sum("tstar_samples_total", Some(("result", result)));
    let delivered: f64 = count(&summary["delivered"]);
    assert_eq!(scrape.sum("tstar_samples_total", None), delivered);
    for position in ["new", "end", "inside", "beginning", "merge"] {
        assert_eq!(samples(position), count(&summary["arrivals"][position]), "{position}");
    }
    assert_eq!(samples("duplicate"), count(&summary["duplicates"]));
    for (metric, position, key) in [
        ("tstar_dead_letters_total", "dead", "dead_letters"),
        ("tstar_samples_dropped_total", "dropped", "dropped"),
    ] {
        let by_reason = summary[key].as_object().unwrap();
        assert!(!by_reason.is_empty(), "{key}");
        for (reason, found) in by_reason {
            assert_eq!(scrape.sum(metric, Some(("reason", reason))), count(found), "{reason}");
        }
        assert_eq!(scrape.sum(metric, None), samples(position), "{key}");
    }
    assert_eq!(scrape.sum("tstar_trips_created_total", None), samples("new"));
    assert_eq!(scrape.sum("tstar_trip_merges_total", None), count(&summary["ids_retired"]));

    let applied: f64 = count(&summary["applied"]);
    let observed = scrape.sum("tstar_sample_delay_seconds_count", None);
    assert!(observed >= applied / 64.0 && observed <= applied / 64.0 + 4.0, "{observed}");
    let commits = Some(("op", "commit"));
    let commits = scrape.sum("tstar_store_operation_duration_seconds_count", commits);
    assert!(commits >= 1.0 && commits <= count(&summary["flushes"]), "{commits}");
    for (partition, end) in topic.ends(4) {
        let partition = partition.to_string();
        let label = Some(("partition", partition.as_str()));
        assert_eq!(scrape.sum("tstar_kafka_committed_offset", label), f64::from(end as i32));
        assert_eq!(scrape.sum("tstar_kafka_consumer_lag", label), 0.0);
        assert_eq!(scrape.sum("tstar_kafka_consumer_lag_seconds", label), 0.0);
    }
    assert_eq!(scrape.sum("tstar_store_errors_total", None), 0.0);
    assert!(scrape.sum("tstar_state_bytes", None) > 0.0);
    let last = scrape.sum("tstar_last_record_processed_timestamp_seconds", None);
    let started = scrape.sum("process_start_time_seconds", None);
    assert!(last >= started - 1.0 && last < started + 600.0, "{last} {started}");
}
