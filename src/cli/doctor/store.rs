//! The store: its servers, its tables, its rows.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use tstar::store::raw::RawRows;
use tstar::store::{AnyStore, EpochStore, StoreError};

use super::CheckResult;
use crate::cli::flags::clock_ms;

/// Rows that are looked at, at most.
const ROWS: usize = 10_000;

/// A server's clock that differs by more is told of, ms.
const MAX_SKEW_MS: i64 = 1000;

/// Looks at a store.
pub(super) async fn inspect(reader: &AnyStore) -> Vec<CheckResult> {
    let mut findings = Vec::new();
    if let Some(store) = reader.embedded() {
        findings.push(match store.is_sound() {
            Ok(None) => CheckResult::ok("file", "SQLite finds no fault in it"),
            Ok(Some(fault)) => CheckResult::fail(
                "file",
                format!("SQLite finds: {fault}"),
                "rebuild it from its log: tstar rebuild, or ingest into another file",
            ),
            Err(error) => CheckResult::failed("file", &error.into()),
        });
    }
    let before_ms = clock_ms();
    match reader.health().await {
        Err(error) => findings.push(CheckResult::failed("servers", &error.into())),
        Ok(Some(health)) => {
            findings.push(CheckResult::ok("servers", health.server));
            // Read between the request and the answer, which a busy server delays.
            let between = before_ms..=clock_ms().max(before_ms);
            let skew = skew(health.clock_ms, &between);
            findings.push(if skew.abs() > MAX_SKEW_MS {
                CheckResult::warn(
                    "server clock",
                    format!("{skew} ms from this machine's"),
                    "keep all clocks in step (NTP): a new epoch takes its base from one",
                )
            } else {
                CheckResult::ok("server clock", format!("{skew} ms from this machine's"))
            });
            let notes = health.notes.into_iter();
            findings.extend(notes.map(|(note, fix)| CheckResult::warn("schema", note, fix)));
        }
        Ok(None) => {}
    }
    let rows = sample(reader).await;
    match rows {
        Ok(of) => findings.extend(of),
        Err(error) => findings.push(CheckResult::failed("rows", &error.into())),
    }
    findings
}

/// By how much a clock, read at some time of a span, differs from the one that the span is of.
fn skew(clock_ms: i64, span: &RangeInclusive<i64>) -> i64 {
    clock_ms - clock_ms.clamp(*span.start(), *span.end())
}

/// Looks at some rows.
async fn sample<S: RawRows + EpochStore>(store: &S) -> Result<Vec<CheckResult>, StoreError> {
    let newest = store.epochs().await?.last().map_or(0, |epoch| epoch.base);
    let (mut seen, mut foreign, mut from) = (0, 0_usize, None);
    let mut partitions: HashMap<String, i32> = HashMap::new();
    let mut mixed = None;
    loop {
        let (rows, next) = store.raw_rows(None, from).await?;
        seen += rows.len();
        for row in rows {
            let Some(version) = row.version() else {
                foreign += 1;
                continue;
            };
            if let (true, Some(partition)) = (version >= newest, row.partition()) {
                let first = *partitions.entry(row.device_id.clone()).or_insert(partition);
                if first != partition {
                    mixed.get_or_insert((row.device_id, first, partition));
                }
            }
        }
        if next.is_none() || seen >= ROWS {
            break;
        }
        from = next;
    }
    Ok(vec![
        match foreign {
            0 => CheckResult::ok("rows", format!("{seen} looked at, each with a version")),
            _ => CheckResult::fail(
                "rows",
                format!(
                    "{foreign} of {seen} looked at have no version: another program wrote them"
                ),
                "stop that program, then: tstar verify; tstar rebuild --into another store",
            ),
        },
        match mixed {
            None => CheckResult::ok("partitioner", "no device in two partitions of one epoch"),
            Some((device, one, two)) => CheckResult::fail(
                "partitioner",
                format!("device `{device}` has trips of partitions {one} and {two} in one epoch"),
                "make all producers use one partitioner (Java's default, or librdkafka's \
                 murmur2_random), then: tstar epoch new",
            ),
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::skew;

    #[test]
    fn a_slow_answer_is_no_skew() {
        let slow = 10_000..=15_000;
        assert_eq!([10_000, 12_345, 15_000].map(|clock_ms| skew(clock_ms, &slow)), [0; 3]);
        assert_eq!([9_000, 17_000].map(|clock_ms| skew(clock_ms, &slow)), [-1_000, 2_000]);
    }
}
