//! What records would change in a store, if they came now.

use serde::Serialize;
use tstar::kafka::topic::OffsetRange;
use tstar::model::epoch::{Epoch, Log, Versions};
use tstar::ops::verify::reference::Workspace;
use tstar::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use tstar::source::Batch;
use tstar::store::{AnyStore, DeviceScope, EmbeddedStore, Order, Overlay, StoreError, TripStore};

use super::file_records::Lines;
use crate::cli::devices::PAGE;

/// Trips of a device that are looked at together.
const TOGETHER: usize = 256;

/// What would change.
#[derive(Debug, Serialize)]
pub struct Change {
    /// Trips that there are not.
    trips_new: u64,
    /// Trips that there are, and that would have more samples.
    trips_grown: u64,
    /// Ids of trips that there are, and that merges would retire.
    ids_retired: u64,
}

/// The version of the first record that is yet to come, or one above.
fn first_version(epochs: &[Epoch], extents: &[OffsetRange]) -> i64 {
    let end = |(partition, extent): (i32, &OffsetRange)| {
        Versions::of_partition(epochs, partition).version_at(extent.next)
    };
    (0..).zip(extents).map(end).max().unwrap_or(0)
}

/// Lets a processor decide on the lines over the store. Returns what became of them, and of trips.
pub async fn what_would_change(
    store: &AnyStore,
    (epochs, extents): (&[Epoch], &[OffsetRange]),
    lines: &mut Lines<'_, AnyStore>,
    room: Workspace<'_>,
    watch: impl FnMut(&Batch, &SampleCounts),
) -> anyhow::Result<(SampleCounts, Change)> {
    let newest = epochs.last().expect("there is an epoch");
    let over = room.store(&newest.rules, false)?;
    let base = first_version(epochs, extents);
    let start_offsets = [(0, 0)].into();
    let then = Epoch { base, partitions: 1, start_offsets, ..newest.clone() };
    let log = Log { partition: 0, versions: Versions::of_partition(&[then], 0) };
    let overlay = Overlay { under: store, over: &over, partition: 0 };
    let pace = ProcessorConfig { loads: 32, ..room.pace() };
    let mut processor = Processor::of_log(&overlay, log, &newest.rules, pace).await?;
    processor.run(lines, watch).await?;
    if let Some(error) = lines.failed.take() {
        return Err(error.into());
    }
    let counts = processor.counts().clone();
    drop(processor);
    let change = changed(&over, store, base).await?;
    Ok((counts, change))
}

/// What stands in a store that took all changes from a version on.
async fn changed(over: &EmbeddedStore, under: &AnyStore, base: i64) -> Result<Change, StoreError> {
    let mut change = Change { trips_new: 0, trips_grown: 0, ids_retired: 0 };
    let mut after: Option<String> = None;
    loop {
        let devices = over.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
        after = devices.last().cloned();
        if after.is_none() {
            return Ok(change);
        }
        for device in devices {
            let mut from_ms = i64::MIN;
            loop {
                let rows = over.range(&device, from_ms, i64::MAX, Order::Asc, TOGETHER).await?;
                let Some(last) = rows.last() else { break };
                from_ms = last.end_ms + 1;
                for row in rows {
                    match row.minted >= base {
                        true => change.trips_new += 1,
                        false => change.trips_grown += u64::from(row.version >= base),
                    }
                    let merged = row.absorbed.iter().filter(|&(_, &version)| version >= base);
                    for (&t_star_ms, _) in merged {
                        let there = under.covering(&device, t_star_ms).await?;
                        let is_there = there.is_some_and(|trip| trip.t_star_ms == t_star_ms);
                        change.ids_retired += u64::from(is_there);
                    }
                }
            }
        }
    }
}
