//! Previews what samples would change in a store if they arrived now.

use std::sync::Arc;

use serde::Serialize;

use super::file_records::FileRecords;
use super::overlay::Overlay;
use crate::kafka::topic::OffsetRange;
use crate::log::reference::Workspace;
use crate::model::epoch::{Epoch, LogPartition, Versions};
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use crate::source::Batch;
use crate::store::{AnyStore, DeviceScope, Order, StoreError, TripStore};

/// Number of devices in one page.
const DEVICES_PER_PAGE: usize = 1000;

/// Number of trips of a device in one page.
const TRIPS_PER_PAGE: usize = 256;

/// How many trips samples would change. Others parse it as JSON: names and order are fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TripChanges {
    /// Trips that do not exist yet.
    pub trips_new: u64,
    /// Trips that exist, and would have more samples.
    pub trips_grown: u64,
    /// Ids of existing trips that merges would retire.
    pub ids_retired: u64,
}

/// The store of a preview, and the offsets of its log.
#[derive(Clone, Copy)]
pub(super) struct PreviewLog<'a> {
    /// The store; only read.
    pub store: &'a AnyStore,
    /// Every epoch of the log, oldest first; at least one.
    pub epochs: &'a [Epoch],
    /// Offsets of the topic, by partition.
    pub offsets: &'a [OffsetRange],
}

impl PreviewLog<'_> {
    /// A version above those of all records of the log.
    fn next_version(&self) -> Version {
        let end = |(partition, range): (i32, &OffsetRange)| {
            Versions::of_partition(self.epochs, partition).version_at(Offset(range.next))
        };
        (0..).zip(self.offsets).map(end).max().unwrap_or(Version(0))
    }
}

/// Applies the samples to an overlay of the store. Returns the counts of samples and of trips.
///
/// # Errors
/// The files or the store cannot be read, or the workspace cannot be written.
pub(super) async fn preview_changes(
    log: PreviewLog<'_>,
    records: &mut FileRecords<'_, AnyStore>,
    workspace: Workspace<'_>,
    watch: impl FnMut(&Batch, &SampleCounts),
) -> anyhow::Result<(SampleCounts, TripChanges)> {
    let newest = log.epochs.last().expect("there is an epoch");
    let over = Arc::new(workspace.store(&newest.rules, false)?);
    let any = AnyStore::from(Arc::clone(&over));
    let base = log.next_version();
    let start_offsets = [(0, 0)].into();
    let preview_epoch = Epoch { base, partitions: 1, start_offsets, ..newest.clone() };
    let versions = Versions::of_partition(&[preview_epoch], 0);
    let overlay = Overlay { under: log.store, over: &any, partition: 0 };
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
    let changes = count_changes(&any, log.store, base).await?;
    Ok((counts, changes))
}

/// Counts the trips of `over` that were written at `base` or a later version.
async fn count_changes(
    over: &AnyStore,
    under: &AnyStore,
    base: Version,
) -> Result<TripChanges, StoreError> {
    let mut changes = TripChanges::default();
    let mut after: Option<String> = None;
    loop {
        let devices = over.devices(DeviceScope::All, after.as_deref(), DEVICES_PER_PAGE).await?;
        after = devices.last().cloned();
        if after.is_none() {
            return Ok(changes);
        }
        for device in devices {
            let mut from_ms = DeviceTime::MIN;
            loop {
                let rows = over
                    .range(&device, from_ms, DeviceTime::MAX, Order::Asc, TRIPS_PER_PAGE)
                    .await?;
                let Some(last) = rows.last() else { break };
                from_ms = last.end_ms + 1;
                for row in rows {
                    match row.minted >= base {
                        true => changes.trips_new += 1,
                        false => changes.trips_grown += u64::from(row.version >= base),
                    }
                    let merged = row.absorbed.iter().filter(|&(_, &version)| version >= base);
                    for (&t_star_ms, _) in merged {
                        let existing = under.covering(&device, t_star_ms).await?;
                        let exists = existing.is_some_and(|trip| trip.t_star_ms == t_star_ms);
                        changes.ids_retired += u64::from(exists);
                    }
                }
            }
        }
    }
}
