//! The store: its servers, its tables, its rows.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::CheckResult;
use crate::model::scalar::Version;
use crate::ops::row_check::RowCheck;
use crate::store::skip::REPAIR;
use crate::store::{AnyStore, SideTables as _, StoreError};

/// Rows to check; the last page may exceed it.
const MAX_ROWS: usize = 10_000;

/// Rows to decode.
const MAX_DECODED: usize = 1000;

/// Maximum difference of a server's clock without a warning, ms.
const MAX_SKEW_MS: i64 = 1000;

/// Checks the store itself: its file or its servers, and some rows, or all if the check is `deep`.
pub(super) async fn check(store: &AnyStore, clock: fn() -> i64, is_deep: bool) -> Vec<CheckResult> {
    let mut results = Vec::new();
    if let Some(store) = store.embedded() {
        results.push(match store.is_sound(is_deep) {
            Ok(None) => CheckResult::ok("file", "SQLite finds no fault in it"),
            Ok(Some(fault)) => CheckResult::fail(
                "file",
                format!("SQLite finds: {fault}"),
                "rebuild it from its log: tstar rebuild, or ingest into another file",
            ),
            Err(error) => CheckResult::failed("file", &error.into()),
        });
    }
    let before_ms = clock();
    match store.health().await {
        Err(error) => results.push(CheckResult::failed("servers", &error.into())),
        Ok(Some(health)) => {
            results.push(CheckResult::ok("servers", health.server));
            // The server read its clock between the request and the answer, which may be slow.
            let between = before_ms..=clock().max(before_ms);
            results.push(check_server_clock(skew(health.clock_ms, &between)));
            let notes = health.notes.into_iter();
            results.extend(notes.map(|(note, fix)| CheckResult::warn("schema", note, fix)));
        }
        Ok(None) => {}
    }
    match check_rows(store, is_deep).await {
        Ok(of_rows) => results.extend(of_rows),
        Err(error) => results.push(CheckResult::failed("rows", &error.into())),
    }
    results
}

fn check_server_clock(skew_ms: i64) -> CheckResult {
    let detail = format!("{skew_ms} ms from this machine's");
    if skew_ms.abs() > MAX_SKEW_MS {
        let fix = "keep all clocks in step (NTP): a new epoch takes its base from one";
        CheckResult::warn("server clock", detail, fix)
    } else {
        CheckResult::ok("server clock", detail)
    }
}

/// Difference of a clock that was read at some time within a span of the own clock, ms.
fn skew(clock_ms: i64, span: &RangeInclusive<i64>) -> i64 {
    clock_ms - clock_ms.clamp(*span.start(), *span.end())
}

/// Checks versions and partitions of the first rows, and decodes some of them.
async fn check_rows(store: &AnyStore, is_deep: bool) -> Result<Vec<CheckResult>, StoreError> {
    let mut decoded = RowCheck::new(store).await?;
    let newest = store.epochs().await?.last().map_or(0, |epoch| epoch.base.get());
    let (mut checked, mut foreign, mut from) = (0, 0_usize, None);
    let mut partitions: HashMap<String, i32> = HashMap::new();
    let mut mixed = None;
    loop {
        let (rows, next) = store.raw_rows(None, from).await?;
        checked += rows.len();
        for row in rows {
            let Some(version) = row.version() else {
                foreign += 1;
                continue;
            };
            if is_deep || decoded.rows < MAX_DECODED {
                decoded.add(&row);
            }
            if let (true, Some(partition)) = (version >= Version(newest), row.partition()) {
                let first = *partitions.entry(row.device_id.clone()).or_insert(partition);
                if first != partition {
                    mixed.get_or_insert((row.device_id, first, partition));
                }
            }
        }
        if next.is_none() || (checked >= MAX_ROWS && !is_deep) {
            break;
        }
        from = next;
    }
    Ok(vec![
        match foreign {
            0 => CheckResult::ok("rows", format!("{checked} looked at, each with a version")),
            _ => CheckResult::fail(
                "rows",
                format!(
                    "{foreign} of {checked} looked at have no version: another program wrote them"
                ),
                "stop that program, then: tstar verify; tstar rebuild --into another store",
            ),
        },
        match decoded.fault() {
            None => {
                let detail = format!("{} decoded, each the trip of its path", decoded.rows);
                CheckResult::ok("paths", detail)
            }
            Some(fault) => CheckResult::fail("paths", fault, REPAIR),
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
