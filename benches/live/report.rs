//! The figures of all runs as a table.

use std::path::Path;
use std::time::Duration;

use crate::run::{Figures, StreamsFigures};
use crate::table;

const HEAD: [&str; 13] = [
    "program",
    "samples",
    "tstar us a sample",
    "replayed",
    "times",
    "CQL server",
    "replayed",
    "broker",
    "Kafka Streams, times tstar",
    "rows a sample, replayed",
    "bytes to CQL a sample",
    "lookups; store; feed: s p50/p99",
    "MiB; load",
];

/// The row of a run.
pub fn row(program: &Path, figures: &Figures) -> [String; 13] {
    let [live, replayed] = figures.daemon_us;
    let some = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let [cql, broker] = figures.servers_us.map(some);
    let streams = figures.streams.as_ref().map_or_else(
        || "-".into(),
        |streams| format!("{:.1}, {:.2}", streams.cpu_us, streams.cpu_us / live),
    );
    let [rows, rows_replayed] = figures.rows;
    let [rss, rss_after] = figures.rss_mib;
    let [lookups, store, feed] = figures.freshness.each_ref().map(|times| freshness(times));
    [
        program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        table::grouped(figures.samples),
        format!("{live:.1}"),
        format!("{replayed:.1}"),
        format!("{:.1}", live / replayed),
        cql,
        some(figures.replay_cql_us),
        broker,
        streams,
        format!("{rows:.3}, {rows_replayed:.4}"),
        some(figures.bytes),
        format!("{lookups}; {store}; {feed}"),
        format!("{rss}-{rss_after}; {}", figures.load),
    ]
}

/// Median and 99th percentile of sorted times.
fn freshness(times: &[Duration]) -> String {
    let at = |percent: usize| {
        let nth = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(nth).map_or(0.0, Duration::as_secs_f64)
    };
    format!("{:.1}/{:.1}", at(50), at(99))
}

/// What a run of Kafka Streams did.
pub fn streams(figures: &StreamsFigures) -> String {
    let StreamsFigures { trips, behind, .. } = figures;
    format!(
        "- Kafka Streams: {} samples not committed at the start of the measured time, {} at its \
         end; {} trips, of tstar {}",
        behind[0], behind[1], trips[0], trips[1],
    )
}

/// The table of all runs so far.
pub fn table(rows: &[[String; 13]]) -> String {
    format!(
        "{}\n\n- CPU is user and system time of all threads, us a sample; `replayed`: the same \
         program and topic, from the first record into an empty keyspace\n- freshness: from the \
         time that a sample is sent until a lookup by HTTP finds it, a row contains it, an event \
         of the feed contains it; the resolution is an eighth, or 0.1 s\n- MiB: resident memory at \
         the start and the end of the measured time; load: average of a minute at its end",
        table::table(HEAD, rows),
    )
}
