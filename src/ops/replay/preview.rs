//! Previews what samples would change in a store if they arrived now.

use std::sync::Arc;

use serde::Serialize;

use super::file_records::FileRecords;
use super::overlay::Overlay;
use crate::kafka::topics::OffsetRange;
use crate::log::device_partition::PartitionFinder;
use crate::log::reference::Workspace;
use crate::model::epoch::{Epoch, LogPartition, Versions};
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use crate::source::Batch;
use crate::store::{AnyStore, DevicePages, DeviceScope, Kinds, Order, StoreError, TripStore};

/// Number of trips of a device in one page.
const TRIPS_PER_PAGE: usize = 256;

/// How many trips samples would change. Others parse it as JSON: names and order are fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TripChanges {
    /// Trips that do not exist yet.
    pub trips_new: u64,
    /// Trips that exist, and would have more samples.
    pub trips_grown: u64,
    /// Ids of existing trips that merges would retire.
    pub ids_retired: u64,
}

/// Applies the samples to an overlay of the store that finds partitions; the topic has these
/// offsets, by partition. Returns the counts of samples and of trips.
///
/// # Errors
/// The files or the store cannot be read, or the workspace cannot be written.
pub(super) async fn preview_changes(
    (finder, offsets): (&PartitionFinder<'_>, &[OffsetRange]),
    records: &mut FileRecords<'_>,
    workspace: Workspace<'_>,
    watch: impl FnMut(&Batch, &SampleCounts),
) -> anyhow::Result<(SampleCounts, TripChanges)> {
    let newest = finder.epochs.last().expect("there is an epoch");
    let over = Arc::new(workspace.store(&newest.rules, false)?);
    let any = AnyStore::from(Arc::clone(&over));
    // Above the versions of all records of the log.
    let end = |(partition, range): (i32, &OffsetRange)| {
        Versions::of_partition(&finder.epochs, partition).version_at(Offset(range.next))
    };
    let base = (0..).zip(offsets).map(end).max().unwrap_or(Version(0));
    let start_offsets = [(0, 0)].into();
    let preview_epoch = Epoch { base, partitions: 1, start_offsets, ..newest.clone() };
    let versions = Versions::of_partition(&[preview_epoch], 0);
    let overlay = Overlay { under: finder.store, over: &any, partition: 0 };
    let config = ProcessorConfig { loads: 32, ..workspace.processor_config() };
    let preview_log = LogPartition { partition: 0, versions };
    let stores = (&overlay, &*over);
    let mut processor = Processor::of_log(stores, preview_log, &newest.rules, config).await?;
    processor.run(records, watch).await?;
    if let Some(error) = records.store_error.take() {
        return Err(error.into());
    }
    let counts = processor.counts().clone();
    drop(processor);
    let changes = count_changes(&any, finder.store, base).await?;
    Ok((counts, changes))
}

/// Counts the trips of `over` that were written at `base` or a later version.
async fn count_changes(
    over: &AnyStore,
    under: &AnyStore,
    base: Version,
) -> Result<TripChanges, StoreError> {
    let mut changes = TripChanges::default();
    let mut pages = DevicePages::new(over, DeviceScope::All);
    while let Some(devices) = pages.next().await? {
        for device in devices {
            let mut from_ms = DeviceTime::MIN;
            loop {
                let rows = over
                    .range(
                        &device,
                        Kinds::Trips,
                        from_ms,
                        DeviceTime::MAX,
                        Order::Asc,
                        TRIPS_PER_PAGE,
                    )
                    .await?;
                let Some(last) = rows.last() else { break };
                from_ms = last.end_ms + 1;
                for row in rows {
                    match row.minted() >= base {
                        true => changes.trips_new += 1,
                        false => changes.trips_grown += u64::from(row.version >= base),
                    }
                    let merged = row.absorbed().filter(|&(_, version)| version >= base);
                    for (t_star_ms, _) in merged {
                        let existing = under.covering(&device, t_star_ms).await?;
                        let exists = existing.is_some_and(|trip| trip.t_star_ms == t_star_ms);
                        changes.ids_retired += u64::from(exists);
                    }
                }
            }
        }
    }
    Ok(changes)
}
