use std::collections::BTreeSet;

use super::*;

#[test]
fn names_contain_type_and_unit_and_no_label_is_a_device() {
    let names: BTreeSet<_> = TABLE.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), TABLE.len());
    for metric in TABLE {
        let Metric { name, kind, unit, labels, help, .. } = metric;
        assert!(name.starts_with("tstar_") || name.starts_with("process_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert_eq!(name.contains("_seconds"), *unit == metrics::Unit::Seconds, "{name}");
        assert_eq!(name.contains("_bytes"), *unit == metrics::Unit::Bytes, "{name}");
        assert!(!labels.iter().any(|label| label.contains("device")), "{name}: {labels:?}");
        assert!(help.ends_with('.') && !help.contains(['\n', '\\', '"']), "{name}: {help}");
    }
}

#[test]
fn counters_of_a_daemon_are_registered_with_zero() {
    let recorder = builder().unwrap().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        describe();
        register_counters();
        counter!(SAMPLES, "result" => "merge").increment(2);
        histogram!(SAMPLE_DELAY).record(-5.0);
        histogram!(SAMPLE_DELAY).record(200_000.0);
        histogram!(STORE_OPERATION_DURATION, "op" => "rows_of_day")
            .record(Duration::from_micros(300));
    });
    let text = handle.render();
    for line in [
        "# TYPE tstar_samples_total counter",
        "tstar_samples_total{result=\"merge\"} 2",
        "tstar_samples_total{result=\"new\"} 0",
        "tstar_dead_letters_total{reason=\"truncated_input\"} 0",
        "tstar_samples_dropped_total{reason=\"forgotten\"} 0",
        "tstar_kafka_rebalances_total 0",
        "tstar_feed_records_ignored_total 0",
        "tstar_store_errors_total{kind=\"retried\"} 0",
        "tstar_last_record_processed_timestamp_seconds 0",
        "# TYPE tstar_sample_delay_seconds histogram",
        "tstar_sample_delay_seconds_bucket{le=\"0\"} 1",
        "tstar_sample_delay_seconds_bucket{le=\"172800\"} 1",
        "tstar_sample_delay_seconds_bucket{le=\"345600\"} 2",
        "tstar_store_operation_duration_seconds_bucket{op=\"rows_of_day\",le=\"0.00025\"} 0",
        "tstar_store_operation_duration_seconds_bucket{op=\"rows_of_day\",le=\"0.0005\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "no `{line}` in\n{text}");
    }
    for metric in TABLE.iter().filter(|it| text.contains(&format!("# TYPE {} ", it.name))) {
        assert!(text.contains(&format!("# HELP {} {}\n", metric.name, metric.help)), "{text}");
    }
}
